/*
** matrix_norm.c - norms of matrices, and condition numbers, which are products of norms.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

tl_Tensor *tlo_vector_norm(tl_Tensor *x, tl_Scalar ord, tl_Ints dim, bool keepdim, tl_DType dtype) {
  return tlo_norm(x, ord, dim, keepdim, dtype);
}

/* Returns the maximum (if `largest` is set) or the minimum over one dimension. */
static tl_Tensor *extreme(tli_Chain *c, tl_Tensor *a, int64_t dim, bool keepdim, bool largest) {
  tl_Ints dims = {1, &dim};
  if (largest && a && a->sizes[dim < 0 ? dim + a->ndim : dim] == 0)
    return chain_sum(c, a, dim, keepdim); /* the norm of an empty matrix is 0 */
  return TLI_STEP(c, largest ? tlo_amax(a, dims, keepdim) : tlo_amin(a, dims, keepdim));
}

/* Sums the magnitudes along dimension `along`, and returns the maximum or minimum of these sums
** along dimension `other`. */
static tl_Tensor *sum_norm(tli_Chain *c, tl_Tensor *a, int along, int other, bool keepdim,
                           bool largest) {
  tl_Tensor *sums = chain_sum(c, TLI_STEP(c, tlo_abs(a)), along, keepdim);
  int64_t dim = keepdim || other < along ? other : other - 1;
  return extreme(c, sums, dim, keepdim, largest);
}

/* Returns a norm that depends on singular values. The matrices are in dimensions d0 and d1. */
static tl_Tensor *singular_norm(tli_Chain *c, tl_Tensor *a, int d0, int d1, bool keepdim,
                                const char *ord) {
  tl_Tensor *m = TLI_STEP(
      c, tlo_movedim(a, (tl_Ints){2, (int64_t[]){d0, d1}}, (tl_Ints){2, (int64_t[]){-2, -1}}));
  tl_Tensor *s = TLI_STEP(c, tlo_svdvals(m));
  tl_Tensor *r = strcmp(ord, "nuc") == 0 ? chain_sum(c, s, -1, false)
                                         : extreme(c, s, -1, false, ord[0] != '-');
  if (!keepdim) return r;
  int low = d0 < d1 ? d0 : d1, high = d0 < d1 ? d1 : d0;
  return chain_unsqueeze(c, chain_unsqueeze(c, r, low), high);
}

/* Checks the name of a matrix norm. `what` is the name of the argument, for the message. */
static bool check_order(const char *what, const char *ord) {
  static const char *const orders[] = {"fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    if (strcmp(ord, orders[i]) == 0) return true;
  return tli_fail(
      TL_EARG, "%s: expected 'fro', 'nuc', '1', '2', 'inf' or one of these with '-', got '%.40s'",
      what, ord);
}

tl_Tensor *tlo_matrix_norm(tl_Tensor *A, const char *ord, tl_Ints dim, bool keepdim,
                           tl_DType dtype) {
  const char *op = "linalg.matrix_norm";
  if (A->ndim < 2 || dim.n != 2)
    return tli_fail_null(TL_ESHAPE, "%s: expected matrices and two dimensions, got shape %s", op,
                         tli_sizes_str(A));
  int d0 = tli_dim(op, dim.v[0], A->ndim), d1 = d0 < 0 ? -1 : tli_dim(op, dim.v[1], A->ndim);
  if (d1 < 0) return NULL;
  if (d0 == d1) return tli_fail_null(TL_EARG, "%s: dim: expected two different dimensions", op);
  TL_TRY_NULL(check_order("linalg.matrix_norm: ord", ord));
  tli_Chain c = {0};
  tl_Tensor *a = dtype == TL_NODTYPE ? A : TLI_STEP(&c, tlo_to_dtype(A, dtype)), *r = NULL;
  if (c.failed) return tli_chain_end(&c, NULL);
  if (strcmp(ord, "fro") == 0)
    r = TLI_STEP(&c,
                 tlo_norm(a, tli_int(2), (tl_Ints){2, (int64_t[]){d0, d1}}, keepdim, TL_NODTYPE));
  else if (strcmp(ord, "1") == 0 || strcmp(ord, "-1") == 0)
    r = sum_norm(&c, a, d0, d1, keepdim, ord[0] != '-');
  else if (strcmp(ord, "inf") == 0 || strcmp(ord, "-inf") == 0)
    r = sum_norm(&c, a, d1, d0, keepdim, ord[0] != '-');
  else
    r = singular_norm(&c, a, d0, d1, keepdim, ord);
  return tli_chain_end(&c, r);
}

static tl_Tensor *named_norm(tl_Tensor *A, const char *ord, tl_Ints dim, bool keepdim,
                             tl_DType dtype) {
  tl_Ints last = {2, (int64_t[]){-2, -1}};
  return tlo_matrix_norm(A, ord, dim.v ? dim : last, keepdim, dtype);
}

/* Converts a number such as 2 to the name of the norm that it denotes. For any other number the
** error message begins with `what`. */
static const char *order_name(const char *what, tl_Scalar ord) {
  double p = tli_to_double(ord);
  if (isinf(p)) return p > 0 ? "inf" : "-inf";
  if (p == 1 || p == 2) return p == 1 ? "1" : "2";
  if (p == -1 || p == -2) return p == -1 ? "-1" : "-2";
  tli_fail(TL_EARG, "%s: expected 1, 2, math.huge or their negatives for matrices, got %g", what,
           p);
  return NULL;
}

tl_Tensor *tlo_matrix_norm_order(tl_Tensor *A, tl_Scalar ord, tl_Ints dim, bool keepdim,
                                 tl_DType dtype) {
  const char *name = order_name("linalg.matrix_norm: ord", ord);
  return name ? named_norm(A, name, dim, keepdim, dtype) : NULL;
}

tl_Tensor *tlo_linalg_norm(tl_Tensor *A, tl_Scalar ord, tl_Ints dim, bool keepdim, tl_DType dtype) {
  bool matrix = tli_given(ord) && ((dim.v && dim.n == 2) || (!dim.v && A->ndim == 2));
  if (!matrix) return tlo_norm(A, tli_given(ord) ? ord : tli_int(2), dim, keepdim, dtype);
  const char *name = order_name("linalg.norm: ord", ord);
  return name ? named_norm(A, name, dim, keepdim, dtype) : NULL;
}

tl_Tensor *tlo_linalg_norm_name(tl_Tensor *A, const char *ord, tl_Ints dim, bool keepdim,
                                tl_DType dtype) {
  return named_norm(A, ord, dim, keepdim, dtype);
}

tl_Tensor *tlo_cond(tl_Tensor *A, const char *p) {
  tli_Chain c = {0};
  tl_Tensor *result;
  if (strcmp(p, "2") == 0 || strcmp(p, "-2") == 0) {
    tl_Tensor *s = TLI_STEP(&c, tlo_svdvals(A));
    tl_Tensor *most = extreme(&c, s, -1, false, true), *least = extreme(&c, s, -1, false, false);
    result = p[0] == '-' ? chain_div(&c, least, most) : chain_div(&c, most, least);
  } else {
    TL_TRY_NULL(check_order("linalg.cond: p", p));
    tl_Tensor *inverse = TLI_STEP(&c, tlo_inv(A));
    tl_Tensor *own = TLI_STEP(&c, named_norm(A, p, TLI_NOINTS, false, TL_NODTYPE));
    tl_Tensor *other = TLI_STEP(&c, named_norm(inverse, p, TLI_NOINTS, false, TL_NODTYPE));
    result = chain_mul(&c, own, other);
  }
  return tli_chain_end(&c, result);
}

tl_Tensor *tlo_cond_order(tl_Tensor *A, tl_Scalar p) {
  const char *name = order_name("linalg.cond: p", p);
  return name ? tlo_cond(A, name) : NULL;
}
