/*
** lapack.h - LAPACK's info as a tensor, which reports errors of single matrices; operators that
** raise errors check it.
*/
#ifndef TLI_OPS_LAPACK_H
#define TLI_OPS_LAPACK_H

#include "ops/common.h"

/* Fails if a matrix's info reports an error; the message names the matrix in a batch. */
bool tli_info_fine(tl_Tensor *info, const char *op, const char *what) TL_MUSTCHECK;
/* Checks the last of n results, which is an info; releases all results if it reports an error. */
bool tli_info_check(tl_Tensor **out, int n, const char *op, const char *what) TL_MUSTCHECK;

#endif
