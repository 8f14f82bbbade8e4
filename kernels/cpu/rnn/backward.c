/*
** backward.c - the backward pass of a recurrent layer. Each thread processes some samples from
** their last step to their first and computes the gradients of all gates. The gradients of the
** inputs, weights and biases are then products and sums over all rows at once.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/rnn/layer.h"

typedef struct Backward {
  tlk_RnnLayer layer;
  const struct tlk_rnn_backward *data;
  char *memory; /* owned memory: a row of zeros, and then all arrays below */
  size_t bytes;
  char *grad_gates; /* array (rows, width) of the gradients of the gates before activation */
  /* gradients of the states (batch, output): first of the states after the last step, later of the
  ** states before the current step */
  char *grad_states;
  /* for LSTM: gradients of the cells (batch, hidden), which are updated like grad_states */
  char *grad_cells;
  /* array (rows, output) of the gradients of the outputs after the projection */
  char *grad_outs;
  /* array (batch, hidden) of the gradients of the outputs before the projection */
  char *grad_hidden;
  tlk_Packed weight, hr; /* owned */
} Backward;

static char *row(const Backward *b, const void *array, int64_t i, int64_t n) {
  return (char *)(uintptr_t)array + i * n * b->layer.size;
}
/* Returns row i of an array, or a row of zeros if the array is NULL. */
static const char *row_or_zeros(const Backward *b, const void *array, int64_t i, int64_t n) {
  return array ? row(b, array, i, n) : b->memory;
}

/* ---- steps ------------------------------------------------------------------------ */

/* Computes the gradients of the outputs before the projection from those after it, for samples
** [begin, s->end). */
static void project_back(const Backward *b, const tlk_RnnStep *s, int64_t begin) {
  const tlk_Rnn *r = &b->layer.rnn;
  for (int64_t n = begin; n < s->end; n++)
    b->layer.loops->add(r->output, row(b, b->grad_outs, s->first + n, r->output),
                        row(b, b->grad_states, n, r->output),
                        row_or_zeros(b, b->data->grad_out, s->first + n, r->output));
  tlk_rnn_multiply(&b->hr, s->end - begin, row(b, b->grad_outs, s->first + begin, r->output),
                   r->output, false, row(b, b->grad_hidden, begin, r->hidden), r->hidden);
}

static void lstm_row(const Backward *b, const tlk_RnnStep *s, int64_t n, char *grad,
                     const char *grad_out) {
  const tlk_RnnLayer *l = &b->layer;
  int64_t hidden = l->rnn.hidden, at = s->first + n;
  const char *before = n < s->joins ? row(b, l->cell, s->before + n, hidden)
                                    : row_or_zeros(b, b->data->c0, n, hidden);
  const char *state = row(b, b->grad_states, n, hidden);
  if (l->rnn.weight_hr) state = row(b, b->grad_hidden, n, hidden), grad_out = b->memory;
  l->loops->lstm_back(hidden, grad, row(b, l->gates, at, 4 * hidden), before,
                      row(b, l->tanh_cell, at, hidden), state, grad_out,
                      row(b, b->grad_cells, n, hidden));
}

static void gru_row(const Backward *b, const tlk_RnnStep *s, int64_t n, char *grad,
                    const char *grad_out) {
  const tlk_RnnLayer *l = &b->layer;
  int64_t hidden = l->rnn.hidden;
  const char *before = n < s->joins ? row(b, b->data->out, s->before + n, hidden)
                                    : row_or_zeros(b, b->data->h0, n, hidden);
  l->loops->gru_back(hidden, grad, row(b, l->gates, s->first + n, 4 * hidden), before,
                     row(b, b->grad_states, n, hidden), grad_out);
}

/* Computes the gradients of the gates for samples [begin, s->end). */
static void gates_back(const Backward *b, const tlk_RnnStep *s, int64_t begin) {
  const tlk_RnnLayer *l = &b->layer;
  const tlk_Rnn *r = &l->rnn;
  for (int64_t n = begin; n < s->end; n++) {
    int64_t at = s->first + n;
    char *grad = row(b, b->grad_gates, at, l->layout->width * r->hidden);
    const char *grad_out = row_or_zeros(b, b->data->grad_out, at, r->output);
    const char *out = row(b, b->data->out, at, r->output);
    const char *state = row(b, b->grad_states, n, r->output);
    switch (r->mode) {
    case TLK_RNN_RELU: l->loops->relu_back(r->hidden, grad, out, state, grad_out); break;
    case TLK_RNN_TANH: l->loops->tanh_back(r->hidden, grad, out, state, grad_out); break;
    case TLK_RNN_GRU: gru_row(b, s, n, grad, grad_out); break;
    default: lstm_row(b, s, n, grad, grad_out);
    }
  }
}

static void run_samples(void *context, int64_t begin, int64_t end) {
  const Backward *b = context;
  const tlk_Rnn *r = &b->layer.rnn;
  int64_t width = b->layer.layout->width * r->hidden;
  int64_t column = b->layer.layout->state.column;
  for (int64_t k = r->steps - 1; k >= 0 && !tli_interrupted(); k--) {
    tlk_RnnStep s = tlk_rnn_step(r, r->reverse ? r->steps - 1 - k : k, end);
    if (s.end <= begin) continue;
    if (r->weight_hr) project_back(b, &s, begin);
    gates_back(b, &s, begin);
    /* if grad_h0 is not wanted, the gradient of the initial state need not be computed */
    if (k == 0 && b->data->grad_h0 == NULL) return;
    char *grads = row(b, b->grad_gates, s.first + begin, width);
    tlk_rnn_multiply(&b->weight, s.end - begin, row(b, grads, column, r->hidden), width,
                     r->mode == TLK_RNN_GRU, row(b, b->grad_states, begin, r->output), r->output);
  }
}

/* ---- sums over all rows ----------------------------------------------------------- */

/* Computes c = op(a) b, or adds the product to c if `add`. op transposes if `trans_a`. */
static bool product(const tlk_Rnn *r, bool trans_a, int64_t m, int64_t n, int64_t k, const void *a,
                    int64_t lda, const void *b, int64_t ldb, bool add, void *c, int64_t ldc) {
  struct tlk_gemm call = {.gemm = {.dtype = r->dtype,
                                   .trans_a = trans_a,
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .alpha = tli_float(1),
                                   .beta = tli_float(add),
                                   .a = a,
                                   .b = b,
                                   .c = c,
                                   .lda = lda,
                                   .ldb = ldb,
                                   .ldc = ldc,
                                   .batch = 1}};
  return tlk_gemm(&call);
}

static bool inputs_back(const Backward *b) {
  const tlk_Rnn *r = &b->layer.rnn;
  const tlk_RnnLayout *l = b->layer.layout;
  int64_t width = l->width * r->hidden;
  for (int i = 0; i < l->inputs; i++) {
    const tlk_RnnPart *part = &l->input[i];
    const char *grads = row(b, b->grad_gates, part->column, r->hidden);
    int64_t n = part->rows * r->hidden, at = part->row * r->hidden;
    if (b->data->grad_in)
      TL_TRY(product(r, false, r->rows, r->input, n, grads, width,
                     row(b, r->weight_ih, at, r->input), r->input, i > 0, b->data->grad_in,
                     r->input));
    if (b->data->grad_weight_ih)
      TL_TRY(product(r, true, n, r->input, r->rows, grads, width, b->data->in, r->input, false,
                     row(b, b->data->grad_weight_ih, at, r->input), r->input));
  }
  return true;
}

/* Copies to row i of `to` (rows, output), for each row i, the state before that row's step. */
static void gather_states(const Backward *b, char *to) {
  const tlk_Rnn *r = &b->layer.rnn;
  size_t bytes = (size_t)(r->output * b->layer.size);
  for (int64_t t = 0; t < r->steps; t++) {
    tlk_RnnStep s = tlk_rnn_step(r, t, r->batch);
    char *at = row(b, to, s.first, r->output);
    memcpy(at, row(b, b->data->out, s.before, r->output), (size_t)s.joins * bytes);
    for (int64_t n = s.joins; n < s.end; n++)
      memcpy(row(b, at, n, r->output), row_or_zeros(b, b->data->h0, n, r->output), bytes);
  }
}

static bool weights_back(const Backward *b) {
  const tlk_Rnn *r = &b->layer.rnn;
  const tlk_RnnLayout *l = b->layer.layout;
  if (b->data->grad_weight_hr)
    TL_TRY(product(r, true, r->output, r->hidden, r->rows, b->grad_outs, r->output,
                   b->layer.unprojected, r->hidden, false, b->data->grad_weight_hr, r->hidden));
  if (b->data->grad_weight_hh == NULL) return true;
  size_t bytes = (size_t)(r->rows * r->output * b->layer.size);
  char *states = tli_alloc(bytes);
  TL_TRY(states);
  gather_states(b, states);
  bool ok = product(r, true, l->state.rows * r->hidden, r->output, r->rows,
                    row(b, b->grad_gates, l->state.column, r->hidden), l->width * r->hidden, states,
                    r->output, false, b->data->grad_weight_hh, r->output);
  tli_free(states, bytes);
  return ok;
}

static bool biases_back(const Backward *b) {
  const tlk_Rnn *r = &b->layer.rnn;
  const tlk_RnnLayout *l = b->layer.layout;
  void *const to[] = {b->data->grad_bias_ih, b->data->grad_bias_hh};
  if (to[0] == NULL && to[1] == NULL) return true;
  int64_t width = l->width * r->hidden;
  size_t bytes = (size_t)(width * b->layer.size);
  char *sums = tli_alloc(bytes);
  TL_TRY(sums);
  bool ok = tlk_reduce(&(struct tlk_reduce){.kernel = TLK_reduction_sum,
                                            .compute = r->dtype,
                                            .out = {sums, r->dtype},
                                            .in = {b->grad_gates, r->dtype},
                                            .outer = 1,
                                            .n = r->rows,
                                            .inner = width});
  for (int i = 0; i <= l->inputs; i++) {
    const tlk_RnnPart *part = i < l->inputs ? &l->input[i] : &l->state;
    void *bias = to[i == l->inputs];
    if (bias)
      memcpy(row(b, bias, part->row, r->hidden), row(b, sums, part->column, r->hidden),
             (size_t)(part->rows * r->hidden * b->layer.size));
  }
  tli_free(sums, bytes);
  return ok;
}

/* ---- the pass --------------------------------------------------------------------- */

static bool allocate(Backward *b) {
  const tlk_Rnn *r = &b->layer.rnn;
  int64_t size = b->layer.size, states = r->batch * r->output, cells = r->batch * r->hidden;
  int64_t zeros = tlk_max(r->hidden, r->output), width = b->layer.layout->width * r->hidden;
  int64_t counts[] = {zeros,
                      r->rows * width,
                      states,
                      r->mode == TLK_RNN_LSTM ? cells : 0,
                      r->weight_hr ? r->rows * r->output : 0,
                      r->weight_hr ? cells : 0};
  char **const arrays[] = {&b->memory,     &b->grad_gates, &b->grad_states,
                           &b->grad_cells, &b->grad_outs,  &b->grad_hidden};
  for (int i = 0; i < 6; i++) b->bytes += (size_t)(counts[i] * size);
  char *at = tli_alloc(b->bytes);
  TL_TRY(at);
  for (int i = 0; i < 6; at += counts[i++] * size) *arrays[i] = at;
  memset(b->memory, 0, (size_t)(zeros * size));
  return true;
}

/* Copies the gradients of the last states, `grad`, to `to`. If grad is NULL, fills `to` with
** zeros. */
static void start(const Backward *b, char *to, const void *grad, int64_t n) {
  size_t bytes = (size_t)(b->layer.rnn.batch * n * b->layer.size);
  if (grad)
    memcpy(to, grad, bytes);
  else
    memset(to, 0, bytes);
}

static bool pack(Backward *b) {
  const tlk_Rnn *r = &b->layer.rnn;
  return tlk_pack(&b->weight, r->dtype, false, tlk_rnn_gates(r->mode) * r->hidden, r->output,
                  r->weight_hh, r->output) &&
         (r->weight_hr == NULL ||
          tlk_pack(&b->hr, r->dtype, false, r->output, r->hidden, r->weight_hr, r->hidden));
}

static bool run(Backward *b) {
  const tlk_Rnn *r = &b->layer.rnn;
  const struct tlk_rnn_backward *d = b->data;
  size_t state = (size_t)(r->batch * r->output * b->layer.size);
  size_t cell = (size_t)(r->batch * r->hidden * b->layer.size);
  start(b, b->grad_states, d->grad_hn, r->output);
  if (r->mode == TLK_RNN_LSTM) start(b, b->grad_cells, d->grad_cn, r->hidden);
  TL_TRY(tlk_rnn_share(r, run_samples, b));
  if (d->grad_h0) memcpy(d->grad_h0, b->grad_states, state);
  if (d->grad_c0) memcpy(d->grad_c0, b->grad_cells, cell);
  return inputs_back(b) && weights_back(b) && biases_back(b);
}

static bool backward(const tlk_Rnn *r, const struct tlk_rnn_backward *data, void *reserve) {
  Backward b = {.layer = tlk_rnn_layer(r, reserve), .data = data};
  bool ok = allocate(&b) && pack(&b) && run(&b);
  tlk_packed_free(&b.weight);
  tlk_packed_free(&b.hr);
  tli_free(b.memory, b.bytes);
  return ok;
}

bool tlk_rnn_backward(const struct tlk_rnn_backward *call) {
  const tlk_Rnn *g = &call->rnn;
  int64_t in = g->rows * g->input, out = g->rows * g->output,
          gates = tlk_rnn_gates(g->mode) * g->hidden;
  int64_t states = g->batch * g->output, cells = g->batch * g->hidden;
  tlk_RnnArrays a = {.dtype = g->dtype};
  tlk_Rnn r = tlk_rnn_weights(&a, g);
  struct tlk_rnn_backward data = {
      .grad_in = tlk_rnn_result(&a, call->grad_in, in),
      .grad_h0 = tlk_rnn_result(&a, call->grad_h0, states),
      .grad_c0 = tlk_rnn_result(&a, call->grad_c0, cells),
      .grad_weight_ih = tlk_rnn_result(&a, call->grad_weight_ih, gates * g->input),
      .grad_weight_hh = tlk_rnn_result(&a, call->grad_weight_hh, gates * g->output),
      .grad_weight_hr = tlk_rnn_result(&a, call->grad_weight_hr, g->output * g->hidden),
      .grad_bias_ih = tlk_rnn_result(&a, call->grad_bias_ih, gates),
      .grad_bias_hh = tlk_rnn_result(&a, call->grad_bias_hh, gates),
      .grad_out = tlk_rnn_operand(&a, call->grad_out, out),
      .grad_hn = tlk_rnn_operand(&a, call->grad_hn, states),
      .grad_cn = tlk_rnn_operand(&a, call->grad_cn, cells),
      .in = tlk_rnn_operand(&a, call->in, in),
      .h0 = tlk_rnn_operand(&a, call->h0, states),
      .c0 = tlk_rnn_operand(&a, call->c0, cells),
      .out = tlk_rnn_operand(&a, call->out, out)};
  bool ok = !a.failed && backward(&r, &data, (void *)(uintptr_t)call->reserve);
  tlk_rnn_arrays_end(&a, ok);
  return ok;
}
