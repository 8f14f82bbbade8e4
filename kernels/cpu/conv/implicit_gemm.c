/*
** implicit_gemm.c - computes the convolution that a plan (plan.h) describes, with SIMD vectors of
** channels. The rows of a register tile (tile.h) may be any positions of any images, so tiles are
** full even if images are small. The sums (position, channel) are transposed when they are stored.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/plan.h"

/* BLOCK and NEAR_BLOCK are the largest numbers of positions whose sums are computed together. A
** block of NEAR_BLOCK positions stays in the first-level cache together with a piece of the
** weights. Since each block reads all weights, blocks of BLOCK positions are faster if the weights
** do not fit into the near caches. Blocks are rounded to whole tiles. */
#define BLOCK 192
#define NEAR_BLOCK 96
/* The largest number of positions for which images are copied to scratch memory together. */
#define POSITIONS 512
/* If contiguous results form runs of at least this mean length, each run is copied by a call of its
** own. Otherwise the sums of the whole block are transposed first. */
#define LONG_RUN 24
/* If each image has few positions, about this number of bytes of images is prepared together.
** Weights of more bytes are considered too large for the second-level cache. */
#define IMAGES_BYTES ((int64_t)2 << 20)

typedef struct Panels {
  tlk_ConvPlan *plan;
  int64_t together; /* number of images in a task */
  bool in_place;    /* whether images are read in place */
  /* whether threads divide the weights' tiles among themselves, because the weights are larger than
  ** the images */
  bool by_tiles;
  int64_t image; /* number of elements from one image to the next */
} Panels;

/* A block of positions, whose sums are computed together. */
typedef struct Block {
  int64_t n, runs;
  int64_t from[BLOCK]; /* offset of each position in the scratch images */
  /* for each run of positions that are contiguous in the result: its offset in the result, and its
  ** length */
  int64_t to[BLOCK], length[BLOCK];
} Block;

typedef struct Scratch {
  char *copies, *sums, *turned;
  const char *images;
  Block block;
} Scratch;

static int64_t round_up(int64_t n, int64_t to) { return tlk_ceil_div(n, to) * to; }

/* Fills in positions [begin, begin + n) of a job. The positions of all images, from image `first`
** on, are counted in one sequence. */
static void fill_block(const Panels *l, const tlk_ConvJob *j, int64_t first, int64_t begin,
                       int64_t n, Block *b) {
  const tlk_ConvPlan *p = l->plan;
  int64_t results = p->conv->groups * p->rows * p->result, end = -1;
  b->n = n;
  b->runs = 0;
  for (int64_t k = 0; k < n;) { /* each iteration handles one row of positions */
    int64_t row = (begin + k) / j->count[2], at = (begin + k) % j->count[2];
    int64_t plane = row / j->count[1], y = row % j->count[1];
    int64_t image = plane / j->count[0], x = plane % j->count[0];
    int64_t from = image * l->image + (x * j->pitch[1] + y) * j->pitch[2];
    int64_t to = (first + image) * results + j->at + x * j->steps[0] + y * j->steps[1];
    for (; k < n && at < j->count[2]; k++, at++) {
      int64_t place = to + at * j->steps[2];
      b->from[k] = from + at;
      if (place == end) {
        b->length[b->runs - 1]++;
      } else {
        b->to[b->runs] = place;
        b->length[b->runs++] = 1;
      }
      end = place + 1;
    }
  }
}

/* Computes the sums (positions, height) of a block of positions for one tile of channels. */
static void block_sums(const tlk_ConvPlan *p, const tlk_ConvJob *j, int64_t group, int64_t tile,
                       const Scratch *s) {
  const tlk_TileLoops *f = p->tile;
  const Block *b = &s->block;
  int64_t row = p->height * p->size, channel = group * p->rows + tile * p->height;
  const char *weights = (const char *)j->weights + (group * p->tiles + tile) * j->taps * row;
  bool filled = p->bias || j->taps == 0;
  if (filled) memset(s->sums, 0, (size_t)(b->n * row));
  for (int64_t k = 0; p->bias && k < b->n; k++)
    memcpy(s->sums + k * row, p->bias + channel * p->size,
           (size_t)(tlk_min(p->height, p->rows - tile * p->height) * p->size));
  for (int64_t t = 0; t < j->taps; t += TLK_TILE_DEPTH) {
    int64_t terms = tlk_min(TLK_TILE_DEPTH, j->taps - t);
    for (int64_t k = 0; k < b->n; k += f->rows) {
      int rows = (int)tlk_min(f->rows, b->n - k);
      const void *in[TLK_TILE_ROWS];
      for (int r = 0; r < f->rows; r++)
        in[r] = s->images + b->from[k + tlk_min(r, rows - 1)] * p->size;
      f->tile(rows, (int)(p->height / f->lanes), terms, j->offsets + t, in, weights + t * row,
              p->height, filled || t > 0, s->sums + k * row, p->height);
    }
  }
}

#define SCATTER(s, type)                                                             \
  static void scatter_##s(const Block *b, const void *from, void *out) {             \
    const type *x = from;                                                            \
    for (int64_t k = 0; k < b->runs; k++)                                            \
      for (int64_t i = 0; i < b->length[k]; i++) ((type *)out)[b->to[k] + i] = *x++; \
  }
SCATTER(f32, float)
SCATTER(f64, double)

/* Stores the sums of a block. Each run of contiguous results is copied by a call of its own, which
** is fast for long runs. */
static void store_runs(const tlk_ConvPlan *p, const Block *b, int64_t rows, const char *sums,
                       char *out) {
  int64_t size = p->size, row = p->height * size;
  for (int64_t k = 0; k < b->runs; sums += b->length[k++] * row)
    tlk_isa()->move[size == 8 ? 3 : 2](out + b->to[k] * size, size, p->result * size, sums, row,
                                       size, b->length[k], rows);
}

static void store_block(const tlk_ConvPlan *p, int64_t group, int64_t tile, const Scratch *s) {
  const Block *b = &s->block;
  int64_t row = tile * p->height, rows = tlk_min(p->height, p->rows - row), size = p->size;
  char *out = p->out + (group * p->rows + row) * p->result * size;
  if (b->n >= LONG_RUN * b->runs) {
    store_runs(p, b, rows, s->sums, out);
    return;
  }
  tlk_isa()->move[size == 8 ? 3 : 2](s->turned, size, BLOCK * size, s->sums, p->height * size, size,
                                     b->n, rows);
  for (int64_t r = 0; r < rows; r++, out += p->result * size) {
    const char *from = s->turned + r * BLOCK * size;
    if (size == 4)
      scatter_f32(b, from, out);
    else
      scatter_f64(b, from, out);
  }
}

/* Computes one part of a group, which consists of some blocks of positions and some tiles of
** channels, for `count` images from image `first` on. */
static void run_part(const Panels *l, int64_t first, int64_t count, int64_t group, int64_t part,
                     Scratch *s) {
  tlk_ConvPlan *p = l->plan;
  int64_t image = tlk_conv_product(p->layout.sizes) * p->channels * p->size;
  const char *in = p->in + (first * p->conv->groups + group) * image;
  s->images = l->in_place ? in : s->copies;
  for (int64_t i = 0; i < count && !l->in_place; i++)
    tlk_conv_copy(&p->layout, p->channels, s->copies + i * l->image * p->size,
                  in + i * p->conv->groups * image, p->size);
  for (int64_t i = 0; i < p->njobs; i++) {
    const tlk_ConvJob *j = &p->jobs[i];
    int64_t positions = count * tlk_conv_product(j->count);
    if (positions == 0) continue;
    int64_t blocks = tlk_ceil_div(positions, l->by_tiles ? BLOCK : NEAR_BLOCK);
    /* largest number of positions in a block; a whole number of tiles */
    int64_t most = round_up(tlk_ceil_div(positions, blocks), p->tile->rows);
    int64_t units = blocks * p->tiles, filled = -1;
    for (int64_t u = part * units / p->parts; u < (part + 1) * units / p->parts; u++) {
      if (p->failed) return;
      if (tli_interrupted()) p->failed = true;
      int64_t tile = l->by_tiles ? u / blocks : u % p->tiles;
      int64_t begin = (l->by_tiles ? u % blocks : u / p->tiles) * most;
      if (begin != filled)
        fill_block(l, j, first, begin, tlk_min(most, positions - begin), &s->block);
      filled = begin;
      block_sums(p, j, group, tile, s);
      store_block(p, group, tile, s);
    }
  }
}

static void run_parts(void *context, int64_t begin, int64_t end) {
  const Panels *l = context;
  tlk_ConvPlan *p = l->plan;
  int64_t images = l->in_place ? 0 : round_up(l->together * l->image * p->size, 64);
  int64_t sums = BLOCK * p->height * p->size;
  size_t bytes = (size_t)(images + 2 * sums);
  Scratch *s = tli_alloc(sizeof *s);
  char *data = tli_alloc(bytes);
  if (s && data) {
    memset(data, 0, (size_t)images);
    s->copies = data;
    s->sums = data + images;
    s->turned = s->sums + sums;
    for (int64_t i = begin; i < end; i++) {
      int64_t task = i / p->parts, first = task / p->conv->groups * l->together;
      run_part(l, first, tlk_min(l->together, p->conv->batch - first), task % p->conv->groups,
               i % p->parts, s);
    }
  } else {
    p->failed = true;
  }
  tli_free(data, bytes);
  tli_free(s, sizeof *s);
}

void tlk_conv_run_gemm(tlk_ConvPlan *p) {
  const tlk_Conv *c = p->conv;
  Panels l = {.plan = p, .image = p->channels * p->layout.channel};
  const tlk_ConvLayout *layout = &p->layout;
  l.in_place =
      tlk_conv_product(layout->step) == 1 && layout->channel == tlk_conv_product(layout->sizes);
  if (l.in_place) l.image *= c->groups;
  int64_t threads = tl_get_num_threads(), positions = 1, taps = 0;
  for (int64_t i = 0; i < p->njobs; i++) {
    positions = tlk_max(positions, tlk_conv_product(p->jobs[i].count));
    taps = tlk_max(taps, p->jobs[i].taps);
  }
  l.together = tlk_min(POSITIONS / positions, IMAGES_BYTES / (l.image * p->size));
  l.together = tlk_max(1, tlk_min(l.together, c->batch));
  l.by_tiles = p->rows * taps > tlk_max(l.together * l.image, IMAGES_BYTES / p->size);
  if (!l.by_tiles) l.together = tlk_min(l.together, tlk_ceil_div(c->batch * c->groups, threads));
  /* if there are few images, several threads share an image, and each of them prepares its own
  ** scratch copy */
  int64_t tasks = tlk_ceil_div(c->batch, l.together) * c->groups;
  p->parts = tasks < threads ? tlk_ceil_div(threads, tasks) : 1;
  int64_t work = p->rows * taps * positions * l.together / p->parts;
  tli_parallel_for(tasks * p->parts, tlk_max(1, 4 * TLK_GRAIN / tlk_max(1, work)), run_parts, &l);
}
