/*
** gemm.c - matrix products. Products of float32, float64 and complex numbers are computed in
** tiled.c. If one factor is a vector, they are computed by BLAS if one was found; but if the rows
** of a real matrix are contiguous, our own loop of dot products is faster. Products of half types
** are computed in half_gemm.c. Products of integers, which wrap around, are computed in a plain
** loop.
**
** Threads share the products of a batch, and the rows or columns of each product. The dimension k
** is never divided among threads, so the terms of an element are added in the same order for any
** number of threads. BLAS is limited to one thread, because its threads spin while they wait. The
** order in which BLAS adds terms may depend on the sizes, so BLAS always gets pieces of the same
** size.
*/
#include <limits.h>
#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/error.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/matmul/blas.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/epilogue.h"
#include "kernels/cpu/matmul/half_gemm.h"
#include "kernels/cpu/matmul/tile.h"

/* The smallest number of multiplications for each thread in a matrix-vector product. Memory
** bandwidth limits such products, so a thread with a smaller share would not be worthwhile. */
#define SMALL_VECTOR (256 * 1024)
/* PIECE is the number of rows or columns that one call of BLAS multiplies with a vector. BLAS_MAX
** is the largest size that we pass to BLAS, whose sizes are ints. */
#define PIECE 256
#define BLAS_MAX (1 << 30)

/* ---- plain loops ---- */

#define whole uint8_t
#define PLAIN plain_8
#include "kernels/cpu/matmul/plain_loops.h"
#define whole uint16_t
#define PLAIN plain_16
#include "kernels/cpu/matmul/plain_loops.h"
#define whole uint32_t
#define PLAIN plain_32
#include "kernels/cpu/matmul/plain_loops.h"
#define whole uint64_t
#define PLAIN plain_64
#include "kernels/cpu/matmul/plain_loops.h"

/* ---- products with a vector ---- */

#define real float
#define PARTS 1
#define VECTOR vector_s
#define GEMV sgemv
#include "kernels/cpu/matmul/vector_loops.h"
#define real double
#define PARTS 1
#define VECTOR vector_d
#define GEMV dgemv
#include "kernels/cpu/matmul/vector_loops.h"
#if TLK_COMPLEX_PRODUCTS
#define real float
#define PARTS 2
#define VECTOR vector_c
#define GEMV cgemv
#include "kernels/cpu/matmul/vector_loops.h"
#define real double
#define PARTS 2
#define VECTOR vector_z
#define GEMV zgemv
#include "kernels/cpu/matmul/vector_loops.h"
#endif

/* Returns whether each result of a product is just the dot product (alpha is 1, and beta is 0) of a
** contiguous row of a matrix and a contiguous vector. Our own loop computes such products faster
** than BLAS. */
static bool suits_dots(const tlk_Gemm *g) {
  bool left = g->n == 1, by_row = left ? !g->trans_a : g->trans_b;
  int64_t step = left ? (g->trans_b ? 1 : g->ldb) : (g->trans_a ? g->lda : 1);
  return by_row && step == 1 && tli_to_double(g->alpha) == 1 && tli_to_double(g->beta) == 0;
}

static bool dots(const tlk_Gemm *g, const tlk_Epilogue *after, const void *a, const void *b,
                 void *c) {
  bool left = g->n == 1;
  tlk_product_loops(g->dtype == TL_F64)
      ->dots(left ? g->m : g->n, g->k, left ? a : b, left ? g->lda : g->ldb, left ? b : a, c,
             left ? g->ldc : 1);
  if (after) tlk_finish(after, g->dtype, g->m, g->n, c, g->ldc);
  return true;
}

/* ---- batches ---- */

typedef bool (*One)(const tlk_Gemm *g, const tlk_Epilogue *after, const void *a, const void *b,
                    void *c);

/* Returns the function that computes one product of this dtype and of the sizes in g. */
static One one_of(const tlk_Gemm *g, tl_DType dtype) {
  bool vector = (g->m == 1 || g->n == 1) && !tlk_portable();
  if (vector && (dtype == TL_F32 || dtype == TL_F64) && suits_dots(g)) return dots;
  vector = vector && tlk_blas();
  switch (dtype) {
  case TL_F32: return vector ? vector_s : tlk_tiled_gemm;
  case TL_F64: return vector ? vector_d : tlk_tiled_gemm;
#if TLK_COMPLEX_PRODUCTS
  case TL_C64: return vector ? vector_c : tlk_tiled_gemm;
  case TL_C128: return vector ? vector_z : tlk_tiled_gemm;
#endif
  default: break;
  }
  if (tli_dtype_category(dtype) != TLI_INT) return NULL;
  One const by_size[] = {plain_8, plain_16, plain_32, plain_64};
  return by_size[tlk_log2_size(dtype)];
}

typedef struct Batch {
  const tlk_Gemm *g;
  const tlk_Epilogue *after;
  One one;
  /* whether threads divide the rows among themselves; otherwise they divide the columns */
  bool rows;
  int64_t step;  /* number of rows or columns in one step */
  int64_t steps; /* number of steps in a product */
  /* whether each step is a separate call: for vectors, because the order in which BLAS adds terms
  ** may depend on the sizes, and for integers, because the user can interrupt a product only
  ** between calls of the plain loops */
  bool pieces;
  atomic_bool stopped;
} Batch;

/* Computes rows (or columns) [begin, end) of product i of the batch. */
static bool run_part(const Batch *batch, int64_t i, int64_t begin, int64_t end) {
  tlk_Gemm part = *batch->g;
  int64_t size = tli_dtype_bytes[part.dtype];
  const char *a = (const char *)part.a + i * part.stride_a * size;
  const char *b = (const char *)part.b + i * part.stride_b * size;
  char *c = (char *)part.c + i * part.stride_c * size;
  if (batch->rows) {
    part.m = end - begin;
    a += begin * (part.trans_a ? 1 : part.lda) * size;
    c += begin * part.ldc * size;
  } else {
    part.n = end - begin;
    b += begin * (part.trans_b ? part.ldb : 1) * size;
    c += begin * size;
  }
  if (batch->after == NULL) return batch->one(&part, NULL, a, b, c);
  tlk_Epilogue after = tlk_epilogue_at(batch->after, batch->rows ? begin : 0,
                                       batch->rows ? 0 : begin, part.ldc, size);
  return batch->one(&part, &after, a, b, c);
}

/* Runs steps [begin, end). The steps of all products are numbered in one sequence. */
static void run_steps(void *context, int64_t begin, int64_t end) {
  Batch *batch = context;
  int64_t lines = batch->rows ? batch->g->m : batch->g->n;
  for (int64_t at = begin; at < end && !batch->stopped;) {
    if (tli_interrupted()) batch->stopped = true;
    int64_t i = at / batch->steps, from = at % batch->steps;
    int64_t count = batch->pieces ? 1 : tlk_min(end - at, batch->steps - from);
    if (!run_part(batch, i, from * batch->step, tlk_min((from + count) * batch->step, lines)))
      batch->stopped = true;
    at += count;
  }
}

static bool run_all(const tlk_Gemm *g, const tlk_Epilogue *after) {
  bool vector = g->m == 1 || g->n == 1, real = tli_is_inexact(g->dtype);
  double all = (double)g->m * (double)g->n * (double)g->k;
  if (g->batch == 1 && all <= TLK_PRODUCT_GRAIN && (!vector || tlk_max(g->m, g->n) <= PIECE))
    return one_of(g, g->dtype)(g, after, g->a, g->b, g->c) ||
           tli_fail(TL_EINTERRUPT, "interrupted!");
  Batch batch = {.g = g,
                 .after = after,
                 .one = one_of(g, g->dtype),
                 .rows = g->m > g->n || !real,
                 .step = 1,
                 .pieces = vector || !real};
  int64_t lines = batch.rows ? g->m : g->n;
  if (real) {
    const tlk_TileLoops *f = tlk_product_loops(tli_real_dtype(g->dtype) == TL_F64);
    batch.step = vector ? PIECE : batch.rows ? f->rows : f->lanes;
  }
  batch.steps = (lines + batch.step - 1) / batch.step;
  double work = all / (double)batch.steps;
  int64_t least = (int64_t)((vector ? SMALL_VECTOR : TLK_PRODUCT_GRAIN) / (work + 1)) + 1;
  tli_parallel_for(g->batch * batch.steps, least, run_steps, &batch);
  return !batch.stopped || tli_fail(TL_EINTERRUPT, "interrupted!");
}

/* ---- entries of the kernel table ---- */

/* Computes c = beta * c for each matrix c. If k is 0, this is the whole product. */
static bool scale(const tlk_Gemm *g) {
  int64_t size = tli_dtype_bytes[g->dtype];
  tl_DType compute = tli_dtype_compute(g->dtype);
  for (int64_t q = 0; q < g->batch; q++) {
    tli_Iter it = {.nargs = 1, .ndim = 2, .numel = g->m * g->n, .sizes = {g->n, g->m}};
    it.args[0] = (tli_IterArg){.data = (char *)g->c + q * g->stride_c * size,
                               .dtype = g->dtype,
                               .strides = {size, g->ldc * size}};
    if (tli_to_double(g->beta) == 0) {
      TL_TRY(tlk_fill(&(struct tlk_fill){.it = it, .value = tli_int(0)}));
      continue;
    }
    double factor[1] = {tli_to_double(g->beta)};
    it.nargs = 3;
    it.args[1] = it.args[0];
    it.args[2] = (tli_IterArg){.data = (char *)factor, .dtype = TL_F64};
    TL_TRY(tlk_pointwise(&(struct tlk_pointwise){.it = it, .kernel = TLK_mul, .compute = compute}));
  }
  return true;
}

static bool fits_blas(const tlk_Gemm *g) {
  if (!tli_is_inexact(g->dtype)) return true;
  if (g->lda <= INT_MAX && g->ldb <= INT_MAX && g->ldc <= INT_MAX) return true;
  return tli_fail(TL_ESHAPE, "matmul: expected rows of less than 2^31 elements");
}

bool tlk_multiply(const tlk_Gemm *g, const tlk_Epilogue *after) {
  if (g->m == 0 || g->n == 0 || g->batch == 0) return true;
  if (g->k == 0) return scale(g);
  TL_TRY(fits_blas(g));
  if (tli_is_half(g->dtype)) return tlk_half_gemm(g, g->dtype, after);
  if (one_of(g, g->dtype) == NULL)
    return tli_fail(TL_EDTYPE, "matmul: not defined for %s tensors", tl_dtype_name(g->dtype));
  return run_all(g, after);
}

bool tlk_gemm(const struct tlk_gemm *call) { return tlk_multiply(&call->gemm, NULL); }
