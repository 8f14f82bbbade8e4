/*
** csr.h - the inner loops of products with a sparse matrix, see core/kernel/kernel.h.
*/
#ifndef TLK_CSR_H
#define TLK_CSR_H

#include "kernels/cpu/cpu.h"

typedef struct tlk_CsrRows {
  const int64_t *pointers, *columns;
  const void *values;
  const void *in; /* PRODUCT: rows of the dense matrix by column; TRANSPOSED: by row */
  void *out;
  int64_t in_step, out_step; /* elements from one row to the next */
  int64_t begin, end;        /* the rows to compute */
  int64_t width;             /* number of columns of the dense matrix, from the pointers on */
} tlk_CsrRows;

typedef struct tlk_CsrLoops {
  int64_t panel; /* number of columns that stay in registers */
  void (*product)(const tlk_CsrRows *r);
  void (*transposed)(const tlk_CsrRows *r); /* adds to out */
  /* out[e] = the product of row i of left and row columns[e] of right, both `width` long */
  void (*sampled)(const tlk_CsrRows *r, const void *left);
} tlk_CsrLoops;

#endif
