/* resample.c - resampling along one dimension. */
#include "kernels/cpu/vision/resample.h"

#define RESAMPLE(s, real)                                                                         \
  static void row_##s(int64_t n, int64_t terms, const int32_t *at, const void *weights,           \
                      const void *in, void *out) {                                                \
    const real *w = weights, *x = in;                                                             \
    real *restrict to = out;                                                                      \
    int64_t t = terms % 2;                                                                        \
    if (t || terms == 0)                                                                          \
      for (int64_t c = 0; c < n; c++) to[c] = t ? w[0] * x[at[0] * n + c] : 0;                    \
    for (; t < terms; t += 2) {                                                                   \
      const real *a = x + at[t] * n, *b = x + at[t + 1] * n, p = w[t], q = w[t + 1];              \
      if (t == 0)                                                                                 \
        for (int64_t c = 0; c < n; c++) to[c] = p * a[c] + q * b[c];                              \
      else                                                                                        \
        for (int64_t c = 0; c < n; c++) to[c] += p * a[c] + q * b[c];                             \
    }                                                                                             \
  }                                                                                               \
  /* `terms` is a constant at each inlined call. */                                               \
  static inline __attribute__((always_inline)) void even_##s(                                     \
      int64_t n, int terms, const int32_t *at, const real *w, const real *x, real *restrict to) { \
    for (int64_t i = 0; i < n; i++) {                                                             \
      real sum = w[i * terms] * x[at[i * terms]];                                                 \
      for (int t = 1; t < terms; t++) sum += w[i * terms + t] * x[at[i * terms + t]];             \
      to[i] = sum;                                                                                \
    }                                                                                             \
  }                                                                                               \
  static void line_##s(int64_t n, int64_t terms, const int32_t *first, const int32_t *at,         \
                       const void *weights, const void *in, void *out) {                          \
    const real *w = weights, *x = in;                                                             \
    real *to = out;                                                                               \
    switch (terms) {                                                                              \
    case 1: even_##s(n, 1, at, w, x, to); return;                                                 \
    case 2: even_##s(n, 2, at, w, x, to); return;                                                 \
    case 4: even_##s(n, 4, at, w, x, to); return;                                                 \
    }                                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                             \
      real sum = 0;                                                                               \
      for (int32_t t = first[i]; t < first[i + 1]; t++) sum += w[t] * x[at[t]];                   \
      to[i] = sum;                                                                                \
    }                                                                                             \
  }
RESAMPLE(f32, float)
RESAMPLE(f64, double)

extern const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_loops)[2];
const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_loops)[2] = {{row_f32, line_f32},
                                                               {row_f64, line_f64}};
