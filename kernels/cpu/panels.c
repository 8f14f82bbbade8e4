/*
** panels.c - products of matrices in tiles of panels.h. Rows of a are read
** where they lie; of b a piece at a time is copied to a panel. What a piece
** needs fits the stack and the first-level cache. Each element is summed in the
** same order whatever rows and columns are asked for.
*/
#include "kernels/cpu/panels.h"

#include <string.h>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/cpu.h"

/* Rows of c whose sums are taken together: whole tiles. */
#define ROWS 96
/* Bytes of a row of the widest panel. */
#define PANEL_BYTES 256
/* Rows of b this far apart, or multiples of it, drive one another out of the
** cache when a piece has many; and rows of a that are worth a copy of b where
** its rows do not, and where they do. */
#define CLOSE_BYTES 512
#define FEW 64
#define VERY_FEW 12
/* Matrices of more bytes do not stay in the second-level cache. */
#define FAR_BYTES (1 << 18)

typedef struct Product {
  const tlk_Gemm *g;
  const tlk_PanelLoops *loops;
  int64_t size;  /* of an element */
  int64_t width; /* columns of the panel */
  int64_t offsets[TLK_PANEL_TERMS];
  const char *a, *b;
  char *c;
} Product;

/* c = alpha * sums + beta * c, of one row */
#define COMBINE(s, type)                                                                     \
  static void combine_##s(int64_t n, double alpha, double beta, const void *sums, void *c) { \
    const type *x = sums;                                                                    \
    type *to = c, by = (type)alpha, keep = (type)beta;                                       \
    if (keep == 0)                                                                           \
      for (int64_t i = 0; i < n; i++) to[i] = by * x[i];                                     \
    else                                                                                     \
      for (int64_t i = 0; i < n; i++) to[i] = by * x[i] + keep * to[i];                      \
  }
COMBINE(f32, float)
COMBINE(f64, double)

static void store_rows(const Product *p, int64_t rows, int64_t cols, const char *sums, char *c) {
  double alpha = tli_to_double(p->g->alpha), beta = tli_to_double(p->g->beta);
  for (int64_t r = 0; r < rows; r++, sums += p->width * p->size, c += p->g->ldc * p->size)
    if (alpha == 1 && beta == 0)
      memcpy(c, sums, (size_t)(cols * p->size));
    else if (p->size == 4)
      combine_f32(cols, alpha, beta, sums, c);
    else
      combine_f64(cols, alpha, beta, sums, c);
}

/* Asks for parts of rows, `row` bytes apart, which the processor would not
** foresee by itself. */
static void foresee(int64_t rows, const char *at, int64_t row, int64_t bytes) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(at + i * row + k, 0, 2);
}

/* Whether b, its rows so many bytes apart, is better read where it lies. */
static bool in_place(const tlk_Gemm *g, int64_t row) {
  return row <= CLOSE_BYTES || g->m <= VERY_FEW || (g->m <= FEW && row % CLOSE_BYTES != 0);
}

/* Terms [at, at + n) of columns [col, col + cols) of b, and how many elements
** lie from one term to the next. */
static const char *panel_of(const Product *p, int64_t at, int64_t n, int64_t col, int64_t cols,
                            char *panel, int64_t *pitch) {
  const tlk_Gemm *g = p->g;
  int64_t size = p->size, row = p->width * size;
  const char *b = p->b + (g->trans_b ? col * g->ldb + at : at * g->ldb + col) * size;
  if (!g->trans_b && g->m > VERY_FEW && g->k * g->ldb * size > FAR_BYTES)
    foresee(n, b + row, g->ldb * size, row); /* the next panel */
  if (!g->trans_b && cols == p->width && in_place(g, g->ldb * size)) {
    *pitch = g->ldb;
    return b;
  }
  *pitch = p->width;
  if (cols < p->width) memset(panel, 0, (size_t)(n * row));
  if (g->trans_b)
    tlk_isa()->move[size == 8 ? 3 : 2](panel, row, size, b, size, g->ldb * size, n, cols);
  else
    for (int64_t t = 0; t < n; t++, b += g->ldb * size) {
      if (cols * size == PANEL_BYTES)
        memcpy(panel + t * row, b, PANEL_BYTES);
      else
        memcpy(panel + t * row, b, (size_t)(cols * size));
    }
  return panel;
}

/* Rows [begin, begin + rows) of a panel's columns. */
static void sum_rows(const Product *p, int64_t begin, int64_t rows, int64_t col, int64_t cols,
                     char *panel, char *sums) {
  const tlk_Gemm *g = p->g;
  const tlk_PanelLoops *f = p->loops;
  int64_t size = p->size, row_step = g->trans_a ? 1 : g->lda, step = g->trans_a ? g->lda : 1;
  int64_t out_step = p->width;
  char *c = p->c + (begin * g->ldc + col) * size, *out = sums;
  bool direct = g->k <= TLK_PANEL_TERMS && cols == p->width && tli_to_double(g->alpha) == 1 &&
                tli_to_double(g->beta) == 0;
  bool far = !g->trans_a && g->m * g->k * size > FAR_BYTES;
  if (direct) out = c, out_step = g->ldc;
  for (int64_t at = 0; at < g->k; at += TLK_PANEL_TERMS) {
    int64_t terms = tlk_min(TLK_PANEL_TERMS, g->k - at), pitch;
    const char *from = panel_of(p, at, terms, col, cols, panel, &pitch);
    const char *a = p->a + (begin * row_step + at * step) * size;
    for (int64_t r = 0; r < rows; r += f->rows) {
      const void *in[TLK_PANEL_ROWS];
      for (int i = 0; i < f->rows; i++) in[i] = a + tlk_min(r + i, rows - 1) * row_step * size;
      if (far) /* the next piece */
        foresee(tlk_min(f->rows, rows - r), a + (r * row_step + terms) * size, row_step * size,
                terms * size);
      f->tile((int)tlk_min(f->rows, rows - r), (int)(p->width / f->lanes), terms, p->offsets, in,
              from, pitch, at > 0, out + r * out_step * size, out_step);
    }
  }
  if (!direct) store_rows(p, rows, cols, sums, c);
}

void tlk_panel_gemm(const tlk_Gemm *g, const void *a, const void *b, void *c) {
  bool wide = g->dtype == TL_F64;
  const tlk_PanelLoops *f = tlk_isa()->panels[wide];
  Product p = {.g = g, .loops = f, .size = wide ? 8 : 4, .a = a, .b = b, .c = c};
  char panel[TLK_PANEL_TERMS * PANEL_BYTES] __attribute__((aligned(64)));
  char sums[ROWS * PANEL_BYTES] __attribute__((aligned(64)));
  int64_t most = (int64_t)f->lanes * f->vectors;
  for (int64_t t = 0; t < tlk_min(TLK_PANEL_TERMS, g->k); t++)
    p.offsets[t] = t * (g->trans_a ? g->lda : 1);
  for (int64_t i = 0; i < g->m; i += ROWS)
    for (int64_t j = 0; j < g->n; j += p.width) {
      int64_t cols = tlk_min(most, g->n - j);
      p.width = tlk_ceil_div(cols, f->lanes) * f->lanes;
      sum_rows(&p, i, tlk_min(ROWS, g->m - i), j, cols, panel, sums);
    }
}
