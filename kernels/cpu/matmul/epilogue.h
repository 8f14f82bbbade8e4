/*
** epilogue.h - what comes after a product, while its elements are in the cache: a bias for
** each column, and an activation.
*/
#ifndef TLK_EPILOGUE_H
#define TLK_EPILOGUE_H

#include "kernels/cpu/cpu.h"

typedef struct tlk_Epilogue {
  const void *bias; /* of column 0; NULL: none */
  tlk_Activation activation;
  void *inner; /* what the activation is applied to goes here, rows as far apart as c's; NULL */
} tlk_Epilogue;

/* The same for the part that begins at a row and a column; elements of `size` bytes. */
static inline tlk_Epilogue tlk_epilogue_at(const tlk_Epilogue *e, int64_t row, int64_t col,
                                           int64_t ldc, int64_t size) {
  tlk_Epilogue part = *e;
  if (e->bias) part.bias = (const char *)e->bias + col * size;
  if (e->inner) part.inner = (char *)e->inner + (row * ldc + col) * size;
  return part;
}

/* Of float or double. */
void tlk_finish(const tlk_Epilogue *e, tl_DType compute, int64_t rows, int64_t cols, void *c,
                int64_t ldc);

/* gemm, and what comes after it unless that is NULL. */
bool tlk_multiply(const tlk_Gemm *g, const tlk_Epilogue *after);

#endif
