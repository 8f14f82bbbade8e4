/*
** householder.c - products of Householder reflections, which represent an orthogonal matrix.
*/
#include "core/kernel/lapack.h"
#include "ops/chain.h"

static bool check_reflectors(const tl_Tensor *A, const tl_Tensor *tau) {
  static const char op[] = "linalg.householder_product";
  if (A->ndim < 2 || A->sizes[A->ndim - 2] < A->sizes[A->ndim - 1])
    return tli_fail(TL_ESHAPE, "%s: expected reflectors (..., m, n) with m >= n, got shape %s", op,
                    tli_sizes_str(A));
  bool fits = tau->ndim == A->ndim - 1 && tau->dtype == A->dtype &&
              tau->sizes[tau->ndim - 1] <= A->sizes[A->ndim - 1];
  for (int d = 0; fits && d < tau->ndim - 1; d++) fits = tau->sizes[d] == A->sizes[d];
  return fits ||
         tli_fail(TL_ESHAPE,
                  "%s: expected scales (..., k) with k <= n and the batch and dtype of A, which "
                  "is %s of shape %s, got %s of shape %s",
                  op, tl_dtype_name((tl_DType)A->dtype), tli_sizes_str(A),
                  tl_dtype_name((tl_DType)tau->dtype), tli_sizes_str(tau));
}

/* Applies reflection i: returns Q - tau v (v^H Q), where v and tau are column i of V and of `tau`.
** If `end` equals i, nothing is subtracted: the result equals Q, but its history includes V and
** tau, so that they get gradients of zero. */
static tl_Tensor *reflected(tl_Tensor *Q, tl_Tensor *V, tl_Tensor *tau, int64_t i, int64_t end) {
  tli_Chain c = {0};
  tl_Tensor *v = chain_slice(&c, V, -1, i, end);
  tl_Tensor *scaled = chain_mul(&c, v, chain_slice(&c, tau, -1, i, end));
  tl_Tensor *shares = chain_matmul(&c, chain_h(&c, v), Q);
  return tli_chain_end(&c, chain_sub(&c, Q, chain_matmul(&c, scaled, shares)));
}

/* Returns the reflection vectors v1 ... vk as columns (..., m, k). */
static tl_Tensor *reflectors(tli_Chain *c, tl_Tensor *A, int64_t k) {
  tl_Tensor *below = chain_tril(c, chain_slice(c, A, -1, 0, k), -1);
  tl_Tensor *ones =
      TLI_STEP(c, tlo_eye(A->sizes[A->ndim - 2], k, (tl_DType)A->dtype, tli_device(A)));
  return chain_add(c, below, ones);
}

/* Returns whether the device's library can compute the product in one call. This requires that no
** history is recorded and that neither operand is empty. */
static bool is_for_library(tl_Tensor *A, tl_Tensor *tau) {
  tl_Device device = tli_device(A);
  return device.type != TL_CPU && (A->dtype == TL_F32 || A->dtype == TL_F64) && tau->numel > 0 &&
         A->numel > 0 && !tli_recording((tl_Tensor *[]){A, tau}, 2) && tli_lapack(device) != NULL;
}

tl_Tensor *tlo_householder_product(tl_Tensor *A, tl_Tensor *tau) {
  TL_TRY_NULL(check_reflectors(A, tau));
  int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1], k = tau->sizes[tau->ndim - 1];
  if (is_for_library(A, tau)) return tlo_householder_columns(A, tau);
  tli_Chain c = {0};
  tl_Tensor *V = reflectors(&c, A, k);
  tl_Tensor *scales = chain_unsqueeze(&c, tau, -2);
  tl_Tensor *start = TLI_STEP(&c, tlo_eye(m, n, (tl_DType)A->dtype, tli_device(A)));
  tl_Tensor *Q = TLI_STEP(&c, tlo_expand(start, (tl_Ints){A->ndim, A->sizes}));
  for (int64_t i = k - 1; i >= 0; i--) Q = TLI_STEP(&c, reflected(Q, V, scales, i, i + 1));
  if (k == 0) Q = TLI_STEP(&c, reflected(Q, V, scales, 0, 0));
  return tli_chain_end(&c, Q);
}

static bool check_ormqr(const tl_Tensor *A, const tl_Tensor *tau, const tl_Tensor *other,
                        bool left) {
  static const char op[] = "ormqr";
  bool ranks = A->ndim >= 2 && tau->ndim == A->ndim - 1 && other->ndim == A->ndim;
  bool fits = ranks && tau->dtype == A->dtype && other->dtype == A->dtype &&
              tli_is_inexact((tl_DType)A->dtype);
  if (fits) {
    int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1];
    fits = other->sizes[other->ndim - (left ? 2 : 1)] == m &&
           tau->sizes[tau->ndim - 1] == (m < n ? m : n);
  }
  for (int d = 0; fits && d < A->ndim - 2; d++)
    fits = tau->sizes[d] == A->sizes[d] && other->sizes[d] == A->sizes[d];
  return fits || tli_fail(TL_ESHAPE,
                          "%s: expected reflectors (..., m, n), scales (..., min(m, n)) and other "
                          "(..., %s) of one floating dtype and batch, got %s of shape %s, %s of "
                          "shape %s and %s of shape %s",
                          op, left ? "m, k" : "k, m", tl_dtype_name((tl_DType)A->dtype),
                          tli_sizes_str(A), tl_dtype_name((tl_DType)tau->dtype), tli_sizes_str(tau),
                          tl_dtype_name((tl_DType)other->dtype), tli_sizes_str(other));
}

/* Multiplies by Q = H1 H2 ... Hk or by its adjoint. The adjoint of a reflection Hi is the
** reflection with the conjugate of tau. A product C Q is computed as (Q^H C^H)^H. */
tl_Tensor *tlo_ormqr(tl_Tensor *self, tl_Tensor *tau, tl_Tensor *other, bool left, bool transpose) {
  TL_TRY_NULL(check_ormqr(self, tau, other, left));
  int64_t k = tau->sizes[tau->ndim - 1];
  /* whether to apply Q^H, which begins with the first reflection */
  bool forward = left == transpose;
  tli_Chain c = {0};
  tl_Tensor *V = reflectors(&c, self, k), *scales = chain_unsqueeze(&c, tau, -2);
  if (forward) scales = chain_conj(&c, scales);
  tl_Tensor *x = left ? other : chain_h(&c, other);
  for (int64_t i = 0; i < k; i++) {
    int64_t at = forward ? i : k - 1 - i;
    x = TLI_STEP(&c, reflected(x, V, scales, at, at + 1));
  }
  if (k == 0) x = TLI_STEP(&c, tlo_clone(x));
  return tli_chain_end(&c, left ? x : chain_h(&c, x));
}
