/*
** lapack.h - the helpers of operators that call LAPACK: batches of matrices, column-major copies,
** and LAPACK's info as a tensor, which has an error code for each matrix; operators that raise
** errors check that tensor.
*/
#ifndef TLI_OPS_LAPACK_H
#define TLI_OPS_LAPACK_H

#include "core/kernel/lapack.h"
#include "ops/common.h"

/* A batch of matrices: the last two dimensions of a tensor. */
typedef struct tli_Matrices {
  int64_t count;
  int m, n, k; /* k = min(m, n) */
  int nbatch;  /* number of batch dimensions */
} tli_Matrices;

/* Returns the routines for a tensor's device; NULL with a message that begins with `op` if there
** are none. */
const tlk_Lapack *tli_lapack_of(const char *op, const tl_Tensor *t) TL_MUSTCHECK;
static inline const tlk_Context *tli_lapack_context(const tl_Tensor *t) {
  return tli_context(tli_device(t));
}
/* Fails if LAPACK has no routines for the dtype. */
bool tli_lapack_dtype(const char *op, tl_DType dtype) TL_MUSTCHECK;
/* Reads t as a batch of matrices of float32, float64 or complex numbers; fails for any other
** tensor. */
bool tli_lapack_matrices(const char *op, const tl_Tensor *t, bool square, tli_Matrices *b)
    TL_MUSTCHECK;
/* Returns a new tensor (batch..., sizes...), with one size or two. */
tl_Tensor *tli_lapack_empty(const tl_Tensor *like, const tli_Matrices *b, tl_DType dtype, int ndim,
                            int64_t size1, int64_t size2) TL_MUSTCHECK;
/* Returns a view with the last two dimensions swapped. */
tl_Tensor *tli_lapack_swapped(const tl_Tensor *t) TL_MUSTCHECK;
/* Returns a column-major copy, stored as the row-major tensor of the transposes. */
tl_Tensor *tli_lapack_columns(const tl_Tensor *t) TL_MUSTCHECK;
/* Converts a column-major result, which may be NULL, to the matrix that it represents. Steals the
** result. */
tl_Tensor *tli_lapack_rows(tl_Tensor *steals);
/* Writes identity matrices, also for matrices that are not square. */
bool tli_lapack_identity(tl_Tensor *t) TL_MUSTCHECK;

/* Checks for NaN and infinity, for which some routines print complaints and may not terminate. */
bool tli_lapack_finite(const char *op, tl_Tensor *t) TL_MUSTCHECK;
/* Returns one info for each matrix, initially 0. */
tl_Tensor *tli_lapack_info(const tl_Tensor *A, const tli_Matrices *b) TL_MUSTCHECK;
/* Fails if one of n infos reports an error; the message names the matrix in a batch. */
bool tli_infos_fine(const int *info, int64_t n, const char *op, const char *what) TL_MUSTCHECK;
/* Fails if a matrix's info reports an error; the message names the matrix in a batch. */
bool tli_info_fine(tl_Tensor *info, const char *op, const char *what) TL_MUSTCHECK;
/* Checks the last of n results, an info tensor; releases all results if it reports an error. */
bool tli_info_check(tl_Tensor **out, int n, const char *op, const char *what) TL_MUSTCHECK;

/* Computes U, S and Vh (eigen.c): all of U and Vh for job 'A', min(m, n) vectors for 'S', none for
** 'N'. */
bool tli_lapack_svd(const char *op, tl_Tensor *A, char job, tl_Tensor **out) TL_MUSTCHECK;

#endif
