/*
** layer.c - code that the forward and the backward pass of a recurrent layer share: the layout of
** rows and of memory, the division of samples among threads, and the conversion of half types.
*/
#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/rnn/layer.h"
#include "kernels/cpu/upcast.h"

const tlk_RnnLayout tlk_rnn_layouts[] = {
    [TLK_RNN_RELU] = {1, {0, 1, 0}, 1, {{0, 1, 0}}},
    [TLK_RNN_TANH] = {1, {0, 1, 0}, 1, {{0, 1, 0}}},
    [TLK_RNN_LSTM] = {4, {0, 4, 0}, 1, {{0, 4, 0}}},
    [TLK_RNN_GRU] = {4, {0, 3, 1}, 2, {{0, 2, 1}, {2, 1, 0}}},
};

tlk_RnnStep tlk_rnn_step(const tlk_Rnn *r, int64_t t, int64_t end) {
  int64_t from = r->reverse ? t + 1 : t - 1, to = r->reverse ? t - 1 : t + 1;
  tlk_RnnStep s = {.end = tlk_min(end, tlk_rnn_count(r, t)), .first = tlk_rnn_first(r, t)};
  if (from >= 0 && from < r->steps) {
    s.before = tlk_rnn_first(r, from);
    s.joins = tlk_min(s.end, tlk_rnn_count(r, from));
  }
  if (to >= 0 && to < r->steps) s.stays = tlk_min(s.end, tlk_rnn_count(r, to));
  return s;
}

tlk_RnnLayer tlk_rnn_layer(const tlk_Rnn *rnn, void *reserve) {
  tlk_RnnLayer layer = {.rnn = *rnn,
                        .layout = &tlk_rnn_layouts[rnn->mode],
                        .loops = tlk_isa()->rnn[rnn->dtype == TL_F64],
                        .size = rnn->dtype == TL_F64 ? 8 : 4};
  if (reserve == NULL || layer.layout->width == 1) return layer;
  int64_t column = rnn->rows * rnn->hidden * layer.size;
  layer.gates = reserve;
  layer.cell = layer.gates + layer.layout->width * column;
  layer.tanh_cell = layer.cell + column;
  layer.unprojected = layer.tanh_cell + column;
  return layer;
}

bool tlk_rnn_share(const tlk_Rnn *r, void (*fn)(void *context, int64_t begin, int64_t end),
                   void *context) {
  double sample = (double)(tlk_rnn_gates(r->mode) * r->hidden) * (double)r->output;
  bool few = r->batch < 2 * tl_get_num_threads();
  if (few && sample * (double)r->batch > 2 * TLK_RNN_SMALL)
    fn(context, 0, r->batch);
  else
    tli_parallel_for(r->batch, (int64_t)(TLK_RNN_SMALL / (sample * (double)r->steps + 1)) + 1, fn,
                     context);
  return tli_go_on();
}

typedef struct Product {
  const tlk_Packed *matrix;
  int64_t rows;
  const void *a;
  int64_t a_step;
  bool add;
  void *c;
  int64_t c_step;
} Product;

static void run_product(void *context, int64_t begin, int64_t end) {
  const Product *p = context;
  tlk_packed_product(p->matrix, begin, end, p->rows, p->a, p->a_step, p->add, p->c, p->c_step);
}

void tlk_rnn_multiply(const tlk_Packed *matrix, int64_t rows, const void *a, int64_t a_step,
                      bool add, void *c, int64_t c_step) {
  if (rows <= 0) return;
  Product p = {matrix, rows, a, a_step, add, c, c_step};
  double panel = (double)rows * (double)matrix->k * (double)matrix->width;
  tli_parallel_for(matrix->panels, (int64_t)(TLK_RNN_SMALL / (panel + 1)) + 1, run_product, &p);
}

/* ---- half types ---- */

static void *add_array(tlk_RnnArrays *a, void *data, int64_t n, bool result) {
  if (data == NULL || a->failed) return NULL;
  tlk_Array given = {data, a->dtype}, wide = tlk_upcast(given, n, !result);
  if (wide.data == NULL) {
    a->failed = true;
    return NULL;
  }
  a->v[a->count++] = (tlk_RnnArray){given, wide, n, result};
  return wide.data;
}

const void *tlk_rnn_operand(tlk_RnnArrays *a, const void *data, int64_t n) {
  return add_array(a, (void *)(uintptr_t)data, n, false);
}

void *tlk_rnn_result(tlk_RnnArrays *a, void *data, int64_t n) {
  return add_array(a, data, n, true);
}

tlk_Rnn tlk_rnn_weights(tlk_RnnArrays *a, const tlk_Rnn *rnn) {
  tlk_Rnn r = *rnn;
  int64_t gates = tlk_rnn_gates(r.mode) * r.hidden;
  r.dtype = tli_dtype_compute(rnn->dtype);
  r.weight_ih = tlk_rnn_operand(a, rnn->weight_ih, gates * r.input);
  r.weight_hh = tlk_rnn_operand(a, rnn->weight_hh, gates * r.output);
  r.weight_hr = tlk_rnn_operand(a, rnn->weight_hr, r.output * r.hidden);
  r.bias_ih = tlk_rnn_operand(a, rnn->bias_ih, gates);
  r.bias_hh = tlk_rnn_operand(a, rnn->bias_hh, gates);
  return r;
}

void tlk_rnn_arrays_end(tlk_RnnArrays *a, bool ok) {
  for (int i = 0; i < a->count; i++) {
    const tlk_RnnArray *v = &a->v[i];
    if (ok && v->result)
      tlk_downcast(v->given, v->wide, v->n);
    else
      tlk_upcast_free(v->wide, v->given, v->n);
  }
}
