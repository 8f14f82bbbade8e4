/*
** gates_loops.h - the gates of recurrent layers and their derivatives, each computed in one pass
** over a row. gates_<type>.c defines `real` and includes this file.
*/
#include "kernels/cpu/rnn/layer.h"

#include "kernels/math.h"

/* Returns tanh(x). It is computed from expm1, so that the result keeps all digits near 0. */
static inline float tanh_f32(float x) {
  float m = expm1(-2 * fabs(x));
  return copysign(m / (m + 2), x);
}
static inline double tanh_f64(double x) { return tanh(x); }
#define TANH(x) _Generic((x), float : tanh_f32, double : tanh_f64)(x)

static inline real sigmoid(real x) { return 1 / (1 + exp(-x)); }

static void add(int64_t n, void *to_, const void *a_, const void *b_) {
  real *to = to_;
  const real *a = a_, *b = b_;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) to[k] = a[k] + b[k];
}

static void relu(int64_t n, void *gates, const void *bias) {
  real *x = gates;
  const real *b = bias;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) {
    real y = x[k] + b[k];
    x[k] = y < 0 ? 0 : y;
  }
}

static void tanh_row(int64_t n, void *gates, const void *bias) {
  real *x = gates;
  const real *b = bias;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) x[k] = TANH(x[k] + b[k]);
}

static void lstm(int64_t n, void *gates, const void *bias, const void *cell_before, void *cell,
                 void *tanh_cell, void *out) {
  real *x = gates, *c = cell, *tc = tanh_cell, *h = out;
  const real *b = bias, *before = cell_before;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) {
    real in = sigmoid(x[k] + b[k]), forget = sigmoid(x[k + n] + b[k + n]);
    real candidate = TANH(x[k + 2 * n] + b[k + 2 * n]);
    real open = sigmoid(x[k + 3 * n] + b[k + 3 * n]);
    real now = forget * before[k] + in * candidate;
    real t = TANH(now);
    x[k] = in, x[k + n] = forget, x[k + 2 * n] = candidate, x[k + 3 * n] = open;
    c[k] = now, tc[k] = t, h[k] = open * t;
  }
}

static void gru(int64_t n, void *gates, const void *bias, const void *before, void *out) {
  real *x = gates, *y = out;
  const real *b = bias, *h = before;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) {
    real reset = sigmoid(x[k + n] + b[k + n]);
    real update = sigmoid(x[k + 2 * n] + b[k + 2 * n]);
    real state = x[k + 3 * n] + b[k + 3 * n];
    real candidate = TANH(x[k] + b[k] + reset * state);
    x[k] = candidate, x[k + n] = reset, x[k + 2 * n] = update, x[k + 3 * n] = state;
    y[k] = candidate + update * (h[k] - candidate);
  }
}

static void relu_back(int64_t n, void *grad, const void *out, const void *grad_state,
                      const void *grad_out) {
  real *d = grad;
  const real *h = out, *gs = grad_state, *go = grad_out;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) {
    real g = gs[k] + go[k];
    d[k] = h[k] <= 0 ? 0 : g;
  }
}

static void tanh_back(int64_t n, void *grad, const void *out, const void *grad_state,
                      const void *grad_out) {
  real *d = grad;
  const real *h = out, *gs = grad_state, *go = grad_out;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) d[k] = (gs[k] + go[k]) * (1 - h[k] * h[k]);
}

static void lstm_back(int64_t n, void *grad, const void *gates, const void *cell_before,
                      const void *tanh_cell, const void *grad_state, const void *grad_out,
                      void *grad_cell) {
  real *d = grad, *gc = grad_cell;
  const real *x = gates, *before = cell_before, *tc = tanh_cell;
  const real *gs = grad_state, *go = grad_out;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) {
    real in = x[k], forget = x[k + n], candidate = x[k + 2 * n], open = x[k + 3 * n];
    real g = gs[k] + go[k], t = tc[k];
    real cell = gc[k] + g * open * (1 - t * t);
    d[k] = cell * candidate * ((1 - in) * in);
    d[k + n] = cell * before[k] * ((1 - forget) * forget);
    d[k + 2 * n] = cell * in * (1 - candidate * candidate);
    d[k + 3 * n] = g * t * ((1 - open) * open);
    gc[k] = cell * forget;
  }
}

static void gru_back(int64_t n, void *grad, const void *gates, const void *before, void *grad_state,
                     const void *grad_out) {
  real *d = grad, *gs = grad_state;
  const real *x = gates, *h = before, *go = grad_out;
  TLK_IVDEP
  for (int64_t k = 0; k < n; k++) {
    real candidate = x[k], reset = x[k + n], update = x[k + 2 * n], state = x[k + 3 * n];
    real g = gs[k] + go[k];
    real to_new = g * (1 - update) * (1 - candidate * candidate);
    d[k] = to_new;
    d[k + n] = to_new * state * ((1 - reset) * reset);
    d[k + 2 * n] = g * (h[k] - candidate) * ((1 - update) * update);
    d[k + 3 * n] = to_new * reset;
    gs[k] = g * update;
  }
}

#define GATES_LOOPS \
  { relu, tanh_row, lstm, gru, relu_back, tanh_back, lstm_back, gru_back, add }
