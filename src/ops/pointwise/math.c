/*
** math.c - elementary and special functions that are compositions, and
** derivatives that need more than one expression.
*/
#include <math.h>
#include <string.h>

#include "ops/common.h"

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
