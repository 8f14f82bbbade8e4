/*
** conv1x1.c - convolution with 1 x 1 kernels and a stride of 1, computed as matrix products. The
** products use the tiles of tile.h, which read the images in place.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/plan.h"

/* The smallest number of channels and the smallest number of positions for these products. With
** fewer, the tiles of a product would be half empty. */
#define CHANNELS 6
#define POSITIONS 64
/* Number of rows of a product that a thread processes at a time. */
#define ROWS 96
/* The number of rows for each thread if the product writes more than it reads and its rows have at
** least LONG_ROW elements. A thread then writes all its rows at the same time. The number is small,
** because the processor prefetches only a limited number of memory streams. */
#define ROWS_WRITTEN 24
#define LONG_ROW 512

bool tlk_conv1x1(const tlk_Conv *c) {
  const tlk_Windows *w = &c->windows;
  for (int d = 0; d < 3; d++)
    if (w->kernel[d] != 1 || w->stride[d] != 1 || w->padding[d] != 0) return false;
  return c->channels_in / c->groups >= CHANNELS && c->channels_out / c->groups >= CHANNELS &&
         tlk_conv_product(w->out) >= POSITIONS;
}

/* The products (m, k) x (k, n) of all images and groups, computed in blocks of rows. */
typedef struct Single {
  const tlk_Conv *conv;
  tlk_Gemm gemm;
  /* size: bytes of an element; rows: number of rows in a block; blocks: number of blocks */
  int64_t size, rows, blocks;
  const char *in, *weight, *bias;
  char *out;
  atomic_bool failed; /* becomes true if the user interrupts the call */
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
  Single *s = context;
  int64_t groups = s->conv->groups, m = s->gemm.m, n = s->gemm.n, k = s->gemm.k;
  for (int64_t i = begin; i < end && !s->failed; i++) {
    tlk_Gemm g = s->gemm;
    int64_t image = i / s->blocks / groups, group = i / s->blocks % groups;
    int64_t row = i % s->blocks * s->rows, channel = group * m + row;
    g.m = tlk_min(s->rows, m - row);
    char *out = s->out + (image * groups * m + channel) * n * s->size;
    if (s->bias) fill_bias(s, channel, g.m, out);
    if (!tlk_tiled_gemm(&g, NULL, s->weight + (group * m * k + row * (g.trans_a ? 1 : k)) * s->size,
                        s->in + (image * groups + group) * k * n * s->size, out))
      s->failed = true;
  }
}

bool tlk_conv1x1_sums(const tlk_Conv *c, bool backward, void *out, const void *in,
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
              .rows = m > k && n >= LONG_ROW ? ROWS_WRITTEN : ROWS,
              .in = in,
              .weight = weight,
              .bias = bias,
              .out = out};
  s.blocks = tlk_ceil_div(m, s.rows);
  int64_t work = tlk_min(s.rows, m) * n * k;
  tli_parallel_for(c->batch * c->groups * s.blocks, 4 * TLK_GRAIN / work + 1, sum_blocks, &s);
  return !s.failed;
}

/* ---- the gradient of the weight ---- */

/* The largest number of rows of the weight's gradient that are computed with one packed panel of
** transposed images. */
#define WEIGHT_ROWS 168
/* The largest number of bytes in a row of a panel of transposed images. */
#define PANEL_BYTES 256

/* The gradient of a weight is the product of the images and the gradients of the outputs. The
** larger of these two arrays is read in place, as rows, and the smaller one is transposed.
** `flipped` means that the images are the rows, because they are larger. */
typedef struct Weight {
  const tlk_Conv *conv;
  const tlk_TileLoops *loops;
  bool flipped;
  /* sizes of the product of rows (m, k) and columns (n, k) for each image and group, and the size
  ** of an element in bytes */
  int64_t m, n, k, size;
  /* number of columns in a panel of transposed images, and number of panels */
  int64_t width, panels;
  int64_t blocks; /* number of blocks into which the rows are divided */
  const char *rows, *cols;
  char *out;
} Weight;

/* A part of one group's result, which is one task: rows [row, row + rows) and columns [col, col +
** cols). */
typedef struct Part {
  int64_t group, row, rows, col, cols;
} Part;

/* Computes the sums (rows, width) over one piece of an image, or adds the piece to `sums` if
** `add`. */
static void add_piece(const Weight *s, const Part *p, int64_t image, int64_t at, bool add,
                      char *panel, char *sums) {
  const tlk_TileLoops *f = s->loops;
  int64_t m = s->m, n = s->n, k = s->k, size = s->size, width = s->width * size;
  int64_t plane = image * s->conv->groups + p->group, terms = tlk_min(TLK_TILE_DEPTH, k - at);
  int64_t offsets[TLK_TILE_DEPTH];
  for (int64_t t = 0; t < terms; t++) offsets[t] = t;
  tlk_isa()->move[size == 8 ? 3 : 2](panel, width, size,
                                     s->cols + ((plane * n + p->col) * k + at) * size, size,
                                     k * size, terms, p->cols);
  const char *rows = s->rows + ((plane * m + p->row) * k + at) * size;
  for (int64_t r = 0; r < p->rows; r += f->rows) {
    int64_t count = tlk_min(f->rows, p->rows - r);
    const void *in[TLK_TILE_ROWS];
    for (int64_t i = 0; i < f->rows; i++) {
      in[i] = rows + (r + tlk_min(i, count - 1)) * k * size;
      /* prefetches the next piece of each row, because the hardware does not prefetch across
      ** rows */
      for (int64_t b = 0; b < terms * size && i < count; b += 64)
        __builtin_prefetch((const char *)in[i] + terms * size + b, 0, 2);
    }
    f->tile((int)count, (int)(s->width / f->lanes), terms, offsets, in, panel, s->width, add,
            sums + r * width, s->width);
  }
}

static void store_part(const Weight *s, const Part *p, const char *sums) {
  int64_t width = s->width * s->size, m = s->m, n = s->n;
  char *out = s->out + p->group * m * n * s->size;
  if (s->flipped)
    tlk_isa()->move[s->size == 8 ? 3 : 2](out + (p->col * m + p->row) * s->size, s->size,
                                          m * s->size, sums, width, s->size, p->rows, p->cols);
  for (int64_t r = 0; r < p->rows && !s->flipped; r++)
    memcpy(out + ((p->row + r) * n + p->col) * s->size, sums + r * width,
           (size_t)(p->cols * s->size));
}

static void weight_parts(void *context, int64_t begin, int64_t end) {
  const Weight *s = context;
  char panel[TLK_TILE_DEPTH * PANEL_BYTES] __attribute__((aligned(64)));
  char sums[WEIGHT_ROWS * PANEL_BYTES] __attribute__((aligned(64)));
  int64_t rows = tlk_ceil_div(s->m, s->blocks);
  for (int64_t i = begin; i < end; i++) {
    Part p = {.group = i / s->blocks / s->panels,
              .row = i % s->blocks * rows,
              .col = i / s->blocks % s->panels * s->width};
    p.rows = tlk_min(rows, s->m - p.row);
    p.cols = tlk_min(s->width, s->n - p.col);
    if (p.rows < 1 || p.cols < 1) continue;
    memset(panel, 0, sizeof panel);
    for (int64_t image = 0; image < s->conv->batch; image++)
      for (int64_t at = 0; at < s->k; at += TLK_TILE_DEPTH)
        add_piece(s, &p, image, at, image + at > 0, panel, sums);
    store_part(s, &p, sums);
  }
}

bool tlk_conv1x1_weight(const tlk_Conv *c, void *grad_weight, const void *in,
                        const void *grad_out) {
  int64_t from = c->channels_in / c->groups, to = c->channels_out / c->groups;
  Weight s = {.conv = c,
              .loops = tlk_isa()->tile[c->dtype == TL_F64],
              .flipped = from > to,
              .m = tlk_max(from, to),
              .n = tlk_min(from, to),
              .k = tlk_conv_product(c->windows.out),
              .size = c->dtype == TL_F64 ? 8 : 4,
              .rows = from > to ? in : grad_out,
              .cols = from > to ? grad_out : in,
              .out = grad_weight};
  s.width = tlk_tile_width(s.loops, s.n);
  s.panels = tlk_ceil_div(s.n, s.width);
  int64_t shares = tlk_ceil_div(tl_get_num_threads(), c->groups * s.panels);
  s.blocks = tlk_max(tlk_ceil_div(s.m, WEIGHT_ROWS), tlk_min(shares, s.m / s.loops->rows));
  int64_t work = s.m * s.width * s.k * c->batch / s.blocks;
  tli_parallel_for(c->groups * s.panels * s.blocks, 4 * TLK_GRAIN / (work + 1) + 1, weight_parts,
                   &s);
  return true;
}
