/*
** reduce.c - sums, products, extremes and their positions, over any
** dimensions; and how their gradients spread again.
*/
#include "ops/reduce/axes.h"

/* ---- forward ---- */

/* The dtype of a sum: the one asked for, else int64 for integers and bool. */
static tl_DType sum_dtype(const tl_Tensor *self, tl_DType wish) {
  if (wish != TL_NODTYPE) return wish;
  return tli_is_float((tl_DType)self->dtype) ? (tl_DType)self->dtype : TL_I64;
}

static tl_Tensor *truth(const char *name, tlk_Reduction kernel, tl_Tensor *self, tl_Ints dim,
                        bool keepdim) {
  tli_ReduceSpec spec = {.name = name,
                         .kernel = kernel,
                         .again = kernel,
                         .compute = tli_dtype_compute((tl_DType)self->dtype),
                         .result = TL_BOOL,
                         .repeats = TLI_ONCE};
  return tli_reduce(&spec, self, dim, keepdim);
}

tl_Tensor *tli_op_sum(tl_Tensor *self, tl_Ints dim, bool keepdim, tl_DType dtype) {
  tl_DType result = sum_dtype(self, dtype);
  if (result == TL_BOOL) return truth("sum", TLK_reduction_any, self, dim, keepdim);
  tli_ReduceSpec spec = {.name = "sum",
                         .kernel = TLK_reduction_sum,
                         .again = TLK_reduction_sum,
                         .compute = tli_dtype_compute(result),
                         .result = result,
                         .repeats = TLI_TIMES};
  return tli_reduce(&spec, self, dim, keepdim);
}

tl_Tensor *tli_op_nansum(tl_Tensor *self, tl_Ints dim, bool keepdim, tl_DType dtype) {
  tl_DType result = sum_dtype(self, dtype);
  if (result == TL_BOOL) return truth("nansum", TLK_reduction_any, self, dim, keepdim);
  tli_ReduceSpec spec = {.name = "nansum",
                         .kernel = TLK_reduction_nansum,
                         .again = TLK_reduction_sum,
                         .compute = tli_dtype_compute(result),
                         .result = result,
                         .repeats = TLI_TIMES};
  return tli_reduce(&spec, self, dim, keepdim);
}

tl_Tensor *tli_op_prod(tl_Tensor *self, int64_t dim, bool keepdim, tl_DType dtype) {
  tl_DType result = sum_dtype(self, dtype);
  if (result == TL_BOOL) return truth("prod", TLK_reduction_all, self, tli_one_dim(&dim), keepdim);
  tli_ReduceSpec spec = {.name = "prod",
                         .kernel = TLK_reduction_prod,
                         .again = TLK_reduction_prod,
                         .compute = tli_dtype_compute(result),
                         .result = result,
                         .repeats = TLI_EACH};
  return tli_reduce(&spec, self, tli_one_dim(&dim), keepdim);
}

static tl_Tensor *extreme(const char *name, tlk_Reduction kernel, tl_Tensor *self, tl_Ints dim,
                          bool keepdim) {
  tl_DType dtype = (tl_DType)self->dtype;
  tli_ReduceSpec spec = {.name = name,
                         .kernel = kernel,
                         .again = kernel,
                         .compute = tli_dtype_compute(dtype),
                         .result = dtype,
                         .repeats = TLI_ONCE,
                         .nonempty = true};
  return tli_reduce(&spec, self, dim, keepdim);
}

tl_Tensor *tli_op_amax(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return extreme("amax", TLK_reduction_amax, self, dim, keepdim);
}

tl_Tensor *tli_op_amin(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return extreme("amin", TLK_reduction_amin, self, dim, keepdim);
}

/* What all and any have of their own: an empty list of dimensions reduces
** none, and uint8, which once stood for bool, stays uint8. */
static tl_Tensor *quantified(const char *name, tlk_Reduction kernel, tl_Tensor *self, tl_Ints dim,
                             bool keepdim) {
  tl_Tensor *bools = dim.v && dim.n == 0 ? tli_op_to_dtype(self, TL_BOOL)
                                         : truth(name, kernel, self, dim, keepdim);
  if (bools == NULL || self->dtype != TL_U8) return bools;
  tl_Tensor *result = tli_op_to_dtype(bools, TL_U8);
  tli_release(bools);
  return result;
}

tl_Tensor *tli_op_all(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return quantified("all", TLK_reduction_all, self, dim, keepdim);
}

tl_Tensor *tli_op_any(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return quantified("any", TLK_reduction_any, self, dim, keepdim);
}

/* Counted in float64 rather than float32, which is not exact beyond 2^24. */
tl_Tensor *tli_op_count_nonzero(tl_Tensor *self, tl_Ints dim) {
  tl_DType compute = tli_is_float((tl_DType)self->dtype) ? TL_F64 : TL_I64;
  tli_ReduceSpec spec = {.name = "count_nonzero",
                         .kernel = TLK_reduction_count_nonzero,
                         .again = TLK_reduction_sum,
                         .compute = compute,
                         .result = TL_I64,
                         .repeats = TLI_TIMES};
  return tli_reduce(&spec, self, dim, false);
}

/* ---- positions ---- */

/* Along one dimension; `values` may be NULL. */
static bool positions(const char *op, bool largest, tl_Tensor *self, int64_t dim, bool keepdim,
                      tl_Tensor **values, tl_Tensor **indices) {
  tli_Axes a;
  bool ok = tli_axes_begin(&a, op, self, (tl_Ints){1, &dim}, keepdim, false);
  if (ok && a.reduced == 0)
    ok = tli_fail(TL_ESHAPE, "%s: expected at least one element along the dimension, got shape %s",
                  op, tli_sizes_str(self));
  if (ok && values) ok = (*values = tli_axes_result(&a, (tl_DType)self->dtype)) != NULL;
  ok = ok && (*indices = tli_axes_result(&a, TL_I64)) != NULL;
  if (ok && (*indices)->numel > 0) {
    tli_Run run = tli_axes_run(&a);
    tlk_Array best = values ? tli_array(*values) : (tlk_Array){NULL, (tl_DType)self->dtype};
    ok = TLI_RUN(tli_device(self), reduce_index, .largest = largest, .values = best,
                 .indices = tli_data(*indices), .in = tli_array(a.in), .outer = run.outer,
                 .n = run.n, .inner = run.inner);
  }
  tli_axes_end(&a);
  if (!ok) {
    tli_release(*indices);
    *indices = NULL;
    if (values) {
      tli_release(*values);
      *values = NULL;
    }
  }
  return ok;
}

bool tli_op_max_dim(tl_Tensor *self, int64_t dim, bool keepdim, tl_Tensor **out) {
  return positions("max", true, self, dim, keepdim, &out[0], &out[1]);
}

bool tli_op_min_dim(tl_Tensor *self, int64_t dim, bool keepdim, tl_Tensor **out) {
  return positions("min", false, self, dim, keepdim, &out[0], &out[1]);
}

/* Without dim the position in row-major order. */
static tl_Tensor *position(const char *op, bool largest, tl_Tensor *self, int64_t dim,
                           bool keepdim) {
  tl_Tensor *indices = NULL;
  if (dim != TLI_NOINT) {
    positions(op, largest, self, dim, keepdim, NULL, &indices);
    return indices;
  }
  tl_Tensor *rows = tli_contiguous_as(self, (tl_DType)self->dtype);
  tl_Tensor *flat = rows ? tli_alias(rows, 1, &rows->numel, NULL, rows->offset) : NULL;
  if (flat) positions(op, largest, flat, 0, false, NULL, &indices);
  tli_release(rows);
  tli_release(flat);
  if (indices && keepdim) {
    int64_t ones[TL_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++) ones[d] = 1;
    tli_set_geometry(indices, self->ndim, ones, NULL);
  }
  return indices;
}

tl_Tensor *tli_op_argmax(tl_Tensor *self, int64_t dim, bool keepdim) {
  return position("argmax", true, self, dim, keepdim);
}

tl_Tensor *tli_op_argmin(tl_Tensor *self, int64_t dim, bool keepdim) {
  return position("argmin", false, self, dim, keepdim);
}

/* ---- back to self's shape ---- */

tl_Tensor *tlo_unsqueeze_reduced(tl_Tensor *self, tl_Ints size, tl_Ints dim, bool keepdim) {
  if (keepdim || size.n == 0) return tli_retain(self);
  bool reduced[TL_MAX_DIMS];
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_mark_dims("reduction", dim, (int)size.n, reduced));
  for (int d = 0; d < size.n; d++) sizes[d] = reduced[d] ? 1 : size.v[d];
  return tlo_view(self, (tl_Ints){size.n, sizes});
}

tl_Tensor *tlo_expand_reduced(tl_Tensor *grad, tl_Ints size, tl_Ints dim, bool keepdim) {
  tl_Tensor *t = tlo_unsqueeze_reduced(grad, size, dim, keepdim);
  tl_Tensor *result = t ? tlo_expand(t, size) : NULL;
  tli_release(t);
  return result;
}

/* Equal extremes share the gradient. */
tl_Tensor *tlo_amax_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, tl_Ints dim,
                             bool keepdim) {
  tl_Ints size = {self->ndim, self->sizes};
  tl_Tensor *t[5] = {NULL};
  tl_Tensor *back = NULL;
  TLI_SLOT(t[0], tlo_unsqueeze_reduced(grad, size, dim, keepdim));
  TLI_SLOT(t[1], tlo_unsqueeze_reduced(result, size, dim, keepdim));
  TLI_SLOT(t[2], tlo_eq(self, t[1]));
  TLI_SLOT(t[3], tlo_sum(t[2], dim, true, TL_NODTYPE));
  TLI_SLOT(t[4], tlo_true_divide(t[0], t[3]));
  back = tli_where_else(t[2], t[4], tli_int(0));
done:
  tli_release_results(t, 5);
  return back;
}

/* The whole gradient at one position, from 1, along dim. */
tl_Tensor *tlo_value_backward(tl_Tensor *grad, tl_Ints size, int64_t dim, tl_Tensor *indices,
                              bool keepdim) {
  if (size.n == 0) return tli_retain(grad);
  int d = tli_dim("reduction", dim, (int)size.n);
  if (d < 0) return NULL;
  int64_t line[TL_MAX_DIMS];
  for (int k = 0; k < size.n; k++) line[k] = k == d ? size.v[k] : 1;
  tl_Tensor *t[5] = {NULL};
  tl_Tensor *back = NULL;
  TLI_SLOT(t[0],
           tlo_arange(tli_int(1), tli_int(size.v[d] + 1), tli_int(1), TL_I64, tli_device(grad)));
  TLI_SLOT(t[1], tlo_view(t[0], (tl_Ints){size.n, line}));
  TLI_SLOT(t[2], keepdim ? tli_retain(indices) : tlo_unsqueeze(indices, d));
  TLI_SLOT(t[3], tlo_eq(t[1], t[2]));
  TLI_SLOT(t[4], keepdim ? tli_retain(grad) : tlo_unsqueeze(grad, d));
  back = tli_where_else(t[3], t[4], tli_int(0));
done:
  tli_release_results(t, 5);
  return back;
}

/* ---- the gradient of a product ---- */

/* Products of what stands before each position along d (after it, if
** `backwards`), 1 at the first: by doubling distances, with operators only. */
static tl_Tensor *products(tl_Tensor *self, int d, bool backwards) {
  int64_t n = self->sizes[d], one[TL_MAX_DIMS];
  for (int k = 0; k < self->ndim; k++) one[k] = k == d ? 1 : self->sizes[k];
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *current = NULL;
  TLI_SLOT(t[0], tlo_new_ones(self, (tl_Ints){self->ndim, one}, TL_NODTYPE, TLI_NODEVICE));
  TLI_SLOT(t[1], backwards ? tlo_slice(self, d, 1, n, 1) : tlo_slice(self, d, 0, n - 1, 1));
  current = tlo_cat((tl_Tensors){2, backwards ? (tl_Tensor *[]){t[1], t[0]} : t}, d);
  for (int64_t s = 1; current && s < n; s *= 2) {
    tl_Tensor *u[4] = {NULL}, *next = NULL;
    u[0] = backwards ? tlo_slice(current, d, n - s, n, 1) : tlo_slice(current, d, 0, s, 1);
    u[1] = tlo_slice(current, d, s, n, 1);
    u[2] = tlo_slice(current, d, 0, n - s, 1);
    if (u[0] && u[1] && u[2] && (u[3] = tlo_mul(u[1], u[2])))
      next = tlo_cat(
          (tl_Tensors){2, backwards ? (tl_Tensor *[]){u[3], u[0]} : (tl_Tensor *[]){u[0], u[3]}},
          d);
    tli_release_results(u, 4);
    tli_release(current);
    current = next;
  }
done:
  tli_release_results(t, 2);
  return current;
}

/* grad and result with one dimension of size 1 at d. */
static tl_Tensor *prod_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int d) {
  bool zero = false;
  TL_TRY_NULL(tli_any_zero(self, &zero));
  tl_Tensor *t[3] = {NULL};
  tl_Tensor *back = NULL;
  if (zero) { /* what the others multiply to */
    TLI_SLOT(t[0], products(self, d, false));
    TLI_SLOT(t[1], products(self, d, true));
    TLI_SLOT(t[2], tlo_mul(t[0], t[1]));
    back = tlo_mul(grad, t[2]);
  } else {
    TLI_SLOT(t[0], tlo_mul(grad, result));
    back = tlo_true_divide(t[0], self);
  }
done:
  tli_release_results(t, 3);
  return back;
}

tl_Tensor *tlo_prod_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int64_t dim,
                             bool keepdim) {
  if (self->numel == 0) return tlo_zeros_like(self, TL_NODTYPE, TLI_NODEVICE);
  tl_Ints size = {self->ndim, self->sizes};
  tl_Tensor *t[4] = {NULL};
  tl_Tensor *back = NULL;
  if (dim == TLI_NOINT || self->ndim == 0) {
    tl_Ints one = {1, (int64_t[]){1}};
    TLI_SLOT(t[0], tlo_reshape(self, (tl_Ints){1, (int64_t[]){-1}}));
    TLI_SLOT(t[1], tlo_reshape(grad, one));
    TLI_SLOT(t[2], tlo_reshape(result, one));
    TLI_SLOT(t[3], prod_backward(t[1], t[0], t[2], 0));
    back = tlo_reshape(t[3], size);
  } else {
    int d = tli_dim("prod", dim, self->ndim);
    if (d < 0) goto done;
    TLI_SLOT(t[0], tlo_unsqueeze_reduced(grad, size, (tl_Ints){1, &dim}, keepdim));
    TLI_SLOT(t[1], tlo_unsqueeze_reduced(result, size, (tl_Ints){1, &dim}, keepdim));
    back = prod_backward(t[0], self, t[1], d);
  }
done:
  tli_release_results(t, 4);
  return back;
}
