/*
** linalg.h - kernels for the steps of cusolver.c for which the libraries have no routines.
*/
#ifndef TLK_CUDA_LINALG_H
#define TLK_CUDA_LINALG_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets out[i] on the device to base + i * step for all i < n. Batched routines take such arrays of
** pointers. */
bool cuda_linalg_pointers(const tlk_Context *cx, void **out, const void *base, int64_t step,
                          int64_t n);
/* Transposes `batch` column-major matrices (m, n), which lie one after another in memory. */
bool cuda_linalg_transposes(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n,
                            const void *from, void *to);

#ifdef __cplusplus
}
#endif

#endif
