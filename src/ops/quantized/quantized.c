/*
** quantized.c - products and convolutions of 8-bit integers: checks and allocation.
*/
#include "ops/common.h"
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

/* Checks a layer's tensors. A window has `places` elements of each channel. */
static bool check_layer(const char *op, const tl_Tensor *self, tl_Tensor *const *t,
                        int64_t channels, int64_t places, double scale, int64_t zero) {
  if (!tli_is_float((tl_DType)self->dtype))
    return tli_fail(TL_EDTYPE, "%s: self: expected a floating dtype, got %s", op,
                    tl_dtype_name((tl_DType)self->dtype));
  int64_t n = t[1]->numel, panels = (n + 15) / 16, depth = (channels + 3) / 4 * 4 * places;
  TL_TRY(check(op, "weight", t[0], TL_I8, panels * 16 * depth));
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

/* Runs the kernel on contiguous tensors: the input and a layer's weight, scales, sums and bias. */
static bool run_on(const struct tlk_quantized *call, tl_Tensor *out, tl_Tensor *const *t) {
  return TLI_RUN(tli_device(out), quantized, .rows = call->rows, .relu = call->relu,
                 .dtype = TL_F32, .windows = call->windows, .batch = call->batch,
                 .channels = call->channels, .n = call->n, .in = tli_data(t[0]),
                 .out = tli_data(out), .weight = tli_data(t[1]), .scales = tli_data(t[2]),
                 .sums = tli_data(t[3]), .bias = data_or_null(t[4]), .scale = call->scale,
                 .zero = call->zero);
}

static tl_Tensor *run(const struct tlk_quantized *call, tl_Tensor *self, tl_Tensor *const *layer,
                      int ndim, const int64_t *sizes) {
  static const tl_DType dtypes[] = {TL_I8, TL_F32, TL_I32, TL_F32};
  tl_Tensor *t[5] = {tli_contiguous_as(self, TL_F32)};
  bool ok = t[0] != NULL;
  for (int i = 0; ok && i < 4; i++)
    if (layer[i]) ok = (t[i + 1] = tli_contiguous_as(layer[i], dtypes[i])) != NULL;
  tl_Tensor *out = ok ? tli_empty(TL_F32, tli_device(self), ndim, sizes) : NULL;
  if (out && out->numel > 0 && !run_on(call, out, t)) {
    tli_release(out);
    out = NULL;
  }
  for (int i = 0; i < 5; i++) tli_release(t[i]);
  if (out == NULL || self->dtype == TL_F32) return out;
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
  tl_Tensor *t[] = {weight, scales, sums, bias};
  int64_t channels = self->sizes[self->ndim - 1], sizes[TL_MAX_DIMS];
  TL_TRY_NULL(check_layer(op, self, t, channels, 1, scale, zero));
  for (int d = 0; d < self->ndim; d++) sizes[d] = self->sizes[d];
  sizes[self->ndim - 1] = scales->numel;
  struct tlk_quantized call = {.rows = true,
                               .relu = relu,
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
                                    int64_t zero, bool relu) {
  static const char op[] = "_quantized_conv2d";
  if (self->ndim != 4 || self->sizes[1] == 0)
    return tli_fail_null(TL_ESHAPE, "%s: self: expected (N, C, H, W) with channels, got %s", op,
                         tli_sizes_str(self));
  tl_Tensor *t[] = {weight, scales, sums, bias};
  struct tlk_quantized call = {
      .relu = relu,
      .batch = self->sizes[0],
      .channels = self->sizes[1],
      .n = scales->numel,
      .scale = (float)scale,
      .zero = (int32_t)zero,
      .windows = {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {1, 0, 0}}};
  tlk_Windows *w = &call.windows;
  TL_TRY_NULL(tli_spread(op, "kernel", kernel, 2, 1, w->kernel + 1));
  TL_TRY_NULL(tli_spread(op, "stride", stride, 2, 1, w->stride + 1));
  TL_TRY_NULL(tli_spread(op, "padding", padding, 2, 0, w->padding + 1));
  TL_TRY_NULL(tli_spread(op, "dilation", dilation, 2, 1, w->dilation + 1));
  if (w->kernel[1] > 256 || w->kernel[2] > 256)
    return tli_fail_null(TL_ESHAPE, "%s: kernel: expected sizes of at most 256", op);
  TL_TRY_NULL(check_layer(op, self, t, call.channels, w->kernel[1] * w->kernel[2], scale, zero));
  for (int d = 1; d < 3; d++) {
    w->in[d] = self->sizes[d + 1];
    int64_t room = w->in[d] + 2 * w->padding[d] - w->dilation[d] * (w->kernel[d] - 1) - 1;
    if (room < 0)
      return tli_fail_null(TL_ESHAPE, "%s: the kernel is larger than self with its padding: %s", op,
                           tli_sizes_str(self));
    w->out[d] = room / w->stride[d] + 1;
  }
  int64_t sizes[] = {call.batch, call.n, w->out[1], w->out[2]};
  return run(&call, self, t, 4, sizes);
}
