/*
** half.c - products of the half types: tiles are converted to float32 and multiplied there.
** Threads share out the tiles of c; the terms of a sum are taken in the same order by any
** number of threads.
*/
#include "kernels/cpu/matmul/half.h"

#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/error.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/cpu.h"

/* Sizes of the float32 tiles: 256 x 512 of a, 512 x 1024 of b, 256 x 1024 of c. */
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

/* Applies the epilogue to a tile in float32. */
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

/* Computes one tile of c: all of k, then alpha and the old c. */
static bool half_tile(const tlk_Gemm *g, const tlk_Epilogue *after, const Tiles *t, const char *a,
                      const char *b, char *c, int64_t i, int64_t j) {
  int64_t m = tlk_min(g->m - i, TILE_M), n = tlk_min(g->n - j, TILE_N);
  char *to = c + (i * g->ldc + j) * 2;
  double beta = tli_to_double(g->beta);
  if (beta != 0) TL_TRY(convert(TL_F32, t->c, n, g->dtype, to, g->ldc, m, n));
  for (int64_t p = 0; p < g->k; p += TILE_K) {
    int64_t k = tlk_min(g->k - p, TILE_K);
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
    if (!tlk_gemm_here(&tile, t->a, t->b, t->c)) return tli_fail(TL_EINTERRUPT, "interrupted!");
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

/* Computes tiles from begin to end, counted through all products. */
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

bool tlk_half_gemm(const tlk_Gemm *g, const tlk_Epilogue *after) {
  Half h = {.g = g,
            .after = after,
            .down = tlk_ceil_div(g->m, TILE_M),
            .across = tlk_ceil_div(g->n, TILE_N)};
  double work = (double)tlk_min(g->m, TILE_M) * (double)tlk_min(g->n, TILE_N) * (double)g->k;
  int64_t least = (int64_t)(TLK_GEMM_GRAIN / (work + 1)) + 1;
  TL_TRY(tli_parallel_try(g->batch * h.down * h.across, least, run_tiles, &h));
  return !h.failed || (tli_go_on() && tli_fail(TL_EMEM, "matmul: out of memory"));
}
