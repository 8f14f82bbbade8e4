/*
** blas.h - BLAS and LAPACK, which are looked for on first use. OpenBLAS starts threads and
** allocates buffers as soon as it is loaded. A program that does not use OpenBLAS should not pay
** this cost, so the library is opened at run time. Hosts that link everything statically build with
** -DTLK_LINK_BLAS.
*/
#ifndef TLK_BLAS_H
#define TLK_BLAS_H

#include <stdbool.h>

/* The values of CBLAS's enumerations. */
enum { TLK_ROW_MAJOR = 101, TLK_COLUMN_MAJOR, TLK_NO_TRANS = 111, TLK_TRANS = 112 };

#define TLK_GEMV_ARGS(T)                                                                           \
  (int order, int trans, int m, int n, T alpha, const T *a, int lda, const T *x, int incx, T beta, \
   T *y, int incy)
#define TLK_COMPLEX_GEMV_ARGS(T)                                                                  \
  (int order, int trans, int m, int n, const T *alpha, const T *a, int lda, const T *x, int incx, \
   const T *beta, T *y, int incy)

typedef struct tlk_Blas {
  void(*sgemv) TLK_GEMV_ARGS(float);
  void(*dgemv) TLK_GEMV_ARGS(double);
  /* gemv for complex numbers; alpha and beta are passed by address */
  void(*cgemv) TLK_COMPLEX_GEMV_ARGS(float);
  void(*zgemv) TLK_COMPLEX_GEMV_ARGS(double);
} tlk_Blas;

/* Returns the table of BLAS functions, or NULL if no BLAS was found. The first call opens the
** library and limits it to one thread, because our own threads call it (gemm.c). */
const tlk_Blas *tlk_blas(void);

/* Returns the address of another function of the library, such as "dgetrf_"; NULL if the library
** lacks it. */
void *tlk_blas_symbol(const char *name);

/* Returns a description of the library, such as "OpenBLAS 0.3.21 ... Haswell ...", or the reason
** why there is no BLAS. */
const char *tlk_blas_config(void);

#endif
