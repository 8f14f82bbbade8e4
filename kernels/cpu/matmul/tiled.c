/*
** tiled.c - matrix products, c = a b, in the tiles of tile.h. A panel is a few columns of b, packed
** so that the rows of the panel are contiguous. One panel and a few rows of a fit into the
** first-level cache together. If a has many rows, all panels of a block are packed once and kept.
** If there are many panels, the block's rows of a are packed as well. The order in which the terms
** of an element of c are added does not depend on the number of rows and columns.
**
** A product of complex numbers is a product of real ones. Complex numbers are stored as pairs, so b
** (k, n) is a real matrix (k, 2n). It is multiplied by a real matrix (2m, k), which has two rows
** for each row of a: the real parts and the imaginary parts. The complex numbers of c are combined
** from these two rows. The result is as accurate as real products. (A method with three real
** products instead of four would lose digits of the smaller part.)
*/
#include "kernels/cpu/matmul/tile.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/error.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul/epilogue.h"

/* If a has more rows than this, the packed panels of a block of b are kept. */
#define MANY_ROWS 384
/* The size of a block whose packed panels are kept: rows of a, terms, and bytes of each row of b.
** The packed panels stay in the second-level cache, but the tiles of c do not. So the number of
** terms is large, because then each tile of c is loaded and stored only a few times. */
#define ROWS 192
#define TERMS (3 * TLK_TILE_DEPTH)
#define COLUMN_BYTES 4096
/* The largest number of bytes in a row of a packed panel. */
#define PANEL_BYTES 256
/* Rows of b evict one another from the cache if their distance in bytes is a multiple of this
** number. */
#define CLOSE_BYTES 512
/* If a has more than FEW rows, and rows of b have more than CLOSE_BYTES, packing b is faster than
** reading it in place. */
#define FEW 64
/* If rows of b evict one another from the cache, packing b is faster if a has more than VERY_FEW
** rows. */
#define VERY_FEW 12
/* Packing a is faster if b has more than PANELS panels, or more than PANELS_TRANSPOSED if a is
** transposed. */
#define PANELS 4
#define PANELS_TRANSPOSED 1

typedef struct Product {
  /* the product; its columns, and the distances between rows, are counted in real numbers */
  const tlk_Gemm *g;
  /* number of real numbers in an element, which is 2 for complex numbers */
  int64_t parts;
  const tlk_Epilogue *after;
  const tlk_TileLoops *loops;
  int64_t size;  /* size of an element in bytes */
  int64_t width; /* number of columns in a panel */
  int64_t depth; /* number of terms in a panel */
  int64_t offsets[TLK_TILE_DEPTH];
  /* distance in bytes from one group of TLK_TILE_DEPTH terms of a row to the next group */
  int64_t piece;
  double alpha, beta;
  const char *a, *b;
  char *c;
  char *rows; /* packed rows of a block (owned); NULL if rows are read in place */
  /* packed panels of a block (owned); NULL if each panel is packed again for each use */
  char *panels;
} Product;

/* Returns the number of real numbers in an element. It is a constant where there are no loops for
** complex products. */
static inline int64_t parts_of(const Product *p) { return TLK_COMPLEX_PRODUCTS ? p->parts : 1; }

/* Rows of a that one block multiplies. Rows are row_step elements apart, and p->offsets holds the
** offsets of a row's terms. */
typedef struct Rows {
  const char *at;
  int64_t n, row_step;
} Rows;

/* Computes c = alpha * sums + beta * c for one row. */
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

/* Returns whether reading b in place is faster than packing it into panels first. */
static bool in_place(const Product *p) {
  const tlk_Gemm *g = p->g;
  int64_t row = g->ldb * p->size;
  if (g->trans_b) return false;
  return row <= CLOSE_BYTES || g->m <= VERY_FEW || (g->m <= FEW && row % CLOSE_BYTES != 0);
}

/* Returns the function that moves elements of a and b, which may be pairs of numbers. */
static tlk_Move mover(const Product *p) {
  return tlk_isa()->move[(p->size == 8 ? 3 : 2) + (parts_of(p) == 2)];
}

/* Packs rows [at, at + n) and columns [col, col + cols) of b into panels. Each row of b is read
** from end to end. */
static void pack_panels(const Product *p, int64_t at, int64_t n, int64_t col, int64_t cols,
                        char *panels) {
  const tlk_Gemm *g = p->g;
  int64_t size = p->size, row = p->width * size, panel = row * p->depth;
  int64_t whole = cols / p->width, rest = cols % p->width * size;
  int64_t element = parts_of(p) * size, line = g->ldb * size;
  const char *b =
      p->b + (g->trans_b ? col / parts_of(p) * line + at * element : at * line + col * size);
  if (rest > 0) memset(panels + whole * panel, 0, (size_t)(n * row));
  if (g->trans_b) {
    for (int64_t j = 0; j < cols;
         j += p->width, panels += panel, b += p->width / parts_of(p) * line)
      mover(p)(panels, row, element, b, element, line, n,
               tlk_min(p->width, cols - j) / parts_of(p));
    return;
  }
  for (int64_t t = 0; t < n; t++, panels += row, b += line) {
    for (int64_t j = 0; j < whole; j++)
      if (row == PANEL_BYTES)
        memcpy(panels + j * panel, b + j * PANEL_BYTES, PANEL_BYTES);
      else
        memcpy(panels + j * panel, b + j * row, (size_t)row);
    if (rest > 0) memcpy(panels + whole * panel, b + whole * row, (size_t)rest);
  }
}

/* Returns terms [at, at + n) of rows [begin, begin + rows) of a. They are packed or read in
** place. */
static Rows rows_of(const Product *p, int64_t begin, int64_t rows, int64_t at, int64_t n) {
  const tlk_Gemm *g = p->g;
  int64_t element = parts_of(p) * p->size, row = p->depth * element, line = g->lda * p->size;
  const char *a = p->a + (g->trans_a ? at * line + begin * element : begin * line + at * element);
  if (p->rows == NULL) return (Rows){a, rows, g->trans_a ? parts_of(p) : g->lda};
  /* packs few terms at a time if a is transposed, because each of its rows is then read from end to
  ** end */
  if (g->trans_a)
    for (int64_t t = 0; t < n; t += 16)
      mover(p)(p->rows + t * element, row, element, a + t * line, element, line, rows,
               tlk_min(16, n - t));
  else
    for (int64_t r = 0; r < rows; r++, a += line)
      memcpy(p->rows + r * row, a, (size_t)(n * element));
  return (Rows){p->rows, rows, p->depth * parts_of(p)};
}

/* Computes c = alpha * sums + beta * c for a tile. This is needed if the loop could not write to c
** directly because of alpha, beta or the width. */
static void store_tile(const Product *p, int64_t rows, int64_t cols, bool first, const char *sums,
                       char *c) {
  double alpha = p->alpha, beta = first ? p->beta : 1;
  for (int64_t r = 0; r < rows; r++, sums += p->width * p->size, c += p->g->ldc * p->size)
    if (alpha == 1 && beta == 0)
      memcpy(c, sums, (size_t)(cols * p->size));
    else
      (p->size == 4 ? combine_f32 : combine_f64)(cols, alpha, beta, sums, c);
}

/* Computes a tile of c: multiplies `terms` terms of some rows of a by the same terms of a panel,
** and advances the pointers `in` along the rows. */
static void sum_tile(const Product *p, int rows, const void **in, int64_t terms, const char *panel,
                     int64_t pitch, int64_t cols, bool first, char *c) {
  const tlk_TileLoops *f = p->loops;
  int64_t width = (cols + f->lanes - 1) & -f->lanes;
  bool plain = cols == width && p->alpha == 1;
  int vectors = (int)(width / f->lanes);
  char sums[TLK_TILE_ROWS * PANEL_BYTES] __attribute__((aligned(64)));
  /* prefetches this tile of c, which is in a distant cache and will soon be needed */
  if (p->panels)
    for (int r = 0; r < rows; r++)
      for (int64_t k = 0; k < cols * p->size; k += 64)
        __builtin_prefetch(c + r * p->g->ldc * p->size + k, 1);
  for (int64_t t = 0; t < terms; t += TLK_TILE_DEPTH, first = false) {
    int64_t n = tlk_min(TLK_TILE_DEPTH, terms - t);
    bool direct = plain && (!first || p->beta == 0 || p->beta == 1);
    bool add = direct && (!first || p->beta == 1);
    char *to = direct ? c : sums;
    int64_t step = direct ? p->g->ldc : p->width;
#if TLK_COMPLEX_PRODUCTS
    if (parts_of(p) == 2) {
      f->tile(2 * rows, vectors, n, p->offsets, in, panel, pitch, false, sums, p->width);
      f->join(rows, vectors, sums, p->width, add, to, step);
    } else
#endif
      f->tile(rows, vectors, n, p->offsets, in, panel, pitch, add, to, step);
    if (!direct) store_tile(p, rows, cols, first, sums, c);
    panel += TLK_TILE_DEPTH * pitch * p->size;
    for (int i = 0; i < f->rows; i++) in[i] = (const char *)in[i] + p->piece;
  }
}

/* Multiplies `terms` terms of all rows of a block by the same terms of one panel. */
static void sum_panel(const Product *p, const Rows *a, int64_t terms, const char *panel,
                      int64_t pitch, int64_t cols, bool first, char *c) {
  int height = p->loops->rows >> (parts_of(p) - 1);
  for (int64_t r = 0; r < a->n; r += height, c += height * p->g->ldc * p->size) {
    int rows = (int)tlk_min(height, a->n - r);
    const void *in[TLK_TILE_ROWS];
    for (int i = 0; i < height; i++) {
      const char *row = a->at + (r + tlk_min(i, rows - 1)) * a->row_step * p->size;
      if (parts_of(p) == 2)
        in[2 * i] = row, in[2 * i + 1] = row + p->size;
      else
        in[i] = row;
    }
    sum_tile(p, rows, in, terms, panel, pitch, cols, first, c);
  }
}

/* Applies the epilogue to finished rows and columns. */
static void finish(const Product *p, int64_t row, int64_t rows, int64_t col, int64_t cols,
                   char *c) {
  tlk_Epilogue part = tlk_epilogue_at(p->after, row, col, p->g->ldc, p->size);
  tlk_finish(&part, p->g->dtype, rows, cols, c, p->g->ldc);
}

/* Multiplies all rows of a by columns [col, col + cols) of b. */
static bool sum_columns(Product *p, int64_t col, int64_t cols) {
  const tlk_Gemm *g = p->g;
  char one[TLK_TILE_DEPTH * PANEL_BYTES] __attribute__((aligned(64)));
  int64_t height = p->panels ? ROWS : MANY_ROWS;
  bool near = !p->panels && in_place(p);
  p->width = tlk_tile_width(p->loops, cols);
  for (int64_t at = 0; at < g->k; at += p->depth) {
    int64_t terms = tlk_min(p->depth, g->k - at);
    if (p->panels) pack_panels(p, at, terms, col, cols, p->panels);
    for (int64_t i = 0; i < g->m; i += height) {
      if (tli_interrupted()) return false;
      Rows a = rows_of(p, i, tlk_min(height, g->m - i), at, terms);
      for (int64_t j = 0; j < cols; j += p->width) {
        int64_t n = tlk_min(p->width, cols - j), pitch = p->width;
        const char *panel = p->panels ? p->panels + j * p->depth * p->size : one;
        if (near && (n & (p->loops->lanes - 1)) == 0)
          panel = p->b + (at * g->ldb + col + j) * p->size, pitch = g->ldb;
        else if (!p->panels)
          pack_panels(p, at, terms, col + j, n, one);
        char *c = p->c + (i * g->ldc + col + j) * p->size;
        sum_panel(p, &a, terms, panel, pitch, n, at == 0, c);
        if (p->after && at + terms == g->k) finish(p, i, a.n, col + j, n, c);
      }
    }
  }
  return true;
}

bool tlk_tiled_gemm(const tlk_Gemm *product, const tlk_Epilogue *after, const void *a,
                    const void *b, void *c) {
  bool complex = TLK_COMPLEX_PRODUCTS && tli_is_complex(product->dtype);
  tlk_Gemm pairs = *product;
  const tlk_Gemm *g = &pairs;
  if (complex) {
    pairs.dtype = tli_real_dtype(product->dtype);
    pairs.n *= 2, pairs.lda *= 2, pairs.ldb *= 2, pairs.ldc *= 2;
  }
  bool wide = g->dtype == TL_F64;
  const tlk_TileLoops *f = tlk_product_loops(wide);
  Product p; /* not initialised, because most of its array `offsets` stays unused */
  p.g = g, p.after = after, p.loops = f, p.size = wide ? 8 : 4, p.a = a, p.b = b, p.c = c;
  p.parts = complex ? 2 : 1;
  p.alpha = tli_to_double(g->alpha), p.beta = tli_to_double(g->beta);
  int64_t most = (int64_t)f->lanes * f->vectors, block = COLUMN_BYTES / p.size;
  /* if memory is lacking, rows of a are read in place, and each panel is packed again for each
  ** use */
  /* an odd number of cache lines, so that packed rows do not evict one another */
  int64_t line = 64 / p.size, depth = (((g->k + line - 1) / line) | 1) * line;
  size_t panel_bytes = (size_t)((tlk_min(block, g->n) + most) * tlk_min(depth, TERMS) * p.size);
  p.panels = g->m > MANY_ROWS ? tli_alloc(panel_bytes) : NULL;
  p.depth = tlk_min(depth, p.panels ? TERMS : TLK_TILE_DEPTH);
  size_t row_bytes =
      (size_t)(tlk_min(p.panels ? ROWS : MANY_ROWS, g->m) * p.depth * p.parts * p.size);
  bool far = g->n > most * (g->trans_a ? PANELS_TRANSPOSED : PANELS);
  p.rows = far ? tli_alloc(row_bytes) : NULL;
  if ((far && !p.rows) || (g->m > MANY_ROWS && !p.panels)) tli_error_clear();
  int64_t step = g->trans_a && !p.rows ? g->lda : p.parts;
  p.piece = TLK_TILE_DEPTH * step * p.size;
  for (int64_t t = 0; t < tlk_min(TLK_TILE_DEPTH, g->k); t++) p.offsets[t] = t * step;
  bool whole = true;
  for (int64_t j = 0; whole && j < g->n; j += block)
    whole = sum_columns(&p, j, tlk_min(block, g->n - j));
  tli_free(p.rows, row_bytes);
  tli_free(p.panels, panel_bytes);
  return whole;
}
