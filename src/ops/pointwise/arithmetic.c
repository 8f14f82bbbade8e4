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
  if (exponent->flags & TLI_NUMBER) return pow_backward_number(grad, self, tli_number_of(exponent));
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
  double high = tli_given(posinf) ? tli_to_double(posinf) : tli_float_max(dtype);
  double low = tli_given(neginf) ? tli_to_double(neginf) : -tli_float_max(dtype);
  tl_Tensor *t = replace(tli_retain(self), self, tlo_isnan, tli_to_double(nan));
  return replace(replace(t, self, tlo_isposinf, high), self, tlo_isneginf, low);
}
