/*
** tlua.h - tensors for Lua 5.4: the one public header.
**
** Whoever embeds tlua includes this file and links libtlua (and the Lua
** library that the program uses anyway). It is grouped by object; each
** function says what it does, how it fails, who owns what, and which thread
** may call it.
**
** Ownership.  A function that returns `tl_Tensor *` returns a new reference,
** which the caller releases with tl_tensor_release. Arguments are borrowed.
** Errors.     A function that can fail returns NULL or false and leaves a kind
** and one message in thread-local state: tl_error, tl_error_kind.
** NULL.       In place of a tensor it is never fatal: what can fail fails, the
** rest answers with nothing (0, NULL, false, TL_NODTYPE).
** Positions.  C counts dimensions and indices from 0, Lua from 1.
** Threads.    Reference counts are atomic. A tensor may be used by several
** threads as long as none of them writes to it meanwhile.
*/
#ifndef TLUA_H
#define TLUA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TL_VERSION "0.1.0"

#if defined(_WIN32)
#define TL_API __declspec(dllexport)
#else
#define TL_API __attribute__((visibility("default")))
#endif
#define TL_MUSTCHECK __attribute__((warn_unused_result))

/* The version of the library at run time, for comparison with TL_VERSION. */
TL_API const char *tl_version(void);

/* ------------------------------------------------------------------------
** Errors
** --------------------------------------------------------------------- */

/* X(name, text) */
#define TL_ERRORS(X)                        \
  X(OK, "no error")                         \
  X(EARG, "bad argument")                   \
  X(ESHAPE, "shapes do not fit")            \
  X(EDTYPE, "dtype does not fit")           \
  X(EDEVICE, "device does not fit")         \
  X(EINDEX, "index out of range")           \
  X(EMEM, "out of memory")                  \
  X(EAUTOGRAD, "automatic differentiation") \
  X(EIO, "input or output")                 \
  X(EINTERRUPT, "interrupted")              \
  X(EINTERNAL, "a fault of the library")

typedef enum tl_ErrorKind {
#define X(name, text) TL_##name,
  TL_ERRORS(X)
#undef X
} tl_ErrorKind;

/* The message of the calling thread's last failure, "" if there was none. It
** stays valid until the thread's next failure. */
TL_API const char *tl_error(void);
/* The kind of the calling thread's last failure. */
TL_API tl_ErrorKind tl_error_kind(void);

/* ------------------------------------------------------------------------
** Element types, devices, scalars
** --------------------------------------------------------------------- */

/* X(name, text, bytes, category, digits, exponent, ...): `digits` is how many
** bits a number has without its sign (of a float: of its significand), floats
** are less than 2 to the power of `exponent`; what follows is the caller's. A
** row and the conversions in core/kernel/element.h are all that a type needs. ORDER
** DTYPE: files and kernel tables may rely on the order, so a new type goes to
** the end; a build may add some of its own with TL_MORE_DTYPES. */
#define TL_DTYPES(X, ...)                            \
  X(F32, "float32", 4, FLOAT, 24, 128, __VA_ARGS__)  \
  X(F64, "float64", 8, FLOAT, 53, 1024, __VA_ARGS__) \
  X(F16, "float16", 2, FLOAT, 11, 16, __VA_ARGS__)   \
  X(BF16, "bfloat16", 2, FLOAT, 8, 128, __VA_ARGS__) \
  X(I8, "int8", 1, INT, 7, 0, __VA_ARGS__)           \
  X(I16, "int16", 2, INT, 15, 0, __VA_ARGS__)        \
  X(I32, "int32", 4, INT, 31, 0, __VA_ARGS__)        \
  X(I64, "int64", 8, INT, 63, 0, __VA_ARGS__)        \
  X(U8, "uint8", 1, INT, 8, 0, __VA_ARGS__)          \
  X(BOOL, "bool", 1, BOOL, 1, 0, __VA_ARGS__)        \
  TL_MORE_DTYPES(X, __VA_ARGS__)
#ifndef TL_MORE_DTYPES
#define TL_MORE_DTYPES(X, ...)
#endif

typedef enum tl_DType {
  TL_NODTYPE = -1, /* "not given" where a type is optional */
#define X(name, ...) TL_##name,
  TL_DTYPES(X, )
#undef X
      TL_NDTYPES
} tl_DType;

/* The name as Lua sees it, "float32"; "none" for TL_NODTYPE. */
TL_API const char *tl_dtype_name(tl_DType dtype);
/* Bytes of one element. */
TL_API size_t tl_dtype_size(tl_DType dtype);

/* X(name, text): a kind of device, "sim", of which there may be several, "sim:1". Tensors of the
** device "meta" have a shape, a dtype and strides, and no memory. */
#define TL_DEVICES(X) \
  X(CPU, "cpu")       \
  X(CUDA, "cuda")     \
  X(SIM, "sim")       \
  X(META, "meta")

typedef enum tl_DeviceType {
#define X(name, text) TL_##name,
  TL_DEVICES(X)
#undef X
      TL_NDEVICETYPES
} tl_DeviceType;

typedef struct tl_Device {
  int8_t type;  /* tl_DeviceType, or -1 for "not given" */
  int8_t index; /* 0 for the CPU */
} tl_Device;

/* A number as Lua has it: an integer, a float or a boolean. */
typedef enum tl_ScalarKind { TL_NONE, TL_BOOLEAN, TL_INTEGER, TL_FLOATING } tl_ScalarKind;

typedef struct tl_Scalar {
  tl_ScalarKind kind;
  union {
    int64_t i; /* TL_BOOLEAN, TL_INTEGER */
    double f;  /* TL_FLOATING */
  };
} tl_Scalar;

/* ------------------------------------------------------------------------
** Tensors
** --------------------------------------------------------------------- */

#define TL_MAX_DIMS 16

typedef struct tl_Tensor tl_Tensor;

/* Constructor. A tensor of `ndim` sizes with undefined contents on the CPU.
** NULL on a negative size, more than TL_MAX_DIMS dimensions, a size whose
** product overflows, or lack of memory. */
TL_API TL_MUSTCHECK tl_Tensor *tl_tensor_empty(tl_DType dtype, int ndim, const int64_t *sizes);

/* Constructor. A tensor over the caller's own memory, without a copy.
** The memory must hold the elements that sizes and strides describe (strides
** count elements; NULL: row-major) and stay valid until `release` is called,
** once, from whichever thread drops the last reference, views included.
** `release` may be NULL: then the caller outlives the tensor. NULL on bad
** sizes or strides; `release` has not been called then. */
TL_API TL_MUSTCHECK tl_Tensor *tl_tensor_wrap(void *data, tl_DType dtype, int ndim,
                                              const int64_t *sizes, const int64_t *strides,
                                              void (*release)(void *data, void *context),
                                              void *context);

/* A further reference to the same tensor; returns its argument, NULL for NULL. */
TL_API tl_Tensor *tl_tensor_retain(tl_Tensor *tensor);
/* Destructor: drops one reference. NULL is fine. */
TL_API void tl_tensor_release(tl_Tensor *tensor);

TL_API tl_DType tl_tensor_dtype(const tl_Tensor *tensor);
TL_API tl_Device tl_tensor_device(const tl_Tensor *tensor);
TL_API int tl_tensor_ndim(const tl_Tensor *tensor);
/* ndim sizes, borrowed from the tensor. */
TL_API const int64_t *tl_tensor_sizes(const tl_Tensor *tensor);
/* ndim strides in elements, borrowed from the tensor. */
TL_API const int64_t *tl_tensor_strides(const tl_Tensor *tensor);
TL_API int64_t tl_tensor_numel(const tl_Tensor *tensor);
/* Whether the elements lie in row-major order without gaps. */
TL_API bool tl_tensor_is_contiguous(const tl_Tensor *tensor);
/* The first element, borrowed. To be written to only by who knows that no
** graph has saved the tensor; NULL for an empty one. */
TL_API void *tl_tensor_data(const tl_Tensor *tensor);

/* Copies all elements, in row-major order and converted to `dtype`, to
** `buffer` of `bytes` bytes. False if the size is not exactly right. */
TL_API TL_MUSTCHECK bool tl_tensor_read(const tl_Tensor *tensor, tl_DType dtype, void *buffer,
                                        size_t bytes);

/* ------------------------------------------------------------------------
** DLPack
** --------------------------------------------------------------------- */

/* The structs of DLPack, by which libraries of arrays hand each other their memory
** without a copy: in Python behind the method __dlpack__. Their fields are in its
** header dlpack.h, which may be included before or after this one. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Constructor. The tensor's memory for another library, in DLPack's form from before
** version 1.0 ("dltensor" in Python). The caller, or whom he gives it to, calls its
** `deleter` once, from any thread; until then it holds a reference of its own.
** Waits for what the calling thread has asked the tensor's device for. What the
** other library writes is seen here, but no graph hears of it, as with tl_tensor_data.
** NULL for a device or dtype that DLPack has no name for, or on lack of memory. */
TL_API TL_MUSTCHECK struct DLManagedTensor *tl_tensor_to_dlpack(tl_Tensor *tensor);
/* The same in the form of version 1.0 ("dltensor_versioned"). */
TL_API TL_MUSTCHECK struct DLManagedTensorVersioned *
tl_tensor_to_dlpack_versioned(tl_Tensor *tensor);

/* Constructor. A tensor over another library's memory, on the CPU or a GPU, without a
** copy. It takes `managed` over and calls its deleter when the last reference is
** dropped, views included, from whichever thread does that. Work that is still to be
** done on the memory must have been waited for. NULL, with `managed` still the caller's,
** for a type of elements that there is no dtype for, another kind of device, strides
** below 0, memory that is not aligned to its elements, and, of the versioned form,
** memory that is marked as read-only and versions other than 1. */
TL_API TL_MUSTCHECK tl_Tensor *tl_tensor_from_dlpack(struct DLManagedTensor *managed);
TL_API TL_MUSTCHECK tl_Tensor *
tl_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed);

/* ------------------------------------------------------------------------
** Threads and memory
** --------------------------------------------------------------------- */

/* Sets how many threads an operator may use (1: no thread is ever started).
** False if n < 1. Holds for the whole process. */
TL_API TL_MUSTCHECK bool tl_set_num_threads(int n);
TL_API int tl_get_num_threads(void);

/* A host's own job system instead of tlua's threads: `run` must call
** task(context, i) for every 0 <= i < tasks, in any order and on any threads,
** and return when all are done. NULL restores the default. To be set before
** the first operator runs. */
TL_API void tl_set_parallel_run(void (*run)(int tasks, void (*task)(void *context, int i),
                                            void *context, void *user),
                                void *user);

/* Bytes of tensor memory now in use, and kept for reuse, on the CPU. */
TL_API int64_t tl_memory_used(void);
TL_API int64_t tl_memory_cached(void);
/* A limit on used bytes; past it allocations fail with TL_EMEM. 0: none. */
TL_API void tl_set_memory_limit(int64_t bytes);
/* Gives cached blocks back to the system. */
TL_API void tl_memory_trim(void);

/* Asks the running operator or backward pass of this process to stop with
** TL_EINTERRUPT at its next safe point. May be called from a signal handler;
** tl_interrupt_clear takes it back. */
TL_API void tl_interrupt(void);
TL_API void tl_interrupt_clear(void);

/* ------------------------------------------------------------------------
** Lua
** --------------------------------------------------------------------- */

typedef struct lua_State lua_State;

/* The library as a Lua module: leaves the table that `require "tlua"` gives.
** Use it as luaL_requiref(L, "tlua", luaopen_tlua, 0), or put it into
** package.preload. Raises a Lua error on lack of memory. */
TL_API int luaopen_tlua(lua_State *L);

/* Opens the library in an ordinary state and sets the global `torch`. The state
** needs Lua's libraries base, string, table, math and utf8; save and load need
** io. False, with a message in tl_error, on failure; never raises. */
TL_API TL_MUSTCHECK bool tl_lua_open(lua_State *L);

/* Pushes a tensor as a Lua value; the value holds a reference of its own.
** Raises a Lua error for NULL and on lack of memory, so call it from protected
** code. */
TL_API void tl_lua_push(lua_State *L, tl_Tensor *tensor);

/* The tensor at a stack index, borrowed from the Lua value; NULL when the
** value is no tensor or has been released. Never raises. */
TL_API tl_Tensor *tl_lua_to(lua_State *L, int index);

/* Works off garbage for at most about `microseconds`, for hosts that stop the
** collector and pay for it per frame. Returns true when a cycle was finished. */
TL_API bool tl_gc_step(lua_State *L, int microseconds);

#ifdef __cplusplus
}
#endif

#endif
