/*
** dropout.c - dropout of elements and of whole channels. Masks come from the generator's stream, so
** a seed determines them on every device.
*/
#include <math.h>

#include "ops/chain.h"

static bool check_probability(const char *op, double p) {
  if (p >= 0 && p <= 1) return true;
  return tli_fail(TL_EARG, "%s: p: expected a probability from 0 to 1, got %g", op, p);
}

/* Checks the arguments of dropout. Sets *drops to false if no element is dropped, so that the
** result is self; self may then have any dtype. */
static bool check(const char *op, const tl_Tensor *self, double p, bool training, bool *drops) {
  *drops = training && p != 0;
  TL_TRY(check_probability(op, p));
  if (!*drops || tli_is_inexact((tl_DType)self->dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: expected a floating tensor, got %s", op,
                  tl_dtype_name((tl_DType)self->dtype));
}

static bool stretch_for(const tl_Tensor *self, tli_Generator *generator, tli_Stretch *from) {
  return tli_generator_stretch(generator, tli_device(self), self->numel, 4, from);
}

/* Returns a mask with one element for each channel: 1 with probability 1 - p, otherwise 0. Each
** index into the first `lead` dimensions is a channel. */
static tl_Tensor *channel_mask(tl_Tensor *self, int lead, double p, tli_Generator *generator) {
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < self->ndim; d++) sizes[d] = d < lead ? self->sizes[d] : 1;
  tl_DType dtype = tli_real_dtype((tl_DType)self->dtype);
  tl_Tensor *mask = tli_empty(dtype, tli_device(self), self->ndim, sizes);
  if (mask && !tlo_bernoulli_(mask, 1 - p, generator)) {
    tli_release(mask);
    mask = NULL;
  }
  return mask;
}

/* Sets each channel (an index into the first `lead` dimensions) to 0 with probability p, and scales
** all others by 1 / (1 - p). */
static tl_Tensor *drop_lead(tl_Tensor *self, int lead, double p, tli_Generator *generator) {
  tli_Chain c = {0};
  tl_Tensor *mask = TLI_STEP(&c, channel_mask(self, lead, p, generator));
  tl_Tensor *noise = p == 1 ? mask : chain_scale(&c, mask, 1 / (1 - p));
  return tli_chain_end(&c, chain_mul(&c, self, noise));
}

tl_Tensor *tlo_dropout(tl_Tensor *self, double p, bool training, tli_Generator *generator) {
  bool drops;
  tli_Stretch from;
  TL_TRY_NULL(check("dropout", self, p, training, &drops));
  if (!drops) return tli_retain(self);
  if (tli_is_complex((tl_DType)self->dtype)) return drop_lead(self, self->ndim, p, generator);
  TL_TRY_NULL(stretch_for(self, generator, &from));
  return tlo_dropout_core(self, p, (int64_t)from.seed, (int64_t)from.block, from.state);
}

tl_Tensor *tlo_dropout_add(tl_Tensor *input, tl_Tensor *residual, double p, bool training,
                           tli_Generator *generator) {
  bool drops;
  tli_Stretch from;
  TL_TRY_NULL(check("dropout_add", input, p, training, &drops));
  bool alike = drops && input->dtype == residual->dtype && tli_same_sizes(input, residual) &&
               tli_same_device(tli_device(input), tli_device(residual));
  if (alike) {
    TL_TRY_NULL(stretch_for(input, generator, &from));
    return tlo_dropout_add_core(input, residual, p, (int64_t)from.seed, (int64_t)from.block,
                                from.state);
  }
  tl_Tensor *dropped = tlo_dropout(input, p, training, generator);
  tl_Tensor *result = dropped ? tlo_add(residual, dropped, tli_int(1)) : NULL;
  tli_release(dropped);
  return result;
}

static tl_Tensor *drop_channels(const char *op, int dims, tl_Tensor *self, double p, bool training,
                                tli_Generator *generator) {
  bool drops;
  TL_TRY_NULL(check(op, self, p, training, &drops));
  if (self->ndim < 2 && (drops || dims == 1))
    return tli_fail_null(TL_ESHAPE, "%s: expected (N, C, ...) or (C, ...), got %s", op,
                         tli_sizes_str(self));
  if (!drops) return tli_retain(self);
  return drop_lead(self, self->ndim == dims + 1 ? 1 : 2, p, generator);
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

/* Computes a * x + b, where x is self for kept elements and, for dropped elements, the limit of
** selu for large negative arguments. a and b are chosen so that results have mean 0 and variance 1
** if self has. */
static tl_Tensor *alpha_drop(const char *op, int lead, tl_Tensor *self, double p, bool training,
                             tli_Generator *generator) {
  bool drops;
  TL_TRY_NULL(check(op, self, p, training, &drops));
  if (!drops) return tli_retain(self);
  /* selu's limit for large negative arguments: -alpha * scale */
  const double lowest = -1.7580993408473766;
  tli_Chain c = {0};
  if (p == 1) return tli_chain_end(&c, chain_mul(&c, self, chain_number(&c, 0)));
  double a = 1 / sqrt((lowest * lowest * p + 1) * (1 - p));
  tl_Tensor *mask = TLI_STEP(&c, channel_mask(self, lead, p, generator));
  /* The mask is 1 for kept elements and 0 for dropped ones. With b = -p * lowest * a, the shift
  ** (mask - 1 + p) * -lowest * a is b for kept elements and lowest * a + b for dropped ones. */
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

/* ---- the recorded operators ---- */

/* Drops elements at random. Elements are numbered in row-major order, regardless of their order in
** memory, so the mask does not depend on the strides. */
static tl_Tensor *drop(tl_Tensor *self, tl_Tensor *residual, double p, int64_t seed, int64_t block,
                       tl_Tensor *state) {
  tli_Chain c = {0};
  tl_DType dtype = (tl_DType)self->dtype;
  tl_Tensor *in = TLI_STEP(&c, tli_contiguous_as(self, dtype));
  tl_Tensor *other = residual ? TLI_STEP(&c, tli_contiguous_as(residual, dtype)) : NULL;
  tl_Tensor *out = TLI_STEP(&c, tli_empty(dtype, tli_device(self), self->ndim, self->sizes));
  if (!c.failed && out->numel > 0)
    c.failed = !TLI_RUN(tli_device(self), dropout, .out = tli_array(out), .in = tli_array(in),
                        .residual = other ? tli_array(other) : (tlk_Array){NULL, dtype},
                        .n = out->numel, .p = p, .seed = (uint64_t)seed, .block = (uint64_t)block,
                        .state = tli_stretch_words(state));
  if (c.failed || tli_contiguous(self)) return tli_chain_end(&c, out);
  tl_Tensor *laid = TLI_STEP(&c, tli_empty_like(self, dtype));
  TLI_DO(&c, tli_copy(laid, out));
  return tli_chain_end(&c, laid);
}

tl_Tensor *tli_op_dropout_core(tl_Tensor *self, double p, int64_t seed, int64_t block,
                               tl_Tensor *state) {
  return drop(self, NULL, p, seed, block, state);
}

tl_Tensor *tli_op_dropout_add_core(tl_Tensor *self, tl_Tensor *residual, double p, int64_t seed,
                                   int64_t block, tl_Tensor *state) {
  return drop(self, residual, p, seed, block, state);
}
