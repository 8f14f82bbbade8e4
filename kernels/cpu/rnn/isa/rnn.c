/*
** rnn.c - the gates of recurrent layers and their derivatives, each in one pass.
*/
#include "kernels/cpu/rnn/layer.h"

#include "kernels/math.h"

/* expm1 keeps all digits near 0. */
static inline float tanh_f32(float x) {
  float m = expm1(-2 * fabs(x));
  return copysign(m / (m + 2), x);
}
static inline double tanh_f64(double x) { return tanh(x); }

#define GATES(s, type)                                                                           \
  static inline type sigmoid_##s(type x) { return 1 / (1 + exp(-x)); }                           \
                                                                                                 \
  static void add_##s(int64_t n, void *to_, const void *a_, const void *b_) {                    \
    type *to = to_;                                                                              \
    const type *a = a_, *b = b_;                                                                 \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) to[k] = a[k] + b[k];                                         \
  }                                                                                              \
  static void relu_##s(int64_t n, void *gates, const void *bias) {                               \
    type *x = gates;                                                                             \
    const type *b = bias;                                                                        \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) {                                                            \
      type y = x[k] + b[k];                                                                      \
      x[k] = y < 0 ? 0 : y;                                                                      \
    }                                                                                            \
  }                                                                                              \
  static void tanh_row_##s(int64_t n, void *gates, const void *bias) {                           \
    type *x = gates;                                                                             \
    const type *b = bias;                                                                        \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) x[k] = tanh_##s(x[k] + b[k]);                                \
  }                                                                                              \
  static void lstm_##s(int64_t n, void *gates, const void *bias, const void *cell_before,        \
                       void *cell, void *tanh_cell, void *out) {                                 \
    type *x = gates, *c = cell, *tc = tanh_cell, *h = out;                                       \
    const type *b = bias, *before = cell_before;                                                 \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) {                                                            \
      type in = sigmoid_##s(x[k] + b[k]), forget = sigmoid_##s(x[k + n] + b[k + n]);             \
      type new = tanh_##s(x[k + 2 * n] + b[k + 2 * n]);                                          \
      type open = sigmoid_##s(x[k + 3 * n] + b[k + 3 * n]);                                      \
      type now = forget * before[k] + in * new;                                                  \
      type t = tanh_##s(now);                                                                    \
      x[k] = in, x[k + n] = forget, x[k + 2 * n] = new, x[k + 3 * n] = open;                     \
      c[k] = now, tc[k] = t, h[k] = open * t;                                                    \
    }                                                                                            \
  }                                                                                              \
  static void gru_##s(int64_t n, void *gates, const void *bias, const void *before, void *out) { \
    type *x = gates, *y = out;                                                                   \
    const type *b = bias, *h = before;                                                           \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) {                                                            \
      type reset = sigmoid_##s(x[k + n] + b[k + n]);                                             \
      type update = sigmoid_##s(x[k + 2 * n] + b[k + 2 * n]);                                    \
      type state = x[k + 3 * n] + b[k + 3 * n];                                                  \
      type new = tanh_##s(x[k] + b[k] + reset * state);                                          \
      x[k] = new, x[k + n] = reset, x[k + 2 * n] = update, x[k + 3 * n] = state;                 \
      y[k] = new + update *(h[k] - new);                                                         \
    }                                                                                            \
  }                                                                                              \
  static void relu_back_##s(int64_t n, void *grad, const void *out, const void *grad_state,      \
                            const void *grad_out) {                                              \
    type *d = grad;                                                                              \
    const type *h = out, *gs = grad_state, *go = grad_out;                                       \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) {                                                            \
      type g = gs[k] + go[k];                                                                    \
      d[k] = h[k] <= 0 ? 0 : g;                                                                  \
    }                                                                                            \
  }                                                                                              \
  static void tanh_back_##s(int64_t n, void *grad, const void *out, const void *grad_state,      \
                            const void *grad_out) {                                              \
    type *d = grad;                                                                              \
    const type *h = out, *gs = grad_state, *go = grad_out;                                       \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) d[k] = (gs[k] + go[k]) * (1 - h[k] * h[k]);                  \
  }                                                                                              \
  static void lstm_back_##s(int64_t n, void *grad, const void *gates, const void *cell_before,   \
                            const void *tanh_cell, const void *grad_state, const void *grad_out, \
                            void *grad_cell) {                                                   \
    type *d = grad, *gc = grad_cell;                                                             \
    const type *x = gates, *before = cell_before, *tc = tanh_cell;                               \
    const type *gs = grad_state, *go = grad_out;                                                 \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) {                                                            \
      type in = x[k], forget = x[k + n], new = x[k + 2 * n], open = x[k + 3 * n];                \
      type g = gs[k] + go[k], t = tc[k];                                                         \
      type cell = gc[k] + g * open * (1 - t * t);                                                \
      d[k] = cell * new *((1 - in) * in);                                                        \
      d[k + n] = cell * before[k] * ((1 - forget) * forget);                                     \
      d[k + 2 * n] = cell * in * (1 - new *new);                                                 \
      d[k + 3 * n] = g * t * ((1 - open) * open);                                                \
      gc[k] = cell * forget;                                                                     \
    }                                                                                            \
  }                                                                                              \
  static void gru_back_##s(int64_t n, void *grad, const void *gates, const void *before,         \
                           void *grad_state, const void *grad_out) {                             \
    type *d = grad, *gs = grad_state;                                                            \
    const type *x = gates, *h = before, *go = grad_out;                                          \
    TLK_IVDEP                                                                                    \
    for (int64_t k = 0; k < n; k++) {                                                            \
      type new = x[k], reset = x[k + n], update = x[k + 2 * n], state = x[k + 3 * n];            \
      type g = gs[k] + go[k];                                                                    \
      type to_new = g * (1 - update) * (1 - new *new);                                           \
      d[k] = to_new;                                                                             \
      d[k + n] = to_new * state * ((1 - reset) * reset);                                         \
      d[k + 2 * n] = g * (h[k] - new) * ((1 - update) * update);                                 \
      d[k + 3 * n] = to_new * reset;                                                             \
      gs[k] = g * update;                                                                        \
    }                                                                                            \
  }

GATES(f32, float)
GATES(f64, double)

#define LOOPS(s)                                                                            \
  {                                                                                         \
    relu_##s, tanh_row_##s, lstm_##s, gru_##s, relu_back_##s, tanh_back_##s, lstm_back_##s, \
        gru_back_##s, add_##s                                                               \
  }

extern const tlk_RnnLoops TLK_ISA_NAME(tlk_rnn_loops)[2];
const tlk_RnnLoops TLK_ISA_NAME(tlk_rnn_loops)[2] = {LOOPS(f32), LOOPS(f64)};
