/*
** direct_loops.h - the loops of conv.h for one type: isa/direct_<type>.c defines `real` and
** includes this file. The sums of a tile stay in vector registers. A tile uses all registers of the
** instruction set except those that inputs need.
*/
#if defined(__aarch64__) && !defined(__clang__)
/* without this pragma gcc moves so many loads out of the loop that sums no longer fit into
** registers */
#pragma GCC optimize("no-schedule-insns")
#endif

#include <string.h>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/vector.h"

#define ROWS (TLK_VECTOR_REGISTERS / 4)
#define DOT_ROWS (TLK_VECTOR_REGISTERS == 32 ? 6 : 3)
#define LANES ((int)(TLK_VECTOR_BYTES / sizeof(real)))
#define VECTORS 3
#define DOT_TAPS 4
#define LINE_TAPS 9

typedef real Vec __attribute__((vector_size(TLK_VECTOR_BYTES)));
/* A vector that may be at any address, without alignment. */
typedef real LooseVec
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(real)), may_alias));

static inline Vec load(const real *p) { return *(const LooseVec *)p; }
static inline void store(real *p, Vec v) { *(LooseVec *)p = v; }

/* Computes a tile. Callers pass constants for `rows` and `vectors`, for which the inlined function
** is optimised. */
static inline __attribute__((always_inline)) void tile_of(int rows, int vectors, int64_t taps,
                                                          const int64_t *offsets, const real *in,
                                                          const real *weights, bool add, real *out,
                                                          int64_t step) {
  Vec acc[ROWS][VECTORS];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) acc[r][v] = add ? load(out + r * step + v * LANES) : (Vec){0};
  for (int64_t tap = 0; tap < taps; tap++) {
    const real *x = in + offsets[tap];
    Vec column[VECTORS];
    for (int v = 0; v < vectors; v++) column[v] = load(x + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) acc[r][v] += weights[tap * rows + r] * column[v];
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vectors; v++) store(out + r * step + v * LANES, acc[r][v]);
}

static void tile(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
                 int vectors, bool add, void *out, int64_t step) {
  if (vectors == 3)
    tile_of(ROWS, 3, taps, offsets, in, weights, add, out, step);
  else if (vectors == 2)
    tile_of(ROWS, 2, taps, offsets, in, weights, add, out, step);
  else
    tile_of(ROWS, 1, taps, offsets, in, weights, add, out, step);
}

static void row(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
                int vectors, bool add, void *out) {
  if (vectors == 3)
    tile_of(1, 3, taps, offsets, in, weights, add, out, 0);
  else if (vectors == 2)
    tile_of(1, 2, taps, offsets, in, weights, add, out, 0);
  else
    tile_of(1, 1, taps, offsets, in, weights, add, out, 0);
}

static real lanes_sum(Vec v) {
  real lane[LANES];
  memcpy(lane, &v, sizeof lane);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  return lane[0];
}

/* Computes dot products. Callers pass constants for `rows` and `taps`, for which the inlined
** function is optimised. */
static inline __attribute__((always_inline)) void
dots_of(int rows, int taps, int64_t images, int64_t n, const int64_t *offsets, const real *data,
        int64_t in_step, const real *grads, int64_t grad_step, int64_t row_step, real *sums) {
  Vec acc[DOT_ROWS * DOT_TAPS];
  for (int k = 0; k < rows * taps; k++) acc[k] = (Vec){0};
  for (int64_t image = 0; image < images; image++) {
    const real *in = data + image * in_step, *grad = grads + image * grad_step;
    for (int64_t i = 0; i < n; i += LANES) {
      Vec x[LINE_TAPS];
#pragma GCC unroll 16
      for (int t = 0; t < taps; t++) x[t] = load(in + offsets[t] + i);
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) {
        Vec g = load(grad + r * row_step + i);
#pragma GCC unroll 16
        for (int t = 0; t < taps; t++) acc[r * taps + t] += g * x[t];
      }
    }
  }
  for (int k = 0; k < rows * taps; k++) sums[k] += lanes_sum(acc[k]);
}

static void dots(int64_t images, int64_t n, const int64_t *offsets, const void *in, int64_t in_step,
                 const void *grad, int64_t grad_step, int64_t row_step, void *sums) {
  dots_of(DOT_ROWS, DOT_TAPS, images, n, offsets, in, in_step, grad, grad_step, row_step, sums);
}

static void dots_line(int64_t images, int64_t n, const int64_t *offsets, const void *in,
                      int64_t in_step, const void *grad, int64_t grad_step, void *sums) {
  dots_of(1, LINE_TAPS, images, n, offsets, in, in_step, grad, grad_step, 0, sums);
}

#define CONV_LOOPS \
  { LANES, ROWS, VECTORS, tile, row, DOT_ROWS, DOT_TAPS, dots, LINE_TAPS, dots_line }
