/*
** tlua.h - tensors for Lua 5.4: the one public header.
**
** Programs that embed tlua include this file and link libtlua (and the Lua library, which they use
** anyway). The functions are grouped by object; each comment says what the function does, how it
** fails, who owns the results, and which thread may call it.
**
** Ownership.  A function that returns `tl_Tensor *` returns a new reference,
** which the caller releases with tl_tensor_release. Arguments are borrowed.
** Errors.     A function that can fail returns NULL or false and leaves a kind
** and one message in thread-local state: tl_error, tl_error_kind.
** NULL.       A NULL tensor is never fatal: functions that can fail do so,
** others return nothing (0, NULL, false, TL_NODTYPE).
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

#define TL_VERSION "0.9.0"

#if defined(_WIN32)
#define TL_API __declspec(dllexport)
#else
#define TL_API __attribute__((visibility("default")))
#endif
#define TL_MUSTCHECK __attribute__((warn_unused_result))

/* Returns the version of the library at run time, for comparison with TL_VERSION. */
TL_API const char *tl_version(void);

/* ------------------------------------------------------------------------
** Errors
** --------------------------------------------------------------------- */

/* The kinds of errors, as X(name, text). */
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

/* Returns the message of the calling thread's last failure, or "" if there was none. The text stays
** valid until the thread's next failure. */
TL_API const char *tl_error(void);
/* Returns the kind of the calling thread's last failure. */
TL_API tl_ErrorKind tl_error_kind(void);

/* ------------------------------------------------------------------------
** Element types, devices, scalars
** --------------------------------------------------------------------- */

/* The dtypes, as X(name, text, bytes, category, digits, exponent, ...). `digits` is the number of
** bits without the sign (for a float, the bits of its significand). Floats are less than 2 to the
** power of `exponent`. The arguments after X in TL_DTYPES(X, ...) become the last arguments of X. A
** new dtype needs only an entry in this list and the conversions in core/kernel/element.h. ORDER
** DTYPE: files and kernel tables may rely on the order, so a new dtype goes to the end. A build may
** add dtypes with TL_MORE_DTYPES. Loops of kernels are built for each dtype of this list. */
#define TL_DTYPES(X, ...)                                   \
  X(F32, "float32", 4, FLOAT, 24, 128, __VA_ARGS__)         \
  X(F64, "float64", 8, FLOAT, 53, 1024, __VA_ARGS__)        \
  X(F16, "float16", 2, FLOAT, 11, 16, __VA_ARGS__)          \
  X(BF16, "bfloat16", 2, FLOAT, 8, 128, __VA_ARGS__)        \
  X(I8, "int8", 1, INT, 7, 0, __VA_ARGS__)                  \
  X(I16, "int16", 2, INT, 15, 0, __VA_ARGS__)               \
  X(I32, "int32", 4, INT, 31, 0, __VA_ARGS__)               \
  X(I64, "int64", 8, INT, 63, 0, __VA_ARGS__)               \
  X(U8, "uint8", 1, INT, 8, 0, __VA_ARGS__)                 \
  X(BOOL, "bool", 1, BOOL, 1, 0, __VA_ARGS__)               \
  X(C64, "complex64", 8, COMPLEX, 24, 128, __VA_ARGS__)     \
  X(C128, "complex128", 16, COMPLEX, 53, 1024, __VA_ARGS__) \
  TL_MORE_DTYPES(X, __VA_ARGS__)
#ifndef TL_MORE_DTYPES
#define TL_MORE_DTYPES(X, ...)
#endif

/* The dtypes for which kernels have no loops of their own. Tensors of these dtypes can be stored,
** moved and converted; a few operators convert them to other dtypes to compute. The fields are the
** same as in TL_DTYPES. Builds for inference alone lack these dtypes. */
#ifdef TLI_INFER
#define TL_STORED_DTYPES(X, ...)
#else
#define TL_STORED_DTYPES(X, ...)                              \
  X(F8E4M3, "float8_e4m3fn", 1, FLOAT, 4, 9, __VA_ARGS__)     \
  X(F8E5M2, "float8_e5m2", 1, FLOAT, 3, 16, __VA_ARGS__)      \
  X(F8E4M3Z, "float8_e4m3fnuz", 1, FLOAT, 4, 8, __VA_ARGS__)  \
  X(F8E5M2Z, "float8_e5m2fnuz", 1, FLOAT, 3, 16, __VA_ARGS__) \
  X(F8E8M0, "float8_e8m0fnu", 1, FLOAT, 1, 128, __VA_ARGS__)  \
  X(U16, "uint16", 2, INT, 16, 0, __VA_ARGS__)                \
  X(U32, "uint32", 4, INT, 32, 0, __VA_ARGS__)                \
  X(U64, "uint64", 8, INT, 64, 0, __VA_ARGS__)                \
  X(C32, "complex32", 4, COMPLEX, 11, 16, __VA_ARGS__)
#endif

typedef enum tl_DType {
  TL_NODTYPE = -1, /* the value where a dtype is optional and not given */
#define X(name, ...) TL_##name,
  TL_DTYPES(X, ) TL_STORED_DTYPES(X, )
#undef X
      TL_NDTYPES
} tl_DType;

/* Returns a dtype's name as used in Lua, such as "float32"; "none" for TL_NODTYPE. */
TL_API const char *tl_dtype_name(tl_DType dtype);
/* Returns the number of bytes of one element. */
TL_API size_t tl_dtype_size(tl_DType dtype);

/* The kinds of devices, as X(name, text). There may be several devices of a kind, such as "sim:0"
** and "sim:1". Tensors of the device "meta" have a shape, a dtype and strides, but no memory. */
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
  int8_t type;  /* a tl_DeviceType; -1 stands for "not given" */
  int8_t index; /* number of the device; 0 for the CPU */
} tl_Device;

/* A number: an integer, a float or a boolean as in Lua, or a complex number. */
typedef enum tl_ScalarKind {
  TL_NONE,
  TL_BOOLEAN,
  TL_INTEGER,
  TL_FLOATING,
  TL_COMPLEX
} tl_ScalarKind;

typedef struct tl_Scalar {
  tl_ScalarKind kind;
  union {
    int64_t i; /* the value of TL_BOOLEAN and TL_INTEGER */
    double f;  /* the value of TL_FLOATING; the real part of TL_COMPLEX */
  };
  double imag; /* the imaginary part of TL_COMPLEX; otherwise 0 */
} tl_Scalar;

/* ------------------------------------------------------------------------
** Tensors
** --------------------------------------------------------------------- */

#define TL_MAX_DIMS 16

typedef struct tl_Tensor tl_Tensor;

/* Constructor. Makes a tensor of `ndim` sizes with undefined contents on the CPU. Returns NULL if a
** size is negative, if there are more than TL_MAX_DIMS dimensions, if the product of the sizes
** overflows, or if memory is exhausted. */
TL_API TL_MUSTCHECK tl_Tensor *tl_tensor_empty(tl_DType dtype, int ndim, const int64_t *sizes);

/* Constructor. Makes a tensor over the caller's own memory, without a copy. The memory must hold
** the elements that sizes and strides describe. Strides count elements; NULL means row-major. The
** memory must stay valid until `release` is called. This call is made once, in the thread that
** drops the last reference to the tensor or to a view of it. If `release` is NULL, the caller must
** keep the memory longer than the tensor. Returns NULL if the sizes or strides are wrong, and then
** does not call `release`. */
TL_API TL_MUSTCHECK tl_Tensor *tl_tensor_wrap(void *data, tl_DType dtype, int ndim,
                                              const int64_t *sizes, const int64_t *strides,
                                              void (*release)(void *data, void *context),
                                              void *context);

/* Takes another reference to a tensor and returns the tensor; returns NULL for NULL. */
TL_API tl_Tensor *tl_tensor_retain(tl_Tensor *tensor);
/* Destructor: drops a reference. Accepts NULL. */
TL_API void tl_tensor_release(tl_Tensor *tensor);

TL_API tl_DType tl_tensor_dtype(const tl_Tensor *tensor);
TL_API tl_Device tl_tensor_device(const tl_Tensor *tensor);
TL_API int tl_tensor_ndim(const tl_Tensor *tensor);
/* Returns ndim sizes, borrowed from the tensor. */
TL_API const int64_t *tl_tensor_sizes(const tl_Tensor *tensor);
/* Returns ndim strides in elements, borrowed from the tensor. */
TL_API const int64_t *tl_tensor_strides(const tl_Tensor *tensor);
TL_API int64_t tl_tensor_numel(const tl_Tensor *tensor);
/* Returns whether the elements are in row-major order without gaps. */
TL_API bool tl_tensor_is_contiguous(const tl_Tensor *tensor);
/* Returns the address of the first element (borrowed); NULL for an empty tensor. The caller may
** write to the elements only if no graph has saved the tensor. */
TL_API void *tl_tensor_data(const tl_Tensor *tensor);

/* Copies all elements, in row-major order and converted to `dtype`, to `buffer` of `bytes` bytes.
** Returns false if `bytes` is not exactly the size needed. */
TL_API TL_MUSTCHECK bool tl_tensor_read(const tl_Tensor *tensor, tl_DType dtype, void *buffer,
                                        size_t bytes);

/* ------------------------------------------------------------------------
** DLPack
** --------------------------------------------------------------------- */

/* The structs of DLPack, by which array libraries exchange memory without a copy; Python's method
** __dlpack__ returns them. DLPack's header dlpack.h declares their fields; it may be included
** before or after this header. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Constructor. Exports the tensor's memory for another library, in the form that DLPack had before
** version 1.0 ("dltensor" in Python). The receiver calls the struct's `deleter` once, from any
** thread. Until then the struct holds a reference to the tensor. Waits for the work that the
** calling thread has queued on the tensor's device. The tensor sees the other library's writes, but
** graphs do not notice them, as with tl_tensor_data. Returns NULL if DLPack lacks the device or the
** dtype, or if memory is exhausted. */
TL_API TL_MUSTCHECK struct DLManagedTensor *tl_tensor_to_dlpack(tl_Tensor *tensor);
/* Constructor. Exports the tensor's memory like tl_tensor_to_dlpack, but in the form of DLPack
** version 1.0 ("dltensor_versioned"). */
TL_API TL_MUSTCHECK struct DLManagedTensorVersioned *
tl_tensor_to_dlpack_versioned(tl_Tensor *tensor);

/* Constructor. Makes a tensor over another library's memory, on the CPU or a GPU, without a copy.
** The tensor takes over `managed`. The thread that drops the last reference to the tensor or to a
** view of it calls the deleter of `managed`. The caller must have waited for pending work on the
** memory. Returns NULL, and leaves `managed` to the caller, if no dtype has the element type, if
** the device is of another kind, if a stride is negative, or if the memory is not aligned to its
** elements. In the versioned form, also returns NULL for read-only memory and for versions other
** than 1. */
TL_API TL_MUSTCHECK tl_Tensor *tl_tensor_from_dlpack(struct DLManagedTensor *managed);
TL_API TL_MUSTCHECK tl_Tensor *
tl_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed);

/* ------------------------------------------------------------------------
** Programs
** --------------------------------------------------------------------- */

/* A model that torch.export has traced in Lua, or a training step that torch.export_step has
** traced, saved as one file. A program runs without Lua, with the same operators and bitwise
** equal results. Several threads may run one program at once; the threads share the program's
** constants. */
typedef struct tl_Program tl_Program;

/* An input of a program: the name, borrowed from the program, and the sizes that the input must
** have. A size of -1 means that the size may differ between runs. */
typedef struct tl_ProgramInput {
  const char *name;
  tl_DType dtype;
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
} tl_ProgramInput;

/* Constructor. Maps the file at `path`, and checks everything in it except the values of constants.
** Returns NULL for a file that cannot be read, is damaged, or names an operator that this library
** lacks. */
TL_API TL_MUSTCHECK tl_Program *tl_program_load(const char *path);
/* Constructor. Reads a program from the bytes of such a file, which `tlua build` writes as C. The
** program uses the bytes in place and does not change them. They must stay valid until the program
** is freed, and their address should be a multiple of 64. Returns NULL as tl_program_load does. */
TL_API TL_MUSTCHECK tl_Program *tl_program_read(const void *bytes, size_t size);
/* Destructor. No run may be in progress. Accepts NULL. */
TL_API void tl_program_free(tl_Program *program);

/* tl_program_inputs returns the number of tensors that a run takes; tl_program_outputs returns the
** number of tensors that a run returns. */
TL_API int tl_program_inputs(const tl_Program *program);
TL_API int tl_program_outputs(const tl_Program *program);
/* Describes input i, counted from 0. Returns false if there is no such input. */
TL_API TL_MUSTCHECK bool tl_program_input(const tl_Program *program, int i, tl_ProgramInput *out);

/* Runs the program. outputs[i] is a tensor that receives the values of output i. If outputs[i] is
** NULL, it is set to a new tensor, whose reference belongs to the caller. The first run plans its
** memory. Later runs with the same sizes allocate nothing if all outputs are given. Returns false
** if an input does not fit, or an operator fails; outputs that were NULL are then NULL, and the
** values of the other outputs are undefined. Several threads may run a program at once, each with
** its own output tensors. If the program changes its own buffers, such as running statistics, these
** runs wait for one another. */
TL_API TL_MUSTCHECK bool tl_program_run(tl_Program *program, tl_Tensor *const *inputs, int ninputs,
                                        tl_Tensor **outputs, int noutputs);

/* Runs a training step that torch.export_step has recorded: forward and backward pass, optimizer
** and schedule. The function takes and returns tensors as tl_program_run does. It changes the
** program's parameters and optimizer state, and draws the next random numbers. Steps from several
** threads wait for one another. A step that fails may have changed some of the parameters. */
TL_API TL_MUSTCHECK bool tl_program_step(tl_Program *program, tl_Tensor *const *inputs, int ninputs,
                                         tl_Tensor **outputs, int noutputs);
/* Seeds the random numbers of a training step, as torch.manual_seed does in Lua. */
TL_API TL_MUSTCHECK bool tl_program_seed(tl_Program *program, uint64_t seed);
/* Saves the program with its current parameters and state. A program that is loaded from the file
** continues from there. The file appears under its name only once it is complete. */
TL_API TL_MUSTCHECK bool tl_program_save(tl_Program *program, const char *path);
/* Constructor. Returns a program with the same calls for another device, such as {TL_CUDA, 0}, with
** copies of the parameters and of the state there. Its runs queue their work on the calling
** thread's stream of the device. They take inputs on the device or on the CPU, and create outputs
** on the device. Returns NULL if there is no such device. The library of `make runtime` lacks this
** function. */
TL_API TL_MUSTCHECK tl_Program *tl_program_to(tl_Program *program, tl_Device device);

/* Limits of the runs of a program, since the loops in a file might never end. A run that reaches a
** limit fails: with TL_EARG after `iterations` iterations of all its loops (100,000,000 by
** default), or with TL_EINTERRUPT after `seconds` (without limit by default), at the next safe
** point of an operator. 0 means no limit. tl_interrupt stops runs as well. */
typedef struct tl_ProgramLimits {
  int64_t iterations;
  double seconds;
} tl_ProgramLimits;
/* Sets the limits of the runs that begin after the call. */
TL_API TL_MUSTCHECK bool tl_program_set_limits(tl_Program *program, const tl_ProgramLimits *limits);
/* Makes a program use the state of another program, `from`, in place of its own constants of the
** same names. For example, a program of the same model's forward pass then gives the results of the
** trained parameters. Two training steps that take turns, such as those of a GAN's discriminator
** and generator, need two calls, one in each direction, because each step changes a model that the
** other step uses. They also share the state of optimizers that both steps use, but not the count
** of steps in a schedule. No run of either program may be in progress during this call. Afterwards
** neither program may run during a step of the other. */
TL_API TL_MUSTCHECK bool tl_program_share(tl_Program *program, tl_Program *from);

/* ------------------------------------------------------------------------
** Threads and memory
** --------------------------------------------------------------------- */

/* Sets the number of threads that an operator may use, for the whole process. If n is 1, no thread
** is ever started. Returns false if n < 1. */
TL_API TL_MUSTCHECK bool tl_set_num_threads(int n);
TL_API int tl_get_num_threads(void);

/* Makes operators on the CPU give the same bits on every processor, with any number of threads.
** While this mode is on, LAPACK, Bessel functions and elementary functions of complex numbers fail;
** torch.use_deterministic_algorithms in Lua describes the conditions. If `on` is false, operators
** use the fastest loops again. The mode holds for the whole process; no operator may run during
** this call. Returns false if this library was built without portable loops. */
TL_API TL_MUSTCHECK bool tl_set_portable(bool on);

/* Replaces tlua's threads by the host's own job system. `run` must call task(context, i) for every
** 0 <= i < tasks, in any order and on any threads, and return when all calls are done. NULL
** restores the default. Call this function before the first operator runs. */
TL_API void tl_set_parallel_run(void (*run)(int tasks, void (*task)(void *context, int i),
                                            void *context, void *user),
                                void *user);

/* tl_memory_used returns the number of bytes of tensor memory on the CPU that are in use.
** tl_memory_cached returns the number of bytes that were freed and are kept for reuse. */
TL_API int64_t tl_memory_used(void);
TL_API int64_t tl_memory_cached(void);
/* Sets a limit on the number of used bytes; allocations beyond it fail with TL_EMEM. 0 means no
** limit. */
TL_API void tl_set_memory_limit(int64_t bytes);
/* Returns cached memory to the system. */
TL_API void tl_memory_trim(void);

/* Asks the running operator or backward pass of this process to stop with TL_EINTERRUPT at its next
** safe point. A signal handler may call this function; tl_interrupt_clear withdraws the request.
** Operators reach a safe point every few milliseconds. Some steps cannot be interrupted: a call of
** LAPACK, the computation of the tables for a new length of an FFT, and the return of large memory
** to the system. If an operator that changes a tensor in place is stopped, the tensor is partly
** changed. */
TL_API void tl_interrupt(void);
TL_API void tl_interrupt_clear(void);

/* ------------------------------------------------------------------------
** Observation
** --------------------------------------------------------------------- */

/* A piece of work that begins or ends: a call of an operator or of an operator's derivative, a
** garbage collection, or a span that a script names with torch.profiler.record_function. */
typedef struct tl_Work {
  const char *kind; /* "operator", "backward", "collector" or "user"; while a script uses the
                    ** profiler also "module", "optimizer", "data" and "step" */
  /* the name of the work, such as "add"; at most 47 bytes, valid during the call of `observe` */
  const char *name;
  int depth;        /* number of pieces of work of this thread that are open around this piece */
  int64_t begin;    /* time at which the work began, in ns of a monotonic clock */
  int64_t duration; /* the duration in ns; -1 when the work begins */
} tl_Work;

/* Sets the observer: each thread calls `observe` when it begins and when it ends a piece of work.
** In one thread, the work that began last ends first. A thread has at most 32 open pieces of work:
** before it opens another one, it ends all of them, because a script may have left them open in
** coroutines. `observe` must return, and must not call functions of tlua or of Lua; several threads
** may call it at once. NULL removes the observer. While tl_set_observer runs, no other thread may
** use tlua. Operators cost nothing more as long as no observer is set. */
TL_API void tl_set_observer(void (*observe)(const tl_Work *work, void *user), void *user);

/* Sets the logger: operators pass their warnings to `log` instead of Lua's `warn`, and packages
** pass to it the messages that they would write to the standard error. A text is one line without a
** line feed, such as "script.lua:3: to: casting complex values to real discards the imaginary part"
** or "mlflow: the disk is full; no further values are logged". The rules of tl_set_observer hold
** for `log`, too. NULL removes the logger. */
TL_API void tl_set_logger(void (*log)(const char *text, void *user), void *user);

/* Counters of the process. */
typedef struct tl_Counters {
  int64_t bytes_used;   /* as tl_memory_used returns */
  int64_t bytes_cached; /* as tl_memory_cached returns */
  int64_t bytes_peak;   /* the largest value of bytes_used so far */
  int64_t device_waits; /* how often a thread waited for a device other than the CPU */
} tl_Counters;
TL_API void tl_counters(tl_Counters *out);

/* Counts of the work of all threads since tl_count_work(true). */
typedef struct tl_WorkCounts {
  /* sizeof(tl_WorkCounts), set by the caller, because later versions of the struct have more
  ** fields */
  size_t size;
  int64_t operators;    /* calls of operators, including calls by other operators */
  int64_t derivatives;  /* derivatives that a backward pass computed */
  int64_t allocations;  /* allocations of tensors' memory, on all devices */
  int64_t bytes;        /* the bytes of these allocations */
  int64_t device_waits; /* how often a thread waited for a device other than the CPU */
} tl_WorkCounts;
/* Begins to count from 0, or stops counting if `on` is false. While tl_count_work runs, no other
** thread may use tlua. An operator costs a little more while its work is counted, and nothing more
** otherwise. */
TL_API void tl_count_work(bool on);
/* Sets the fields of *out that lie within out->size. Returns false, with a message in tl_error, if
** `out` is NULL or the size is smaller than the first two fields. */
TL_API TL_MUSTCHECK bool tl_work_counts(tl_WorkCounts *out);

/* Returns whether this library has a feature. The feature is "lua", "training", "programs" or
** "distributed", which some builds lack, or the name of a device kind, such as "cuda". For a device
** kind, the result is true if there is such a device. */
TL_API bool tl_has(const char *feature);

/* ------------------------------------------------------------------------
** Lua
** --------------------------------------------------------------------- */

typedef struct lua_State lua_State;

/* Opens the library as a Lua module: leaves the module's table on the stack, like `require "tlua"`.
** Call luaL_requiref(L, "tlua", luaopen_tlua, 0), or put the function into package.preload. Raises
** a Lua error on lack of memory. */
TL_API int luaopen_tlua(lua_State *L);

/* Opens the library in an ordinary state and sets the global `torch`. The state needs Lua's
** libraries base, string, table, math and utf8; save and load need io as well. Returns false, with
** a message in tl_error, on failure. Never raises a Lua error. */
TL_API TL_MUSTCHECK bool tl_lua_open(lua_State *L);

/* Flags of tl_lua_open_with: each denies scripts a part of the system. If any of these flags is
** set, scripts also lack bytecode, the debug library except debug.traceback, and the workers of a
** DataLoader. */
enum {
  TL_DENY_FILES = 1,     /* files and folders, save and load, modules and programs from files */
  TL_DENY_LIBRARIES = 2, /* shared libraries and modules in C */
  TL_DENY_PROCESSES = 4, /* starting other processes; ending this process, and changing its
                         ** environment variables, locale, number of threads and memory limit */
  TL_DENY_NETWORK = 8,   /* sockets, process groups and their store */
  TL_SANDBOX = 15        /* all of these */
};

/* Opens the library as tl_lua_open does, in a state whose scripts are not trusted. Functions that a
** flag of `denied` excludes raise an error, and a script cannot get them back. This includes the
** functions of Lua's standard libraries, which the host must open before this call. The library
** itself still opens the shared libraries that belong to it (OpenBLAS, its plugins). If any flag is
** set, Lua functions cannot be finalizers (__gc), the metatables of userdata are hidden, and new
** memory of the CPU is filled with zeros. String patterns, `table` and `coroutine` then respect the
** limits of tl_set_limits, which the host sets as well. Returns false, with a message in tl_error,
** if a flag is unknown, or if the library is already open in this state with other flags. */
TL_API TL_MUSTCHECK bool tl_lua_open_with(lua_State *L, unsigned denied);

/* The limits of one Lua state. 0 means no limit. */
typedef struct tl_Limits {
  int64_t tensor_bytes; /* bytes of tensors that the state keeps alive, on all devices */
  /* bytes of Lua's own objects; a script that needs more gets the error "not enough memory" */
  int64_t lua_bytes;
  int64_t instructions; /* number of Lua's instructions, which are counted in steps of 100 */
  double seconds;       /* wall-clock time; operators that take longer end as after tl_interrupt */
  int threads;          /* threads that scripts start: workers of DataLoaders */
} tl_Limits;

/* Limits what the scripts of a state may use, and starts to count instructions and seconds from 0.
** The library must be open in the state, and no script may be running. Call the function before the
** first script: it sets the hook (lua_sethook) of L and of the main thread, which new coroutines
** inherit, and replaces the allocator. Call it again before each further script, for example in
** each frame. NULL removes all limits. A script that exceeds a limit gets a Lua error; the state
** remains usable. Once the instructions or the seconds are used up, each further instruction raises
** an error again, so pcall cannot keep a script alive. The first limit of instructions or seconds
** replaces functions of Lua's libraries by others that respect the limits: string patterns,
** `table`, `coroutine`, xpcall, and setmetatable, whose finalizers (__gc) then run as coroutines.
** The limits do not end a single call of another function in C, such as a read of a pipe, nor a
** finalizer that was not set through setmetatable. The host's own objects count as well. Returns
** false, with a message in tl_error, if a limit is negative, if memory is exhausted, or if the
** library is not open. */
TL_API TL_MUSTCHECK bool tl_set_limits(lua_State *L, const tl_Limits *limits);

/* Pushes a tensor as a Lua value; the value holds a reference of its own. Raises a Lua error if the
** tensor is NULL or memory is exhausted, so the caller must run in protected mode. */
TL_API void tl_lua_push(lua_State *L, tl_Tensor *tensor);

/* Returns the tensor at a stack index, borrowed from the Lua value. Returns NULL if the value is
** not a tensor or was released. Never raises a Lua error. */
TL_API tl_Tensor *tl_lua_to(lua_State *L, int index);

/* Collects garbage for about `microseconds` at most. Hosts that have stopped the collector call
** this function in each frame. Returns true if a cycle of the collector was finished. */
TL_API bool tl_gc_step(lua_State *L, int microseconds);

#ifdef __cplusplus
}
#endif

#endif
