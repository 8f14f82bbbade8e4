/*
** linear.c - matrix products followed by bias and activation, and their gradients. Sums over rows
** are computed in segments. How rows are divided into segments depends only on the sizes of the
** arguments, so results do not depend on the number of threads.
*/
#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/epilogue.h"

/* Computes the sum of each row of op(a), which is the transpose of a if trans_a, otherwise a
** itself. */
static bool sum_rows(const struct tlk_linear *call) {
  const tlk_Gemm *g = &call->gemm;
  return tlk_reduce(&(struct tlk_reduce){.cx = call->cx,
                                         .kernel = TLK_reduction_sum,
                                         .compute = tli_dtype_compute(g->dtype),
                                         .out = {call->sums, g->dtype},
                                         .in = {(void *)(uintptr_t)g->a, g->dtype},
                                         .outer = g->trans_a ? 1 : g->m,
                                         .n = g->k,
                                         .inner = g->trans_a ? g->m : 1});
}

bool tlk_linear(const struct tlk_linear *call) {
  tlk_Epilogue after = {call->bias, call->activation, call->inner};
  bool any = call->bias || call->activation != TLK_ACTIVATION_NONE;
  TL_TRY(tlk_multiply(&call->gemm, any ? &after : NULL));
  return call->sums == NULL || sum_rows(call);
}

/* ---- the gradient of an activation ---- */

#define SEGMENTS 64 /* largest number of segments into which rows are divided */
#define PIECE 8192  /* number of elements that are processed at a time and stay in the cache */

typedef struct Back {
  const struct tlk_activation_backward *call;
  const tlk_Isa *isa;
  const tlk_Reducer *sum;
  tl_DType compute;
  int64_t size;    /* size of an element in bytes */
  int64_t segment; /* number of rows in a segment */
  /* the sums of each segment over the rows added so far (owned); NULL if no sums are wanted */
  char *sums;
  atomic_bool failed;
} Back;

static bool activate_back(const Back *b, int64_t first, int64_t n) {
  static const tlk_Pointwise kernels[] = {[TLK_ACTIVATION_RELU] = TLK_threshold_backward,
                                          [TLK_ACTIVATION_GELU] = TLK_gelu_backward,
                                          [TLK_ACTIVATION_GELU_TANH] = TLK_gelu_tanh_backward};
  const struct tlk_activation_backward *call = b->call;
  tlk_Array all[3] = {call->grad_in, call->grad_out, call->saved};
  struct tlk_pointwise step = {
      .it = {.nargs = 3, .ndim = 1, .numel = n, .sizes = {n}},
      .kernel = kernels[call->activation],
      .compute = b->compute,
      .params = {tli_int(0)}, /* the threshold of relu's gradient */
  };
  for (int k = 0; k < 3; k++)
    step.it.args[k] = (tli_IterArg){
        .data = (char *)all[k].data + first * b->size, .dtype = all[k].dtype, .strides = {b->size}};
  return tlk_pointwise(&step);
}

/* Adds the gradients of some rows to the sums while the rows are still in the cache. */
static void add_rows(const Back *b, int64_t first, int64_t rows, char *sums, char *buffer) {
  int64_t n = b->call->n;
  const char *grad = (const char *)b->call->grad_in.data + first * n * b->size;
  if (buffer) b->isa->convert[b->call->grad_in.dtype][b->compute](rows * n, buffer, grad);
  b->sum->columns(rows, n, n, buffer ? buffer : grad, sums, NULL);
}

static void run_segments(void *context, int64_t begin, int64_t end) {
  Back *b = context;
  const struct tlk_activation_backward *call = b->call;
  int64_t n = call->n, rows = tlk_max(1, PIECE / n), acc = n * b->sum->acc_bytes;
  bool narrow = b->sums && call->grad_in.dtype != b->compute;
  size_t bytes = narrow ? (size_t)(rows * n * 4) : 0;
  char *buffer = narrow ? tli_alloc(bytes) : NULL;
  bool ok = buffer || !narrow;
  for (int64_t g = begin; g < end && ok; g++) {
    char *sums = b->sums ? b->sums + g * acc : NULL;
    int64_t stop = tlk_min((g + 1) * b->segment, call->rows);
    if (sums) b->sum->start(n, sums, NULL);
    for (int64_t r = g * b->segment; r < stop && ok; r += rows) {
      int64_t piece = tlk_min(rows, stop - r);
      ok = activate_back(b, r * n, piece * n);
      if (sums) add_rows(b, r, piece, sums, buffer);
    }
  }
  if (!ok) atomic_store_explicit(&b->failed, true, memory_order_relaxed);
  tli_free(buffer, bytes);
}

static bool join_sums(const Back *b, int64_t segments) {
  int64_t n = b->call->n, acc = n * b->sum->acc_bytes;
  tlk_Array out = b->call->grad_bias;
  size_t bytes = (size_t)n * tl_dtype_size(b->compute);
  void *sums = out.dtype == b->compute ? out.data : tli_alloc(bytes);
  if (sums == NULL) return false;
  for (int64_t g = 1; g < segments; g++) b->sum->join(n, b->sums, b->sums + g * acc);
  b->sum->finish(n, sums, b->sums, NULL);
  if (sums == out.data) return true;
  b->isa->convert[b->compute][out.dtype](n, out.data, sums);
  tli_free(sums, bytes);
  return true;
}

bool tlk_activation_backward(const struct tlk_activation_backward *call) {
  const tlk_Isa *isa = tlk_isa();
  Back b = {.call = call,
            .isa = isa,
            .compute = tli_dtype_compute(call->grad_in.dtype),
            .size = (int64_t)tl_dtype_size(call->grad_in.dtype)};
  b.sum = &isa->reducers[tlk_compute_index(b.compute)][TLK_reduction_sum];
  int64_t wanted = tlk_max(1, tlk_min(SEGMENTS, call->rows * call->n / TLK_GRAIN));
  b.segment = tlk_max(1, tlk_ceil_div(call->rows, wanted));
  int64_t segments = tlk_ceil_div(call->rows, b.segment);
  size_t bytes = (size_t)(segments * call->n * b.sum->acc_bytes);
  if (call->grad_bias.data && (b.sums = tli_alloc(bytes)) == NULL) return false;
  bool ok = tli_parallel_try(segments, 1, run_segments, &b);
  if (ok && atomic_load(&b.failed)) ok = tli_fail(TL_EMEM, "linear: out of memory");
  if (ok && b.sums) ok = join_sums(&b, segments);
  tli_free(b.sums, bytes);
  return ok;
}
