/*
** rnn.c - the forward pass of a recurrent layer. One product multiplies the inputs of all steps by
** their weight. The weight of the states is packed once, and then each thread computes all steps of
** some samples with it. A sample's sums do not depend on the other samples of its thread, so
** results do not depend on the number of threads.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/matmul/packed.h"
#include "kernels/cpu/rnn/layer.h"

typedef struct Forward {
  tlk_RnnLayer layer;
  /* inputs and initial states; h0 and c0 are NULL if the initial states are 0 */
  const char *in, *h0, *c0;
  char *out, *hn, *cn;
  bool keeps; /* whether the backward pass will need the activations */
  /* owned memory: a row of zeros, as long as a row of gates or an output, and then `bias`,
  ** `scratch` and, if nothing else holds them, the gates */
  char *memory;
  size_t bytes;
  /* array of one number for each column of a row of gates, and scratch memory */
  char *bias, *scratch;
  tlk_Packed weight, hr; /* owned */
} Forward;

static char *row(const Forward *f, char *array, int64_t i, int64_t n) {
  return array + i * n * f->layer.size;
}
static const char *start_row(const Forward *f, const char *array, int64_t i, int64_t n) {
  return array ? array + i * n * f->layer.size : f->memory;
}

/* ---- products --------------------------------------------------------------------- */

/* Computes the inputs' contribution to the gates of all steps. */
static bool multiply_inputs(const Forward *f) {
  const tlk_Rnn *r = &f->layer.rnn;
  const tlk_RnnLayout *l = f->layer.layout;
  for (int i = 0; i < l->inputs; i++) {
    const tlk_RnnPart *part = &l->input[i];
    struct tlk_gemm call = {
        .gemm = {.dtype = r->dtype,
                 .trans_b = true,
                 .m = r->rows,
                 .n = part->rows * r->hidden,
                 .k = r->input,
                 .alpha = tli_float(1),
                 .beta = tli_float(0),
                 .a = f->in,
                 .b = (const char *)r->weight_ih + part->row * r->hidden * r->input * f->layer.size,
                 .c = f->layer.gates + part->column * r->hidden * f->layer.size,
                 .lda = r->input,
                 .ldb = r->input,
                 .ldc = l->width * r->hidden,
                 .batch = 1}};
    TL_TRY(tlk_gemm(&call));
  }
  return true;
}

/* Adds the previous states' contribution to the gates of samples [begin, s->end). */
static void multiply_states(const Forward *f, const tlk_RnnStep *s, int64_t begin) {
  const tlk_RnnLayer *l = &f->layer;
  const tlk_Rnn *r = &l->rnn;
  int64_t width = l->layout->width * r->hidden;
  char *gates = row(f, l->gates, s->first + begin, width);
  if (r->mode == TLK_RNN_GRU)
    for (int64_t i = 0; i < s->end - begin; i++)
      memset(row(f, gates, i, width) + 3 * r->hidden * l->size, 0, (size_t)(r->hidden * l->size));
  gates += l->layout->state.column * r->hidden * l->size;
  int64_t joins = tlk_max(begin, s->joins);
  tlk_rnn_multiply(&f->weight, joins - begin, row(f, f->out, s->before + begin, r->output),
                   r->output, true, gates, width);
  tlk_rnn_multiply(&f->weight, s->end - joins, start_row(f, f->h0, joins, r->output),
                   f->h0 ? r->output : 0, true, row(f, gates, joins - begin, width), width);
}

/* ---- steps ------------------------------------------------------------------------ */

/* Computes one step of an LSTM for sample n: the gates, the cell, and the output before the
** projection. */
static void lstm_row(const Forward *f, const tlk_RnnStep *s, int64_t n, char *out) {
  const tlk_RnnLayer *l = &f->layer;
  int64_t hidden = l->rnn.hidden, at = s->first + n;
  const char *before = start_row(f, f->c0, n, hidden);
  char *cell = row(f, f->keeps ? l->cell : f->cn, f->keeps ? at : n, hidden);
  if (n < s->joins) before = f->keeps ? row(f, l->cell, s->before + n, hidden) : cell;
  char *tanh_cell = f->keeps ? row(f, l->tanh_cell, at, hidden) : row(f, f->scratch, n, hidden);
  l->loops->lstm(hidden, row(f, l->gates, at, 4 * hidden), f->bias, before, cell, tanh_cell, out);
  if (f->keeps && n >= s->stays) memcpy(row(f, f->cn, n, hidden), cell, (size_t)(hidden * l->size));
}

static void gru_row(const Forward *f, const tlk_RnnStep *s, int64_t n, char *out) {
  const tlk_RnnLayer *l = &f->layer;
  int64_t hidden = l->rnn.hidden;
  const char *before =
      n < s->joins ? row(f, f->out, s->before + n, hidden) : start_row(f, f->h0, n, hidden);
  l->loops->gru(hidden, row(f, l->gates, s->first + n, 4 * hidden), f->bias, before, out);
}

/* Computes one step of samples [begin, s->end) from the sums of their gates. */
static void finish_step(const Forward *f, const tlk_RnnStep *s, int64_t begin) {
  const tlk_RnnLayer *l = &f->layer;
  const tlk_Rnn *r = &l->rnn;
  char *unprojected = f->keeps ? row(f, l->unprojected, s->first, r->hidden)
                               : row(f, f->scratch, r->batch, r->hidden);
  for (int64_t n = begin; n < s->end; n++) {
    char *out = row(f, f->out, s->first + n, r->output);
    switch (r->mode) {
    case TLK_RNN_RELU: l->loops->rnn_relu(r->hidden, out, f->bias); break;
    case TLK_RNN_TANH: l->loops->rnn_tanh(r->hidden, out, f->bias); break;
    case TLK_RNN_GRU: gru_row(f, s, n, out); break;
    default: lstm_row(f, s, n, r->weight_hr ? row(f, unprojected, n, r->hidden) : out);
    }
  }
  if (r->weight_hr)
    tlk_rnn_multiply(&f->hr, s->end - begin, row(f, unprojected, begin, r->hidden), r->hidden,
                     false, row(f, f->out, s->first + begin, r->output), r->output);
  for (int64_t n = tlk_max(begin, s->stays); n < s->end; n++)
    memcpy(row(f, f->hn, n, r->output), row(f, f->out, s->first + n, r->output),
           (size_t)(r->output * l->size));
}

static void run_samples(void *context, int64_t begin, int64_t end) {
  const Forward *f = context;
  const tlk_Rnn *r = &f->layer.rnn;
  for (int64_t k = 0; k < r->steps && !tli_interrupted(); k++) {
    tlk_RnnStep s = tlk_rnn_step(r, r->reverse ? r->steps - 1 - k : k, end);
    if (s.end <= begin) continue;
    multiply_states(f, &s, begin);
    finish_step(f, &s, begin);
  }
}

/* ---- the pass --------------------------------------------------------------------- */

/* Sets `bias` to the sum of the input's bias and the state's bias of each column. */
static void join_biases(const Forward *f) {
  const tlk_Rnn *r = &f->layer.rnn;
  const tlk_RnnLayout *l = f->layer.layout;
  int64_t n = r->hidden, size = f->layer.size;
  for (int k = 0; k <= l->inputs; k++) {
    const tlk_RnnPart *part = k < l->inputs ? &l->input[k] : &l->state;
    const char *bias = k < l->inputs ? r->bias_ih : r->bias_hh;
    char *to = f->bias + part->column * n * size;
    if (bias) f->layer.loops->add(part->rows * n, to, to, bias + part->row * n * size);
  }
}

/* Allocates the row of zeros, the biases, and the arrays that are not in the reserve. `gates` tells
** whether to allocate the gates, too. */
static bool allocate(Forward *f, bool gates) {
  const tlk_Rnn *r = &f->layer.rnn;
  int64_t size = f->layer.size, width = f->layer.layout->width * r->hidden;
  int64_t longest = tlk_max(width, r->output);
  bool scratch = r->mode == TLK_RNN_LSTM && !f->keeps;
  f->bytes = (size_t)((longest + width + (scratch ? 2 * r->batch * r->hidden : 0) +
                       (gates ? r->rows * width : 0)) *
                      size);
  if ((f->memory = tli_alloc(f->bytes)) == NULL) return false;
  memset(f->memory, 0, (size_t)((longest + width) * size));
  f->bias = f->memory + longest * size;
  f->scratch = f->bias + width * size;
  if (gates) f->layer.gates = f->scratch + (scratch ? 2 * r->batch * r->hidden : 0) * size;
  join_biases(f);
  return true;
}

static bool pack(Forward *f) {
  const tlk_Rnn *r = &f->layer.rnn;
  return tlk_pack(&f->weight, r->dtype, true, r->output, tlk_rnn_gates(r->mode) * r->hidden,
                  r->weight_hh, r->output) &&
         (r->weight_hr == NULL ||
          tlk_pack(&f->hr, r->dtype, true, r->hidden, r->output, r->weight_hr, r->hidden));
}

static bool forward(const tlk_Rnn *r, const struct tlk_rnn *data, void *reserve) {
  Forward f = {.layer = tlk_rnn_layer(r, reserve),
               .in = data->in,
               .h0 = data->h0,
               .c0 = data->c0,
               .out = data->out,
               .hn = data->hn,
               .cn = data->cn,
               .keeps = reserve != NULL};
  /* a row of gates is as long as an output, so the gates are computed in the output's memory */
  if (f.layer.layout->width == 1) f.layer.gates = data->out;
  bool ok = allocate(&f, f.layer.gates == NULL) && pack(&f) && multiply_inputs(&f) &&
            tlk_rnn_share(r, run_samples, &f);
  tlk_packed_free(&f.weight);
  tlk_packed_free(&f.hr);
  tli_free(f.memory, f.bytes);
  return ok;
}

bool tlk_rnn(const struct tlk_rnn *call) {
  const tlk_Rnn *given = &call->rnn;
  int64_t out = given->batch * given->output, cells = given->batch * given->hidden;
  tlk_RnnArrays a = {.dtype = given->dtype};
  tlk_Rnn r = tlk_rnn_weights(&a, given);
  struct tlk_rnn data = {.in = tlk_rnn_operand(&a, call->in, given->rows * given->input),
                         .h0 = tlk_rnn_operand(&a, call->h0, out),
                         .c0 = tlk_rnn_operand(&a, call->c0, cells),
                         .out = tlk_rnn_result(&a, call->out, given->rows * given->output),
                         .hn = tlk_rnn_result(&a, call->hn, out),
                         .cn = tlk_rnn_result(&a, call->cn, cells)};
  bool ok = !a.failed && forward(&r, &data, call->reserve);
  tlk_rnn_arrays_end(&a, ok);
  return ok;
}
