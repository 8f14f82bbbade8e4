/*
** gemm.c - matrix products. float32 and float64 go to tiled.c, or with a
** vector to BLAS if there is one; the half types are converted tile by tile to
** float32; integers, which wrap around, have a plain loop.
**
** Threads share out the products of a batch and the rows or columns of each.
** An element is summed as it would be by one thread, since none shares out k.
** BLAS is held to one thread: its own spin while they wait. It may sum pieces
** of other sizes otherwise, so its products are always made in the same ones.
*/
#include <limits.h>
#include <stdatomic.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/matmul/blas.h"
#include "kernels/cpu/matmul/epilogue.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/tile.h"

/* Multiplications worth a thread: of products of matrices, and of those with a
** vector, which wait for memory. */
#define SMALL (64 * 64 * 64)
#define SMALL_VECTOR (256 * 1024)
/* Rows or columns of a product with a vector that BLAS makes at a time, and the
** terms that it can count: its sizes are ints. */
#define PIECE 256
#define BLAS_MAX (1 << 30)

static int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

/* ---- plain loops ---- */

/* One row of c at a time, so that the inner loop runs along memory where b is
** not transposed. Integers wrap around, which is the same for either sign, so
** they are computed unsigned. */
#define DEFINE_PLAIN(bits)                                                                         \
  static bool plain_##bits(const tlk_Gemm *g, const tlk_Epilogue *after, const void *a_,           \
                           const void *b_, void *c_) {                                             \
    typedef uint##bits##_t type;                                                                   \
    (void)after;                                                                                   \
    const type *a = a_, *b = b_;                                                                   \
    int64_t sam = g->trans_a ? 1 : g->lda, sak = g->trans_a ? g->lda : 1;                          \
    int64_t sbk = g->trans_b ? 1 : g->ldb, sbn = g->trans_b ? g->ldb : 1;                          \
    type alpha = (type)tli_to_int(g->alpha), beta = (type)tli_to_int(g->beta);                     \
    for (int64_t i = 0; i < g->m; i++) {                                                           \
      type *row = (type *)c_ + i * g->ldc;                                                         \
      for (int64_t j = 0; j < g->n; j++) row[j] = beta != 0 ? (type)((uint64_t)row[j] * beta) : 0; \
      for (int64_t p = 0; p < g->k; p++) {                                                         \
        uint64_t x = (uint64_t)alpha * a[i * sam + p * sak];                                       \
        const type *from = b + p * sbk;                                                            \
        for (int64_t j = 0; j < g->n; j++)                                                         \
          row[j] = (type)((uint64_t)row[j] + x * (uint64_t)from[j * sbn]);                         \
      }                                                                                            \
    }                                                                                              \
    return true;                                                                                   \
  }

DEFINE_PLAIN(8)
DEFINE_PLAIN(16)
DEFINE_PLAIN(32)
DEFINE_PLAIN(64)

/* ---- with a vector ---- */

/* The matrix is read once, row by row. */
#define DEFINE_VECTOR(type, x)                                                                  \
  static void gemv_##x(const tlk_Gemm *g, int64_t k, const type *a, const type *b, type *c,     \
                       double beta) {                                                           \
    bool left = g->n == 1; /* the matrix is */                                                  \
    const type *matrix = left ? a : b, *vector = left ? b : a;                                  \
    int64_t ld = left ? g->lda : g->ldb, lines = left ? g->m : g->n;                            \
    bool by_row = left ? !g->trans_a : g->trans_b; /* its rows are what is summed */            \
    int64_t step = left ? (g->trans_b ? 1 : g->ldb) : (g->trans_a ? g->lda : 1);                \
    int64_t rows = by_row ? lines : k, cols = by_row ? k : lines;                               \
    tlk_blas()->x##gemv(TLK_ROW_MAJOR, by_row ? TLK_NO_TRANS : TLK_TRANS, (int)rows, (int)cols, \
                        (type)tli_to_double(g->alpha), matrix, (int)ld, vector, (int)step,      \
                        (type)beta, c, left ? (int)g->ldc : 1);                                 \
  }                                                                                             \
  /* In parts that BLAS can count. */                                                           \
  static bool vector_##x(const tlk_Gemm *g, const tlk_Epilogue *after, const void *a_,          \
                         const void *b_, void *c) {                                             \
    const type *a = a_, *b = b_;                                                                \
    for (int64_t p = 0; p < g->k; p += BLAS_MAX)                                                \
      gemv_##x(g, at_most(g->k - p, BLAS_MAX), a + p * (g->trans_a ? g->lda : 1),               \
               b + p * (g->trans_b ? 1 : g->ldb), c, p ? 1 : tli_to_double(g->beta));           \
    if (after) tlk_finish(after, g->dtype, g->m, g->n, c, g->ldc);                              \
    return true;                                                                                \
  }

DEFINE_VECTOR(float, s)
DEFINE_VECTOR(double, d)

/* ---- a batch ---- */

typedef bool (*One)(const tlk_Gemm *g, const tlk_Epilogue *after, const void *a, const void *b,
                    void *c);

/* For products of that dtype, of the sizes of g. */
static One one_of(const tlk_Gemm *g, tl_DType dtype) {
  bool vector = g->m == 1 || g->n == 1;
  if (dtype == TL_F32) return vector && tlk_blas() ? vector_s : tlk_tiled_gemm;
  if (dtype == TL_F64) return vector && tlk_blas() ? vector_d : tlk_tiled_gemm;
  if (tli_dtype_category(dtype) != TLI_INT) return NULL;
  One const by_size[] = {plain_8, plain_16, plain_32, plain_64};
  return by_size[tlk_log2_size(dtype)];
}

typedef struct Batch {
  const tlk_Gemm *g;
  const tlk_Epilogue *after;
  One one;
  bool rows;     /* rows are cut, not columns */
  int64_t step;  /* so many at once */
  int64_t steps; /* of a product */
  bool pieces;   /* each step is a call of its own: BLAS sums sizes differently */
  atomic_bool stopped;
} Batch;

/* Rows, or columns, from begin to end of product i. */
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

/* Steps from begin to end, counted through all products. */
static void run_steps(void *context, int64_t begin, int64_t end) {
  Batch *batch = context;
  int64_t lines = batch->rows ? batch->g->m : batch->g->n;
  for (int64_t at = begin; at < end && !batch->stopped;) {
    if (tli_interrupted()) batch->stopped = true;
    int64_t i = at / batch->steps, from = at % batch->steps;
    int64_t count = batch->pieces ? 1 : at_most(end - at, batch->steps - from);
    if (!run_part(batch, i, from * batch->step, at_most((from + count) * batch->step, lines)))
      batch->stopped = true;
    at += count;
  }
}

static bool run_all(const tlk_Gemm *g, const tlk_Epilogue *after) {
  bool vector = g->m == 1 || g->n == 1, real = tli_is_float(g->dtype);
  double all = (double)g->m * (double)g->n * (double)g->k;
  if (g->batch == 1 && all <= SMALL && (!vector || tlk_max(g->m, g->n) <= PIECE))
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
    const tlk_TileLoops *f = tlk_isa()->tile[g->dtype == TL_F64];
    batch.step = vector ? PIECE : batch.rows ? f->rows : f->lanes;
  }
  batch.steps = (lines + batch.step - 1) / batch.step;
  double work = all / (double)batch.steps;
  int64_t least = (int64_t)((vector ? SMALL_VECTOR : SMALL) / (work + 1)) + 1;
  tli_parallel_for(g->batch * batch.steps, least, run_steps, &batch);
  return !batch.stopped || tli_fail(TL_EINTERRUPT, "interrupted!");
}

/* ---- the half types ---- */

/* Tiles as float32: 256 x 512 of a, 512 x 1024 of b, 256 x 1024 of c. */
enum { TILE_M = 256, TILE_N = 1024, TILE_K = 512 };

static bool convert(tl_DType to, void *dst, int64_t ldd, tl_DType from, const void *src,
                    int64_t lds, int64_t rows, int64_t cols) {
  int64_t dsize = tli_dtype_bytes[to], ssize = tli_dtype_bytes[from];
  struct tlk_copy copy = {
      .it = {.nargs = 2, .ndim = 2, .numel = rows * cols, .sizes = {cols, rows}}};
  copy.it.args[0] = (tli_IterArg){.data = dst, .dtype = to, .strides = {dsize, ldd * dsize}};
  copy.it.args[1] =
      (tli_IterArg){.data = (char *)(uintptr_t)src, .dtype = from, .strides = {ssize, lds * ssize}};
  return tlk_copy(&copy);
}

typedef struct Tiles {
  float *a, *b, *c; /* owned */
  float *inner;     /* owned; NULL unless the epilogue asks for it */
} Tiles;

#define TILE_BYTES(rows, cols) ((size_t)(rows) * (size_t)(cols) * sizeof(float))

static void tiles_free(Tiles *t) {
  tli_free(t->a, TILE_BYTES(TILE_M, TILE_K));
  tli_free(t->b, TILE_BYTES(TILE_K, TILE_N));
  tli_free(t->c, TILE_BYTES(TILE_M, TILE_N));
  tli_free(t->inner, TILE_BYTES(TILE_M, TILE_N));
}

static bool tiles_new(Tiles *t, bool inner) {
  t->a = tli_alloc(TILE_BYTES(TILE_M, TILE_K));
  t->b = tli_alloc(TILE_BYTES(TILE_K, TILE_N));
  t->c = tli_alloc(TILE_BYTES(TILE_M, TILE_N));
  t->inner = inner ? tli_alloc(TILE_BYTES(TILE_M, TILE_N)) : NULL;
  if (t->a && t->b && t->c && (t->inner || !inner)) return true;
  tiles_free(t);
  return false;
}

/* The end of a tile in float32. */
static bool finish_tile(const tlk_Gemm *g, const tlk_Epilogue *after, const Tiles *t, int64_t i,
                        int64_t j, int64_t m, int64_t n) {
  float bias[TILE_N];
  tlk_Epilogue part = tlk_epilogue_at(after, i, j, g->ldc, 2), wide = *after;
  if (part.bias) TL_TRY(convert(TL_F32, bias, n, g->dtype, part.bias, n, 1, n));
  if (part.bias) wide.bias = bias;
  wide.inner = t->inner;
  tlk_finish(&wide, TL_F32, m, n, t->c, n);
  return !part.inner || convert(g->dtype, part.inner, g->ldc, TL_F32, t->inner, n, m, n);
}

/* One tile of c: all of k, then alpha and the old c. */
static bool half_tile(const tlk_Gemm *g, const tlk_Epilogue *after, const Tiles *t, const char *a,
                      const char *b, char *c, int64_t i, int64_t j) {
  int64_t m = at_most(g->m - i, TILE_M), n = at_most(g->n - j, TILE_N);
  char *to = c + (i * g->ldc + j) * 2;
  double beta = tli_to_double(g->beta);
  if (beta != 0) TL_TRY(convert(TL_F32, t->c, n, g->dtype, to, g->ldc, m, n));
  for (int64_t p = 0; p < g->k; p += TILE_K) {
    int64_t k = at_most(g->k - p, TILE_K);
    const char *ap = a + (g->trans_a ? p * g->lda + i : i * g->lda + p) * 2;
    const char *bp = b + (g->trans_b ? j * g->ldb + p : p * g->ldb + j) * 2;
    int64_t lda = g->trans_a ? m : k, ldb = g->trans_b ? k : n;
    TL_TRY(convert(TL_F32, t->a, lda, g->dtype, ap, g->lda, g->trans_a ? k : m, lda));
    TL_TRY(convert(TL_F32, t->b, ldb, g->dtype, bp, g->ldb, g->trans_b ? n : k, ldb));
    tlk_Gemm tile = {.dtype = TL_F32,
                     .trans_a = g->trans_a,
                     .trans_b = g->trans_b,
                     .m = m,
                     .n = n,
                     .k = k,
                     .alpha = g->alpha,
                     .beta = tli_float(p ? 1 : beta),
                     .lda = lda,
                     .ldb = ldb,
                     .ldc = n};
    if (!one_of(&tile, TL_F32)(&tile, NULL, t->a, t->b, t->c))
      return tli_fail(TL_EINTERRUPT, "interrupted!");
  }
  if (after) TL_TRY(finish_tile(g, after, t, i, j, m, n));
  return convert(g->dtype, to, g->ldc, TL_F32, t->c, n, m, n);
}

typedef struct Half {
  const tlk_Gemm *g;
  const tlk_Epilogue *after;
  int64_t down, across; /* tiles of a product */
  atomic_bool failed;
} Half;

/* Tiles from begin to end, counted through all products. */
static void run_tiles(void *context, int64_t begin, int64_t end) {
  Half *h = context;
  const tlk_Gemm *g = h->g;
  Tiles t;
  if (!tiles_new(&t, h->after && h->after->inner)) {
    h->failed = true;
    return;
  }
  for (int64_t n = begin; n < end && !h->failed; n++) {
    int64_t q = n / h->across / h->down;
    int64_t i = n / h->across % h->down * TILE_M, j = n % h->across * TILE_N;
    if (!half_tile(g, h->after, &t, (const char *)g->a + q * g->stride_a * 2,
                   (const char *)g->b + q * g->stride_b * 2, (char *)g->c + q * g->stride_c * 2, i,
                   j))
      h->failed = true;
  }
  tiles_free(&t);
}

static bool half(const tlk_Gemm *g, const tlk_Epilogue *after) {
  Half h = {.g = g,
            .after = after,
            .down = tlk_ceil_div(g->m, TILE_M),
            .across = tlk_ceil_div(g->n, TILE_N)};
  double work = (double)at_most(g->m, TILE_M) * (double)at_most(g->n, TILE_N) * (double)g->k;
  int64_t least = (int64_t)(SMALL / (work + 1)) + 1;
  TL_TRY(tli_parallel_try(g->batch * h.down * h.across, least, run_tiles, &h));
  return !h.failed || (tli_go_on() && tli_fail(TL_EMEM, "matmul: out of memory"));
}

/* ---- the entry ---- */

/* k == 0: c = beta * c, matrix by matrix. */
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
  if (!tli_is_float(g->dtype)) return true;
  if (g->lda <= INT_MAX && g->ldb <= INT_MAX && g->ldc <= INT_MAX) return true;
  return tli_fail(TL_ESHAPE, "matmul: expected rows of less than 2^31 elements");
}

bool tlk_multiply(const tlk_Gemm *g, const tlk_Epilogue *after) {
  if (g->m == 0 || g->n == 0 || g->batch == 0) return true;
  if (g->k == 0) return scale(g);
  TL_TRY(fits_blas(g));
  if (tli_is_half(g->dtype)) return half(g, after);
  if (one_of(g, g->dtype) == NULL)
    return tli_fail(TL_EDTYPE, "matmul: not defined for %s tensors", tl_dtype_name(g->dtype));
  return run_all(g, after);
}

bool tlk_gemm(const struct tlk_gemm *call) { return tlk_multiply(&call->gemm, NULL); }
