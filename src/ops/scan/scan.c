/*
** scan.c - cumulative operators and their gradients, differences, and integrals of samples.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/reduce/axes.h"
#include "ops/reduce/complex.h"

/* ---- forward ---- */

/* Runs a scan. If the input is dense, the results have its memory order. */
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
    dtype = tli_is_inexact((tl_DType)self->dtype) ? (tl_DType)self->dtype : TL_I64;
  tli_warn_discarding(self, dtype);
  if (tli_is_complex(dtype))
    return (kernel == TLK_scan_cumsum ? tli_complex_cumsum : tli_complex_cumprod)(op, self, dim,
                                                                                  dtype);
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
  if (tli_is_complex((tl_DType)self->dtype)) return tli_complex_logcumsumexp(self, dim);
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

/* Applies fn along dim in reverse order, from the end to the beginning. */
static tl_Tensor *backwards(tl_Tensor *self, int64_t dim,
                            tl_Tensor *(*fn)(tl_Tensor *self, int64_t dim)) {
  tl_Ints dims = {1, &dim};
  tli_Chain c = {0};
  tl_Tensor *turned = TLI_STEP(&c, tlo_flip(self, dims));
  tl_Tensor *found = TLI_STEP(&c, fn(turned, dim));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_flip(found, dims)));
}

static tl_Tensor *cumsum(tl_Tensor *self, int64_t dim) { return tlo_cumsum(self, dim, TL_NODTYPE); }

/* Doubles the number of elements that S and F cover. The comment on the function `carried` defines
** S and F. */
static bool reach_further(tl_Tensor *const *state, int d, int64_t n, int64_t s, tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *heads[2], *far[2], *tails[2]; /* positions near the end (tails) need no step, because
                                           ** their S and F cover all elements up to the end */
  for (int i = 0; i < 2; i++) {
    heads[i] = chain_slice(&c, state[i], d, 0, n - s);
    far[i] = chain_slice(&c, state[i], d, s, n);
    tails[i] = chain_slice(&c, state[i], d, n - s, n);
  }
  tl_Tensor *sum = TLI_STEP(&c, tlo_addcmul(heads[0], heads[1], far[0], tli_int(1)));
  tl_Tensor *factor = chain_mul(&c, heads[1], far[1]);
  out[0] = chain_cat(&c, sum, tails[0], d);
  out[1] = chain_cat(&c, factor, tails[1], d);
  return tli_chain_end_all(&c, out, 2);
}

/* Shifts self by one position towards the beginning along d. The last position becomes zero. */
static tl_Tensor *shifted(tl_Tensor *self, int d) {
  int64_t n = self->sizes[d], one[TL_MAX_DIMS];
  for (int k = 0; k < self->ndim; k++) one[k] = k == d ? 1 : self->sizes[k];
  tli_Chain c = {0};
  tl_Tensor *zeros =
      TLI_STEP(&c, tlo_new_zeros(self, (tl_Ints){self->ndim, one}, TL_NODTYPE, TLI_NODEVICE));
  return tli_chain_end(&c, chain_cat(&c, chain_slice(&c, self, d, 1, n), zeros, d));
}

/* Computes S with S_i = g_i + x_{i+1} S_{i+1}, by doubling. After the step with a given s, S_i
** holds the contribution of the 2s elements from i on. F_i is the factor by which the contribution
** of all later elements is multiplied. The function consists of operators, so it is
** differentiable. */
static tl_Tensor *carried(tl_Tensor *grad, tl_Tensor *self, int d) {
  int64_t n = self->sizes[d];
  tl_Tensor *state[] = {tli_retain(grad), shifted(self, d)}; /* owned */
  bool ok = state[1] != NULL;
  for (int64_t s = 1; ok && s < n; s *= 2) {
    tl_Tensor *next[2];
    ok = reach_further(state, d, n, s, next);
    tli_release_results(state, 2);
    memcpy(state, next, sizeof state);
  }
  tli_release(state[1]);
  if (!ok) tli_release_results(state, 1);
  return state[0];
}

/* Computes cumprod's gradient if elements may be zero. At each position it is the product of all
** elements before the position, times the gradient that later positions carry back to the
** position. */
static tl_Tensor *cumprod_with_zeros(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int d) {
  int64_t n = self->sizes[d], one[TL_MAX_DIMS];
  for (int k = 0; k < self->ndim; k++) one[k] = k == d ? 1 : self->sizes[k];
  tli_Chain c = {0};
  tl_Tensor *ones =
      TLI_STEP(&c, tlo_new_ones(result, (tl_Ints){self->ndim, one}, TL_NODTYPE, TLI_NODEVICE));
  tl_Tensor *before = chain_cat(&c, ones, chain_slice(&c, result, d, 0, n - 1), d);
  tl_Tensor *back = TLI_STEP(&c, carried(grad, self, d));
  return tli_chain_end(&c, chain_mul(&c, before, back));
}

/* Computes the gradient of cumprod. If no element is zero, it is the sum of grad * result from each
** position to the end, divided by the element. */
tl_Tensor *tlo_cumprod_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int64_t dim) {
  if (self->ndim == 0 || self->numel == 0) return tli_retain(grad);
  int d = tli_dim("cumprod", dim, self->ndim);
  if (d < 0) return NULL;
  bool zero;
  TL_TRY_NULL(tli_any_zero(self, &zero));
  tli_Chain c = {0};
  self = TLI_STEP(&c, tlo_conj(self));
  result = TLI_STEP(&c, tlo_conj(result));
  if (zero) return tli_chain_end(&c, TLI_STEP(&c, cumprod_with_zeros(grad, self, result, d)));
  tl_Tensor *product = chain_mul(&c, grad, result);
  tl_Tensor *sums = TLI_STEP(&c, backwards(product, d, cumsum));
  return tli_chain_end(&c, chain_div(&c, sums, self));
}

/* Computes the part of logcumsumexp's gradient that comes from positive gradients, as exp(self +
** log(S)). S is the sum of w * exp(-result) from each position to the end, where w is the positive
** part of grad. Results of -infinity are left out of the sum, because they do not depend on later
** elements. */
static tl_Tensor *log_half(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, int64_t dim) {
  tli_Chain c = {0};
  tl_Tensor *positive = chain_with_int(&c, tlo_gt, grad, 0);
  tl_Tensor *lost = TLI_STEP(&c, tlo_isneginf(result));
  tl_Tensor *left = TLI_STEP(&c, tlo_logical_not(lost));
  tl_Tensor *counts = TLI_STEP(&c, tlo_logical_and(positive, left));
  tl_Tensor *part = chain_where_else(&c, counts, grad, tli_int(1));
  tl_Tensor *log = TLI_STEP(&c, tlo_log(part));
  tl_Tensor *terms =
      chain_where_else(&c, counts, chain_sub(&c, log, result), tli_float(-(double)INFINITY));
  tl_Tensor *sums = TLI_STEP(&c, backwards(terms, dim, tlo_logcumsumexp));
  tl_Tensor *whole = chain_add(&c, sums, self);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_exp(whole)));
}

tl_Tensor *tlo_logcumsumexp_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result,
                                     int64_t dim) {
  if (self->numel == 0) return tli_retain(grad);
  tli_Chain c = {0};
  /* the logarithm of a negative gradient is complex, so for complex numbers one formula handles
  ** gradients of any sign */
  if (tli_is_complex((tl_DType)self->dtype)) {
    tl_Tensor *log = chain_conj(&c, grad);
    log = TLI_STEP(&c, tlo_log(log));
    tl_Tensor *terms = chain_sub(&c, log, result);
    tl_Tensor *sums = TLI_STEP(&c, backwards(terms, dim, tlo_logcumsumexp));
    tl_Tensor *whole = chain_add(&c, sums, self);
    whole = TLI_STEP(&c, tlo_exp(whole));
    return tli_chain_end(&c, chain_conj(&c, whole));
  }
  tl_Tensor *minus = chain_neg(&c, grad);
  tl_Tensor *of_positive = TLI_STEP(&c, log_half(grad, self, result, dim));
  tl_Tensor *of_negative = TLI_STEP(&c, log_half(minus, self, result, dim));
  return tli_chain_end(&c, chain_sub(&c, of_positive, of_negative));
}

/* ---- differences ---- */

/* chain_later returns a view of all positions along d except the first, chain_earlier of all except
** the last. */
static tl_Tensor *chain_later(tli_Chain *c, tl_Tensor *t, int d) {
  return chain_slice(c, t, d, 1, t->sizes[d]);
}
static tl_Tensor *chain_earlier(tli_Chain *c, tl_Tensor *t, int d) {
  return chain_slice(c, t, d, 0, t->sizes[d] > 0 ? t->sizes[d] - 1 : 0);
}

static tl_Tensor *difference(tl_Tensor *self, int d) {
  tli_Chain c = {0};
  tl_Tensor *later = chain_later(&c, self, d), *earlier = chain_earlier(&c, self, d);
  if (self->dtype == TL_BOOL)
    return tli_chain_end(&c, TLI_STEP(&c, tlo_logical_xor(later, earlier)));
  return tli_chain_end(&c, chain_sub(&c, later, earlier));
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
  /* if n reaches the number of elements, there are no differences and the result is empty */
  if (current && n > current->sizes[d]) n = current->sizes[d];
  for (int64_t i = 0; current && i < n; i++) {
    tl_Tensor *next = difference(current, d);
    tli_release(current);
    current = next;
  }
  return current;
}

/* ---- integrals ---- */

/* Returns the sums of neighbouring elements along d: y_i + y_{i+1}. */
static tl_Tensor *pairs(tl_Tensor *y, int d) {
  tli_Chain c = {0};
  tl_Tensor *later = chain_later(&c, y, d), *earlier = chain_earlier(&c, y, d);
  return tli_chain_end(&c, chain_add(&c, later, earlier));
}

/* Returns a view of x that broadcasts with y. A vector extends along d; other tensors keep their
** dimensions, which are aligned with the last dimensions of y. */
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

/* Computes the areas of the trapezoids under y between neighbouring points of x. */
static tl_Tensor *areas(const char *op, tl_Tensor *y, tl_Tensor *x, int d) {
  tli_Chain c = {0};
  tl_Tensor *points = TLI_STEP(&c, along(op, x, y, d));
  tl_Tensor *steps = TLI_STEP(&c, difference(points, d));
  tl_Tensor *heights = TLI_STEP(&c, pairs(y, d));
  return tli_chain_end(&c, chain_with_int(&c, tlo_true_divide, chain_mul(&c, heights, steps), 2));
}

static tl_Tensor *even_areas(tl_Tensor *y, double dx, int d) {
  tli_Chain c = {0};
  tl_Tensor *heights = TLI_STEP(&c, pairs(y, d));
  return tli_chain_end(&c, chain_with(&c, tlo_mul, heights, dx / 2));
}

/* Integrates y along a dimension. If x is NULL, the points are dx apart. With `running`, returns
** the running integral. */
static tl_Tensor *integral(const char *op, tl_Tensor *y, tl_Tensor *x, tl_Scalar dx, int64_t dim,
                           bool running) {
  if (y->ndim == 0)
    return tli_fail_null(TL_ESHAPE, "%s: expected a tensor of at least one dimension", op);
  int d = tli_dim(op, dim, y->ndim);
  if (d < 0) return NULL;
  tli_Chain c = {0};
  tl_Tensor *pieces = TLI_STEP(&c, x ? areas(op, y, x, d) : even_areas(y, tli_to_double(dx), d));
  if (!running) return tli_chain_end(&c, chain_sum(&c, pieces, d, false));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_cumsum(pieces, d, TL_NODTYPE)));
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
