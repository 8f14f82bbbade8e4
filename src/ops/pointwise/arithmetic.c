/*
** arithmetic.c - elementwise operators that are compositions, and derivatives
** that need more than one expression.
*/
#include <math.h>
#include <string.h>

#include "ops/common.h"

tl_Tensor *tlo_positive(tl_Tensor *self) {
  if (self->dtype == TL_BOOL)
    return tli_fail_null(TL_EDTYPE, "positive: not defined for bool tensors");
  return tli_retain(self);
}

tl_Tensor *tlo_scaled(tl_Tensor *self, tl_Scalar factor) {
  if (tli_to_double(factor) == 1) return tli_retain(self);
  return tli_with_number(tlo_mul, self, factor);
}

tl_Tensor *tlo_div(tl_Tensor *self, tl_Tensor *other, const char *rounding_mode) {
  if (rounding_mode == NULL) return tlo_true_divide(self, other);
  if (strcmp(rounding_mode, "trunc") == 0) return tlo_div_trunc(self, other);
  if (strcmp(rounding_mode, "floor") == 0) return tlo_floor_divide(self, other);
  return tli_fail_null(TL_EARG, "div: rounding_mode: expected \"trunc\" or \"floor\", got \"%s\"",
                       rounding_mode);
}

/* ---- powers ---- */

/* For an exponent that is a number, which keeps its precision that way. */
static tl_Tensor *pow_backward_number(tl_Tensor *grad, tl_Tensor *self, tl_Scalar exponent) {
  double e = tli_to_double(exponent);
  if (e == 0) return tlo_zeros_like(self, TL_NODTYPE, TLI_NODEVICE);
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *back = NULL;
  TLI_SLOT(t[0], e == 2 ? tli_retain(self)
                        : tli_with_number(tlo_pow, self, tli_scalar_sub(exponent, tli_int(1))));
  TLI_SLOT(t[1], tlo_scaled(t[0], exponent));
  back = tlo_mul(grad, t[1]);
done:
  tli_release_results(t, 2);
  return back;
}

/* grad * exponent * self^(exponent - 1), 0 where the exponent is 0. */
tl_Tensor *tlo_pow_backward_self(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *exponent) {
  if (exponent->flags & TLI_NUMBER)
    return pow_backward_number(grad, self, tli_load(tli_data(exponent), (tl_DType)exponent->dtype));
  tl_Tensor *t[5] = {NULL};
  tl_Tensor *back = NULL;
  TLI_SLOT(t[0], tli_with_number(tli_minus, exponent, tli_int(1)));
  TLI_SLOT(t[1], tlo_pow(self, t[0]));
  TLI_SLOT(t[2], tlo_mul(t[1], exponent));
  TLI_SLOT(t[3], tlo_mul(grad, t[2]));
  TLI_SLOT(t[4], tli_with_number(tlo_eq, exponent, tli_int(0)));
  back = tli_where_then(t[4], tli_int(0), t[3]);
done:
  tli_release_results(t, 5);
  return back;
}

/* grad * result * log(self), 0 where a base of 0 has an exponent of 0 or more.
** A base that is a number is read in the result's dtype, not in its own. */
tl_Tensor *tlo_pow_backward_exponent(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *exponent,
                                     tl_Tensor *result) {
  tl_Tensor *t[8] = {NULL};
  tl_Tensor *back = NULL;
  TLI_SLOT(t[0], tlo_to_dtype(self, (tl_DType)result->dtype));
  TLI_SLOT(t[1], tli_with_number(tlo_eq, t[0], tli_int(0)));
  TLI_SLOT(t[2], tli_with_number(tlo_ge, exponent, tli_int(0)));
  TLI_SLOT(t[3], tlo_logical_and(t[1], t[2]));
  TLI_SLOT(t[4], tli_where_then(t[3], tli_int(1), t[0]));
  TLI_SLOT(t[5], tlo_log(t[4]));
  TLI_SLOT(t[6], tlo_mul(result, t[5]));
  TLI_SLOT(t[7], tlo_mul(grad, t[6]));
  back = tli_where_then(t[3], tli_int(0), t[7]);
done:
  tli_release_results(t, 8);
  return back;
}

bool tlo_float_power_(tl_Tensor *self, tl_Tensor *exponent) {
  if (self->dtype != TL_F64)
    return tli_fail(TL_EDTYPE, "float_power_: self: expected float64, got %s",
                    tl_dtype_name((tl_DType)self->dtype));
  return tlo_pow_(self, exponent);
}

/* Powers of integers are float32, and the product as wide as they are: half
** floats are rounded back. */
tl_Tensor *tlo_ldexp(tl_Tensor *self, tl_Tensor *other) {
  bool keeps = tli_is_float((tl_DType)self->dtype) && !tli_is_float((tl_DType)other->dtype);
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_exp2(other));
  TLI_SLOT(t[1], tlo_mul(self, t[0]));
  result = keeps && t[1]->dtype != self->dtype ? tlo_to_dtype(t[1], (tl_DType)self->dtype)
                                               : tli_retain(t[1]);
done:
  tli_release_results(t, 2);
  return result;
}

/* ---- special functions ---- */

/* log(other), 0 where self is 0, NaN where other is. */
tl_Tensor *tlo_masked_log(tl_Tensor *self, tl_Tensor *other) {
  tl_DType dtype = tli_result_dtype((tl_Tensor *[]){self, other}, 2);
  if (!tli_is_float(dtype)) dtype = tli_default_dtype();
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tli_with_number(tlo_ne, self, tli_int(0)));
  TLI_SLOT(t[1], tlo_to_dtype(t[0], dtype));
  result = tlo_xlogy(t[1], other);
done:
  tli_release_results(t, 2);
  return result;
}

/* I1'(x) = I0(x) - I1(x) / x, which is 1/2 at 0. */
tl_Tensor *tlo_i1_derivative(tl_Tensor *self, tl_Tensor *i1) {
  tl_Tensor *t[5] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tli_with_number(tlo_eq, self, tli_int(0)));
  TLI_SLOT(t[1], tli_where_then(t[0], tli_int(1), self));
  TLI_SLOT(t[2], tlo_true_divide(i1, t[1]));
  TLI_SLOT(t[3], tlo_i0(self));
  TLI_SLOT(t[4], tli_minus(t[3], t[2]));
  result = tli_where_then(t[0], tli_float(0.5), t[4]);
done:
  tli_release_results(t, 5);
  return result;
}

tl_Tensor *tlo_polygamma(tl_Tensor *self, int64_t n) {
  if (n < 0 || n > INT16_MAX)
    return tli_fail_null(TL_EARG, "polygamma: expected n from 0 to %d, got %" PRId64, INT16_MAX, n);
  if (n == 0) return tlo_digamma(self);
  return n == 1 ? tlo_trigamma(self) : tlo_higher_gamma(self, n);
}

/* p (p - 1) / 4 log(pi) + the sum of lgamma(self - i / 2) for i < p. */
tl_Tensor *tlo_mvlgamma(tl_Tensor *self, int64_t p) {
  if (p < 1) return tli_fail_null(TL_EARG, "mvlgamma: expected p of at least 1, got %" PRId64, p);
  double half = (double)(p - 1) / 2, constant = (double)p * half / 2 * log(TLI_PI);
  int64_t last = -1;
  tl_DType dtype = tli_floating_dtype(self);
  tl_Tensor *t[5] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_linspace(tli_float(-half), tli_float(0), p, dtype, tli_device(self)));
  TLI_SLOT(t[1], tlo_unsqueeze(self, -1));
  TLI_SLOT(t[2], tli_plus(t[1], t[0]));
  TLI_SLOT(t[3], tlo_lgamma(t[2]));
  TLI_SLOT(t[4], tlo_sum(t[3], (tl_Ints){1, &last}, false, TL_NODTYPE));
  result = tli_with_number(tli_plus, t[4], tli_float(constant));
done:
  tli_release_results(t, 5);
  return result;
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
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tli_number(tli_float(low)));
  TLI_SLOT(t[1], tli_number(tli_float(high)));
  result = tlo_clamp_both(self, t[0], t[1]);
done:
  tli_release_results(t, 2);
  return result;
}

/* Brought into [eps, 1 - eps]; of eps above a half, where that is empty, what
** is below eps becomes eps. */
static tl_Tensor *clamp_probability(tl_Tensor *self, double eps) {
  if (!(eps > 0.5)) return clamp_to(self, eps, 1 - eps);
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tli_with_number(tlo_lt, self, tli_float(eps)));
  TLI_SLOT(t[1], tli_with_number(tlo_clamp_max, self, tli_float(1 - eps)));
  result = tli_where_then(t[0], tli_float(eps), t[1]);
done:
  tli_release_results(t, 2);
  return result;
}

tl_Tensor *tlo_logit(tl_Tensor *self, double eps) {
  tl_Tensor *t[4] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tli_floating(self));
  TLI_SLOT(t[1], isnan(eps) ? tli_retain(t[0]) : clamp_probability(t[0], eps));
  TLI_SLOT(t[2], tli_number_with(tli_minus, tli_int(1), t[1]));
  TLI_SLOT(t[3], tlo_true_divide(t[1], t[2]));
  result = tlo_log(t[3]);
done:
  tli_release_results(t, 4);
  return result;
}

/* ---- bounds ---- */

/* grad where `whole`, half of it where `half`. */
tl_Tensor *tlo_share_where(tl_Tensor *grad, tl_Tensor *whole, tl_Tensor *half) {
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tli_with_number(tlo_mul, grad, tli_float(0.5)));
  TLI_SLOT(t[1], tli_where_else(half, t[0], tli_int(0)));
  result = tlo_where(whole, grad, t[1]);
done:
  tli_release_results(t, 2);
  return result;
}

tl_Tensor *tlo_clamp(tl_Tensor *self, tl_Tensor *min, tl_Tensor *max) {
  if (min && max) return tlo_clamp_both(self, min, max);
  if (min) return tlo_clamp_min(self, min);
  if (max) return tlo_clamp_max(self, max);
  return tli_fail_null(TL_EARG, "clamp: expected min or max, got neither");
}

static double largest(tl_DType dtype) {
  switch (dtype) {
  case TL_F16: return 65504.0;
  case TL_BF16: return 0x1.fep127;
  case TL_F32: return 0x1.fffffep127;
  default: return 0x1.fffffffffffffp1023;
  }
}

/* t with a number where test(self) holds; steals t, NULL is passed on. */
static tl_Tensor *replace(tl_Tensor *t, tl_Tensor *self, tl_Tensor *(*test)(tl_Tensor *),
                          double value) {
  tl_Tensor *mask = t ? test(self) : NULL;
  tl_Tensor *result = mask ? tli_where_then(mask, tli_float(value), t) : NULL;
  tli_release(mask);
  tli_release(t);
  return result;
}

tl_Tensor *tlo_nan_to_num(tl_Tensor *self, tl_Scalar nan, tl_Scalar posinf, tl_Scalar neginf) {
  tl_DType dtype = (tl_DType)self->dtype;
  if (!tli_is_float(dtype)) return tlo_clone(self);
  double high = tli_given(posinf) ? tli_to_double(posinf) : largest(dtype);
  double low = tli_given(neginf) ? tli_to_double(neginf) : -largest(dtype);
  tl_Tensor *t = replace(tli_retain(self), self, tlo_isnan, tli_to_double(nan));
  return replace(replace(t, self, tlo_isposinf, high), self, tlo_isneginf, low);
}
