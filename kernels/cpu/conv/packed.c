/*
** packed.c - convolutions in float32 with packed weights and channels-last images, as programs call
** them. The positions of all images are counted in one sequence and cut into blocks. For each
** block, a table holds pointers to the image's channels under each element of the kernel
** (packed.h). The order in which a result's terms are summed depends on the sizes alone.
*/
#include "kernels/cpu/conv/packed.h"

#include <math.h>
#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/padded_image.h"
#include "kernels/cpu/cpu.h"

#define ROWS TLK_PACKED_ROWS
#define WIDTH TLK_PACKED_WIDTH
/* The number of terms that are summed in one pass over a block. A panel's weights for this number
** of terms stay in the first-level cache. */
#define DEPTH 128
/* The largest number of positions in a block. The second number is for weights that do not fit into
** the second-level cache; it is larger because each block reads all weights. */
#define BLOCK 96
#define LARGE_BLOCK 288
#define LARGE_BYTES (1 << 20)

typedef struct Run {
  const struct tlk_conv_packed *call;
  const tlk_PackedLoops *loops;
  int64_t positions, elements, block;
  /* whether the window of each output position is the one pixel at the same position */
  bool single;
  /* number of panels, and number of parts into which the panels of a block are divided for several
  ** threads */
  int64_t panels, parts;
  atomic_bool failed;
} Run;

/* The scratch memory of one task. */
typedef struct Scratch {
  const float **table; /* array (tiles, elements, ROWS) of pointers to the channels of pixels */
  /* array (elements) of the offset of each kernel element from the first one */
  int64_t *offsets;
  float *sums; /* array (tiles, ROWS, WIDTH) of partial sums */
  /* array (channels) of the values that a pixel in the padding has in each channel */
  float *outside;
} Scratch;

/* Returns whether the window of each output position is the one pixel at the same position of the
** image. */
static bool is_single(const tlk_Windows *w) {
  bool single = true;
  for (int d = 0; d < 3; d++)
    single = single && w->kernel[d] == 1 && w->stride[d] == 1 && w->padding[d] == 0;
  return single;
}

/* Fills in the table of pointers (packed.h) for positions [begin, begin + n). */
static void fill_table(const Run *run, int64_t begin, int64_t n, Scratch *s) {
  const tlk_Conv *c = &run->call->conv;
  const tlk_Windows *w = &c->windows;
  int64_t height = w->in[1], width = w->in[2], channels = c->channels_in, row = width * channels;
  int64_t x = begin % w->out[2], y = begin / w->out[2] % w->out[1];
  const float *image = (const float *)run->call->in + begin / w->out[2] / w->out[1] * height * row;
  int64_t down = (w->kernel[1] - 1) * w->dilation[1], across = (w->kernel[2] - 1) * w->dilation[2];
  for (int64_t k = 0; run->single && k < n; k++)
    s->table[k] = (const float *)run->call->in + (begin + k) * channels;
  for (int64_t k = 0; !run->single && k < n; k++) {
    const float **to = s->table + k / ROWS * run->elements * ROWS + k % ROWS;
    int64_t top = y * w->stride[1] - w->padding[1], left = x * w->stride[2] - w->padding[2];
    const float *at = image + top * row + left * channels;
    if (top >= 0 && top + down < height && left >= 0 && left + across < width) {
      for (int64_t e = 0; e < run->elements; e++) to[e * ROWS] = at + s->offsets[e];
    } else {
      for (int64_t i = 0, e = 0; i < w->kernel[1]; i++)
        for (int64_t j = 0; j < w->kernel[2]; j++, e++) {
          int64_t iy = top + i * w->dilation[1], ix = left + j * w->dilation[2];
          bool inside = iy >= 0 && iy < height && ix >= 0 && ix < width;
          to[e * ROWS] = inside ? image + iy * row + ix * channels : s->outside;
        }
    }
    if (++x < w->out[2]) continue;
    x = 0;
    if (++y < w->out[1]) continue;
    y = 0;
    image += height * row;
  }
  /* the loops need a whole tile, so the last tile is filled up by repeating its last position */
  for (int64_t k = n; k % ROWS != 0; k++) {
    const float **to = s->table + k / ROWS * run->elements * ROWS + k % ROWS;
    for (int64_t e = 0; e < run->elements; e++) to[e * ROWS] = to[e * ROWS - 1];
  }
}

/* Computes columns [col, col + cols) of n positions from position `begin` on. `weight` points to
** the panel of these columns, whose rows are `pitch` elements apart. */
static void run_panel(const Run *run, int64_t begin, int64_t n, const Scratch *s,
                      const float *weight, int64_t pitch, int64_t col) {
  const struct tlk_conv_packed *call = run->call;
  int64_t channels = call->conv.channels_in, step = call->conv.channels_out;
  int64_t pieces = tlk_ceil_div(channels, DEPTH), most = tlk_max(1, DEPTH / channels);
  for (int64_t piece = 0, e = 0; e < run->elements;) {
    int64_t from = channels * piece / pieces, to = channels * (piece + 1) / pieces;
    tlk_PackedTile t = {.elements = pieces > 1 ? 1 : tlk_min(most, run->elements - e),
                        .from = from,
                        .terms = to - from,
                        .weight = weight,
                        .pitch = pitch,
                        .cols = tlk_min(pitch, step - col),
                        .add = e + piece > 0,
                        .bias = (const float *)call->bias + col,
                        .step = step,
                        .low = call->low,
                        .high = call->high};
    t.last = e + t.elements == run->elements && piece == pieces - 1;
    for (int64_t k = 0; k < n; k += ROWS) {
      int64_t at = (begin + k) * step + col;
      t.rows = (int)tlk_min(ROWS, n - k);
      t.in = s->table + (k / ROWS * run->elements + e) * ROWS;
      t.sums = s->sums + (t.add || !t.last ? k * WIDTH : 0);
      t.out = (float *)call->out + at;
      t.other = call->other ? (const float *)call->other + at : NULL;
      run->loops->tile(&t);
    }
    weight += t.elements * t.terms * pitch;
    piece = (piece + 1) % pieces;
    if (piece == 0) e += t.elements;
  }
}

static void run_channels(const Run *run, int64_t begin, int64_t n, const Scratch *s) {
  const struct tlk_conv_packed *call = run->call;
  int64_t step = call->conv.channels_out;
  for (int64_t k = 0; k < n; k += ROWS) {
    int64_t at = (begin + k) * step;
    (call->weight ? run->loops->channels : run->loops->largest)(
        &(tlk_PackedTile){.rows = (int)tlk_min(ROWS, n - k),
                          .in = s->table + k * run->elements,
                          .elements = run->elements,
                          .weight = call->weight,
                          .pitch = step,
                          .cols = step,
                          .bias = call->bias,
                          .other = call->other ? (const float *)call->other + at : NULL,
                          .out = (float *)call->out + at,
                          .step = step,
                          .low = call->low,
                          .high = call->high});
  }
}

/* Computes the panels of one part for a block of positions. */
static void run_block(const Run *run, int64_t begin, int64_t n, int64_t part, Scratch *s) {
  const tlk_Conv *c = &run->call->conv;
  fill_table(run, begin, n, s);
  if (c->groups > 1) {
    run_channels(run, begin, n, s);
    return;
  }
  /* the widths of panels differ by at most one vector; the wider panels come first */
  int64_t vectors = tlk_ceil_div(c->channels_out, TLK_PACKED_LANES);
  int64_t each = vectors / run->panels, more = vectors % run->panels;
  for (int64_t i = run->panels * part / run->parts; i < run->panels * (part + 1) / run->parts;
       i++) {
    int64_t col = (i * each + tlk_min(i, more)) * TLK_PACKED_LANES;
    int64_t pitch = (each + (i < more)) * TLK_PACKED_LANES;
    const float *weight = (const float *)run->call->weight + col * run->elements * c->channels_in;
    run_panel(run, begin, n, s, weight, pitch, col);
  }
}

static void fill_scratch(const Run *run, char *memory, int64_t rows, Scratch *s) {
  const tlk_Conv *c = &run->call->conv;
  const tlk_Windows *w = &c->windows;
  s->table = (const float **)(void *)memory;
  s->offsets = (int64_t *)(void *)(s->table + rows * run->elements);
  s->sums = (float *)(void *)(s->offsets + run->elements);
  s->outside = s->sums + rows * WIDTH;
  for (int64_t e = 0; e < run->elements; e++) {
    int64_t i = e / w->kernel[2] * w->dilation[1], j = e % w->kernel[2] * w->dilation[2];
    s->offsets[e] = (i * w->in[2] + j) * c->channels_in;
  }
  for (int64_t k = 0; k < c->channels_in; k++) s->outside[k] = run->call->weight ? 0 : -INFINITY;
}

static void run_blocks(void *context, int64_t first, int64_t last) {
  Run *run = context;
  int64_t rows = run->block, pointers = (rows + 1) * run->elements;
  size_t bytes =
      (size_t)pointers * 8 + (size_t)(rows * WIDTH + run->call->conv.channels_in) * sizeof(float);
  char *memory = tli_alloc(bytes);
  if (memory == NULL) {
    run->failed = true;
    return;
  }
  Scratch s;
  fill_scratch(run, memory, rows, &s);
  for (int64_t i = first; i < last && !run->failed; i++) {
    int64_t begin = i / run->parts * run->block;
    if (tli_interrupted()) run->failed = true;
    run_block(run, begin, tlk_min(run->block, run->positions - begin), i % run->parts, &s);
  }
  tli_free(memory, bytes);
}

bool tlk_conv_packed(const struct tlk_conv_packed *call) {
  const tlk_Conv *c = &call->conv;
  Run run = {.call = call,
             .loops = tlk_isa()->packed,
             .positions = c->batch * tlk_conv_product(c->windows.out),
             .elements = tlk_conv_product(c->windows.kernel),
             .single = is_single(&c->windows),
             .panels = c->groups > 1 ? 1 : tlk_ceil_div(c->channels_out, WIDTH)};
  int64_t terms = run.elements * (c->groups > 1 ? 1 : c->channels_in);
  run.block = terms * c->channels_out * 4 > LARGE_BYTES ? LARGE_BLOCK : BLOCK;
  int64_t blocks = tlk_ceil_div(run.positions, run.block), threads = tl_get_num_threads();
  run.block = tlk_ceil_div(tlk_ceil_div(run.positions, blocks), ROWS) * ROWS;
  blocks = tlk_ceil_div(run.positions, run.block);
  run.parts = blocks < threads ? tlk_min(run.panels, threads) : 1;
  int64_t work = run.block * terms * c->channels_out / run.parts;
  tli_parallel_for(blocks * run.parts, tlk_max(1, 4 * TLK_GRAIN / tlk_max(1, work)), run_blocks,
                   &run);
  return tli_go_on() && !run.failed;
}
