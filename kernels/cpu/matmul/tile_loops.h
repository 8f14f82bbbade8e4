/*
** tile_loops.h - the loop of tile.h for one type: isa/tile_<type>.c defines `real` and includes
** this file. A tile is so large that its sums, a row of the panel and one element of the left
** factor fill the registers.
*/
#if defined(__aarch64__) && !defined(__clang__)
/* without this pragma gcc moves so many loads out of the loop that sums no longer fit into
** registers */
#pragma GCC optimize("no-schedule-insns")
#endif

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/tile.h"
#include "kernels/cpu/vector.h"

#define VECTORS (TLK_VECTOR_REGISTERS == 32 ? 4 : 2)
#define ROWS 6
#define LANES ((int)(TLK_VECTOR_BYTES / sizeof(real)))

typedef real Vec __attribute__((vector_size(TLK_VECTOR_BYTES)));
/* A vector that may be at any address, without alignment. */
typedef real LooseVec
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(real)), may_alias));

static inline Vec load(const real *p) { return *(const LooseVec *)p; }
static inline void store(real *p, Vec v) { *(LooseVec *)p = v; }

/* Computes `height` rows, but stores only the first `rows`. Callers pass constants for `height` and
** `vectors`, and the function is inlined. */
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

/* Chooses a tile with fewer rows if the batch is small or if few rows of a matrix are left. */
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

/* Applies the epilogue. Callers pass a constant for `relu` and either NULL or an array for bias,
** and the function is inlined. */
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

/* ---- dot products ---- */

typedef real Quarter __attribute__((vector_size(16)));

/* Returns the sum of a vector's elements. */
static inline real total(Vec v) {
#if TLK_VECTOR_BYTES > 16
  union {
    Vec all;
    Quarter parts[TLK_VECTOR_BYTES / 16];
  } u = {v};
  Quarter sum = u.parts[0] + u.parts[1];
#if TLK_VECTOR_BYTES > 32
  sum += u.parts[2] + u.parts[3];
#endif
#else
  Quarter sum = v;
#endif
  const int half = 8 / sizeof(real);
  real total = 0;
  for (int j = 0; j < half; j++) total += sum[j] + sum[half + j];
  return total;
}

/* The number of rows whose dot products are computed at the same time. */
#define DOTS 4

static void dots(int64_t rows, int64_t n, const void *matrix, int64_t pitch, const void *x_,
                 void *out_, int64_t out_step) {
  const real *x = x_;
  real *out = out_;
  for (int64_t i = 0; i < rows; i += DOTS) {
    const real *row[DOTS];
    Vec acc[DOTS], more[DOTS];
    int64_t k = 0;
    for (int r = 0; r < DOTS; r++) {
      row[r] = (const real *)matrix + (i + r < rows ? i + r : rows - 1) * pitch;
      acc[r] = more[r] = (Vec){0};
    }
    for (; k + 2 * LANES <= n; k += 2 * LANES) {
      Vec a = load(x + k), b = load(x + k + LANES);
#pragma GCC unroll 4
      for (int r = 0; r < DOTS; r++) {
        acc[r] += load(row[r] + k) * a;
        more[r] += load(row[r] + k + LANES) * b;
      }
    }
    for (; k + LANES <= n; k += LANES) {
      Vec a = load(x + k);
#pragma GCC unroll 4
      for (int r = 0; r < DOTS; r++) acc[r] += load(row[r] + k) * a;
    }
#pragma GCC unroll 4
    for (int r = 0; r < DOTS; r++) {
      real sum = total(acc[r] + more[r]);
      for (int64_t j = k; j < n; j++) sum += row[r][j] * x[j];
      if (i + r < rows) out[(i + r) * out_step] = sum;
    }
  }
}

#define PANEL_LOOPS \
  { LANES, ROWS, VECTORS, tile, finish, dots }
