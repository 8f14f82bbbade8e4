/*
** reduce.c - sums, products, minima and maxima with their positions, over any dimensions, and the
** gradients of these operators.
*/
#include "ops/chain.h"
#include "ops/reduce/axes.h"
#include "ops/reduce/complex.h"

/* ---- forward ---- */

/* Returns the dtype of a sum: the requested dtype or, if none is requested, int64 for integers and
** bool and the dtype of self otherwise. */
static tl_DType sum_dtype(const tl_Tensor *self, tl_DType wish) {
  if (wish != TL_NODTYPE) return tli_warn_discarding(self, wish), wish;
  return tli_is_inexact((tl_DType)self->dtype) ? (tl_DType)self->dtype : TL_I64;
}

static tl_Tensor *truth(const char *name, tlk_Reduction kernel, tl_Tensor *self, tl_Ints dim,
                        bool keepdim) {
  if (tli_is_complex((tl_DType)self->dtype)) {
    tl_Tensor *bools = tli_op_to_dtype(self, TL_BOOL);
    tl_Tensor *result = bools ? truth(name, kernel, bools, dim, keepdim) : NULL;
    tli_release(bools);
    return result;
  }
  tli_ReduceSpec spec = {.name = name,
                         .kernel = kernel,
                         .again = kernel,
                         .compute = tli_dtype_compute((tl_DType)self->dtype),
                         .result = TL_BOOL,
                         .repeats = TLI_ONCE};
  return tli_reduce(&spec, self, dim, keepdim);
}

static tl_Tensor *total(const char *name, tlk_Reduction kernel, tl_Tensor *self, tl_Ints dim,
                        bool keepdim, tl_DType dtype) {
  tl_DType result = sum_dtype(self, dtype);
  if (result == TL_BOOL) return truth(name, TLK_reduction_any, self, dim, keepdim);
  if (tli_is_complex(result)) return tli_complex_sum(name, self, dim, keepdim, result);
  tli_ReduceSpec spec = {.name = name,
                         .kernel = kernel,
                         .again = TLK_reduction_sum,
                         .compute = tli_dtype_compute(result),
                         .result = result,
                         .repeats = TLI_TIMES};
  return tli_reduce(&spec, self, dim, keepdim);
}

tl_Tensor *tli_op_sum(tl_Tensor *self, tl_Ints dim, bool keepdim, tl_DType dtype) {
  return total("sum", TLK_reduction_sum, self, dim, keepdim, dtype);
}

tl_Tensor *tli_op_nansum(tl_Tensor *self, tl_Ints dim, bool keepdim, tl_DType dtype) {
  return total("nansum", TLK_reduction_nansum, self, dim, keepdim, dtype);
}

tl_Tensor *tli_op_prod(tl_Tensor *self, int64_t dim, bool keepdim, tl_DType dtype) {
  tl_DType result = sum_dtype(self, dtype);
  if (result == TL_BOOL) return truth("prod", TLK_reduction_all, self, tli_one_dim(&dim), keepdim);
  if (tli_is_complex(result)) return tli_complex_prod("prod", self, dim, keepdim, result);
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

/* Computes the reductions of the operators `all` and `any`. An empty list of dimensions reduces no
** dimension. The result of a uint8 tensor is uint8, as in PyTorch, where uint8 once served as
** bool. */
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

/* Counts floating elements in float64, because float32 cannot represent all integers above 2^24. */
tl_Tensor *tli_op_count_nonzero(tl_Tensor *self, tl_Ints dim) {
  if (tli_is_complex((tl_DType)self->dtype)) {
    tl_Tensor *bools = tli_op_to_dtype(self, TL_BOOL);
    tl_Tensor *result = bools ? tli_op_count_nonzero(bools, dim) : NULL;
    tli_release(bools);
    return result;
  }
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

/* Finds the positions of the extremes along one dimension. `values` may be NULL. */
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

/* Returns the position of the smallest or largest element along dim. Without dim, the position is
** that in the flattened tensor. */
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

/* ---- restoring self's shape ---- */

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

/* Divides the gradient equally among all elements that equal the maximum or minimum. */
tl_Tensor *tlo_amax_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, tl_Ints dim,
                             bool keepdim) {
  tl_Ints size = {self->ndim, self->sizes};
  tli_Chain c = {0};
  tl_Tensor *wide = TLI_STEP(&c, tlo_unsqueeze_reduced(grad, size, dim, keepdim));
  tl_Tensor *extreme = TLI_STEP(&c, tlo_unsqueeze_reduced(result, size, dim, keepdim));
  tl_Tensor *equal = TLI_STEP(&c, tlo_eq(self, extreme));
  tl_Tensor *count = TLI_STEP(&c, tlo_sum(equal, dim, true, TL_NODTYPE));
  tl_Tensor *share = chain_div(&c, wide, count);
  return tli_chain_end(&c, chain_where_else(&c, equal, share, tli_int(0)));
}

/* Returns a gradient of zeros, except that the whole gradient of each result goes to one position
** along dim. `indices` has these positions, counted from 1. */
tl_Tensor *tlo_value_backward(tl_Tensor *grad, tl_Ints size, int64_t dim, tl_Tensor *indices,
                              bool keepdim) {
  if (size.n == 0) return tli_retain(grad);
  int d = tli_dim("reduction", dim, (int)size.n);
  if (d < 0) return NULL;
  int64_t line[TL_MAX_DIMS];
  for (int k = 0; k < size.n; k++) line[k] = k == d ? size.v[k] : 1;
  tli_Chain c = {0};
  tl_Tensor *row = TLI_STEP(
      &c, tlo_arange(tli_int(1), tli_int(size.v[d] + 1), tli_int(1), TL_I64, tli_device(grad)));
  tl_Tensor *positions = TLI_STEP(&c, tlo_view(row, (tl_Ints){size.n, line}));
  if (!keepdim) indices = chain_unsqueeze(&c, indices, d), grad = chain_unsqueeze(&c, grad, d);
  tl_Tensor *chosen = TLI_STEP(&c, tlo_eq(positions, indices));
  return tli_chain_end(&c, chain_where_else(&c, chosen, grad, tli_int(0)));
}

/* ---- the gradient of a product ---- */

/* Concatenates a and b along d. With `backwards`, b comes first. */
static tl_Tensor *chain_ordered(tli_Chain *c, tl_Tensor *a, tl_Tensor *b, int d, bool backwards) {
  return backwards ? chain_cat(c, b, a, d) : chain_cat(c, a, b, d);
}

/* Doubles the number of factors: multiplies the product at each position by the product s positions
** before it or, with `backwards`, after it. */
static tl_Tensor *reach_further(tl_Tensor *current, int d, int64_t s, bool backwards) {
  int64_t n = current->sizes[d];
  tli_Chain c = {0};
  tl_Tensor *done =
      backwards ? chain_slice(&c, current, d, n - s, n) : chain_slice(&c, current, d, 0, s);
  tl_Tensor *upper = chain_slice(&c, current, d, s, n);
  tl_Tensor *lower = chain_slice(&c, current, d, 0, n - s);
  tl_Tensor *product = chain_mul(&c, upper, lower);
  return tli_chain_end(&c, chain_ordered(&c, done, product, d, backwards));
}

/* Computes, for each position along d, the product of all elements before it or, with `backwards`,
** after it. The product of no elements is 1. Each step doubles the number of elements that a
** product covers. The function consists of operators, so it is differentiable. */
static tl_Tensor *products(tl_Tensor *self, int d, bool backwards) {
  int64_t n = self->sizes[d], one[TL_MAX_DIMS];
  for (int k = 0; k < self->ndim; k++) one[k] = k == d ? 1 : self->sizes[k];
  tli_Chain c = {0};
  tl_Tensor *ones =
      TLI_STEP(&c, tlo_new_ones(self, (tl_Ints){self->ndim, one}, TL_NODTYPE, TLI_NODEVICE));
  tl_Tensor *rest = backwards ? chain_slice(&c, self, d, 1, n) : chain_slice(&c, self, d, 0, n - 1);
  tl_Tensor *current = tli_chain_end(&c, chain_ordered(&c, ones, rest, d, backwards));
  for (int64_t s = 1; current && s < n; s *= 2) {
    tl_Tensor *next = reach_further(current, d, s, backwards);
    tli_release(current);
    current = next;
  }
  return current;
}

/* Computes the gradient of prod along d. grad and result have size 1 along d. */
static tl_Tensor *prod_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int d) {
  bool zero = false;
  TL_TRY_NULL(tli_any_zero(self, &zero));
  tli_Chain c = {0};
  if (!zero) return tli_chain_end(&c, chain_div(&c, chain_mul(&c, grad, result), self));
  tl_Tensor *before = TLI_STEP(&c, products(self, d, false));
  tl_Tensor *behind = TLI_STEP(&c, products(self, d, true));
  return tli_chain_end(&c, chain_mul(&c, grad, chain_mul(&c, before, behind)));
}

tl_Tensor *tlo_prod_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int64_t dim,
                             bool keepdim) {
  if (self->numel == 0) return tlo_zeros_like(self, TL_NODTYPE, TLI_NODEVICE, NULL);
  tl_Ints size = {self->ndim, self->sizes}, one = {1, (int64_t[]){1}};
  bool flat = dim == TLI_NOINT || self->ndim == 0;
  int d = flat ? 0 : tli_dim("prod", dim, self->ndim);
  if (d < 0) return NULL;
  tli_Chain c = {0};
  self = TLI_STEP(&c, tlo_conj(self));
  result = TLI_STEP(&c, tlo_conj(result));
  if (flat) {
    self = TLI_STEP(&c, tlo_reshape(self, (tl_Ints){1, (int64_t[]){-1}}));
    grad = TLI_STEP(&c, tlo_reshape(grad, one));
    result = TLI_STEP(&c, tlo_reshape(result, one));
  } else {
    grad = TLI_STEP(&c, tlo_unsqueeze_reduced(grad, size, (tl_Ints){1, &dim}, keepdim));
    result = TLI_STEP(&c, tlo_unsqueeze_reduced(result, size, (tl_Ints){1, &dim}, keepdim));
  }
  tl_Tensor *back = TLI_STEP(&c, prod_backward(grad, self, result, d));
  return tli_chain_end(&c, flat ? TLI_STEP(&c, tlo_reshape(back, size)) : back);
}
