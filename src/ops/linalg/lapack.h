/*
** lapack.h - helpers for operators that call LAPACK: batches of matrices, column-major copies, and
** info tensors. An info tensor has one LAPACK error code for each matrix; operators that raise
** errors check it.
*/
#ifndef TLI_OPS_LAPACK_H
#define TLI_OPS_LAPACK_H

#include "core/kernel/lapack.h"
#include "ops/common.h"

/* A batch of matrices, which are the last two dimensions of a tensor. */
typedef struct tli_Matrices {
  int64_t count;
  int m, n, k; /* k = min(m, n) */
  int nbatch;  /* number of batch dimensions */
} tli_Matrices;

/* Returns the LAPACK routines for a tensor's device. If there are none, returns NULL with a message
** that begins with `op`. */
const tlk_Lapack *tli_lapack_of(const char *op, const tl_Tensor *t) TL_MUSTCHECK;
static inline const tlk_Context *tli_lapack_context(const tl_Tensor *t) {
  return tli_context(tli_device(t));
}
/* Fails if LAPACK does not support the dtype. */
bool tli_lapack_dtype(const char *op, tl_DType dtype) TL_MUSTCHECK;
/* Describes t as a batch of matrices. Fails if the dtype is not float32, float64 or complex. */
bool tli_lapack_matrices(const char *op, const tl_Tensor *t, bool square, tli_Matrices *b)
    TL_MUSTCHECK;
/* Returns a new tensor with the batch dimensions of b, followed by `ndim` (1 or 2) dimensions of
** the given sizes. */
tl_Tensor *tli_lapack_empty(const tl_Tensor *like, const tli_Matrices *b, tl_DType dtype, int ndim,
                            int64_t size1, int64_t size2) TL_MUSTCHECK;
/* Returns a view of t with its last two dimensions swapped. The view is not recorded. */
tl_Tensor *tli_lapack_swapped(const tl_Tensor *t) TL_MUSTCHECK;
/* Returns a column-major copy of the matrices. It is stored as a row-major tensor of their
** transposes. */
tl_Tensor *tli_lapack_columns(const tl_Tensor *t) TL_MUSTCHECK;
/* Converts a column-major result, which may be NULL, to a tensor of the matrices. Steals the
** argument. */
tl_Tensor *tli_lapack_rows(tl_Tensor *steals);
/* Sets t, a dense batch of square matrices, to identity matrices. */
bool tli_lapack_identity(tl_Tensor *t) TL_MUSTCHECK;

/* Fails if t contains NaN or infinity. With such values some LAPACK routines print error messages,
** and some may not terminate. */
bool tli_lapack_finite(const char *op, tl_Tensor *t) TL_MUSTCHECK;
/* Returns a new info tensor for a batch: one error code for each matrix, all initially 0. */
tl_Tensor *tli_lapack_info(const tl_Tensor *A, const tli_Matrices *b) TL_MUSTCHECK;
/* Fails if any of n infos reports an error. The message names the failed matrix of a batch. */
bool tli_infos_fine(const int *info, int64_t n, const char *op, const char *what) TL_MUSTCHECK;
/* Fails if any element of an info tensor reports an error. The message names the failed matrix of a
** batch. */
bool tli_info_fine(tl_Tensor *info, const char *op, const char *what) TL_MUSTCHECK;
/* Checks the info tensor, which is the last of n results. Releases all results if it reports an
** error. */
bool tli_info_check(tl_Tensor **out, int n, const char *op, const char *what) TL_MUSTCHECK;

/* Computes U, S and Vh (eigen.c). The job is 'A' for full U and Vh, 'S' for min(m, n) vectors of
** each, 'N' for no vectors. */
bool tli_lapack_svd(const char *op, tl_Tensor *A, char job, tl_Tensor **out) TL_MUSTCHECK;

#endif
