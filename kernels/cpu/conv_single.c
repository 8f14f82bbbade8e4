/*
** conv_single.c - convolution with kernels of one element that move in single
** steps: products of matrices (panels.h) that read images where they are.
*/
#include "core/parallel.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/conv_plan.h"

/* Fewer channels or positions would leave tiles half empty. */
#define CHANNELS 6
#define POSITIONS 64
/* Rows of a product that a thread takes at a time. */
#define ROWS 96

bool tlk_conv_single(const tlk_Conv *c) {
  const tlk_Windows *w = &c->windows;
  for (int d = 0; d < 3; d++)
    if (w->kernel[d] != 1 || w->stride[d] != 1 || w->padding[d] != 0) return false;
  return c->channels_in / c->groups >= CHANNELS && c->channels_out / c->groups >= CHANNELS &&
         tlk_conv_product(w->out) >= POSITIONS;
}

/* Products (m, k) x (k, n) for each image and group, in blocks of rows. */
typedef struct Single {
  const tlk_Conv *conv;
  tlk_Gemm gemm;
  int64_t size, blocks;
  const char *in, *weight, *bias;
  char *out;
} Single;

#define FILL(s, type)                                                       \
  static void fill_##s(int64_t n, const void *value, void *to) {            \
    for (int64_t i = 0; i < n; i++) ((type *)to)[i] = *(const type *)value; \
  }
FILL(f32, float)
FILL(f64, double)

static void fill_bias(const Single *s, int64_t channel, int64_t rows, char *out) {
  int64_t row = s->gemm.n * s->size;
  for (int64_t r = 0; r < rows; r++, out += row)
    (s->size == 4 ? fill_f32 : fill_f64)(s->gemm.n, s->bias + (channel + r) * s->size, out);
}

static void sum_blocks(void *context, int64_t begin, int64_t end) {
  const Single *s = context;
  int64_t groups = s->conv->groups, m = s->gemm.m, n = s->gemm.n, k = s->gemm.k;
  for (int64_t i = begin; i < end; i++) {
    tlk_Gemm g = s->gemm;
    int64_t image = i / s->blocks / groups, group = i / s->blocks % groups;
    int64_t row = i % s->blocks * ROWS, channel = group * m + row;
    g.m = tlk_min(ROWS, m - row);
    char *out = s->out + (image * groups * m + channel) * n * s->size;
    if (s->bias) fill_bias(s, channel, g.m, out);
    tlk_panel_gemm(&g, s->weight + (group * m * k + row * (g.trans_a ? 1 : k)) * s->size,
                   s->in + (image * groups + group) * k * n * s->size, out);
  }
}

bool tlk_conv_single_sums(const tlk_Conv *c, bool backward, void *out, const void *in,
                          const void *weight, const void *bias) {
  int64_t from = c->channels_in / c->groups, to = c->channels_out / c->groups;
  int64_t n = tlk_conv_product(c->windows.out), m = backward ? from : to, k = backward ? to : from;
  Single s = {.conv = c,
              .gemm = {.dtype = c->dtype,
                       .trans_a = backward,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = tli_float(1),
                       .beta = tli_float(bias ? 1 : 0),
                       .lda = from,
                       .ldb = n,
                       .ldc = n},
              .size = c->dtype == TL_F64 ? 8 : 4,
              .blocks = tlk_ceil_div(m, ROWS),
              .in = in,
              .weight = weight,
              .bias = bias,
              .out = out};
  int64_t work = tlk_min(ROWS, m) * n * k;
  tli_parallel_for(c->batch * c->groups * s.blocks, 4 * TLK_GRAIN / work + 1, sum_blocks, &s);
  return true;
}

/* The sum over the images of (windows' gradients) x (images turned round). */
static void weight_blocks(void *context, int64_t begin, int64_t end) {
  const Single *s = context;
  int64_t groups = s->conv->groups, m = s->gemm.m, n = s->gemm.n, k = s->gemm.k;
  for (int64_t i = begin; i < end; i++) {
    tlk_Gemm g = s->gemm;
    int64_t group = i / s->blocks, row = i % s->blocks * ROWS, channel = group * m + row;
    g.m = tlk_min(ROWS, m - row);
    for (int64_t image = 0; image < s->conv->batch; image++) {
      g.beta = tli_float(image > 0);
      tlk_panel_gemm(&g, s->weight + (image * groups * m + channel) * k * s->size,
                     s->in + (image * groups + group) * n * k * s->size,
                     s->out + channel * n * s->size);
    }
  }
}

bool tlk_conv_single_weight(const tlk_Conv *c, void *grad_weight, const void *in,
                            const void *grad_out) {
  int64_t m = c->channels_out / c->groups, n = c->channels_in / c->groups;
  int64_t k = tlk_conv_product(c->windows.out);
  Single s = {.conv = c,
              .gemm = {.dtype = c->dtype,
                       .trans_b = true,
                       .m = m,
                       .n = n,
                       .k = k,
                       .alpha = tli_float(1),
                       .lda = k,
                       .ldb = k,
                       .ldc = n},
              .size = c->dtype == TL_F64 ? 8 : 4,
              .blocks = tlk_ceil_div(m, ROWS),
              .in = in,
              .weight = grad_out,
              .out = grad_weight};
  int64_t work = tlk_min(ROWS, m) * n * k * c->batch;
  tli_parallel_for(c->groups * s.blocks, 4 * TLK_GRAIN / work + 1, weight_blocks, &s);
  return true;
}
