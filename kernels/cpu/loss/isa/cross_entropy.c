/*
** cross_entropy.c - log-sum-exp and its gradient. The maximum is subtracted first, so nothing
** overflows; an infinite maximum gives NaN. The logarithm is a double, which is subtracted from
** a float as two floats, so its difference from the maximum stays exact even if the maximum is
** large.
*/
#include "kernels/cpu/loss/cross_entropy.h"

#include "kernels/math.h"

#define LANES 16

#define CLASSES(s, type)                                                                         \
  static type largest_##s(int64_t n, const type *x) {                                            \
    type best = x[0];                                                                            \
    for (int64_t i = 1; i < n; i++) best = x[i] > best ? x[i] : best;                            \
    return best;                                                                                 \
  }                                                                                              \
  static double row_norm_##s(int64_t n, const void *data) {                                      \
    const type *x = data;                                                                        \
    type m = largest_##s(n, x);                                                                  \
    double lane[LANES] = {0};                                                                    \
    int64_t i = 0;                                                                               \
    for (; i + LANES <= n; i += LANES)                                                           \
      for (int k = 0; k < LANES; k++) lane[k] += (double)exp(x[i + k] - m);                      \
    type tail[LANES];                                                                            \
    for (int k = 0; k < LANES; k++) tail[k] = i + k < n ? x[i + k] : -(type)INFINITY;            \
    for (int k = 0; k < LANES; k++) lane[k] += (double)exp(tail[k] - m);                         \
    for (int half = LANES / 2; half > 0; half /= 2)                                              \
      for (int k = 0; k < half; k++) lane[k] += lane[k + half];                                  \
    return (double)m + log(lane[0]);                                                             \
  }                                                                                              \
  static void row_back_##s(int64_t n, const void *data, double norm, double factor, void *to) {  \
    const type *x = data;                                                                        \
    type *out = to;                                                                              \
    type high = (type)norm, low = (type)(norm - (double)high), f = (type)factor;                 \
    TLK_IVDEP                                                                                    \
    for (int64_t i = 0; i < n; i++) out[i] = exp(x[i] - high - low) * f;                         \
  }                                                                                              \
  static void strip_norm_##s(int64_t classes, int64_t cols, int64_t step, const void *data,      \
                             double *norm) {                                                     \
    const type *x = data;                                                                        \
    type m[TLK_CLASS_COLS];                                                                      \
    double sum[TLK_CLASS_COLS];                                                                  \
    for (int64_t i = 0; i < cols; i++) m[i] = x[i], sum[i] = 0;                                  \
    for (int64_t c = 1; c < classes; c++)                                                        \
      for (int64_t i = 0; i < cols; i++) m[i] = x[c * step + i] > m[i] ? x[c * step + i] : m[i]; \
    for (int64_t c = 0; c < classes; c++)                                                        \
      for (int64_t i = 0; i < cols; i++) sum[i] += (double)exp(x[c * step + i] - m[i]);          \
    for (int64_t i = 0; i < cols; i++) norm[i] = (double)m[i] + log(sum[i]);                     \
  }                                                                                              \
  static void strip_back_##s(int64_t classes, int64_t cols, int64_t step, const void *data,      \
                             const double *norm, const void *factors, void *to) {                \
    const type *x = data, *factor = factors;                                                     \
    type *out = to, high[TLK_CLASS_COLS], low[TLK_CLASS_COLS];                                   \
    for (int64_t i = 0; i < cols; i++)                                                           \
      high[i] = (type)norm[i], low[i] = (type)(norm[i] - (double)high[i]);                       \
    for (int64_t c = 0; c < classes; c++) {                                                      \
      TLK_IVDEP                                                                                  \
      for (int64_t i = 0; i < cols; i++)                                                         \
        out[c * step + i] = exp(x[c * step + i] - high[i] - low[i]) * factor[i];                 \
    }                                                                                            \
  }

CLASSES(f32, float)
CLASSES(f64, double)

extern const tlk_ClassLoops TLK_ISA_NAME(tlk_class_loops)[2];
const tlk_ClassLoops TLK_ISA_NAME(tlk_class_loops)[2] = {
    {row_norm_f32, row_back_f32, strip_norm_f32, strip_back_f32},
    {row_norm_f64, row_back_f64, strip_norm_f64, strip_back_f64},
};
