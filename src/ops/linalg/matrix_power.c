/*
** matrix_power.c - powers and exponentials of matrices, and products of several matrices.
*/
#include <math.h>

#include "ops/linalg/linalg.h"

tl_Tensor *tlo_matrix_power(tl_Tensor *A, int64_t n) {
  tli_Chain c = {0};
  TL_TRY_NULL(check_square("linalg.matrix_power", A));
  if (n == 0) {
    /* computes the zeros from A, so that A gets a gradient, which is zero */
    tl_Tensor *zeros = TLI_STEP(&c, tlo_fill(A, tli_int(0)));
    return tli_chain_end(&c, chain_add(&c, zeros, chain_identity(&c, A)));
  }
  if (n == INT64_MIN) return tli_fail_null(TL_EARG, "linalg.matrix_power: n is too small");
  tl_Tensor *base = n < 0 ? TLI_STEP(&c, tlo_inv(A)) : A, *result = NULL;
  for (uint64_t bits = (uint64_t)(n < 0 ? -n : n); bits && !c.failed; bits >>= 1) {
    if (bits & 1) result = result ? chain_matmul(&c, result, base) : base;
    if (bits > 1) base = chain_matmul(&c, base, base);
  }
  return tli_chain_end(&c, result);
}

/* Computes the largest 1-norm of all matrices in the batch. */
static bool one_norm(tl_Tensor *A, double *norm) {
  tli_Chain c = {0};
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *sums = chain_sum(&c, TLI_STEP(&c, tlo_abs(A)), -2, false);
  bool ok = !c.failed && (A->numel == 0 || tli_largest(sums, norm));
  if (A->numel == 0) *norm = 0;
  tli_set_grad_mode(mode);
  tli_chain_end(&c, NULL);
  return ok;
}

/* Computes the exponential by scaling and squaring with the [8/8] Pade approximant (Higham, "The
** scaling and squaring method for the matrix exponential revisited", 2005). In float64, the
** approximant needs no scaling if |A| <= 1.495585217958292. */
static tl_Tensor *matrix_exp(tl_Tensor *A) {
  static const double b[] = {518918400, 259459200, 60540480, 8648640, 831600, 55440, 2520, 72, 1};
  double norm;
  TL_TRY_NULL(one_norm(A, &norm));
  int squarings = 0;
  if (isfinite(norm))
    while (ldexp(norm, -squarings) > 1.495585217958292) squarings++;
  tli_Chain c = {0};
  tl_Tensor *x = chain_scale(&c, A, ldexp(1, -squarings)), *eye = chain_identity(&c, A);
  tl_Tensor *x2 = chain_matmul(&c, x, x);
  tl_Tensor *even = chain_scale(&c, eye, b[0]), *odd = chain_scale(&c, eye, b[1]), *power = x2;
  for (int i = 2; i <= 8; i += 2) {
    even = chain_add(&c, even, chain_scale(&c, power, b[i]));
    if (i < 8) {
      odd = chain_add(&c, odd, chain_scale(&c, power, b[i + 1]));
      power = chain_matmul(&c, power, x2);
    }
  }
  odd = chain_matmul(&c, x, odd);
  tl_Tensor *minus = chain_sub(&c, even, odd), *plus = chain_add(&c, even, odd);
  tl_Tensor *solved = TLI_STEP(&c, tlo_solve(minus, plus, true));
  tl_Tensor *result = TLI_STEP(&c, tlo_contiguous(solved));
  result = tli_chain_end(&c, result);
  for (int i = 0; i < squarings && result; i++) {
    tl_Tensor *next = tlo_matmul(result, result);
    tli_release(result);
    result = next;
  }
  return result;
}

/* Computes the matrix exponential. Half types are converted to float32 for the computation. */
tl_Tensor *tlo_matrix_exp(tl_Tensor *A) {
  TL_TRY_NULL(check_square("linalg.matrix_exp", A));
  tl_DType dtype = (tl_DType)A->dtype;
  if (!tli_is_inexact(dtype))
    return tli_fail_null(TL_EDTYPE, "linalg.matrix_exp: expected a floating dtype, got %s",
                         tl_dtype_name(dtype));
  tli_Chain c = {0};
  tl_Tensor *wide = chain_to(&c, A, tli_dtype_compute(dtype));
  tl_Tensor *result = TLI_STEP(&c, matrix_exp(wide));
  return tli_chain_end(&c, chain_to(&c, result, dtype));
}

/* Multiplies matrices in the cheapest order, which is found by dynamic programming (Cormen et al.,
** section 15.2). */
#define MULTI_MAX 32

static tl_Tensor *multi(tli_Chain *c, tl_Tensor **m, int (*split)[MULTI_MAX], int i, int j) {
  if (i == j) return m[i];
  return chain_matmul(c, multi(c, m, split, i, split[i][j]),
                      multi(c, m, split, split[i][j] + 1, j));
}

tl_Tensor *tlo_multi_dot(tl_Tensors tensors) {
  const char *op = "linalg.multi_dot";
  if (tensors.n < 2 || tensors.n > MULTI_MAX)
    return tli_fail_null(TL_EARG, "%s: expected 2 to %d tensors, got %" PRId64, op, MULTI_MAX,
                         tensors.n);
  tli_Chain c = {0};
  int n = (int)tensors.n;
  tl_Tensor *m[MULTI_MAX];
  bool row = tensors.v[0]->ndim == 1, column = tensors.v[n - 1]->ndim == 1;
  double cost[MULTI_MAX][MULTI_MAX], size[MULTI_MAX + 1];
  int split[MULTI_MAX][MULTI_MAX];
  for (int i = 0; i < n; i++) {
    m[i] = i == 0 && row          ? chain_unsqueeze(&c, tensors.v[i], 0)
           : i == n - 1 && column ? chain_unsqueeze(&c, tensors.v[i], 1)
                                  : tensors.v[i];
    if (c.failed || m[i]->ndim != 2 || (i > 0 && m[i]->sizes[0] != m[i - 1]->sizes[1])) {
      if (!c.failed)
        tli_fail(TL_ESHAPE, "%s: tensor " TLI_POS " of shape %s does not follow its neighbour", op,
                 (int64_t)i, tli_sizes_str(tensors.v[i]));
      c.failed = true;
      return tli_chain_end(&c, NULL);
    }
    size[i] = (double)m[i]->sizes[0];
    size[i + 1] = (double)m[i]->sizes[1];
    cost[i][i] = 0;
  }
  for (int length = 1; length < n; length++)
    for (int i = 0; i + length < n; i++) {
      int j = i + length;
      cost[i][j] = INFINITY;
      for (int s = i; s < j; s++) {
        double total = cost[i][s] + cost[s + 1][j] + size[i] * size[s + 1] * size[j + 1];
        if (total < cost[i][j]) cost[i][j] = total, split[i][j] = s;
      }
    }
  tl_Tensor *result = multi(&c, m, split, 0, n - 1);
  if (column) result = TLI_STEP(&c, tlo_squeeze(result, (tl_Ints){1, (int64_t[]){-1}}));
  if (row) result = TLI_STEP(&c, tlo_squeeze(result, (tl_Ints){1, (int64_t[]){0}}));
  return tli_chain_end(&c, result);
}

tl_Tensor *tlo_chain_matmul(tl_Tensors matrices) {
  for (int64_t i = 0; i < matrices.n; i++)
    if (matrices.v[i]->ndim != 2)
      return tli_fail_null(TL_ESHAPE, "chain_matmul: expected matrices, got shape %s",
                           tli_sizes_str(matrices.v[i]));
  return matrices.n == 1 ? tli_retain(matrices.v[0]) : tlo_multi_dot(matrices);
}
