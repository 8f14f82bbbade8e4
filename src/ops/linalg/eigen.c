/*
** eigen.c - singular value decompositions, and eigenvalues of symmetric and of general matrices.
*/
#include "ops/linalg/lapack.h"

static const char stuck[] = "has not converged (does it hold NaN?)";

/* Returns whether the device's Jacobi rotations have failed to converge. LAPACK on the CPU uses
** another algorithm, so it may still succeed. */
static bool may_converge_here(const tl_Tensor *A) {
  return tli_device(A).type != TL_CPU && tl_error_kind() == TL_EARG;
}

static bool svd_on_host(const char *op, tl_Tensor *A, char job, tl_Tensor **out) {
  tl_Tensor *here = tli_moved(A, TLI_CPU, false);
  bool ok = here && tli_lapack_svd(op, here, job, out) && tli_from_host(tli_device(A), out, 3);
  tli_release(here);
  return ok;
}

bool tli_lapack_svd(const char *op, tl_Tensor *A, char job, tl_Tensor **out) {
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, false, &b)) return false;
  tl_DType dtype = (tl_DType)A->dtype;
  int64_t nu = job == 'A'   ? b.m
               : job == 'S' ? b.k
                            : 0,
          nv = job == 'A'   ? b.n
               : job == 'S' ? b.k
                            : 0;
  tl_Tensor *a = tli_lapack_columns(A), *info = a ? tli_lapack_info(A, &b) : NULL;
  out[0] = info ? tli_lapack_empty(A, &b, dtype, 2, nu, b.m) : NULL;
  out[1] = out[0] ? tli_lapack_empty(A, &b, tli_real_dtype(dtype), 1, b.k, 0) : NULL;
  out[2] = out[1] ? tli_lapack_empty(A, &b, dtype, 2, b.n, nv) : NULL;
  bool ok = out[2] != NULL, again = false;
  if (ok && b.k == 0) { /* there are no singular values, so U and Vh are identity matrices */
    ok = job != 'A' || (tli_lapack_identity(out[0]) && tli_lapack_identity(out[2]));
  } else if (ok && b.count > 0) {
    ok = lib->gesdd(tli_lapack_context(A), dtype, job, b.count, b.m, b.n, tli_data(a),
                    tli_data(out[1]), tli_data(out[0]), tli_data(out[2]), tli_data(info)) &&
         tli_info_fine(info, op, stuck);
    again = !ok && may_converge_here(A);
  }
  tli_release(info);
  tli_release(a);
  if (ok) {
    out[0] = tli_lapack_rows(out[0]);
    out[2] = tli_lapack_rows(out[2]);
    ok = out[0] && out[2];
  }
  if (!ok) tli_release_results(out, 3);
  return again ? svd_on_host(op, A, job, out) : ok;
}

bool tli_op_svd_full(tl_Tensor *A, bool full_matrices, tl_Tensor **out) {
  return tli_lapack_svd("linalg.svd", A, full_matrices ? 'A' : 'S', out);
}

bool tli_op_eigh(tl_Tensor *A, const char *UPLO, tl_Tensor **out) {
  static const char op[] = "linalg.eigh";
  tli_Matrices b;
  bool upper = UPLO[0] == 'U' || UPLO[0] == 'u';
  if ((!upper && UPLO[0] != 'L' && UPLO[0] != 'l') || UPLO[1])
    return tli_fail(TL_EARG, "%s: UPLO: expected 'L' or 'U', got '%.40s'", op, UPLO);
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, true, &b)) return false;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *info = tli_lapack_info(A, &b);
  out[1] = info ? tli_lapack_columns(A) : NULL;
  out[0] = out[1] ? tli_lapack_empty(A, &b, tli_real_dtype(dtype), 1, b.n, 0) : NULL;
  bool ok = out[0] && (b.count == 0 || b.n == 0 ||
                       (lib->syevd(tli_lapack_context(A), dtype, true, upper, b.count, b.n,
                                   tli_data(out[1]), tli_data(out[0]), tli_data(info)) &&
                        tli_info_fine(info, op, stuck)));
  tli_release(info);
  if (ok) {
    out[1] = tli_lapack_rows(out[1]);
    ok = out[1] != NULL;
  }
  if (!ok) tli_release_results(out, 2);
  return ok;
}

bool tli_op_eig(tl_Tensor *A, tl_Tensor **out) {
  static const char op[] = "linalg.eig";
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, true, &b)) return false;
  tl_DType dtype = (tl_DType)A->dtype, complex = tli_complex_dtype(dtype);
  tl_Tensor *a = tli_lapack_columns(A), *info = a ? tli_lapack_info(A, &b) : NULL;
  out[0] = info ? tli_lapack_empty(A, &b, complex, 1, b.n, 0) : NULL;
  out[1] = out[0] ? tli_lapack_empty(A, &b, complex, 2, b.n, b.n) : NULL;
  bool ok = out[1] && (b.count == 0 || b.n == 0 ||
                       (tli_lapack_finite(op, a) &&
                        lib->geev(tli_lapack_context(A), dtype, true, b.count, b.n, tli_data(a),
                                  tli_data(out[0]), tli_data(out[1]), tli_data(info)) &&
                        tli_info_fine(info, op, stuck)));
  tli_release(info);
  tli_release(a);
  if (ok) {
    out[1] = tli_lapack_rows(out[1]);
    ok = out[1] != NULL;
  }
  if (!ok) tli_release_results(out, 2);
  return ok;
}
