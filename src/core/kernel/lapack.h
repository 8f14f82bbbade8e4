/*
** lapack.h - a back end's table of dense factorizations, under LAPACK's names. Matrices are
** column-major and contiguous, one after the other, in float32, float64, complex64 or complex128;
** the comments say which matrices are overwritten. The singular values of complex matrices are
** real, and so are the eigenvalues that syevd computes. info[i] is 0, or LAPACK's value for matrix
** i. Each routine returns false, with a message, if memory is exhausted or the library is missing.
**
** All arrays, including info, pivots and rank, are on the context's device, and the work is queued
** on the context's stream. Sizes are at least 1; batch may be 0. Devices other than the CPU have
** only trsm and the routines from potrf to syevd.
*/
#ifndef TLI_LAPACK_H
#define TLI_LAPACK_H

#include "core/kernel/kernel.h"

typedef struct tlk_Lapack {
  /* Cholesky: replaces a (n, n) by the lower factor L; the upper triangle is not changed. info[i] >
  ** 0 means that matrix i is not positive definite. */
  bool (*potrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *info);
  /* LU: replaces a (m, n) by L and U. pivots has min(m, n) row numbers, counted from 1. info > 0
  ** means that the matrix is singular. */
  bool (*getrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                int *pivots, int *info);
  /* Solves a x = b: replaces b (n, nrhs) by x. a and pivots are getrf's results. */
  bool (*getrs)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                const void *a, const int *pivots, void *b);
  /* QR: replaces a (m, n) by R on and above the diagonal and the reflectors below it; tau has
  ** min(m, n) elements. */
  bool (*geqrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                void *tau);
  /* Replaces a (m, n), which has k reflectors from geqrf, by the first n columns of Q. */
  bool (*orgqr)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int k, void *a,
                const void *tau);
  /* Singular values: computes the singular value decomposition of a (m, n), and destroys a. s
  ** (min(m, n)) is in descending order. u (m, k) and vt (k, n) have k = min(m, n); they are
  ** complete square matrices if job is 'A', and are not computed if job is 'N'. */
  bool (*gesdd)(const tlk_Context *cx, tl_DType dtype, char job, int64_t batch, int m, int n,
                void *a, void *s, void *u, void *vt, int *info);
  /* Eigenvalues: reads one triangle of a (n, n), and replaces a by the eigenvectors if `vectors` is
  ** set. w (n) has the eigenvalues in ascending order. */
  bool (*syevd)(const tlk_Context *cx, tl_DType dtype, bool vectors, bool upper, int64_t batch,
                int n, void *a, void *w, int *info);
  /* Least squares: replaces b (max(m, n), nrhs) by the solution, and destroys a (m, n). s receives
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
  /* Eigenvalues of a general matrix: destroys a (n, n). w (n) receives the eigenvalues. If
  ** `vectors` is set, v (n, n) receives the eigenvectors as columns of norm 1. w and v are complex,
  ** even if a is real. */
  bool (*geev)(const tlk_Context *cx, tl_DType dtype, bool vectors, int64_t batch, int n, void *a,
               void *w, void *v, int *info);
} tlk_Lapack;

/* The CPU's LAPACK routines. */
extern const tlk_Lapack tlk_cpu_lapack;
/* Returns a device's LAPACK routines. Returns NULL, without a message, if the device has none, and
** while a graph is captured, since some routines cannot be captured. */
const tlk_Lapack *tli_lapack(tl_Device device);

#endif
