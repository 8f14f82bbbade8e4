/*
** rnn.c - recurrent networks. This file checks the arguments and combines layers and directions;
** rnn_layer.c computes each layer in each direction.
*/
#include <stdio.h>

#include "core/memory/pinned.h"
#include "ops/chain.h"

typedef struct Net {
  const char *op;
  tlk_RnnMode mode;
  /* input is (steps, batch, size), or packed rows; packed input needs batch_sizes, int64 on the
  ** CPU */
  tl_Tensor *input, *batch_sizes;
  tl_Tensor *offsets; /* first row of each step, on the device (owned by the chain) */
  tl_Tensor *hx, *cx; /* initial states (layers * directions, batch, ...), or NULL */
  tl_Tensors params;
  bool has_biases, train, bidirectional;
  int64_t layers;
  double dropout;
  tli_Generator *generator;
  /* the function `check` sets the following sizes */
  /* `each` is the number of parameters of a layer in one direction */
  int64_t batch, hidden, output, each;
} Net;

static int64_t directions(const Net *n) { return n->bidirectional ? 2 : 1; }

/* ---- checks ----------------------------------------------------------------------- */

static bool has_shape(const tl_Tensor *t, tl_Ints shape) {
  bool same = t->ndim == shape.n;
  for (int d = 0; same && d < t->ndim; d++) same = t->sizes[d] == shape.v[d];
  return same;
}

static bool check_like_input(const char *op, const char *what, const tl_Tensor *t,
                             const tl_Tensor *input, tl_Ints shape) {
  if (!has_shape(t, shape))
    return tli_fail(TL_ESHAPE, "%s: %s: expected shape %s, got %s", op, what,
                    tli_shape_str((int)shape.n, shape.v), tli_sizes_str(t));
  if (t->dtype != input->dtype)
    return tli_fail(TL_EDTYPE, "%s: %s: expected %s, as the input is, got %s", op, what,
                    tl_dtype_name((tl_DType)input->dtype), tl_dtype_name((tl_DType)t->dtype));
  return true;
}

static bool check_floating(const char *op, const char *what, const tl_Tensor *t) {
  if (tli_is_float((tl_DType)t->dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: %s: expected a floating tensor, got %s", op, what,
                  tl_dtype_name((tl_DType)t->dtype));
}

static bool check_batch_sizes(const Net *n) {
  const tl_Tensor *t = n->batch_sizes;
  if (n->input->ndim != 2)
    return tli_fail(TL_ESHAPE, "%s: data: expected shape (rows, size), got %s", n->op,
                    tli_sizes_str(n->input));
  if (t->ndim != 1 || t->numel == 0)
    return tli_fail(TL_ESHAPE, "%s: batch_sizes: expected one number for each step, got shape %s",
                    n->op, tli_sizes_str(t));
  const int64_t *v = tli_data(t);
  int64_t rows = 0;
  for (int64_t i = 0; i < t->numel; i++) {
    if (v[i] < 1 || (i > 0 && v[i] > v[i - 1]))
      return tli_fail(TL_EARG,
                      "%s: batch_sizes[" TLI_POS "]: expected a number from 1 to the one before, "
                      "got %" PRId64,
                      n->op, i, v[i]);
    rows += v[i];
  }
  if (rows != n->input->sizes[0])
    return tli_fail(TL_ESHAPE,
                    "%s: data: expected %" PRId64 " rows, the sum of batch_sizes, got shape %s",
                    n->op, rows, tli_sizes_str(n->input));
  return true;
}

static bool check_input(Net *n) {
  TL_TRY(check_floating(n->op, n->batch_sizes ? "data" : "input", n->input));
  if (n->batch_sizes) {
    TL_TRY(check_batch_sizes(n));
    n->batch = ((const int64_t *)tli_data(n->batch_sizes))[0];
    return true;
  }
  if (n->input->ndim != 3)
    return tli_fail(TL_ESHAPE, "%s: input: expected 3 dimensions, got %s", n->op,
                    tli_sizes_str(n->input));
  if (n->input->sizes[0] == 0)
    return tli_fail(TL_ESHAPE, "%s: input: expected at least one step, got %s", n->op,
                    tli_sizes_str(n->input));
  n->batch = n->input->sizes[1];
  return true;
}

/* Checks the number of parameters, and reads the sizes from the first parameters. */
static bool check_count(Net *n) {
  int64_t plain = n->has_biases ? 4 : 2;
  if (n->layers < 1)
    return tli_fail(TL_EARG, "%s: num_layers: expected at least 1, got %" PRId64, n->op, n->layers);
  /* every layer has more than one parameter; this check also keeps the products below from
  ** overflowing */
  if (n->layers > n->params.n)
    return tli_fail(TL_EARG,
                    "%s: params: expected %" PRId64 " tensors or more for each of %" PRId64
                    " layers, got %" PRId64 " tensors",
                    n->op, plain, n->layers, n->params.n);
  int64_t lines = n->layers * directions(n);
  bool projected = n->mode == TLK_RNN_LSTM && n->params.n == lines * (plain + 1);
  if (!projected && n->params.n != lines * plain)
    return tli_fail(TL_EARG,
                    "%s: params: expected %" PRId64 " tensors for each of %" PRId64
                    " layers and directions, got %" PRId64 " tensors",
                    n->op, plain, lines, n->params.n);
  n->each = plain + projected;
  const tl_Tensor *weight = n->params.v[1], *last = n->params.v[n->each - 1];
  int64_t gates = tlk_rnn_gates(n->mode);
  if (weight->ndim != 2 || weight->sizes[0] == 0 || weight->sizes[0] % gates != 0)
    return tli_fail(TL_ESHAPE, "%s: params[2]: expected shape (%" PRId64 " * hidden, out), got %s",
                    n->op, gates, tli_sizes_str(weight));
  n->hidden = weight->sizes[0] / gates;
  n->output = projected && last->ndim == 2 ? last->sizes[0] : n->hidden;
  return true;
}

static bool check_params(const Net *n) {
  int64_t rows = tlk_rnn_gates(n->mode) * n->hidden;
  for (int64_t i = 0; i < n->params.n; i++) {
    int64_t k = i % n->each, layer = i / n->each / directions(n);
    int64_t in = layer == 0 ? n->input->sizes[n->input->ndim - 1] : n->output * directions(n);
    int64_t weight_ih[] = {rows, in}, weight_hh[] = {rows, n->output};
    int64_t weight_hr[] = {n->output, n->hidden};
    tl_Ints shape = k == 0                   ? (tl_Ints){2, weight_ih}
                    : k == 1                 ? (tl_Ints){2, weight_hh}
                    : n->has_biases && k < 4 ? (tl_Ints){1, &rows}
                                             : (tl_Ints){2, weight_hr};
    char what[40];
    snprintf(what, sizeof what, "params[%" PRId64 "]", i + 1);
    TL_TRY(check_like_input(n->op, what, n->params.v[i], n->input, shape));
  }
  return true;
}

static bool check_states(const Net *n) {
  int64_t h[] = {n->layers * directions(n), n->batch, n->output};
  int64_t c[] = {h[0], h[1], n->hidden};
  const char *first = n->mode == TLK_RNN_LSTM ? "hx[1]" : "hx";
  if (n->hx) TL_TRY(check_like_input(n->op, first, n->hx, n->input, (tl_Ints){3, h}));
  if (n->cx) TL_TRY(check_like_input(n->op, "hx[2]", n->cx, n->input, (tl_Ints){3, c}));
  return true;
}

static bool check(Net *n) {
  if (!(n->dropout >= 0 && n->dropout <= 1))
    return tli_fail(TL_EARG, "%s: dropout: expected a probability from 0 to 1, got %g", n->op,
                    n->dropout);
  return check_input(n) && check_count(n) && check_params(n) && check_states(n);
}

/* Reads the initial states {h, c} of an LSTM. The list must contain both states or be empty. */
static bool take_pair(const char *op, tl_Tensors hx, tl_Tensor **h, tl_Tensor **c) {
  if (hx.n != 0 && hx.n != 2)
    return tli_fail(TL_EARG, "%s: hx: expected {h, c}, got %" PRId64 " tensors", op, hx.n);
  *h = hx.n ? hx.v[0] : NULL;
  *c = hx.n ? hx.v[1] : NULL;
  return true;
}

/* ---- layers ----------------------------------------------------------------------- */

typedef bool LayerFn(tl_Tensor *input, tl_Tensor *batch_sizes, tl_Tensor *offsets, tl_Tensor *hx,
                     tl_Tensor *cx, tl_Tensor *weight_ih, tl_Tensor *weight_hh,
                     tl_Tensor *weight_hr, tl_Tensor *bias_ih, tl_Tensor *bias_hh, bool reverse,
                     tl_Tensor **out);
static LayerFn *const layer_of[] = {[TLK_RNN_RELU] = tlo_rnn_relu_layer,
                                    [TLK_RNN_TANH] = tlo_rnn_tanh_layer,
                                    [TLK_RNN_LSTM] = tlo_lstm_layer,
                                    [TLK_RNN_GRU] = tlo_gru_layer};

/* Returns, on the device, the first row of each step and the end of the last step. They are copied
** from pinned memory, so the host does not wait for the device. */
static tl_Tensor *chain_offsets(tli_Chain *c, const tl_Tensor *batch_sizes, tl_Device device) {
  int64_t steps = batch_sizes->numel, n = steps + 1;
  tl_Tensor *offsets =
      TLI_STEP(c, device.type == TL_CPU ? tli_empty(TL_I64, device, 1, &n)
                                        : tli_pinned_empty(device.type, TL_I64, 1, &n));
  if (c->failed) return NULL;
  const int64_t *count = tli_data(batch_sizes);
  int64_t *at = tli_data(offsets);
  at[0] = 0;
  for (int64_t t = 0; t < steps; t++) at[t + 1] = at[t] + count[t];
  return TLI_STEP(c, tli_moved(offsets, device, true));
}

static tl_Tensor *chain_state(tli_Chain *c, tl_Tensor *states, int64_t line) {
  return states ? TLI_STEP(c, tlo_select(states, 0, line)) : NULL;
}

/* Runs one layer in one direction. `out` receives the layer's output, its last hidden state h and,
** for an LSTM, its last cell state c. */
static void run_line(tli_Chain *c, const Net *n, tl_Tensor *input, int64_t line, tl_Tensor **out) {
  tl_Tensor *const *p = n->params.v + line * n->each;
  tl_Tensor *h = chain_state(c, n->hx, line), *cell = chain_state(c, n->cx, line), *made[4];
  bool projected = n->each % 2 == 1;
  if (c->failed ||
      !layer_of[n->mode](input, n->batch_sizes, n->offsets, h, cell, p[0], p[1],
                         projected ? p[n->each - 1] : NULL, n->has_biases ? p[2] : NULL,
                         n->has_biases ? p[3] : NULL, line % directions(n), made)) {
    c->failed = true;
    return;
  }
  tli_release(made[3]);
  for (int i = 0; i < 3; i++) out[i] = made[i] ? tli_keep(c, made[i]) : NULL;
}

static tl_Tensor *chain_joined(tli_Chain *c, tl_Tensor **list, int64_t n) {
  if (n == 1) return chain_unsqueeze(c, list[0], 0);
  return TLI_STEP(c, tlo_stack((tl_Tensors){n, list}, 0));
}

/* Runs all layers. `lasts` has room for the last h of all layers and directions, followed by the
** last c of all layers and directions. */
static void run_layers(tli_Chain *c, const Net *n, tl_Tensor **lasts, tl_Tensor **out) {
  int64_t both = directions(n), lines = n->layers * both;
  tl_Tensor *x = n->input;
  for (int64_t layer = 0; layer < n->layers && !c->failed; layer++) {
    tl_Tensor *outputs[2] = {NULL};
    for (int64_t d = 0; d < both; d++) {
      int64_t line = layer * both + d;
      tl_Tensor *made[3] = {NULL};
      run_line(c, n, x, line, made);
      outputs[d] = made[0], lasts[line] = made[1], lasts[lines + line] = made[2];
    }
    x = both == 2 ? TLI_STEP(c, tlo_cat((tl_Tensors){2, outputs}, -1)) : outputs[0];
    if (n->dropout > 0 && n->train && layer < n->layers - 1)
      x = TLI_STEP(c, tlo_dropout(x, n->dropout, true, n->generator));
  }
  out[0] = x;
  out[1] = c->failed ? NULL : chain_joined(c, lasts, lines);
  if (n->mode == TLK_RNN_LSTM && !c->failed) out[2] = chain_joined(c, lasts + lines, lines);
}

/* Runs the whole network and returns the first `count` of its results: output, h, c. */
static bool run(Net n, bool batch_first, int count, tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *made[3] = {NULL};
  if (n.batch_sizes) {
    n.batch_sizes = TLI_STEP(&c, tli_moved(n.batch_sizes, TLI_CPU, false));
    n.batch_sizes = TLI_STEP(&c, tli_contiguous_as(n.batch_sizes, TL_I64));
  }
  if (batch_first && n.input->ndim == 3) n.input = TLI_STEP(&c, tlo_transpose(n.input, 0, 1));
  size_t bytes = 0;
  tl_Tensor **lasts = NULL;
  if (c.failed || !check(&n)) {
    c.failed = true;
  } else {
    bytes = (size_t)(2 * n.layers * directions(&n)) * sizeof(tl_Tensor *);
    if ((lasts = tli_alloc(bytes)) == NULL) c.failed = true;
  }
  if (n.batch_sizes && !c.failed) n.offsets = chain_offsets(&c, n.batch_sizes, tli_device(n.input));
  if (!c.failed) run_layers(&c, &n, lasts, made);
  if (batch_first && !c.failed) made[0] = TLI_STEP(&c, tlo_transpose(made[0], 0, 1));
  tli_free(lasts, bytes);
  bool ok = !c.failed;
  for (int i = 0; i < count; i++) out[i] = ok ? tli_retain(made[i]) : NULL;
  tli_chain_end(&c, NULL);
  return ok;
}

/* Initialises the Net of an operator. Other values come from the parameters of the function that
** uses the macro; these parameters have the same names in all such functions. */
#define NET(operator, kind, data, sizes)                                                 \
  {                                                                                      \
    .op = operator, .mode = kind, .input = data, .batch_sizes = sizes, .params = params, \
    .has_biases = has_biases, .train = train, .bidirectional = bidirectional,            \
    .layers = num_layers, .dropout = dropout, .generator = generator                     \
  }

bool tlo_lstm(tl_Tensor *input, tl_Tensors hx, tl_Tensors params, bool has_biases,
              int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first,
              tli_Generator *generator, tl_Tensor **out) {
  Net n = NET("lstm", TLK_RNN_LSTM, input, NULL);
  return take_pair(n.op, hx, &n.hx, &n.cx) && run(n, batch_first, 3, out);
}

bool tlo_lstm_data(tl_Tensor *data, tl_Tensor *batch_sizes, tl_Tensors hx, tl_Tensors params,
                   bool has_biases, int64_t num_layers, double dropout, bool train,
                   bool bidirectional, tli_Generator *generator, tl_Tensor **out) {
  Net n = NET("lstm", TLK_RNN_LSTM, data, batch_sizes);
  return take_pair(n.op, hx, &n.hx, &n.cx) && run(n, false, 3, out);
}

#define DEFINE(name, kind)                                                                       \
  bool tlo_##name(tl_Tensor *input, tl_Tensor *hx, tl_Tensors params, bool has_biases,           \
                  int64_t num_layers, double dropout, bool train, bool bidirectional,            \
                  bool batch_first, tli_Generator *generator, tl_Tensor **out) {                 \
    Net n = NET(#name, kind, input, NULL);                                                       \
    n.hx = hx;                                                                                   \
    return run(n, batch_first, 2, out);                                                          \
  }                                                                                              \
  bool tlo_##name##_data(tl_Tensor *data, tl_Tensor *batch_sizes, tl_Tensor *hx,                 \
                         tl_Tensors params, bool has_biases, int64_t num_layers, double dropout, \
                         bool train, bool bidirectional, tli_Generator *generator,               \
                         tl_Tensor **out) {                                                      \
    Net n = NET(#name, kind, data, batch_sizes);                                                 \
    n.hx = hx;                                                                                   \
    return run(n, false, 2, out);                                                                \
  }
DEFINE(gru, TLK_RNN_GRU)
DEFINE(rnn_tanh, TLK_RNN_TANH)
DEFINE(rnn_relu, TLK_RNN_RELU)

/* ---- cells: one step of one layer -------------------------------------------------- */

typedef struct Cell {
  const char *op;
  tlk_RnnMode mode;
  tl_Tensor *input, *hx, *cx, *weight_ih, *weight_hh, *bias_ih, *bias_hh;
} Cell;

static bool check_cell(const Cell *cell) {
  const char *op = cell->op;
  const tl_Tensor *in = cell->input, *weight = cell->weight_hh;
  int64_t gates = tlk_rnn_gates(cell->mode);
  TL_TRY(check_floating(op, "input", in));
  if (in->ndim != 2)
    return tli_fail(TL_ESHAPE, "%s: input: expected shape (batch, size), got %s", op,
                    tli_sizes_str(in));
  if (weight->ndim != 2 || weight->sizes[1] == 0 || weight->sizes[0] != gates * weight->sizes[1])
    return tli_fail(TL_ESHAPE, "%s: w_hh: expected shape (%" PRId64 " * hidden, hidden), got %s",
                    op, gates, tli_sizes_str(weight));
  int64_t rows = weight->sizes[0], state[] = {in->sizes[0], weight->sizes[1]};
  int64_t weight_ih[] = {rows, in->sizes[1]}, weight_hh[] = {rows, weight->sizes[1]};
  tl_Ints states = {2, state}, biases = {1, &rows};
  TL_TRY(check_like_input(op, "w_ih", cell->weight_ih, in, (tl_Ints){2, weight_ih}));
  TL_TRY(check_like_input(op, "w_hh", weight, in, (tl_Ints){2, weight_hh}));
  if (cell->hx) TL_TRY(check_like_input(op, cell->cx ? "hx[1]" : "hx", cell->hx, in, states));
  if (cell->cx) TL_TRY(check_like_input(op, "hx[2]", cell->cx, in, states));
  if (cell->bias_ih) TL_TRY(check_like_input(op, "b_ih", cell->bias_ih, in, biases));
  if (cell->bias_hh) TL_TRY(check_like_input(op, "b_hh", cell->bias_hh, in, biases));
  return true;
}

static bool run_cell(const Cell *cell, tl_Tensor **h, tl_Tensor **c) {
  TL_TRY(check_cell(cell));
  tl_Tensor *out[4], *input = tlo_unsqueeze(cell->input, 0);
  bool ok = input &&
            layer_of[cell->mode](input, NULL, NULL, cell->hx, cell->cx, cell->weight_ih,
                                 cell->weight_hh, NULL, cell->bias_ih, cell->bias_hh, false, out);
  tli_release(input);
  if (!ok) return false;
  tli_release(out[0]);
  tli_release(out[3]);
  *h = out[1];
  if (c) *c = out[2];
  return true;
}

bool tlo_lstm_cell(tl_Tensor *input, tl_Tensors hx, tl_Tensor *w_ih, tl_Tensor *w_hh,
                   tl_Tensor *b_ih, tl_Tensor *b_hh, tl_Tensor **out) {
  Cell cell = {"lstm_cell", TLK_RNN_LSTM, input, NULL, NULL, w_ih, w_hh, b_ih, b_hh};
  return take_pair(cell.op, hx, &cell.hx, &cell.cx) && run_cell(&cell, &out[0], &out[1]);
}

static tl_Tensor *one_state(Cell cell) {
  tl_Tensor *h = NULL;
  return run_cell(&cell, &h, NULL) ? h : NULL;
}

tl_Tensor *tlo_gru_cell(tl_Tensor *input, tl_Tensor *hx, tl_Tensor *w_ih, tl_Tensor *w_hh,
                        tl_Tensor *b_ih, tl_Tensor *b_hh) {
  return one_state((Cell){"gru_cell", TLK_RNN_GRU, input, hx, NULL, w_ih, w_hh, b_ih, b_hh});
}
tl_Tensor *tlo_rnn_tanh_cell(tl_Tensor *input, tl_Tensor *hx, tl_Tensor *w_ih, tl_Tensor *w_hh,
                             tl_Tensor *b_ih, tl_Tensor *b_hh) {
  return one_state((Cell){"rnn_tanh_cell", TLK_RNN_TANH, input, hx, NULL, w_ih, w_hh, b_ih, b_hh});
}
tl_Tensor *tlo_rnn_relu_cell(tl_Tensor *input, tl_Tensor *hx, tl_Tensor *w_ih, tl_Tensor *w_hh,
                             tl_Tensor *b_ih, tl_Tensor *b_hh) {
  return one_state((Cell){"rnn_relu_cell", TLK_RNN_RELU, input, hx, NULL, w_ih, w_hh, b_ih, b_hh});
}
