/*
** winograd_weight.c - the gradient of the weight with Winograd tiles (winograd.h). For each
** interpolation point there is one matrix product: transformed patches (channel in, tile) times
** transformed gradients of the results (tile, channel out). Segments are processed in chunks whose
** sizes do not depend on the number of threads. If one chunk holds all segments and the sums are
** large, the sums of each panel are transformed back at once, while they are in the second-level
** cache.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/conv/winograd.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/tile.h"
#include "kernels/cpu/conv/winograd_loops.h"

/* The number of input channels in a block. It is a multiple of the number of lanes of a vector and
** of the number of rows of a tile (tile.h). */
#define CHANNELS 48
/* The number of bytes of a chunk. A chunk is larger if the sums require this. */
#define CHUNK_BYTES ((int64_t)8 << 20)
/* The number of kernels that are transposed in one step. */
#define KERNELS 16
/* The number of unused floats after each plane. The comment on GAP in winograd.c gives the
** reason. */
#define GAP 16

typedef struct Outer {
  const tlk_Conv *conv;
  const tlk_WinogradLoops *loops;
  const tlk_TileLoops *tile;
  int64_t channels, rows; /* number of input channels and of rows (output channels) of a group */
  /* height: number of channels in a panel; tiles: number of panels; blocks: number of blocks of
  ** input channels */
  int64_t height, tiles, blocks;
  /* images and gradients of the current group, beginning with the first image */
  tlk_Planes images, grads;
  tlk_Segments segments;
  int64_t together; /* number of segments in a chunk */
  int64_t group;
  int64_t first, count;  /* first segment of the current chunk, and number of segments in it */
  float *patches, *ends; /* transformed images, and transformed gradients of the results (owned) */
  /* array (tiles, blocks, points, CHANNELS, height) of sums, owned; NULL if all segments are in one
  ** chunk and the sums are large */
  float *sums;
  float *out;
  atomic_bool failed, not_finite;
} Outer;

static int64_t chunk_tiles(const Outer *o) { return o->together * o->segments.tiles; }
static int64_t patches_plane(const Outer *o) {
  int64_t lanes = o->loops->lanes;
  return tlk_ceil_div(o->channels, lanes) * chunk_tiles(o) * lanes + GAP;
}
static int64_t ends_plane(const Outer *o) { return o->tiles * chunk_tiles(o) * o->height + GAP; }
static int64_t sums_plane(const Outer *o) { return CHANNELS * o->height + GAP; }

/* ---- transforms ---- */

/* Transforms the gradients of the results in segments [at, at + n) of the chunk. */
static void transform_ends(const Outer *o, int64_t at, int64_t n, const float *grads,
                           float *strip) {
  const tlk_Segments *seg = &o->segments;
  tlk_Segment begin = tlk_segment(seg, o->first + at);
  int64_t lanes = o->loops->lanes, cols = seg->tiles * TLK_TILE, row = cols * lanes;
  for (int64_t k = 0; k < o->tiles * o->height; k += lanes) {
    tlk_channels_last(strip, lanes, n * TLK_TILE, cols, grads + k * seg->sizes[0] * seg->sizes[1],
                      tlk_max(0, tlk_min(lanes, o->rows - k)), seg->sizes, begin.row, begin.col);
    float *out =
        o->ends + (k / o->height * chunk_tiles(o) + at * seg->tiles) * o->height + k % o->height;
    for (int64_t i = 0; i < n; i++)
      o->loops->tiles(seg->tiles, strip + i * TLK_TILE * row, row, out + i * seg->tiles * o->height,
                      o->height, ends_plane(o));
  }
}

static void prepare_segments(void *context, int64_t begin, int64_t end) {
  Outer *o = context;
  const tlk_Conv *c = o->conv;
  int64_t lanes = o->loops->lanes, n;
  size_t bytes = tlk_strip_bytes(&o->segments);
  float *strip = tli_alloc(bytes);
  if (strip == NULL) o->failed = true;
  for (int64_t i = begin; strip && i < end; i += n) {
    n = tlk_segments_below(&o->segments, o->first + i, end - i);
    int64_t image = tlk_segment(&o->segments, o->first + i).image * c->groups + o->group;
    tlk_Planes in = o->images;
    in.data += image * o->channels * in.sizes[0] * in.sizes[1];
    tlk_winograd_patches(&o->segments, o->first + i, n, &in, strip,
                         o->patches + i * o->segments.tiles * lanes, chunk_tiles(o) * lanes,
                         patches_plane(o));
    transform_ends(o, i, n, o->grads.data + image * o->rows * o->grads.sizes[0] * o->grads.sizes[1],
                   strip);
  }
  tli_free(strip, bytes);
}

/* Computes the sums (CHANNELS, height) of one block and one panel at one point. The first chunk
** stores the sums, and later chunks add to them. */
static void multiply(const Outer *o, int64_t tile, int64_t block, int64_t point, float *sums) {
  const tlk_TileLoops *f = o->tile;
  int64_t lanes = o->loops->lanes, begin = block * CHANNELS, offsets[TLK_TILE_DEPTH];
  int64_t end = tlk_min(begin + CHANNELS, o->channels), tiles = o->count * o->segments.tiles;
  const float *patches = o->patches + point * patches_plane(o);
  const float *panel = o->ends + point * ends_plane(o) + tile * chunk_tiles(o) * o->height;
  for (int64_t t = 0; t < TLK_TILE_DEPTH; t++) offsets[t] = t * lanes;
  for (int64_t t = 0; t < tiles; t += TLK_TILE_DEPTH)
    for (int64_t c = begin; c < end; c += f->rows) {
      int64_t rows = tlk_min(f->rows, end - c);
      const void *in[TLK_TILE_ROWS];
      for (int64_t r = 0; r < f->rows; r++) {
        int64_t k = c + tlk_min(r, rows - 1);
        in[r] = patches + (k / lanes * chunk_tiles(o) + t) * lanes + k % lanes;
      }
      f->tile((int)rows, (int)(o->height / f->lanes), tlk_min(TLK_TILE_DEPTH, tiles - t), offsets,
              in, panel + t * o->height, o->height, o->first > 0 || t > 0,
              sums + (c - begin) * o->height, o->height);
    }
}

/* Transforms the sums of a block and a panel, at all points, into the block's part of the weight's
** gradient. */
static bool finish(const Outer *o, int64_t tile, int64_t block, const float *sums, float *turned) {
  int64_t row = tile * o->height, rows = tlk_min(o->height, o->rows - row), size = sizeof(float);
  int64_t begin = block * CHANNELS, end = tlk_min(begin + CHANNELS, o->channels);
  bool finite = true;
  for (int64_t c = begin; c < end; c += KERNELS) {
    int64_t n = tlk_min(KERNELS, end - c);
    for (int64_t v = 0; v < rows; v += o->loops->lanes)
      finite &= o->loops->gradients(n, sums + (c - begin) * o->height + v, o->height, sums_plane(o),
                                    turned + v, o->height);
    tlk_isa()->move[2]((char *)(o->out + ((o->group * o->rows + row) * o->channels + c) * 9), size,
                       o->channels * 9 * size, (const char *)turned, o->height * size, size, n * 9,
                       rows);
  }
  return finite;
}

/* ---- drivers ---- */

/* Adds the products of a chunk to the sums. Each index of the range stands for one block of input
** channels and one panel at one interpolation point. */
static void add_points(void *context, int64_t begin, int64_t end) {
  const Outer *o = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t pair = i / TLK_POINTS;
    multiply(o, pair / o->blocks, pair % o->blocks, i % TLK_POINTS, o->sums + i * sums_plane(o));
  }
}

/* Transforms sums into the weight's gradient. Each index of the range stands for one pair of a
** block and a panel. If no sums are kept between chunks, they are computed here in scratch
** memory. */
static void finish_pairs(void *context, int64_t begin, int64_t end) {
  Outer *o = context;
  int64_t all = TLK_POINTS * sums_plane(o), turned = KERNELS * 9 * o->height;
  size_t bytes = (size_t)(turned + (o->sums ? 0 : all)) * sizeof(float);
  float *data = tli_alloc(bytes);
  if (data == NULL) o->failed = true;
  for (int64_t i = begin; data && i < end; i++) {
    float *sums = o->sums ? o->sums + i * all : data + turned;
    for (int64_t p = 0; p < TLK_POINTS && !o->sums; p++)
      multiply(o, i / o->blocks, i % o->blocks, p, sums + p * sums_plane(o));
    if (!finish(o, i / o->blocks, i % o->blocks, sums, data)) o->not_finite = true;
  }
  tli_free(data, bytes);
}

static void run_group(Outer *o) {
  int64_t pairs = o->tiles * o->blocks;
  for (o->first = 0; o->first < o->segments.count && !o->failed; o->first += o->together) {
    o->count = tlk_min(o->together, o->segments.count - o->first);
    tli_parallel_for(o->count, 1, prepare_segments, o);
    if (tli_interrupted()) o->failed = true;
    if (o->sums && !o->failed) tli_parallel_for(pairs * TLK_POINTS, 1, add_points, o);
  }
  o->first = 0;
  if (!o->failed) tli_parallel_for(pairs, 1, finish_pairs, o);
}

static void choose_sizes(Outer *o) {
  const tlk_Conv *c = o->conv;
  const tlk_Windows *w = &c->windows;
  o->channels = c->channels_in / c->groups;
  o->rows = c->channels_out / c->groups;
  o->height = tlk_tile_width(o->tile, o->rows);
  o->tiles = tlk_ceil_div(o->rows, o->height);
  o->blocks = tlk_ceil_div(o->channels, CHANNELS);
  o->images.channels = o->channels;
  for (int d = 0; d < 2; d++) {
    o->images.sizes[d] = w->in[d + 1];
    o->images.first[d] = -w->padding[d + 1];
    o->grads.sizes[d] = w->out[d + 1];
  }
  o->segments = tlk_segments(w->out + 1, c->batch);
}

bool tlk_winograd_weight(const tlk_Conv *conv, float *grad_weight, const float *in,
                         const float *grad_out, bool *finite) {
  Outer o = {.conv = conv,
             .loops = tlk_isa()->winograd,
             .tile = tlk_isa()->tile[0],
             .images = {.data = in},
             .grads = {.data = grad_out},
             .out = grad_weight};
  choose_sizes(&o);
  int64_t sums = o.tiles * o.blocks * TLK_POINTS * sums_plane(&o) * (int64_t)sizeof(float);
  int64_t each = o.segments.tiles * (o.channels + o.tiles * o.height) * TLK_POINTS * 4;
  o.together = tlk_max(1, tlk_min(tlk_max(CHUNK_BYTES, sums) / each, o.segments.count));
  size_t patches = (size_t)(TLK_POINTS * patches_plane(&o)) * sizeof(float);
  size_t ends = (size_t)(TLK_POINTS * ends_plane(&o)) * sizeof(float);
  bool keep = o.together < o.segments.count || sums < CHUNK_BYTES / 2;
  o.patches = tli_alloc(patches);
  o.ends = tli_alloc(ends);
  if (keep) o.sums = tli_alloc((size_t)sums);
  bool ok = o.patches && o.ends && (!keep || o.sums);
  for (; ok && o.group < conv->groups && !o.failed; o.group++) run_group(&o);
  tli_free(o.patches, patches);
  tli_free(o.ends, ends);
  if (keep) tli_free(o.sums, (size_t)sums);
  *finite = !o.not_finite;
  return ok && !o.failed;
}
