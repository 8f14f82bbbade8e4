/*
** rnn.cu - the forward pass of a recurrent layer. One product multiplies the inputs of all steps by
** their weights. Then, for each step, a product multiplies the states by their weights, and one
** kernel adds biases, applies activations and computes the new states. Layers that cuDNN supports
** are computed by cuDNN (cudnn_rnn.c).
*/
#include "kernels/cuda/rnn/cudnn_rnn.h"
#include "kernels/cuda/rnn/rnn.cuh"

namespace {

/* The arguments of the kernel for one step. C is the compute type. */
template <class S, class C> struct Forward {
  RnnStep step;
  int mode;
  int64_t hidden;
  /* the products of the inputs and their weights (rows, width), which the activations replace */
  C *gates;
  bool keeps;           /* whether the backward pass needs the activations */
  const C *state_gates; /* the products of the states and their weights (batch, gates) */
  const S *bias_ih, *bias_hh;
  /* for LSTM only: `cell` has the current cells (batch, hidden). For the backward pass, `all_cells`
  ** has the cells after each step and `tanh_cells` has their tanh (rows, hidden). */
  C *cell, *all_cells, *tanh_cells;
  /* outputs before the projection (rows, hidden), kept for the backward pass */
  C *unprojected;
  S *projects; /* states before the projection (batch, hidden); NULL without a projection */
  S *out, *hn, *cn;
};

/* ---- kernels ------------------------------------------------------------------------------ */

DEVICE float sigmoid(float x) { return tlm_sigmoid_f32(x, NULL); }
DEVICE double sigmoid(double x) { return tlm_sigmoid_f64(x, NULL); }
DEVICE float tanh_of(float x) { return tlm_tanh_f32(x, NULL); }
DEVICE double tanh_of(double x) { return tlm_tanh_f64(x, NULL); }

template <class S, class C>
__device__ __forceinline__ C bias(const Forward<S, C> &f, int64_t k, bool of_state) {
  const S *b = of_state ? f.bias_hh : f.bias_ih;
  return b ? (C)widen(b[k]) : C(0);
}

/* Returns the value of a gate before its activation. `gate` counts only the gates that the state
** contributes to. */
template <class S, class C>
__device__ __forceinline__ C gate_sum(const Forward<S, C> &f, C from_input, int64_t n, int gate,
                                      int gates, int64_t k) {
  int64_t at = gate * f.hidden + k;
  return from_input + f.state_gates[n * gates * f.hidden + at] +
         (bias(f, at, false) + bias(f, at, true));
}

template <class S, class C>
__device__ __forceinline__ C lstm(const Forward<S, C> &f, int64_t row, int64_t n, int64_t k) {
  C *x = f.gates + row * 4 * f.hidden + k;
  int64_t h = f.hidden;
  C in = sigmoid(gate_sum(f, x[0], n, 0, 4, k)), forget = sigmoid(gate_sum(f, x[h], n, 1, 4, k));
  C fresh = tanh_of(gate_sum(f, x[2 * h], n, 2, 4, k));
  C open = sigmoid(gate_sum(f, x[3 * h], n, 3, 4, k));
  C *cell = f.cell + n * h + k;
  C now = forget * *cell + in * fresh, t = tanh_of(now);
  *cell = now;
  if ((void *)f.cn != (void *)f.cell) f.cn[n * h + k] = narrow<S>(now);
  if (f.keeps) {
    x[0] = in, x[h] = forget, x[2 * h] = fresh, x[3 * h] = open;
    f.all_cells[row * h + k] = now;
    f.tanh_cells[row * h + k] = t;
  }
  return open * t;
}

template <class S, class C>
__device__ __forceinline__ C gru(const Forward<S, C> &f, int64_t row, int64_t n, int64_t k) {
  C *x = f.gates + row * 4 * f.hidden + k;
  int64_t h = f.hidden;
  C reset = sigmoid(gate_sum(f, x[h], n, 0, 3, k));
  C update = sigmoid(gate_sum(f, x[2 * h], n, 1, 3, k));
  C state = f.state_gates[(n * 3 + 2) * h + k] + bias(f, 2 * h + k, true);
  C fresh = tanh_of(x[0] + bias(f, 2 * h + k, false) + reset * state);
  C before = (C)widen(f.hn[n * h + k]);
  if (f.keeps) x[0] = fresh, x[h] = reset, x[2 * h] = update, x[3 * h] = state;
  return fresh + update * (before - fresh);
}

template <class S, class C>
__global__ void __launch_bounds__(RNN_THREADS) step_kernel(Forward<S, C> f) {
  int64_t first = f.step.first(), all = f.step.count() * f.hidden;
  for (int64_t i = thread_index(); i < all; i += thread_count()) {
    int64_t n = i / f.hidden, k = i % f.hidden, row = first + n;
    C y;
    if (f.mode == TLK_RNN_LSTM) {
      y = lstm(f, row, n, k);
    } else if (f.mode == TLK_RNN_GRU) {
      y = gru(f, row, n, k);
    } else {
      C x = gate_sum(f, f.gates[row * f.hidden + k], n, 0, 1, k);
      y = f.mode == TLK_RNN_TANH ? tanh_of(x) : x < 0 ? C(0) : x;
    }
    if (f.projects) {
      f.projects[i] = narrow<S>(y);
      if (f.keeps) f.unprojected[row * f.hidden + k] = y;
    } else {
      f.out[row * f.hidden + k] = f.hn[i] = narrow<S>(y);
    }
  }
}

/* Stores the outputs of a step after the projection. */
template <class S, class C>
__global__ void __launch_bounds__(RNN_THREADS)
    projected_kernel(RnnStep step, S *out, S *hn, const C *projected, int64_t output) {
  int64_t first = step.first() * output, all = step.count() * output;
  for (int64_t i = thread_index(); i < all; i += thread_count())
    out[first + i] = hn[i] = narrow<S>(projected[i]);
}

/* ---- launchers ------------------------------------------------------------------------------ */

template <class S, class C> bool multiply_inputs(const struct tlk_rnn *call, C *gates) {
  const tlk_Rnn &r = call->rnn;
  RnnLayout l = rnn_layout(r.mode);
  for (int i = 0; i < l.inputs; i++) {
    const RnnPart &part = l.input[i];
    RnnProduct<S> p(call->cx, r.dtype, r.rows, part.rows * r.hidden, r.input);
    p.a((const S *)call->in, r.input);
    p.b((const S *)r.weight_ih + part.row * r.hidden * r.input, r.input, true);
    if (!p.into_wide(gates + part.column * r.hidden, l.width * r.hidden)) return false;
  }
  return true;
}

template <class S, class C>
bool project(const struct tlk_rnn *call, const Forward<S, C> &f, C *projected) {
  const tlk_Rnn &r = call->rnn;
  RnnProduct<S> p(call->cx, r.dtype, r.batch, r.output, r.hidden);
  p.a(f.projects, r.hidden).b((const S *)r.weight_hr, r.hidden, true);
  unsigned grid = blocks_for(call->cx, r.batch * r.output, RNN_THREADS);
  return p.into_wide(projected, r.output) &&
         launch(call->cx, projected_kernel<S, C>, dim3(grid), RNN_THREADS, 0, f.step, f.out, f.hn,
                projected, r.output);
}

template <class S, class C>
bool run_steps(const struct tlk_rnn *call, Forward<S, C> &f, C *state_gates, C *projected) {
  const tlk_Rnn &r = call->rnn;
  int64_t gates = tlk_rnn_gates(r.mode) * r.hidden;
  unsigned grid = blocks_for(call->cx, r.batch * r.hidden, RNN_THREADS, 16);
  for (int64_t k = 0; k < r.steps; k++) {
    RnnProduct<S> p(call->cx, r.dtype, r.batch, gates, r.output);
    p.a(f.hn, r.output).b((const S *)r.weight_hh, r.output, true);
    f.step = rnn_step(r, r.reverse ? r.steps - 1 - k : k);
    if (!p.into_wide(state_gates, gates) ||
        !launch(call->cx, step_kernel<S, C>, dim3(grid), RNN_THREADS, 0, f) ||
        (f.projects && !project(call, f, projected)))
      return false;
  }
  return true;
}

template <class S> bool forward(const struct tlk_rnn *call) {
  typedef typename RnnWide<S>::type C;
  const tlk_Rnn &r = call->rnn;
  RnnReserve<C> kept = rnn_reserve<C>(r, call->reserve);
  int64_t width = rnn_layout(r.mode).width * r.hidden, cells = r.batch * r.hidden;
  int64_t gates = tlk_rnn_gates(r.mode) * r.hidden;
  bool lstm = r.mode == TLK_RNN_LSTM, wide_cell = lstm && sizeof(S) != sizeof(C);
  int64_t numbers = r.batch * gates + (kept.gates ? 0 : r.rows * width) + (wide_cell ? cells : 0) +
                    (r.weight_hr ? r.batch * r.output + cells : 0);
  Scratch scratch(call->cx, numbers * (int64_t)sizeof(C));
  if (scratch.data == NULL) return false;
  C *state_gates = (C *)scratch.data, *at = state_gates + r.batch * gates;
  Forward<S, C> f = {};
  f.mode = r.mode;
  f.hidden = r.hidden;
  f.gates = kept.gates ? kept.gates : at;
  if (!kept.gates) at += r.rows * width;
  f.keeps = kept.gates != NULL;
  f.state_gates = state_gates;
  f.bias_ih = (const S *)r.bias_ih, f.bias_hh = (const S *)r.bias_hh;
  f.cell = wide_cell ? at : (C *)call->cn;
  if (wide_cell) at += cells;
  f.all_cells = kept.cell, f.tanh_cells = kept.tanh_cell, f.unprojected = kept.unprojected;
  f.projects = r.weight_hr ? (S *)(at + r.batch * r.output) : NULL;
  f.out = (S *)call->out, f.hn = (S *)call->hn, f.cn = (S *)call->cn;
  return rnn_move(call->cx, f.hn, (const S *)call->h0, r.batch * r.output) &&
         (!lstm || (rnn_move(call->cx, f.cell, (const S *)call->c0, cells) &&
                    rnn_move(call->cx, f.cn, f.cell, cells))) &&
         multiply_inputs<S>(call, f.gates) && run_steps(call, f, state_gates, at);
}

/* ---- flipping sequences in time -------------------------------------------------------------- */

template <class T>
__global__ void __launch_bounds__(RNN_THREADS)
    flip_kernel(T *to, const T *from, int64_t steps, int64_t n) {
  for (int64_t i = thread_index(); i < steps * n; i += thread_count())
    to[i] = from[(steps - 1 - i / n) * n + i % n];
}

template <class T>
bool flip(const tlk_Context *cx, void *to, const void *from, int64_t steps, int64_t n) {
  unsigned grid = blocks_for(cx, steps * n, RNN_THREADS, 16);
  return launch(cx, flip_kernel<T>, dim3(grid), RNN_THREADS, 0, (T *)to, (const T *)from, steps, n);
}

} // namespace

bool cuda_rnn_flip(const tlk_Context *cx, void *to, const void *from, int64_t steps, int64_t n,
                   bool wide) {
  return wide ? flip<uint32_t>(cx, to, from, steps, n) : flip<uint16_t>(cx, to, from, steps, n);
}

bool tlk_rnn(const struct tlk_rnn *call) {
  bool done;
  if (!cuda_dnn_rnn(call, &done)) return false;
  if (cuda_counted(CUDA_RNN_CUDNN, done)) return true;
  if (call->reserve) *call->kept = tlk_rnn_reserve(&call->rnn);
  WITH_FLOATING(call->rnn.dtype, S, return forward<S>(call))
  return true;
}
