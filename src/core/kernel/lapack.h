/*
** lapack.h - dense factorizations as a back end offers them. Names are
** LAPACK's. Matrices are column-major without gaps, one after the other, of
** float32 or float64; what a routine overwrites is said. info[i] is 0, or as
** LAPACK defines it for matrix i. Each returns false, with a message, on lack
** of memory or of the library.
**
** Arrays, info, pivots and rank among them, lie on the context's device, where the work
** is put on its stream. Sizes are at least 1; batch may be 0. A device other than the CPU
** has the routines up to syevd, and trsm.
*/
#ifndef TLI_LAPACK_H
#define TLI_LAPACK_H

#include "core/kernel/kernel.h"

typedef struct tlk_Lapack {
  /* a (n, n) becomes the lower factor L; the upper triangle is left alone.
  ** info > 0: not positive definite. */
  bool (*potrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *info);
  /* a (m, n) becomes L and U; pivots (min(m, n)), from 1. info > 0: singular. */
  bool (*getrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                int *pivots, int *info);
  /* b (n, nrhs) becomes the solution of a x = b, a being getrf's result. */
  bool (*getrs)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                const void *a, const int *pivots, void *b);
  /* a (m, n) becomes R above and the reflectors below the diagonal; tau
  ** (min(m, n)). */
  bool (*geqrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, void *a,
                void *tau);
  /* a (m, n) with k reflectors becomes the first n columns of Q. */
  bool (*orgqr)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int k, void *a,
                const void *tau);
  /* a (m, n) is destroyed; s (min(m, n)) descending; u (m, k) and vt (k, n)
  ** with k = min(m, n), or all of both ('A'), or none ('N'). */
  bool (*gesdd)(const tlk_Context *cx, tl_DType dtype, char job, int64_t batch, int m, int n,
                void *a, void *s, void *u, void *vt, int *info);
  /* a (n, n), of which one triangle is read, becomes the eigenvectors (if
  ** wanted); w (n) ascending. */
  bool (*syevd)(const tlk_Context *cx, tl_DType dtype, bool vectors, bool upper, int64_t batch,
                int n, void *a, void *w, int *info);
  /* Least squares: a (m, n) is destroyed; b (max(m, n), nrhs) becomes the
  ** solution; s the singular values; rank of each. */
  bool (*gelsd)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n, int nrhs,
                void *a, void *b, void *s, double rcond, int *rank, int *info);
  /* a (n, n), of which the lower triangle is read, becomes L and D of L D L^T;
  ** pivots (n) as LAPACK has them, pairs of negative ones for blocks of D of
  ** size 2. info > 0: D is singular. */
  bool (*sytrf)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, void *a, int *pivots,
                int *info);
  /* b (n, nrhs) becomes the solution of a x = b, a being sytrf's result. */
  bool (*sytrs)(const tlk_Context *cx, tl_DType dtype, int64_t batch, int n, int nrhs,
                const void *a, const int *pivots, void *b);
  /* Row-major: b (m, n) becomes the solution of op(a) x = b (left) or
  ** x op(a) = b, a being triangular. */
  bool (*trsm)(const tlk_Context *cx, tl_DType dtype, bool left, bool upper, bool transpose,
               bool unit, int64_t batch, int m, int n, const void *a, void *b);
} tlk_Lapack;

/* The CPU's. */
extern const tlk_Lapack tlk_cpu_lapack;
/* A device's; NULL, without a message, where there are none or a graph is captured, which not
** all of them take part in. */
const tlk_Lapack *tli_lapack(tl_Device device);

#endif
