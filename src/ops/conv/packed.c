/*
** packed.c - checks arguments and allocates results for two kernels of channels-last images:
** convolutions with packed weights, and maxima of windows.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/common.h"
#include "ops/copy/memory_format.h"
#include "ops/windows.h"

typedef struct Options {
  tl_Ints kernel, stride, padding, dilation;
} Options;

static bool check(const char *op, const char *name, const tl_Tensor *t, int64_t numel) {
  if (tli_is_float((tl_DType)t->dtype) && t->numel == numel) return true;
  return tli_fail(TL_EARG, "%s: %s: expected %" PRId64 " elements of a floating dtype, got %s %s",
                  op, name, numel, tl_dtype_name((tl_DType)t->dtype), tli_sizes_str(t));
}

/* Describes a kernel call, except for the number of the result's channels. `single` means that each
** channel of the result depends only on the same channel of the input. With `ceil_mode`, an
** incomplete window at the end of a dimension also gives a result. */
static bool describe(const char *op, const tl_Tensor *self, const Options *o, bool single,
                     bool ceil_mode, tlk_Conv *c) {
  if (!tli_is_float((tl_DType)self->dtype) || self->ndim != 4 || self->sizes[1] < (single ? 16 : 1))
    return tli_fail(
        TL_ESHAPE,
        "%s: self: expected (N, C, H, W) of a floating dtype with at least %d channels, got "
        "%s %s",
        op, single ? 16 : 1, tl_dtype_name((tl_DType)self->dtype), tli_sizes_str(self));
  *c = (tlk_Conv){.dtype = TL_F32,
                  .channels_last = 1,
                  .batch = self->sizes[0],
                  .groups = single ? self->sizes[1] : 1,
                  .channels_in = self->sizes[1],
                  .channels_out = self->sizes[1],
                  .windows = {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {1, 0, 0}}};
  tlk_Windows *w = &c->windows;
  TL_TRY(tli_spread(op, "kernel", o->kernel, 2, 1, w->kernel + 1));
  TL_TRY(tli_spread(op, "stride", o->stride, 2, 1, w->stride + 1));
  TL_TRY(tli_spread(op, "padding", o->padding, 2, 0, w->padding + 1));
  TL_TRY(tli_spread(op, "dilation", o->dilation, 2, 1, w->dilation + 1));
  for (int d = 1; d < 3; d++) {
    w->in[d] = self->sizes[d + 1];
    w->out[d] = tli_count_windows(w->in[d], w->kernel[d], w->stride[d], w->padding[d],
                                  w->dilation[d], ceil_mode);
    if (w->out[d] < 1)
      return tli_fail(TL_ESHAPE, "%s: the kernel is larger than self with its padding: %s", op,
                      tli_sizes_str(self));
  }
  return true;
}

/* Runs the kernel in float32. `other` has the result's sizes or is NULL. weight and bias may be
** NULL as well. */
static tl_Tensor *run(const tlk_Conv *c, tl_Tensor *self, tl_Tensor *weight, tl_Tensor *bias,
                      tl_Tensor *other, double low, double high) {
  int64_t sizes[] = {c->batch, c->channels_out, c->windows.out[1], c->windows.out[2]};
  tl_Tensor *given[] = {self, other, weight, bias}, *t[4] = {NULL}, *out = NULL;
  void *data[4] = {NULL};
  bool ok = true;
  for (int i = 0; ok && i < 4; i++) {
    if (given[i] == NULL) continue;
    ok = (t[i] = tli_lay(given[i], TL_F32, i < 2 ? TLI_CHANNELS_LAST : TLI_ROW_MAJOR)) != NULL;
    if (ok) data[i] = tli_data(t[i]);
  }
  if (ok) out = tli_empty_format(TLI_CHANNELS_LAST, TL_F32, tli_device(self), 4, sizes);
  if (out && out->numel > 0 &&
      !TLI_RUN(tli_device(self), conv_packed, .conv = *c, .out = tli_data(out), .in = data[0],
               .other = data[1], .weight = data[2], .bias = data[3], .low = (float)low,
               .high = (float)high)) {
    tli_release(out);
    out = NULL;
  }
  tli_release_results(t, 4);
  if (out == NULL || self->dtype == TL_F32) return out;
  tl_Tensor *result = tlo_to_dtype(out, (tl_DType)self->dtype);
  tli_release(out);
  return result;
}

/* Runs the kernel, and afterwards adds `other`, whose sizes differ from the result's, with
** broadcasting. */
static tl_Tensor *run_apart(const tlk_Conv *c, tl_Tensor *self, tl_Tensor *weight, tl_Tensor *bias,
                            tl_Tensor *other, double low, double high) {
  tli_Chain chain = {0};
  tl_Tensor *sum = TLI_STEP(&chain, run(c, self, weight, bias, NULL, -INFINITY, INFINITY));
  tl_Tensor *least = chain_number(&chain, low), *most = chain_number(&chain, high);
  sum = chain_add(&chain, sum, other);
  return tli_chain_end(&chain, TLI_STEP(&chain, tlo_clamp(sum, least, most)));
}

static bool fits(const tlk_Conv *c, const tl_Tensor *t) {
  int64_t sizes[] = {c->batch, c->channels_out, c->windows.out[1], c->windows.out[2]};
  return t->dtype == TL_F32 && t->ndim == 4 && memcmp(sizes, t->sizes, sizeof sizes) == 0;
}

tl_Tensor *tli_op__conv2d_packed(tl_Tensor *self, tl_Tensor *weight, tl_Tensor *bias,
                                 int64_t channels, tl_Ints kernel, double low, double high,
                                 tl_Ints stride, tl_Ints padding, tl_Ints dilation, bool depthwise,
                                 tl_Tensor *other) {
  static const char op[] = "_conv2d_packed";
  tlk_Conv c;
  if (self->ndim == 3) {
    tli_Chain chain = {0};
    tl_Tensor *images = TLI_STEP(&chain, tlo_unsqueeze(self, 0));
    tl_Tensor *out =
        TLI_STEP(&chain, tli_op__conv2d_packed(images, weight, bias, channels, kernel, low, high,
                                               stride, padding, dilation, depthwise, other));
    return tli_chain_end(&chain, TLI_STEP(&chain, tlo_select(out, 0, 0)));
  }
  Options o = {kernel, stride, padding, dilation};
  TL_TRY_NULL(describe(op, self, &o, depthwise, false, &c));
  if (channels < 1 || channels > INT32_MAX || (depthwise && channels != c.channels_in))
    return tli_fail_null(TL_EARG, "%s: channels: expected %s, got %" PRId64, op,
                         depthwise ? "the number of self's" : "1 to 2147483647", channels);
  c.channels_out = channels;
  int64_t columns = depthwise ? channels : (channels + 15) / 16 * 16;
  int64_t numel = columns;
  const int64_t factors[] = {depthwise ? 1 : c.channels_in, c.windows.kernel[1],
                             c.windows.kernel[2]};
  for (int i = 0; i < 3; i++)
    if (__builtin_mul_overflow(numel, factors[i], &numel)) numel = INT64_MAX;
  TL_TRY_NULL(check(op, "weight", weight, numel));
  TL_TRY_NULL(check(op, "bias", bias, columns));
  bool apart = other && !fits(&c, other);
  return (apart ? run_apart : run)(&c, self, weight, bias, other, low, high);
}

tl_Tensor *tli_op__max_pool2d_packed(tl_Tensor *self, tl_Ints kernel, tl_Ints stride,
                                     tl_Ints padding, tl_Ints dilation, bool ceil_mode) {
  static const char op[] = "_max_pool2d_packed";
  Options o = {kernel, stride, padding, dilation};
  tlk_Conv c;
  TL_TRY_NULL(describe(op, self, &o, true, ceil_mode, &c));
  return run(&c, self, NULL, NULL, NULL, -INFINITY, INFINITY);
}
