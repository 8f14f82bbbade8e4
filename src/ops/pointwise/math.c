/*
** math.c - elementary and special functions that are composed of other operators, and derivatives
** that need more than one expression.
*/
#include <math.h>
#include <string.h>

#include "core/kernel/elementary.h"
#include "ops/chain.h"

/* Returns fn(1, other) for fn = xlogy or xlog1py, which is a logarithm. The result is 0 where self
** is 0 and other is at most `limit`. */
static tl_Tensor *masked(tl_Tensor *self, tl_Tensor *other, int64_t limit, tli_Binary fn) {
  tl_DType dtype = tli_result_dtype((tl_Tensor *[]){self, other}, 2);
  if (!tli_is_float(dtype)) dtype = tli_default_dtype();
  tli_Chain c = {0};
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, self, 0);
  tl_Tensor *nowhere = chain_with_int(&c, tlo_le, other, limit);
  tl_Tensor *both = TLI_STEP(&c, tlo_logical_and(zero, nowhere));
  tl_Tensor *mask = chain_to(&c, TLI_STEP(&c, tlo_logical_not(both)), dtype);
  return tli_chain_end(&c, TLI_STEP(&c, fn(mask, other)));
}

/* These functions compute the derivatives of xlogy and xlog1py with respect to the first argument.
** The derivative is the logarithm, or 0 where the first argument is 0 and the logarithm is not
** finite. */
tl_Tensor *tlo_masked_log(tl_Tensor *self, tl_Tensor *other) {
  return masked(self, other, 0, tlo_xlogy);
}
tl_Tensor *tlo_masked_log1p(tl_Tensor *input, tl_Tensor *other) {
  return masked(input, other, -1, tlo_xlog1py);
}

/* Computes f0(x) - f1(x) / x, where f0 and f1 are functions of order 0 and 1. The value at 0 is
** 1/2. For I0 and I1, and for J0 and J1, this is the derivative of f1. If both functions are scaled
** by exp(-|x|), the derivative of f1 has another term, the derivative of this factor, which the
** caller adds. */
static tl_Tensor *slope_of_order_1(tl_Tensor *self, tl_Tensor *order_1,
                                   tl_Tensor *(*order_0)(tl_Tensor *)) {
  tli_Chain c = {0};
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, self, 0);
  tl_Tensor *divisor = chain_where_then(&c, zero, tli_int(1), self);
  tl_Tensor *f0 = TLI_STEP(&c, order_0(self));
  tl_Tensor *slope = chain_sub(&c, f0, chain_div(&c, order_1, divisor));
  return tli_chain_end(&c, chain_where_then(&c, zero, tli_float(0.5), slope));
}

tl_Tensor *tlo_i1_derivative(tl_Tensor *self, tl_Tensor *i1) {
  return slope_of_order_1(self, i1, tlo_i0);
}

tl_Tensor *tlo_i1_derivative_scaled(tl_Tensor *self, tl_Tensor *i1e) {
  return slope_of_order_1(self, i1e, tlo_i0e);
}

tl_Tensor *tlo_bessel_j1_derivative(tl_Tensor *self, tl_Tensor *j1) {
  return slope_of_order_1(self, j1, tlo_bessel_j0);
}

/* Computes the derivative of acosh, 1 / sqrt(x^2 - 1). For complex numbers the square root is taken
** of x - 1 and x + 1 separately, because the root of the product may lie on the other side of the
** branch cut. */
tl_Tensor *tlo_acosh_slope(tl_Tensor *self) {
  tli_Chain c = {0};
  if (!tli_is_complex((tl_DType)self->dtype)) {
    tl_Tensor *square = chain_with_int(&c, tli_minus, chain_mul(&c, self, self), 1);
    return tli_chain_end(&c, TLI_STEP(&c, tlo_rsqrt(square)));
  }
  tl_Tensor *above = chain_with_int(&c, tli_plus, self, 1);
  tl_Tensor *below = chain_with_int(&c, tli_minus, self, 1);
  tl_Tensor *first = TLI_STEP(&c, tlo_rsqrt(above)), *second = TLI_STEP(&c, tlo_rsqrt(below));
  return tli_chain_end(&c, chain_mul(&c, first, second));
}

/* Computes the derivative of sinc. For complex numbers it is (cos(pi z) - sinc(z)) / z, and 0 at
** 0. */
tl_Tensor *tlo_sinc_slope(tl_Tensor *self) {
  if (!tli_is_complex((tl_DType)self->dtype)) return tlo_sinc_derivative(self);
  tli_Chain c = {0};
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, self, 0);
  tl_Tensor *divisor = chain_where_then(&c, zero, tli_int(1), self);
  tl_Tensor *turned = chain_with(&c, tlo_mul, self, TLI_PI);
  tl_Tensor *cosine = TLI_STEP(&c, tlo_cos(turned));
  tl_Tensor *sinc = TLI_STEP(&c, tlo_sinc(self));
  tl_Tensor *slope = chain_div(&c, chain_sub(&c, cosine, sinc), divisor);
  return tli_chain_end(&c, chain_where_then(&c, zero, tli_int(0), slope));
}

tl_Tensor *tlo_no_derivative(tl_Tensor *grad, const char *op, const char *input) {
  (void)grad;
  return tli_fail_null(TL_EAUTOGRAD, "%s: %s: has no derivative here; detach it", op, input);
}

tl_Tensor *tlo_polygamma(tl_Tensor *self, int64_t n) {
  if (n < 0 || n > INT16_MAX)
    return tli_fail_null(TL_EARG, "polygamma: expected n from 0 to %d, got %" PRId64, INT16_MAX, n);
  if (n == 0) return tlo_digamma(self);
  return n == 1 ? tlo_trigamma(self) : tlo_higher_gamma(self, n);
}

/* Computes p (p - 1) / 4 log(pi) + the sum over 0 <= i < p of lgamma(self - i / 2). */
tl_Tensor *tlo_mvlgamma(tl_Tensor *self, int64_t p) {
  if (p < 1) return tli_fail_null(TL_EARG, "mvlgamma: expected p of at least 1, got %" PRId64, p);
  double half = (double)(p - 1) / 2, constant = (double)p * half / 2 * tli_log(TLI_PI);
  tl_DType dtype = tli_floating_dtype(self);
  tli_Chain c = {0};
  tl_Tensor *shifts =
      TLI_STEP(&c, tlo_linspace(tli_float(-half), tli_float(0), p, dtype, tli_device(self)));
  tl_Tensor *shifted = chain_add(&c, chain_unsqueeze(&c, self, -1), shifts);
  tl_Tensor *terms = TLI_STEP(&c, tlo_lgamma(shifted));
  return tli_chain_end(&c, chain_with(&c, tli_plus, chain_sum(&c, terms, -1, false), constant));
}

bool tli_op_frexp(tl_Tensor *self, tl_Tensor **out) {
  if (!tli_is_float((tl_DType)self->dtype))
    return tli_fail(TL_EDTYPE, "frexp: expected a floating tensor, got %s",
                    tl_dtype_name((tl_DType)self->dtype));
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *exponent = tlo_frexp_exponent(self);
  out[0] = exponent ? tlo_frexp_mantissa(self) : NULL;
  out[1] = out[0] ? tli_op_to_dtype(exponent, TL_I32) : NULL;
  tli_set_grad_mode(mode);
  tli_release(exponent);
  if (out[1]) return true;
  tli_release_results(out, 2);
  return false;
}

static tl_Tensor *clamp_to(tl_Tensor *self, double low, double high) {
  tli_Chain c = {0};
  tl_Tensor *min = chain_number(&c, low), *max = chain_number(&c, high);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_clamp_both(self, min, max)));
}

/* Clamps to [eps, 1 - eps]. If eps exceeds 1/2, this interval is empty; elements below eps then
** become eps, and all others 1 - eps. */
static tl_Tensor *clamp_probability(tl_Tensor *self, double eps) {
  if (!(eps > 0.5)) return clamp_to(self, eps, 1 - eps);
  tli_Chain c = {0};
  tl_Tensor *low = chain_with(&c, tlo_lt, self, eps);
  tl_Tensor *bounded = chain_with(&c, tlo_clamp_max, self, 1 - eps);
  return tli_chain_end(&c, chain_where_then(&c, low, tli_float(eps), bounded));
}

tl_Tensor *tlo_logit(tl_Tensor *self, double eps) {
  tli_Chain c = {0};
  tl_Tensor *p = TLI_STEP(&c, tli_floating(self));
  if (!isnan(eps)) p = TLI_STEP(&c, clamp_probability(p, eps));
  tl_Tensor *other = TLI_STEP(&c, tli_number_with(tli_minus, tli_int(1), p));
  tl_Tensor *odds = chain_div(&c, p, other);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_log(odds)));
}
