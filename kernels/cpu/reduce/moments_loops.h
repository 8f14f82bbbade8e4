/*
** moments_loops.h - mean and sum of squared deviations: moments_<type>.c defines `real` and
** includes this file. Rows are processed in pieces that stay in the cache. A first pass computes
** the mean of a piece, and a second pass sums the squared deviations from this mean. Pieces are
** merged in double by the formula of Chan, Golub and LeVeque. So no digits are lost by
** cancellation, even if the mean is large. This file also defines the sum of complex numbers.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

#define PIECE 2048 /* number of elements of a row that are processed together */
#define STRIP 64   /* number of columns that are processed together */
#define ROWS 32    /* number of rows of a strip of columns that are processed together */
#define LANES 16   /* number of partial sums into which a row is added, one for each vector lane */

static inline void join_one(tlk_Moments *a, tlk_Moments b) {
  if (a->count == 0) {
    *a = b;
    return;
  }
  double count = a->count + b.count;
  double apart = b.mean - a->mean;
  double share = b.count / count;
  a->mean += apart * share;
  a->deviation += b.deviation + apart * apart * a->count * share;
  a->count = count;
}

static void start(int64_t n, void *acc, const tl_Scalar *params) {
  (void)params;
  tlk_Moments *m = acc;
  for (int64_t i = 0; i < n; i++) m[i] = (tlk_Moments){0, 0, 0};
}

static void join(int64_t n, void *acc, const void *other) {
  for (int64_t i = 0; i < n; i++) join_one((tlk_Moments *)acc + i, ((const tlk_Moments *)other)[i]);
}

typedef real Term(real x, real m);

static real plain(real x, real m) {
  (void)m;
  return x;
}
static real square(real x, real m) { return (x - m) * (x - m); }

/* Sums `term` over a row. Each group of four elements is summed in the type of the row, and the
** groups are summed in double. sums[k] receives the sum of the elements k, k + each, ..., where
** `each` divides n and LANES. Callers pass constants for `term` and `each`, for which the inlined
** function is optimised. */
static inline __attribute__((always_inline)) void sums_of(Term *term, int64_t n, const real *x,
                                                          real m, const int each, double *sums) {
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES)
    for (int k = 0; k < LANES; k++) {
      const real *at = x + i + k;
      lane[k] +=
          (term(at[0], m) + term(at[LANES], m)) + (term(at[2 * LANES], m) + term(at[3 * LANES], m));
    }
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += term(x[i + k], m);
  for (int half = LANES / 2; half >= each; half /= 2)
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  for (; i < n; i += each)
    for (int k = 0; k < each; k++) lane[k] += term(x[i + k], m);
  for (int k = 0; k < each; k++) sums[k] = lane[k];
}

static inline __attribute__((always_inline)) double sum_of(Term *term, int64_t n, const real *x,
                                                           real m) {
  double total;
  sums_of(term, n, x, m, 1, &total);
  return total;
}

static void sum_pairs(int64_t n, const void *x, double *sums) {
  double more[2];
  sums_of(plain, 2 * n, x, 0, 2, more);
  for (int k = 0; k < 2; k++) sums[k] += more[k];
}

static void row(int64_t n, const void *x_, void *acc, const tl_Scalar *params) {
  (void)params;
  const real *x = x_;
  for (int64_t at = 0; at < n; at += PIECE, x += PIECE) {
    int64_t piece = n - at < PIECE ? n - at : PIECE;
    double count = (double)piece;
    double mean = sum_of(plain, piece, x, 0) / count;
    /* `near` is the mean, rounded to the type; the effect of the rounding error `rest` is
    ** subtracted below */
    real near = (real)mean;
    double rest = mean - (double)near;
    double deviation = sum_of(square, piece, x, near) - count * rest * rest;
    join_one(acc, (tlk_Moments){count, mean, deviation});
  }
}

static void strip(int64_t rows, int64_t cols, int64_t stride, const real *x, tlk_Moments *acc) {
  double mean[STRIP], deviation[STRIP];
  for (int64_t c = 0; c < cols; c++) mean[c] = deviation[c] = 0;
  for (int64_t r = 0; r < rows; r++) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) mean[c] += (double)x[r * stride + c];
  }
  for (int64_t c = 0; c < cols; c++) mean[c] /= (double)rows;
  for (int64_t r = 0; r < rows; r++) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) {
      double apart = (double)x[r * stride + c] - mean[c];
      deviation[c] += apart * apart;
    }
  }
  for (int64_t c = 0; c < cols; c++)
    join_one(&acc[c], (tlk_Moments){(double)rows, mean[c], deviation[c]});
}

static void columns(int64_t rows, int64_t cols, int64_t stride, const void *x, void *acc,
                    const tl_Scalar *params) {
  (void)params;
  for (int64_t r = 0; r < rows; r += ROWS)
    for (int64_t c = 0; c < cols; c += STRIP)
      strip(rows - r < ROWS ? rows - r : ROWS, cols - c < STRIP ? cols - c : STRIP, stride,
            (const real *)x + r * stride + c, (tlk_Moments *)acc + c);
}

#define MOMENTS_LOOPS \
  { sizeof(tlk_Moments), false, start, row, columns, join, NULL }
