/*
** tensor.c - creating, sharing and freeing tensors, and tlua.h's functions that inspect them. The
** reference count is atomic. The other fields are not: while a thread writes to a tensor, no other
** thread may use that tensor.
*/
#include "core/tensor/tensor.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/observe/live_storages.h"
#include "core/observe/profile.h"

/* ---- construction ---- */

static _Thread_local bool inference;

bool tli_inference_mode(void) { return inference; }

bool tli_set_inference_mode(bool enabled) {
  bool previous = inference;
  inference = enabled;
  return previous;
}

/* Initialises a tensor. Steals `storage`; the caller sets the geometry. */
static void tensor_init(tl_Tensor *t, tl_Storage *storage, tl_DType dtype) {
  atomic_init(&t->refs, 1);
  t->dtype = (int8_t)dtype;
  t->flags = inference ? TLI_INFERENCE : 0;
  t->storage = storage;
  t->offset = 0;
  t->autograd = NULL;
  t->base = NULL;
}

/* Sets the error for a dtype of TL_STORED_DTYPES on a GPU, whose kernels have loops for the other
** dtypes only. Steals `storage`, and returns NULL. The caller has checked dtype and device. */
static tl_Tensor *refuse_dtype(tl_Storage *storage, tl_DType dtype) {
  tli_fail(TL_EDTYPE, "tensor: there are no %s tensors on %s yet; use the CPU",
           tl_dtype_name(dtype), tli_device_str(storage->device));
  tli_storage_release(storage);
  return NULL;
}

/* Returns a new tensor. Steals `storage`, also on failure; returns NULL if `storage` is NULL. */
static tl_Tensor *tensor_new(tl_Storage *storage, tl_DType dtype) {
  if (storage == NULL) return NULL;
  if (!tli_has_dtype(dtype)) {
    tli_storage_release(storage);
    return NULL;
  }
  if (tli_is_stored(dtype) && storage->device.type == TL_CUDA) return refuse_dtype(storage, dtype);
  if (tli_profiling()) tli_live_dtype(storage, dtype);
  tl_Tensor *t = tli_alloc(sizeof *t);
  if (t)
    tensor_init(t, storage, dtype);
  else
    tli_storage_release(storage);
  return t;
}

static bool bad_sizes(int ndim, const int64_t *sizes) {
  for (int d = 0; d < ndim; d++)
    if (sizes[d] < 0)
      return tli_fail(TL_EARG, "tensor: sizes %s: expected sizes of at least 0, got %" PRId64,
                      tli_shape_str(ndim, sizes), sizes[d]);
  return tli_fail(TL_EARG, "tensor: sizes %s: expected less than 2^63 bytes in all",
                  tli_shape_str(ndim, sizes));
}

/* Checks the sizes. Returns the number of elements, or -1 with a message. */
static int64_t check_sizes(tl_DType dtype, int ndim, const int64_t *sizes) {
  if (dtype < 0 || dtype >= TL_NDTYPES) {
    tli_fail(TL_EDTYPE, "tensor: expected a dtype, got %d", (int)dtype);
    return -1;
  }
  if (ndim < 0 || ndim > TL_MAX_DIMS) {
    tli_fail(TL_EARG, "tensor: expected 0 to %d dimensions, got %d", TL_MAX_DIMS, ndim);
    return -1;
  }
  if (ndim > 0 && sizes == NULL) {
    tli_fail(TL_EARG, "tensor: sizes: expected %d of them, got NULL", ndim);
    return -1;
  }
  int64_t numel = tli_numel(ndim, sizes, tli_dtype_bytes[dtype]);
  if (numel < 0) bad_sizes(ndim, sizes);
  return numel;
}

tl_Tensor *tli_empty(tl_DType dtype, tl_Device device, int ndim, const int64_t *sizes) {
  int64_t numel = check_sizes(dtype, ndim, sizes);
  if (numel < 0) return NULL;
  tl_Tensor *t = tensor_new(tli_storage_new(device, numel * tli_dtype_bytes[dtype]), dtype);
  if (t) tli_set_geometry(t, ndim, sizes, NULL);
  return t;
}

/* Returns an uninitialised tensor with the geometry of `like`. The caller has checked that `like`
** is row-major and that its elements are at least as large as those of `dtype`, so the size in
** bytes cannot overflow. */
static tl_Tensor *empty_same(const tl_Tensor *like, tl_DType dtype) {
  int64_t bytes = like->numel * tli_dtype_bytes[dtype];
  tl_Tensor *t = tensor_new(tli_storage_new(tli_device(like), bytes), dtype);
  if (t == NULL) return NULL;
  t->flags |= TLI_CONTIGUOUS;
  t->ndim = like->ndim;
  t->numel = like->numel;
  for (int d = 0; d < like->ndim; d++) {
    t->sizes[d] = like->sizes[d];
    t->strides[d] = like->strides[d];
  }
  return t;
}

/* Compares two dimensions' positions in memory: returns > 0 if a is outside of b, < 0 if a is
** inside of b, and 0 if their order is undecided. */
static int compare_dims(const tl_Tensor *t, int a, int b) {
  int64_t first = t->strides[a], second = t->strides[b];
  if (first == 0 || second == 0) return 0;
  if (first != second) return first < second ? -1 : 1;
  return t->sizes[a] > t->sizes[b];
}

/* Computes dense strides in t's order of dimensions, by the rule of PyTorch's
** infer_dense_strides. */
static void dense_strides(const tl_Tensor *t, int64_t *strides) {
  int order[TL_MAX_DIMS]; /* the dimensions' order in memory, innermost first */
  for (int k = 0; k < t->ndim; k++) order[k] = t->ndim - 1 - k;
  for (int k = 1; k < t->ndim; k++) {
    int at = k;
    for (int below = k - 1; below >= 0; below--) {
      int sign = compare_dims(t, order[below], order[at]);
      if (sign < 0) break;
      if (sign == 0) continue;
      int moved = order[below];
      order[below] = order[at];
      order[at] = moved;
      at = below;
    }
  }
  int64_t stride = 1;
  for (int k = 0; k < t->ndim; k++) {
    strides[order[k]] = stride;
    if (t->sizes[order[k]] > 1) stride *= t->sizes[order[k]];
  }
}

static tl_Tensor *empty_on(tl_Device device, const tl_Tensor *like, tl_DType dtype) {
  tl_Tensor *t = tli_empty(dtype, device, like->ndim, like->sizes);
  if (t == NULL || tli_contiguous(like)) return t;
  int64_t strides[TL_MAX_DIMS];
  bool dense = tli_dense(like);
  if (!dense) dense_strides(like, strides);
  tli_set_geometry(t, like->ndim, like->sizes, dense ? like->strides : strides);
  return t;
}

tl_Tensor *tli_empty_like(const tl_Tensor *like, tl_DType dtype) {
  if (tli_contiguous(like) && tli_dtype_bytes[dtype] <= tli_dtype_bytes[like->dtype])
    return empty_same(like, dtype);
  return empty_on(tli_device(like), like, dtype);
}

tl_Tensor *tli_on_meta(const tl_Tensor *like) {
  return empty_on((tl_Device){TL_META, 0}, like, (tl_DType)like->dtype);
}

tl_Tensor *tli_number(tl_Scalar s) {
  tl_DType dtype = s.kind == TL_FLOATING  ? TL_F64
                   : s.kind == TL_COMPLEX ? TL_C128
                                          : tli_scalar_dtype(s);
  tl_Tensor *t = tli_scalar_tensor(s, dtype, TLI_CPU);
  if (t) t->flags |= TLI_NUMBER;
  return t;
}

tl_Tensor *tli_scalar_tensor(tl_Scalar s, tl_DType dtype, tl_Device device) {
  tl_Tensor *t = tli_empty(dtype, device, 0, NULL);
  if (t == NULL) return NULL;
  if (device.type == TL_CPU) {
    tli_store(tli_data(t), dtype, s);
    return t;
  }
  struct tlk_fill call = {.cx = tli_context(device), .value = s};
  tli_iter_build(&call.it, 0, NULL, &t, 1);
  if (tli_backend(device)->fill(&call)) return t;
  tli_release(t);
  return NULL;
}

tl_Tensor *tli_alias(const tl_Tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                     int64_t offset) {
  return tli_alias_as(t, (tl_DType)t->dtype, ndim, sizes, strides, offset);
}

tl_Tensor *tli_alias_as(const tl_Tensor *t, tl_DType dtype, int ndim, const int64_t *sizes,
                        const int64_t *strides, int64_t offset) {
  tl_Tensor *view = tensor_new(tli_storage_retain(t->storage), dtype);
  if (view == NULL) return NULL;
  view->flags = t->flags & TLI_INFERENCE;
  view->offset = offset;
  tli_set_geometry(view, ndim, sizes, strides);
  return view;
}

tl_Tensor *tli_detached(const tl_Tensor *t) {
  return tli_alias(t, t->ndim, t->sizes, t->strides, t->offset);
}

/* Drops a reference and returns whether it was the last one. If weak references to the tensor may
** exist, even the last reference is subtracted, because a weak reference recognises a freed tensor
** by a count of 0. */
static inline bool drop_reference(tl_Tensor *t) {
  bool only = atomic_load_explicit(&t->refs, memory_order_acquire) == 1;
  if (only && !(t->flags & TLI_WEAKLY_HELD)) return true;
  return atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1;
}

static void let_go(tl_Tensor *t, tl_Tensor **dead) {
  if (t == NULL || !drop_reference(t)) return;
  t->next = *dead;
  *dead = t;
}

static tl_Tensor *free_autograd(struct tli_Autograd *a) { return ((tli_AutogradHead *)a)->free(a); }

static void free_plain(tl_Tensor *t) {
  tli_storage_release(t->storage);
  tli_free(t, sizeof *t);
}

/* Frees the tensors of a list. A tensor owns its base and its gradient, which may own further
** tensors in long chains. So the function appends such tensors to the list instead of calling
** itself. */
static void free_chain(tl_Tensor *dead) {
  dead->next = NULL;
  for (tl_Tensor *t; (t = dead) != NULL; free_plain(t)) {
    dead = t->next;
    if (t->autograd) let_go(free_autograd(t->autograd), &dead);
    let_go(t->base, &dead);
  }
}

void tli_release(tl_Tensor *t) {
  if (t == NULL || !drop_reference(t)) return;
  if (t->autograd || t->base)
    free_chain(t);
  else
    free_plain(t);
}

/* ---- tlua.h ---- */

tl_Tensor *tl_tensor_empty(tl_DType dtype, int ndim, const int64_t *sizes) {
  return tli_empty(dtype, TLI_CPU, ndim, sizes);
}

/* Returns the number of elements that memory must hold for a tensor with these sizes and strides,
** up to the tensor's last element. `element` is an element's size in bytes. Returns -1 for a
** negative stride or on overflow. */
static int64_t extent(int ndim, const int64_t *sizes, const int64_t *strides, int64_t element) {
  int64_t last = 0, step, bytes;
  for (int d = 0; d < ndim; d++) {
    if (strides[d] < 0) return -1;
    if (sizes[d] == 0) continue;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step)) return -1;
    if (__builtin_add_overflow(last, step, &last)) return -1;
  }
  if (last == INT64_MAX || __builtin_mul_overflow(last + 1, element, &bytes)) return -1;
  return last + 1;
}

tl_Tensor *tli_wrap(const char *op, tl_Device device, void *data, tl_DType dtype, int ndim,
                    const int64_t *sizes, const int64_t *strides,
                    void (*release)(void *data, void *context), void *context) {
  int64_t count = check_sizes(dtype, ndim, sizes);
  if (count < 0) return NULL;
  TL_TRY_NULL(tli_has_dtype(dtype));
  int64_t element = tli_dtype_bytes[dtype];
  if (count > 0 && data == NULL) return tli_fail_null(TL_EARG, "%s: expected memory, got NULL", op);
  if ((uintptr_t)data % (uintptr_t)element != 0)
    return tli_fail_null(TL_EARG, "%s: expected memory aligned to %d bytes for %s", op,
                         (int)element, tl_dtype_name(dtype));
  if (count > 0 && strides) {
    count = extent(ndim, sizes, strides, element);
    if (count < 0)
      return tli_fail_null(TL_EARG,
                           "%s: strides %s for sizes %s: expected strides of at least 0 that "
                           "reach less than 2^63 bytes",
                           op, tli_shape_str(ndim, strides), tli_shape_str(ndim, sizes));
  }
  if ((uint64_t)(count * element) > UINTPTR_MAX - (uintptr_t)data)
    return tli_fail_null(TL_EARG,
                         "%s: expected memory of %" PRId64 " bytes, got an address so close "
                         "to the end of the address space",
                         op, count * element);

  tl_Tensor *t = tli_alloc(sizeof *t);
  if (t == NULL) return NULL;
  /* creating the storage is the last step that can fail; from here on `release` may be called */
  tl_Storage *storage = tli_storage_wrap(device, data, count * element, release, context);
  if (storage == NULL) {
    tli_free(t, sizeof *t);
    return NULL;
  }
  tensor_init(t, storage, dtype);
  tli_set_geometry(t, ndim, sizes, strides);
  return t;
}

tl_Tensor *tl_tensor_wrap(void *data, tl_DType dtype, int ndim, const int64_t *sizes,
                          const int64_t *strides, void (*release)(void *data, void *context),
                          void *context) {
  return tli_wrap("wrap", TLI_CPU, data, dtype, ndim, sizes, strides, release, context);
}

tl_Tensor *tl_tensor_retain(tl_Tensor *tensor) { return tensor ? tli_retain(tensor) : NULL; }

void tl_tensor_release(tl_Tensor *tensor) { tli_release(tensor); }

tl_DType tl_tensor_dtype(const tl_Tensor *tensor) {
  return tensor ? (tl_DType)tensor->dtype : TL_NODTYPE;
}

tl_Device tl_tensor_device(const tl_Tensor *tensor) {
  return tensor ? tli_device(tensor) : TLI_NODEVICE;
}

int tl_tensor_ndim(const tl_Tensor *tensor) { return tensor ? tensor->ndim : 0; }

const int64_t *tl_tensor_sizes(const tl_Tensor *tensor) { return tensor ? tensor->sizes : NULL; }

const int64_t *tl_tensor_strides(const tl_Tensor *tensor) {
  return tensor ? tensor->strides : NULL;
}

int64_t tl_tensor_numel(const tl_Tensor *tensor) { return tensor ? tensor->numel : 0; }

bool tl_tensor_is_contiguous(const tl_Tensor *tensor) { return tensor && tli_contiguous(tensor); }

void *tl_tensor_data(const tl_Tensor *tensor) {
  return tensor && tensor->numel > 0 && tli_has_values(tensor) ? tli_data(tensor) : NULL;
}
