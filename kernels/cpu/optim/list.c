/*
** list.c - kernels over lists of tensors: reductions, scaling, and gradient clipping.
*/
#include <stdatomic.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/optim/optim.h"
#include "kernels/optim.h"

/* A list of tensors. Each tensor is processed in parts of TLK_LIST_PART elements. The parts of all
** tensors are numbered in one sequence. */
typedef struct List {
  const tlk_Isa *isa;
  tl_DType dtype, compute;
  int count;
  const int64_t *n;
  /* for each tensor, the number of its first part in the sequence of all parts */
  int64_t first[TLK_LIST_TENSORS + 1];
  const struct tlk_list_reduce *reduce;
  const struct tlk_list_scale *scale;
  double factor;
  /* becomes true if an element is infinite or NaN */
  atomic_bool odd;
} List;

static void prepare(List *l, tl_DType dtype, int count, const int64_t *n) {
  l->isa = tlk_isa();
  l->dtype = dtype;
  l->compute = tli_dtype_compute(dtype);
  l->count = count;
  l->n = n;
  l->first[0] = 0;
  for (int i = 0; i < count; i++) l->first[i + 1] = l->first[i] + tlk_ceil_div(n[i], TLK_LIST_PART);
}

/* Calls `run` for parts [begin, end) of the list, with tensor i, the number k of the part within
** the tensor, and its number n of elements. */
static void each_part(List *l, int64_t begin, int64_t end,
                      void (*run)(List *l, int i, int64_t k, int64_t n)) {
  int i = 0;
  for (int64_t p = begin; p < end; p++) {
    while (l->first[i + 1] <= p) i++;
    int64_t k = p - l->first[i];
    run(l, i, k, tlk_min(TLK_LIST_PART, l->n[i] - k * TLK_LIST_PART));
  }
}

static char *part(const List *l, const void *data, int64_t k) {
  return (char *)(intptr_t)data + k * TLK_LIST_PART * (int64_t)tl_dtype_size(l->dtype);
}

/* ---- reductions ------------------------------------------------------------------- */

/* Returns the value of an accumulator as a double. An accumulator for a minimum or maximum has the
** compute type; every other accumulator is a double. */
static double accumulated(tlk_Reduction kernel, tl_DType compute, const void *acc) {
  bool extreme = kernel == TLK_reduction_amax_abs || kernel == TLK_reduction_amin_abs;
  return extreme && compute == TL_F32 ? (double)*(const float *)acc : *(const double *)acc;
}

static void reduce_part(List *l, int i, int64_t k, int64_t n) {
  const struct tlk_list_reduce *call = l->reduce;
  const tlk_Reducer *r = &l->isa->reducers[tlk_compute_index(l->compute)][call->kernel];
  const char *src = part(l, call->data[i], k);
  _Alignas(64) char acc[TLK_ACC_BYTES], buffer[TLK_CHUNK * 8];
  r->start(1, acc, call->params);
  if (l->dtype == l->compute) r->row(n, src, acc, call->params);
  for (int64_t at = 0; at < n && l->dtype != l->compute; at += TLK_CHUNK) {
    int64_t piece = tlk_min(TLK_CHUNK, n - at);
    l->isa->convert[l->dtype][l->compute](piece, buffer,
                                          src + at * (int64_t)tl_dtype_size(l->dtype));
    r->row(piece, buffer, acc, call->params);
  }
  call->partials[call->first[i] + k] = accumulated(call->kernel, l->compute, acc);
}

static void reduce_parts(void *context, int64_t begin, int64_t end) {
  each_part(context, begin, end, reduce_part);
}

bool tlk_list_reduce(const struct tlk_list_reduce *call) {
  List l = {.reduce = call};
  prepare(&l, call->dtype, call->count, call->n);
  tli_parallel_pieces(l.first[l.count], 1, reduce_parts, &l);
  return true;
}

/* ---- scaling ---------------------------------------------------------------------- */

static bool scale_converted(const List *l, char *data, int64_t n) {
  _Alignas(64) char buffer[TLK_CHUNK * 8];
  bool finite = true;
  for (int64_t at = 0; at < n; at += TLK_CHUNK) {
    int64_t piece = tlk_min(TLK_CHUNK, n - at);
    char *src = data + at * (int64_t)tl_dtype_size(l->dtype);
    l->isa->convert[l->dtype][l->compute](piece, buffer, src);
    finite = l->isa->optim->scale(piece, buffer, l->factor) && finite;
    l->isa->convert[l->compute][l->dtype](piece, src, buffer);
  }
  return finite;
}

static void scale_part(List *l, int i, int64_t k, int64_t n) {
  char *data = part(l, l->scale->data[i], k);
  bool finite = l->dtype == l->compute
                    ? l->isa->optim[l->compute == TL_F64].scale(n, data, l->factor)
                    : scale_converted(l, data, n);
  if (!finite) atomic_store_explicit(&l->odd, true, memory_order_relaxed);
}

static void scale_parts(void *context, int64_t begin, int64_t end) {
  each_part(context, begin, end, scale_part);
}

bool tlk_list_scale(const struct tlk_list_scale *call) {
  List l = {.scale = call, .factor = tlk_number(call->scale)};
  prepare(&l, call->dtype, call->count, call->n);
  tli_parallel_pieces(l.first[l.count], 1, scale_parts, &l);
  if (call->found_inf && atomic_load(&l.odd)) *call->found_inf = 1;
  return true;
}

/* ---- clipping --------------------------------------------------------------------- */

bool tlk_list_clip(const struct tlk_list_clip *call) {
  double sum = 0;
  for (int64_t i = 0; i < call->count; i++)
    sum = call->power == (double)INFINITY ? TLM_LARGER(sum, call->partials[i])
                                          : sum + call->partials[i];
  double norm = tlm_norm_of(sum, call->power);
  if (call->grad_scale.data) norm /= tlk_number(call->grad_scale);
  *call->found_inf = isfinite(norm) ? 0.0f : 1.0f;
  if (call->dtype == TL_F64) {
    *(double *)call->norm = norm;
    *(double *)call->factor = tlm_clip_f64(norm, call->max_norm);
  } else {
    *(float *)call->norm = (float)norm;
    *(float *)call->factor = tlm_clip_f32((float)norm, (float)call->max_norm);
  }
  return true;
}
