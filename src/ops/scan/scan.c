/*
** scan.c - running reductions, their gradients, differences and integrals.
*/
#include <math.h>

#include "ops/reduce/axes.h"

/* ---- forward ---- */

/* The results lie in memory as the input does, where that is dense. */
static bool run(const char *op, tlk_Scan kernel, tl_Tensor *self, int64_t dim, tl_DType dtype,
                tl_Tensor **values, tl_Tensor **indices) {
  tli_Axes a;
  bool ok = tli_axes_begin(&a, op, self, (tl_Ints){1, &dim}, true, false);
  ok = ok && (*values = tli_empty_like(a.in, dtype));
  if (ok && indices) ok = (*indices = tli_empty_like(a.in, TL_I64)) != NULL;
  if (ok && self->numel > 0) {
    tli_Run run = tli_axes_run(&a);
    ok = TLI_RUN(tli_device(self), scan, .kernel = kernel, .compute = tli_dtype_compute(dtype),
                 .out = tli_array(*values), .indices = indices ? tli_data(*indices) : NULL,
                 .in = tli_array(a.in), .outer = run.outer, .n = run.n, .inner = run.inner);
  }
  tli_axes_end(&a);
  if (!ok) {
    tli_release_results(values, 1);
    if (indices) tli_release_results(indices, 1);
  }
  return ok;
}

static tl_Tensor *sums(const char *op, tlk_Scan kernel, tl_Tensor *self, int64_t dim,
                       tl_DType dtype) {
  if (dtype == TL_BOOL) return tli_fail_null(TL_EDTYPE, "%s: not defined for bool", op);
  if (dtype == TL_NODTYPE)
    dtype = tli_is_float((tl_DType)self->dtype) ? (tl_DType)self->dtype : TL_I64;
  tl_Tensor *result = NULL;
  run(op, kernel, self, dim, dtype, &result, NULL);
  return result;
}

tl_Tensor *tli_op_cumsum(tl_Tensor *self, int64_t dim, tl_DType dtype) {
  return sums("cumsum", TLK_scan_cumsum, self, dim, dtype);
}

tl_Tensor *tli_op_cumprod(tl_Tensor *self, int64_t dim, tl_DType dtype) {
  return sums("cumprod", TLK_scan_cumprod, self, dim, dtype);
}

tl_Tensor *tli_op_logcumsumexp(tl_Tensor *self, int64_t dim) {
  tl_DType dtype = tli_floating_dtype(self);
  return sums("logcumsumexp", TLK_scan_logcumsumexp, self, dim, dtype);
}

bool tli_op_cummax(tl_Tensor *self, int64_t dim, tl_Tensor **out) {
  return run("cummax", TLK_scan_cummax, self, dim, (tl_DType)self->dtype, &out[0], &out[1]);
}

bool tli_op_cummin(tl_Tensor *self, int64_t dim, tl_Tensor **out) {
  return run("cummin", TLK_scan_cummin, self, dim, (tl_DType)self->dtype, &out[0], &out[1]);
}

/* ---- gradients ---- */

/* fn along dim from its end. */
static tl_Tensor *backwards(tl_Tensor *self, int64_t dim,
                            tl_Tensor *(*fn)(tl_Tensor *self, int64_t dim)) {
  tl_Ints dims = {1, &dim};
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_flip(self, dims));
  TLI_SLOT(t[1], fn(t[0], dim));
  result = tlo_flip(t[1], dims);
done:
  tli_release_results(t, 2);
  return result;
}

static tl_Tensor *cumsum(tl_Tensor *self, int64_t dim) { return tlo_cumsum(self, dim, TL_NODTYPE); }

static tl_Tensor *join(tl_Tensor *a, tl_Tensor *b, int d) {
  return tlo_cat((tl_Tensors){2, (tl_Tensor *[]){a, b}}, d);
}

/* S with S_i = g_i + x_{i+1} S_{i+1}, by doubling: after each step S_i holds
** what the next 2s elements give it, and F_i the product that carries on what
** comes after them. With operators only, so that it can be differentiated. */
static tl_Tensor *carried(tl_Tensor *grad, tl_Tensor *self, int d) {
  int64_t n = self->sizes[d], one[TL_MAX_DIMS];
  for (int k = 0; k < self->ndim; k++) one[k] = k == d ? 1 : self->sizes[k];
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *sum = NULL, *factor = NULL;
  TLI_SLOT(t[0], tlo_slice(self, d, 1, n, 1));
  TLI_SLOT(t[1], tlo_new_zeros(self, (tl_Ints){self->ndim, one}, TL_NODTYPE, TLI_NODEVICE));
  TLI_SLOT(factor, join(t[0], t[1], d));
  sum = tli_retain(grad);
  for (int64_t s = 1; sum && factor && s < n; s *= 2) {
    /* heads see s further elements, tails nothing more */
    tl_Tensor *u[9] = {NULL}, *next_sum = NULL, *next_factor = NULL;
    if ((u[0] = tlo_slice(sum, d, 0, n - s, 1)) && (u[1] = tlo_slice(sum, d, s, n, 1)) &&
        (u[2] = tlo_slice(sum, d, n - s, n, 1)) && (u[3] = tlo_slice(factor, d, 0, n - s, 1)) &&
        (u[4] = tlo_slice(factor, d, s, n, 1)) && (u[5] = tlo_slice(factor, d, n - s, n, 1)) &&
        (u[6] = tlo_addcmul(u[0], u[3], u[1], tli_int(1))) && (u[7] = tlo_mul(u[3], u[4])) &&
        (next_sum = join(u[6], u[2], d)))
      next_factor = join(u[7], u[5], d);
    tli_release_results(u, 9);
    tli_release(sum);
    tli_release(factor);
    sum = next_sum;
    factor = next_factor;
    if (factor == NULL) tli_release_results(&sum, 1);
  }
done:
  tli_release(factor);
  tli_release_results(t, 2);
  return sum;
}

/* The products before each position, times what is carried back to it. */
static tl_Tensor *cumprod_with_zeros(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int d) {
  int64_t n = self->sizes[d], one[TL_MAX_DIMS];
  for (int k = 0; k < self->ndim; k++) one[k] = k == d ? 1 : self->sizes[k];
  tl_Tensor *t[4] = {NULL};
  tl_Tensor *back = NULL;
  TLI_SLOT(t[0], tlo_new_ones(result, (tl_Ints){self->ndim, one}, TL_NODTYPE, TLI_NODEVICE));
  TLI_SLOT(t[1], tlo_slice(result, d, 0, n - 1, 1));
  TLI_SLOT(t[2], join(t[0], t[1], d));
  TLI_SLOT(t[3], carried(grad, self, d));
  back = tlo_mul(t[2], t[3]);
done:
  tli_release_results(t, 4);
  return back;
}

/* Without zeros: sum of grad * result from each position on, divided by it. */
tl_Tensor *tlo_cumprod_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int64_t dim) {
  if (self->ndim == 0 || self->numel == 0) return tli_retain(grad);
  int d = tli_dim("cumprod", dim, self->ndim);
  if (d < 0) return NULL;
  bool zero;
  TL_TRY_NULL(tli_any_zero(self, &zero));
  if (zero) return cumprod_with_zeros(grad, self, result, d);
  tl_Tensor *product = tlo_mul(grad, result);
  tl_Tensor *sums = product ? backwards(product, d, cumsum) : NULL;
  tl_Tensor *back = sums ? tlo_true_divide(sums, self) : NULL;
  tli_release(product);
  tli_release(sums);
  return back;
}

/* exp(self + log(sum from each position on of w * exp(-result))), w the part
** of grad of one sign. A result of -infinity has only such elements before it,
** on which it does not depend. */
static tl_Tensor *log_half(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int64_t dim) {
  tl_Tensor *t[9] = {NULL};
  tl_Tensor *half = NULL;
  TLI_SLOT(t[0], tli_with_number(tlo_gt, grad, tli_int(0)));
  TLI_SLOT(t[1], tlo_isneginf(result));
  TLI_SLOT(t[2], tlo_logical_not(t[1]));
  TLI_SLOT(t[3], tlo_logical_and(t[0], t[2]));
  TLI_SLOT(t[4], tli_where_else(t[3], grad, tli_int(1)));
  TLI_SLOT(t[5], tlo_log(t[4]));
  TLI_SLOT(t[6], tli_minus(t[5], result));
  TLI_SLOT(t[7], tli_where_else(t[3], t[6], tli_float(-(double)INFINITY)));
  TLI_SLOT(t[8], backwards(t[7], dim, tlo_logcumsumexp));
  tli_release_results(t, 1);
  TLI_SLOT(t[0], tli_plus(t[8], self));
  half = tlo_exp(t[0]);
done:
  tli_release_results(t, 9);
  return half;
}

tl_Tensor *tlo_logcumsumexp_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result,
                                     int64_t dim) {
  if (self->numel == 0) return tli_retain(grad);
  tl_Tensor *t[3] = {NULL};
  tl_Tensor *back = NULL;
  TLI_SLOT(t[0], tlo_neg(grad));
  TLI_SLOT(t[1], log_half(grad, self, result, dim));
  TLI_SLOT(t[2], log_half(t[0], self, result, dim));
  back = tli_minus(t[1], t[2]);
done:
  tli_release_results(t, 3);
  return back;
}

/* ---- differences ---- */

static tl_Tensor *difference(tl_Tensor *self, int d) {
  int64_t n = self->sizes[d];
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_slice(self, d, 1, n, 1));
  TLI_SLOT(t[1], tlo_slice(self, d, 0, n > 0 ? n - 1 : 0, 1));
  result = self->dtype == TL_BOOL ? tlo_logical_xor(t[0], t[1]) : tli_minus(t[0], t[1]);
done:
  tli_release_results(t, 2);
  return result;
}

tl_Tensor *tlo_diff(tl_Tensor *self, int64_t n, int64_t dim, tl_Tensor *prepend,
                    tl_Tensor *append) {
  if (n < 0) return tli_fail_null(TL_EARG, "diff: expected n of at least 0, got %" PRId64, n);
  if (self->ndim == 0)
    return tli_fail_null(TL_ESHAPE, "diff: expected a tensor of at least one dimension");
  int d = tli_dim("diff", dim, self->ndim);
  if (d < 0) return NULL;
  if (n == 0) return tlo_clone(self);
  tl_Tensor *parts[3];
  int64_t count = 0;
  if (prepend) parts[count++] = prepend;
  parts[count++] = self;
  if (append) parts[count++] = append;
  tl_Tensor *current = count > 1 ? tlo_cat((tl_Tensors){count, parts}, d) : tli_retain(self);
  if (current && n > current->sizes[d]) n = current->sizes[d]; /* nothing is left then */
  for (int64_t i = 0; current && i < n; i++) {
    tl_Tensor *next = difference(current, d);
    tli_release(current);
    current = next;
  }
  return current;
}

/* ---- integrals ---- */

/* y_i + y_{i+1} along d. */
static tl_Tensor *pairs(tl_Tensor *y, int d) {
  int64_t n = y->sizes[d];
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_slice(y, d, 1, n, 1));
  TLI_SLOT(t[1], tlo_slice(y, d, 0, n > 0 ? n - 1 : 0, 1));
  result = tli_plus(t[0], t[1]);
done:
  tli_release_results(t, 2);
  return result;
}

/* x seen so that it broadcasts against y with dimension d in place: a vector
** lies along d, other tensors keep their last dimensions. */
static tl_Tensor *along(const char *op, tl_Tensor *x, tl_Tensor *y, int d) {
  if (x->ndim > y->ndim || x->ndim == 0)
    return tli_fail_null(TL_ESHAPE, "%s: x of shape %s does not fit y of shape %s", op,
                         tli_sizes_str(x), tli_sizes_str(y));
  int64_t sizes[TL_MAX_DIMS];
  int skip = x->ndim == 1 ? d : y->ndim - x->ndim;
  for (int k = 0; k < y->ndim; k++)
    sizes[k] = k >= skip && k - skip < x->ndim ? x->sizes[k - skip] : 1;
  if (sizes[d] != y->sizes[d])
    return tli_fail_null(TL_ESHAPE,
                         "%s: expected as many points as values along dimension " TLI_POS
                         ", got x of shape %s and y of shape %s",
                         op, (int64_t)d, tli_sizes_str(x), tli_sizes_str(y));
  return tlo_reshape(x, (tl_Ints){y->ndim, sizes});
}

/* The areas of the trapezoids over the steps between the points x. */
static tl_Tensor *areas(const char *op, tl_Tensor *y, tl_Tensor *x, int d) {
  tl_Tensor *t[4] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], along(op, x, y, d));
  TLI_SLOT(t[1], difference(t[0], d));
  TLI_SLOT(t[2], pairs(y, d));
  TLI_SLOT(t[3], tlo_mul(t[2], t[1]));
  result = tli_with_number(tlo_true_divide, t[3], tli_int(2));
done:
  tli_release_results(t, 4);
  return result;
}

static tl_Tensor *even_areas(tl_Tensor *y, double dx, int d) {
  tl_Tensor *t = pairs(y, d);
  tl_Tensor *result = t ? tli_with_number(tlo_mul, t, tli_float(dx / 2)) : NULL;
  tli_release(t);
  return result;
}

/* x == NULL: points dx apart. */
static tl_Tensor *integral(const char *op, tl_Tensor *y, tl_Tensor *x, tl_Scalar dx, int64_t dim,
                           bool running) {
  if (y->ndim == 0)
    return tli_fail_null(TL_ESHAPE, "%s: expected a tensor of at least one dimension", op);
  int d = tli_dim(op, dim, y->ndim);
  if (d < 0) return NULL;
  int64_t at = d;
  tl_Tensor *pieces = x ? areas(op, y, x, d) : even_areas(y, tli_to_double(dx), d);
  tl_Tensor *result = NULL;
  if (pieces)
    result = running ? tlo_cumsum(pieces, at, TL_NODTYPE)
                     : tlo_sum(pieces, (tl_Ints){1, &at}, false, TL_NODTYPE);
  tli_release(pieces);
  return result;
}

tl_Tensor *tlo_trapezoid(tl_Tensor *y, tl_Tensor *x, int64_t dim) {
  return integral("trapezoid", y, x, tli_int(1), dim, false);
}

tl_Tensor *tlo_trapezoid_dx(tl_Tensor *y, tl_Scalar dx, int64_t dim) {
  return integral("trapezoid", y, NULL, dx, dim, false);
}

tl_Tensor *tlo_cumulative_trapezoid(tl_Tensor *y, tl_Tensor *x, int64_t dim) {
  return integral("cumulative_trapezoid", y, x, tli_int(1), dim, true);
}

tl_Tensor *tlo_cumulative_trapezoid_dx(tl_Tensor *y, tl_Scalar dx, int64_t dim) {
  return integral("cumulative_trapezoid", y, NULL, dx, dim, true);
}
