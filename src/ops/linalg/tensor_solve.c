/*
** tensor_solve.c - inverses of tensors and linear systems with tensors, which are treated as
** matrices, and Vandermonde matrices.
*/
#include <string.h>

#include "ops/chain.h"

/* Returns the product of the sizes of dimensions `first` to `last` - 1. */
static int64_t product_of(const tl_Tensor *t, int64_t first, int64_t last) {
  int64_t p = 1;
  for (int64_t d = first; d < last; d++) p *= t->sizes[d];
  return p;
}

tl_Tensor *tlo_tensorinv(tl_Tensor *A, int64_t ind) {
  if (ind < 1 || ind > A->ndim)
    return tli_fail_null(
        TL_EARG, "linalg.tensorinv: ind: expected 1 to %d dimensions, got %" PRId64, A->ndim, ind);
  int64_t rows = product_of(A, 0, ind), columns = product_of(A, ind, A->ndim);
  if (rows != columns)
    return tli_fail_null(TL_ESHAPE,
                         "linalg.tensorinv: expected as many elements in the first %" PRId64
                         " dimensions as in the others, got shape %s",
                         ind, tli_sizes_str(A));
  int64_t sizes[TL_MAX_DIMS];
  for (int64_t d = 0; d < A->ndim; d++) sizes[d] = A->sizes[(d + ind) % A->ndim];
  tli_Chain c = {0};
  tl_Tensor *matrix = TLI_STEP(&c, tlo_reshape(A, (tl_Ints){2, (int64_t[]){rows, columns}}));
  tl_Tensor *inverse = TLI_STEP(&c, tlo_inv(matrix));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_reshape(inverse, (tl_Ints){A->ndim, sizes})));
}

/* Moves the listed dimensions of A to the end, in the given order. */
static tl_Tensor *moved_last(tl_Tensor *A, tl_Ints dims) {
  if (dims.n == 0) return tli_retain(A);
  int64_t last[TL_MAX_DIMS];
  for (int64_t k = 0; k < dims.n && k < TL_MAX_DIMS; k++) last[k] = k - dims.n;
  return tlo_movedim(A, dims, (tl_Ints){dims.n, last});
}

tl_Tensor *tlo_tensorsolve(tl_Tensor *A, tl_Tensor *B, tl_Ints dims) {
  if (B->ndim > A->ndim)
    return tli_fail_null(TL_ESHAPE,
                         "linalg.tensorsolve: B of shape %s has more dimensions than A, %s",
                         tli_sizes_str(B), tli_sizes_str(A));
  tli_Chain c = {0};
  tl_Tensor *moved = TLI_STEP(&c, moved_last(A, dims));
  if (moved == NULL) return tli_chain_end(&c, NULL);
  int64_t n = A->ndim - B->ndim;
  int64_t unknowns = product_of(moved, B->ndim, A->ndim);
  if (unknowns != B->numel || A->numel != unknowns * B->numel) {
    tli_fail(TL_ESHAPE,
             "linalg.tensorsolve: expected as many unknowns as equations, got A of shape %s and B "
             "of shape %s",
             tli_sizes_str(moved), tli_sizes_str(B));
    return tli_chain_end(&c, NULL);
  }
  tl_Tensor *matrix =
      TLI_STEP(&c, tlo_reshape(moved, (tl_Ints){2, (int64_t[]){unknowns, unknowns}}));
  tl_Tensor *right = TLI_STEP(&c, tlo_reshape(B, (tl_Ints){1, &unknowns}));
  tl_Tensor *x = TLI_STEP(&c, tlo_solve(matrix, right, true));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_reshape(x, (tl_Ints){n, moved->sizes + B->ndim})));
}

tl_Tensor *tlo_vander(tl_Tensor *x, int64_t N) {
  if (N == TLI_NOINT) N = x->ndim ? x->sizes[x->ndim - 1] : 1;
  if (N < 2)
    return tli_fail_null(TL_EARG, "linalg.vander: N: expected at least 2 powers, got %" PRId64, N);
  if (x->dtype == TL_BOOL)
    return tli_fail_null(TL_EDTYPE, "linalg.vander: expected numbers, got bool");
  tli_Chain c = {0};
  bool whole = !tli_is_inexact((tl_DType)x->dtype);
  tl_Tensor *base = TLI_STEP(&c, tlo_to_dtype(x, whole ? TL_I64 : (tl_DType)x->dtype));
  base = TLI_STEP(&c, tlo_atleast_1d(base));
  tl_Tensor *column = chain_unsqueeze(&c, base, -1);
  if (c.failed) return tli_chain_end(&c, NULL);
  int64_t sizes[TL_MAX_DIMS];
  memcpy(sizes, column->sizes, (size_t)column->ndim * sizeof *sizes);
  sizes[column->ndim - 1] = N - 1;
  tl_Tensor *ones = TLI_STEP(&c, tlo_ones_like(column, TL_NODTYPE, TLI_NODEVICE, NULL));
  tl_Tensor *wide = TLI_STEP(&c, tlo_expand(column, (tl_Ints){column->ndim, sizes}));
  tl_Tensor *powers = TLI_STEP(&c, tlo_cumprod(wide, -1, TL_NODTYPE));
  if (c.failed) return tli_chain_end(&c, NULL);
  tl_Tensors both = {2, (tl_Tensor *[]){ones, powers}};
  return tli_chain_end(&c, TLI_STEP(&c, tlo_cat(both, -1)));
}
