/*
** matrix_roots.c - the principal square root of a matrix, the polar decomposition, and the Lyapunov
** equation X Y + Y X = B, by which both are differentiated.
*/
#include "ops/chain.h"

static bool check(const char *op, const tl_Tensor *A, bool square) {
  int64_t m = A->ndim < 2 ? 0 : A->sizes[A->ndim - 2], n = A->ndim < 2 ? 1 : A->sizes[A->ndim - 1];
  if (A->ndim < 2 || (square ? m != n : m < n))
    return tli_fail(TL_ESHAPE, "%s: A: expected matrices %s, got shape %s", op,
                    square ? "(..., n, n)" : "(..., m, n) with m >= n", tli_sizes_str(A));
  return A->dtype == TL_F32 || A->dtype == TL_F64 || tli_is_complex((tl_DType)A->dtype) ||
         tli_fail(TL_EDTYPE, "%s: A: expected float32, float64 or complex, got %s", op,
                  tl_dtype_name((tl_DType)A->dtype));
}

/* Sets lv[0] to the eigenvalues L (..., n) and lv[1] to the eigenvectors V (..., n, n) of Hermitian
** matrices. */
static void eigen(tli_Chain *c, tl_Tensor *A, tl_Tensor *lv[2]) {
  lv[0] = lv[1] = NULL;
  TLI_DO(c, tlo_eigh(A, "L", lv));
  for (int i = 0; i < 2 && !c->failed; i++) tli_keep(c, lv[i]);
}

tl_Tensor *tli_op_matrix_sqrth(tl_Tensor *A) {
  TL_TRY_NULL(check("linalg.matrix_sqrth", A, true));
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *lv[2];
  eigen(&c, A, lv);
  tl_Tensor *roots = TLI_STEP(&c, tlo_sqrt(lv[0]));
  tl_Tensor *scaled = chain_mul(&c, lv[1], chain_unsqueeze(&c, roots, -2));
  tl_Tensor *result = tli_chain_end(&c, chain_matmul(&c, scaled, chain_h(&c, lv[1])));
  tli_set_grad_mode(mode);
  return result;
}

/* Solves X Y + Y X = B for Hermitian positive-definite X, in the basis of X's eigenvectors. */
tl_Tensor *tli_op_solve_lyapunov(tl_Tensor *B, tl_Tensor *X) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *lv[2];
  eigen(&c, X, lv);
  tl_Tensor *turned = chain_matmul(&c, chain_matmul(&c, chain_h(&c, lv[1]), B), lv[1]);
  tl_Tensor *row = chain_unsqueeze(&c, lv[0], -2), *column = chain_unsqueeze(&c, lv[0], -1);
  tl_Tensor *sums = chain_add(&c, column, row);
  tl_Tensor *solved = chain_div(&c, turned, sums);
  tl_Tensor *vh = chain_h(&c, lv[1]), *left = chain_matmul(&c, lv[1], solved);
  tl_Tensor *result = tli_chain_end(&c, chain_matmul(&c, left, vh));
  tli_set_grad_mode(mode);
  return result;
}

/* Computes the gradient with respect to X of the solution Y of X Y + Y X = B, from grad, the
** gradient of Y. It is -(Z Y^H + Y^H Z), where Z is the solution of the same equation for grad in
** place of B. */
tl_Tensor *tlo_lyapunov_backward(tl_Tensor *grad, tl_Tensor *X, tl_Tensor *Y) {
  tli_Chain c = {0};
  tl_Tensor *z = TLI_STEP(&c, tlo_solve_lyapunov(grad, X)), *yh = chain_h(&c, Y);
  tl_Tensor *right = chain_matmul(&c, yh, z), *left = chain_matmul(&c, z, yh);
  return tli_chain_end(&c, chain_neg(&c, chain_add(&c, left, right)));
}

/* Computes U = W V^H and H = V S V^H from the singular values of A = W S V^H. */
bool tli_op_polar_linalg(tl_Tensor *A, tl_Tensor **out) {
  out[0] = out[1] = NULL;
  TL_TRY(check("linalg.polar", A, false));
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *usv[3] = {NULL, NULL, NULL};
  TLI_DO(&c, tlo_svd_full(A, false, usv));
  for (int i = 0; i < 3 && !c.failed; i++) tli_keep(&c, usv[i]);
  out[0] = chain_matmul(&c, usv[0], usv[2]);
  tl_Tensor *scaled = chain_mul(&c, chain_unsqueeze(&c, usv[1], -1), usv[2]);
  out[1] = chain_matmul(&c, chain_h(&c, usv[2]), scaled);
  tli_set_grad_mode(mode);
  return tli_chain_end_all(&c, out, 2);
}

/* Computes the gradient of the polar decomposition with respect to A. It follows from dA = dU H + U
** dH and H dH + dH H = dA^H A + A^H dA. Let G = gH - U^H gU H^-1, and let Y be the solution of H Y
** + Y H = G. Then the gradient is gU H^-1 + A (Y + Y^H). */
tl_Tensor *tlo_polar_backward(tl_Tensor *gU, tl_Tensor *gH, tl_Tensor *A, tl_Tensor *U,
                              tl_Tensor *H) {
  tli_Chain c = {0};
  tl_Tensor *first = NULL, *g = gH;
  if (gU) {
    tl_Tensor *gt = chain_h(&c, gU);
    first = chain_h(&c, TLI_STEP(&c, tlo_solve(H, gt, true)));
    tl_Tensor *share = chain_matmul(&c, chain_h(&c, U), first);
    g = gH ? chain_sub(&c, gH, share) : chain_neg(&c, share);
  }
  if (g == NULL) return tli_chain_end(&c, NULL);
  tl_Tensor *y = TLI_STEP(&c, tlo_solve_lyapunov(g, H));
  tl_Tensor *rest = chain_matmul(&c, A, chain_add(&c, y, chain_h(&c, y)));
  return tli_chain_end(&c, first ? chain_add(&c, first, rest) : rest);
}
