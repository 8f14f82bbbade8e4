/*
** softmax_loops.h - softmax and log-softmax along rows and along columns, and their gradients:
** softmax_<type>.c defines `real` and includes this file. The maximum is subtracted first, so
** nothing overflows. Partial sums in vector lanes are added to a double after every SPAN elements,
** so that the rounding error does not grow with n.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

#define LANES 32
/* Unrolls a loop that adds up the lanes of a vector by halving their number, from LANES / 2 down to
** 1, which takes 5 iterations. */
#define UNROLL _Pragma("GCC unroll 5")
#define SPAN (64 * LANES)

static double fold(real *lane) {
  UNROLL
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  return (double)lane[0];
}

/* Returns the maximum of a row. The maximum may ignore NaN, because exp(x - largest) is NaN again
** for such elements. */
static real largest(int64_t n, const real *x) {
  real best = x[0];
  int64_t i = 0;
  if (n >= LANES) {
    real lane[LANES];
    for (int k = 0; k < LANES; k++) lane[k] = x[k];
    for (i = LANES; i + LANES <= n; i += LANES)
      for (int k = 0; k < LANES; k++) lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    UNROLL
    for (int half = LANES / 2; half > 0; half /= 2)
      for (int k = 0; k < half; k++) lane[k] = lane[k + half] > lane[k] ? lane[k + half] : lane[k];
    best = lane[0];
  }
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

static inline void exp_lanes(const real *x, real m, real *e) {
  for (int k = 0; k < LANES; k++) e[k] = exp(x[k] - m);
}

/* Returns the sum of the exponentials exp(x - m), and stores them in `out` unless it is NULL. The
** last elements of a row are padded to a whole vector. */
static double exponentials(int64_t n, const real *x, real m, real *out) {
  double sum = 0;
  real lane[LANES], e[LANES];
  for (int64_t at = 0; at < n; at += SPAN) {
    int64_t end = at + SPAN < n ? at + SPAN : n;
    int64_t i = at;
    for (int k = 0; k < LANES; k++) lane[k] = 0;
    for (; i + LANES <= end; i += LANES) {
      exp_lanes(x + i, m, e);
      for (int k = 0; k < LANES; k++) lane[k] += e[k];
      if (out != NULL) memcpy(out + i, e, sizeof e);
    }
    if (i < end) {
      real pad[LANES];
      for (int k = 0; k < LANES; k++) pad[k] = -(real)INFINITY;
      memcpy(pad, x + i, (size_t)(end - i) * sizeof(real));
      exp_lanes(pad, m, e);
      for (int k = 0; k < LANES; k++) lane[k] += e[k];
      if (out != NULL) memcpy(out + i, e, (size_t)(end - i) * sizeof(real));
    }
    sum += fold(lane);
  }
  return sum;
}

static void softmax_rows(bool logarithm, int64_t rows, int64_t n, const void *in, void *out) {
  for (int64_t r = 0; r < rows; r++) {
    const real *x = (const real *)in + r * n;
    real *y = (real *)out + r * n;
    real m = largest(n, x);
    double sum = exponentials(n, x, m, logarithm ? NULL : y);
    if (logarithm) {
      real shift = (real)log(sum);
      TLK_IVDEP
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) - shift;
    } else {
      real scale = (real)(1 / sum);
      for (int64_t i = 0; i < n; i++) y[i] *= scale;
    }
  }
}

static void softmax_columns(bool logarithm, int64_t n, int64_t cols, const void *in,
                            int64_t in_step, void *out, int64_t out_step) {
  const real *x = in;
  real *y = out;
  real m[TLK_SOFTMAX_COLS], shift[TLK_SOFTMAX_COLS];
  double sum[TLK_SOFTMAX_COLS];
  for (int64_t c = 0; c < cols; c++) {
    m[c] = x[c];
    sum[c] = 0;
  }
  for (int64_t i = 1; i < n; i++) {
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) m[c] = x[i * in_step + c] > m[c] ? x[i * in_step + c] : m[c];
  }
  for (int64_t i = 0; i < n; i++) {
    if (logarithm) {
      TLK_IVDEP
      for (int64_t c = 0; c < cols; c++) sum[c] += (double)exp(x[i * in_step + c] - m[c]);
    } else {
      TLK_IVDEP
      for (int64_t c = 0; c < cols; c++) {
        real e = exp(x[i * in_step + c] - m[c]);
        y[i * out_step + c] = e;
        sum[c] += (double)e;
      }
    }
  }
  for (int64_t c = 0; c < cols; c++) shift[c] = (real)(logarithm ? log(sum[c]) : 1 / sum[c]);
  for (int64_t i = 0; i < n; i++) {
    if (logarithm) {
      TLK_IVDEP
      for (int64_t c = 0; c < cols; c++)
        y[i * out_step + c] = (x[i * in_step + c] - m[c]) - shift[c];
    } else {
      TLK_IVDEP
      for (int64_t c = 0; c < cols; c++) y[i * out_step + c] *= shift[c];
    }
  }
}

/* Returns the sum that the gradient of a row needs: the sum of g * y for softmax, of g for
** log-softmax. */
static double weight(bool logarithm, int64_t n, const real *g, const real *y) {
  double sum = 0;
  int64_t i = 0;
  while (i + LANES <= n) {
    real lane[LANES] = {0};
    int64_t end = i + SPAN < n ? i + SPAN : n;
    for (; i + LANES <= end; i += LANES) {
      if (logarithm)
        for (int k = 0; k < LANES; k++) lane[k] += g[i + k];
      else
        for (int k = 0; k < LANES; k++) lane[k] += g[i + k] * y[i + k];
    }
    sum += fold(lane);
  }
  for (; i < n; i++) sum += (double)(logarithm ? g[i] : g[i] * y[i]);
  return sum;
}

static void softmax_rows_back(bool logarithm, int64_t rows, int64_t n, const void *grad,
                              const void *out, void *grad_in) {
  for (int64_t r = 0; r < rows; r++) {
    const real *g = (const real *)grad + r * n;
    const real *y = (const real *)out + r * n;
    real *to = (real *)grad_in + r * n;
    real sum = (real)weight(logarithm, n, g, y);
    if (logarithm) {
      TLK_IVDEP
      for (int64_t i = 0; i < n; i++) to[i] = g[i] - exp(y[i]) * sum;
    } else {
      TLK_IVDEP
      for (int64_t i = 0; i < n; i++) to[i] = (g[i] - sum) * y[i];
    }
  }
}

static void softmax_columns_back(bool logarithm, int64_t n, int64_t cols, const void *grad,
                                 const void *out, int64_t step, void *grad_in, int64_t in_step) {
  double total[TLK_SOFTMAX_COLS];
  real sum[TLK_SOFTMAX_COLS];
  for (int64_t c = 0; c < cols; c++) total[c] = 0;
  for (int64_t i = 0; i < n; i++) {
    const real *g = (const real *)grad + i * step;
    const real *y = (const real *)out + i * step;
    TLK_IVDEP
    for (int64_t c = 0; c < cols; c++) total[c] += (double)(logarithm ? g[c] : g[c] * y[c]);
  }
  for (int64_t c = 0; c < cols; c++) sum[c] = (real)total[c];
  for (int64_t i = 0; i < n; i++) {
    const real *g = (const real *)grad + i * step;
    const real *y = (const real *)out + i * step;
    real *to = (real *)grad_in + i * in_step;
    if (logarithm) {
      TLK_IVDEP
      for (int64_t c = 0; c < cols; c++) to[c] = g[c] - exp(y[c]) * sum[c];
    } else {
      TLK_IVDEP
      for (int64_t c = 0; c < cols; c++) to[c] = (g[c] - sum[c]) * y[c];
    }
  }
}

#define SOFTMAX_LOOPS \
  { softmax_rows, softmax_columns, softmax_rows_back, softmax_columns_back }
