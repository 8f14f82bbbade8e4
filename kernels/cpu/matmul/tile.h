/*
** tile.h - the register tile of products and convolutions: a few rows times a
** few vectors of columns, whose sums stay in registers. The left side is read in
** place, one element at a time: each row has a pointer, and all rows share the
** offsets of their elements. So it may be a matrix as well as windows of an
** image. The right side is a panel: packed rows of whole vectors.
*/
#ifndef TLK_TILE_H
#define TLK_TILE_H

#include "core/device/backend.h"

/* More rows than any instruction set's tile has. */
#define TLK_TILE_ROWS 8
/* Terms of a sum between two additions to the result: that much of a panel
** stays in the first-level cache, and long sums keep their accuracy. */
#define TLK_TILE_DEPTH 128

/* One set for float, one for double. */
typedef struct tlk_TileLoops {
  int lanes;   /* elements of a vector, a power of two */
  int rows;    /* of a tile */
  int vectors; /* of columns in a tile, at most */
  /* out[r][c], rows out_step elements apart = the sum over t < n of
  ** in[r][offsets[t]] * panel[t * pitch + c], for `vectors` vectors of columns;
  ** added to out if `add`. All pointers of a tile are read, `rows` rows written. */
  void (*tile)(int rows, int vectors, int64_t n, const int64_t *offsets, const void *const *in,
               const void *panel, int64_t pitch, bool add, void *out, int64_t out_step);
  /* out[r][c] += bias[c] unless that is NULL; then, if `relu`, what is below 0 becomes 0. */
  void (*finish)(int64_t rows, int64_t cols, const void *bias, bool relu, void *out,
                 int64_t out_step);
} tlk_TileLoops;

/* Columns of the panels that n columns are best cut into: whole vectors. */
static inline int64_t tlk_tile_width(const tlk_TileLoops *f, int64_t n) {
  int64_t most = (int64_t)f->lanes * f->vectors;
  int64_t panels = n <= most ? 1 : (n + most - 1) / most;
  int64_t each = panels == 1 ? n : (n + panels - 1) / panels;
  return (each + f->lanes - 1) & -f->lanes;
}

struct tlk_Epilogue; /* epilogue.h */

/* c = alpha a b + beta c, of float or double, for one product of a batch, and what comes
** after that, if anything. Returns false when it was interrupted, with c half done. */
bool tlk_tiled_gemm(const tlk_Gemm *g, const struct tlk_Epilogue *after, const void *a,
                    const void *b, void *c);

#endif
