/*
** pinv.c - pseudo-inverse, rank and least squares. Singular values below a tolerance count as zero.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

static bool check_matrices(const char *op, const tl_Tensor *A, bool hermitian) {
  bool fits = A->ndim >= 2 && (!hermitian || A->sizes[A->ndim - 1] == A->sizes[A->ndim - 2]);
  return fits || tli_fail(TL_ESHAPE, "%s: expected %s matrices, got shape %s", op,
                          hermitian ? "square" : "batches of", tli_sizes_str(A));
}

/* ---- the tolerance ---- */

/* Returns the default for rtol: max(m, n) * epsilon, or 0 where atol is positive. */
static tl_Tensor *usual_rtol(tli_Chain *c, const tl_Tensor *A, tl_Tensor *atol) {
  int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1];
  double epsilon = tli_float_epsilon((tl_DType)A->dtype);
  tl_Tensor *usual = chain_number(c, (double)(m > n ? m : n) * epsilon);
  if (atol == NULL) return usual;
  tl_Tensor *given = chain_with(c, tlo_gt, atol, 0), *zero = chain_number(c, 0);
  return TLI_STEP(c, tlo_where(given, zero, usual));
}

/* Returns a mask of the values in s (..., k) that count as nonzero. A value counts if it is greater
** than atol, and also greater than the product of rtol and the largest value of the same matrix. */
static tl_Tensor *nonzero(tli_Chain *c, const tl_Tensor *A, tl_Tensor *s, tl_Tensor *atol,
                          tl_Tensor *rtol) {
  int64_t last = -1;
  if (c->failed || s->sizes[s->ndim - 1] == 0) return TLI_STEP(c, tlo_to_dtype(s, TL_BOOL));
  if (rtol == NULL) rtol = usual_rtol(c, A, atol);
  tl_Tensor *limit = TLI_STEP(c, tlo_amax(s, (tl_Ints){1, &last}, false));
  limit = chain_mul(c, limit, rtol);
  if (atol) limit = TLI_STEP(c, tlo_maximum(limit, atol));
  limit = chain_unsqueeze(c, limit, -1);
  return TLI_STEP(c, tlo_gt(s, limit));
}

/* Returns 1 / s where the mask is true. The result is 0 where s counts as zero. */
static tl_Tensor *inverse_values(tli_Chain *c, tl_Tensor *s, tl_Tensor *mask) {
  tl_Tensor *one = chain_number(c, 1), *zero = chain_number(c, 0);
  tl_Tensor *safe = TLI_STEP(c, tlo_where(mask, s, one));
  tl_Tensor *inverse = TLI_STEP(c, tlo_reciprocal(safe));
  return TLI_STEP(c, tlo_where(mask, inverse, zero));
}

tl_Tensor *tlo_matrix_rank(tl_Tensor *A, tl_Tensor *atol, tl_Tensor *rtol, bool hermitian) {
  TL_TRY_NULL(check_matrices("linalg.matrix_rank", A, hermitian));
  tli_Chain c = {0};
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *s = TLI_STEP(&c, hermitian ? tlo_eigvalsh(A, "L") : tlo_svdvals(A));
  if (hermitian) s = TLI_STEP(&c, tlo_abs(s));
  tl_Tensor *count = chain_sum(&c, nonzero(&c, A, s, atol, rtol), -1, false);
  tli_set_grad_mode(mode);
  return tli_chain_end(&c, count);
}

/* ---- pseudo-inverse ---- */

/* Computes V diag(1/S) U^H. Singular values that count as zero are left out. */
static tl_Tensor *pinv_general(tl_Tensor *A, tl_Tensor *atol, tl_Tensor *rtol) {
  tl_Tensor *usv[3] = {NULL, NULL, NULL};
  tli_Chain c = {0};
  c.failed = !tlo_svd_full(A, false, usv);
  for (int i = 0; i < 3 && !c.failed; i++) tli_keep(&c, usv[i]);
  tl_Tensor *inverse = inverse_values(&c, usv[1], nonzero(&c, A, usv[1], atol, rtol));
  tl_Tensor *u = chain_mul(&c, usv[0], chain_unsqueeze(&c, inverse, -2));
  return tli_chain_end(&c, chain_h(&c, chain_matmul(&c, u, usv[2])));
}

/* Computes V diag(1/L) V^H from the eigenvalue decomposition of a Hermitian matrix. */
static tl_Tensor *pinv_hermitian(tl_Tensor *A, tl_Tensor *atol, tl_Tensor *rtol) {
  tl_Tensor *lv[2] = {NULL, NULL};
  tli_Chain c = {0};
  TL_TRY_NULL(tlo_eigh(A, "L", lv));
  for (int i = 0; i < 2; i++) tli_keep(&c, lv[i]);
  tl_Tensor *sizes = TLI_STEP(&c, tlo_abs(lv[0]));
  tl_Tensor *inverse = inverse_values(&c, lv[0], nonzero(&c, A, sizes, atol, rtol));
  tl_Tensor *v = chain_mul(&c, lv[1], chain_unsqueeze(&c, inverse, -2));
  return tli_chain_end(&c, chain_matmul(&c, v, chain_h(&c, lv[1])));
}

tl_Tensor *tli_op_pseudo_inverse(tl_Tensor *A, tl_Tensor *atol, tl_Tensor *rtol, bool hermitian) {
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *result = hermitian ? pinv_hermitian(A, atol, rtol) : pinv_general(A, atol, rtol);
  tli_set_grad_mode(mode);
  return result;
}

tl_Tensor *tlo_pinv(tl_Tensor *A, tl_Tensor *atol, tl_Tensor *rtol, bool hermitian) {
  TL_TRY_NULL(check_matrices("linalg.pinv", A, hermitian));
  return tlo_pseudo_inverse(A, atol, rtol, hermitian);
}

tl_Tensor *tlo_pinverse(tl_Tensor *self, double rcond) {
  tl_Tensor *rtol = tli_number(tli_float(rcond));
  tl_Tensor *result = rtol ? tlo_pinv(self, NULL, rtol, false) : NULL;
  tli_release(rtol);
  return result;
}

/* Computes the gradient of the pseudo-inverse by eq. 4.12 of Golub and Pereyra 1973. Of two
** equivalent forms of the formula, chooses the one whose intermediate matrices have the size of the
** smaller side of A. */
tl_Tensor *tlo_pinv_backward(tl_Tensor *grad, tl_Tensor *pinv, tl_Tensor *A) {
  tli_Chain c = {0};
  int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1];
  tl_Tensor *gt = chain_h(&c, grad), *pt = chain_h(&c, pinv), *result;
  if (m <= n) {
    tl_Tensor *k = chain_matmul(&c, gt, pinv), *kp = chain_matmul(&c, k, pt);
    result = chain_sub(&c, kp, chain_h(&c, chain_matmul(&c, pinv, k)));
    result = chain_sub(&c, result, chain_matmul(&c, chain_matmul(&c, A, pinv), kp));
    tl_Tensor *rest = chain_sub(&c, gt, chain_matmul(&c, k, A));
    result = chain_add(&c, result, chain_matmul(&c, chain_matmul(&c, pt, pinv), rest));
  } else {
    tl_Tensor *k = chain_matmul(&c, pinv, gt), *pk = chain_matmul(&c, pt, k);
    result = chain_sub(&c, pk, chain_h(&c, chain_matmul(&c, k, pinv)));
    tl_Tensor *rest = chain_sub(&c, gt, chain_matmul(&c, A, k));
    result = chain_add(&c, result, chain_matmul(&c, chain_matmul(&c, rest, pinv), pt));
    result = chain_sub(&c, result, chain_matmul(&c, chain_matmul(&c, pk, pinv), A));
  }
  return tli_chain_end(&c, result);
}

/* ---- least squares ---- */

/* Computes the gradients of A and B from gX, the gradient of X = pinv(A) B, and from gR, the
** gradient of R = |A X - B|^2. For R the solution X is treated as a constant, because R is minimal
** at X and its derivative there is 0. */
bool tlo_lstsq_backward(tl_Tensor *gX, tl_Tensor *gR, tl_Tensor *A, tl_Tensor *B, tl_Tensor *X,
                        tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *ga = NULL, *gb = NULL;
  out[0] = out[1] = NULL;
  if (gX) {
    tl_Tensor *pinv = TLI_STEP(&c, tlo_pinv(A, NULL, NULL, false));
    tl_Tensor *gp = chain_matmul(&c, gX, chain_h(&c, B));
    ga = TLI_STEP(&c, tlo_pinv_backward(gp, pinv, A));
    gb = chain_matmul(&c, chain_h(&c, pinv), gX);
  }
  if (gR && gR->numel > 0) {
    tl_Tensor *rest = chain_sub(&c, chain_matmul(&c, A, X), B);
    tl_Tensor *scaled = chain_scale(&c, chain_mul(&c, rest, chain_unsqueeze(&c, gR, -2)), 2);
    tl_Tensor *more = chain_matmul(&c, scaled, chain_h(&c, X));
    ga = ga ? chain_add(&c, ga, more) : more;
    gb = gb ? chain_sub(&c, gb, scaled) : chain_neg(&c, scaled);
  }
  if (!c.failed) {
    out[0] = tli_retain(ga);
    out[1] = tli_retain(gb);
  }
  bool ok = !c.failed;
  return tli_chain_end(&c, NULL), ok;
}

static bool check_driver(const char *driver) {
  static const char *const drivers[] = {"gelsy", "gels", "gelsd", "gelss"};
  for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
    if (strcmp(driver, drivers[i]) == 0) return true;
  return tli_fail(TL_EARG,
                  "linalg.lstsq: driver: expected 'gels', 'gelsy', 'gelsd' or 'gelss', got '%.40s'",
                  driver);
}

/* Replaces *result, which the named driver does not provide, by an empty tensor. */
static bool leave_out(tl_Tensor **result, tl_DType dtype) {
  tl_Tensor *empty = tli_empty(dtype, tli_device(*result), 1, (int64_t[]){0});
  if (empty == NULL) return false;
  tli_release(*result);
  *result = empty;
  return true;
}

/* Solves least squares problems. All drivers use the algorithm of gelsd; results that the named
** driver does not provide are empty. */
bool tlo_lstsq(tl_Tensor *A, tl_Tensor *B, double rcond, const char *driver, tl_Tensor **out) {
  for (int i = 0; i < 4; i++) out[i] = NULL;
  TL_TRY(check_driver(driver) && check_matrices("linalg.lstsq", A, false));
  bool vectors = B->ndim == A->ndim - 1, full = strcmp(driver, "gels") == 0,
       pivoted = strcmp(driver, "gelsy") == 0;
  tl_Tensor *columns = vectors ? tlo_unsqueeze(B, -1) : tli_retain(B);
  bool ok = columns && tlo_least_squares(A, columns, full ? 0 : rcond, out);
  tli_release(columns);
  for (int i = 0; ok && vectors && i < 2; i++) {
    if (i == 1 && out[1]->ndim == 1 && out[1]->numel == 0) continue; /* none */
    tl_Tensor *squeezed = tlo_squeeze(out[i], (tl_Ints){1, (int64_t[]){-1}});
    ok = squeezed != NULL;
    if (ok) tli_release(out[i]), out[i] = squeezed;
  }
  if (ok && full) ok = leave_out(&out[2], TL_I64);
  if (ok && pivoted) ok = leave_out(&out[1], tli_real_dtype((tl_DType)A->dtype));
  if (ok && (full || pivoted)) ok = leave_out(&out[3], tli_real_dtype((tl_DType)A->dtype));
  if (!ok) tli_release_results(out, 4);
  return ok;
}
