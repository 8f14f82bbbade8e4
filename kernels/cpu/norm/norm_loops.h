/*
** norm_loops.h - normalisation of rows. Two passes over a row, which stays in the cache, compute
** the mean and the variance with sums in double. norm_<type>.c defines `real` and includes this
** file.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

#define LANES 16

/* Computes term i of a sum over rows a, b and c. A row that the function does not use may be
** NULL. */
typedef real Term(const real *a, const real *b, const real *c, real m, int64_t i);

static real plain(const real *a, const real *b, const real *c, real m, int64_t i) {
  (void)b, (void)c, (void)m;
  return a[i];
}
static real square(const real *a, const real *b, const real *c, real m, int64_t i) {
  (void)b, (void)c;
  return (a[i] - m) * (a[i] - m);
}
static real product(const real *a, const real *b, const real *c, real m, int64_t i) {
  (void)c, (void)m;
  return a[i] * b[i];
}
static real apart(const real *a, const real *b, const real *c, real m, int64_t i) {
  (void)c;
  return a[i] * (b[i] - m);
}
static real weighted(const real *a, const real *b, const real *c, real m, int64_t i) {
  return a[i] * c[i] * (b[i] - m);
}

/* Sums `term` over a row. Each group of four elements is summed in the type of the row, and the
** groups are summed in double. Callers pass a constant for `term`, for which the inlined function
** is optimised. */
static inline __attribute__((always_inline)) double sum_of(Term *term, int64_t n, const real *a,
                                                           const real *b, const real *c, real m) {
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES)
    for (int k = 0; k < LANES; k++)
      lane[k] += (term(a, b, c, m, i + k) + term(a, b, c, m, i + k + LANES)) +
                 (term(a, b, c, m, i + k + 2 * LANES) + term(a, b, c, m, i + k + 3 * LANES));
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += term(a, b, c, m, i + k);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  double total = lane[0];
  for (; i < n; i++) total += term(a, b, c, m, i);
  return total;
}

static void row(int64_t n, const void *in, void *out, const void *weight, const void *bias,
                double eps, bool shift, double *mean, double *rstd) {
  const real *x = in;
  const real *w = weight;
  const real *b = bias;
  real *y = out;
  double count = (double)n;
  *mean = shift ? sum_of(plain, n, x, NULL, NULL, 0) / count : 0;
  real m = (real)*mean;
  double rest = *mean - (double)m;
  double variance = sum_of(square, n, x, NULL, NULL, m) / count - rest * rest;
  *rstd = 1 / sqrt(variance + eps);
  real scale = (real)*rstd;
  if (w != NULL && b != NULL) {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * scale * w[i] + b[i];
  } else if (w != NULL) {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * scale * w[i];
  } else {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * scale + (b != NULL ? b[i] : 0);
  }
}

/* Computes the gradient of the input: rstd * (u - mean(u) - h * mean(u * h)), where h = (x - mean)
** * rstd and u = grad * weight. */
static void row_back(int64_t n, const void *grad, const void *in, const void *weight, double mean,
                     double rstd, bool shift, void *grad_in) {
  const real *g = grad;
  const real *x = in;
  const real *w = weight;
  real *to = grad_in;
  real m = (real)mean;
  double total = w != NULL ? sum_of(product, n, g, w, NULL, 0) : sum_of(plain, n, g, NULL, NULL, 0);
  double along = w != NULL ? sum_of(weighted, n, g, x, w, m) : sum_of(apart, n, g, x, NULL, m);
  real offset = shift ? (real)(total * rstd / (double)n) : 0;
  real slope = (real)(along * rstd * rstd * rstd / (double)n);
  real scale = (real)rstd;
  if (w != NULL) {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) to[i] = g[i] * w[i] * scale - offset - (x[i] - m) * slope;
  } else {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) to[i] = g[i] * scale - offset - (x[i] - m) * slope;
  }
}

static void weight_back(int64_t rows, int64_t n, const void *grad, const void *in,
                        const double *mean, const double *rstd, double *grad_weight,
                        double *grad_bias) {
  const real *g = grad;
  const real *x = in;
  real m[4], scale[4];
  for (int k = 0; k < rows; k++) {
    m[k] = (real)mean[k];
    scale[k] = (real)rstd[k];
  }
  if (rows == 4 && grad_weight != NULL && grad_bias != NULL) {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) {
      real g0 = g[i], g1 = g[i + n], g2 = g[i + 2 * n], g3 = g[i + 3 * n];
      grad_bias[i] += (double)((g0 + g1) + (g2 + g3));
      grad_weight[i] +=
          (double)((g0 * ((x[i] - m[0]) * scale[0]) + g1 * ((x[i + n] - m[1]) * scale[1])) +
                   (g2 * ((x[i + 2 * n] - m[2]) * scale[2]) +
                    g3 * ((x[i + 3 * n] - m[3]) * scale[3])));
    }
    return;
  }
  for (int k = 0; k < rows; k++) {
    if (grad_bias != NULL) {
      TLK_IVDEP
      for (int64_t i = 0; i < n; i++) grad_bias[i] += (double)g[i + k * n];
    }
    if (grad_weight != NULL) {
      TLK_IVDEP
      for (int64_t i = 0; i < n; i++)
        grad_weight[i] += (double)(g[i + k * n] * ((x[i + k * n] - m[k]) * scale[k]));
    }
  }
}

#define NORM_LOOPS \
  { row, row_back, weight_back }
