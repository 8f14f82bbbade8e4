/*
** scatter.c - the gradient of a convolution's input for images that are small beside the kernel and
** for few input channels. A plan (plan.h) is slow for them: it also sums the taps beyond the edges
** of the results, and with few channels its tiles are half empty. Here a matrix product multiplies
** the gradients at each position by all weights. Each product is then added to the input element
** that its tap reads. With few channels the products are stored tap by tap, otherwise position by
** position.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/plan.h"

/* The largest number of bytes of an image's products; they stay in the second-level cache. */
#define PRODUCTS_BYTES ((int64_t)512 << 10)
/* The smallest number of output channels, and the smallest number of products at a position. With
** fewer, tiles of the matrix product would be half empty. */
#define CHANNELS 16
#define PRODUCTS 16
/* If there are fewer input channels than this, products are stored tap by tap (kernel element by
** kernel element). */
#define FEW 5

typedef struct Scatter {
  const tlk_Conv *conv;
  bool few;     /* whether there are few input channels */
  int64_t size; /* size of an element in bytes */
  /* Sizes of one group of channels:
  ** `in` is the number of input channels;
  ** `out` is the number of output channels;
  ** `products` is the number of products at a position of the output;
  ** `positions` is the number of positions of the output;
  ** `elements` is the number of elements of an input channel. */
  int64_t in, out, products, positions, elements;
  const char *grad;
  /* array of weights: (groups, out, channel, tap) if `few`, else (groups, out, tap, channel) */
  const char *weight;
  char *to;
  atomic_bool failed; /* becomes true if memory is exhausted or the user interrupts the call */
} Scatter;

static Scatter scatter_of(const tlk_Conv *c) {
  const tlk_Windows *w = &c->windows;
  Scatter s = {.conv = c, .size = c->dtype == TL_F64 ? 8 : 4};
  s.in = c->channels_in / c->groups;
  s.out = c->channels_out / c->groups;
  s.few = s.in < FEW;
  s.products = s.in * tlk_conv_product(w->kernel);
  s.positions = tlk_conv_product(w->out);
  s.elements = tlk_conv_product(w->in);
  return s;
}

bool tlk_conv_scatters(const tlk_Conv *c) {
  const tlk_Windows *w = &c->windows;
  for (int d = 0; d < 3; d++)
    if (w->stride[d] != 1 || w->dilation[d] != 1) return false;
  Scatter s = scatter_of(c);
  return (s.few || 2 * s.elements > 3 * s.positions) && s.positions > 0 && s.products >= PRODUCTS &&
         s.out >= CHANNELS && s.positions * s.products * s.size <= PRODUCTS_BYTES;
}

#define ADD(s, type)                                           \
  static void add_##s(int64_t n, const void *from, void *to) { \
    const type *x = from;                                      \
    type *sums = to;                                           \
    for (int64_t i = 0; i < n; i++) sums[i] += x[i];           \
  }
ADD(f32, float)
ADD(f64, double)

static void add(const Scatter *s, int64_t n, const char *from, char *to) {
  (s->size == 4 ? add_f32 : add_f64)(n, from, to);
}

/* Adds the products of one tap (kernel element), an array (positions), to the elements of the
** gradient that the tap reads. */
static void add_tap(const Scatter *s, const int64_t tap[3], const char *products, char *sums) {
  const tlk_Windows *w = &s->conv->windows;
  int64_t first[3], last[3], corner[3];
  for (int d = 0; d < 3; d++) {
    corner[d] = tap[d] - w->padding[d];
    first[d] = tlk_max(0, -corner[d]);
    last[d] = tlk_min(w->out[d], w->in[d] - corner[d]);
  }
  for (int64_t i = first[0]; i < last[0]; i++)
    for (int64_t j = first[1]; j < last[1]; j++) {
      int64_t from = (i * w->out[1] + j) * w->out[2] + first[2];
      int64_t row = (corner[0] + i) * w->in[1] + corner[1] + j;
      add(s, last[2] - first[2], products + from * s->size,
          sums + (row * w->in[2] + corner[2] + first[2]) * s->size);
    }
}

/* Adds the products at one position, an array (taps, channels), to the gradient, an array
** (elements, channels). */
static void add_position(const Scatter *s, const int64_t at[3], const char *products, char *sums) {
  const tlk_Windows *w = &s->conv->windows;
  int64_t first[3], last[3], corner[3], pixel = s->in * s->size;
  for (int d = 0; d < 3; d++) {
    corner[d] = at[d] - w->padding[d];
    first[d] = tlk_max(0, -corner[d]);
    last[d] = tlk_min(w->kernel[d], w->in[d] - corner[d]);
  }
  for (int64_t i = first[0]; i < last[0]; i++)
    for (int64_t j = first[1]; j < last[1]; j++) {
      int64_t from = (i * w->kernel[1] + j) * w->kernel[2] + first[2];
      int64_t row = (corner[0] + i) * w->in[1] + corner[1] + j;
      add(s, (last[2] - first[2]) * s->in, products + from * pixel,
          sums + (row * w->in[2] + corner[2] + first[2]) * pixel);
    }
}

/* Computes the products of one group of one image: (products, positions) if there are few channels,
** else (positions, products). Returns false if the user interrupted the call. */
static bool multiply(const Scatter *s, int64_t image, char *products) {
  const char *grad = s->grad + image * s->out * s->positions * s->size;
  const char *weight = s->weight + image % s->conv->groups * s->out * s->products * s->size;
  tlk_Gemm g = {.dtype = s->conv->dtype,
                .trans_a = true,
                .m = s->few ? s->products : s->positions,
                .n = s->few ? s->positions : s->products,
                .k = s->out,
                .alpha = tli_float(1),
                .beta = tli_float(0)};
  g.lda = g.m, g.ldb = g.n, g.ldc = g.n;
  return tlk_tiled_gemm(&g, NULL, s->few ? weight : grad, s->few ? grad : weight, products);
}

/* Computes the gradient of one group of one image. */
static bool run_image(const Scatter *s, int64_t image, char *products, char *sums) {
  const tlk_Windows *w = &s->conv->windows;
  int64_t size = s->size, at[3] = {0, 0, 0};
  char *to = s->to + image * s->in * s->elements * size;
  if (!multiply(s, image, products)) return false;
  if (s->few) sums = to;
  memset(sums, 0, (size_t)(s->elements * s->in * size));
  if (s->few) {
    int64_t taps = s->products / s->in;
    for (int64_t k = 0; k < s->products; k++, tlk_conv_next_tap(w->kernel, at))
      add_tap(s, at, products + k * s->positions * size, sums + k / taps * s->elements * size);
    return true;
  }
  for (int64_t p = 0; p < s->positions; p++, tlk_conv_next_tap(w->out, at))
    add_position(s, at, products + p * s->products * size, sums);
  tlk_isa()->move[size == 8 ? 3 : 2](to, size, s->elements * size, sums, s->in * size, size,
                                     s->elements, s->in);
  return true;
}

static void run_images(void *context, int64_t begin, int64_t end) {
  Scatter *s = context;
  int64_t products = s->positions * s->products, sums = s->few ? 0 : s->elements * s->in;
  size_t bytes = (size_t)((products + sums) * s->size);
  char *scratch = tli_alloc(bytes);
  if (scratch == NULL) s->failed = true;
  for (int64_t i = begin; i < end && !s->failed; i++)
    if (!run_image(s, i, scratch, scratch + products * s->size)) s->failed = true;
  tli_free(scratch, bytes);
}

/* Reorders the weights of all output channels from (channel, tap) to (tap, channel), where a tap is
** a kernel element. */
static void turn_weights(const Scatter *s, const char *from, char *to) {
  int64_t size = s->size, taps = s->products / s->in, row = s->products * size;
  for (int64_t o = 0; o < s->conv->channels_out; o++)
    tlk_isa()->move[size == 8 ? 3 : 2](to + o * row, size, s->in * size, from + o * row,
                                       taps * size, size, s->in, taps);
}

bool tlk_conv_scatter(const tlk_Conv *c, void *grad_in, const void *grad_out, const void *weight) {
  Scatter s = scatter_of(c);
  s.grad = grad_out, s.weight = weight, s.to = grad_in;
  size_t bytes = (size_t)(c->channels_out * s.products * s.size);
  char *turned = s.few ? NULL : tli_alloc(bytes);
  if (!s.few) {
    if (turned == NULL) return false;
    turn_weights(&s, weight, turned);
    s.weight = turned;
  }
  int64_t work = s.positions * s.products * s.out;
  tli_parallel_for(c->batch * c->groups, 4 * TLK_GRAIN / (work + 1) + 1, run_images, &s);
  tli_free(turned, bytes);
  return !s.failed;
}
