/*
** rnn_layer.c - one layer of a recurrent network in one direction over whole sequences. The input
** is (steps, batch, size) or, with batch sizes, packed: (rows, size).
**
** The derivative of a layer has two forms. Usually a fused kernel computes it. While a graph of the
** gradient is recorded, differentiable operators compute the layer again, and their derivatives
** give the gradient.
*/
#include "ops/chain.h"

/* ORDER RNN_INPUTS: indices of the operators' inputs and of their gradients. batch_sizes is not
** among these inputs. */
enum { INPUT, HX, CX, WEIGHT_IH, WEIGHT_HH, WEIGHT_HR, BIAS_IH, BIAS_HH, NINPUTS };

typedef struct Layer {
  tl_Tensor *v[NINPUTS]; /* the inputs (borrowed); absent ones are NULL */
  /* number of rows in each step (borrowed), int64 on the CPU; NULL if the input is not packed */
  tl_Tensor *batch_sizes;
  /* the running sums of batch_sizes, beginning with 0, on the device (borrowed); NULL if the input
  ** is not packed */
  tl_Tensor *offsets;
  tlk_RnnMode mode;
  bool reverse;
} Layer;

static int64_t steps_of(const Layer *l) {
  return l->batch_sizes ? l->batch_sizes->numel : l->v[INPUT]->sizes[0];
}

static int64_t batch_of(const Layer *l, int64_t step) {
  return l->batch_sizes ? ((const int64_t *)tli_data(l->batch_sizes))[step] : l->v[INPUT]->sizes[1];
}

static int64_t hidden_of(const Layer *l) {
  return l->v[WEIGHT_HH]->sizes[0] / tlk_rnn_gates(l->mode);
}

static void *data_of(const tl_Tensor *t) { return t ? tli_data(t) : NULL; }

/* Describes a kernel call. All inputs become row-major. */
static tlk_Rnn call_of(tli_Chain *c, Layer *l) {
  tl_DType dtype = (tl_DType)l->v[INPUT]->dtype;
  for (int i = 0; i < NINPUTS; i++)
    if (l->v[i]) l->v[i] = TLI_STEP(c, tli_contiguous_as(l->v[i], dtype));
  if (c->failed) return (tlk_Rnn){.mode = l->mode};
  const tl_Tensor *in = l->v[INPUT];
  return (tlk_Rnn){.mode = l->mode,
                   .reverse = l->reverse,
                   .dtype = dtype,
                   .steps = steps_of(l),
                   .batch = batch_of(l, 0),
                   .rows = l->batch_sizes ? in->sizes[0] : in->sizes[0] * in->sizes[1],
                   .input = in->sizes[in->ndim - 1],
                   .hidden = hidden_of(l),
                   .output = l->v[WEIGHT_HH]->sizes[1],
                   .offsets = data_of(l->offsets),
                   .weight_ih = tli_data(l->v[WEIGHT_IH]),
                   .weight_hh = tli_data(l->v[WEIGHT_HH]),
                   .weight_hr = data_of(l->v[WEIGHT_HR]),
                   .bias_ih = data_of(l->v[BIAS_IH]),
                   .bias_hh = data_of(l->v[BIAS_HH])};
}

/* Gives the caller the results, which the chain has owned so far, and ends the chain. */
static bool hand_over(tli_Chain *c, tl_Tensor **out, int n) {
  bool ok = !c->failed;
  for (int i = 0; i < n; i++) out[i] = ok && out[i] ? tli_retain(out[i]) : NULL;
  tli_chain_end(c, NULL);
  return ok;
}

/* ---- the layer -------------------------------------------------------------------- */

static tl_Tensor *chain_reserve(tli_Chain *c, tl_Device device, const tlk_Rnn *r) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  int64_t bytes = api && api->rnn_reserve ? api->rnn_reserve(device, r) : tlk_rnn_reserve(r);
  return TLI_STEP(c, tli_empty(TL_U8, device, 1, &bytes));
}

/* Returns the first `kept` bytes of a reserve, which are the only bytes that the kernel has
** used. */
static tl_Tensor *chain_kept(tli_Chain *c, tl_Tensor *reserve, int64_t kept) {
  if (c->failed || reserve == NULL || kept == reserve->numel) return reserve;
  return TLI_STEP(c, tli_alias(reserve, 1, &kept, reserve->strides, 0));
}

static bool run(Layer l, tl_Tensor **out) {
  bool recorded = tli_recording(l.v, NINPUTS);
  const tl_Tensor *input = l.v[INPUT];
  tl_Device device = tli_device(input);
  tli_Chain c = {0};
  tlk_Rnn r = call_of(&c, &l);
  int64_t sizes[3] = {input->sizes[0], input->sizes[1]}, states[] = {r.batch, r.output};
  int64_t cells[] = {r.batch, r.hidden};
  sizes[input->ndim - 1] = r.output;
  out[0] = TLI_STEP(&c, tli_empty(r.dtype, device, input->ndim, sizes));
  out[1] = TLI_STEP(&c, tli_empty(r.dtype, device, 2, states));
  if (r.mode == TLK_RNN_LSTM) out[2] = TLI_STEP(&c, tli_empty(r.dtype, device, 2, cells));
  if (recorded && !c.failed) out[3] = chain_reserve(&c, device, &r);
  int64_t kept = c.failed || out[3] == NULL ? 0 : out[3]->numel;
  if (!c.failed && r.rows > 0 &&
      !TLI_RUN(device, rnn, .rnn = r, .out = tli_data(out[0]), .hn = tli_data(out[1]),
               .cn = data_of(out[2]), .reserve = data_of(out[3]), .kept = &kept,
               .in = tli_data(l.v[INPUT]), .h0 = data_of(l.v[HX]), .c0 = data_of(l.v[CX])))
    c.failed = true;
  out[3] = chain_kept(&c, out[3], kept);
  return hand_over(&c, out, 4);
}

#define DEFINE(name, mode)                                                                   \
  bool tli_op_##name##_layer(tl_Tensor *input, tl_Tensor *batch_sizes, tl_Tensor *offsets,   \
                             tl_Tensor *hx, tl_Tensor *cx, tl_Tensor *weight_ih,             \
                             tl_Tensor *weight_hh, tl_Tensor *weight_hr, tl_Tensor *bias_ih, \
                             tl_Tensor *bias_hh, bool reverse, tl_Tensor **out) {            \
    Layer l = {{input, hx, cx, weight_ih, weight_hh, weight_hr, bias_ih, bias_hh},           \
               batch_sizes,                                                                  \
               offsets,                                                                      \
               mode,                                                                         \
               reverse};                                                                     \
    return run(l, out);                                                                      \
  }
DEFINE(rnn_relu, TLK_RNN_RELU)
DEFINE(rnn_tanh, TLK_RNN_TANH)
DEFINE(lstm, TLK_RNN_LSTM)
DEFINE(gru, TLK_RNN_GRU)

/* ---- as differentiable operators ---------------------------------------------------------- */

static tl_Tensor *chain_linear(tli_Chain *c, tl_Tensor *a, tl_Tensor *weight, tl_Tensor *bias) {
  return TLI_STEP(c, tlo_linear(a, weight, bias));
}
static tl_Tensor *chain_sigmoid(tli_Chain *c, tl_Tensor *a) { return TLI_STEP(c, tlo_sigmoid(a)); }
static tl_Tensor *chain_tanh(tli_Chain *c, tl_Tensor *a) { return TLI_STEP(c, tlo_tanh(a)); }
static tl_Tensor *chain_narrow(tli_Chain *c, tl_Tensor *a, int64_t dim, int64_t start, int64_t n) {
  return TLI_STEP(c, tlo_narrow(a, dim, start, n));
}
static tl_Tensor *chain_gate(tli_Chain *c, tl_Tensor *a, int64_t gate, int64_t hidden) {
  return chain_narrow(c, a, 1, gate * hidden, hidden);
}

/* Computes one step of an LSTM. x is the contribution of the input to the gates. The hidden state
** in state[0] and the cell in state[1] are updated. */
static void chain_lstm(tli_Chain *c, const Layer *l, tl_Tensor *x, tl_Tensor **state) {
  int64_t n = hidden_of(l);
  tl_Tensor *y = chain_linear(c, state[0], l->v[WEIGHT_HH], l->v[BIAS_HH]);
  tl_Tensor *gates = chain_add(c, x, y);
  tl_Tensor *in = chain_sigmoid(c, chain_gate(c, gates, 0, n));
  tl_Tensor *forget = chain_sigmoid(c, chain_gate(c, gates, 1, n));
  tl_Tensor *new = chain_tanh(c, chain_gate(c, gates, 2, n));
  tl_Tensor *open = chain_sigmoid(c, chain_gate(c, gates, 3, n));
  tl_Tensor *added = chain_mul(c, in, new), *kept = chain_mul(c, forget, state[1]);
  state[1] = chain_add(c, kept, added);
  state[0] = chain_mul(c, open, chain_tanh(c, state[1]));
  if (l->v[WEIGHT_HR]) state[0] = chain_linear(c, state[0], l->v[WEIGHT_HR], NULL);
}

static void chain_gru(tli_Chain *c, const Layer *l, tl_Tensor *x, tl_Tensor **state) {
  int64_t n = hidden_of(l);
  tl_Tensor *y = chain_linear(c, state[0], l->v[WEIGHT_HH], l->v[BIAS_HH]);
  tl_Tensor *y0 = chain_gate(c, y, 0, n), *x0 = chain_gate(c, x, 0, n);
  tl_Tensor *reset = chain_sigmoid(c, chain_add(c, x0, y0));
  tl_Tensor *y1 = chain_gate(c, y, 1, n), *x1 = chain_gate(c, x, 1, n);
  tl_Tensor *update = chain_sigmoid(c, chain_add(c, x1, y1));
  tl_Tensor *share = chain_mul(c, reset, chain_gate(c, y, 2, n));
  tl_Tensor *new = chain_tanh(c, chain_add(c, chain_gate(c, x, 2, n), share));
  state[0] = chain_add(c, new, chain_mul(c, update, chain_sub(c, state[0], new)));
}

static void chain_plain(tli_Chain *c, const Layer *l, tl_Tensor *x, tl_Tensor **state) {
  tl_Tensor *y = chain_linear(c, state[0], l->v[WEIGHT_HH], l->v[BIAS_HH]);
  tl_Tensor *sum = chain_add(c, x, y);
  state[0] = l->mode == TLK_RNN_TANH ? chain_tanh(c, sum) : TLI_STEP(c, tlo_relu(sum));
}

/* Computes a step for the first n samples. The states of all other samples do not change. */
static tl_Tensor *chain_step(tli_Chain *c, const Layer *l, tl_Tensor *x, int64_t n,
                             tl_Tensor **state) {
  int64_t batch = batch_of(l, 0);
  int parts = l->mode == TLK_RNN_LSTM ? 2 : 1;
  tl_Tensor *part[2] = {NULL, NULL};
  for (int i = 0; i < parts; i++)
    part[i] = n < batch ? chain_narrow(c, state[i], 0, 0, n) : state[i];
  if (l->mode == TLK_RNN_LSTM)
    chain_lstm(c, l, x, part);
  else
    (l->mode == TLK_RNN_GRU ? chain_gru : chain_plain)(c, l, x, part);
  for (int i = 0; i < parts; i++) {
    tl_Tensor *both[] = {part[i], n < batch ? chain_narrow(c, state[i], 0, n, batch - n) : NULL};
    state[i] = n < batch ? TLI_STEP(c, tlo_cat((tl_Tensors){2, both}, 0)) : part[i];
  }
  return part[0];
}

static tl_Tensor *chain_start(tli_Chain *c, const Layer *l, int which, int64_t size) {
  if (l->v[which]) return l->v[which];
  int64_t sizes[] = {batch_of(l, 0), size};
  return TLI_STEP(c, tli_zeros("rnn", l->v[INPUT], (tl_Ints){2, sizes}));
}

/* Composes the layer's output and last states from differentiable operators. */
static void compose(tli_Chain *c, const Layer *l, tl_Tensor **outputs, tl_Tensor **out) {
  const tl_Tensor *in = l->v[INPUT];
  int64_t steps = steps_of(l), flat[] = {-1, in->sizes[in->ndim - 1]}, sizes[3];
  tl_Tensor *rows =
      l->batch_sizes ? l->v[INPUT] : TLI_STEP(c, tlo_reshape(l->v[INPUT], (tl_Ints){2, flat}));
  tl_Tensor *x = chain_linear(c, rows, l->v[WEIGHT_IH], l->v[BIAS_IH]);
  tl_Tensor *state[] = {chain_start(c, l, HX, l->v[WEIGHT_HH]->sizes[1]),
                        chain_start(c, l, CX, hidden_of(l))};
  int64_t first = l->reverse ? in->sizes[0] * (l->batch_sizes ? 1 : in->sizes[1]) : 0;
  for (int64_t k = 0; k < steps && !c->failed; k++) {
    int64_t t = l->reverse ? steps - 1 - k : k, n = batch_of(l, t);
    if (l->reverse) first -= n;
    outputs[t] = chain_step(c, l, chain_narrow(c, x, 0, first, n), n, state);
    if (!l->reverse) first += n;
  }
  tl_Tensor *all = TLI_STEP(c, tlo_cat((tl_Tensors){steps, outputs}, 0));
  for (int d = 0; d < in->ndim; d++) sizes[d] = in->sizes[d];
  sizes[in->ndim - 1] = l->v[WEIGHT_HH]->sizes[1];
  out[0] = TLI_STEP(c, tlo_reshape(all, (tl_Ints){in->ndim, sizes}));
  out[1] = state[0];
  out[2] = l->mode == TLK_RNN_LSTM ? state[1] : NULL;
}

/* ---- the derivative ---------------------------------------------------------------- */

/* Computes the gradients by differentiating a composition. It uses aliases of the inputs, so that
** each input gets its own gradient even if one input is computed from another or two inputs are the
** same tensor. */
static bool composed_backward(Layer l, tl_Tensor *const *grads, const bool *wants,
                              tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *inputs[NINPUTS], *results[NINPUTS], *made[3], *roots[3], *seeds[3];
  tli_Backward call = {.roots = roots,
                       .grads = seeds,
                       .create_graph = true,
                       .inputs = inputs,
                       .allow_unused = true,
                       .results = results};
  for (int i = 0; i < NINPUTS; i++)
    if (wants[i]) l.v[i] = inputs[call.ninputs++] = TLI_STEP(&c, tlo_view_as(l.v[i], l.v[i]));
  size_t bytes = c.failed ? 0 : (size_t)steps_of(&l) * sizeof(tl_Tensor *);
  tl_Tensor **outputs = c.failed ? NULL : tli_alloc(bytes);
  if (outputs == NULL) c.failed = true;
  if (!c.failed) compose(&c, &l, outputs, made);
  for (int k = 0; k < 3 && !c.failed; k++)
    if (grads[k]) roots[call.nroots] = made[k], seeds[call.nroots++] = grads[k];
  if (!c.failed && !tli_backward(&call)) c.failed = true;
  for (int i = 0, k = 0; i < NINPUTS && !c.failed; i++)
    if (wants[i]) out[i] = results[k++];
  if (outputs) tli_free(outputs, bytes);
  bool ok = !c.failed;
  tli_chain_end(&c, NULL);
  return ok;
}

static bool fused_backward(Layer l, tl_Tensor *const *grads, tl_Tensor *output, tl_Tensor *reserve,
                           const bool *wants, tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *const *given = l.v;
  tl_Device device = tli_device(l.v[INPUT]);
  tl_Tensor *shapes[NINPUTS], *g[3] = {NULL};
  for (int i = 0; i < NINPUTS; i++) shapes[i] = given[i];
  tlk_Rnn r = call_of(&c, &l);
  for (int k = 0; k < 3; k++)
    if (grads[k]) g[k] = TLI_STEP(&c, tli_contiguous_as(grads[k], (tl_DType)grads[k]->dtype));
  for (int i = 0; i < NINPUTS; i++)
    if (wants[i])
      out[i] = TLI_STEP(&c, tli_empty(r.dtype, device, shapes[i]->ndim, shapes[i]->sizes));
  if (!c.failed &&
      !TLI_RUN(device, rnn_backward, .rnn = r, .grad_in = data_of(out[INPUT]),
               .grad_h0 = data_of(out[HX]), .grad_c0 = data_of(out[CX]),
               .grad_weight_ih = data_of(out[WEIGHT_IH]), .grad_weight_hh = data_of(out[WEIGHT_HH]),
               .grad_weight_hr = data_of(out[WEIGHT_HR]), .grad_bias_ih = data_of(out[BIAS_IH]),
               .grad_bias_hh = data_of(out[BIAS_HH]), .grad_out = data_of(g[0]),
               .grad_hn = data_of(g[1]), .grad_cn = data_of(g[2]), .in = tli_data(l.v[INPUT]),
               .h0 = data_of(l.v[HX]), .c0 = data_of(l.v[CX]), .out = tli_data(output),
               .reserve = tli_data(reserve), .kept = reserve->numel))
    c.failed = true;
  return hand_over(&c, out, NINPUTS);
}

bool tli_op_rnn_layer_backward(tl_Tensor *grad_output, tl_Tensor *grad_hn, tl_Tensor *grad_cn,
                               tl_Tensor *input, tl_Tensor *batch_sizes, tl_Tensor *offsets,
                               tl_Tensor *hx, tl_Tensor *cx, tl_Tensor *weight_ih,
                               tl_Tensor *weight_hh, tl_Tensor *weight_hr, tl_Tensor *bias_ih,
                               tl_Tensor *bias_hh, tl_Tensor *output, tl_Tensor *reserve,
                               int64_t mode, bool reverse, bool want_input, bool want_hx,
                               bool want_cx, bool want_weight_ih, bool want_weight_hh,
                               bool want_weight_hr, bool want_bias_ih, bool want_bias_hh,
                               tl_Tensor **out) {
  Layer l = {{input, hx, cx, weight_ih, weight_hh, weight_hr, bias_ih, bias_hh},
             batch_sizes,
             offsets,
             (tlk_RnnMode)mode,
             reverse};
  tl_Tensor *grads[] = {grad_output, grad_hn, grad_cn};
  bool wants[] = {want_input,     want_hx,        want_cx,      want_weight_ih,
                  want_weight_hh, want_weight_hr, want_bias_ih, want_bias_hh};
  for (int i = 0; i < NINPUTS; i++) out[i] = NULL;
  if (tli_recording(l.v, NINPUTS) || tli_recording(grads, 3))
    return composed_backward(l, grads, wants, out);
  return fused_backward(l, grads, output, reserve, wants, out);
}
