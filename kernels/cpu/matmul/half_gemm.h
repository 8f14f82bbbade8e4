/*
** half_gemm.h - matrix products of float16 and bfloat16.
*/
#ifndef TLK_HALF_GEMM_H
#define TLK_HALF_GEMM_H

#include "kernels/cpu/matmul/epilogue.h"

/* Computes c = alpha a b + beta c for each product of a batch, and applies the epilogue `after`
** unless it is NULL. All sizes are at least 1. `out` is the dtype of c and of the arrays in
** `after`; it is either the dtype of g or float32. */
bool tlk_half_gemm(const tlk_Gemm *g, tl_DType out, const tlk_Epilogue *after) TL_MUSTCHECK;

#endif
