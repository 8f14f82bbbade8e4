/*
** tensor.h - storages and tensors.
**
** A storage is reference-counted bytes on one device. A tensor is a reference-counted object with a
** storage, an offset, sizes, strides (in elements), a dtype, and a pointer to autograd state; the
** pointer is NULL for tensors that need no such state. Views share the storage and with it the
** version counter.
*/
#ifndef TLI_TENSOR_H
#define TLI_TENSOR_H

#include <stdatomic.h>

#include "core/tensor/dtype.h"
#include "core/error.h"

/* Fails if this build has no tensors of the dtype; for example, PROFILE=infer leaves out complex
** numbers. */
static inline TL_MUSTCHECK bool tli_has_dtype(tl_DType dtype) {
#ifdef TLI_INFER
  if (tli_is_complex(dtype))
    return tli_fail(TL_EDTYPE, "tensor: %s is not in this build (PROFILE=infer)",
                    tl_dtype_name(dtype));
#endif
  (void)dtype;
  return true;
}

struct tli_Autograd; /* defined in autograd/graph.h */
struct tl_Backend;   /* defined in core/device/backend.h */

/* The beginning of a tensor's autograd state. `free` frees the state and returns the reference to
** .grad, which may be NULL, to its caller. */
typedef struct tli_AutogradHead {
  tl_Tensor *(*free)(struct tli_Autograd *a);
} tli_AutogradHead;

/* Returns whether new tensors of this thread are inference tensors. Operations on inference tensors
** are never recorded. tli_set_inference_mode returns the previous mode. */
bool tli_inference_mode(void);
bool tli_set_inference_mode(bool enabled);

/* Drops a reference and returns whether it was the last one. If the caller holds the only
** reference, the atomic write is skipped, because no other thread can take a reference then. */
static inline bool tli_last_reference(atomic_int *refs) {
  if (atomic_load_explicit(refs, memory_order_acquire) == 1) return true;
  return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* Counts the tensor bytes that an owner, such as a Lua state (src/lua/pacer.c), keeps alive. The
** ledger exists until its owner and all storages that refer to it are gone. */
typedef struct tli_Ledger {
  atomic_int refs;
  _Atomic int64_t live[TL_NDEVICETYPES]; /* bytes */
  /* bytes charged since the owner last reset this counter; only the owner's thread uses it */
  int64_t young;
  int64_t most; /* limit of the live bytes on all devices; 0 means no limit */
  /* whether new memory of the CPU is filled with zeros, because it may hold data of other states
  ** that the owner's scripts must not read */
  bool clean;
} tli_Ledger;

/* Returns a ledger with one reference; NULL if memory is exhausted. */
tli_Ledger *tli_ledger_new(void) TL_MUSTCHECK;
void tli_ledger_release(tli_Ledger *l); /* Releases a reference to a ledger. Accepts NULL. */
/* These functions set and return this thread's ledger, which counts the bytes of tensors. Tensors
** that no Lua value refers to, such as tensors that a graph saves, are charged to this ledger. The
** ledger is borrowed, and may be NULL. */
void tli_set_ledger(tli_Ledger *l);
tli_Ledger *tli_ledger(void);

/* The largest size in bytes of CPU data that is stored inside the storage's own block. */
#define TLI_INLINE_BYTES 1024

typedef struct tl_Storage {
  atomic_int refs;
  tl_Device device;
  atomic_uint version; /* number of in-place changes */
  const char *writer;  /* name of the operator that made the last change (static) */
  int64_t bytes;
  void *data; /* the bytes; owned unless `release` is set or the data is in `small` */
  void (*release)(void *data, void *context);
  union {
    void *context; /* argument of `release` */
    /* for memory of a device other than the CPU that was allocated during a capture: the number of
    ** the capture; otherwise 0 */
    uint64_t capture;
  };
  /* the ledger that this storage is charged to (owned reference); NULL if it is not charged */
  _Atomic(tli_Ledger *) ledger;
  /* the data of a small CPU storage, which has `bytes` bytes; otherwise empty */
  _Alignas(64) char small[];
} tl_Storage;

enum {
  TLI_REQUIRES_GRAD = 1, /* flag of a leaf that requires a gradient */
  TLI_PARAMETER = 2,     /* flag of an nn.Parameter */
  /* flag of an operand made from a Lua number: type promotion ignores its dtype if a tensor has a
  ** dtype of the same or a higher category */
  TLI_NUMBER = 4,
  /* flag of a row-major tensor; every function that sets sizes or strides must update the flag */
  TLI_CONTIGUOUS = 8,
  /* flag of a tensor made in inference mode, whose version counter is unreliable */
  TLI_INFERENCE = 16,
  /* flag of a tensor to which another thread may take a new reference through a weak reference
  ** (hooks.c) */
  TLI_WEAKLY_HELD = 32,
  /* flag of a sparse gradient; autograd/sparse_grads.c keeps its elements elsewhere */
  TLI_SPARSE = 64
};

struct tl_Tensor {
  atomic_int refs;
  int8_t dtype; /* tl_DType */
  uint8_t ndim;
  uint8_t flags;
  tl_Storage *storage; /* owned */
  union {
    int64_t offset;  /* elements */
    tl_Tensor *next; /* the next tensor in the list of tensors that wait to be freed */
  };
  int64_t numel;
  struct tli_Autograd *autograd; /* autograd state (owned); NULL for tensors that need none */
  tl_Tensor *base;               /* base of a differentiable view (owned); otherwise NULL */
  int64_t sizes[TL_MAX_DIMS];
  int64_t strides[TL_MAX_DIMS]; /* elements */
};

/* tli_captures_open is the number of open graph captures in the process, and tli_capture_keep the
** function that keeps a storage alive for a captured kernel that uses its bytes
** (core/device/capture.c). */
extern atomic_int tli_captures_open;
void tli_capture_keep(tl_Storage *s);

static inline void *tli_data(const tl_Tensor *t) {
  if (atomic_load_explicit(&tli_captures_open, memory_order_relaxed) > 0)
    tli_capture_keep(t->storage);
  return (char *)t->storage->data + t->offset * (int64_t)tli_dtype_bytes[t->dtype];
}
static inline bool tli_contiguous(const tl_Tensor *t) { return t->flags & TLI_CONTIGUOUS; }
static inline tl_Device tli_device(const tl_Tensor *t) { return t->storage->device; }
/* Returns whether the tensor has memory. Tensors on the meta device have none, and no values. */
static inline bool tli_has_values(const tl_Tensor *t) { return t->storage->device.type != TL_META; }
static inline bool tli_same_device(tl_Device a, tl_Device b) {
  return a.type == b.type && a.index == b.index;
}
static inline bool tli_same_sizes(const tl_Tensor *a, const tl_Tensor *b) {
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->sizes[d] != b->sizes[d]) return false;
  return true;
}

#define TLI_CPU ((tl_Device){TL_CPU, 0})
#define TLI_NODEVICE ((tl_Device){-1, 0})

/* A list of integers as an argument of an operator. If v is NULL, the argument was not given. */
typedef struct tl_Ints {
  int64_t n;
  const int64_t *v; /* borrowed */
} tl_Ints;
#define TLI_NOINTS ((tl_Ints){0, NULL})
typedef struct tl_Floats {
  int64_t n;
  const double *v; /* borrowed */
} tl_Floats;
#define TLI_NOFLOATS ((tl_Floats){0, NULL})
/* the value of an optional integer argument that was not given */
#define TLI_NOINT INT64_MIN

typedef struct tl_Tensors {
  int64_t n;
  /* the tensors: borrowed in an argument; in a result, the array and each tensor are owned */
  tl_Tensor **v;
} tl_Tensors;

/* Constructors. Each of these functions returns a new reference, or NULL with a message. */

tl_Storage *tli_storage_new(tl_Device device, int64_t bytes) TL_MUSTCHECK;
/* Returns a storage for memory that the caller has allocated. tl_tensor_wrap describes
** `release`. */
tl_Storage *tli_storage_wrap(tl_Device device, void *data, int64_t bytes,
                             void (*release)(void *data, void *context), void *context)
    TL_MUSTCHECK;
static inline tl_Storage *tli_storage_retain(tl_Storage *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}
void tli_storage_release(tl_Storage *s); /* Releases a reference to a storage. Accepts NULL. */
/* Charges a storage's bytes to a ledger until the storage is freed. Returns false if the storage
** already has a ledger. The storage may be shared with other threads; the ledger belongs to the
** calling thread. */
bool tli_storage_charge(tl_Storage *s, tli_Ledger *l);
/* Moves a storage's charge to ledger l, for a tensor that moves to another interpreter. The ledger
** belongs to the calling thread. */
void tli_storage_recharge(tl_Storage *s, tli_Ledger *l);
/* Charges the tensor's storage to this thread's ledger, unless the storage already has a ledger. */
static inline void tli_charge(const tl_Tensor *t) {
  if (atomic_load_explicit(&t->storage->ledger, memory_order_relaxed) != NULL) return;
  tli_Ledger *l = tli_ledger();
  if (l) tli_storage_charge(t->storage, l);
}

/* Returns an uninitialised row-major tensor. */
tl_Tensor *tli_empty(tl_DType dtype, tl_Device device, int ndim, const int64_t *sizes) TL_MUSTCHECK;
/* Returns an uninitialised dense tensor with `like`'s sizes, device and order of dimensions in
** memory (PyTorch's preserve_format). */
tl_Tensor *tli_empty_like(const tl_Tensor *like, tl_DType dtype) TL_MUSTCHECK;
/* Returns a tensor like tli_empty_like, but on the meta device, with `like`'s dtype. */
tl_Tensor *tli_on_meta(const tl_Tensor *like) TL_MUSTCHECK;
/* Returns a tensor for foreign memory on a device, as tl_tensor_wrap describes. Messages begin with
** `op`. */
tl_Tensor *tli_wrap(const char *op, tl_Device device, void *data, tl_DType dtype, int ndim,
                    const int64_t *sizes, const int64_t *strides,
                    void (*release)(void *data, void *context), void *context) TL_MUSTCHECK;
/* Returns a 0-d tensor on the CPU that type promotion treats as a number (flag TLI_NUMBER). */
tl_Tensor *tli_number(tl_Scalar s) TL_MUSTCHECK;
/* Returns a 0-d tensor of the given dtype and device. */
tl_Tensor *tli_scalar_tensor(tl_Scalar s, tl_DType dtype, tl_Device device) TL_MUSTCHECK;
/* Returns a view of t's storage with another geometry. The view is not differentiable by itself.
** The caller guarantees that the geometry is inside the storage. */
tl_Tensor *tli_alias(const tl_Tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                     int64_t offset) TL_MUSTCHECK;
/* Returns a view as tli_alias does, with another dtype; strides and offset count elements of that
** dtype. */
tl_Tensor *tli_alias_as(const tl_Tensor *t, tl_DType dtype, int ndim, const int64_t *sizes,
                        const int64_t *strides, int64_t offset) TL_MUSTCHECK;
/* Returns a view of the whole tensor that has no autograd state. */
tl_Tensor *tli_detached(const tl_Tensor *t) TL_MUSTCHECK;

static inline tl_Tensor *tli_retain(tl_Tensor *t) {
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}
void tli_release(tl_Tensor *t); /* Releases a reference to a tensor. Accepts NULL. */
static inline bool tli_unique(const tl_Tensor *t) {
  return atomic_load_explicit(&t->refs, memory_order_acquire) == 1;
}

/* Geometry */

/* Returns the product of sizes. Returns -1 if a size is negative, or if the number of bytes
** overflows int64. */
int64_t tli_numel(int ndim, const int64_t *sizes, size_t element);
void tli_row_major(int ndim, const int64_t *sizes, int64_t *strides);
/* Sets ndim, sizes, strides, numel and the contiguous flag. If `strides` is NULL, the tensor is
** row-major. */
void tli_set_geometry(tl_Tensor *t, int ndim, const int64_t *sizes, const int64_t *strides);
/* Returns whether the elements fill their memory range without gap or overlap, in any order. */
bool tli_dense(const tl_Tensor *t);
/* Returns whether several positions may share an element (stride 0 or overlapping strides). The
** answer can be true for strides that interleave without overlapping. */
bool tli_overlaps_itself(const tl_Tensor *t);

/* Converts a dimension that may count from either end to a number in [0, ndim). Returns -1 with a
** message that begins with `op` if the dimension is out of range. A 0-d tensor has dimension 0. */
int tli_dim(const char *op, int64_t dim, int ndim);
/* Converts an index, which may count from either end of a dimension of the given size, to a number
** in [0, size). Returns -1 with a message that begins with `op` if the index is out of range. If
** the size is 0, every index is out of range. */
int64_t tli_position(const char *op, int64_t index, int64_t size);

/* Computes the shape to which n tensors are broadcast together. Returns false, with a message that
** names `op`, if there is no such shape. */
bool tli_broadcast_shape(const char *op, tl_Tensor *const *ts, int n, int *ndim, int64_t *sizes);
bool tli_expandable(int ndim, const int64_t *sizes, int to_ndim, const int64_t *to_sizes);

/* Returns the promoted dtype of operands; 0-d tensors and numbers only affect the result if their
** category is higher. */
tl_DType tli_result_dtype(tl_Tensor *const *ts, int n);

/* Formats a shape such as "[2, 3]" in one of a few thread-local buffers, for messages. */
const char *tli_shape_str(int ndim, const int64_t *sizes);
const char *tli_sizes_str(const tl_Tensor *t);
const char *tli_device_str(tl_Device d);
/* Returns "cpu", "cuda", "sim" or "meta"; "device" for another number. */
const char *tli_device_type_name(int type);

/* Returns the storage's version, a count of in-place changes. */
static inline unsigned tli_version(const tl_Tensor *t) {
  return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}
static inline void tli_bump(tl_Tensor *t, const char *op) {
  t->storage->writer = op;
  atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed);
}

#endif
