/*
** linalg.h - what cusolver.c has run on the device beside the libraries' routines.
*/
#ifndef TLK_CUDA_LINALG_H
#define TLK_CUDA_LINALG_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[i], on the device, becomes base + i * step for i below n: what batched routines take. */
bool cuda_linalg_pointers(const tlk_Context *cx, void **out, const void *base, int64_t step,
                          int64_t n);
/* Of `batch` column-major matrices (m, n), one after the other, the transposed ones (n, m). */
bool cuda_linalg_transposes(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n,
                            const void *from, void *to);

#ifdef __cplusplus
}
#endif

#endif
