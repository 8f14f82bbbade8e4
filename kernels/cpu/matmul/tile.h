/*
** tile.h - the register tile of products and convolutions. It consists of a few rows times a few
** vectors of columns, whose sums stay in registers. The left factor is read in place, one element
** at a time. There is a pointer to each row, and all rows share the offsets of their elements; so
** the left factor may be a matrix or the windows of an image. The right factor is a panel, whose
** rows are whole vectors: a packed copy, or columns of a matrix in place.
*/
#ifndef TLK_TILE_H
#define TLK_TILE_H

#include "core/device/backend.h"

/* The largest number of rows in a tile of any instruction set. */
#define TLK_TILE_ROWS 8
/* The number of terms that are summed before the sum is added to the result. A panel with this
** number of terms stays in the first-level cache, and short partial sums keep the accuracy of long
** sums. */
#define TLK_TILE_DEPTH 128

/* A thread should compute at least this number of multiplications of a product; with fewer, another
** thread is not worthwhile. */
#define TLK_PRODUCT_GRAIN (64 * 64 * 64)

/* Whether the CPU has loops for complex products. The library of a program has to be small, so it
** computes complex products as products of real blocks, as other devices do. */
#ifdef TLI_RUNTIME
#define TLK_COMPLEX_PRODUCTS 0
#else
#define TLK_COMPLEX_PRODUCTS 1
#endif

/* Loops of the register tile. There is one set for float and one for double. */
typedef struct tlk_TileLoops {
  int lanes;   /* number of elements in a vector, a power of two */
  int rows;    /* number of rows in a tile */
  int vectors; /* largest number of vectors of columns in a tile */
  /* For `vectors` vectors of columns, computes out[r][c] as the sum over t < n of in[r][offsets[t]]
  ** * panel[t * pitch + c], or adds that sum to out if `add`. Rows of out are out_step elements
  ** apart. The loop may read a whole tile's rows through `in`, but writes only `rows` of them. */
  void (*tile)(int rows, int vectors, int64_t n, const int64_t *offsets, const void *const *in,
               const void *panel, int64_t pitch, bool add, void *out, int64_t out_step);
#if TLK_COMPLEX_PRODUCTS
  /* Computes complex numbers from two real products of the same complex numbers b: `sums` has two
  ** rows for each of `rows` rows of out, the products of the real parts of a with b, and those of
  ** the imaginary parts of a with b. A row consists of `vectors` vectors of pairs. The numbers are
  ** stored in out, or added to it if `add`; out may be `sums`, with an out_step of at most 2 *
  ** pitch. */
  void (*join)(int rows, int vectors, const void *sums, int64_t pitch, bool add, void *out,
               int64_t out_step);
#endif
  /* Adds bias[c] to out[r][c] unless bias is NULL, and then sets negative elements to 0 if
  ** `relu`. */
  void (*finish)(int64_t rows, int64_t cols, const void *bias, bool relu, void *out,
                 int64_t out_step);
  /* Computes out[i * out_step], for i < rows, as the dot product of row i of a matrix and x, both
  ** of n elements. Rows of the matrix are `pitch` elements apart. The order in which the terms of a
  ** result are added depends on n alone. */
  void (*dots)(int64_t rows, int64_t n, const void *matrix, int64_t pitch, const void *x, void *out,
               int64_t out_step);
} tlk_TileLoops;

/* Returns the loops for matrix products in float, or in double if `wide`. Even in the portable
** mode, which gives the same results on all processors, these loops use the processor's widest
** vectors, because the width of vectors does not change the order of a sum. */
const tlk_TileLoops *tlk_product_loops(bool wide);

/* Returns the width of panels (in columns) that divides n columns most evenly. The width is a
** multiple of a vector's number of lanes. */
static inline int64_t tlk_tile_width(const tlk_TileLoops *f, int64_t n) {
  int64_t most = (int64_t)f->lanes * f->vectors;
  int64_t panels = n <= most ? 1 : (n + most - 1) / most;
  int64_t each = panels == 1 ? n : (n + panels - 1) / panels;
  return (each + f->lanes - 1) & -f->lanes;
}

struct tlk_Epilogue; /* epilogue.h */

/* Computes c = alpha a b + beta c, in float or double, for one product of a batch, and applies the
** epilogue `after` unless it is NULL. Returns false if the user interrupted the product, which
** leaves c incomplete. */
bool tlk_tiled_gemm(const tlk_Gemm *g, const struct tlk_Epilogue *after, const void *a,
                    const void *b, void *c);

#endif
