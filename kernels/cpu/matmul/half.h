/*
** half.h - products of float16 and bfloat16.
*/
#ifndef TLK_HALF_GEMM_H
#define TLK_HALF_GEMM_H

#include "kernels/cpu/matmul/epilogue.h"

/* Multiplications of one product that are worth a thread. */
#define TLK_GEMM_GRAIN (64 * 64 * 64)

/* c = alpha a b + beta c of a batch, and what comes after it unless `after` is NULL. No size is 0.
** c, and the arrays of `after`, are of g's dtype or of float32, as `out` says. */
bool tlk_half_gemm(const tlk_Gemm *g, tl_DType out, const tlk_Epilogue *after) TL_MUSTCHECK;

/* One product in the calling thread, of float32, float64 or integers. Returns false when it was
** interrupted, with c half done. */
bool tlk_gemm_here(const tlk_Gemm *g, const void *a, const void *b, void *c) TL_MUSTCHECK;

#endif
