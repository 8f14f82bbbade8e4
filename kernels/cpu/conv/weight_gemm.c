/*
** weight_gemm.c - the gradient of a convolution's weight for many channels: a matrix product
** (tile.h) that sums over the positions of all images. The rows of one factor are the elements that
** a tap (kernel element) reads. The other factor is the gradients of the results, transposed to
** (position, channel). Images are copied to scratch memory in chunks.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/plan.h"

/* The number of bytes of images that are copied to scratch memory at a time. */
#define CHUNK_BYTES ((int64_t)8 << 20)
/* The number of tiles that a thread processes at a time. A tile consists of a few taps, which are
** elements of the convolution's kernel. */
#define TILES_TOGETHER 16

typedef struct Outer {
  const tlk_Conv *conv;
  const tlk_TileLoops *loops;
  int64_t size; /* size of an element in bytes */
  tlk_ConvLayout layout;
  /* sizes of one group: number of input channels, of rows (output channels), and of taps (kernel
  ** elements) */
  int64_t channels, rows, taps;
  int64_t tiles, height; /* number of tiles of a group's rows, and number of rows in a tile */
  int64_t blocks, block; /* number of blocks of taps, and number of taps in a block */
  int64_t positions;     /* number of positions in an image */
  int64_t chunk;         /* number of images that are processed together as a chunk */
  /* array (chunk, positions) of the offset of each window in the scratch images; owned */
  int64_t *windows;
  int64_t *offsets; /* array (taps): offset of each tap (kernel element) from its window; owned */
  char *images;     /* array (chunk, channels_in, ...) of images in scratch memory; owned */
  /* array (groups, tiles, chunk, positions, height) of packed gradients; owned */
  char *panels;
  char *sums; /* array (groups, tiles, taps, height) of sums; owned */
  const char *in, *grad;
  char *out;
  int64_t first, count; /* first image of the current chunk, and number of images in it */
} Outer;

static void outer_sizes(Outer *o) {
  const tlk_Conv *c = o->conv;
  o->layout = tlk_conv_input_layout(&c->windows);
  o->channels = c->channels_in / c->groups;
  o->rows = c->channels_out / c->groups;
  o->taps = o->channels * tlk_conv_product(c->windows.kernel);
  o->height = tlk_tile_width(o->loops, o->rows);
  o->tiles = tlk_ceil_div(o->rows, o->height);
  o->block = TILES_TOGETHER * o->loops->rows;
  o->blocks = tlk_ceil_div(o->taps, o->block);
  o->positions = tlk_conv_product(c->windows.out);
  int64_t each =
      c->channels_in * o->layout.channel + c->groups * o->tiles * o->height * o->positions;
  o->chunk = tlk_max(1, tlk_min(c->batch, CHUNK_BYTES / (each * o->size)));
}

static size_t images_bytes(const Outer *o) {
  return (size_t)(o->chunk * o->conv->channels_in * o->layout.channel * o->size);
}

static size_t panels_bytes(const Outer *o) {
  return (size_t)(o->conv->groups * o->tiles * o->chunk * o->positions * o->height * o->size);
}

static size_t sums_bytes(const Outer *o) {
  return (size_t)(o->conv->groups * o->tiles * o->taps * o->height * o->size);
}

static bool outer_alloc(Outer *o) {
  o->windows = tli_alloc((size_t)(o->chunk * o->positions) * sizeof *o->windows);
  o->offsets = tli_alloc((size_t)o->taps * sizeof *o->offsets);
  o->images = tli_alloc(images_bytes(o));
  o->panels = tli_alloc(panels_bytes(o));
  o->sums = tli_alloc(sums_bytes(o));
  if (o->panels && o->rows % o->height != 0) memset(o->panels, 0, panels_bytes(o));
  return o->windows && o->offsets && o->images && o->panels && o->sums;
}

static void outer_free(Outer *o) {
  tli_free(o->windows, (size_t)(o->chunk * o->positions) * sizeof *o->windows);
  tli_free(o->offsets, (size_t)o->taps * sizeof *o->offsets);
  tli_free(o->images, images_bytes(o));
  tli_free(o->panels, panels_bytes(o));
  tli_free(o->sums, sums_bytes(o));
}

static void fill_offsets(Outer *o) {
  const tlk_Windows *w = &o->conv->windows;
  const int64_t *pitch = o->layout.pitch;
  int64_t image = o->conv->channels_in * o->layout.channel, tap[3] = {0, 0, 0}, k = 0;
  int64_t kernel = tlk_conv_product(w->kernel), at[3] = {0, 0, 0};
  do {
    int64_t offset = tlk_conv_offset(&o->layout, w, tap);
    for (int64_t c = 0; c < o->channels; c++)
      o->offsets[c * kernel + k] = c * o->layout.channel + offset;
    k++;
  } while (tlk_conv_next_tap(w->kernel, tap));
  for (int64_t i = 0; i < o->chunk * o->positions; i++) {
    o->windows[i] = i / o->positions * image + (at[0] * pitch[1] + at[1]) * pitch[2] + at[2];
    tlk_conv_next_tap(w->out, at);
  }
}

static void prepare_images(void *context, int64_t begin, int64_t end) {
  const Outer *o = context;
  const tlk_Conv *c = o->conv;
  int64_t size = o->size, plane = o->positions * size, row = o->height * size;
  int64_t in = c->channels_in * tlk_conv_product(c->windows.in) * size;
  for (int64_t i = begin; i < end; i++) {
    int64_t image = c->channels_in * o->layout.channel * size;
    if (o->first == 0) memset(o->images + i * image, 0, (size_t)image);
    tlk_conv_copy(&o->layout, c->channels_in, o->images + i * image, o->in + (o->first + i) * in,
                  size);
    const char *grad = o->grad + (o->first + i) * c->channels_out * plane;
    for (int64_t t = 0; t < c->groups * o->tiles; t++) {
      int64_t at = t % o->tiles * o->height, rows = tlk_min(o->height, o->rows - at);
      tlk_isa()->move[size == 8 ? 3 : 2](o->panels + (t * o->chunk + i) * o->positions * row, row,
                                         size, grad + (t / o->tiles * o->rows + at) * plane, size,
                                         plane, o->positions, rows);
    }
  }
}

/* Computes the sums for blocks [begin, end) of taps and for all tiles of rows. */
static void sum_blocks(void *context, int64_t begin, int64_t end) {
  const Outer *o = context;
  const tlk_TileLoops *f = o->loops;
  int64_t row = o->height * o->size, positions = o->count * o->positions;
  for (int64_t i = begin; i < end; i++) {
    int64_t tile = i / o->blocks, tap = i % o->blocks * o->block;
    int64_t last = tlk_min(tap + o->block, o->taps);
    const char *images = o->images + tile / o->tiles * o->channels * o->layout.channel * o->size;
    const char *panel = o->panels + tile * o->chunk * o->positions * row;
    for (int64_t at = 0; at < positions; at += TLK_TILE_DEPTH)
      for (int64_t t = tap; t < last; t += f->rows) {
        int rows = (int)tlk_min(f->rows, last - t);
        const void *in[TLK_TILE_ROWS];
        for (int r = 0; r < f->rows; r++)
          in[r] = images + o->offsets[t + tlk_min(r, rows - 1)] * o->size;
        f->tile(rows, (int)(o->height / f->lanes), tlk_min(TLK_TILE_DEPTH, positions - at),
                o->windows + at, in, panel + at * row, o->height, o->first + at > 0,
                o->sums + (tile * o->taps + t) * row, o->height);
      }
  }
}

/* Copies the sums of each tile to the weight's gradient, and transposes them from (tap, row) to
** (row, tap). */
static void store_tiles(void *context, int64_t begin, int64_t end) {
  const Outer *o = context;
  int64_t size = o->size, row = o->height * size;
  for (int64_t t = begin; t < end; t++) {
    int64_t at = t % o->tiles * o->height, rows = tlk_min(o->height, o->rows - at);
    tlk_isa()->move[size == 8 ? 3 : 2](o->out + (t / o->tiles * o->rows + at) * o->taps * size,
                                       size, o->taps * size, o->sums + t * o->taps * row, row, size,
                                       o->taps, rows);
  }
}

bool tlk_conv_weight_gemm(const tlk_Conv *conv, void *grad_weight, const void *in,
                          const void *grad_out) {
  bool wide = conv->dtype == TL_F64;
  Outer o = {.conv = conv,
             .loops = tlk_isa()->tile[wide],
             .size = wide ? 8 : 4,
             .in = in,
             .grad = grad_out,
             .out = grad_weight};
  outer_sizes(&o);
  bool ok = outer_alloc(&o);
  if (ok) fill_offsets(&o);
  int64_t tiles = conv->groups * o.tiles, work = o.block * o.height * o.positions;
  int64_t image = conv->channels_in * o.layout.channel + tiles * o.height * o.positions;
  for (; ok && o.first < conv->batch; o.first += o.chunk) {
    o.count = tlk_min(o.chunk, conv->batch - o.first);
    tli_parallel_for(o.count, TLK_GRAIN / image + 1, prepare_images, &o);
    ok = tli_parallel_try(tiles * o.blocks, 4 * TLK_GRAIN / (work * o.count) + 1, sum_blocks, &o);
  }
  if (ok) tli_parallel_for(tiles, TLK_GRAIN / (o.taps * o.height) + 1, store_tiles, &o);
  outer_free(&o);
  return ok;
}
