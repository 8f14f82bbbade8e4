/*
** csr.h - the inner loops of products with a sparse matrix in CSR form (see core/kernel/kernel.h).
*/
#ifndef TLK_CSR_H
#define TLK_CSR_H

#include "kernels/cpu/cpu.h"

typedef struct tlk_CsrRows {
  const int64_t *pointers, *columns;
  const void *values;
  /* the dense matrix; each of its rows belongs to a column of the sparse matrix (PRODUCT and
  ** SAMPLED) or to a row (TRANSPOSED) */
  const void *in;
  void *out;
  int64_t in_step, out_step; /* distance between neighbouring rows, in elements */
  int64_t begin, end;        /* the range of rows of the sparse matrix to process */
  int64_t width;             /* number of columns to compute, from the pointers `in` and `out` on */
} tlk_CsrRows;

typedef struct tlk_CsrLoops {
  int64_t panel; /* number of columns of the dense matrix whose sums stay in registers */
  void (*product)(const tlk_CsrRows *r);
  /* adds its results to `out` instead of overwriting them */
  void (*transposed)(const tlk_CsrRows *r);
  /* For each element e of row i, computes out[e], the dot product of row i of left and row
  ** columns[e] of right. Both rows have `width` elements. */
  void (*sampled)(const tlk_CsrRows *r, const void *left);
} tlk_CsrLoops;

#endif
