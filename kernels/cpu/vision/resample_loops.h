/*
** resample_loops.h - resampling along one dimension: resample_<type>.c defines `real` and includes
** this file.
*/
#include "kernels/cpu/vision/resample.h"

static void row(int64_t n, int64_t terms, const int32_t *at, const void *weights, const void *in,
                void *out) {
  const real *w = weights, *x = in;
  real *restrict to = out;
  int64_t t = terms % 2;
  if (t || terms == 0)
    for (int64_t c = 0; c < n; c++) to[c] = t ? w[0] * x[at[0] * n + c] : 0;
  for (; t < terms; t += 2) {
    const real *a = x + at[t] * n, *b = x + at[t + 1] * n, p = w[t], q = w[t + 1];
    if (t == 0)
      for (int64_t c = 0; c < n; c++) to[c] = p * a[c] + q * b[c];
    else
      for (int64_t c = 0; c < n; c++) to[c] += p * a[c] + q * b[c];
  }
}

/* Computes a line whose elements are all sums of `terms` terms. Callers pass a constant for
** `terms`, for which the inlined function is optimised. */
static inline __attribute__((always_inline)) void
even(int64_t n, int terms, const int32_t *at, const real *w, const real *x, real *restrict to) {
  for (int64_t i = 0; i < n; i++) {
    real sum = w[i * terms] * x[at[i * terms]];
    for (int t = 1; t < terms; t++) sum += w[i * terms + t] * x[at[i * terms + t]];
    to[i] = sum;
  }
}

static void line(int64_t n, int64_t terms, const int32_t *first, const int32_t *at,
                 const void *weights, const void *in, void *out) {
  const real *w = weights, *x = in;
  real *to = out;
  switch (terms) {
  case 1: even(n, 1, at, w, x, to); return;
  case 2: even(n, 2, at, w, x, to); return;
  case 4: even(n, 4, at, w, x, to); return;
  }
  for (int64_t i = 0; i < n; i++) {
    real sum = 0;
    for (int32_t t = first[i]; t < first[i + 1]; t++) sum += w[t] * x[at[t]];
    to[i] = sum;
  }
}
