/*
** weight_direct.c - the gradient of a convolution's weight for few channels, as dot products of the
** gradients of the results with shifted rows of the scratch image. The images of each group are
** copied to scratch memory in chunks. One thread computes each element, in an order of terms that
** depends on the sizes alone.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/plan.h"

/* A dot product runs over about this number of positions, and is then added to the result. */
#define DOT_POSITIONS 1024
/* The number of bytes of images that are copied to scratch memory at a time. NEAR_BYTES is for many
** groups; images of that size stay in the second-level cache. */
#define CHUNK_BYTES ((int64_t)8 << 20)
#define NEAR_BYTES ((int64_t)256 << 10)
#define MANY_GROUPS 8

static int64_t round_up(int64_t n, int64_t to) { return tlk_ceil_div(n, to) * to; }

typedef struct Dots {
  const tlk_Conv *conv;
  const tlk_ConvLoops *loops;
  int64_t size;
  tlk_ConvLayout layout;
  /* sizes of one group: number of input channels, of rows (output channels), and of taps (kernel
  ** elements) */
  int64_t channels, rows, taps;
  int64_t height, width; /* number of rows and number of taps of a tile */
  int64_t row_tiles, tap_tiles;
  int64_t positions; /* number of positions, rounded up to whole vectors */
  /* distances in elements between neighbouring images of a group in scratch memory, for the images
  ** and for the gradients */
  int64_t in_step, grad_step;
  int64_t *offsets; /* array (tap_tiles * width): offset of each tap (kernel element) in the scratch
                    ** image */
  const char *in, *grad;
  char *in_scratch, *grad_scratch;
  char *out;
  /* the current chunk of images: its group, its first image, and its number of images */
  int64_t group, first, images;
  atomic_bool *failed;
} Dots;

static void dots_layout(Dots *d) {
  const tlk_Conv *c = d->conv;
  const tlk_Windows *w = &c->windows;
  d->layout = tlk_conv_input_layout(w);
  d->channels = c->channels_in / c->groups;
  d->rows = c->channels_out / c->groups;
  d->taps = d->channels * tlk_conv_product(w->kernel);
  d->height = d->rows == 1 ? 1 : d->loops->dot_rows;
  d->width = d->rows == 1 ? d->loops->line_taps : d->loops->dot_taps;
  d->row_tiles = tlk_ceil_div(d->rows, d->height);
  d->tap_tiles = tlk_ceil_div(d->taps, d->width);
  /* positions are counted through rows whose length is the pitch of the image */
  int64_t last = (w->out[0] - 1) * d->layout.pitch[1] + w->out[1] - 1;
  d->positions = round_up(last * d->layout.pitch[2] + w->out[2], d->loops->lanes);
  d->in_step = round_up(d->channels * d->layout.channel + d->loops->lanes, 16);
  d->grad_step = d->row_tiles * d->height * d->positions;
}

/* Computes the offset of each tap (kernel element), tile by tile. The last tile is filled up with
** copies of the last tap, whose sums are discarded. */
static void fill_offsets(Dots *d) {
  const tlk_Windows *w = &d->conv->windows;
  int64_t kernel = tlk_conv_product(w->kernel);
  for (int64_t t = 0; t < d->tap_tiles * d->width; t++) {
    int64_t own = tlk_min(t, d->taps - 1), k = own % kernel;
    int64_t tap[] = {k / (w->kernel[1] * w->kernel[2]), k / w->kernel[2] % w->kernel[1],
                     k % w->kernel[2]};
    d->offsets[t] = own / kernel * d->layout.channel + tlk_conv_offset(&d->layout, w, tap);
  }
}

/* Copies the gradients of one image's results to rows as long as the rows of the scratch image. dst
** must already be zero between rows. */
static void copy_gradient(const Dots *d, char *dst, const char *src) {
  const tlk_Windows *w = &d->conv->windows;
  const int64_t *pitch = d->layout.pitch;
  for (int64_t o = 0; o < d->rows; o++) {
    char *channel = dst + o * d->positions * d->size;
    for (int64_t a = 0; a < w->out[0]; a++)
      for (int64_t b = 0; b < w->out[1]; b++) {
        memcpy(channel + (a * pitch[1] + b) * pitch[2] * d->size, src,
               (size_t)(w->out[2] * d->size));
        src += w->out[2] * d->size;
      }
  }
}

static void prepare_images(void *context, int64_t begin, int64_t end) {
  const Dots *d = context;
  const tlk_Conv *c = d->conv;
  int64_t in = d->channels * tlk_conv_product(c->windows.in) * d->size;
  int64_t out = d->rows * tlk_conv_product(c->windows.out) * d->size;
  for (int64_t i = begin; i < end; i++) {
    int64_t plane = (d->first + i) * c->groups + d->group;
    tlk_conv_copy(&d->layout, d->channels, d->in_scratch + i * d->in_step * d->size,
                  d->in + plane * in, d->size);
    copy_gradient(d, d->grad_scratch + i * d->grad_step * d->size, d->grad + plane * out);
  }
}

/* Adds the sums of a tile to the weight's gradient. */
static void add_tile(const Dots *d, int64_t row, int64_t tap, const double *sums) {
  int64_t width = d->width;
  for (int64_t r = 0; r < d->height && row + r < d->rows; r++)
    for (int64_t t = 0; t < width && tap + t < d->taps; t++) {
      int64_t at = (d->group * d->rows + row + r) * d->taps + tap + t;
      if (d->size == 4)
        ((float *)(void *)d->out)[at] += ((const float *)(const void *)sums)[r * width + t];
      else
        ((double *)(void *)d->out)[at] += sums[r * width + t];
    }
}

/* Computes some rows of tiles. Short images are processed together, so that a dot product has about
** DOT_POSITIONS positions. */
static void dot_tiles(void *context, int64_t begin, int64_t end) {
  const Dots *d = context;
  const tlk_ConvLoops *f = d->loops;
  int64_t span = tlk_min(d->positions, DOT_POSITIONS);
  int64_t together = tlk_max(1, DOT_POSITIONS / span);
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i * d->height;
    const char *grad = d->grad_scratch + row * d->positions * d->size;
    if (tli_interrupted()) *d->failed = true;
    if (*d->failed) return;
    for (int64_t image = 0; image < d->images; image += together)
      for (int64_t at = 0; at < d->positions; at += span)
        for (int64_t tile = 0; tile < d->tap_tiles; tile++) {
          double sums[64] = {0}; /* room for the sums of a tile, as floats or as doubles */
          int64_t images = tlk_min(together, d->images - image);
          int64_t n = tlk_min(span, d->positions - at);
          const int64_t *offsets = d->offsets + tile * d->width;
          const char *x = d->in_scratch + (image * d->in_step + at) * d->size;
          const char *g = grad + (image * d->grad_step + at) * d->size;
          if (d->height == 1)
            f->dots_line(images, n, offsets, x, d->in_step, g, d->grad_step, sums);
          else
            f->dots(images, n, offsets, x, d->in_step, g, d->grad_step, d->positions, sums);
          add_tile(d, row, tile * d->width, sums);
        }
  }
}

static void run_groups(void *context, int64_t begin, int64_t end) {
  Dots d = *(const Dots *)context;
  const tlk_Conv *c = d.conv;
  int64_t each = (d.in_step + d.grad_step) * d.size;
  int64_t most = (c->groups < MANY_GROUPS ? CHUNK_BYTES : NEAR_BYTES) / each;
  int64_t chunk = tlk_max(1, tlk_min(c->batch, most)), work = d.height * d.taps * d.positions;
  size_t bytes = (size_t)(chunk * each);
  d.in_scratch = tli_alloc(bytes);
  if (d.in_scratch == NULL) {
    *d.failed = true;
    return;
  }
  memset(d.in_scratch, 0, bytes);
  d.grad_scratch = d.in_scratch + chunk * d.in_step * d.size;
  for (d.group = begin; d.group < end; d.group++)
    for (d.first = 0; d.first < c->batch; d.first += chunk) {
      d.images = tlk_min(chunk, c->batch - d.first);
      tli_parallel_for(d.images, TLK_GRAIN / (each / d.size) + 1, prepare_images, &d);
      tli_parallel_for(d.row_tiles, 4 * TLK_GRAIN / (work * chunk) + 1, dot_tiles, &d);
    }
  tli_free(d.in_scratch, bytes);
}

bool tlk_conv_weight_direct(const tlk_Conv *conv, void *grad_weight, const void *in,
                            const void *grad_out) {
  bool wide = conv->dtype == TL_F64;
  atomic_bool failed = false;
  Dots d = {.conv = conv,
            .loops = tlk_isa()->conv[wide],
            .size = wide ? 8 : 4,
            .in = in,
            .grad = grad_out,
            .out = grad_weight,
            .failed = &failed};
  dots_layout(&d);
  memset(grad_weight, 0, (size_t)(conv->channels_out * d.taps * d.size));
  size_t bytes = (size_t)(d.tap_tiles * d.width) * sizeof *d.offsets;
  d.offsets = tli_alloc(bytes);
  if (d.offsets == NULL) return false;
  fill_offsets(&d);
  int64_t work = d.rows * d.taps * d.positions * conv->batch;
  if (conv->groups < MANY_GROUPS)
    run_groups(&d, 0, conv->groups);
  else
    tli_parallel_for(conv->groups, 4 * TLK_GRAIN / work + 1, run_groups, &d);
  tli_free(d.offsets, bytes);
  return !failed;
}
