/*
** grads.c - gradients as tensors: fitting them to a value, adding them up, and storing them in
** .grad.
**
** While no graph is recorded, gradients are added in place. During the pass this requires a tensor
** that no other code can see: there is only one reference to the tensor and one to its memory. A
** leaf's .grad is changed in place even if other code refers to it, as in PyTorch.
*/
#include "autograd/grads.h"

#include <string.h>

#include "ops.h"

/* ---- fitting ---- */

/* Converts a gradient to a dtype. If the dtype is real and the gradient complex, the result is the
** gradient's real part. */
static tl_Tensor *converted(tl_Tensor *grad, tl_DType dtype) {
  bool part = tli_is_complex((tl_DType)grad->dtype) && !tli_is_complex(dtype);
  tl_Tensor *real = part ? tlo_real(grad) : tli_retain(grad);
  tl_Tensor *result = real ? tlo_to_dtype(real, dtype) : NULL;
  tli_release(real);
  return result;
}

tl_Tensor *tli_grad_fit(const char *op, tl_Tensor *grad, const tli_Info *info) {
  if (!tli_same_device(tli_device(grad), info->device))
    return tli_fail_null(TL_EDEVICE, "%s: got a gradient on %s for a value on %s", op,
                         tli_device_str(tli_device(grad)), tli_device_str(info->device));
  if (!tli_is_inexact((tl_DType)grad->dtype))
    return tli_fail_null(TL_EDTYPE, "%s: expected a floating gradient, got %s", op,
                         tl_dtype_name((tl_DType)grad->dtype));
  bool same_shape = grad->ndim == info->ndim &&
                    memcmp(grad->sizes, info->sizes, info->ndim * sizeof *info->sizes) == 0;
  if (same_shape && grad->dtype == info->dtype) return tli_retain(grad);
  if (!same_shape && !tli_expandable(info->ndim, info->sizes, grad->ndim, grad->sizes))
    return tli_fail_null(TL_ESHAPE, "%s: got a gradient of shape %s for a value of shape %s", op,
                         tli_sizes_str(grad), tli_shape_str(info->ndim, info->sizes));
  tl_Tensor *t =
      same_shape ? tli_retain(grad) : tlo_sum_to_size(grad, (tl_Ints){info->ndim, info->sizes});
  if (t == NULL || t->dtype == info->dtype) return t;
  tl_Tensor *cast = converted(t, (tl_DType)info->dtype);
  tli_release(t);
  return cast;
}

tl_Tensor *tli_grad_fill(const tli_Info *info, int64_t value) {
  tl_Tensor *t = tli_empty((tl_DType)info->dtype, info->device, info->ndim, info->sizes);
  bool mode = tli_set_grad_mode(false);
  if (t && !tlo_fill_(t, tli_int(value))) {
    tli_release(t);
    t = NULL;
  }
  tli_set_grad_mode(mode);
  return t;
}

/* ---- adding up ---- */

/* Returns whether the caller holds the only reference to the elements. If t is a view, t's base may
** refer to the elements, too, provided that only t owns the base. */
static bool sole(const tl_Tensor *t) {
  int refs = atomic_load_explicit(&t->storage->refs, memory_order_acquire);
  bool base = t->base && tli_unique(t->base);
  return tli_unique(t) && refs == (base ? 2 : 1);
}

/* Returns whether the gradient `other` can be added to `t` in place. */
static bool can_take(const tl_Tensor *t, const tl_Tensor *other) {
  if (tli_is_sparse_grad(t)) return false;
  return !tli_grad_mode() && sole(t) && !(t->flags & TLI_INFERENCE) && !tli_requires_grad(t) &&
         t->dtype == other->dtype && (tli_contiguous(t) || tli_dense(t));
}

/* Fails if gradients of this dtype cannot be added. PyTorch fails for the same dtypes. */
static bool check_sum(const tl_Tensor *grad) {
  if (!tli_is_stored(grad->dtype)) return true;
  return tli_fail(TL_EDTYPE,
                  "backward: two gradients of %s cannot be added; a tensor of this dtype must be "
                  "used once, as by one conversion to float32, and have no gradient yet",
                  tl_dtype_name((tl_DType)grad->dtype));
}

/* Fails unless both gradients have the same shape. Each gradient was fitted to the shape that the
** tensor had when the gradient arrived. */
static bool check_same(const tl_Tensor *a, const tl_Tensor *b) {
  if (tli_same_sizes(a, b)) return true;
  return tli_fail(TL_ESHAPE,
                  "backward: gradients of shapes %s and %s arrived for one tensor: it had other "
                  "data at one of its uses than at another, as parameters of fully_shard have "
                  "within a call of their module and outside of it",
                  tli_sizes_str(a), tli_sizes_str(b));
}

tl_Tensor *tli_grad_add(tl_Tensor *a, tl_Tensor *b) {
  tl_Tensor *sum = NULL;
  if (!check_sum(a) || !check_same(a, b)) {
    /* a check has failed, so `sum` stays NULL */
  } else if (tli_is_sparse_grad(a) || tli_is_sparse_grad(b)) {
    sum = tli_is_sparse_grad(b) ? tli_sparse_grad_sum(a, b, can_take(a, b))
                                : tli_sparse_grad_sum(b, a, false);
  } else if (can_take(a, b)) {
    sum = tlo_add_(a, b, tli_int(1)) ? tli_retain(a) : NULL;
  } else if (can_take(b, a)) {
    sum = tlo_add_(b, a, tli_int(1)) ? tli_retain(b) : NULL;
  } else {
    sum = tlo_add(a, b, tli_int(1));
  }
  tli_release(a);
  tli_release(b);
  return sum;
}

/* ---- .grad ---- */

/* Returns whether grad has the memory layout that lets an optimizer process grad and t linearly:
** t's strides if t is dense, otherwise row-major strides. */
static bool lies_like(const tl_Tensor *grad, const tl_Tensor *t) {
  if (tli_contiguous(t) || !tli_dense(t)) return tli_contiguous(grad);
  for (int d = 0; d < t->ndim; d++)
    if (t->sizes[d] > 1 && grad->strides[d] != t->strides[d]) return false;
  return true;
}

/* Copies a gradient, with its history if a graph is recorded. */
static tl_Tensor *copy_for(const tl_Tensor *t, tl_Tensor *grad) {
  if (tli_grad_mode()) return tlo_clone(grad);
  tl_DType dtype = (tl_DType)t->dtype;
  tl_Tensor *copy =
      tli_dense(t) ? tli_empty_like(t, dtype) : tli_empty(dtype, tli_device(t), t->ndim, t->sizes);
  if (copy && tlo_copy_(copy, grad, false)) return copy;
  tli_release(copy);
  return NULL;
}

/* Returns whether grad can become .grad without a copy. A gradient that is a small part of a large
** block cannot, because it would keep the whole block alive. */
static bool can_stay(const tl_Tensor *grad, const tl_Tensor *t) {
  int64_t bytes = grad->numel * (int64_t)tl_dtype_size((tl_DType)grad->dtype);
  return sole(grad) && lies_like(grad, t) && !tli_requires_grad(grad) &&
         grad->storage->bytes <= bytes + TLI_INLINE_BYTES;
}

/* Returns the tensor that becomes t's .grad when t gets its first gradient: `grad` itself if
** possible, otherwise a copy. Steals grad. */
static tl_Tensor *first(const tl_Tensor *t, tl_Tensor *grad) {
  if (tli_is_sparse_grad(grad)) {
    if (tli_sparse_grad_settle(grad)) return grad;
    tli_release(grad);
    return NULL;
  }
  if (!tli_grad_mode() && can_stay(grad, t)) {
    grad->flags &= (uint8_t) ~(TLI_NUMBER | TLI_PARAMETER);
    tli_release(grad->base);
    grad->base = NULL;
    return grad;
  }
  tl_Tensor *copy = copy_for(t, grad);
  tli_release(grad);
  return copy;
}

/* Adds another gradient to `sum`, the .grad of a leaf, in place; other code that refers to `sum`
** sees the change, as in PyTorch. Steals grad. */
static tl_Tensor *later(tl_Tensor *sum, tl_Tensor *grad) {
  tl_Tensor *result = NULL;
  bool fixed = (sum->flags & TLI_INFERENCE) || (!tli_contiguous(sum) && tli_overlaps_itself(sum));
  if (!check_sum(grad)) {
    /* a check has failed, so `result` stays NULL */
  } else if (tli_is_sparse_grad(sum) || tli_is_sparse_grad(grad)) {
    result = tli_sparse_grad_sum(sum, grad, !fixed && !tli_grad_mode());
  } else if (tli_grad_mode() || fixed) {
    result = tlo_add(sum, grad, tli_int(1));
  } else if (tlo_add_(sum, grad, tli_int(1))) {
    result = tli_retain(sum);
  }
  tli_release(grad);
  return result;
}

/* Fails if a hook has changed t's shape since the pass began. */
static bool check_fit(const tl_Tensor *t, const tl_Tensor *grad) {
  if (tli_same_sizes(t, grad)) return true;
  return tli_fail(TL_ESHAPE,
                  "backward: a gradient of shape %s arrived for a tensor whose shape is now %s;  "
                  "was its data replaced since the forward call, in a hook perhaps?",
                  tli_sizes_str(grad), tli_sizes_str(t));
}

bool tli_grad_accumulate(tl_Tensor *t, tl_Tensor *grad, bool create_graph) {
  tli_Autograd *a = check_fit(t, grad) ? tli_autograd(t) : NULL;
  if (a == NULL) {
    tli_release(grad);
    return false;
  }
  bool mode = tli_set_grad_mode(create_graph);
  tl_Tensor *sum = a->grad ? later(a->grad, grad) : first(t, grad);
  tli_set_grad_mode(mode);
  TL_TRY(sum);
  tli_release(a->grad);
  a->grad = sum;
  tli_charge(sum);
  return true;
}

static const tl_Tensor *grad_of(const tl_Tensor *t) {
  return t->autograd ? t->autograd->grad : NULL;
}

/* Returns whether `grad` owns t indirectly: through its own gradient, its base and so on. If t
** owned such a gradient, neither tensor would ever be freed. */
static bool owns(const tl_Tensor *grad, const tl_Tensor *t) {
  if (tli_unique(t)) return false;
  for (const tl_Tensor *g = grad; g; g = grad_of(g)) {
    if (g == t) return true;
    for (const tl_Tensor *base = g->base; base; base = base->base)
      if (base == t || grad_of(base) == t) return true;
  }
  return false;
}

bool tli_grad_set(tl_Tensor *t, tl_Tensor *grad) {
  if (grad == NULL && t->autograd == NULL) return true;
  if (grad && !tli_same_sizes(grad, t))
    return tli_fail(TL_ESHAPE, "grad: expected shape %s as the tensor's, got %s", tli_sizes_str(t),
                    tli_sizes_str(grad));
  if (grad && grad->dtype != t->dtype)
    return tli_fail(TL_EDTYPE, "grad: expected dtype %s as the tensor's, got %s",
                    tl_dtype_name((tl_DType)t->dtype), tl_dtype_name((tl_DType)grad->dtype));
  if (grad && !tli_same_device(tli_device(grad), tli_device(t)))
    return tli_fail(TL_EDEVICE, "grad: expected a tensor on %s as the tensor's, got one on %s",
                    tli_device_str(tli_device(t)), tli_device_str(tli_device(grad)));
  if (grad == t) return tli_fail(TL_EARG, "grad: a tensor cannot be its own gradient");
  if (grad && owns(grad, t))
    return tli_fail(TL_EARG,
                    "grad: the gradient's own gradient, or what it is a view of, leads back "
                    "to the tensor, so that neither could ever be freed; assign a clone()");
  tli_Autograd *a = tli_autograd(t);
  TL_TRY(a);
  tl_Tensor *old = a->grad;
  a->grad = grad ? tli_retain(grad) : NULL;
  tli_release(old);
  return true;
}
