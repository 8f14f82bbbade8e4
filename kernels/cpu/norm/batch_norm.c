/*
** batch_norm.c - batch norm in training, which uses the kernels of channels.c. One pass over the
** elements computes the statistics, and a second pass normalises. The values for each channel are
** computed between the two passes.
*/
#include <math.h>

#include "core/memory/alloc.h"
#include "kernels/cpu/norm/channels.h"

static double weight_at(const void *weight, int64_t i, int64_t size) {
  return weight ? tlk_number_at(weight, i, size) : 1;
}

/* Normalises with the statistics of the batch. `scale` is a buffer for one number per channel. */
static bool normalize(const struct tlk_batch_norm *b, void *scale, int64_t size) {
  double n = (double)(b->outer * b->inner);
  struct tlk_channel_moments moments = {b->cx,    b->mean,     b->deviation, b->in,
                                        b->outer, b->channels, b->inner};
  if (!tlk_channel_moments(&moments)) return false;
  for (int64_t c = 0; c < b->channels; c++) {
    double rstd = 1 / sqrt(tlk_number_at(b->deviation, c, size) / n + b->eps);
    tlk_store_at(b->rstd, c, size, rstd);
    tlk_store_at(scale, c, size, rstd * weight_at(b->weight, c, size));
  }
  struct tlk_channel_affine affine = {.cx = b->cx,
                                      .out = b->out,
                                      .in = b->in,
                                      .mean = b->mean,
                                      .scale = scale,
                                      .shift = b->bias,
                                      .outer = b->outer,
                                      .channels = b->channels,
                                      .inner = b->inner};
  return tlk_channel_affine(&affine);
}

bool tlk_batch_norm(const struct tlk_batch_norm *call) {
  int64_t size = call->in.dtype == TL_F64 ? 8 : 4;
  size_t bytes = (size_t)(call->channels * size);
  void *scale = tli_alloc(bytes);
  if (scale == NULL) return false;
  bool ok = normalize(call, scale, size);
  tli_free(scale, bytes);
  return ok;
}

/* Computes grad_in = (g - mean(g) - normal * mean(g * normal)) * rstd * weight for g = grad_out and
** normal = (in - mean) * rstd. `room` is a buffer for three numbers per channel. */
static bool spread_back(const struct tlk_batch_norm_backward *b, char *room, int64_t size) {
  double n = (double)(b->outer * b->inner);
  char *scale = room, *slope = scale + b->channels * size, *shift = slope + b->channels * size;
  for (int64_t c = 0; c < b->channels; c++) {
    double rstd = tlk_number_at(b->rstd, c, size), by = rstd * weight_at(b->weight, c, size);
    tlk_store_at(scale, c, size, by);
    tlk_store_at(slope, c, size, -tlk_number_at(b->grad_weight, c, size) * by * rstd / n);
    tlk_store_at(shift, c, size, -tlk_number_at(b->grad_bias, c, size) * by / n);
  }
  struct tlk_channel_affine affine = {.cx = b->cx,
                                      .out = b->grad_in,
                                      .in = b->in,
                                      .mean = b->mean,
                                      .scale = slope,
                                      .shift = shift,
                                      .other = b->grad_out,
                                      .factor = scale,
                                      .outer = b->outer,
                                      .channels = b->channels,
                                      .inner = b->inner};
  return tlk_channel_affine(&affine);
}

bool tlk_batch_norm_backward(const struct tlk_batch_norm_backward *call) {
  int64_t size = call->in.dtype == TL_F64 ? 8 : 4;
  struct tlk_channel_products products = {.cx = call->cx,
                                          .sum = call->grad_bias,
                                          .product = call->grad_weight,
                                          .grad = call->grad_out,
                                          .in = call->in,
                                          .mean = call->mean,
                                          .outer = call->outer,
                                          .channels = call->channels,
                                          .inner = call->inner};
  if (!tlk_channel_products(&products)) return false;
  for (int64_t c = 0; c < call->channels; c++)
    tlk_store_at(call->grad_weight, c, size,
                 tlk_number_at(call->grad_weight, c, size) * tlk_number_at(call->rstd, c, size));
  if (call->grad_in.data == NULL) return true;
  size_t bytes = (size_t)(3 * call->channels * size);
  char *room = tli_alloc(bytes);
  if (room == NULL) return false;
  bool ok = spread_back(call, room, size);
  tli_free(room, bytes);
  return ok;
}
