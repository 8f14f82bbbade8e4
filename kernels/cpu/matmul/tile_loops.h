/*
** tile_loops.h - the loop of tile.h for one type: isa/tile_<type>.c defines `real` and includes
** this file. A tile's sums, a row of the panel and one element of the left side fill the
** registers.
*/
#if defined(__aarch64__) && !defined(__clang__)
/* without this pragma gcc hoists so many loads that it runs out of registers and spills sums to
** memory */
#pragma GCC optimize("no-schedule-insns")
#endif

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/tile.h"
#include "kernels/cpu/vector.h"

#define VECTORS (TLK_VECTOR_REGISTERS == 32 ? 4 : 2)
#define ROWS 6
#define LANES ((int)(TLK_VECTOR_BYTES / sizeof(real)))

typedef real Vec __attribute__((vector_size(TLK_VECTOR_BYTES)));
/* A vector without alignment, for loads and stores at any address. */
typedef real LooseVec
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(real)), may_alias));

static inline Vec load(const real *p) { return *(const LooseVec *)p; }
static inline void store(real *p, Vec v) { *(LooseVec *)p = v; }

/* Computes `height` rows, but stores only the first `rows`. `height` and `vectors` are constants at
** each inlined call. */
static inline __attribute__((always_inline)) void
tile_of(int vectors, int height, int rows, int64_t n, const int64_t *offsets, const void *const *in,
        const real *panel, int64_t pitch, bool add, real *out, int64_t out_step) {
  Vec acc[ROWS][VECTORS];
  const real *x[ROWS];
#pragma GCC unroll 8
  for (int r = 0; r < height; r++) {
    x[r] = in[r];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) acc[r][v] = (Vec){0};
  }
  for (int64_t t = 0; t < n; t++, panel += pitch) {
    Vec columns[VECTORS];
    int64_t at = offsets[t];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) columns[v] = load(panel + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < height; r++)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) acc[r][v] += x[r][at] * columns[v];
  }
#pragma GCC unroll 8
  for (int r = 0; r < height; r++) {
    if (r >= rows) break;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      real *to = out + r * out_step + v * LANES;
      store(to, add ? load(to) + acc[r][v] : acc[r][v]);
    }
  }
}

/* Chooses a tile with fewer rows for a small batch or the last rows of a matrix. */
static inline __attribute__((always_inline)) void
tile_height(int vectors, int rows, int64_t n, const int64_t *offsets, const void *const *in,
            const real *panel, int64_t pitch, bool add, real *out, int64_t out_step) {
  if (rows <= 2)
    tile_of(vectors, 2, rows, n, offsets, in, panel, pitch, add, out, out_step);
  else if (rows <= 4)
    tile_of(vectors, 4, rows, n, offsets, in, panel, pitch, add, out, out_step);
  else
    tile_of(vectors, ROWS, rows, n, offsets, in, panel, pitch, add, out, out_step);
}

static void tile(int rows, int vectors, int64_t n, const int64_t *offsets, const void *const *in,
                 const void *panel, int64_t pitch, bool add, void *out, int64_t out_step) {
  switch (vectors) {
  case 1: tile_height(1, rows, n, offsets, in, panel, pitch, add, out, out_step); break;
#if VECTORS > 2
  case 2: tile_height(2, rows, n, offsets, in, panel, pitch, add, out, out_step); break;
  case 3: tile_height(3, rows, n, offsets, in, panel, pitch, add, out, out_step); break;
#endif
  default: tile_height(VECTORS, rows, n, offsets, in, panel, pitch, add, out, out_step);
  }
}

/* Applies the epilogue. `relu` is a constant at each inlined call, and so is whether bias is
** NULL. */
static inline __attribute__((always_inline)) void
finish_rows(int64_t rows, int64_t cols, const real *bias, bool relu, real *out, int64_t out_step) {
  for (int64_t r = 0; r < rows; r++, out += out_step) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) {
      real x = bias ? out[c] + bias[c] : out[c];
      out[c] = relu && x < 0 ? 0 : x;
    }
  }
}

static void finish(int64_t rows, int64_t cols, const void *bias, bool relu, void *out,
                   int64_t out_step) {
  if (bias && relu)
    finish_rows(rows, cols, bias, true, out, out_step);
  else if (relu)
    finish_rows(rows, cols, NULL, true, out, out_step);
  else if (bias)
    finish_rows(rows, cols, bias, false, out, out_step);
}

#define PANEL_LOOPS \
  { LANES, ROWS, VECTORS, tile, finish }
