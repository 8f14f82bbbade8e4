/*
** half.h - products of float16 and bfloat16.
*/
#ifndef TLK_HALF_GEMM_H
#define TLK_HALF_GEMM_H

#include "kernels/cpu/matmul/epilogue.h"

/* c = alpha a b + beta c of a batch, then the epilogue unless `after` is NULL. No size is 0.
** c, and the arrays of `after`, are of g's dtype or of float32, as `out` says. */
bool tlk_half_gemm(const tlk_Gemm *g, tl_DType out, const tlk_Epilogue *after) TL_MUSTCHECK;

#endif
