/*
** epilogue.h - elementwise operations on the result of a matrix product while it is in the cache:
** adds a bias to each column, and applies an activation.
*/
#ifndef TLK_EPILOGUE_H
#define TLK_EPILOGUE_H

#include "kernels/cpu/cpu.h"

typedef struct tlk_Epilogue {
  const void *bias; /* one number for each column of c; NULL if there is no bias */
  tlk_Activation activation;
  /* array for the argument of the activation, or NULL; it has the same row stride as c */
  void *inner;
} tlk_Epilogue;

/* Returns the epilogue for the part of c that begins at (row, col). Elements have `size` bytes. */
static inline tlk_Epilogue tlk_epilogue_at(const tlk_Epilogue *e, int64_t row, int64_t col,
                                           int64_t ldc, int64_t size) {
  tlk_Epilogue part = *e;
  if (e->bias) part.bias = (const char *)e->bias + col * size;
  if (e->inner) part.inner = (char *)e->inner + (row * ldc + col) * size;
  return part;
}

/* Applies the epilogue to an array of floats or doubles. */
void tlk_finish(const tlk_Epilogue *e, tl_DType compute, int64_t rows, int64_t cols, void *c,
                int64_t ldc);

/* Runs a matrix product, and then the epilogue unless it is NULL. */
bool tlk_multiply(const tlk_Gemm *g, const tlk_Epilogue *after);

#endif
