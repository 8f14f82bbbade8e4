/*
** dot1x1.c - convolutions of bfloat16 with 1 x 1 kernels and a stride of 1, computed as matrix
** products. The loops of matmul/dot.h multiply bfloat16 directly, so nothing is copied to float32.
*/
#include "core/memory/alloc.h"
#include "kernels/cpu/conv/padded_image.h"
#include "kernels/cpu/conv/plan.h"
#include "kernels/cpu/matmul/dot.h"
#include "kernels/cpu/matmul/half_gemm.h"

typedef uint16_t Half;

bool tlk_conv_dot1x1(const tlk_Conv *c) {
  return c->dtype == TL_BF16 && tlk_dot_loops() && tlk_conv1x1(c);
}

/* Describes the product out (rows, positions) = weight * in for all images in one group. The weight
** is (rows, channels), or (channels, rows) if `trans`. */
static tlk_Gemm product(const tlk_Conv *c, bool trans, int64_t rows, int64_t channels,
                        const Half *weight, const Half *in, Half *out, bool add) {
  int64_t n = tlk_conv_product(c->windows.out);
  return (tlk_Gemm){.dtype = TL_BF16,
                    .trans_a = trans,
                    .m = rows,
                    .n = n,
                    .k = channels,
                    .alpha = tli_float(1),
                    .beta = tli_float(add),
                    .a = weight,
                    .b = in,
                    .c = out,
                    .lda = trans ? rows : channels,
                    .ldb = n,
                    .ldc = n,
                    .batch = c->batch,
                    .stride_b = c->groups * channels * n,
                    .stride_c = c->groups * rows * n};
}

static void put_bias(const tlk_Conv *c, const Half *bias, Half *out) {
  int64_t n = tlk_conv_product(c->windows.out);
  for (int64_t i = 0; i < c->batch; i++)
    for (int64_t r = 0; r < c->channels_out; r++, out += n)
      for (int64_t k = 0; k < n; k++) out[k] = bias[r];
}

bool tlk_conv_dot1x1_sums(const tlk_Conv *c, bool backward, void *out, const void *in,
                          const void *weight, const void *bias) {
  int64_t n = tlk_conv_product(c->windows.out);
  int64_t rows = (backward ? c->channels_in : c->channels_out) / c->groups;
  int64_t channels = (backward ? c->channels_out : c->channels_in) / c->groups;
  if (bias) put_bias(c, bias, out);
  for (int64_t g = 0; g < c->groups; g++) {
    tlk_Gemm gemm =
        product(c, backward, rows, channels, (const Half *)weight + g * rows * channels,
                (const Half *)in + g * channels * n, (Half *)out + g * rows * n, bias != NULL);
    TL_TRY(tlk_half_gemm(&gemm, TL_BF16, NULL));
  }
  return true;
}

/* Computes the gradient of the weight in float32: `sums` (rows, channels) is the sum over all
** images of grad_out (rows, positions) times the transpose of `in`. */
static bool sum_images(const tlk_Conv *c, const Half *in, const Half *grad_out, float *sums) {
  int64_t n = tlk_conv_product(c->windows.out);
  tlk_Gemm gemm = {.dtype = TL_BF16,
                   .trans_b = true,
                   .m = c->channels_out / c->groups,
                   .n = c->channels_in / c->groups,
                   .k = n,
                   .alpha = tli_float(1),
                   .c = sums,
                   .lda = n,
                   .ldb = n,
                   .ldc = c->channels_in / c->groups,
                   .batch = 1};
  for (int64_t i = 0; i < c->batch; i++) {
    gemm.beta = tli_float(i > 0);
    gemm.a = grad_out + i * c->channels_out * n, gemm.b = in + i * c->channels_in * n;
    TL_TRY(tlk_half_gemm(&gemm, TL_F32, NULL));
  }
  return true;
}

bool tlk_conv_dot1x1_weight(const tlk_Conv *c, void *grad_weight, const void *in,
                            const void *grad_out) {
  int64_t n = tlk_conv_product(c->windows.out);
  int64_t rows = c->channels_out / c->groups, channels = c->channels_in / c->groups;
  size_t bytes = (size_t)(rows * channels) * sizeof(float);
  float *sums = tli_alloc(bytes);
  bool ok = sums != NULL;
  for (int64_t g = 0; ok && g < c->groups; g++) {
    ok = sum_images(c, (const Half *)in + g * channels * n, (const Half *)grad_out + g * rows * n,
                    sums);
    if (ok)
      tlk_isa()->convert[TL_F32][TL_BF16](rows * channels,
                                          (Half *)grad_weight + g * rows * channels, sums);
  }
  tli_free(sums, bytes);
  return ok;
}
