/*
** backward.cu - the backward pass of a recurrent layer, from the last step to the first. In each
** step, a kernel computes the gradients of the gates from the gradients of the states, and a matrix
** product computes the gradients of the previous states. Afterwards, the gradients of inputs,
** weights and biases are products and sums over all rows at once.
**
** The gradients of the states have the shape (batch, output). In each step, the kernel reads them
** and replaces them by the part of the previous states' gradients that does not go through the
** gates (0 except for GRU). The product then adds the part that goes through the gates. If a sample
** does not take part in a step, its row of the gates' gradients is zero, so the product does not
** change the gradient of its state.
*/
#include "kernels/cuda/rnn/cudnn_rnn.h"
#include "kernels/cuda/rnn/rnn.cuh"

namespace {

template <class S, class C> struct Backward {
  RnnStep step;
  int mode;
  int64_t hidden, output;
  RnnReserve<C> kept;
  const S *out, *h0, *c0, *grad_out;
  /* gradients of the states (batch, output) and of the cells (batch, hidden) */
  C *grad_states, *grad_cells;
  /* gradients of the outputs before the projection (batch, hidden); NULL without a projection */
  C *grad_hidden;
  S *grad_gates; /* gradients of the gates (rows, width) */
  S *step_gates; /* gradients of the gates in one step (batch, width) */
  /* with a projection, gradients of the projected outputs: grad_outs has the gradients of all rows
  ** (rows, output), and step_outs has the gradients of one step (batch, output) */
  S *grad_outs, *step_outs;
};

/* ---- kernels --------------------------------------------------------------------------------- */

/* Adds up the gradients of one step's outputs, grad_states and grad_out, and stores the sums in
** step_outs and grad_outs. Matrix products then multiply them by the projection. */
template <class S, class C>
__global__ void __launch_bounds__(RNN_THREADS) outputs_kernel(Backward<S, C> b) {
  int64_t first = b.step.first() * b.output, taken = b.step.count() * b.output;
  int64_t all = b.step.batch * b.output;
  for (int64_t i = thread_index(); i < all; i += thread_count()) {
    S g = narrow<S>(C(0));
    if (i < taken) {
      g = narrow<S>(b.grad_states[i] + (b.grad_out ? (C)widen(b.grad_out[first + i]) : C(0)));
      b.grad_states[i] = 0;
      b.grad_outs[first + i] = g;
    }
    b.step_outs[i] = g;
  }
}

/* Computes the gradients d of the gates from the gradient g of the output, for sample n. *past
** receives the part of the previous state's gradient that does not go through the gates. */
template <class S, class C>
__device__ __forceinline__ void gates_back(const Backward<S, C> &b, int64_t row, int64_t n,
                                           int64_t k, C g, C (&d)[4], C *past) {
  int64_t h = b.hidden, before = b.step.before(n);
  if (b.mode == TLK_RNN_LSTM) {
    const C *x = b.kept.gates + row * 4 * h + k;
    C in = x[0], forget = x[h], fresh = x[2 * h], open = x[3 * h];
    C t = b.kept.tanh_cell[row * h + k], *grad_cell = b.grad_cells + n * h + k;
    C cell_before = before >= 0 ? b.kept.cell[before * h + k]
                    : b.c0      ? (C)widen(b.c0[n * h + k])
                                : C(0);
    C cell = *grad_cell + g * open * (1 - t * t);
    d[0] = cell * fresh * ((1 - in) * in);
    d[1] = cell * cell_before * ((1 - forget) * forget);
    d[2] = cell * in * (1 - fresh * fresh);
    d[3] = g * t * ((1 - open) * open);
    *grad_cell = cell * forget;
    return;
  }
  if (b.mode == TLK_RNN_GRU) {
    const C *x = b.kept.gates + row * 4 * h + k;
    C fresh = x[0], reset = x[h], update = x[2 * h], state = x[3 * h];
    C h_before = before >= 0 ? (C)widen(b.out[before * h + k])
                 : b.h0      ? (C)widen(b.h0[n * h + k])
                             : C(0);
    C to_fresh = g * (1 - update) * (1 - fresh * fresh);
    d[0] = to_fresh;
    d[1] = to_fresh * state * ((1 - reset) * reset);
    d[2] = g * (h_before - fresh) * ((1 - update) * update);
    d[3] = to_fresh * reset;
    *past = g * update;
    return;
  }
  C y = (C)widen(b.out[row * h + k]);
  d[0] = b.mode == TLK_RNN_TANH ? g * (1 - y * y) : y <= 0 ? C(0) : g;
}

template <class S, class C>
__global__ void __launch_bounds__(RNN_THREADS) gates_kernel(Backward<S, C> b) {
  int64_t first = b.step.first(), count = b.step.count(), all = b.step.batch * b.hidden;
  for (int64_t i = thread_index(); i < all; i += thread_count()) {
    int64_t n = i / b.hidden, k = i % b.hidden, row = first + n;
    C d[4] = {0, 0, 0, 0}, past = 0;
    int width = b.mode == TLK_RNN_LSTM || b.mode == TLK_RNN_GRU ? 4 : 1;
    if (n < count) {
      C g;
      if (b.grad_hidden)
        g = b.grad_hidden[i];
      else
        g = b.grad_states[i] + (b.grad_out ? (C)widen(b.grad_out[row * b.hidden + k]) : C(0));
      gates_back(b, row, n, k, g, d, &past);
      if (!b.grad_hidden) b.grad_states[i] = past;
      for (int e = 0; e < width; e++)
        b.grad_gates[(row * width + e) * b.hidden + k] = narrow<S>(d[e]);
    }
    if (b.step.offsets)
      for (int e = 0; e < width; e++)
        b.step_gates[(n * width + e) * b.hidden + k] = narrow<S>(d[e]);
  }
}

/* Copies, for each row, the state before that row's step to an array (rows, output). */
template <class S>
__global__ void __launch_bounds__(RNN_THREADS)
    states_kernel(RnnStep step, S *to, const S *out, const S *h0, int64_t rows, int64_t output) {
  for (int64_t i = thread_index(); i < rows * output; i += thread_count()) {
    int64_t row = i / output, k = i % output, low = 0, high = step.steps - 1;
    while (low < high) { /* searches for the last step that begins at or before this row */
      int64_t middle = (low + high + 1) / 2;
      if (step.first_of(middle) <= row)
        low = middle;
      else
        high = middle - 1;
    }
    step.t = low;
    int64_t n = row - step.first(), before = step.before(n);
    to[i] = before >= 0 ? out[before * output + k] : h0 ? h0[n * output + k] : narrow<S>(0.0f);
  }
}

/* ---- steps ----------------------------------------------------------------------------------- */

template <class S, class C> bool run_steps(const struct tlk_rnn_backward *call, Backward<S, C> &b) {
  const tlk_Rnn &r = call->rnn;
  RnnLayout l = rnn_layout(r.mode);
  int64_t width = l.width * r.hidden, taken = l.state.rows * r.hidden;
  unsigned grid = blocks_for(call->cx, r.batch * r.hidden, RNN_THREADS, 16);
  unsigned outputs = blocks_for(call->cx, r.batch * r.output, RNN_THREADS, 16);
  S *step_gates = b.step_gates, *step_outs = b.step_outs;
  for (int64_t k = r.steps - 1; k >= 0; k--) {
    int64_t t = r.reverse ? r.steps - 1 - k : k;
    b.step = rnn_step(r, t);
    if (r.offsets == NULL) {
      step_gates = b.grad_gates + t * r.batch * width;
      step_outs = b.step_outs = b.grad_outs + t * r.batch * r.output;
    }
    if (r.weight_hr) {
      RnnProduct<S> p(call->cx, r.dtype, r.batch, r.hidden, r.output);
      p.a(step_outs, r.output).b((const S *)r.weight_hr, r.hidden);
      if (!launch(call->cx, outputs_kernel<S, C>, dim3(outputs), RNN_THREADS, 0, b) ||
          !p.into_wide(b.grad_hidden, r.hidden))
        return false;
    }
    if (!launch(call->cx, gates_kernel<S, C>, dim3(grid), RNN_THREADS, 0, b)) return false;
    /* the product of the first step is needed only for grad_h0 */
    if (k == 0 && call->grad_h0 == NULL) break;
    RnnProduct<S> p(call->cx, r.dtype, r.batch, r.output, taken);
    p.a(step_gates + l.state.column * r.hidden, width).b((const S *)r.weight_hh, r.output);
    if (!p.into_wide(b.grad_states, r.output, true)) return false;
  }
  return true;
}

/* ---- sums over all rows ---------------------------------------------------------------------- */

template <class S> bool inputs_back(const struct tlk_rnn_backward *call, const S *grad_gates) {
  const tlk_Rnn &r = call->rnn;
  RnnLayout l = rnn_layout(r.mode);
  int64_t width = l.width * r.hidden;
  for (int i = 0; i < l.inputs; i++) {
    const RnnPart &part = l.input[i];
    const S *grads = grad_gates + part.column * r.hidden;
    int64_t n = part.rows * r.hidden, at = part.row * r.hidden * r.input;
    RnnProduct<S> in(call->cx, r.dtype, r.rows, r.input, n);
    in.a(grads, width).b((const S *)r.weight_ih + at, r.input);
    if (call->grad_in && !in.into((S *)call->grad_in, r.input, i > 0)) return false;
    RnnProduct<S> weight(call->cx, r.dtype, n, r.input, r.rows);
    weight.a(grads, width, true).b((const S *)call->in, r.input);
    if (call->grad_weight_ih && !weight.into((S *)call->grad_weight_ih + at, r.input)) return false;
  }
  return true;
}

template <class S>
bool state_weight_back(const struct tlk_rnn_backward *call, const S *grad_gates) {
  const tlk_Rnn &r = call->rnn;
  RnnLayout l = rnn_layout(r.mode);
  int64_t n = r.rows * r.output;
  if (call->grad_weight_hh == NULL) return true;
  Scratch states(call->cx, n * (int64_t)sizeof(S));
  if (states.data == NULL) return false;
  RnnProduct<S> p(call->cx, r.dtype, l.state.rows * r.hidden, r.output, r.rows);
  p.a(grad_gates + l.state.column * r.hidden, l.width * r.hidden, true);
  p.b((const S *)states.data, r.output);
  return launch(call->cx, states_kernel<S>, dim3(blocks_for(call->cx, n, RNN_THREADS, 16)),
                RNN_THREADS, 0, rnn_step(r, 0), (S *)states.data, (const S *)call->out,
                (const S *)call->h0, r.rows, r.output) &&
         p.into((S *)call->grad_weight_hh, r.output);
}

template <class S, class C>
bool projection_back(const struct tlk_rnn_backward *call, const Backward<S, C> &b) {
  const tlk_Rnn &r = call->rnn;
  int64_t n = r.rows * r.hidden;
  bool narrows = sizeof(S) != sizeof(C);
  if (call->grad_weight_hr == NULL) return true;
  Scratch narrowed(call->cx, narrows ? n * (int64_t)sizeof(S) : 0);
  if (narrowed.data == NULL) return false;
  S *unprojected = narrows ? (S *)narrowed.data : (S *)(void *)b.kept.unprojected;
  RnnProduct<S> p(call->cx, r.dtype, r.output, r.hidden, r.rows);
  p.a(b.grad_outs, r.output, true).b(unprojected, r.hidden);
  return rnn_move(call->cx, unprojected, (const C *)b.kept.unprojected, n) &&
         p.into((S *)call->grad_weight_hr, r.hidden);
}

template <class S> bool biases_back(const struct tlk_rnn_backward *call, S *grad_gates) {
  const tlk_Rnn &r = call->rnn;
  RnnLayout l = rnn_layout(r.mode);
  int64_t width = l.width * r.hidden;
  if (call->grad_bias_ih == NULL && call->grad_bias_hh == NULL) return true;
  Scratch sums(call->cx, width * (int64_t)sizeof(S));
  if (sums.data == NULL) return false;
  struct tlk_reduce sum = {};
  sum.cx = call->cx;
  sum.kernel = TLK_reduction_sum;
  sum.compute = r.dtype == TL_F64 ? TL_F64 : TL_F32;
  sum.out = {sums.data, r.dtype};
  sum.in = {grad_gates, r.dtype};
  sum.outer = 1, sum.n = r.rows, sum.inner = width;
  if (!tlk_reduce(&sum)) return false;
  for (int i = 0; i <= l.inputs; i++) {
    const RnnPart &part = i < l.inputs ? l.input[i] : l.state;
    S *to = (S *)(i < l.inputs ? call->grad_bias_ih : call->grad_bias_hh);
    if (to && !rnn_move(call->cx, to + part.row * r.hidden,
                        (const S *)sums.data + part.column * r.hidden, part.rows * r.hidden))
      return false;
  }
  return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Divides one block of memory into arrays, each at a multiple of 16 bytes. The caller divides the
** block twice: the first time `base` is NULL and only the bytes are counted; the second time the
** pointers are set. */
struct Arena {
  char *base;
  int64_t bytes;
  template <class T> T *take(int64_t n) {
    int64_t at = bytes;
    bytes += divide_up(n * (int64_t)sizeof(T), 16) * 16;
    return base && n > 0 ? (T *)(void *)(base + at) : NULL;
  }
};

template <class S, class C> void place(Backward<S, C> &b, const tlk_Rnn &r, Arena &arena) {
  int64_t width = rnn_layout(r.mode).width * r.hidden, packed = r.offsets != NULL;
  int64_t projected = r.weight_hr != NULL, lstm = r.mode == TLK_RNN_LSTM;
  b.grad_gates = arena.take<S>(r.rows * width);
  b.step_gates = arena.take<S>(packed * r.batch * width);
  b.grad_states = arena.take<C>(r.batch * r.output);
  b.grad_cells = arena.take<C>(lstm * r.batch * r.hidden);
  b.grad_hidden = arena.take<C>(projected * r.batch * r.hidden);
  b.grad_outs = arena.take<S>(projected * r.rows * r.output);
  b.step_outs = arena.take<S>(projected * packed * r.batch * r.output);
}

template <class S> bool backward(const struct tlk_rnn_backward *call) {
  typedef typename RnnWide<S>::type C;
  const tlk_Rnn &r = call->rnn;
  const tlk_Context *cx = call->cx;
  int64_t states = r.batch * r.output, cells = r.mode == TLK_RNN_LSTM ? r.batch * r.hidden : 0;
  Backward<S, C> b = {};
  Arena counted = {NULL, 0};
  place(b, r, counted);
  Scratch scratch(cx, counted.bytes);
  if (scratch.data == NULL) return false;
  Arena arena = {(char *)scratch.data, 0};
  place(b, r, arena);
  b.mode = r.mode, b.hidden = r.hidden, b.output = r.output;
  b.kept = rnn_reserve<C>(r, call->reserve);
  b.out = (const S *)call->out, b.h0 = (const S *)call->h0, b.c0 = (const S *)call->c0;
  b.grad_out = (const S *)call->grad_out;
  return rnn_move(cx, b.grad_states, (const S *)call->grad_hn, states) &&
         rnn_move(cx, b.grad_cells, (const S *)call->grad_cn, cells) && run_steps(call, b) &&
         (!call->grad_h0 || rnn_move(cx, (S *)call->grad_h0, (const C *)b.grad_states, states)) &&
         (!call->grad_c0 || rnn_move(cx, (S *)call->grad_c0, (const C *)b.grad_cells, cells)) &&
         inputs_back<S>(call, b.grad_gates) && state_weight_back<S>(call, b.grad_gates) &&
         projection_back(call, b) && biases_back<S>(call, b.grad_gates);
}

} // namespace

bool tlk_rnn_backward(const struct tlk_rnn_backward *call) {
  if (cuda_dnn_rnn_kept(call->kept)) return cuda_dnn_rnn_backward(call);
  WITH_FLOATING(call->rnn.dtype, S, return backward<S>(call))
  return true;
}
