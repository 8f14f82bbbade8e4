/*
** arithmetic.c - elementwise operators that are composed of others, and derivatives that need more
** than one expression.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

tl_Tensor *tlo_positive(tl_Tensor *self) {
  if (self->dtype == TL_BOOL)
    return tli_fail_null(TL_EDTYPE, "positive: not defined for bool tensors");
  return tli_retain(self);
}

tl_Tensor *tlo_scaled(tl_Tensor *self, tl_Scalar factor) {
  if (factor.kind != TL_COMPLEX && tli_to_double(factor) == 1) return tli_retain(self);
  return tli_with_number(tlo_mul, self, factor);
}

static bool check_rounding(const char *mode) {
  if (mode == NULL || strcmp(mode, "trunc") == 0 || strcmp(mode, "floor") == 0) return true;
  return tli_fail(TL_EARG, "div: rounding_mode: expected \"trunc\" or \"floor\", got \"%s\"", mode);
}

tl_Tensor *tlo_div(tl_Tensor *self, tl_Tensor *other, const char *rounding_mode) {
  TL_TRY_NULL(check_rounding(rounding_mode));
  if (rounding_mode == NULL) return tlo_true_divide(self, other);
  return *rounding_mode == 't' ? tlo_div_trunc(self, other) : tlo_floor_divide(self, other);
}

bool tlo_div_(tl_Tensor *self, tl_Tensor *other, const char *rounding_mode) {
  TL_TRY(check_rounding(rounding_mode));
  if (rounding_mode == NULL) return tlo_true_divide_(self, other);
  return *rounding_mode == 't' ? tlo_div_trunc_(self, other) : tlo_floor_divide_(self, other);
}

/* ---- powers ---- */

/* Computes the gradient of a power whose exponent is a number. The exponent is not rounded to the
** dtype of the tensors. */
static tl_Tensor *pow_backward_number(tl_Tensor *grad, tl_Tensor *self, tl_Scalar exponent) {
  if (!tli_to_bool(exponent)) return tlo_zeros_like(self, TL_NODTYPE, TLI_NODEVICE, NULL);
  tli_Chain c = {0};
  tl_Scalar less = tli_scalar_sub(exponent, tli_int(1));
  bool square = exponent.kind != TL_COMPLEX && tli_to_double(exponent) == 2;
  tl_Tensor *power = square ? self : TLI_STEP(&c, tli_with_number(tlo_pow, self, less));
  tl_Tensor *slope = TLI_STEP(&c, tlo_scaled(power, exponent));
  tl_Tensor *conjugate = TLI_STEP(&c, tlo_conj(slope));
  return tli_chain_end(&c, chain_mul(&c, grad, conjugate));
}

/* Computes grad * conj(exponent * self^(exponent - 1)); the result is 0 where the exponent is 0. */
tl_Tensor *tlo_pow_backward_self(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *exponent) {
  if (exponent->flags & TLI_NUMBER) return pow_backward_number(grad, self, tli_number_of(exponent));
  tli_Chain c = {0};
  tl_Tensor *less = chain_with_int(&c, tli_minus, exponent, 1);
  tl_Tensor *power = TLI_STEP(&c, tlo_pow(self, less));
  tl_Tensor *slope = chain_mul(&c, power, exponent);
  tl_Tensor *conjugate = TLI_STEP(&c, tlo_conj(slope));
  tl_Tensor *back = chain_mul(&c, grad, conjugate);
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, exponent, 0);
  return tli_chain_end(&c, chain_where_then(&c, zero, tli_int(0), back));
}

/* Returns a mask of the exponents that are real and at least 0. */
static tl_Tensor *at_least_0(tl_Tensor *exponent) {
  tli_Chain c = {0};
  tl_Tensor *real = TLI_STEP(&c, tlo_real(exponent));
  tl_Tensor *above = chain_with_int(&c, tlo_ge, real, 0);
  if (!tli_is_complex((tl_DType)exponent->dtype)) return tli_chain_end(&c, above);
  tl_Tensor *whole = TLI_STEP(&c, tlo_isreal(exponent));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_logical_and(above, whole)));
}

/* Computes grad * result * log(self). Where the base is 0 and the exponent is at least 0, the
** result is 0. If the base is a number, it gets the dtype of the result. */
tl_Tensor *tlo_pow_backward_exponent(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *exponent,
                                     tl_Tensor *result) {
  tli_Chain c = {0};
  tl_Tensor *base = chain_to(&c, self, (tl_DType)result->dtype);
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, base, 0);
  tl_Tensor *not_negative = TLI_STEP(&c, at_least_0(exponent));
  tl_Tensor *flat = TLI_STEP(&c, tlo_logical_and(zero, not_negative));
  tl_Tensor *positive = chain_where_then(&c, flat, tli_int(1), base);
  tl_Tensor *log = TLI_STEP(&c, tlo_log(positive));
  tl_Tensor *slope = chain_mul(&c, result, log);
  tl_Tensor *conjugate = TLI_STEP(&c, tlo_conj(slope));
  tl_Tensor *back = chain_mul(&c, grad, conjugate);
  return tli_chain_end(&c, chain_where_then(&c, flat, tli_int(0), back));
}

tl_Tensor *tlo_float_power(tl_Tensor *self, tl_Tensor *exponent) {
  bool complex = tli_any_complex((tl_Tensor *[]){self, exponent}, 2);
  tl_DType dtype = complex ? TL_C128 : TL_F64;
  tli_Chain c = {0};
  tl_Tensor *wide = chain_to(&c, self, dtype);
  /* an exponent of several elements would otherwise determine the dtype of a 0-d self */
  if (exponent->ndim > 0) exponent = chain_to(&c, exponent, dtype);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_pow(wide, exponent)));
}

bool tlo_float_power_(tl_Tensor *self, tl_Tensor *exponent) {
  if (self->dtype != TL_F64 && self->dtype != TL_C128)
    return tli_fail(TL_EDTYPE, "float_power_: self: expected float64 or complex128, got %s",
                    tl_dtype_name((tl_DType)self->dtype));
  return tlo_pow_(self, exponent);
}

/* Computes self * 2^other. If other is an integer tensor, the power has the default dtype. The
** product may then be wider than a floating self, and is converted to the dtype of self. */
tl_Tensor *tlo_ldexp(tl_Tensor *self, tl_Tensor *other) {
  bool keeps = tli_is_inexact((tl_DType)self->dtype) && !tli_is_inexact((tl_DType)other->dtype);
  tli_Chain c = {0};
  tl_Tensor *power = TLI_STEP(&c, tlo_exp2(other));
  tl_Tensor *result = chain_mul(&c, self, power);
  return tli_chain_end(&c, keeps ? chain_to(&c, result, (tl_DType)self->dtype) : result);
}

/* ---- bounds ---- */

/* Returns grad where `whole` is true, half of grad where `half` is true, and 0 elsewhere. */
tl_Tensor *tlo_share_where(tl_Tensor *grad, tl_Tensor *whole, tl_Tensor *half) {
  tli_Chain c = {0};
  tl_Tensor *share = chain_where_else(&c, half, chain_with(&c, tlo_mul, grad, 0.5), tli_int(0));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_where(whole, grad, share)));
}

static bool check_bounds(const tl_Tensor *min, const tl_Tensor *max) {
  return min || max || tli_fail(TL_EARG, "clamp: expected min or max, got neither");
}

tl_Tensor *tlo_clamp(tl_Tensor *self, tl_Tensor *min, tl_Tensor *max) {
  TL_TRY_NULL(check_bounds(min, max));
  if (min && max) return tlo_clamp_both(self, min, max);
  return min ? tlo_clamp_min(self, min) : tlo_clamp_max(self, max);
}

bool tlo_clamp_(tl_Tensor *self, tl_Tensor *min, tl_Tensor *max) {
  TL_TRY(check_bounds(min, max));
  if (min && max) return tlo_clamp_both_(self, min, max);
  return min ? tlo_clamp_min_(self, min) : tlo_clamp_max_(self, max);
}

/* Replaces by a number the elements of t at whose positions test(self) is true. Steals t; returns
** NULL for NULL. */
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
  if (tli_is_complex(dtype)) { /* the real and imaginary parts are replaced separately */
    tli_Chain c = {0};
    tl_Tensor *parts = TLI_STEP(&c, tlo_view_as_real(self));
    parts = TLI_STEP(&c, tlo_nan_to_num(parts, nan, posinf, neginf));
    return tli_chain_end(&c, TLI_STEP(&c, tlo_complex_of_pairs(parts)));
  }
  if (!tli_is_float(dtype)) return tlo_clone(self);
  double high = tli_given(posinf) ? tli_to_double(posinf) : tli_float_max(dtype);
  double low = tli_given(neginf) ? tli_to_double(neginf) : -tli_float_max(dtype);
  tl_Tensor *t = replace(tli_retain(self), self, tlo_isnan, tli_to_double(nan));
  return replace(replace(t, self, tlo_isposinf, high), self, tlo_isneginf, low);
}
