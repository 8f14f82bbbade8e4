/*
** linalg.h - chain steps (see chain.h) and checks for operators on matrices.
*/
#ifndef TLI_LINALG_H
#define TLI_LINALG_H

#include "ops/chain.h"

/* Returns identity matrices that broadcast with a. */
static inline tl_Tensor *chain_identity(tli_Chain *c, const tl_Tensor *a) {
  int64_t n = a->sizes[a->ndim - 1];
  return TLI_STEP(c, tlo_eye(n, n, (tl_DType)a->dtype, tli_device(a)));
}

static inline bool check_square(const char *op, const tl_Tensor *a) {
  if (a->ndim >= 2 && a->sizes[a->ndim - 1] == a->sizes[a->ndim - 2]) return true;
  return tli_fail(TL_ESHAPE, "%s: expected square matrices, got shape %s", op, tli_sizes_str(a));
}

#endif
