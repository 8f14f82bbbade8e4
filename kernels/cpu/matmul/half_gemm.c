/*
** half_gemm.c - products of the half types, one tile of c after another. If the processor has
** instructions for the loops of dot.h, the factors of a tile are packed for these loops. Otherwise
** the factors are converted to float32. Sums are float32 in both cases. Threads share the tiles.
** The order in which the terms of a sum are added does not depend on the number of threads.
*/
#include "kernels/cpu/matmul/half_gemm.h"

#include <stdatomic.h>

#include "core/memory/alloc.h"
#include "core/error.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/dot.h"
#include "kernels/cpu/matmul/tile.h"

/* The number of rows and of columns of a tile of c, and the number of terms that are summed at a
** time. Tiles are large, because an element that was packed once is then used for every column or
** row of the tile. One tile fills most of the second-level cache. If there are many threads, the
** sides of a tile for the loops of dot.h may be as short as DOT_LEAST, so that each thread gets a
** tile. */
enum { TILE_M = 256, TILE_N = 1024, TILE_K = 512 };
enum { DOT_M = 512, DOT_N = 512, DOT_K = 512, DOT_LEAST = 64 };

typedef struct Half {
  const tlk_Gemm *g;
  const tlk_Epilogue *after;
  tl_DType out;             /* the dtype of c and of the epilogue's arrays */
  int64_t size;             /* size of an element of `out` in bytes */
  const tlk_DotLoops *dots; /* loops for bfloat16 pairs; NULL if factors are converted to float32 */
  /* number of rows and of columns of a tile, and number of terms that are summed at a time */
  int64_t m, n, k;
  /* number of tiles in a column of tiles, and in a row of tiles */
  int64_t down, across;
  atomic_bool failed;
} Half;

typedef struct Tiles {
  void *a, *b; /* packed or converted factors (owned) */
  float *c;    /* owned */
  /* buffer for the activation's argument (owned); NULL if the epilogue does not ask for it */
  float *inner;
} Tiles;

/* A tile of c: its position (i, j) in c, its size (m, n), and ldc, the distance in elements between
** the rows of the tile's sums. */
typedef struct Place {
  int64_t i, j, m, n, ldc;
} Place;

/* Rounds n up to whole blocks of lines (rows or columns). */
static int64_t whole_lines(int64_t n) { return tlk_ceil_div(n, TLK_DOT_LINES) * TLK_DOT_LINES; }
static int64_t whole_terms(int64_t n) { return tlk_ceil_div(n, TLK_DOT_TERMS) * TLK_DOT_TERMS; }

static size_t factor_bytes(const Half *h, int64_t rows, int64_t cols) {
  return (size_t)(rows * cols) * (h->dots ? 2 : sizeof(float));
}

static size_t result_bytes(const Half *h) { return (size_t)(h->m * h->n) * sizeof(float); }

static void tiles_free(const Half *h, Tiles *t) {
  tli_free(t->a, factor_bytes(h, h->m, h->k));
  tli_free(t->b, factor_bytes(h, h->k, h->n));
  tli_free(t->c, result_bytes(h));
  tli_free(t->inner, result_bytes(h));
}

static bool tiles_new(const Half *h, Tiles *t) {
  bool inner = h->after && h->after->inner;
  t->a = tli_alloc(factor_bytes(h, h->m, h->k));
  t->b = tli_alloc(factor_bytes(h, h->k, h->n));
  t->c = tli_alloc(result_bytes(h));
  t->inner = inner ? tli_alloc(result_bytes(h)) : NULL;
  if (t->a && t->b && t->c && (t->inner || !inner)) return true;
  tiles_free(h, t);
  return false;
}

/* Converts rows whose elements are contiguous. */
static void convert(tl_DType to, void *dst, int64_t ldd, tl_DType from, const void *src,
                    int64_t lds, int64_t rows, int64_t cols) {
  tlk_Convert run = tlk_isa()->convert[from][to];
  if (ldd == cols && lds == cols) cols *= rows, rows = 1;
  for (int64_t r = 0; r < rows; r++)
    run(cols, (char *)dst + r * ldd * tli_dtype_bytes[to],
        (const char *)src + r * lds * tli_dtype_bytes[from]);
}

/* Packs k terms of both factors, which begin at a and b, multiplies them, and stores the product in
** t->c or, if `add`, adds it to t->c. */
static bool multiply_packed(const Half *h, const Tiles *t, const Place *at, int64_t k,
                            const char *a, const char *b, bool add) {
  const tlk_Gemm *g = h->g;
  h->dots->pack_left(g->trans_a, at->m, k, a, g->lda, t->a);
  h->dots->pack_right(g->trans_b, k, at->n, b, g->ldb, t->b);
  h->dots->multiply(whole_lines(at->m), whole_lines(at->n), whole_terms(k), t->a, t->b, add, t->c,
                    at->ldc);
  return tli_go_on();
}

static bool multiply_converted(const Half *h, const Tiles *t, const Place *at, int64_t k,
                               const char *a, const char *b, bool add) {
  const tlk_Gemm *g = h->g;
  int64_t lda = g->trans_a ? at->m : k, ldb = g->trans_b ? k : at->n;
  convert(TL_F32, t->a, lda, g->dtype, a, g->lda, g->trans_a ? k : at->m, lda);
  convert(TL_F32, t->b, ldb, g->dtype, b, g->ldb, g->trans_b ? at->n : k, ldb);
  tlk_Gemm tile = {.dtype = TL_F32,
                   .trans_a = g->trans_a,
                   .trans_b = g->trans_b,
                   .m = at->m,
                   .n = at->n,
                   .k = k,
                   .alpha = tli_float(1),
                   .beta = tli_float(add),
                   .lda = lda,
                   .ldb = ldb,
                   .ldc = at->ldc};
  return tlk_tiled_gemm(&tile, NULL, t->a, t->b, t->c) || tli_fail(TL_EINTERRUPT, "interrupted!");
}

/* Computes t->c = alpha * t->c + beta * c. */
static void combine(const Half *h, const Tiles *t, const Place *at, const char *c) {
  const tlk_Gemm *g = h->g;
  float alpha = (float)tli_to_double(g->alpha), beta = (float)tli_to_double(g->beta);
  float old[TILE_N], *sums = t->c;
  if (alpha == 1 && beta == 0) return;
  for (int64_t i = 0; i < at->m; i++, sums += at->ldc) {
    if (beta == 0) {
      for (int64_t j = 0; j < at->n; j++) sums[j] *= alpha;
      continue;
    }
    convert(TL_F32, old, at->n, h->out, c + i * g->ldc * h->size, at->n, 1, at->n);
    for (int64_t j = 0; j < at->n; j++) sums[j] = alpha * sums[j] + beta * old[j];
  }
}

/* Applies the bias and the activation to a tile of float32 sums. */
static void finish_tile(const Half *h, const Tiles *t, const Place *at) {
  const tlk_Epilogue *after = h->after;
  int64_t ldc = h->g->ldc;
  float bias[TILE_N];
  tlk_Epilogue part = tlk_epilogue_at(after, at->i, at->j, ldc, h->size), wide = *after;
  if (part.bias) {
    convert(TL_F32, bias, at->n, h->out, part.bias, at->n, 1, at->n);
    wide.bias = bias;
  }
  wide.inner = t->inner;
  tlk_finish(&wide, TL_F32, at->m, at->n, t->c, at->ldc);
  if (part.inner) convert(h->out, part.inner, ldc, TL_F32, t->inner, at->ldc, at->m, at->n);
}

static bool run_tile(const Half *h, const Tiles *t, const Place *at, const char *a, const char *b,
                     char *c) {
  const tlk_Gemm *g = h->g;
  char *to = c + (at->i * g->ldc + at->j) * h->size;
  for (int64_t p = 0; p < g->k; p += h->k) {
    const char *ap = a + (g->trans_a ? p * g->lda + at->i : at->i * g->lda + p) * 2;
    const char *bp = b + (g->trans_b ? at->j * g->ldb + p : p * g->ldb + at->j) * 2;
    TL_TRY((h->dots ? multiply_packed : multiply_converted)(h, t, at, tlk_min(g->k - p, h->k), ap,
                                                            bp, p > 0));
  }
  combine(h, t, at, to);
  if (h->after) finish_tile(h, t, at);
  convert(h->out, to, g->ldc, TL_F32, t->c, at->ldc, at->m, at->n);
  return true;
}

/* Computes tiles [begin, end). The tiles of all products are numbered in one sequence. */
static void run_tiles(void *context, int64_t begin, int64_t end) {
  Half *h = context;
  const tlk_Gemm *g = h->g;
  Tiles t;
  if (!tiles_new(h, &t)) {
    h->failed = true;
    return;
  }
  for (int64_t n = begin; n < end && !h->failed; n++) {
    int64_t q = n / h->across / h->down;
    Place at = {.i = n / h->across % h->down * h->m, .j = n % h->across * h->n};
    at.m = tlk_min(g->m - at.i, h->m), at.n = tlk_min(g->n - at.j, h->n);
    at.ldc = h->dots ? whole_lines(at.n) : at.n;
    if (!run_tile(h, &t, &at, (const char *)g->a + q * g->stride_a * 2,
                  (const char *)g->b + q * g->stride_b * 2,
                  (char *)g->c + q * g->stride_c * h->size))
      h->failed = true;
  }
  tiles_free(h, &t);
}

/* Chooses the largest tiles for the loops of dot.h with which each thread still gets a tile. */
static void cut_for_dots(Half *h) {
  const tlk_Gemm *g = h->g;
  int64_t threads = tl_get_num_threads();
  h->m = tlk_min(DOT_M, whole_lines(g->m)), h->n = tlk_min(DOT_N, whole_lines(g->n));
  h->k = tlk_min(DOT_K, whole_terms(g->k));
  while (g->batch * tlk_ceil_div(g->m, h->m) * tlk_ceil_div(g->n, h->n) < threads &&
         tlk_max(h->m, h->n) > DOT_LEAST) {
    int64_t *longer = h->m > h->n ? &h->m : &h->n;
    *longer = whole_lines(*longer / 2);
  }
}

bool tlk_half_gemm(const tlk_Gemm *g, tl_DType out, const tlk_Epilogue *after) {
  Half h = {.g = g,
            .after = after,
            .out = out,
            .size = tli_dtype_bytes[out],
            .m = TILE_M,
            .n = TILE_N,
            .k = TILE_K};
  if (g->dtype == TL_BF16) h.dots = tlk_dot_loops();
  if (h.dots) cut_for_dots(&h);
  h.down = tlk_ceil_div(g->m, h.m), h.across = tlk_ceil_div(g->n, h.n);
  double work = (double)tlk_min(g->m, h.m) * (double)tlk_min(g->n, h.n) * (double)g->k;
  int64_t least = (int64_t)(TLK_PRODUCT_GRAIN / (work + 1)) + 1;
  TL_TRY(tli_parallel_try(g->batch * h.down * h.across, least, run_tiles, &h));
  return !h.failed || (tli_go_on() && tli_fail(TL_EMEM, "matmul: out of memory"));
}
