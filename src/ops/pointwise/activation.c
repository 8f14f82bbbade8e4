/*
** activation.c - activations that need more than one kernel call, because an option selects the
** formula or because they draw random numbers.
*/
#include <string.h>

#include "ops/chain.h"

tl_Tensor *tlo_gelu(tl_Tensor *self, const char *approximate) {
  if (strcmp(approximate, "none") == 0) return tlo_gelu_erf(self);
  if (strcmp(approximate, "tanh") == 0) return tlo_gelu_tanh(self);
  return tli_fail_null(TL_EARG, "gelu: approximate: expected 'none' or 'tanh', got '%s'",
                       approximate);
}

/* Returns the weight of prelu, (1) or (C), in a shape that broadcasts to (N, C, ...). */
static tl_Tensor *prelu_weight(tl_Tensor *self, tl_Tensor *weight) {
  int64_t channels = self->ndim >= 2 ? self->sizes[1] : 1;
  if (weight->ndim > 1 || (weight->numel != 1 && weight->numel != channels))
    return tli_fail_null(TL_ESHAPE,
                         "prelu: weight: expected shape [1] or [%" PRId64
                         "] (channels) for input %s, got %s",
                         channels, tli_sizes_str(self), tli_sizes_str(weight));
  if (weight->numel == 1) return tlo_reshape(weight, (tl_Ints){0, (int64_t[]){0}});
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 1; d < self->ndim; d++) sizes[d - 1] = d == 1 ? channels : 1;
  return tlo_reshape(weight, (tl_Ints){self->ndim - 1, sizes});
}

tl_Tensor *tlo_prelu(tl_Tensor *self, tl_Tensor *weight) {
  tl_Tensor *shaped = prelu_weight(self, weight);
  tl_Tensor *result = shaped ? tlo_prelu_kernel(self, shaped) : NULL;
  tli_release(shaped);
  return result;
}

/* Returns a slope for each element: 1 if self is positive, otherwise random. */
static tl_Tensor *random_slopes(tl_Tensor *self, double lower, double upper,
                                tli_Generator *generator) {
  tl_Tensor *drawn = tli_empty_like(self, (tl_DType)self->dtype);
  tl_Tensor *zero = tli_number(tli_int(0)), *one = tli_number(tli_int(1));
  tl_Tensor *positive = NULL, *slopes = NULL;
  bool ok = drawn && zero && one && tlo_uniform_(drawn, lower, upper, generator);
  if (ok) positive = tlo_gt(self, zero);
  if (positive) slopes = tlo_where(positive, one, drawn);
  tl_Tensor *slots[] = {drawn, zero, one, positive};
  tli_release_results(slots, 4);
  return slopes;
}

tl_Tensor *tlo_rrelu(tl_Tensor *self, double lower, double upper, bool training,
                     tli_Generator *generator) {
  if (!(lower <= upper))
    return tli_fail_null(TL_EARG, "rrelu: expected lower <= upper, got %g and %g", lower, upper);
  if (!training) return tlo_leaky_relu(self, tli_float((lower + upper) / 2));
  if (!tli_is_float((tl_DType)self->dtype))
    return tli_fail_null(TL_EDTYPE, "rrelu: expected a floating tensor, got %s",
                         tl_dtype_name((tl_DType)self->dtype));
  tl_Tensor *slopes = random_slopes(self, lower, upper, generator);
  tl_Tensor *result = slopes ? tlo_mul(self, slopes) : NULL;
  tli_release(slopes);
  return result;
}

tl_Tensor *tlo_glu(tl_Tensor *self, int64_t dim) {
  int d = tli_dim("glu", dim, self->ndim);
  if (d < 0) return NULL;
  int64_t size = self->ndim ? self->sizes[d] : 1;
  if (self->ndim == 0 || size % 2 != 0)
    return tli_fail_null(TL_ESHAPE, "glu: expected an even size in dimension " TLI_POS ", got %s",
                         (int64_t)d, tli_sizes_str(self));
  tl_Tensor *a = tlo_narrow(self, d, 0, size / 2);
  tl_Tensor *b = a ? tlo_narrow(self, d, size / 2, size / 2) : NULL;
  tl_Tensor *gate = b ? tlo_sigmoid(b) : NULL;
  tl_Tensor *result = gate ? tlo_mul(a, gate) : NULL;
  tl_Tensor *slots[] = {a, b, gate};
  tli_release_results(slots, 3);
  return result;
}

/* ---- checks of numbers ---- */

bool tli_check_hardtanh(tl_Scalar min_val, tl_Scalar max_val) {
  double min = tli_to_double(min_val), max = tli_to_double(max_val);
  if (!(min > max)) return true;
  return tli_fail(TL_EARG, "hardtanh: min_val: expected at most max_val %g, got %g", max, min);
}

bool tli_check_softshrink(tl_Scalar lambd) {
  double l = tli_to_double(lambd);
  if (!(l < 0)) return true;
  return tli_fail(TL_EARG, "softshrink: lambd: expected at least 0, got %g", l);
}

/* Computes the gradient of softsign. With r = |x| it is grad / (1 + r)^2 for real numbers. For
** complex numbers it is grad / (1 + r) - x Re(conj(grad) x) / (r (1 + r)^2), and grad at 0. */
tl_Tensor *tlo_softsign_backward(tl_Tensor *grad, tl_Tensor *self) {
  tli_Chain c = {0};
  tl_Tensor *size = TLI_STEP(&c, tlo_abs(self));
  tl_Tensor *more = chain_add(&c, size, chain_number(&c, 1));
  tl_Tensor *square = TLI_STEP(&c, tlo_square(more));
  if (c.failed || !tli_is_complex((tl_DType)self->dtype))
    return tli_chain_end(&c, chain_div(&c, grad, square));
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, size, 0);
  tl_Tensor *divisor = chain_mul(&c, chain_where_then(&c, zero, tli_int(1), size), square);
  tl_Tensor *along = chain_mul(&c, chain_conj(&c, grad), self);
  along = TLI_STEP(&c, tlo_real(along));
  tl_Tensor *less = chain_mul(&c, self, chain_div(&c, along, divisor));
  return tli_chain_end(&c, chain_sub(&c, chain_div(&c, grad, more), less));
}
