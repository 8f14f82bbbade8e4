/*
** packed.h - a matrix that is packed once and used for many products c = a b as the right factor b.
** The matrix is divided into the panels of tile.h. The order in which the terms of an element of c
** are added does not depend on the number of rows.
*/
#ifndef TLK_PACKED_H
#define TLK_PACKED_H

#include "kernels/cpu/matmul/tile.h"

typedef struct tlk_Packed {
  const tlk_TileLoops *loops;
  int64_t size; /* size of an element in bytes */
  int64_t k, n;
  int64_t width, panels; /* number of columns in a panel, and number of panels */
  int64_t offsets[TLK_TILE_DEPTH];
  char *data; /* owned */
  size_t bytes;
} tlk_Packed;

/* Packs op(b), a (k, n) matrix of float32 or float64, where op transposes if `trans`. Rows of b in
** memory are ldb elements apart. Returns false if memory is exhausted. */
bool tlk_pack(tlk_Packed *p, tl_DType dtype, bool trans, int64_t k, int64_t n, const void *b,
              int64_t ldb) TL_MUSTCHECK;
/* Frees the panels. Does nothing if all fields of the struct are zero. */
void tlk_packed_free(tlk_Packed *p);

/* Multiplies a (rows, k) by the packed matrix and stores the product in c (rows, n), or adds it to
** c if `add`. Computes only the columns of panels [begin, end). Rows of a are a_step elements
** apart, and rows of c are c_step elements apart; a_step may be 0. */
void tlk_packed_product(const tlk_Packed *p, int64_t begin, int64_t end, int64_t rows,
                        const void *a, int64_t a_step, bool add, void *c, int64_t c_step);

#endif
