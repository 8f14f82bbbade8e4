/*
** channels.c - sums over channels, and scaling. Vector lanes of the data's type sum SPAN
** elements and are then added to a double, so that the error does not grow with n.
*/
#include "kernels/cpu/norm/channels.h"

#define LANES 32
#define SPAN (32 * LANES)

/* Sums an expression over n elements; it uses the index i and has the data's type. */
#define SUM(type, n, total, ...)                                           \
  do {                                                                     \
    for (int64_t at_ = 0; at_ < (n); at_ += SPAN) {                        \
      int64_t end_ = at_ + SPAN < (n) ? at_ + SPAN : (n), i = at_;         \
      type lane_[LANES] = {0};                                             \
      for (; i + LANES <= end_; i += LANES)                                \
        for (int k_ = 0; k_ < LANES; k_++) {                               \
          int64_t e = i + k_;                                              \
          lane_[k_] += __VA_ARGS__;                                        \
        }                                                                  \
      for (int k_ = 0; i < end_; i++, k_++) {                              \
        int64_t e = i;                                                     \
        lane_[k_] += __VA_ARGS__;                                          \
      }                                                                    \
      for (int half_ = LANES / 2; half_ > 0; half_ /= 2)                   \
        for (int k_ = 0; k_ < half_; k_++) lane_[k_] += lane_[k_ + half_]; \
      (total) += (double)lane_[0];                                         \
    }                                                                      \
  } while (0)

#define CHANNELS(s, type)                                                                       \
  static double sum_##s(int64_t n, const void *data) {                                          \
    const type *x = data;                                                                       \
    double total = 0;                                                                           \
    SUM(type, n, total, x[e]);                                                                  \
    return total;                                                                               \
  }                                                                                             \
  static double deviation_##s(int64_t n, const void *data, double mean) {                       \
    const type *x = data;                                                                       \
    type m = (type)mean;                                                                        \
    double rest = mean - (double)m, total = 0;                                                  \
    SUM(type, n, total, (x[e] - m) * (x[e] - m));                                               \
    total -= (double)n * rest * rest;                                                           \
    return total > 0 ? total : total < 0 ? 0 : total;                                           \
  }                                                                                             \
  static void products_##s(int64_t n, const void *grad, const void *data, double mean,          \
                           double *sum, double *product) {                                      \
    const type *x = data, *g = grad;                                                            \
    type m = (type)mean;                                                                        \
    double first = 0, second = 0;                                                               \
    SUM(type, n, first, g[e]);                                                                  \
    SUM(type, n, second, g[e] * (x[e] - m));                                                    \
    *sum += first;                                                                              \
    *product += second;                                                                         \
  }                                                                                             \
  static void affine_##s(int64_t n, void *to, const void *data, double mean, double scale,      \
                         double shift, const void *other, double factor) {                      \
    type *out = to;                                                                             \
    const type *x = data, *y = other;                                                           \
    type m = (type)mean, a = (type)scale, b = (type)shift, f = (type)factor;                    \
    if (y == NULL) {                                                                            \
      TLK_IVDEP                                                                                 \
      for (int64_t i = 0; i < n; i++) out[i] = (x[i] - m) * a + b;                              \
    } else {                                                                                    \
      TLK_IVDEP                                                                                 \
      for (int64_t i = 0; i < n; i++) out[i] = (x[i] - m) * a + b + y[i] * f;                   \
    }                                                                                           \
  }                                                                                             \
  static void row_sum_##s(int64_t n, const void *data, double *sum) {                           \
    const type *x = data;                                                                       \
    TLK_IVDEP                                                                                   \
    for (int64_t i = 0; i < n; i++) sum[i] += (double)x[i];                                     \
  }                                                                                             \
  static void row_deviation_##s(int64_t n, const void *data, const double *mean, double *sum) { \
    const type *x = data;                                                                       \
    TLK_IVDEP                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                           \
      double d = (double)x[i] - mean[i];                                                        \
      sum[i] += d * d;                                                                          \
    }                                                                                           \
  }                                                                                             \
  static void row_products_##s(int64_t n, const void *grad, const void *data, const void *mean, \
                               double *sum, double *product) {                                  \
    const type *x = data, *g = grad, *m = mean;                                                 \
    TLK_IVDEP                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                           \
      sum[i] += (double)g[i];                                                                   \
      product[i] += (double)(g[i] * (x[i] - m[i]));                                             \
    }                                                                                           \
  }                                                                                             \
  static void row_affine_##s(int64_t n, void *to, const void *data, const void *mean,           \
                             const void *scale, const void *shift, const void *other,           \
                             const void *factor) {                                              \
    type *out = to;                                                                             \
    const type *x = data, *y = other, *m = mean, *a = scale, *b = shift, *f = factor;           \
    TLK_IVDEP                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                           \
      type moved = (x[i] - (m ? m[i] : 0)) * a[i] + (b ? b[i] : 0);                             \
      out[i] = moved + (y ? y[i] * f[i] : 0);                                                   \
    }                                                                                           \
  }

CHANNELS(f32, float)
CHANNELS(f64, double)

#define LOOPS(s)                                                                      \
  {                                                                                   \
    sum_##s, deviation_##s, products_##s, affine_##s, row_sum_##s, row_deviation_##s, \
        row_products_##s, row_affine_##s                                              \
  }

extern const tlk_ChannelLoops TLK_ISA_NAME(tlk_channel_loops)[2];
const tlk_ChannelLoops TLK_ISA_NAME(tlk_channel_loops)[2] = {LOOPS(f32), LOOPS(f64)};
