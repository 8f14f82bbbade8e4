/*
** linalg.c - torch.linalg: derivatives of the factorizations, and operators that are composed of
** factorizations. In the formulas of this file, X^T is the transpose of the last two dimensions,
** and X^H is the conjugate transpose.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/linalg/lapack.h"
#include "ops/linalg/linalg.h"

/* by_columns multiplies column j of the matrices a by s[j], and by_rows multiplies row i by
** s[i]. */
static tl_Tensor *by_columns(tli_Chain *c, tl_Tensor *a, tl_Tensor *s) {
  return chain_mul(c, a, chain_unsqueeze(c, s, -2));
}
static tl_Tensor *by_rows(tli_Chain *c, tl_Tensor *a, tl_Tensor *s) {
  return chain_mul(c, chain_unsqueeze(c, s, -1), a);
}

/* Broadcasts the batch dimensions of *a and *b to their common shape. */
static bool same_batch(tli_Chain *c, const char *op, tl_Tensor **a, tl_Tensor **b) {
  int na = (*a)->ndim - 2, nb = (*b)->ndim - 2, n = na > nb ? na : nb;
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < n; d++) {
    int64_t sa = d < n - na ? 1 : (*a)->sizes[d - (n - na)],
            sb = d < n - nb ? 1 : (*b)->sizes[d - (n - nb)];
    if (sa != sb && sa != 1 && sb != 1)
      return tli_fail(TL_ESHAPE, "%s: batches do not broadcast: %s and %s", op, tli_sizes_str(*a),
                      tli_sizes_str(*b));
    sizes[d] = sa == 1 ? sb : sa;
  }
  tl_Tensor **both[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    tl_Tensor *t = *both[i];
    sizes[n] = t->sizes[t->ndim - 2];
    sizes[n + 1] = t->sizes[t->ndim - 1];
    *both[i] = TLI_STEP(c, tlo_expand(t, (tl_Ints){n + 2, sizes}));
  }
  return !c->failed;
}

/* Checks the operands of A x = B and broadcasts their batch dimensions. If B holds vectors, sets
** *vectors to true; if `left` is set too, turns the vectors into matrices of one column. */
static bool system_of(tli_Chain *c, const char *op, bool left, tl_Tensor **a, tl_Tensor **b,
                      bool *vectors) {
  TL_TRY(check_square(op, *a));
  if ((*a)->dtype != (*b)->dtype)
    return tli_fail(TL_EDTYPE, "%s: expected A and B of one dtype, got %s and %s", op,
                    tl_dtype_name((tl_DType)(*a)->dtype), tl_dtype_name((tl_DType)(*b)->dtype));
  /* B holds vectors if it has one dimension, or if its shape is that of A without the last
  ** dimension */
  *vectors = (*b)->ndim == 1;
  if ((*b)->ndim == (*a)->ndim - 1 && (*b)->ndim > 1) {
    *vectors = true;
    for (int d = 0; d < (*b)->ndim; d++) *vectors = *vectors && (*a)->sizes[d] == (*b)->sizes[d];
  }
  if (*vectors && left) *b = chain_unsqueeze(c, *b, -1);
  if (c->failed) return false;
  if ((*b)->ndim < 2 || (*b)->sizes[(*b)->ndim - (left ? 2 : 1)] != (*a)->sizes[(*a)->ndim - 1])
    return tli_fail(TL_ESHAPE, "%s: sizes of A and B do not go together: %s and %s", op,
                    tli_sizes_str(*a), tli_sizes_str(*b));
  return same_batch(c, op, a, b);
}

/* ---- Cholesky ---- */

static const char not_positive[] = "is not positive definite", singular[] = "is singular";

bool tlo_cholesky_ex(tl_Tensor *A, bool upper, bool check_errors, tl_Tensor **out) {
  TL_TRY(tlo_cholesky_info(A, out));
  if (check_errors && !tli_info_check(out, 2, "linalg.cholesky", not_positive)) return false;
  if (!upper) return true;
  tl_Tensor *l = out[0];
  tli_Chain c = {0};
  out[0] = tli_chain_end(&c, chain_h(&c, l));
  tli_release(l);
  if (out[0]) return true;
  tli_release_results(out, 2);
  return false;
}

tl_Tensor *tlo_cholesky(tl_Tensor *A, bool upper) {
  tl_Tensor *out[2];
  TL_TRY_NULL(tlo_cholesky_ex(A, upper, true, out));
  tli_release(out[1]);
  return out[0];
}

/* Returns the solution X of a triangular system: a X = b, or a^T X = b with `transpose`. */
static tl_Tensor *triangular(tli_Chain *c, tl_Tensor *a, tl_Tensor *b, bool upper, bool transpose,
                             bool unit) {
  return TLI_STEP(c, tlo_triangular(a, b, upper, transpose, unit));
}

/* Copies the conjugate of the strict lower triangle to the upper triangle. */
static tl_Tensor *symmetric_lower(tli_Chain *c, tl_Tensor *m) {
  tl_Tensor *upper = chain_h(c, chain_tril(c, m, -1)), *lower = chain_tril(c, m, 0);
  return chain_add(c, lower, upper);
}

/* Computes the gradient of the Cholesky factor. P is the lower triangle of L^H G with its diagonal
** halved; the gradient is L^-H (P + P^H) L^-1 / 2. */
tl_Tensor *tlo_cholesky_backward(tl_Tensor *grad, tl_Tensor *L) {
  tli_Chain c = {0};
  tl_Tensor *lower = chain_tril(&c, grad, 0), *lh = chain_h(&c, L);
  tl_Tensor *p = chain_tril(&c, chain_matmul(&c, lh, lower), 0);
  tl_Tensor *half = chain_scale(&c, p, 0.5);
  tl_Tensor *strict = chain_tril(&c, half, -1), *turned = chain_h(&c, half);
  tl_Tensor *symmetric = chain_add(&c, turned, strict);
  tl_Tensor *Lc = chain_conj(&c, L);
  tl_Tensor *x = triangular(&c, Lc, symmetric, false, true, false);
  tl_Tensor *y = triangular(&c, Lc, chain_h(&c, x), false, true, false);
  return tli_chain_end(&c, y);
}

tl_Tensor *tlo_cholesky_solve(tl_Tensor *B, tl_Tensor *L, bool upper) {
  tli_Chain c = {0};
  bool vectors;
  tl_Tensor *x = NULL;
  if (!system_of(&c, "linalg.cholesky_solve", true, &L, &B, &vectors)) c.failed = true;
  x = TLI_STEP(&c, tlo_cholesky_solved(B, L, upper));
  return tli_chain_end(&c, x);
}

/* Computes the gradients of cholesky_solve. Let gA = -gB X^H and S = gA + gA^H. If A = L L^H, the
** gradient of L is S L; if A = U^H U, the gradient of U is U S. */
bool tlo_cholesky_solve_backward(tl_Tensor *grad, tl_Tensor *L, tl_Tensor *X, bool upper,
                                 tl_Tensor **out) {
  tli_Chain c = {0};
  out[0] = TLI_STEP(&c, tlo_cholesky_solved(grad, L, upper));
  tl_Tensor *ga = chain_neg(&c, chain_matmul(&c, out[0], chain_h(&c, X)));
  tl_Tensor *sum = chain_add(&c, ga, chain_h(&c, ga));
  out[1] = upper ? chain_matmul(&c, L, sum) : chain_matmul(&c, sum, L);
  return tli_chain_end_all(&c, out, 2);
}

tl_Tensor *tlo_cholesky_inverse(tl_Tensor *self, bool upper) {
  tli_Chain c = {0};
  TL_TRY_NULL(check_square("cholesky_inverse", self));
  tl_Tensor *eye = chain_identity(&c, self);
  tl_Tensor *diagonal = TLI_STEP(&c, tlo_diagonal(self, 0, -2, -1));
  bool zero = false;
  c.failed = c.failed || !tli_any_zero(diagonal, &zero);
  if (zero)
    c.failed = !tli_fail(TL_EARG, "cholesky_inverse: the matrix is singular: its factor has a 0 in "
                                  "the diagonal");
  return tli_chain_end(&c, TLI_STEP(&c, tlo_cholesky_solve(eye, self, upper)));
}

/* ---- triangular systems ---- */

tl_Tensor *tlo_solve_triangular(tl_Tensor *A, tl_Tensor *B, bool upper, bool left,
                                bool unitriangular) {
  tli_Chain c = {0};
  bool vectors;
  tl_Tensor *x = NULL;
  if (!system_of(&c, "linalg.solve_triangular", left, &A, &B, &vectors)) {
    c.failed = true;
  } else if (left) {
    x = triangular(&c, A, B, upper, false, unitriangular);
    if (vectors) x = TLI_STEP(&c, tlo_squeeze(x, (tl_Ints){1, (int64_t[]){-1}}));
  } else {
    x = chain_t(&c, triangular(&c, A, chain_t(&c, B), upper, true, unitriangular));
  }
  return tli_chain_end(&c, x);
}

tl_Tensor *tlo_triangular_other(tl_Tensor *grad, tl_Tensor *A, bool upper, bool transpose,
                                bool unit) {
  tli_Chain c = {0};
  return tli_chain_end(&c, triangular(&c, chain_conj(&c, A), grad, upper, !transpose, unit));
}

/* Computes the gradient of a triangular solve op(A) X = B. The gradient of A is the triangle of
** -(gB X^H), transposed if op transposes A. */
tl_Tensor *tlo_triangular_backward(tl_Tensor *grad, tl_Tensor *A, tl_Tensor *X, bool upper,
                                   bool transpose, bool unit) {
  tli_Chain c = {0};
  tl_Tensor *gb = triangular(&c, chain_conj(&c, A), grad, upper, !transpose, unit);
  tl_Tensor *Xc = chain_conj(&c, X);
  tl_Tensor *ga =
      transpose ? chain_matmul(&c, Xc, chain_t(&c, gb)) : chain_matmul(&c, gb, chain_t(&c, Xc));
  ga = chain_neg(&c, ga);
  ga = upper ? chain_triu(&c, ga, unit ? 1 : 0) : chain_tril(&c, ga, unit ? -1 : 0);
  return tli_chain_end(&c, ga);
}

bool tlo_triangular_solve(tl_Tensor *self, tl_Tensor *A, bool upper, bool transpose,
                          bool unitriangular, tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *matrix = transpose ? chain_t(&c, A) : A;
  out[0] =
      TLI_STEP(&c, tlo_solve_triangular(matrix, self, upper != transpose, true, unitriangular));
  out[1] = TLI_STEP(&c, tlo_clone(A));
  return tli_chain_end_all(&c, out, 2);
}

/* ---- LU ---- */

bool tlo_inv_ex(tl_Tensor *A, bool check_errors, tl_Tensor **out) {
  TL_TRY(tlo_inv_info(A, out));
  return !check_errors || tli_info_check(out, 2, "linalg.inv", singular);
}

tl_Tensor *tlo_inv(tl_Tensor *A) {
  tl_Tensor *out[2];
  TL_TRY_NULL(tlo_inv_ex(A, true, out));
  tli_release(out[1]);
  return out[0];
}

bool tlo_lu_factor_ex(tl_Tensor *A, bool pivot, bool check_errors, tl_Tensor **out) {
  TL_TRY(tlo_lu_factor_info(A, pivot, out));
  return !check_errors || tli_info_check(out, 3, "linalg.lu_factor", singular);
}

/* Computes an LU factorization. A singular matrix is not an error, because its factors are
** valid. */
bool tlo_lu_factor(tl_Tensor *A, bool pivot, tl_Tensor **out) {
  tl_Tensor *made[3];
  TL_TRY(tlo_lu_factor_info(A, pivot, made));
  tli_release(made[2]);
  out[0] = made[0];
  out[1] = made[1];
  return true;
}

/* Solves linear systems for derivatives. For singular matrices the result contains infinity or NaN;
** there is no error. */
tl_Tensor *tlo_solve_square(tl_Tensor *A, tl_Tensor *B) {
  tl_Tensor *out[2];
  TL_TRY_NULL(tlo_solve_info(A, B, out));
  tli_release(out[1]);
  return out[0];
}

bool tlo_solve_ex(tl_Tensor *A, tl_Tensor *B, bool left, bool check_errors, tl_Tensor **out) {
  const char *op = "linalg.solve";
  tli_Chain c = {0};
  bool vectors = false;
  out[0] = out[1] = NULL;
  TLI_DO(&c, system_of(&c, op, left, &A, &B, &vectors));
  if (!left) A = chain_t(&c, A), B = chain_t(&c, B);
  TLI_DO(&c, tlo_solve_info(A, B, out));
  for (int i = 0; i < 2 && !c.failed; i++) tli_keep(&c, out[i]);
  TLI_DO(&c, !check_errors || tli_info_fine(out[1], op, singular));
  if (!left) out[0] = chain_t(&c, out[0]);
  if (left && vectors) out[0] = TLI_STEP(&c, tlo_squeeze(out[0], (tl_Ints){1, (int64_t[]){-1}}));
  return tli_chain_end_all(&c, out, 2);
}

tl_Tensor *tlo_solve(tl_Tensor *A, tl_Tensor *B, bool left) {
  tl_Tensor *out[2];
  TL_TRY_NULL(tlo_solve_ex(A, B, left, true, out));
  tli_release(out[1]);
  return out[0];
}

/* Returns factor * A^-H. */
static tl_Tensor *inverse_transposed(tli_Chain *c, tl_Tensor *a, tl_Tensor *factor) {
  tl_Tensor *wide = chain_unsqueeze(c, chain_unsqueeze(c, factor, -1), -1);
  tl_Tensor *out[2] = {NULL, NULL};
  c->failed = c->failed || !tlo_inv_info(a, out);
  for (int i = 0; i < 2 && !c->failed; i++) tli_keep(c, out[i]);
  return chain_mul(c, wide, chain_h(c, out[0]));
}

bool tlo_slogdet_torch(tl_Tensor *self, tl_Tensor **out) { return tlo_slogdet(self, out); }

/* Returns the logarithm of the determinant. If a real determinant is negative, the result is
** NaN. */
tl_Tensor *tlo_logdet(tl_Tensor *self) {
  tli_Chain c = {0};
  tl_Tensor *parts[2] = {NULL, NULL};
  TL_TRY_NULL(tlo_slogdet(self, parts));
  tli_keep(&c, parts[0]);
  tli_keep(&c, parts[1]);
  if (tli_is_complex((tl_DType)self->dtype))
    return tli_chain_end(&c, chain_add(&c, TLI_STEP(&c, tlo_log(parts[0])), parts[1]));
  tl_Tensor *negative = chain_with(&c, tlo_lt, parts[0], 0);
  return tli_chain_end(&c, chain_masked_fill(&c, parts[1], negative, (double)NAN));
}

/* Computes the gradient of slogdet. With t = tr(A^-1 dA), the logarithm of |det| changes by Re t,
** and a complex sign s changes by i s Im t. The gradient is therefore (g_log - i Im(conj(g_s) s))
** A^-H. */
tl_Tensor *tlo_slogdet_backward(tl_Tensor *grad_sign, tl_Tensor *grad_log, tl_Tensor *A,
                                tl_Tensor *sign) {
  tli_Chain c = {0};
  tl_Tensor *factor = grad_log;
  if (grad_sign && tli_is_complex((tl_DType)A->dtype)) {
    tl_Tensor *turn = chain_mul(&c, chain_conj(&c, grad_sign), sign);
    turn = TLI_STEP(&c, tlo_imag(turn));
    tl_Tensor *i = TLI_STEP(&c, tli_number(tli_complex(0, -1)));
    turn = chain_mul(&c, turn, i);
    factor = factor ? chain_add(&c, factor, turn) : turn;
  }
  if (factor == NULL && !c.failed)
    factor = TLI_STEP(&c, tlo_zeros_like(sign, TL_NODTYPE, TLI_NODEVICE, NULL));
  return tli_chain_end(&c, inverse_transposed(&c, A, factor));
}

/* Returns the conjugate cofactors of A, which are defined even if A is singular. With A = U S V^H
** they are conj(det(U) det(V^H)) U D V^H. D is diagonal, and D_i is the product of all singular
** values except S_i. */
static tl_Tensor *cofactors(tli_Chain *c, tl_Tensor *a) {
  tl_Tensor *usv[3] = {NULL, NULL, NULL};
  if (c->failed || !tlo_svd_full(a, false, usv)) {
    c->failed = true;
    return NULL;
  }
  for (int i = 0; i < 3; i++) tli_keep(c, usv[i]);
  /* row i is a copy of S with S_i replaced by 1, so the product of the row leaves out S_i */
  tl_Tensor *eye = chain_identity(c, usv[1]);
  tl_Tensor *copies = chain_unsqueeze(c, usv[1], -2);
  tl_Tensor *others =
      chain_add(c, chain_mul(c, copies, chain_sub(c, chain_number(c, 1), eye)), eye);
  tl_Tensor *d = TLI_STEP(c, tlo_prod(others, -1, false, TL_NODTYPE));
  tl_Tensor *of_v = TLI_STEP(c, tlo_det(usv[2])), *of_u = TLI_STEP(c, tlo_det(usv[0]));
  tl_Tensor *signs = chain_conj(c, chain_mul(c, of_u, of_v));
  tl_Tensor *body = chain_matmul(c, by_columns(c, usv[0], d), usv[2]);
  return chain_mul(c, chain_unsqueeze(c, chain_unsqueeze(c, signs, -1), -1), body);
}

tl_Tensor *tlo_det_backward(tl_Tensor *grad, tl_Tensor *A, tl_Tensor *det) {
  tli_Chain c = {0};
  bool zero;
  TL_TRY_NULL(tli_any_zero(det, &zero));
  if (!zero)
    return tli_chain_end(&c, inverse_transposed(&c, A, chain_mul(&c, grad, chain_conj(&c, det))));
  tl_Tensor *wide = chain_unsqueeze(&c, chain_unsqueeze(&c, grad, -1), -1);
  return tli_chain_end(&c, chain_mul(&c, wide, cofactors(&c, A)));
}

/* These functions take lu_factor's combined tensor. unit_lower returns the factor L with ones on
** its diagonal, and upper_part returns U. */
static tl_Tensor *unit_lower(tli_Chain *c, tl_Tensor *lu) {
  int64_t m = lu->sizes[lu->ndim - 2], n = lu->sizes[lu->ndim - 1], k = m < n ? m : n;
  tl_Tensor *part = TLI_STEP(c, tlo_narrow(lu, -1, 0, k));
  tl_Tensor *eye = TLI_STEP(c, tlo_eye(m, k, (tl_DType)lu->dtype, tli_device(lu)));
  return chain_add(c, chain_tril(c, part, -1), eye);
}

static tl_Tensor *upper_part(tli_Chain *c, tl_Tensor *lu) {
  int64_t m = lu->sizes[lu->ndim - 2], n = lu->sizes[lu->ndim - 1], k = m < n ? m : n;
  return chain_triu(c, TLI_STEP(c, tlo_narrow(lu, -2, 0, k)), 0);
}

/* Computes the gradient for a square B = L U: L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H. The
** arguments l and u are the conjugates of the factors. */
static tl_Tensor *lu_square(tli_Chain *c, tl_Tensor *gl, tl_Tensor *gu, tl_Tensor *l,
                            tl_Tensor *u) {
  tl_Tensor *left = chain_tril(c, chain_matmul(c, chain_t(c, l), gl), -1);
  tl_Tensor *right = chain_triu(c, chain_matmul(c, gu, chain_t(c, u)), 0);
  tl_Tensor *inner = triangular(c, l, chain_add(c, left, right), false, true, true);
  return chain_t(c, triangular(c, u, chain_t(c, inner), true, false, false));
}

/* Returns the part of a from position `begin` up to, but not including, `end` along dim. */
static tl_Tensor *part(tli_Chain *c, tl_Tensor *a, int64_t dim, int64_t begin, int64_t end) {
  return TLI_STEP(c, tlo_narrow(a, dim, begin, end - begin));
}

/* Computes the gradient of lu_factor for A = P B, where B = L U. B1 = L1 U1 is the leading square
** block of B. The remaining columns B2 of a wide B give U2 = L1^-1 B2; the remaining rows B2 of a
** tall B give L2 = B2 U1^-1. */
tl_Tensor *tlo_lu_factor_backward(tl_Tensor *grad, tl_Tensor *LU, tl_Tensor *pivots) {
  tli_Chain c = {0};
  int64_t m = LU->sizes[LU->ndim - 2], n = LU->sizes[LU->ndim - 1], k = m < n ? m : n;
  LU = chain_conj(&c, LU); /* the formulas below use only the conjugates of the factors */
  tl_Tensor *l = part(&c, unit_lower(&c, LU), -2, 0, k);
  tl_Tensor *u = part(&c, upper_part(&c, LU), -1, 0, k);
  tl_Tensor *first = part(&c, part(&c, grad, -1, 0, k), -2, 0, k);
  tl_Tensor *gl = chain_tril(&c, first, -1), *gu = chain_triu(&c, first, 0), *gb, *rest = NULL;
  if (n > k) {
    tl_Tensor *g2 = part(&c, grad, -1, k, n), *u2 = part(&c, part(&c, LU, -1, k, n), -2, 0, k);
    rest = triangular(&c, l, g2, false, true, true);
    gl = chain_sub(&c, gl, chain_matmul(&c, rest, chain_t(&c, u2)));
  } else if (m > k) {
    tl_Tensor *g2 = part(&c, grad, -2, k, m), *l2 = part(&c, part(&c, LU, -1, 0, k), -2, k, m);
    rest = chain_t(&c, triangular(&c, u, chain_t(&c, g2), true, false, false));
    gu = chain_sub(&c, gu, chain_matmul(&c, chain_t(&c, l2), rest));
  }
  gb = lu_square(&c, gl, gu, l, u);
  if (rest && gb)
    gb = TLI_STEP(&c, tlo_cat((tl_Tensors){2, (tl_Tensor *[]){gb, rest}}, n > k ? -1 : -2));
  tl_Tensor *p = TLI_STEP(&c, tlo_pivot_matrix(pivots, m, (tl_DType)LU->dtype));
  return tli_chain_end(&c, chain_matmul(&c, p, gb));
}

static bool check_unpacked(const tl_Tensor *LU, const tl_Tensor *pivots) {
  bool fit = LU->ndim >= 2 && tli_is_inexact((tl_DType)LU->dtype) && pivots->dtype == TL_I32 &&
             pivots->ndim == LU->ndim - 1;
  for (int d = 0; fit && d < pivots->ndim - 1; d++) fit = pivots->sizes[d] == LU->sizes[d];
  if (fit) {
    int64_t m = LU->sizes[LU->ndim - 2], n = LU->sizes[LU->ndim - 1];
    fit = pivots->sizes[pivots->ndim - 1] == (m < n ? m : n);
  }
  return fit || tli_fail(TL_ESHAPE,
                         "lu_unpack: expected factors and int32 pivots of linalg.lu_factor, got "
                         "%s of %s and %s of %s",
                         tli_sizes_str(LU), tl_dtype_name((tl_DType)LU->dtype),
                         tli_sizes_str(pivots), tl_dtype_name((tl_DType)pivots->dtype));
}

bool tlo_lu_unpack(tl_Tensor *LU_data, tl_Tensor *LU_pivots, bool unpack_data, bool unpack_pivots,
                   tl_Tensor **out) {
  out[0] = out[1] = out[2] = NULL;
  TL_TRY(check_unpacked(LU_data, LU_pivots));
  tl_DType dtype = (tl_DType)LU_data->dtype;
  int64_t m = LU_data->sizes[LU_data->ndim - 2], none = 0;
  tli_Chain c = {0};
  tl_Tensor *empty = TLI_STEP(&c, tli_empty(dtype, tli_device(LU_data), 1, &none));
  out[0] = unpack_pivots ? TLI_STEP(&c, tlo_pivot_matrix(LU_pivots, m, dtype)) : empty;
  out[1] = unpack_data ? unit_lower(&c, LU_data) : empty;
  out[2] = unpack_data ? upper_part(&c, LU_data) : empty;
  return tli_chain_end_all(&c, out, 3);
}

bool tlo_lu(tl_Tensor *A, bool pivot, tl_Tensor **out) {
  tl_Tensor *factors[2] = {NULL, NULL};
  out[0] = out[1] = out[2] = NULL;
  bool ok =
      tlo_lu_factor(A, pivot, factors) && tlo_lu_unpack(factors[0], factors[1], true, true, out);
  tli_release_results(factors, 2);
  return ok;
}

/* Checks that the pivots have the form that lu_factor returns: an integer for each row of LU. */
static bool check_pivots(const char *op, const tl_Tensor *LU, const tl_Tensor *pivots) {
  TL_TRY(check_square(op, LU));
  bool fit = pivots->ndim == LU->ndim - 1 && tli_dtype_category((tl_DType)pivots->dtype) == TLI_INT;
  for (int d = 0; fit && d < pivots->ndim; d++) fit = pivots->sizes[d] == LU->sizes[d];
  return fit ||
         tli_fail(TL_ESHAPE, "%s: expected as pivots an integer for each row of LU %s, got %s %s",
                  op, tli_sizes_str(LU), tli_sizes_str(pivots),
                  tl_dtype_name((tl_DType)pivots->dtype));
}

/* Returns whether LAPACK may solve a system as a whole. It has no derivative, and its pivots have to
** be in the memory of the host. */
static bool solves_whole(const tl_Tensor *lu, const tl_Tensor *b) {
  return tli_device(lu).type == TL_CPU &&
         !(tli_grad_mode() && (tli_requires_grad(lu) || tli_requires_grad(b)));
}

/* Solves A X = B, or A^T X = B if `transposed` is set, for A = P L U. */
static tl_Tensor *lu_columns(tli_Chain *c, tl_Tensor *lu, tl_Tensor *pivots, tl_Tensor *b,
                             bool transposed) {
  if (c->failed) return NULL;
  if (!transposed && solves_whole(lu, b)) {
    pivots = TLI_STEP(c, tlo_expand(pivots, (tl_Ints){lu->ndim - 1, lu->sizes}));
    return TLI_STEP(c, tlo_lu_solved(lu, pivots, b));
  }
  tl_Tensor *p =
      TLI_STEP(c, tlo_pivot_matrix(pivots, lu->sizes[lu->ndim - 1], (tl_DType)lu->dtype));
  if (!transposed) {
    tl_Tensor *y = triangular(c, lu, chain_matmul(c, chain_t(c, p), b), false, false, true);
    return triangular(c, lu, y, true, false, false);
  }
  tl_Tensor *y = triangular(c, lu, b, true, true, false);
  return chain_matmul(c, p, triangular(c, lu, y, false, true, true));
}

tl_Tensor *tlo_lu_solve(tl_Tensor *LU, tl_Tensor *pivots, tl_Tensor *B, bool left, bool adjoint) {
  TL_TRY_NULL(check_pivots("linalg.lu_solve", LU, pivots));
  tli_Chain c = {0};
  bool vectors;
  tl_Tensor *x = NULL;
  if (adjoint) LU = chain_conj(&c, LU); /* the adjoint is the transpose of the conjugate */
  if (c.failed || !system_of(&c, "linalg.lu_solve", left, &LU, &B, &vectors))
    c.failed = true;
  else if (left)
    x = lu_columns(&c, LU, pivots, B, adjoint);
  else /* solves X A = B as A^T X^T = B^T */
    x = chain_t(&c, lu_columns(&c, LU, pivots, chain_t(&c, B), !adjoint));
  return tli_chain_end(&c, x);
}

bool tlo_lu_infos(tl_Tensor *self, bool pivot, bool get_infos, tl_Tensor **out) {
  (void)get_infos;
  return tlo_lu_factor_ex(self, pivot, false, out);
}

bool tlo_lu_factors(tl_Tensor *self, bool pivot, bool get_infos, tl_Tensor **out) {
  (void)get_infos;
  return tlo_lu_factor(self, pivot, out);
}

/* ---- L D L^T ---- */

bool tlo_ldl_factor_ex(tl_Tensor *A, bool hermitian, bool check_errors, tl_Tensor **out) {
  TL_TRY(tlo_ldl_factor_info(A, hermitian, out));
  return !check_errors || tli_info_check(out, 3, "linalg.ldl_factor", singular);
}

bool tlo_ldl_factor(tl_Tensor *A, bool hermitian, tl_Tensor **out) {
  tl_Tensor *made[3];
  TL_TRY(tlo_ldl_factor_ex(A, hermitian, true, made));
  tli_release(made[2]);
  out[0] = made[0];
  out[1] = made[1];
  return true;
}

tl_Tensor *tlo_ldl_solve(tl_Tensor *LD, tl_Tensor *pivots, tl_Tensor *B, bool hermitian) {
  const char *op = "linalg.ldl_solve";
  TL_TRY_NULL(check_pivots(op, LD, pivots));
  if (B->ndim < 2)
    return tli_fail_null(TL_ESHAPE, "%s: B: expected matrices (..., n, k), got shape %s", op,
                         tli_sizes_str(B));
  tli_Chain c = {0};
  bool vectors = false;
  TLI_DO(&c, system_of(&c, op, true, &LD, &B, &vectors));
  if (!c.failed) pivots = TLI_STEP(&c, tlo_expand(pivots, (tl_Ints){LD->ndim - 1, LD->sizes}));
  tl_Tensor *x = TLI_STEP(&c, tlo_ldl_solved(LD, pivots, B, hermitian));
  return tli_chain_end(&c,
                       vectors ? TLI_STEP(&c, tlo_squeeze(x, (tl_Ints){1, (int64_t[]){-1}})) : x);
}

/* ---- QR ---- */

/* Computes the gradient of QR for m >= n: (gQ + Q copyltu(R gR^H - gQ^H Q)) R^-H (Walter and
** Lehmann 2012). copyltu(M) is the Hermitian matrix with the lower triangle of M. */
static tl_Tensor *qr_tall(tli_Chain *c, tl_Tensor *gq, tl_Tensor *gr, tl_Tensor *q, tl_Tensor *r) {
  tl_Tensor *of_q = chain_matmul(c, chain_h(c, gq), q), *of_r = chain_matmul(c, r, chain_h(c, gr));
  tl_Tensor *m = chain_sub(c, of_r, of_q);
  tl_Tensor *symmetric = symmetric_lower(c, m);
  /* makes the diagonal real, because the diagonal of R is real and has no imaginary gradient */
  if (!c->failed && tli_is_complex((tl_DType)m->dtype))
    symmetric = chain_scale(c, chain_add(c, symmetric, chain_h(c, symmetric)), 0.5);
  tl_Tensor *rhs = chain_add(c, gq, chain_matmul(c, q, symmetric));
  tl_Tensor *turned = chain_t(c, rhs), *rc = chain_conj(c, r);
  return chain_t(c, triangular(c, rc, turned, true, false, false));
}

/* Computes the gradient of QR for m < n. Write A = [X | Y] with X square, and R = [U | V]. Since
** V = Q^H Y, gV adds Y gV^H to the gradient of Q. */
static tl_Tensor *qr_wide(tli_Chain *c, tl_Tensor *gq, tl_Tensor *gr, tl_Tensor *q, tl_Tensor *r) {
  int64_t m = r->sizes[r->ndim - 2], n = r->sizes[r->ndim - 1];
  tl_Tensor *u = TLI_STEP(c, tlo_narrow(r, -1, 0, m)),
            *v = TLI_STEP(c, tlo_narrow(r, -1, m, n - m));
  tl_Tensor *gu = TLI_STEP(c, tlo_narrow(gr, -1, 0, m)),
            *gv = TLI_STEP(c, tlo_narrow(gr, -1, m, n - m));
  tl_Tensor *y = chain_matmul(c, q, v);
  tl_Tensor *all = chain_add(c, gq, chain_matmul(c, y, chain_h(c, gv)));
  if (c->failed) return NULL;
  tl_Tensor *gx = qr_tall(c, all, gu, q, u);
  tl_Tensor *gy = chain_matmul(c, q, gv);
  if (c->failed) return NULL;
  return tli_keep(c, tlo_cat((tl_Tensors){2, (tl_Tensor *[]){gx, gy}}, -1));
}

tl_Tensor *tlo_qr_backward(tl_Tensor *gQ, tl_Tensor *gR, tl_Tensor *Q, tl_Tensor *R,
                           const char *mode) {
  tli_Chain c = {0};
  bool wide = R->sizes[R->ndim - 2] < R->sizes[R->ndim - 1];
  if (strcmp(mode, "r") == 0 ||
      (strcmp(mode, "complete") == 0 && R->sizes[R->ndim - 2] > R->sizes[R->ndim - 1]))
    return tli_fail_null(TL_EAUTOGRAD,
                         "linalg.qr: the gradient takes mode 'reduced', or square matrices");
  return tli_chain_end(&c, wide ? qr_wide(&c, gQ, gR, Q, R) : qr_tall(&c, gQ, gR, Q, R));
}

bool tlo_qr_torch(tl_Tensor *self, bool some, tl_Tensor **out) {
  return tlo_qr(self, some ? "reduced" : "complete", out);
}

/* ---- singular values ---- */

bool tlo_svd(tl_Tensor *A, bool full_matrices, tl_Tensor **out) {
  return tlo_svd_full(A, full_matrices, out);
}

/* Returns the matrix F that is 1 / (s_j^2 - s_i^2) off the diagonal and 0 on the diagonal. */
static tl_Tensor *gaps(tli_Chain *c, tl_Tensor *squares, tl_Tensor *eye) {
  tl_Tensor *column = chain_unsqueeze(c, squares, -1), *row = chain_unsqueeze(c, squares, -2);
  tl_Tensor *e = chain_sub(c, row, column);
  tl_Tensor *safe = chain_add(c, e, eye);
  return chain_div(c, chain_sub(c, chain_number(c, 1), eye), safe);
}

static tl_Tensor *antisymmetric(tli_Chain *c, tl_Tensor *m) {
  return chain_sub(c, m, chain_h(c, m));
}

/* Returns a + b. If one of the two is NULL, returns the other one. */
static tl_Tensor *plus(tli_Chain *c, tl_Tensor *a, tl_Tensor *b) {
  return a && b ? chain_add(c, a, b) : a ? a : b;
}

/* Returns (I - Q Q^H) g / S, the part of g / S that is orthogonal to the columns of Q. */
static tl_Tensor *outside(tli_Chain *c, tl_Tensor *g, tl_Tensor *q, tl_Tensor *s) {
  tl_Tensor *inside = chain_matmul(c, q, chain_matmul(c, chain_h(c, q), g));
  tl_Tensor *row = chain_unsqueeze(c, s, -2), *rest = chain_sub(c, g, inside);
  return chain_div(c, rest, row);
}

/* Fails if the gradients of complex vectors depend on the vectors' phases, which are arbitrary.
** `turns` is a batch of matrices whose diagonals have the imaginary parts of q_i^H g_i. */
static void check_phases(tli_Chain *c, const char *op, const char *vectors, tl_Tensor *turns) {
  if (c->failed || !tli_is_complex((tl_DType)turns->dtype) || !tli_has_values(turns)) return;
  bool mode = tli_set_grad_mode(false), fixed = true;
  tl_Tensor *diagonal = TLI_STEP(c, tlo_diagonal(turns, 0, -2, -1));
  tl_Tensor *imag = TLI_STEP(c, tlo_imag(diagonal));
  tl_Tensor *size = TLI_STEP(c, tlo_abs(imag));
  tl_Tensor *turned = chain_with(c, tlo_gt, size, 0.01);
  if (!c->failed) TLI_DO(c, tli_all_true(tlo_logical_not(turned), &fixed));
  tli_set_grad_mode(mode);
  if (!fixed)
    c->failed = !tli_fail(TL_EAUTOGRAD,
                          "%s: the gradient is not defined: the loss depends on the phases of the "
                          "%s, which are arbitrary",
                          op, vectors);
}

/* Q^H g - g^H Q */
static tl_Tensor *turn(tli_Chain *c, tl_Tensor *q, tl_Tensor *g) {
  return antisymmetric(c, chain_matmul(c, chain_h(c, q), g));
}

/* Computes the gradient of the SVD: U [(F o skew(U^H gU)) S + S (F o skew(V^H gV)) + gS] V^H, plus
** the parts outside the column spaces of U and V. Here "o" is the elementwise product, and skew(M)
** = M - M^H. If U and V are full, only their first k columns are used. For complex numbers the
** diagonal of skew(U^H gU) / (2 S) is added to gS. This term accounts for changes of the phases of
** U and V. */
tl_Tensor *tlo_svd_backward(tl_Tensor *gU, tl_Tensor *gS, tl_Tensor *gVh, tl_Tensor *U,
                            tl_Tensor *S, tl_Tensor *Vh) {
  tli_Chain c = {0};
  int64_t m = U->sizes[U->ndim - 2], n = Vh->sizes[Vh->ndim - 1], k = S->sizes[S->ndim - 1];
  tl_Tensor *u = part(&c, U, -1, 0, k), *v = chain_h(&c, part(&c, Vh, -2, 0, k));
  tl_Tensor *gu = gU ? part(&c, gU, -1, 0, k) : NULL;
  tl_Tensor *gv = gVh ? chain_h(&c, part(&c, gVh, -2, 0, k)) : NULL;
  tl_Tensor *eye = TLI_STEP(&c, tlo_eye(k, k, (tl_DType)S->dtype, tli_device(S)));
  tl_Tensor *f = gu || gv ? gaps(&c, chain_mul(&c, S, S), eye) : NULL, *inner = NULL;
  if (gS) inner = chain_mul(&c, chain_unsqueeze(&c, gS, -1), eye);
  if (gu) {
    tl_Tensor *skew = turn(&c, u, gu);
    check_phases(&c, "linalg.svd", "singular vectors", gv ? plus(&c, skew, turn(&c, v, gv)) : skew);
    inner = plus(&c, inner, by_columns(&c, chain_mul(&c, f, skew), S));
    if (tli_is_complex((tl_DType)U->dtype)) {
      tl_Tensor *twice = chain_unsqueeze(&c, chain_scale(&c, S, 2), -2);
      inner = plus(&c, inner, chain_div(&c, chain_mul(&c, skew, eye), twice));
    }
  }
  if (gv) {
    tl_Tensor *skew = turn(&c, v, gv);
    if (!gu) check_phases(&c, "linalg.svd", "singular vectors", skew);
    inner = plus(&c, inner, by_rows(&c, chain_mul(&c, f, skew), S));
  }
  if (inner) inner = chain_to(&c, inner, (tl_DType)U->dtype);
  tl_Tensor *vh = chain_h(&c, v), *left = chain_matmul(&c, u, inner);
  tl_Tensor *result = chain_matmul(&c, left, vh);
  if (gu && m > k)
    result = chain_add(&c, result, chain_matmul(&c, outside(&c, gu, u, S), chain_h(&c, v)));
  if (gv && n > k)
    result = chain_add(&c, result, chain_matmul(&c, u, chain_h(&c, outside(&c, gv, v, S))));
  return tli_chain_end(&c, result);
}

/* Computes torch.svd. If compute_uv is false, U and V are zeros. */
bool tlo_svd_torch(tl_Tensor *self, bool some, bool compute_uv, tl_Tensor **out) {
  tli_Chain c = {0};
  out[0] = out[1] = out[2] = NULL;
  TL_TRY(tlo_svd(self, compute_uv && !some, out));
  for (int i = 0; i < 3; i++) tli_keep(&c, out[i]);
  out[2] = chain_h(&c, out[2]);
  for (int i = 0; i < 2 && !compute_uv; i++) {
    int64_t sizes[TL_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++) sizes[d] = self->sizes[d];
    sizes[self->ndim - 2] = sizes[self->ndim - 1] = self->sizes[self->ndim - 2 + i];
    tl_Tensor *zeros = TLI_STEP(
        &c, tlo_zeros((tl_Ints){self->ndim, sizes}, (tl_DType)self->dtype, tli_device(self)));
    out[i == 0 ? 0 : 2] = zeros;
  }
  return tli_chain_end_all(&c, out, 3);
}

tl_Tensor *tlo_svdvals(tl_Tensor *A) {
  tl_Tensor *usv[3] = {NULL, NULL, NULL};
  TL_TRY_NULL(tlo_svd_full(A, false, usv));
  tli_release(usv[0]);
  tli_release(usv[2]);
  return usv[1];
}

/* ---- eigenvalues of symmetric matrices ---- */

/* Computes the gradient of eigh: V (diag(gL) + F o (V^H gV)) V^H, made Hermitian. "o" is the
** elementwise product, and F_ij = 1 / (l_j - l_i). */
tl_Tensor *tlo_eigh_backward(tl_Tensor *gL, tl_Tensor *gV, tl_Tensor *L, tl_Tensor *V) {
  tli_Chain c = {0};
  tl_Tensor *eye = chain_identity(&c, V), *inner = NULL;
  if (gV) {
    tl_Tensor *turned = chain_matmul(&c, chain_h(&c, V), gV);
    check_phases(&c, "linalg.eigh", "eigenvectors", turned);
    inner = chain_mul(&c, gaps(&c, L, eye), turned);
  }
  if (gL) inner = plus(&c, inner, chain_mul(&c, chain_unsqueeze(&c, gL, -1), eye));
  tl_Tensor *vh = chain_h(&c, V), *left = chain_matmul(&c, V, inner);
  tl_Tensor *g = chain_matmul(&c, left, vh);
  return tli_chain_end(&c, chain_scale(&c, chain_add(&c, g, chain_h(&c, g)), 0.5));
}

tl_Tensor *tlo_eigvalsh(tl_Tensor *A, const char *UPLO) {
  tl_Tensor *out[2] = {NULL, NULL};
  TL_TRY_NULL(tlo_eigh(A, UPLO, out));
  tli_release(out[1]);
  return out[0];
}

/* ---- eigenvalues of any square matrices ---- */

/* Computes the gradient of eig: V^-H (diag(gL) + F o (V^H gV - V^H V diag(Re(V^H gV)))) V^H, where
** "o" is the elementwise product and F_ij = 1 / conj(l_j - l_i). The second term accounts for the
** normalisation of the eigenvectors. */
tl_Tensor *tlo_eig_backward(tl_Tensor *gL, tl_Tensor *gV, tl_Tensor *L, tl_Tensor *V) {
  tli_Chain c = {0};
  tl_Tensor *eye = chain_identity(&c, V), *vh = chain_h(&c, V), *inner = NULL;
  if (gV) {
    tl_Tensor *turned = chain_matmul(&c, vh, gV);
    check_phases(&c, "linalg.eig", "eigenvectors", turned);
    tl_Tensor *growth = TLI_STEP(&c, tlo_diagonal(turned, 0, -2, -1));
    growth = TLI_STEP(&c, tlo_real(growth));
    tl_Tensor *lengths = by_columns(&c, chain_matmul(&c, vh, V), growth);
    tl_Tensor *rest = chain_sub(&c, turned, lengths);
    inner = chain_mul(&c, gaps(&c, chain_conj(&c, L), eye), rest);
  }
  if (gL) inner = plus(&c, inner, chain_mul(&c, chain_unsqueeze(&c, gL, -1), eye));
  inner = chain_matmul(&c, inner, vh);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_solve_square(vh, inner)));
}

tl_Tensor *tlo_eigvals(tl_Tensor *A) {
  tl_Tensor *out[2] = {NULL, NULL};
  TL_TRY_NULL(tlo_eig(A, out));
  tli_release(out[1]);
  return out[0];
}
