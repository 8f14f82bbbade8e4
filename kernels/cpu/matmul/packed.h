/*
** packed.h - a matrix that is packed once for many products: the right side of c = a b, divided
** into the panels of tile.h. The order in which an element of c is summed does not depend on
** the number of rows.
*/
#ifndef TLK_PACKED_H
#define TLK_PACKED_H

#include "kernels/cpu/matmul/tile.h"

typedef struct tlk_Packed {
  const tlk_TileLoops *loops;
  int64_t size; /* bytes of an element */
  int64_t k, n;
  int64_t width, panels; /* columns of a panel, and number of panels */
  int64_t offsets[TLK_TILE_DEPTH];
  char *data; /* owned */
  size_t bytes;
} tlk_Packed;

/* Packs op(b) (k, n), of float32 or float64; op transposes if `trans`. Rows of b in memory are
** ldb elements apart. Returns false if memory is exhausted. */
bool tlk_pack(tlk_Packed *p, tl_DType dtype, bool trans, int64_t k, int64_t n, const void *b,
              int64_t ldb) TL_MUSTCHECK;
/* Releases the panels; a zeroed struct is allowed. */
void tlk_packed_free(tlk_Packed *p);

/* Computes c (rows, n) = a (rows, k) times the matrix, in the columns of panels begin to end; adds
** to c if `add`. Rows are a_step and c_step elements apart; a_step may be 0. */
void tlk_packed_product(const tlk_Packed *p, int64_t begin, int64_t end, int64_t rows,
                        const void *a, int64_t a_step, bool add, void *c, int64_t c_step);

#endif
