/*
** quantized.c - products and convolutions of 8-bit integers: checks and allocation.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/common.h"
#include "ops/copy/memory_format.h"
#include "ops/windows.h"

/* Checks the dtype and the number of elements of a quantized layer's tensor. */
static bool check(const char *op, const char *name, const tl_Tensor *t, tl_DType dtype,
                  int64_t numel) {
  bool same = dtype == TL_F32 ? tli_is_float((tl_DType)t->dtype) : t->dtype == dtype;
  if (!same || t->numel != numel)
    return tli_fail(TL_EARG, "%s: %s: expected %" PRId64 " elements of %s, got %s %s", op, name,
                    numel, tl_dtype_name(dtype), tl_dtype_name((tl_DType)t->dtype),
                    tli_sizes_str(t));
  return true;
}

/* Checks a layer's tensors. Each result is a sum over `places` positions of the weight with
** `channels` channels each. `channels` is 0 for a depthwise layer, which sums over one channel. */
static bool check_layer(const char *op, const tl_Tensor *self, tl_Tensor *const *t,
                        int64_t channels, int64_t places, double scale, int64_t zero) {
  bool bytes = self->dtype == TL_U8 && scale > 0;
  if (!bytes && !tli_is_float((tl_DType)self->dtype))
    return tli_fail(TL_EDTYPE, "%s: self: expected a floating dtype, got %s", op,
                    tl_dtype_name((tl_DType)self->dtype));
  int64_t n = t[1]->numel, depth, numel;
  int64_t each = channels > 0 ? (channels + 3) / 4 * 4 : 1,
          rows = channels > 0 ? (n + 15) / 16 * 16 : n;
  if (__builtin_mul_overflow(each, places, &depth) || __builtin_mul_overflow(rows, depth, &numel))
    depth = numel = INT64_MAX;
  TL_TRY(check(op, "weight", t[0], TL_I8, numel));
  TL_TRY(check(op, "scales", t[1], TL_F32, n) && check(op, "sums", t[2], TL_I32, n));
  if (t[3]) TL_TRY(check(op, "bias", t[3], TL_F32, n));
  if (!(scale >= 0) || zero < 0 || zero > 255)
    return tli_fail(TL_EARG,
                    "%s: expected a scale of at least 0 and a zero point of 0 to 255, got %g and "
                    "%" PRId64,
                    op, scale, zero);
  if (depth <= INT32_MAX / (255 * 128)) return true;
  return tli_fail(TL_ESHAPE, "%s: expected sums of at most %d products, got %" PRId64, op,
                  INT32_MAX / (255 * 128), depth);
}

static void *data_or_null(const tl_Tensor *t) { return t ? tli_data(t) : NULL; }

/* Runs the kernel. `t` lists the layer's weight, scales, sums and bias, the tensor `other`, and the
** input; all of them are contiguous. */
static bool run_on(struct tlk_quantized *call, tl_Tensor *out, tl_Tensor *const *t) {
  call->weight = tli_data(t[0]), call->scales = tli_data(t[1]), call->sums = tli_data(t[2]);
  call->bias = data_or_null(t[3]), call->other = data_or_null(t[4]), call->in = tli_data(t[5]);
  call->out = tli_data(out);
  call->cx = tli_context(tli_device(out));
  return tli_backend(tli_device(out))->quantized(call);
}

/* Computes a quantized linear or convolution layer. `layer` lists the weight, each channel's scale,
** the sum of each channel's integers, the bias, and a tensor `other` to add; the last two may be
** NULL. */
static tl_Tensor *run(struct tlk_quantized *call, tl_Tensor *self, tl_Tensor *const *layer,
                      int ndim, const int64_t *sizes) {
  static const tl_DType dtypes[] = {TL_I8, TL_F32, TL_I32, TL_F32, TL_F32};
  tli_Format format = call->rows ? TLI_ROW_MAJOR : TLI_CHANNELS_LAST;
  call->dtype = self->dtype == TL_U8 ? TL_U8 : TL_F32;
  call->out_dtype = call->out_scale > 0 ? TL_U8 : TL_F32;
  tl_Tensor *t[6] = {NULL}, *out = NULL;
  bool ok = (t[5] = tli_lay(self, call->dtype, format)) != NULL;
  for (int i = 0; ok && i < 5; i++)
    if (layer[i])
      ok = (t[i] = tli_lay(layer[i], dtypes[i], i == 4 ? format : TLI_ROW_MAJOR)) != NULL;
  if (ok) out = tli_empty_format(format, call->out_dtype, tli_device(self), ndim, sizes);
  if (out && out->numel > 0 && !run_on(call, out, t)) {
    tli_release(out);
    out = NULL;
  }
  tli_release_results(t, 6);
  if (out == NULL || call->out_dtype == TL_U8 || self->dtype == TL_U8 || self->dtype == TL_F32)
    return out;
  tl_Tensor *result = tlo_to_dtype(out, (tl_DType)self->dtype);
  tli_release(out);
  return result;
}

tl_Tensor *tli_op__quantized_linear(tl_Tensor *self, tl_Tensor *weight, tl_Tensor *scales,
                                    tl_Tensor *sums, tl_Tensor *bias, double scale, int64_t zero,
                                    bool relu) {
  static const char op[] = "_quantized_linear";
  if (self->ndim == 0 || self->sizes[self->ndim - 1] == 0)
    return tli_fail_null(TL_ESHAPE, "%s: self: expected a last size above 0, got %s", op,
                         tli_sizes_str(self));
  tl_Tensor *t[] = {weight, scales, sums, bias, NULL};
  int64_t channels = self->sizes[self->ndim - 1], sizes[TL_MAX_DIMS];
  TL_TRY_NULL(check_layer(op, self, t, channels, 1, scale, zero));
  for (int d = 0; d < self->ndim; d++) sizes[d] = self->sizes[d];
  sizes[self->ndim - 1] = scales->numel;
  struct tlk_quantized call = {.rows = true,
                               .low = relu ? 0 : -INFINITY,
                               .high = INFINITY,
                               .batch = self->numel / channels,
                               .channels = channels,
                               .n = scales->numel,
                               .scale = (float)scale,
                               .zero = (int32_t)zero};
  for (int d = 0; d < 3; d++)
    call.windows.in[d] = call.windows.out[d] = call.windows.kernel[d] = call.windows.stride[d] =
        call.windows.dilation[d] = 1;
  return run(&call, self, t, self->ndim, sizes);
}

tl_Tensor *tli_op__quantized_conv2d(tl_Tensor *self, tl_Tensor *weight, tl_Tensor *scales,
                                    tl_Tensor *sums, tl_Tensor *bias, tl_Ints kernel,
                                    tl_Ints stride, tl_Ints padding, tl_Ints dilation, double scale,
                                    int64_t zero, bool relu, double most, double out_scale,
                                    int64_t out_zero, tl_Tensor *other, bool depthwise) {
  static const char op[] = "_quantized_conv2d";
  if (self->ndim != 4 || self->sizes[1] == 0)
    return tli_fail_null(TL_ESHAPE, "%s: self: expected (N, C, H, W) with channels, got %s", op,
                         tli_sizes_str(self));
  tl_Tensor *t[] = {weight, scales, sums, bias, other};
  struct tlk_quantized call = {
      .low = relu ? 0 : -INFINITY,
      .high = most > 0 ? (float)most : INFINITY,
      .out_scale = (float)out_scale,
      .out_zero = (int32_t)out_zero,
      .batch = self->sizes[0],
      .channels = self->sizes[1],
      .n = scales->numel,
      .scale = (float)scale,
      .zero = (int32_t)zero,
      .depthwise = depthwise,
      .windows = {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {1, 0, 0}}};
  tlk_Windows *w = &call.windows;
  TL_TRY_NULL(tli_spread(op, "kernel", kernel, 2, 1, w->kernel + 1));
  TL_TRY_NULL(tli_spread(op, "stride", stride, 2, 1, w->stride + 1));
  TL_TRY_NULL(tli_spread(op, "padding", padding, 2, 0, w->padding + 1));
  TL_TRY_NULL(tli_spread(op, "dilation", dilation, 2, 1, w->dilation + 1));
  if (w->kernel[1] > 256 || w->kernel[2] > 256)
    return tli_fail_null(TL_ESHAPE, "%s: kernel: expected sizes of at most 256", op);
  int64_t column = depthwise ? (w->kernel[1] + 3) / 4 * 4 : w->kernel[1];
  if (depthwise && call.n != call.channels)
    return tli_fail_null(
        TL_ESHAPE, "%s: depthwise: expected scales of self's %" PRId64 " channels, got %" PRId64,
        op, call.channels, call.n);
  TL_TRY_NULL(
      check_layer(op, self, t, depthwise ? 0 : call.channels, column * w->kernel[2], scale, zero));
  for (int d = 1; d < 3; d++) {
    w->in[d] = self->sizes[d + 1];
    int64_t room = w->in[d] + 2 * w->padding[d] - w->dilation[d] * (w->kernel[d] - 1) - 1;
    if (room < 0)
      return tli_fail_null(TL_ESHAPE, "%s: the kernel is larger than self with its padding: %s", op,
                           tli_sizes_str(self));
    w->out[d] = room / w->stride[d] + 1;
  }
  int64_t sizes[] = {call.batch, call.n, w->out[1], w->out[2]};
  if (!(out_scale >= 0) || out_zero < 0 || out_zero > 255)
    return tli_fail_null(TL_EARG, "%s: expected out_scale of at least 0 and out_zero of 0 to 255",
                         op);
  if (other && (other->ndim != 4 || memcmp(other->sizes, sizes, sizeof sizes) != 0)) {
    /* `other` has other sizes than the result, so it is added afterwards with broadcasting */
    double low = relu ? 0 : -INFINITY, high = most > 0 ? most : INFINITY;
    tli_Chain c = {0};
    tl_Tensor *sum = TLI_STEP(&c, tli_op__quantized_conv2d(self, weight, scales, sums, bias, kernel,
                                                           stride, padding, dilation, scale, zero,
                                                           false, 0, 0, 0, NULL, depthwise));
    tl_Tensor *least = chain_number(&c, low), *largest = chain_number(&c, high);
    sum = chain_add(&c, sum, other);
    return tli_chain_end(&c, TLI_STEP(&c, tlo_clamp(sum, least, largest)));
  }
  return run(&call, self, t, 4, sizes);
}
