/*
** cross_entropy_loops.h - log-sum-exp and its gradient: cross_entropy_<type>.c defines `real` and
** includes this file. The maximum is subtracted first, so that nothing overflows; an infinite
** maximum gives NaN. The log-sum-exp is a double. It is split into two floats before it is
** subtracted from a float, so that no digits are lost even if the maximum is large.
*/
#include "kernels/cpu/loss/cross_entropy.h"

#include "kernels/math.h"

#define LANES 16

static real largest(int64_t n, const real *x) {
  real best = x[0];
  for (int64_t i = 1; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

static double row_norm(int64_t n, const void *data) {
  const real *x = data;
  real m = largest(n, x);
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) lane[k] += (double)exp(x[i + k] - m);
  real tail[LANES];
  for (int k = 0; k < LANES; k++) tail[k] = i + k < n ? x[i + k] : -(real)INFINITY;
  for (int k = 0; k < LANES; k++) lane[k] += (double)exp(tail[k] - m);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int k = 0; k < half; k++) lane[k] += lane[k + half];
  return (double)m + log(lane[0]);
}

static void row_back(int64_t n, const void *data, double norm, double factor, void *to) {
  const real *x = data;
  real *out = to;
  real high = (real)norm, low = (real)(norm - (double)high), f = (real)factor;
  TLK_IVDEP
  for (int64_t i = 0; i < n; i++) out[i] = exp(x[i] - high - low) * f;
}

static void strip_norm(int64_t classes, int64_t cols, int64_t step, const void *data,
                       double *norm) {
  const real *x = data;
  real m[TLK_CLASS_COLS];
  double sum[TLK_CLASS_COLS];
  for (int64_t i = 0; i < cols; i++) m[i] = x[i], sum[i] = 0;
  for (int64_t c = 1; c < classes; c++)
    for (int64_t i = 0; i < cols; i++) m[i] = x[c * step + i] > m[i] ? x[c * step + i] : m[i];
  for (int64_t c = 0; c < classes; c++)
    for (int64_t i = 0; i < cols; i++) sum[i] += (double)exp(x[c * step + i] - m[i]);
  for (int64_t i = 0; i < cols; i++) norm[i] = (double)m[i] + log(sum[i]);
}

static void strip_back(int64_t classes, int64_t cols, int64_t step, const void *data,
                       const double *norm, const void *factors, void *to) {
  const real *x = data, *factor = factors;
  real *out = to, high[TLK_CLASS_COLS], low[TLK_CLASS_COLS];
  for (int64_t i = 0; i < cols; i++)
    high[i] = (real)norm[i], low[i] = (real)(norm[i] - (double)high[i]);
  for (int64_t c = 0; c < classes; c++) {
    TLK_IVDEP
    for (int64_t i = 0; i < cols; i++)
      out[c * step + i] = exp(x[c * step + i] - high[i] - low[i]) * factor[i];
  }
}

#define CROSS_ENTROPY_LOOPS \
  { row_norm, row_back, strip_norm, strip_back }
