/*
** winograd.c - implements winograd.h. Patches of the image and the kernels are transformed. Then
** the transformed values at each of the TLK_POINTS points are multiplied as matrices: patches
** (tile, channel in) times kernels (channel in, channel out), with the register tiles of tile.h.
** The products are transformed back to results.
**
** Patches are transformed one chunk of segments at a time, in one of two ways. If the kernels fit
** into the second-level cache, or if there are fewer panels of kernels than threads, all kernels
** are transformed first and kept. Chunks are small then, and each thread processes whole chunks if
** there are at least as many chunks as panels. Otherwise chunks are large, and each thread
** processes whole panels of kernels. It transforms a panel again for each chunk and uses it for all
** tiles of the chunk. Both ways add the terms of a result in the same order.
*/
#include "kernels/cpu/conv/winograd.h"

#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/tile.h"
#include "kernels/cpu/conv/winograd_loops.h"

/* The largest number of tiles in a segment. A segment is a part of a row of tiles. */
#define SEGMENT 32
/* The number of segments of one image that are converted to channels-last order at the same
** time. */
#define TOGETHER 4
/* Transformed kernels are kept between chunks if they have at most this number of bytes. */
#define KEPT_KERNEL_BYTES ((int64_t)1 << 20)
/* The number of bytes of transformed patches in a small chunk. */
#define SMALL_CHUNK_BYTES ((int64_t)512 << 10)
/* The largest number of bytes of transformed patches, and the largest number of tiles, in a large
** chunk. */
#define LARGE_CHUNK_BYTES ((int64_t)8 << 20)
#define LARGE_CHUNK_TILES 160
/* The number of input channels that are summed in one pass. A panel of transformed kernels for this
** number of channels stays in the second-level cache. */
#define TERMS 64
/* The number of kernels that are transposed in one step. */
#define KERNELS 16
/* The number of unused floats after each plane. Without this gap, equal positions in neighbouring
** planes would be a large power of 2 apart and share one cache set. */
#define GAP 16

/* Winograd's method is used for at least this number of channels, of tiles and of multiplications.
** With fewer, other methods are faster. */
#define CHANNELS 16
#define WORK ((int64_t)1 << 22)
#define TILES 16

/* ---- segments ---- */

tlk_Segments tlk_segments(const int64_t sizes[2], int64_t images) {
  int64_t tiles = tlk_ceil_div(sizes[1], TLK_TILE);
  tlk_Segments s = {.sizes = {sizes[0], sizes[1]},
                    .across = tlk_ceil_div(tiles, SEGMENT),
                    .down = tlk_ceil_div(sizes[0], TLK_TILE)};
  s.tiles = tlk_ceil_div(tiles, s.across);
  s.count = images * s.across * s.down;
  return s;
}

tlk_Segment tlk_segment(const tlk_Segments *s, int64_t index) {
  return (tlk_Segment){.image = index / (s->across * s->down),
                       .row = index % s->down * TLK_TILE,
                       .col = index / s->down % s->across * s->tiles * TLK_TILE};
}

int64_t tlk_segments_below(const tlk_Segments *s, int64_t index, int64_t n) {
  return tlk_min(tlk_min(n, TOGETHER), s->down - index % s->down);
}

int64_t tlk_segments_together(const tlk_Segments *s, int64_t most, int64_t rows) {
  int64_t best = most = tlk_max(1, tlk_min(most, s->count));
  double least = 2;
  for (int64_t n = most; n > most / 2; n--) {
    int64_t tiles = n * s->tiles;
    double waste = (double)(tlk_ceil_div(tiles, rows) * rows) / (double)tiles;
    if (waste < least - 0.02) least = waste, best = n;
  }
  return best;
}

void tlk_channels_last(float *dst, int64_t lanes, int64_t rows, int64_t cols, const float *src,
                       int64_t channels, const int64_t sizes[2], int64_t row, int64_t col) {
  int64_t size = sizeof(float), element = lanes * size, plane = sizes[0] * sizes[1] * size;
  int64_t begin = tlk_min(tlk_max(-col, 0), cols);
  int64_t end = tlk_max(begin, tlk_min(cols, sizes[1] - col));
  if (channels < lanes) memset(dst, 0, (size_t)(rows * cols * element));
  for (int64_t r = row; r < row + rows; r++, dst += cols * lanes) {
    bool outside = r < 0 || r >= sizes[0];
    int64_t from = outside ? cols : begin, to = outside ? cols : end;
    memset(dst, 0, (size_t)(from * element));
    memset(dst + to * lanes, 0, (size_t)((cols - to) * element));
    if (from < to)
      tlk_isa()->move[2]((char *)(dst + from * lanes), element, size,
                         (const char *)(src + r * sizes[1] + col + from), size, plane, to - from,
                         channels);
  }
}

size_t tlk_strip_bytes(const tlk_Segments *s) {
  int64_t rows = tlk_min(TOGETHER, s->down) * TLK_TILE + 2, cols = s->tiles * TLK_TILE + 2;
  return (size_t)(rows * cols * tlk_isa()->winograd->lanes) * sizeof(float);
}

void tlk_winograd_patches(const tlk_Segments *s, int64_t index, int64_t n, const tlk_Planes *in,
                          float *strip, float *out, int64_t block, int64_t plane) {
  const tlk_WinogradLoops *f = tlk_isa()->winograd;
  tlk_Segment begin = tlk_segment(s, index);
  int64_t cols = s->tiles * TLK_TILE + 2, row = cols * f->lanes;
  for (int64_t k = 0; k < in->channels; k += f->lanes, out += block) {
    tlk_channels_last(strip, f->lanes, n * TLK_TILE + 2, cols,
                      in->data + k * in->sizes[0] * in->sizes[1],
                      tlk_min(f->lanes, in->channels - k), in->sizes, begin.row + in->first[0],
                      begin.col + in->first[1]);
    for (int64_t i = 0; i < n; i++)
      f->patches(s->tiles, strip + i * TLK_TILE * row, row, out + i * s->tiles * f->lanes, f->lanes,
                 plane);
  }
}

bool tlk_winograd_fits(const tlk_Conv *c) {
  const tlk_Windows *w = &c->windows;
  for (int d = 0; d < 3; d++)
    if (w->kernel[d] != (d == 0 ? 1 : 3) || w->stride[d] != 1 || w->dilation[d] != 1) return false;
  if (c->dtype != TL_F32 || w->in[0] != 1 || w->padding[0] != 0) return false;
  int64_t in = c->channels_in / c->groups, out = c->channels_out / c->groups;
  int64_t tiles = c->batch * tlk_ceil_div(w->out[1], TLK_TILE) * tlk_ceil_div(w->out[2], TLK_TILE);
  return tlk_min(in, out) >= CHANNELS && tiles >= TILES &&
         w->out[1] * w->out[2] * c->batch >= tiles * 8 && tiles * in * out * TLK_POINTS >= WORK;
}

/* ---- sums ---- */

typedef struct Sums {
  const tlk_Conv *conv;
  const tlk_WinogradLoops *loops;
  const tlk_TileLoops *tile;
  bool backward;
  /* number of input channels, and of result channels, in a group */
  int64_t channels, rows;
  /* height: number of channels in a panel of kernels; tiles: number of panels */
  int64_t height, tiles;
  /* terms: number of input channels in a block, which are summed together; blocks: number of
  ** blocks */
  int64_t terms, blocks;
  int64_t sizes[2], first[2]; /* height and width of an image; position of the first window */
  tlk_Segments segments;
  int64_t together; /* number of segments in a chunk */
  int64_t group;
  /* the transformed kernels (owned), an array (tiles, blocks, points, terms, height); NULL if each
  ** chunk transforms the kernels again */
  float *kernels;
  const float *in, *weight, *bias;
  float *out;
  atomic_bool failed, not_finite;
} Sums;

/* These functions return the number of elements in one plane of a panel of transformed kernels, of
** sums, and of transformed patches. */
static int64_t kernels_plane(const Sums *s) { return s->terms * s->height + GAP; }
static int64_t sums_plane(const Sums *s) {
  return s->together * s->segments.tiles * s->height + GAP;
}
static int64_t patches_plane(const Sums *s) {
  int64_t lanes = s->loops->lanes;
  return tlk_ceil_div(s->channels, lanes) * s->together * s->segments.tiles * lanes + GAP;
}

/* Transforms the kernels of one panel for one block of channels, and stores them in `out`.
** `transposed` (KERNELS, 9, height) is scratch memory. */
static void transform_kernels(const Sums *s, int64_t tile, int64_t block, float *transposed,
                              float *out) {
  int64_t row = tile * s->height, rows = tlk_min(s->height, s->rows - row), size = sizeof(float);
  int64_t begin = block * s->terms, end = tlk_min(begin + s->terms, s->channels);
  int64_t from = s->group * s->rows * s->channels;
  if (rows < s->height) memset(transposed, 0, (size_t)(KERNELS * 9 * s->height * size));
  for (int64_t c = begin; c < end; c += KERNELS) {
    int64_t n = tlk_min(KERNELS, end - c);
    if (!s->backward)
      tlk_isa()->move[2]((char *)transposed, s->height * size, size,
                         (const char *)(s->weight + (from + row * s->channels + c) * 9), size,
                         s->channels * 9 * size, n * 9, rows);
    for (int64_t i = 0; i < n && s->backward; i++)
      tlk_isa()->move[2]((char *)(transposed + i * 9 * s->height), s->height * size, size,
                         (const char *)(s->weight + (from + (c + i) * s->rows + row) * 9), size,
                         9 * size, 9, rows);
    for (int64_t v = 0; v < s->height; v += s->loops->lanes) {
      s->loops->kernels(n, transposed + v, s->height, s->backward,
                        out + (c - begin) * s->height + v, s->height, kernels_plane(s));
    }
  }
}

static void keep_kernels(void *context, int64_t begin, int64_t end) {
  Sums *s = context;
  size_t bytes = (size_t)(KERNELS * 9 * s->height) * sizeof(float);
  float *transposed = tli_alloc(bytes);
  if (transposed == NULL) s->failed = true;
  for (int64_t i = begin; transposed && i < end; i++)
    transform_kernels(s, i / s->blocks, i % s->blocks, transposed,
                      s->kernels + i * TLK_POINTS * kernels_plane(s));
  tli_free(transposed, bytes);
}

/* Segments [first, first + count), whose transformed patches are in memory at the same time. */
typedef struct Chunk {
  Sums *sums;
  int64_t first, count;
  float *patches;
  int64_t offsets[TERMS]; /* offset of each channel in a plane of patches */
} Chunk;

/* Transforms the patches of segments [at, at + n) of a chunk. These segments lie below one another
** in one image. */
static void transform_patches(const Chunk *c, int64_t at, int64_t n, float *strip) {
  const Sums *s = c->sums;
  int64_t tiles = s->segments.tiles, image = tlk_segment(&s->segments, c->first + at).image;
  tlk_Planes in = {.data = s->in + (image * s->conv->groups + s->group) * s->channels *
                                       s->sizes[0] * s->sizes[1],
                   .channels = s->channels,
                   .sizes = {s->sizes[0], s->sizes[1]},
                   .first = {s->first[0], s->first[1]}};
  tlk_winograd_patches(&s->segments, c->first + at, n, &in, strip,
                       c->patches + at * tiles * s->loops->lanes,
                       s->together * tiles * s->loops->lanes, patches_plane(s));
}

static void prepare_segments(void *context, int64_t begin, int64_t end) {
  const Chunk *c = context;
  Sums *s = c->sums;
  int64_t most = tlk_min(TOGETHER, s->segments.down), n;
  size_t bytes =
      (size_t)((most * TLK_TILE + 2) * (s->segments.tiles * TLK_TILE + 2) * s->loops->lanes) *
      sizeof(float);
  float *strip = tli_alloc(bytes);
  if (strip == NULL) s->failed = true;
  for (int64_t i = begin; strip && i < end; i += n) {
    n = tlk_segments_below(&s->segments, c->first + i, end - i);
    transform_patches(c, i, n, strip);
  }
  tli_free(strip, bytes);
}

/* Stores the sums over one block of channels in `sums` (point, tile, height), or adds them to
** `sums` if `block` > 0. */
static void multiply(const Chunk *c, int64_t block, const float *kernels, float *sums) {
  const Sums *s = c->sums;
  const tlk_TileLoops *f = s->tile;
  int64_t begin = block * s->terms, terms = tlk_min(s->terms, s->channels - begin);
  int64_t tiles = c->count * s->segments.tiles, lanes = s->loops->lanes;
  for (int64_t p = 0; p < TLK_POINTS; p++) {
    const float *patches =
        c->patches + p * patches_plane(s) + begin * s->together * s->segments.tiles;
    for (int64_t t = 0; t < tiles; t += f->rows) {
      int64_t rows = tlk_min(f->rows, tiles - t);
      const void *in[TLK_TILE_ROWS];
      for (int64_t r = 0; r < f->rows; r++) in[r] = patches + (t + tlk_min(r, rows - 1)) * lanes;
      f->tile((int)rows, (int)(s->height / f->lanes), terms, c->offsets, in,
              kernels + p * kernels_plane(s), s->height, block > 0,
              sums + p * sums_plane(s) + t * s->height, s->height);
    }
  }
}

/* Computes the results of segment `at` of the chunk, a row of adjacent tiles, for the channels of
** block `tile`, and stores them. `transposed` is scratch memory (position, lanes). */
static bool store_segment(const Chunk *c, int64_t at, int64_t tile, const float *sums,
                          float *transposed, const float *bias) {
  const Sums *s = c->sums;
  const tlk_Segments *seg = &s->segments;
  tlk_Segment begin = tlk_segment(seg, c->first + at);
  int64_t lanes = s->loops->lanes, size = sizeof(float), plane = seg->sizes[0] * seg->sizes[1];
  int64_t rows = tlk_min(TLK_TILE, seg->sizes[0] - begin.row);
  int64_t cols = tlk_min(seg->tiles * TLK_TILE, seg->sizes[1] - begin.col);
  int64_t last = tlk_min(s->height, s->rows - tile * s->height);
  float *out = s->out +
               ((begin.image * s->conv->groups + s->group) * s->rows + tile * s->height) * plane +
               begin.row * seg->sizes[1] + begin.col;
  bool finite = true, whole = cols == seg->sizes[1];
  for (int64_t v = 0; v < last; v += lanes, out += lanes * plane) {
    finite &= s->loops->results(seg->tiles, sums + at * seg->tiles * s->height + v, s->height,
                                sums_plane(s), bias ? bias + v : NULL, rows, cols, transposed,
                                cols * lanes);
    for (int64_t r = 0; r < (whole ? 1 : rows); r++)
      tlk_isa()->move[2]((char *)(out + r * seg->sizes[1]), size, plane * size,
                         (const char *)(transposed + r * cols * lanes), lanes * size, size,
                         whole ? rows * cols : cols, tlk_min(lanes, last - v));
  }
  return finite;
}

/* The scratch memory for the work on one panel of kernels. */
typedef struct Scratch {
  float *sums, *results, *bias, *transposed, *kernels;
} Scratch;

static void sum_tile(const Chunk *c, int64_t tile, const Scratch *x) {
  Sums *s = c->sums;
  for (int64_t b = 0; b < s->blocks; b++) {
    if (tli_interrupted()) s->failed = true;
    if (s->failed) return;
    float *kernels = x->kernels;
    if (s->kernels)
      kernels = s->kernels + (tile * s->blocks + b) * TLK_POINTS * kernels_plane(s);
    else
      transform_kernels(s, tile, b, x->transposed, kernels);
    multiply(c, b, kernels, x->sums);
  }
  if (s->bias) {
    int64_t channel = tile * s->height;
    memset(x->bias, 0, (size_t)s->height * sizeof(float));
    memcpy(x->bias, s->bias + s->group * s->rows + channel,
           (size_t)tlk_min(s->height, s->rows - channel) * sizeof(float));
  }
  for (int64_t i = 0; i < c->count; i++)
    if (!store_segment(c, i, tile, x->sums, x->results, s->bias ? x->bias : NULL))
      s->not_finite = true;
}

static void sum_tiles(void *context, int64_t begin, int64_t end) {
  const Chunk *c = context;
  Sums *s = c->sums;
  int64_t sums = TLK_POINTS * sums_plane(s), transposed = KERNELS * 9 * s->height;
  int64_t results = TLK_TILE * TLK_TILE * s->segments.tiles * s->loops->lanes;
  int64_t kernels = s->kernels ? 0 : TLK_POINTS * kernels_plane(s);
  size_t bytes = (size_t)(sums + results + s->height + transposed + kernels) * sizeof(float);
  float *data = tli_alloc(bytes);
  if (data == NULL) {
    s->failed = true;
    return;
  }
  Scratch x = {.sums = data, .results = data + sums};
  x.bias = x.results + results;
  x.transposed = x.bias + s->height;
  x.kernels = x.transposed + transposed;
  for (int64_t i = begin; i < end; i++) sum_tile(c, i, &x);
  tli_free(data, bytes);
}

static void run_chunks(void *context, int64_t begin, int64_t end) {
  Sums *s = context;
  size_t bytes = (size_t)(TLK_POINTS * patches_plane(s)) * sizeof(float);
  Chunk c = {.sums = s, .patches = tli_alloc(bytes)};
  if (c.patches == NULL) s->failed = true;
  int64_t lanes = s->loops->lanes;
  for (int64_t t = 0; t < s->terms; t++)
    c.offsets[t] = t / lanes * lanes * s->together * s->segments.tiles + t % lanes;
  for (int64_t i = begin; c.patches && i < end && !s->failed && !s->not_finite; i++) {
    c.first = i * s->together;
    c.count = tlk_min(s->together, s->segments.count - c.first);
    tli_parallel_for(c.count, 1, prepare_segments, &c);
    tli_parallel_for(s->tiles, 1, sum_tiles, &c);
  }
  tli_free(c.patches, bytes);
}

static void run_group(Sums *s) {
  int64_t chunks = tlk_ceil_div(s->segments.count, s->together);
  if (s->kernels) tli_parallel_for(s->tiles * s->blocks, 1, keep_kernels, s);
  if (s->failed) return;
  if (s->kernels && chunks >= s->tiles)
    tli_parallel_for(chunks, 1, run_chunks, s);
  else
    run_chunks(s, 0, chunks);
}

static void choose_sizes(Sums *s) {
  const tlk_Conv *c = s->conv;
  const tlk_Windows *w = &c->windows;
  s->channels = (s->backward ? c->channels_out : c->channels_in) / c->groups;
  s->rows = (s->backward ? c->channels_in : c->channels_out) / c->groups;
  s->height = tlk_tile_width(s->tile, s->rows);
  s->tiles = tlk_ceil_div(s->rows, s->height);
  s->terms = tlk_min(TERMS, s->channels);
  s->blocks = tlk_ceil_div(s->channels, s->terms);
  for (int d = 0; d < 2; d++) {
    s->sizes[d] = (s->backward ? w->out : w->in)[d + 1];
    s->first[d] = s->backward ? w->padding[d + 1] - 2 : -w->padding[d + 1];
  }
  s->segments = tlk_segments((s->backward ? w->in : w->out) + 1, c->batch);
}

bool tlk_winograd_sums(const tlk_Conv *conv, bool backward, float *out, const float *in,
                       const float *weight, const float *bias, bool *finite) {
  Sums s = {.conv = conv,
            .loops = tlk_isa()->winograd,
            .tile = tlk_isa()->tile[0],
            .backward = backward,
            .in = in,
            .weight = weight,
            .bias = bias,
            .out = out};
  choose_sizes(&s);
  int64_t each = s.segments.tiles * tlk_max(s.channels, CHANNELS) * TLK_POINTS * 4;
  size_t kept = (size_t)(s.tiles * s.blocks * TLK_POINTS * kernels_plane(&s)) * sizeof(float);
  int64_t threads = tl_get_num_threads();
  if ((int64_t)kept <= KEPT_KERNEL_BYTES || s.tiles < threads) {
    int64_t shares = tlk_ceil_div(s.segments.count, threads);
    s.together =
        tlk_segments_together(&s.segments, tlk_min(SMALL_CHUNK_BYTES / each, shares), s.tile->rows);
    s.kernels = tli_alloc(kept);
    if (s.kernels == NULL) return false;
  } else {
    s.together = tlk_segments_together(
        &s.segments, tlk_min(LARGE_CHUNK_BYTES / each, LARGE_CHUNK_TILES / s.segments.tiles),
        s.tile->rows);
  }
  for (s.group = 0; s.group < conv->groups && !s.failed && !s.not_finite; s.group++) run_group(&s);
  if (s.kernels) tli_free(s.kernels, kept);
  *finite = !s.not_finite;
  return !s.failed;
}
