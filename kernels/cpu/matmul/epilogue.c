/*
** epilogue.c - the elementwise operations after matrix products. There are fast loops for a bias
** with or without relu; other activations use the loops of pointwise kernels. Results equal those
** of separate operators.
*/
#include "kernels/cpu/matmul/epilogue.h"

#include <string.h>

#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/matmul/tile.h"

static const tlk_Pointwise kernels[] = {[TLK_ACTIVATION_RELU] = TLK_relu,
                                        [TLK_ACTIVATION_GELU] = TLK_gelu,
                                        [TLK_ACTIVATION_GELU_TANH] = TLK_gelu_tanh};

typedef struct Loops {
  tlk_Loop add, activate; /* loops for the bias and the activation; activate may be NULL */
  int64_t size;
} Loops;

/* Applies the epilogue to n elements, a multiple of TLK_LANES: adds the bias, stores the sum in
** `inner`, and applies the activation. */
static void finish_lanes(const Loops *l, int64_t n, char *c, const char *bias, char *inner) {
  tl_Scalar one = tli_int(1);
  if (bias) l->add(n, (void *const[]){c, c, (void *)(uintptr_t)bias}, &one);
  if (inner) memcpy(inner, c, (size_t)(n * l->size));
  if (l->activate) l->activate(n, (void *const[]){c, c}, NULL);
}

/* Applies the epilogue to any number of elements. The last n % TLK_LANES elements are padded in
** buffers. */
static void finish_run(const Loops *l, int64_t n, char *c, const char *bias, char *inner) {
  int64_t whole = n & -TLK_LANES, done = whole * l->size;
  size_t rest = (size_t)((n - whole) * l->size);
  if (whole > 0) finish_lanes(l, whole, c, bias, inner);
  if (rest == 0) return;
  _Alignas(64) char last[TLK_LANES * 8] = {0}, last_bias[TLK_LANES * 8] = {0};
  _Alignas(64) char last_inner[TLK_LANES * 8];
  memcpy(last, c + done, rest);
  if (bias) memcpy(last_bias, bias + done, rest);
  finish_lanes(l, TLK_LANES, last, bias ? last_bias : NULL, inner ? last_inner : NULL);
  memcpy(c + done, last, rest);
  if (inner) memcpy(inner + done, last_inner, rest);
}

static void finish_by_loops(const tlk_Epilogue *e, tl_DType compute, int64_t rows, int64_t cols,
                            void *c, int64_t ldc) {
  const tlk_Loop *all = tlk_isa()->loops[tlk_compute_index(compute)];
  Loops l = {all[TLK_add], e->activation ? all[kernels[e->activation]] : NULL,
             compute == TL_F64 ? 8 : 4};
  /* if short rows are contiguous, several are processed as one long row, along which the bias is
  ** repeated */
  _Alignas(64) char repeated[TLK_CHUNK * 8];
  int64_t fold = ldc == cols && cols < TLK_CHUNK / 8 ? tlk_min(rows, TLK_CHUNK / cols) : 1;
  const char *bias = e->bias;
  if (fold > 1 && bias) {
    for (int64_t r = 0; r < fold; r++)
      memcpy(repeated + r * cols * l.size, bias, (size_t)(cols * l.size));
    bias = repeated;
  }
  char *inner = e->inner;
  for (int64_t r = 0; r < rows; r += fold) {
    int64_t at = r * ldc * l.size;
    finish_run(&l, tlk_min(fold, rows - r) * cols, (char *)c + at, bias, inner ? inner + at : NULL);
  }
}

void tlk_finish(const tlk_Epilogue *e, tl_DType compute, int64_t rows, int64_t cols, void *c,
                int64_t ldc) {
  bool relu = e->activation == TLK_ACTIVATION_RELU;
  if (e->inner == NULL && (relu || e->activation == TLK_ACTIVATION_NONE))
    tlk_isa()->tile[compute == TL_F64]->finish(rows, cols, e->bias, relu, c, ldc);
  else
    finish_by_loops(e, compute, rows, cols, c, ldc);
}
