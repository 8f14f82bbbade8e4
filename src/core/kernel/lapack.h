/*
** lapack.h - a back end's table of dense factorizations, under LAPACK's names. Matrices are
** column-major and contiguous, one after the other, in float32, float64, complex64 or complex128;
** the comments say which ones are overwritten. The singular values, and syevd's eigenvalues, of
** complex matrices are real. info[i] is 0, or LAPACK's value for matrix i. Each routine returns
** false, with a message, if memory is exhausted or the library is missing.
**
** All arrays, including info, pivots and rank, are on the context's device, and the work is queued
** on the context's stream. Sizes are at least 1; batch may be 0. Devices other than the CPU have
** the routines up to syevd, and trsm.
*/
#ifndef TLI_LAPACK_H
#define TLI_LAPACK_H

#include "core/kernel/kernel.h"

typedef struct tlk_Lapack {
  /* Cholesky: replaces a (n, n) by the lower factor L; the upper triangle does not change. info[i]
  ** > 0 means that matrix i is not positive definite. */
  bool (*potrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *info);
  /* LU: replaces a (m, n) by L and U; pivots (min(m, n)) count from 1. info > 0 means that the
  ** matrix is singular. */
  bool (*getrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                int *pivots, int *info);
  /* Solves a x = b: replaces b (n, nrhs) by x. a and pivots are getrf's results. */
  bool (*getrs)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                const void *a, const int *pivots, void *b);
  /* QR: replaces a (m, n) by R on and above the diagonal and the reflectors below it; tau has
  ** min(m, n) elements. */
  bool (*geqrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                void *tau);
  /* Replaces a (m, n) with k reflectors by the first n columns of Q. */
  bool (*orgqr)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int k, void *a,
                const void *tau);
  /* Singular values: destroys a (m, n). s (min(m, n)) is in descending order. u (m, k) and vt (k,
  ** n) have k = min(m, n), or are complete (job 'A'), or absent (job 'N'). */
  bool (*gesdd)(const tlk_Context *cx, tl_DType dtype, char job, int64_t batch, int m, int n,
                void *a, void *s, void *u, void *vt, int *info);
  /* Eigenvalues: replaces a (n, n), of which one triangle is read, by the eigenvectors if they are
  ** wanted. w (n) is in ascending order. */
  bool (*syevd)(const tlk_Context *cx, tl_DType dtype, bool vectors, bool upper, int64_t batch,
                int n, void *a, void *w, int *info);
  /* Least squares: destroys a (m, n), and replaces b (max(m, n), nrhs) by the solution. s receives
  ** the singular values, and rank the rank of each matrix. */
  bool (*gelsd)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int nrhs,
                void *a, void *b, void *s, double rcond, int *rank, int *info);
  /* Replaces a (n, n), of which the lower triangle is read, by the factors L and D. Their product
  ** is L D L^T or, if `hermitian` and complex, L D L^H. pivots (n) have LAPACK's form: a pair of
  ** negative numbers stands for a block of D of size 2. info > 0 means that D is singular. */
  bool (*sytrf)(const tlk_Context *cx, tl_DType dtype, bool hermitian, int64_t batch, int n,
                void *a, int *pivots, int *info);
  /* Solves a x = b: replaces b (n, nrhs) by x. a and pivots are sytrf's results. */
  bool (*sytrs)(const tlk_Context *cx, tl_DType dtype, bool hermitian, int64_t batch, int n,
                int nrhs, const void *a, const int *pivots, void *b);
  /* Triangular solve, row-major: replaces b (m, n) by the solution of op(a) x = b (left) or x op(a)
  ** = b. */
  bool (*trsm)(const tlk_Context *cx, tl_DType dtype, bool left, bool upper, bool transpose,
               bool unit, int64_t batch, int m, int n, const void *a, void *b);
  /* Destroys a (n, n). w (n) receives the eigenvalues. If the eigenvectors are wanted, v (n, n)
  ** receives them as columns of norm 1. w and v are complex, even for a real a. */
  bool (*geev)(const tlk_Context *cx, tl_DType dtype, bool vectors, int64_t batch, int n, void *a,
               void *w, void *v, int *info);
} tlk_Lapack;

/* The CPU's LAPACK routines. */
extern const tlk_Lapack tlk_cpu_lapack;
/* Returns a device's LAPACK routines, or NULL, without a message. The result is NULL if the device
** has no routines, and while a graph is captured, since some routines cannot be captured. */
const tlk_Lapack *tli_lapack(tl_Device device);

#endif
