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
** `vectors`, for which the inlined function is optimised. */
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

#if TLK_COMPLEX_PRODUCTS
/* The positions of the numbers of a vector when the two numbers of each pair are exchanged. */
#if TLK_VECTOR_BYTES / 16 * NUMBERS == 16
#define SWAPPED 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#elif TLK_VECTOR_BYTES / 16 * NUMBERS == 8
#define SWAPPED 1, 0, 3, 2, 5, 4, 7, 6
#elif TLK_VECTOR_BYTES / 16 * NUMBERS == 4
#define SWAPPED 1, 0, 3, 2
#else
#define SWAPPED 1, 0
#endif
#if NUMBERS == 4
typedef int32_t VecPlaces __attribute__((vector_size(TLK_VECTOR_BYTES)));
#else
typedef int64_t VecPlaces __attribute__((vector_size(TLK_VECTOR_BYTES)));
#endif

/* Returns v with the two numbers of each pair exchanged, and the first one negated. */
static inline Vec turned(Vec v) {
  union {
    Vec all;
    real one[LANES];
  } signs;
  for (int i = 0; i < LANES; i++) signs.one[i] = i % 2 ? 1 : -1;
  return TLK_SHUFFLE(VecPlaces, v, v, SWAPPED) * signs.all;
}

static inline __attribute__((always_inline)) void join_row(int vectors, const real *re,
                                                           const real *im, bool add, real *out) {
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++, re += LANES, im += LANES, out += LANES) {
    Vec numbers = load(re) + turned(load(im));
    store(out, add ? load(out) + numbers : numbers);
  }
}

static void join(int rows, int vectors, const void *sums, int64_t pitch, bool add, void *out_,
                 int64_t out_step) {
  const real *re = sums;
  real *out = out_;
  for (int r = 0; r < rows; r++, re += 2 * pitch, out += out_step)
    if (vectors == VECTORS && add)
      join_row(VECTORS, re, re + pitch, true, out);
    else
      join_row(vectors, re, re + pitch, add, out);
}
#endif

/* Applies the epilogue. Callers pass a constant for `relu` and either NULL or an array for bias,
** for which the inlined function is optimised. */
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

/* A 16-byte part of a vector, which holds NUMBERS numbers. */
typedef real Part __attribute__((vector_size(16)));
typedef real LoosePart __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));

/* The types of the positions that TLK_SHUFFLE takes: one for the positions of numbers in two parts,
** and one for the positions of groups of eight bytes in two vectors of 64 bytes. */
#if NUMBERS == 4
typedef int32_t Places __attribute__((vector_size(16)));
#else
typedef int64_t Places __attribute__((vector_size(16)));
#endif
typedef int64_t PairPlaces __attribute__((vector_size(64)));

/* The number of rows whose dot products are computed at the same time. */
#define DOTS 4

/* Adds the parts of 16 bytes of each vector to one another. The result is one part for each
** vector. */
#if TLK_VECTOR_BYTES == 64
static inline void sum_parts(const Vec *v, Part *out) {
  typedef double Pairs __attribute__((vector_size(64)));
#define EVEN_PARTS(a, b) \
  (Vec) TLK_SHUFFLE(PairPlaces, (Pairs)(a), (Pairs)(b), 0, 1, 4, 5, 8, 9, 12, 13)
#define ODD_PARTS(a, b) \
  (Vec) TLK_SHUFFLE(PairPlaces, (Pairs)(a), (Pairs)(b), 2, 3, 6, 7, 10, 11, 14, 15)
  Vec a = EVEN_PARTS(v[0], v[1]) + ODD_PARTS(v[0], v[1]);
  Vec b = EVEN_PARTS(v[2], v[3]) + ODD_PARTS(v[2], v[3]);
  union {
    Vec all;
    Part parts[DOTS];
  } sums = {EVEN_PARTS(a, b) + ODD_PARTS(a, b)};
  for (int r = 0; r < DOTS; r++) out[r] = sums.parts[r];
}
#else
static inline void sum_parts(const Vec *v, Part *out) {
  for (int r = 0; r < DOTS; r++) {
    union {
      Vec all;
      Part parts[TLK_VECTOR_BYTES / 16];
    } u = {v[r]};
    out[r] = u.parts[0];
    for (int i = 1; i < TLK_VECTOR_BYTES / 16; i++) out[r] += u.parts[i];
  }
}
#endif

/* Returns the sums of the numbers in each of NUMBERS parts. */
static inline Part totals(const Part *p) {
#if NUMBERS == 4
  Part a =
      TLK_SHUFFLE(Places, p[0], p[1], 0, 1, 4, 5) + TLK_SHUFFLE(Places, p[0], p[1], 2, 3, 6, 7);
  Part b =
      TLK_SHUFFLE(Places, p[2], p[3], 0, 1, 4, 5) + TLK_SHUFFLE(Places, p[2], p[3], 2, 3, 6, 7);
  return TLK_SHUFFLE(Places, a, b, 0, 2, 4, 6) + TLK_SHUFFLE(Places, a, b, 1, 3, 5, 7);
#else
  return TLK_SHUFFLE(Places, p[0], p[1], 0, 2) + TLK_SHUFFLE(Places, p[0], p[1], 1, 3);
#endif
}

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
    Part parts[DOTS];
    real sums[DOTS];
#pragma GCC unroll 4
    for (int r = 0; r < DOTS; r++) acc[r] += more[r];
    sum_parts(acc, parts);
    bool whole = k == n && out_step == 1 && i + DOTS <= rows;
#pragma GCC unroll 2
    for (int r = 0; r < DOTS; r += NUMBERS)
      *(LoosePart *)(whole ? out + i + r : &sums[r]) = totals(parts + r);
    if (whole) continue;
    for (; k < n; k++)
#pragma GCC unroll 4
      for (int r = 0; r < DOTS; r++) sums[r] += row[r][k] * x[k];
    for (int r = 0; r < DOTS && i + r < rows; r++) out[(i + r) * out_step] = sums[r];
  }
}

#if TLK_COMPLEX_PRODUCTS
#define PANEL_LOOPS \
  { LANES, ROWS, VECTORS, tile, join, finish, dots }
#else
#define PANEL_LOOPS \
  { LANES, ROWS, VECTORS, tile, finish, dots }
#endif
