/*
** channels_loops.h - sums over channels, and scaling. channels_<type>.c defines `real` and includes
** this file. Up to SPAN elements are summed in vector lanes of their own type, and this sum is
** added to a double, so that the rounding error does not grow with n.
*/
#include "kernels/cpu/norm/channels.h"

#define LANES 32
#define SPAN (32 * LANES)

typedef real Term(const real *a, const real *b, real m, int64_t i);

static real plain(const real *a, const real *b, real m, int64_t i) {
  (void)b, (void)m;
  return a[i];
}
static real square(const real *a, const real *b, real m, int64_t i) {
  (void)b;
  return (a[i] - m) * (a[i] - m);
}
static real scaled(const real *a, const real *b, real m, int64_t i) { return a[i] * (b[i] - m); }

/* Sums `term` over n elements. Callers pass a constant for `term`, for which the inlined function
** is optimised. */
static inline __attribute__((always_inline)) double sum_of(Term *term, int64_t n, const real *a,
                                                           const real *b, real m) {
  double total = 0;
  for (int64_t at = 0; at < n; at += SPAN) {
    int64_t end = at + SPAN < n ? at + SPAN : n, i = at;
    real lane[LANES] = {0};
    for (; i + LANES <= end; i += LANES)
      for (int k = 0; k < LANES; k++) lane[k] += term(a, b, m, i + k);
    for (int k = 0; i < end; i++, k++) lane[k] += term(a, b, m, i);
    for (int half = LANES / 2; half > 0; half /= 2)
      for (int k = 0; k < half; k++) lane[k] += lane[k + half];
    total += (double)lane[0];
  }
  return total;
}

static double sum(int64_t n, const void *data) { return sum_of(plain, n, data, NULL, 0); }

static double deviation(int64_t n, const void *data, double mean) {
  const real *x = data;
  real m = (real)mean;
  double rest = mean - (double)m, total = sum_of(square, n, x, NULL, m);
  total -= (double)n * rest * rest;
  return total > 0 ? total : total < 0 ? 0 : total;
}

static void products(int64_t n, const void *grad, const void *data, double mean, double *sum,
                     double *product) {
  const real *x = data, *g = grad;
  real m = (real)mean;
  *sum += sum_of(plain, n, g, NULL, 0);
  *product += sum_of(scaled, n, g, x, m);
}

static void affine(int64_t n, void *to, const void *data, double mean, double scale, double shift,
                   const void *other, double factor) {
  real *out = to;
  const real *x = data, *y = other;
  real m = (real)mean, a = (real)scale, b = (real)shift, f = (real)factor;
  if (y == NULL) {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] - m) * a + b;
  } else {
    TLK_IVDEP
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] - m) * a + b + y[i] * f;
  }
}

static void row_sum(int64_t n, const void *data, double *sum) {
  const real *x = data;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) sum[i] += (double)x[i];
}

static void row_deviation(int64_t n, const void *data, const double *mean, double *sum) {
  const real *x = data;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) {
    double d = (double)x[i] - mean[i];
    sum[i] += d * d;
  }
}

static void row_products(int64_t n, const void *grad, const void *data, const void *mean,
                         double *sum, double *product) {
  const real *x = data, *g = grad, *m = mean;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) {
    sum[i] += (double)g[i];
    product[i] += (double)(g[i] * (x[i] - m[i]));
  }
}

static void row_affine(int64_t n, void *to, const void *data, const void *mean, const void *scale,
                       const void *shift, const void *other, const void *factor) {
  real *out = to;
  const real *x = data, *y = other, *m = mean, *a = scale, *b = shift, *f = factor;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) {
    real moved = (x[i] - (m ? m[i] : 0)) * a[i] + (b ? b[i] : 0);
    out[i] = moved + (y ? y[i] * f[i] : 0);
  }
}

#define CHANNELS_LOOPS \
  { sum, deviation, products, affine, row_sum, row_deviation, row_products, row_affine }
