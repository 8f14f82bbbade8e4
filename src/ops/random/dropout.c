/*
** dropout.c - dropout of elements and of whole channels. Masks come from the
** generator's stream, so a seed fixes them on every device.
*/
#include <math.h>

#include "ops/chain.h"

static bool check_probability(const char *op, double p) {
  if (p >= 0 && p <= 1) return true;
  return tli_fail(TL_EARG, "%s: p: expected a probability from 0 to 1, got %g", op, p);
}

/* `drops` is false where self stays as it is, whatever its dtype. */
static bool check(const char *op, const tl_Tensor *self, double p, bool training, bool *drops) {
  *drops = training && p != 0;
  TL_TRY(check_probability(op, p));
  if (!*drops || tli_is_float((tl_DType)self->dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: expected a floating tensor, got %s", op,
                  tl_dtype_name((tl_DType)self->dtype));
}

tl_Tensor *tlo_dropout(tl_Tensor *self, double p, bool training, tli_Generator *generator) {
  bool drops;
  TL_TRY_NULL(check("dropout", self, p, training, &drops));
  if (!drops) return tli_retain(self);
  tl_Tensor *out[2];
  if (!tlo_native_dropout(self, p, true, generator, out)) return NULL;
  tli_release(out[1]);
  return out[0];
}

/* Ones with probability 1 - p, else zeros: one for each channel, that is for
** each element of the first `lead` dimensions. */
static tl_Tensor *channel_mask(tl_Tensor *self, int lead, double p, tli_Generator *generator) {
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < self->ndim; d++) sizes[d] = d < lead ? self->sizes[d] : 1;
  tl_Tensor *mask = tli_empty((tl_DType)self->dtype, tli_device(self), self->ndim, sizes);
  if (mask && !tlo_bernoulli_(mask, 1 - p, generator)) {
    tli_release(mask);
    mask = NULL;
  }
  return mask;
}

static tl_Tensor *drop_channels(const char *op, int dims, tl_Tensor *self, double p, bool training,
                                tli_Generator *generator) {
  bool drops;
  TL_TRY_NULL(check(op, self, p, training, &drops));
  if (self->ndim < 2 && (drops || dims == 1))
    return tli_fail_null(TL_ESHAPE, "%s: expected (N, C, ...) or (C, ...), got %s", op,
                         tli_sizes_str(self));
  if (!drops) return tli_retain(self);
  tli_Chain c = {0};
  int lead = self->ndim == dims + 1 ? 1 : 2;
  tl_Tensor *mask = TLI_STEP(&c, channel_mask(self, lead, p, generator));
  tl_Tensor *noise = p == 1 ? mask : chain_scale(&c, mask, 1 / (1 - p));
  return tli_chain_end(&c, chain_mul(&c, self, noise));
}

tl_Tensor *tlo_dropout1d(tl_Tensor *self, double p, bool training, tli_Generator *generator) {
  return drop_channels("dropout1d", 1, self, p, training, generator);
}

tl_Tensor *tlo_dropout2d(tl_Tensor *self, double p, bool training, tli_Generator *generator) {
  return drop_channels("dropout2d", self->ndim == 3 ? 0 : 2, self, p, training, generator);
}

tl_Tensor *tlo_dropout3d(tl_Tensor *self, double p, bool training, tli_Generator *generator) {
  return drop_channels("dropout3d", 3, self, p, training, generator);
}

/* a * (self where kept, else selu's lowest value) + b, with a and b such that
** mean 0 and variance 1 stay. */
static tl_Tensor *alpha_drop(const char *op, int lead, tl_Tensor *self, double p, bool training,
                             tli_Generator *generator) {
  bool drops;
  TL_TRY_NULL(check(op, self, p, training, &drops));
  if (!drops) return tli_retain(self);
  const double lowest = -1.7580993408473766; /* -alpha * scale of selu */
  tli_Chain c = {0};
  if (p == 1) return tli_chain_end(&c, chain_mul(&c, self, chain_number(&c, 0)));
  double a = 1 / sqrt((lowest * lowest * p + 1) * (1 - p));
  tl_Tensor *mask = TLI_STEP(&c, channel_mask(self, lead, p, generator));
  /* (mask - 1) * -lowest * a is lowest * a where dropped; p * -lowest * a is b */
  tl_Tensor *shift = chain_sub(&c, mask, chain_number(&c, 1 - p));
  shift = chain_scale(&c, shift, -lowest * a);
  tl_Tensor *kept = chain_mul(&c, self, chain_scale(&c, mask, a));
  return tli_chain_end(&c, chain_add(&c, kept, shift));
}

tl_Tensor *tlo_alpha_dropout(tl_Tensor *self, double p, bool training, tli_Generator *generator) {
  return alpha_drop("alpha_dropout", self->ndim, self, p, training, generator);
}

tl_Tensor *tlo_feature_alpha_dropout(tl_Tensor *self, double p, bool training,
                                     tli_Generator *generator) {
  if (self->ndim < 2 && training && p > 0 && self->numel > 0)
    return tli_fail_null(TL_ESHAPE, "feature_alpha_dropout: expected (N, C, ...), got %s",
                         tli_sizes_str(self));
  return alpha_drop("feature_alpha_dropout", 2, self, p, training, generator);
}

/* ---- the operator that is recorded ---- */

static double kept_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

/* result = 0 + scale * self * mask, in one pass. */
bool tli_op_native_dropout(tl_Tensor *self, double p, bool train, tli_Generator *generator,
                           tl_Tensor **out) {
  static const tli_PointwiseSpec addcmul = {"dropout",        TLK_addcmul, 3,   1,
                                            TLI_TYPES_NUMBER, false,       true};
  TL_TRY(check_probability("dropout", p));
  if (!train) p = 0;
  tl_Scalar scale = tli_float(kept_scale(p));
  tli_Chain c = {0};
  tl_Tensor *zero = TLI_STEP(&c, tli_number(tli_int(0)));
  tl_Tensor *mask = out[1] = TLI_STEP(&c, tli_empty_like(self, TL_BOOL));
  TLI_DO(&c, tli_op_bernoulli_(mask, 1 - p, generator));
  out[0] = TLI_STEP(&c, tli_pointwise(&addcmul, (tl_Tensor *[]){zero, self, mask}, &scale));
  return tli_chain_end_all(&c, out, 2);
}

tl_Tensor *tlo_native_dropout_backward(tl_Tensor *grad, tl_Tensor *mask, double p, bool train) {
  tl_Tensor *kept = tlo_mul(grad, mask);
  tl_Tensor *result = kept ? tlo_scaled(kept, tli_float(kept_scale(train ? p : 0))) : NULL;
  tli_release(kept);
  return result;
}
