/*
** moments.c - mean, variance, norms and the logarithm of a sum of exponentials.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/reduce/axes.h"

/* Returns the number of elements that are reduced to one result, or -1 if dims are invalid. */
static int64_t reduced_count(const char *op, const tl_Tensor *self, tl_Ints dim) {
  bool marked[TL_MAX_DIMS];
  if (!tli_mark_dims(op, dim, self->ndim, marked)) return -1;
  int64_t n = 1;
  for (int d = 0; d < self->ndim; d++)
    if (marked[d]) n *= self->sizes[d];
  return n;
}

/* Returns the dtype of the result, which must be floating or complex. For another dtype, returns
** TL_NODTYPE and sets an error. */
static tl_DType floating(const char *op, const tl_Tensor *self, tl_DType wish) {
  tl_DType dtype = wish == TL_NODTYPE ? (tl_DType)self->dtype : wish;
  if (tli_is_inexact(dtype)) return dtype;
  tli_fail(TL_EDTYPE, "%s: expected a floating dtype, got %s", op, tl_dtype_name(dtype));
  return TL_NODTYPE;
}

/* ---- mean ---- */

/* Computes the mean. Sums of half types are divided before they are rounded to the half type,
** because the sum may overflow. */
tl_Tensor *tlo_mean(tl_Tensor *self, tl_Ints dim, bool keepdim, tl_DType dtype) {
  dtype = floating("mean", self, dtype);
  int64_t n = dtype == TL_NODTYPE ? -1 : reduced_count("mean", self, dim);
  if (n < 0) return NULL;
  uint64_t count = tli_node_count();
  tli_Chain c = {0};
  tl_Tensor *sum = TLI_STEP(&c, tlo_sum(self, dim, keepdim, tli_dtype_compute(dtype)));
  tl_Tensor *mean = chain_with(&c, tlo_true_divide, sum, (double)n);
  mean = tli_chain_end(&c, chain_to(&c, mean, dtype));
  tli_entitle(mean, "Mean", count);
  return mean;
}

tl_Tensor *tlo_nanmean(tl_Tensor *self, tl_Ints dim, bool keepdim, tl_DType dtype) {
  dtype = floating("nanmean", self, dtype);
  if (dtype == TL_NODTYPE) return NULL;
  tli_Chain c = {0};
  tl_Tensor *sum = TLI_STEP(&c, tlo_nansum(self, dim, keepdim, tli_dtype_compute(dtype)));
  tl_Tensor *nan = TLI_STEP(&c, tlo_isnan(self));
  tl_Tensor *counts = TLI_STEP(&c, tlo_logical_not(nan));
  tl_Tensor *count = TLI_STEP(&c, tlo_sum(counts, dim, keepdim, TL_NODTYPE));
  return tli_chain_end(&c, chain_to(&c, chain_div(&c, sum, count), dtype));
}

/* ---- variance ---- */

typedef struct Moments {
  tl_Tensor *mean, *deviation; /* owned */
} Moments;

/* Computes the means of `in` along one run of dimensions (axes.h), and the sums of squared
** deviations from these means. */
static bool moments_of(Moments *m, tl_Tensor *in, const tli_Run *run) {
  int64_t n = run->outer * run->inner;
  tl_DType dtype = in->dtype == TL_F64 ? TL_F64 : TL_F32;
  m->mean = tli_empty(dtype, tli_device(in), 1, &n);
  m->deviation = tli_empty(dtype, tli_device(in), 1, &n);
  return m->mean && m->deviation &&
         TLI_RUN(tli_device(in), moments, .mean = tli_array(m->mean),
                 .deviation = tli_array(m->deviation), .in = tli_array(in), .outer = run->outer,
                 .n = run->n, .inner = run->inner);
}

/* Sets `total` to the sums of squared deviations over a whole run. The run consists of pieces of
** `each` elements. A total is the sum of two terms: part.deviation, the deviations inside the
** pieces, and each * means.deviation, the deviations of the pieces' means. */
static bool join_deviations(tl_Tensor *total, const Moments *part, const Moments *means,
                            const tli_Run *run, int64_t each) {
  static const tli_PointwiseSpec add = {"var", TLK_add,          2, 1, TLI_TYPES_NUMBER, false,
                                        true,  TLI_COMPLEX_TAKEN};
  tl_Scalar times = tli_float((double)each);
  return TLI_RUN(tli_device(total), reduce, .kernel = TLK_reduction_sum,
                 .compute = (tl_DType)total->dtype, .out = tli_array(total),
                 .in = tli_array(part->deviation), .outer = run->outer, .n = run->n,
                 .inner = run->inner) &&
         tli_pointwise_into(&add, (tl_Tensor *[]){total, means->deviation}, &times, total);
}

/* Computes the sums of squared deviations from the mean in float32 or float64, in memory order. If
** several runs are reduced, the moments of the parts are combined. */
static tl_Tensor *deviation(tli_Axes *a) {
  Moments m = {NULL, NULL};
  tli_Run run = tli_axes_run(a);
  bool ok = moments_of(&m, a->in, &run);
  for (int64_t each = run.n; ok && !run.last; each *= run.n) {
    tli_axes_next(a);
    run = tli_axes_run(a);
    int64_t n = run.outer * run.inner;
    Moments means = {NULL, NULL};
    tl_Tensor *total = tli_empty((tl_DType)m.mean->dtype, tli_device(a->in), 1, &n);
    ok =
        total && moments_of(&means, m.mean, &run) && join_deviations(total, &m, &means, &run, each);
    tli_release_results((tl_Tensor *[]){m.mean, m.deviation, means.deviation}, 3);
    m = (Moments){means.mean, total};
  }
  tli_release(m.mean);
  if (ok) return m.deviation;
  tli_release(m.deviation);
  return NULL;
}

/* Computes out = sums / (n - correction). `out` and `sums` have the same layout. */
static bool divide(tl_Tensor *out, tl_Tensor *sums, int64_t n, double correction) {
  static const tli_PointwiseSpec spec = {"var", TLK_true_divide,  2, 0, TLI_TYPES_FLOATING, false,
                                         true,  TLI_COMPLEX_TAKEN};
  double freedom = (double)n - correction;
  tl_Tensor *number = tli_number(tli_float(freedom > 0 ? freedom : 0));
  tl_Tensor *seen = tli_alias(sums, out->ndim, out->sizes, out->strides, 0);
  bool ok = number && seen && tli_pointwise_into(&spec, (tl_Tensor *[]){seen, number}, NULL, out);
  tli_release(number);
  tli_release(seen);
  return ok;
}

tl_Tensor *tli_op_variance(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool keepdim) {
  tl_DType dtype = floating("var", self, TL_NODTYPE);
  if (dtype == TL_NODTYPE) return NULL;
  tli_Axes a;
  tl_Tensor *out = NULL, *sums = NULL;
  bool ok = tli_axes_begin(&a, "var", self, dim, keepdim, false);
  if (ok) out = tli_axes_result(&a, dtype);
  ok = ok && out;
  if (ok && a.reduced == 0) {
    ok = tli_fill(out, tli_float((double)NAN));
  } else if (ok && out->numel > 0) {
    sums = deviation(&a);
    ok = sums && divide(out, sums, a.reduced, tli_to_double(correction));
  }
  tli_release(sums);
  tli_axes_end(&a);
  if (ok) return out;
  tli_release(out);
  return NULL;
}

tl_Tensor *tlo_var_backward(tl_Tensor *grad, tl_Tensor *self, tl_Ints dim, tl_Scalar correction,
                            bool keepdim) {
  int64_t n = reduced_count("var", self, dim);
  if (n < 0) return NULL;
  double factor = 2 / ((double)n - tli_to_double(correction));
  tl_Ints size = {self->ndim, self->sizes};
  tli_Chain c = {0};
  tl_Tensor *wide = TLI_STEP(&c, tlo_unsqueeze_reduced(grad, size, dim, keepdim));
  tl_Tensor *slope = chain_scale(&c, wide, factor);
  tl_Tensor *mean = TLI_STEP(&c, tlo_mean(self, dim, true, TL_NODTYPE));
  return tli_chain_end(&c, chain_mul(&c, slope, chain_sub(&c, self, mean)));
}

/* Computes the variance of complex numbers: the variance of the real parts plus that of the
** imaginary parts. */
static tl_Tensor *complex_var(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool unbiased,
                              bool keepdim) {
  tli_Chain c = {0};
  tl_Tensor *real = TLI_STEP(&c, tlo_real(self)), *imag = TLI_STEP(&c, tlo_imag(self));
  tl_Tensor *first = TLI_STEP(&c, tlo_var(real, dim, correction, unbiased, keepdim));
  tl_Tensor *second = TLI_STEP(&c, tlo_var(imag, dim, correction, unbiased, keepdim));
  return tli_chain_end(&c, chain_add(&c, first, second));
}

tl_Tensor *tlo_var(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool unbiased,
                   bool keepdim) {
  if (tli_is_complex((tl_DType)self->dtype))
    return complex_var(self, dim, correction, unbiased, keepdim);
  return tlo_variance(self, dim, unbiased ? correction : tli_int(0), keepdim);
}

tl_Tensor *tlo_std(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool unbiased,
                   bool keepdim) {
  tli_Chain c = {0};
  tl_Tensor *variance = TLI_STEP(&c, tlo_var(self, dim, correction, unbiased, keepdim));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_root(variance)));
}

tl_Tensor *tlo_var_unbiased(tl_Tensor *self, bool unbiased) {
  return tlo_var(self, TLI_NOINTS, tli_int(1), unbiased, false);
}

tl_Tensor *tlo_var_dim(tl_Tensor *self, tl_Ints dim, bool unbiased, bool keepdim) {
  return tlo_var(self, dim, tli_int(1), unbiased, keepdim);
}

tl_Tensor *tlo_std_unbiased(tl_Tensor *self, bool unbiased) {
  return tlo_std(self, TLI_NOINTS, tli_int(1), unbiased, false);
}

tl_Tensor *tlo_std_dim(tl_Tensor *self, tl_Ints dim, bool unbiased, bool keepdim) {
  return tlo_std(self, dim, tli_int(1), unbiased, keepdim);
}

/* ---- logsumexp ---- */

/* Returns a view without the dimensions in dim, which were reduced to size 1. */
static tl_Tensor *chain_without(tli_Chain *c, const char *op, tl_Tensor *t, tl_Ints dim) {
  bool reduced[TL_MAX_DIMS];
  int64_t sizes[TL_MAX_DIMS], n = 0;
  TLI_DO(c, tli_mark_dims(op, dim, t->ndim, reduced));
  for (int d = 0; !c->failed && d < t->ndim; d++)
    if (!reduced[d]) sizes[n++] = t->sizes[d];
  return TLI_STEP(c, tlo_view(t, (tl_Ints){n, sizes}));
}

/* Computes the logarithm of a sum of exponentials. The maximum is subtracted first and added to the
** result, so it cancels and is treated as a constant. An infinite maximum is not subtracted. */
tl_Tensor *tlo_logsumexp(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  tli_Chain c = {0};
  tl_Tensor *x = TLI_STEP(&c, tli_floating(self));
  if (self->numel == 0) {
    tl_Tensor *zeros = TLI_STEP(&c, tlo_sum(x, dim, keepdim, TL_NODTYPE));
    return tli_chain_end(&c, TLI_STEP(&c, tlo_log(zeros)));
  }
  tl_Tensor *constant = TLI_STEP(&c, tlo_detach(x));
  constant = TLI_STEP(&c, tlo_real(constant));
  tl_Tensor *largest = TLI_STEP(&c, tlo_amax(constant, dim, true));
  tl_Tensor *infinite = TLI_STEP(&c, tlo_isinf(largest));
  tl_Tensor *shift = chain_where_then(&c, infinite, tli_int(0), largest);
  tl_Tensor *terms = chain_sub(&c, x, shift);
  TLI_DO(&c, tlo_exp_(terms));
  tl_Tensor *sum = TLI_STEP(&c, tlo_sum(terms, dim, true, TL_NODTYPE));
  tl_Tensor *log = TLI_STEP(&c, tlo_log(sum));
  tl_Tensor *result = chain_add(&c, log, shift);
  return tli_chain_end(&c, keepdim ? result : chain_without(&c, "logsumexp", result, dim));
}

/* ---- norms ---- */

static tl_Tensor *fold(const char *name, tlk_Reduction kernel, tlk_Reduction again, tl_Tensor *self,
                       tl_Ints dim, bool keepdim, tl_Scalar param) {
  tl_DType dtype = (tl_DType)self->dtype;
  bool extreme = again != TLK_reduction_sum;
  tli_ReduceSpec spec = {.name = name,
                         .kernel = kernel,
                         .again = again,
                         .compute = tli_dtype_compute(dtype),
                         .result = extreme ? dtype : tli_dtype_compute(dtype),
                         .repeats = extreme ? TLI_ONCE : TLI_TIMES,
                         .param = param};
  return tli_reduce(&spec, self, dim, keepdim);
}

/* Computes the sum of magnitudes. For half types the sum stays in float32: the norm, which is a
** root of the sum, may fit even if the sum does not. */
tl_Tensor *tli_op_sum_abs(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return fold("norm", TLK_reduction_sum_abs, TLK_reduction_sum, self, dim, keepdim, tli_none());
}

tl_Tensor *tli_op_sum_square(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return fold("norm", TLK_reduction_sum_square, TLK_reduction_sum, self, dim, keepdim, tli_none());
}

tl_Tensor *tli_op_sum_power(tl_Tensor *self, tl_Scalar p, tl_Ints dim, bool keepdim) {
  return fold("norm", TLK_reduction_sum_power, TLK_reduction_sum, self, dim, keepdim, p);
}

tl_Tensor *tli_op_amax_abs(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return fold("norm", TLK_reduction_amax_abs, TLK_reduction_amax, self, dim, keepdim, tli_none());
}

tl_Tensor *tli_op_amin_abs(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  return fold("norm", TLK_reduction_amin_abs, TLK_reduction_amin, self, dim, keepdim, tli_none());
}

/* Computes the sum of p-th powers, whose p-th root is the norm. */
static tl_Tensor *norm_sum(tl_Tensor *self, double p, tl_Ints dim, bool keepdim) {
  if (p == 1) return tli_op_sum_abs(self, dim, keepdim);
  if (p == 2) return tli_op_sum_square(self, dim, keepdim);
  return tli_op_sum_power(self, tli_float(p), dim, keepdim);
}

static tl_Tensor *count(tl_Tensor *self, tl_Ints dim, bool keepdim) {
  static const tli_PointwiseSpec ne = {"norm",           TLK_ne, 2,    0,
                                       TLI_TYPES_NUMBER, true,   true, TLI_COMPLEX_TAKEN};
  tli_Chain c = {0};
  tl_Tensor *zero = TLI_STEP(&c, tli_number(tli_int(0)));
  tl_Tensor *counts = TLI_STEP(&c, tli_pointwise(&ne, (tl_Tensor *[]){self, zero}, NULL));
  tl_DType dtype = (tl_DType)self->dtype;
  return tli_chain_end(&c, TLI_STEP(&c, tli_op_sum(counts, dim, keepdim, dtype)));
}

tl_Tensor *tli_op_p_norm(tl_Tensor *self, tl_Scalar p_, tl_Ints dim, bool keepdim) {
  static const tli_PointwiseSpec root = {"norm", TLK_sqrt,         1, 0, TLI_TYPES_FLOATING, false,
                                         true,   TLI_COMPLEX_TAKEN};
  static const tli_PointwiseSpec power = {"norm",           TLK_pow, 2,    0,
                                          TLI_TYPES_NUMBER, false,   true, TLI_COMPLEX_TAKEN};
  double p = tli_to_double(p_);
  if (p == 0) return count(self, dim, keepdim);
  if (isinf(p))
    return p > 0 ? tli_op_amax_abs(self, dim, keepdim) : tli_op_amin_abs(self, dim, keepdim);
  tli_Chain c = {0};
  tl_Tensor *norm = TLI_STEP(&c, norm_sum(self, p, dim, keepdim));
  if (p == 2) {
    norm = TLI_STEP(&c, tli_pointwise(&root, &norm, NULL));
  } else if (p != 1) {
    tl_Tensor *exponent = chain_number(&c, 1 / p);
    norm = TLI_STEP(&c, tli_pointwise(&power, (tl_Tensor *[]){norm, exponent}, NULL));
  }
  if (!c.failed && norm->dtype != self->dtype)
    norm = TLI_STEP(&c, tli_op_to_dtype(norm, (tl_DType)self->dtype));
  return tli_chain_end(&c, norm);
}

/* Computes grad / norm^power. The result is 0 where norm is 0. */
static tl_Tensor *over_norm(tl_Tensor *grad, tl_Tensor *norm, double power) {
  tli_Chain c = {0};
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, norm, 0);
  tl_Tensor *divisor = chain_where_then(&c, zero, tli_int(1), norm);
  tl_Tensor *result = chain_mul(&c, grad, chain_with(&c, tlo_pow, divisor, -power));
  return tli_chain_end(&c, chain_where_then(&c, zero, tli_int(0), result));
}

/* Computes sgn(self) * |self|^power. The result is 0 where self is 0. */
static tl_Tensor *signed_power(tl_Tensor *self, double power) {
  tli_Chain c = {0};
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, self, 0);
  tl_Tensor *base = chain_where_then(&c, zero, tli_int(1), self);
  tl_Tensor *magnitude = TLI_STEP(&c, tlo_abs(base));
  tl_Tensor *sign = TLI_STEP(&c, tlo_sgn(self));
  return tli_chain_end(&c, chain_mul(&c, sign, chain_with(&c, tlo_pow, magnitude, power)));
}

static tl_Tensor *extreme_norm_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *norm,
                                        tl_Ints dim) {
  tli_Chain c = {0};
  tl_Tensor *magnitude = TLI_STEP(&c, tlo_abs(self));
  tl_Tensor *share = TLI_STEP(&c, tlo_amax_backward(grad, magnitude, norm, dim, true));
  tl_Tensor *sign = TLI_STEP(&c, tlo_sgn(self));
  return tli_chain_end(&c, chain_mul(&c, share, sign));
}

/* Computes the gradient. For a finite p other than 0, the derivative is 0 where x or the norm is 0,
** and sgn(x) * (|x| / norm)^(p - 1) elsewhere. */
tl_Tensor *tlo_p_norm_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result, tl_Scalar p_,
                               tl_Ints dim, bool keepdim) {
  double p = tli_to_double(p_);
  tl_Ints size = {self->ndim, self->sizes};
  if (p == 0 || self->numel == 0) return tlo_zeros_like(self, TL_NODTYPE, TLI_NODEVICE, NULL);
  tli_Chain c = {0};
  tl_Tensor *wide = TLI_STEP(&c, tlo_unsqueeze_reduced(grad, size, dim, keepdim));
  tl_Tensor *norm = TLI_STEP(&c, tlo_unsqueeze_reduced(result, size, dim, keepdim));
  if (isinf(p))
    return tli_chain_end(&c, TLI_STEP(&c, extreme_norm_backward(wide, self, norm, dim)));
  if (p == 1) return tli_chain_end(&c, chain_mul(&c, wide, TLI_STEP(&c, tlo_sgn(self))));
  tl_Tensor *share = TLI_STEP(&c, over_norm(wide, norm, p - 1));
  tl_Tensor *power = p == 2 ? self : TLI_STEP(&c, signed_power(self, p - 1));
  return tli_chain_end(&c, chain_mul(&c, share, power));
}

/* Returns whether there are no elements to reduce along dim. Returns false for invalid dimensions,
** which the reduction itself reports. */
static bool none_along(const tl_Tensor *self, tl_Ints dim) {
  if (dim.n == 0 || self->ndim == 0) return self->numel == 0;
  for (int64_t i = 0; i < dim.n; i++) {
    int64_t d = dim.v[i] < 0 ? dim.v[i] + self->ndim : dim.v[i];
    if (d >= 0 && d < self->ndim && self->sizes[d] == 0) return true;
  }
  return false;
}

tl_Tensor *tlo_norm(tl_Tensor *self, tl_Scalar p, tl_Ints dim, bool keepdim, tl_DType dtype) {
  dtype = floating("norm", self, dtype);
  if (dtype == TL_NODTYPE) return NULL;
  if (isnan(tli_to_double(p))) return tli_fail_null(TL_EARG, "norm: expected a number p, got NaN");
  bool summed = isfinite(tli_to_double(p)) && tli_to_double(p) >= 0;
  if (!summed && none_along(self, dim))
    return tli_fail_null(TL_ESHAPE,
                         "norm: a tensor without elements has no norm of order %g, got shape %s",
                         tli_to_double(p), tli_sizes_str(self));
  tli_Chain c = {0};
  bool parts = tli_is_complex((tl_DType)self->dtype);
  tl_Tensor *magnitude = parts ? TLI_STEP(&c, tlo_abs(self)) : self;
  tl_Tensor *cast = chain_to(&c, magnitude, tli_real_dtype(dtype));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_p_norm(cast, p, dim, keepdim)));
}

tl_Tensor *tlo_norm_name(tl_Tensor *self, const char *p, tl_Ints dim, bool keepdim,
                         tl_DType dtype) {
  if (strcmp(p, "fro") == 0) return tlo_norm(self, tli_int(2), dim, keepdim, dtype);
  if (strcmp(p, "nuc") != 0)
    return tli_fail_null(TL_EARG, "norm: p: expected a number, 'fro' or 'nuc', got '%.40s'", p);
  tl_Ints last = {2, (int64_t[]){-2, -1}};
  return tlo_matrix_norm(self, p, dim.v ? dim : last, keepdim, dtype);
}
