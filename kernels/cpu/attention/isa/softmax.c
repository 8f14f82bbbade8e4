/*
** softmax.c - softmax and log-softmax along rows and along columns, and their gradients. The
** maximum is subtracted first, so nothing overflows. Sums are kept in vector lanes and added to
** a double every SPAN elements, so that their error does not grow with n.
*/
#include "kernels/cpu/cpu.h"
#include "kernels/math.h"

#define LANES 32
#define UNROLL _Pragma("GCC unroll 5") /* unrolls loops that halve the step from LANES / 2 to 1 */
#define SPAN (64 * LANES)

#define SOFTMAX(s, type)                                                                        \
  static double fold_##s(type *lane) {                                                          \
    UNROLL for (int half = LANES / 2; half > 0; half /= 2) for (int k = 0; k < half; k++)       \
        lane[k] += lane[k + half];                                                              \
    return (double)lane[0];                                                                     \
  }                                                                                             \
  /* May ignore NaN, which reappears in exp(x - largest). */                                    \
  static type largest_##s(int64_t n, const type *x) {                                           \
    type best = x[0];                                                                           \
    int64_t i = 0;                                                                              \
    if (n >= LANES) {                                                                           \
      type lane[LANES];                                                                         \
      for (int k = 0; k < LANES; k++) lane[k] = x[k];                                           \
      for (i = LANES; i + LANES <= n; i += LANES)                                               \
        for (int k = 0; k < LANES; k++) lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];      \
      UNROLL for (int half = LANES / 2; half > 0; half /= 2) for (int k = 0; k < half; k++)     \
          lane[k] = lane[k + half] > lane[k] ? lane[k + half] : lane[k];                        \
      best = lane[0];                                                                           \
    }                                                                                           \
    for (; i < n; i++) best = x[i] > best ? x[i] : best;                                        \
    return best;                                                                                \
  }                                                                                             \
  /* out = exp(x - m) unless out is NULL; returns the sum. The tail is padded. */               \
  static inline void exp_lanes_##s(const type *x, type m, type *e) {                            \
    for (int k = 0; k < LANES; k++) e[k] = exp(x[k] - m);                                       \
  }                                                                                             \
  static double exponentials_##s(int64_t n, const type *x, type m, type *out) {                 \
    double sum = 0;                                                                             \
    type lane[LANES], e[LANES];                                                                 \
    for (int64_t at = 0; at < n; at += SPAN) {                                                  \
      int64_t end = at + SPAN < n ? at + SPAN : n;                                              \
      int64_t i = at;                                                                           \
      for (int k = 0; k < LANES; k++) lane[k] = 0;                                              \
      for (; i + LANES <= end; i += LANES) {                                                    \
        exp_lanes_##s(x + i, m, e);                                                             \
        for (int k = 0; k < LANES; k++) lane[k] += e[k];                                        \
        if (out != NULL) memcpy(out + i, e, sizeof e);                                          \
      }                                                                                         \
      if (i < end) {                                                                            \
        type pad[LANES];                                                                        \
        for (int k = 0; k < LANES; k++) pad[k] = -(type)INFINITY;                               \
        memcpy(pad, x + i, (size_t)(end - i) * sizeof(type));                                   \
        exp_lanes_##s(pad, m, e);                                                               \
        for (int k = 0; k < LANES; k++) lane[k] += e[k];                                        \
        if (out != NULL) memcpy(out + i, e, (size_t)(end - i) * sizeof(type));                  \
      }                                                                                         \
      sum += fold_##s(lane);                                                                    \
    }                                                                                           \
    return sum;                                                                                 \
  }                                                                                             \
  static void rows_##s(bool logarithm, int64_t rows, int64_t n, const void *in, void *out) {    \
    for (int64_t r = 0; r < rows; r++) {                                                        \
      const type *x = (const type *)in + r * n;                                                 \
      type *y = (type *)out + r * n;                                                            \
      type m = largest_##s(n, x);                                                               \
      double sum = exponentials_##s(n, x, m, logarithm ? NULL : y);                             \
      if (logarithm) {                                                                          \
        type shift = (type)log(sum);                                                            \
        TLK_IVDEP                                                                               \
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) - shift;                              \
      } else {                                                                                  \
        type scale = (type)(1 / sum);                                                           \
        for (int64_t i = 0; i < n; i++) y[i] *= scale;                                          \
      }                                                                                         \
    }                                                                                           \
  }                                                                                             \
  static void columns_##s(bool logarithm, int64_t n, int64_t cols, const void *in,              \
                          int64_t in_step, void *out, int64_t out_step) {                       \
    const type *x = in;                                                                         \
    type *y = out;                                                                              \
    type m[TLK_SOFTMAX_COLS], shift[TLK_SOFTMAX_COLS];                                          \
    double sum[TLK_SOFTMAX_COLS];                                                               \
    for (int64_t c = 0; c < cols; c++) {                                                        \
      m[c] = x[c];                                                                              \
      sum[c] = 0;                                                                               \
    }                                                                                           \
    for (int64_t i = 1; i < n; i++) {                                                           \
      TLK_IVDEP                                                                                 \
      for (int64_t c = 0; c < cols; c++)                                                        \
        m[c] = x[i * in_step + c] > m[c] ? x[i * in_step + c] : m[c];                           \
    }                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                           \
      if (logarithm) {                                                                          \
        TLK_IVDEP                                                                               \
        for (int64_t c = 0; c < cols; c++) sum[c] += (double)exp(x[i * in_step + c] - m[c]);    \
      } else {                                                                                  \
        TLK_IVDEP                                                                               \
        for (int64_t c = 0; c < cols; c++) {                                                    \
          type e = exp(x[i * in_step + c] - m[c]);                                              \
          y[i * out_step + c] = e;                                                              \
          sum[c] += (double)e;                                                                  \
        }                                                                                       \
      }                                                                                         \
    }                                                                                           \
    for (int64_t c = 0; c < cols; c++) shift[c] = (type)(logarithm ? log(sum[c]) : 1 / sum[c]); \
    for (int64_t i = 0; i < n; i++) {                                                           \
      if (logarithm) {                                                                          \
        TLK_IVDEP                                                                               \
        for (int64_t c = 0; c < cols; c++)                                                      \
          y[i * out_step + c] = (x[i * in_step + c] - m[c]) - shift[c];                         \
      } else {                                                                                  \
        TLK_IVDEP                                                                               \
        for (int64_t c = 0; c < cols; c++) y[i * out_step + c] *= shift[c];                     \
      }                                                                                         \
    }                                                                                           \
  }                                                                                             \
  /* Returns the sum of g * y, or of g for log-softmax. */                                      \
  static double weight_##s(bool logarithm, int64_t n, const type *g, const type *y) {           \
    double sum = 0;                                                                             \
    int64_t i = 0;                                                                              \
    while (i + LANES <= n) {                                                                    \
      type lane[LANES] = {0};                                                                   \
      int64_t end = i + SPAN < n ? i + SPAN : n;                                                \
      for (; i + LANES <= end; i += LANES) {                                                    \
        if (logarithm)                                                                          \
          for (int k = 0; k < LANES; k++) lane[k] += g[i + k];                                  \
        else                                                                                    \
          for (int k = 0; k < LANES; k++) lane[k] += g[i + k] * y[i + k];                       \
      }                                                                                         \
      sum += fold_##s(lane);                                                                    \
    }                                                                                           \
    for (; i < n; i++) sum += (double)(logarithm ? g[i] : g[i] * y[i]);                         \
    return sum;                                                                                 \
  }                                                                                             \
  static void rows_back_##s(bool logarithm, int64_t rows, int64_t n, const void *grad,          \
                            const void *out, void *grad_in) {                                   \
    for (int64_t r = 0; r < rows; r++) {                                                        \
      const type *g = (const type *)grad + r * n;                                               \
      const type *y = (const type *)out + r * n;                                                \
      type *to = (type *)grad_in + r * n;                                                       \
      type sum = (type)weight_##s(logarithm, n, g, y);                                          \
      if (logarithm) {                                                                          \
        TLK_IVDEP                                                                               \
        for (int64_t i = 0; i < n; i++) to[i] = g[i] - exp(y[i]) * sum;                         \
      } else {                                                                                  \
        TLK_IVDEP                                                                               \
        for (int64_t i = 0; i < n; i++) to[i] = (g[i] - sum) * y[i];                            \
      }                                                                                         \
    }                                                                                           \
  }                                                                                             \
  static void columns_back_##s(bool logarithm, int64_t n, int64_t cols, const void *grad,       \
                               const void *out, int64_t step, void *grad_in, int64_t in_step) { \
    double total[TLK_SOFTMAX_COLS];                                                             \
    type sum[TLK_SOFTMAX_COLS];                                                                 \
    for (int64_t c = 0; c < cols; c++) total[c] = 0;                                            \
    for (int64_t i = 0; i < n; i++) {                                                           \
      const type *g = (const type *)grad + i * step;                                            \
      const type *y = (const type *)out + i * step;                                             \
      TLK_IVDEP                                                                                 \
      for (int64_t c = 0; c < cols; c++) total[c] += (double)(logarithm ? g[c] : g[c] * y[c]);  \
    }                                                                                           \
    for (int64_t c = 0; c < cols; c++) sum[c] = (type)total[c];                                 \
    for (int64_t i = 0; i < n; i++) {                                                           \
      const type *g = (const type *)grad + i * step;                                            \
      const type *y = (const type *)out + i * step;                                             \
      type *to = (type *)grad_in + i * in_step;                                                 \
      if (logarithm) {                                                                          \
        TLK_IVDEP                                                                               \
        for (int64_t c = 0; c < cols; c++) to[c] = g[c] - exp(y[c]) * sum[c];                   \
      } else {                                                                                  \
        TLK_IVDEP                                                                               \
        for (int64_t c = 0; c < cols; c++) to[c] = (g[c] - sum[c]) * y[c];                      \
      }                                                                                         \
    }                                                                                           \
  }

SOFTMAX(f32, float)
SOFTMAX(f64, double)

extern const tlk_Softmax TLK_ISA_NAME(tlk_softmax)[2];
const tlk_Softmax TLK_ISA_NAME(tlk_softmax)[2] = {
    {rows_f32, columns_f32, rows_back_f32, columns_back_f32},
    {rows_f64, columns_f64, rows_back_f64, columns_back_f64},
};
