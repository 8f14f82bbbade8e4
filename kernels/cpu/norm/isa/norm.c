/*
** norm.c - normalisation of rows: mean and variance in two passes over a row that is in the
** cache, with sums in double.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

#define LANES 16

/* Sums `term`, an expression in arrays a, b, c, over a row: four elements at a time in the
** row's type, then in double. Unused arrays may be NULL. */
#define SUM(name, type, term)                                                                      \
  static inline type term_##name(const type *a, const type *b, const type *c, type m, int64_t i) { \
    (void)a, (void)b, (void)c, (void)m;                                                            \
    return term;                                                                                   \
  }                                                                                                \
  static double sum_##name(int64_t n, const type *a, const type *b, const type *c, type m) {       \
    double lane[LANES] = {0};                                                                      \
    int64_t i = 0;                                                                                 \
    for (; i + 4 * LANES <= n; i += 4 * LANES)                                                     \
      for (int k = 0; k < LANES; k++)                                                              \
        lane[k] += (term_##name(a, b, c, m, i + k) + term_##name(a, b, c, m, i + k + LANES)) +     \
                   (term_##name(a, b, c, m, i + k + 2 * LANES) +                                   \
                    term_##name(a, b, c, m, i + k + 3 * LANES));                                   \
    for (; i + LANES <= n; i += LANES)                                                             \
      for (int k = 0; k < LANES; k++) lane[k] += term_##name(a, b, c, m, i + k);                   \
    for (int half = LANES / 2; half > 0; half /= 2)                                                \
      for (int k = 0; k < half; k++) lane[k] += lane[k + half];                                    \
    double total = lane[0];                                                                        \
    for (; i < n; i++) total += term_##name(a, b, c, m, i);                                        \
    return total;                                                                                  \
  }

#define NORM(s, type)                                                                             \
  SUM(plain_##s, type, a[i])                                                                      \
  SUM(square_##s, type, (a[i] - m) * (a[i] - m))                                                  \
  SUM(product_##s, type, a[i] * b[i])                                                             \
  SUM(apart_##s, type, a[i] * (b[i] - m))                                                         \
  SUM(weighted_##s, type, a[i] * c[i] * (b[i] - m))                                               \
  static void row_##s(int64_t n, const void *in, void *out, const void *weight, const void *bias, \
                      double eps, bool shift, double *mean, double *rstd) {                       \
    const type *x = in;                                                                           \
    const type *w = weight;                                                                       \
    const type *b = bias;                                                                         \
    type *y = out;                                                                                \
    double count = (double)n;                                                                     \
    *mean = shift ? sum_plain_##s(n, x, NULL, NULL, 0) / count : 0;                               \
    type m = (type)*mean;                                                                         \
    double rest = *mean - (double)m;                                                              \
    double variance = sum_square_##s(n, x, NULL, NULL, m) / count - rest * rest;                  \
    *rstd = 1 / sqrt(variance + eps);                                                             \
    type scale = (type)*rstd;                                                                     \
    if (w != NULL && b != NULL) {                                                                 \
      TLK_IVDEP                                                                                   \
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * scale * w[i] + b[i];                    \
    } else if (w != NULL) {                                                                       \
      TLK_IVDEP                                                                                   \
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * scale * w[i];                           \
    } else {                                                                                      \
      TLK_IVDEP                                                                                   \
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * scale + (b != NULL ? b[i] : 0);         \
    }                                                                                             \
  }                                                                                               \
  /* With h = (x - mean) rstd and u = grad * weight:                                            \
  ** rstd (u - mean of u - h * mean of u h). */ \
  static void row_back_##s(int64_t n, const void *grad, const void *in, const void *weight,       \
                           double mean, double rstd, bool shift, void *grad_in) {                 \
    const type *g = grad;                                                                         \
    const type *x = in;                                                                           \
    const type *w = weight;                                                                       \
    type *to = grad_in;                                                                           \
    type m = (type)mean;                                                                          \
    double plain =                                                                                \
        w != NULL ? sum_product_##s(n, g, w, NULL, 0) : sum_plain_##s(n, g, NULL, NULL, 0);       \
    double along = w != NULL ? sum_weighted_##s(n, g, x, w, m) : sum_apart_##s(n, g, x, NULL, m); \
    type offset = shift ? (type)(plain * rstd / (double)n) : 0;                                   \
    type slope = (type)(along * rstd * rstd * rstd / (double)n);                                  \
    type scale = (type)rstd;                                                                      \
    if (w != NULL) {                                                                              \
      TLK_IVDEP                                                                                   \
      for (int64_t i = 0; i < n; i++) to[i] = g[i] * w[i] * scale - offset - (x[i] - m) * slope;  \
    } else {                                                                                      \
      TLK_IVDEP                                                                                   \
      for (int64_t i = 0; i < n; i++) to[i] = g[i] * scale - offset - (x[i] - m) * slope;         \
    }                                                                                             \
  }                                                                                               \
  static void weight_back_##s(int64_t rows, int64_t n, const void *grad, const void *in,          \
                              const double *mean, const double *rstd, double *grad_weight,        \
                              double *grad_bias) {                                                \
    const type *g = grad;                                                                         \
    const type *x = in;                                                                           \
    type m[4], scale[4];                                                                          \
    for (int k = 0; k < rows; k++) {                                                              \
      m[k] = (type)mean[k];                                                                       \
      scale[k] = (type)rstd[k];                                                                   \
    }                                                                                             \
    if (rows == 4 && grad_weight != NULL && grad_bias != NULL) {                                  \
      TLK_IVDEP                                                                                   \
      for (int64_t i = 0; i < n; i++) {                                                           \
        type g0 = g[i], g1 = g[i + n], g2 = g[i + 2 * n], g3 = g[i + 3 * n];                      \
        grad_bias[i] += (double)((g0 + g1) + (g2 + g3));                                          \
        grad_weight[i] +=                                                                         \
            (double)((g0 * ((x[i] - m[0]) * scale[0]) + g1 * ((x[i + n] - m[1]) * scale[1])) +    \
                     (g2 * ((x[i + 2 * n] - m[2]) * scale[2]) +                                   \
                      g3 * ((x[i + 3 * n] - m[3]) * scale[3])));                                  \
      }                                                                                           \
      return;                                                                                     \
    }                                                                                             \
    for (int k = 0; k < rows; k++) {                                                              \
      if (grad_bias != NULL) {                                                                    \
        TLK_IVDEP                                                                                 \
        for (int64_t i = 0; i < n; i++) grad_bias[i] += (double)g[i + k * n];                     \
      }                                                                                           \
      if (grad_weight != NULL) {                                                                  \
        TLK_IVDEP                                                                                 \
        for (int64_t i = 0; i < n; i++)                                                           \
          grad_weight[i] += (double)(g[i + k * n] * ((x[i + k * n] - m[k]) * scale[k]));          \
      }                                                                                           \
    }                                                                                             \
  }

NORM(f32, float)
NORM(f64, double)

extern const tlk_Norm TLK_ISA_NAME(tlk_norm)[2];
const tlk_Norm TLK_ISA_NAME(tlk_norm)[2] = {
    {row_f32, row_back_f32, weight_back_f32},
    {row_f64, row_back_f64, weight_back_f64},
};
