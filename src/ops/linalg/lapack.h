/*
** lapack.h - LAPACK's info as a tensor: what found fault with a matrix says so
** there, and the operators that raise errors ask.
*/
#ifndef TLI_OPS_LAPACK_H
#define TLI_OPS_LAPACK_H

#include "ops/common.h"

/* Fails when a matrix's info says so; names the matrix in a batch. */
bool tli_info_fine(tl_Tensor *info, const char *op, const char *what) TL_MUSTCHECK;
/* Of n results, the last one info: whether it is fine; releases all if not. */
bool tli_info_check(tl_Tensor **out, int n, const char *op, const char *what) TL_MUSTCHECK;

#endif
