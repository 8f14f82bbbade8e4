/*
** tile.h - the register tile of products and convolutions: a few rows times a few vectors of
** columns, whose sums stay in registers. The left side is read in place, one element at a time:
** each row has a pointer, and all rows share the offsets of their elements. So the left side may be
** a matrix or the windows of an image. The right side is a packed panel: rows of whole vectors.
*/
#ifndef TLK_TILE_H
#define TLK_TILE_H

#include "core/device/backend.h"

/* The largest number of rows in a tile of any instruction set. */
#define TLK_TILE_ROWS 8
/* Number of terms that are summed before they are added to the result. This number of terms of a
** panel stays in the first-level cache, and long sums keep their accuracy. */
#define TLK_TILE_DEPTH 128

/* The smallest number of multiplications of a product for which another thread is worthwhile. */
#define TLK_PRODUCT_GRAIN (64 * 64 * 64)

/* Whether the CPU multiplies complex numbers as such. The library of a program, which has to be small,
** multiplies blocks of real numbers instead, as other devices do. */
#ifdef TLI_RUNTIME
#define TLK_COMPLEX_PRODUCTS 0
#else
#define TLK_COMPLEX_PRODUCTS 1
#endif

/* Loops of the register tile: one set for float, one for double. */
typedef struct tlk_TileLoops {
  int lanes;   /* number of elements in a vector, a power of two */
  int rows;    /* number of rows in a tile */
  int vectors; /* largest number of vectors of columns in a tile */
  /* For `vectors` vectors of columns, computes out[r][c] as the sum over t < n of in[r][offsets[t]]
  ** * panel[t * pitch + c], or adds that sum to out if `add`. Rows of out are out_step elements
  ** apart. The loop reads all rows of a tile through `in`, but writes only `rows` rows. */
  void (*tile)(int rows, int vectors, int64_t n, const int64_t *offsets, const void *const *in,
               const void *panel, int64_t pitch, bool add, void *out, int64_t out_step);
  /* Adds bias[c] to out[r][c] unless bias is NULL; then sets negative elements to 0 if `relu`. */
  void (*finish)(int64_t rows, int64_t cols, const void *bias, bool relu, void *out,
                 int64_t out_step);
  /* Computes out[i * out_step], for i < rows, as the dot product of row i of a matrix and x, both of
  ** n elements. Rows of the matrix are `pitch` elements apart. Each result is summed in an order that
  ** depends on n alone. */
  void (*dots)(int64_t rows, int64_t n, const void *matrix, int64_t pitch, const void *x, void *out,
               int64_t out_step);
} tlk_TileLoops;

/* Returns the loops for matrix products in float, or in double if `wide`. In the portable mode their
** vectors are as wide as the processor's, since the width does not change the order of a sum. */
const tlk_TileLoops *tlk_product_loops(bool wide);

/* Returns the panel width, a multiple of the vector's lanes, that divides n columns most evenly. */
static inline int64_t tlk_tile_width(const tlk_TileLoops *f, int64_t n) {
  int64_t most = (int64_t)f->lanes * f->vectors;
  int64_t panels = n <= most ? 1 : (n + most - 1) / most;
  int64_t each = panels == 1 ? n : (n + panels - 1) / panels;
  return (each + f->lanes - 1) & -f->lanes;
}

struct tlk_Epilogue; /* epilogue.h */

/* Computes c = alpha a b + beta c, in float or double, for one product of a batch, and applies the
** epilogue `after` unless it is NULL. Returns false if the user interrupted the product; c is
** incomplete then. */
bool tlk_tiled_gemm(const tlk_Gemm *g, const struct tlk_Epilogue *after, const void *a,
                    const void *b, void *c);

#endif
