/* packed.c - the loops of packed.h. The sums of a tile stay in vector registers. */
#if defined(__aarch64__) && !defined(__clang__)
/* without this pragma gcc moves so many loads out of the loop that sums no longer fit into
** registers */
#pragma GCC optimize("no-schedule-insns")
#endif

#include "kernels/cpu/conv/packed.h"

#include <string.h>

#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

#define ROWS TLK_PACKED_ROWS
#define LANES ((int)(TLK_VECTOR_BYTES / sizeof(float)))
/* number of vectors in a row of a tile. The width of a panel is a multiple of this many vectors;
** only with vectors of 16 elements may a panel be narrower. */
#define VECTORS (TLK_VECTOR_REGISTERS == 32 ? 4 : 2)
/* number of vectors of channels that `channels` computes at a time */
#define STRIPS (TLK_VECTOR_REGISTERS == 32 ? 2 : 1)
#define INLINE static inline __attribute__((always_inline))

typedef float Vec __attribute__((vector_size(TLK_VECTOR_BYTES)));
typedef int32_t Mask __attribute__((vector_size(TLK_VECTOR_BYTES)));
/* A vector that may be at any address, without alignment. */
typedef float LooseVec
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(float)), may_alias));

INLINE Vec load(const float *p) { return *(const LooseVec *)p; }
INLINE void store(float *p, Vec v) { *(LooseVec *)p = v; }

/* Limits the elements of a vector to the range from low to high; NaN stays NaN. */
INLINE Vec limit(Vec x, float low, float high) {
  Vec l = (Vec){0} + low, h = (Vec){0} + high;
  Mask below = x<l, above = x> h;
  x = (Vec)(((Mask)l & below) | ((Mask)x & ~below));
  return (Vec)(((Mask)h & above) | ((Mask)x & ~above));
}

/* Adds t->bias and t->other to sums, limits the results and stores them without padding. The
** function is not inlined, to keep the code of the tiles small. */
static __attribute__((noinline)) void finish(const tlk_PackedTile *t, int64_t col, int64_t width) {
  const float *sums = t->sums + col, *bias = t->bias + col;
  int64_t n = tlk_min(width, t->cols - col), whole = n / LANES * LANES, step = t->step;
  if (n <= 0) return; /* columns from `col` on that only pad the panel are not stored */
  size_t rest = (size_t)(n - whole) * sizeof(float);
  float low = t->low, high = t->high;
  for (int r = 0; r < t->rows; r++, sums += TLK_PACKED_WIDTH) {
    float *out = t->out + r * step + col;
    const float *other = t->other ? t->other + r * step + col : NULL;
    for (int64_t k = 0; k < whole; k += LANES) {
      Vec sum = load(sums + k) + load(bias + k);
      if (other) sum += load(other + k);
      store(out + k, limit(sum, low, high));
    }
    if (rest == 0) continue;
    /* sums and bias are padded to whole vectors, so whole vectors may be read */
    Vec sum = load(sums + whole) + load(bias + whole), more = {0};
    if (other) {
      memcpy(&more, other + whole, rest);
      sum += more;
    }
    sum = limit(sum, low, high);
    memcpy(out + whole, &sum, rest);
  }
}

/* Computes `vectors` vectors of columns. Callers pass a constant for `vectors`, for which the
** inlined function is optimised. */
INLINE void tile_of(int vectors, const tlk_PackedTile *t, int64_t col) {
  Vec acc[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      acc[r][v] = t->add ? load(t->sums + r * TLK_PACKED_WIDTH + col + v * LANES) : (Vec){0};
  const float *weight = t->weight + col;
  int64_t pitch = t->pitch, terms = t->terms;
  for (int64_t e = 0; e < t->elements; e++) {
    const float *x[ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) x[r] = t->in[e * ROWS + r] + t->from;
    for (int64_t c = 0; c < terms; c++, weight += pitch) {
      Vec columns[VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) columns[v] = load(weight + v * LANES);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) acc[r][v] += x[r][c] * columns[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      store(t->sums + r * TLK_PACKED_WIDTH + col + v * LANES, acc[r][v]);
  if (t->last) finish(t, col, (int64_t)vectors * LANES);
}

static void tile(const tlk_PackedTile *t) {
#if VECTORS > 2
  switch ((int)t->pitch / LANES) {
  case 1: tile_of(1, t, 0); return;
  case 2: tile_of(2, t, 0); return;
  case 3: tile_of(3, t, 0); return;
  }
#endif
  for (int64_t col = 0; col < t->pitch; col += (int64_t)VECTORS * LANES) tile_of(VECTORS, t, col);
}

/* Returns the larger element of each pair; NaN counts as the largest number. */
INLINE Vec larger(Vec a, Vec b) {
  Mask use = (b > a) | (b != b);
  return (Vec)(((Mask)b & use) | ((Mask)a & ~use));
}

/* Computes `strips` vectors of channels: sums of products or, if `largest`, the largest
** elements. Callers pass constants for `strips` and `largest`, for which the inlined function is
** optimised. */
INLINE void strips_of(int strips, bool largest, const tlk_PackedTile *t, int64_t col) {
  Vec acc[ROWS][STRIPS], w[STRIPS] = {0};
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
    for (int v = 0; v < strips; v++)
      acc[r][v] = load((largest ? t->in[r] : t->bias) + col + v * LANES);
  for (int64_t e = 0; e < t->elements; e++) {
    if (!largest) {
#pragma GCC unroll 2
      for (int v = 0; v < strips; v++) w[v] = load(t->weight + e * t->pitch + col + v * LANES);
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
      for (int v = 0; v < strips; v++) {
        Vec x = load(t->in[e * ROWS + r] + col + v * LANES);
        acc[r][v] = largest ? larger(acc[r][v], x) : acc[r][v] + x * w[v];
      }
  }
#pragma GCC unroll 8
  for (int r = 0; r < ROWS; r++) {
    if (r >= t->rows) break;
#pragma GCC unroll 2
    for (int v = 0; v < strips; v++) {
      int64_t at = r * t->step + col + v * LANES;
      if (t->other) acc[r][v] += load(t->other + at);
      store(t->out + at, limit(acc[r][v], t->low, t->high));
    }
  }
}

/* Computes all channels, a few vectors at a time. The last step ends at the last channel, so it may
** compute some channels a second time. */
static void channels(const tlk_PackedTile *t) {
  int64_t col = 0, wide = (int64_t)STRIPS * LANES;
  for (; col + wide <= t->cols; col += wide) strips_of(STRIPS, false, t, col);
  for (; col < t->cols; col += LANES) strips_of(1, false, t, tlk_min(col, t->cols - LANES));
}

static void largest(const tlk_PackedTile *t) {
  for (int64_t col = 0; col < t->cols; col += LANES)
    strips_of(1, true, t, tlk_min(col, t->cols - LANES));
}

extern const tlk_PackedLoops TLK_ISA_NAME(tlk_packed_loops);
const tlk_PackedLoops TLK_ISA_NAME(tlk_packed_loops) = {tile, channels, largest};
