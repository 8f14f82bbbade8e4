/*
** lapack.c - Cholesky, L D L^T and LU factorizations: checks, column-major copies, calls of the
** back end's LAPACK, and results as views of LAPACK's output. A column-major copy of a matrix is a
** row-major copy of its transpose.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/linalg/lapack.h"

const tlk_Lapack *tli_lapack_of(const char *op, const tl_Tensor *t) {
  if (tli_device(t).type == TL_CPU && tlk_portable())
    return tli_fail_null(TL_EDEVICE,
                         "%s: not available with use_deterministic_algorithms \"portable\", since "
                         "LAPACK's results differ between machines",
                         op);
  const tlk_Lapack *table = tli_lapack(tli_device(t));
  if (table == NULL)
    tli_fail(TL_EDEVICE, "%s: not available on %s", op, tli_device_str(tli_device(t)));
  return table;
}

/* Returns whether a loop on the host computes the determinants from the factors. Complex matrices,
** and matrices on other devices, need operators instead. */
static bool by_loop(const tl_Tensor *t) {
  return tli_device(t).type == TL_CPU && !tli_is_complex((tl_DType)t->dtype);
}

bool tli_lapack_dtype(const char *op, tl_DType dtype) {
  if (dtype == TL_F32 || dtype == TL_F64 || tli_is_complex(dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: expected float32 or float64, or complex numbers of these, got %s",
                  op, tl_dtype_name(dtype));
}

bool tli_lapack_matrices(const char *op, const tl_Tensor *t, bool square, tli_Matrices *b) {
  TL_TRY(tli_lapack_dtype(op, (tl_DType)t->dtype));
  if (t->ndim < 2)
    return tli_fail(TL_ESHAPE, "%s: expected a matrix or a batch of them, got shape %s", op,
                    tli_sizes_str(t));
  int64_t m = t->sizes[t->ndim - 2], n = t->sizes[t->ndim - 1];
  if (square && m != n)
    return tli_fail(TL_ESHAPE, "%s: expected square matrices, got shape %s", op, tli_sizes_str(t));
  if (m > INT32_MAX || n > INT32_MAX)
    return tli_fail(TL_ESHAPE, "%s: expected sizes below 2^31, got shape %s", op, tli_sizes_str(t));
  *b = (tli_Matrices){1, (int)m, (int)n, (int)(m < n ? m : n), t->ndim - 2};
  for (int d = 0; d < b->nbatch; d++) b->count *= t->sizes[d];
  return true;
}

/* Returns a new tensor with b's batch dimensions, followed by `ndim` (1 or 2) dimensions of the
** given sizes. */
tl_Tensor *tli_lapack_empty(const tl_Tensor *like, const tli_Matrices *b, tl_DType dtype, int ndim,
                            int64_t size1, int64_t size2) {
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < b->nbatch; d++) sizes[d] = like->sizes[d];
  sizes[b->nbatch] = size1;
  if (ndim == 2) sizes[b->nbatch + 1] = size2;
  return tli_empty(dtype, tli_device(like), b->nbatch + ndim, sizes);
}

/* Returns a view of t with its last two dimensions swapped. The view is not recorded. */
tl_Tensor *tli_lapack_swapped(const tl_Tensor *t) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < t->ndim; d++) {
    int from = d == t->ndim - 1 ? d - 1 : d == t->ndim - 2 ? d + 1 : d;
    sizes[d] = t->sizes[from];
    strides[d] = t->strides[from];
  }
  return tli_alias(t, t->ndim, sizes, strides, t->offset);
}

/* Returns a column-major copy of the matrices. It is stored as a row-major tensor of their
** transposes. */
tl_Tensor *tli_lapack_columns(const tl_Tensor *t) {
  tl_Tensor *view = tli_lapack_swapped(t);
  tl_Tensor *copy =
      view ? tli_empty((tl_DType)t->dtype, tli_device(t), view->ndim, view->sizes) : NULL;
  if (copy && !tli_copy(copy, view)) tli_release(copy), copy = NULL;
  tli_release(view);
  return copy;
}

/* Converts a column-major result to a tensor of the matrices. Steals the argument. */
tl_Tensor *tli_lapack_rows(tl_Tensor *steals) {
  tl_Tensor *view = steals ? tli_lapack_swapped(steals) : NULL;
  tli_release(steals);
  return view;
}

bool tli_infos_fine(const int *info, int64_t n, const char *op, const char *what) {
  for (int64_t b = 0; b < n; b++) {
    /* every other info is an error; a negative one means that LAPACK has found NaN in the matrix */
    if (info[b] == 0) continue;
    if (n > 1) return tli_fail(TL_EARG, "%s: matrix " TLI_POS " of the batch %s", op, b, what);
    return tli_fail(TL_EARG, "%s: the matrix %s", op, what);
  }
  return true;
}

bool tli_lapack_finite(const char *op, tl_Tensor *t) {
  bool finite;
  if (!tli_has_values(t)) return true;
  TL_TRY(tli_all_true(tlo_isfinite(t), &finite));
  return finite || tli_fail(TL_EARG, "%s: expected finite numbers, got NaN or infinity", op);
}

/* Returns a tensor with one info for each matrix, all initially 0. */
tl_Tensor *tli_lapack_info(const tl_Tensor *A, const tli_Matrices *b) {
  tl_Tensor *info = tli_empty(TL_I32, tli_device(A), b->nbatch, A->sizes);
  if (info && !tli_fill(info, tli_int(0))) tli_release(info), info = NULL;
  return info;
}

bool tli_info_fine(tl_Tensor *info, const char *op, const char *what) {
  if (!tli_has_values(info)) return true;
  tl_Tensor *here = tli_moved(info, TLI_CPU, false);
  bool ok = here && tli_infos_fine(tli_data(here), here->numel, op, what);
  tli_release(here);
  return ok;
}

bool tli_info_check(tl_Tensor **out, int n, const char *op, const char *what) {
  if (tli_info_fine(out[n - 1], op, what)) return true;
  tli_release_results(out, n);
  return false;
}

/* ---- Cholesky ---- */

bool tli_op_cholesky_info(tl_Tensor *A, tl_Tensor **out) {
  const char *op = "linalg.cholesky";
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, true, &b)) return false;
  tl_Tensor *a = tli_lapack_columns(A);
  out[1] = a ? tli_lapack_info(A, &b) : NULL;
  bool ok = out[1] && (b.count == 0 || b.n == 0 ||
                       lib->potrf(tli_lapack_context(A), (tl_DType)a->dtype, b.count, b.n,
                                  tli_data(a), tli_data(out[1])));
  a = tli_lapack_rows(a);
  out[0] = ok && a ? tli_op_tril(a, 0) : NULL;
  tli_release(a);
  if (out[0]) return true;
  tli_release_results(out, 2);
  return false;
}

/* ---- L D L^T ---- */

bool tli_op_ldl_factor_info(tl_Tensor *A, bool hermitian, tl_Tensor **out) {
  const char *op = "linalg.ldl_factor";
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  out[0] = out[1] = out[2] = NULL;
  if (lib == NULL || !tli_lapack_matrices(op, A, true, &b)) return false;
  tl_Tensor *a = tli_lapack_columns(A);
  out[1] = a ? tli_lapack_empty(A, &b, TL_I32, 1, b.n, 0) : NULL;
  out[2] = out[1] ? tli_lapack_info(A, &b) : NULL;
  bool ok = out[2] && (b.count == 0 || b.n == 0 ||
                       lib->sytrf(tli_lapack_context(A), (tl_DType)a->dtype, hermitian, b.count,
                                  b.n, tli_data(a), tli_data(out[1]), tli_data(out[2])));
  a = tli_lapack_rows(a);
  out[0] = ok && a ? tli_op_tril(a, 0) : NULL;
  tli_release(a);
  if (out[0]) return true;
  tli_release_results(out, 3);
  return false;
}

/* Checks that the pivots are valid for sytrs. A positive pivot must be a row from 1 to n. Both
** pivots of a 2 x 2 block must be the same row with a negative sign. */
static bool check_blocks(const char *op, const tl_Tensor *order, int64_t count, int n) {
  const int *pivots = tli_data(order);
  if (!tli_has_values(order)) return true;
  for (int64_t i = 0; i < count; i++, pivots += n)
    for (int k = 0; k < n; k++) {
      int row = pivots[k];
      bool block = row < 0;
      if (row < -n || row > n || row == 0 || (block && (k + 1 == n || pivots[k + 1] != row)))
        return tli_fail(TL_EINDEX,
                        "%s: pivots: expected those of linalg.ldl_factor, rows from 1 to %d and "
                        "pairs of negative ones, got %d",
                        op, n, row);
      if (block) k++;
    }
  return true;
}

/* Solves A x = B, given the L D L^T factorization of A. All operands have the same batch sizes. */
tl_Tensor *tli_op_ldl_solved(tl_Tensor *LD, tl_Tensor *pivots, tl_Tensor *B, bool hermitian) {
  const char *op = "linalg.ldl_solve";
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, LD);
  TL_TRY_NULL(lib && tli_lapack_matrices(op, LD, true, &b));
  int64_t nrhs = B->sizes[B->ndim - 1];
  tl_Tensor *a = tli_lapack_columns(LD), *x = a ? tli_lapack_columns(B) : NULL;
  tl_Tensor *order = x ? tli_contiguous_as(pivots, TL_I32) : NULL;
  bool ok = order && check_blocks(op, order, b.count, b.n);
  ok = ok && (b.count == 0 || b.n == 0 || nrhs == 0 ||
              lib->sytrs(tli_lapack_context(LD), (tl_DType)LD->dtype, hermitian, b.count, b.n,
                         (int)nrhs, tli_data(a), tli_data(order), tli_data(x)));
  tli_release(a);
  tli_release(order);
  x = tli_lapack_rows(x);
  if (!ok) tli_release(x), x = NULL;
  return x;
}

/* ---- LU and solving by it ---- */

/* Computes the LU factorization of self. `out` receives the factors (column-major), the pivots and
** info. */
static bool factor(const char *op, tl_Tensor *self, const tli_Matrices *b, tl_Tensor **out) {
  const tlk_Lapack *lib = tli_lapack_of(op, self);
  for (int i = 0; i < 3; i++) out[i] = NULL;
  if (lib == NULL) return false;
  out[0] = tli_lapack_columns(self);
  out[1] = out[0] ? tli_lapack_empty(self, b, TL_I32, 1, b->k, 0) : NULL;
  out[2] = out[1] ? tli_lapack_info(self, b) : NULL;
  bool ok = out[2] && (b->count == 0 || b->k == 0 ||
                       lib->getrf(tli_lapack_context(self), (tl_DType)self->dtype, b->count, b->m,
                                  b->n, tli_data(out[0]), tli_data(out[1]), tli_data(out[2])));
  if (!ok) tli_release_results(out, 3);
  return ok;
}

bool tli_op_lu_factor_info(tl_Tensor *A, bool pivot, tl_Tensor **out) {
  const char *op = "linalg.lu_factor";
  tli_Matrices b;
  if (!pivot)
    return tli_fail(TL_EARG, "%s: pivot: expected true: there is no factorization without pivoting",
                    op);
  TL_TRY(tli_lapack_matrices(op, A, false, &b) && factor(op, A, &b, out));
  out[0] = tli_lapack_rows(out[0]);
  if (out[0]) return true;
  tli_release_results(out, 3);
  return false;
}

/* Solves A x = b for each matrix. x (column-major) holds the right-hand side and is overwritten
** with the solution. If a matrix is singular, its solution contains NaN or infinity. */
static bool solve_columns(const char *op, tl_Tensor *A, const tli_Matrices *b, tl_Tensor *x,
                          int nrhs, tl_Tensor **info) {
  tl_Tensor *lu[3];
  TL_TRY(factor(op, A, b, lu));
  bool ok =
      b->count == 0 || b->n == 0 || nrhs == 0 ||
      tli_lapack_of(op, A)->getrs(tli_lapack_context(A), (tl_DType)A->dtype, b->count, b->n, nrhs,
                                  tli_data(lu[0]), (const int *)tli_data(lu[1]), tli_data(x));
  *info = ok ? tli_retain(lu[2]) : NULL;
  tli_release_results(lu, 3);
  return ok;
}

static bool check_rows(const tl_Tensor *order, int n) {
  const int *pivots = tli_data(order);
  for (int64_t i = 0; i < order->numel; i++)
    if (pivots[i] < 1 || pivots[i] > n)
      return tli_fail(TL_EINDEX, "linalg: expected as pivots rows from 1 to %d, got %d", n,
                      pivots[i]);
  return true;
}

/* Solves A x = B, given the LU factorization of A. All operands have the same batch sizes. */
tl_Tensor *tli_op_lu_solved(tl_Tensor *LU, tl_Tensor *pivots, tl_Tensor *B) {
  const char *op = "linalg.lu_solve";
  tli_Matrices b, right;
  const tlk_Lapack *lib = tli_lapack_of(op, LU);
  TL_TRY_NULL(lib && tli_lapack_matrices(op, LU, true, &b) &&
              tli_lapack_matrices(op, B, false, &right));
  if (B->dtype != LU->dtype || right.m != b.n || right.count != b.count ||
      pivots->numel != b.count * b.n)
    return tli_fail_null(TL_ESHAPE, "%s: sizes of LU, pivots and B do not go together: %s, %s, %s",
                         op, tli_sizes_str(LU), tli_sizes_str(pivots), tli_sizes_str(B));
  tl_Tensor *view = tli_lapack_swapped(LU); /* the factors of lu_factor are column-major */
  tl_Tensor *a = view ? tli_contiguous_as(view, (tl_DType)LU->dtype) : NULL;
  tl_Tensor *x = a ? tli_lapack_columns(B) : NULL;
  tl_Tensor *order = x ? tli_contiguous_as(pivots, TL_I32) : NULL;
  bool ok = order && (!tli_has_values(order) || check_rows(order, b.n));
  ok = ok && (b.count == 0 || b.n == 0 || right.n == 0 ||
              lib->getrs(tli_lapack_context(LU), (tl_DType)LU->dtype, b.count, b.n, right.n,
                         tli_data(a), (const int *)tli_data(order), tli_data(x)));
  tli_release(view);
  tli_release(a);
  tli_release(order);
  x = tli_lapack_rows(x);
  if (!ok) tli_release(x), x = NULL;
  return x;
}

/* Finishes an operator that solves linear systems: converts x, which is column-major, and stores
** the result in out[0]. After a failure, releases both results in `out`. Steals x. */
static bool solved(bool ok, tl_Tensor *x, tl_Tensor **out) {
  out[0] = tli_lapack_rows(x);
  if (ok && out[0]) return true;
  tli_release_results(out, 2);
  return false;
}

bool tli_op_solve_info(tl_Tensor *A, tl_Tensor *B, tl_Tensor **out) {
  const char *op = "linalg.solve";
  tli_Matrices b;
  TL_TRY(tli_lapack_matrices(op, A, true, &b));
  tl_Tensor *x = tli_lapack_columns(B);
  bool ok = x && solve_columns(op, A, &b, x, (int)B->sizes[B->ndim - 1], &out[1]);
  return solved(ok, x, out);
}

/* Sets t, a dense batch of square matrices, to identity matrices. */
bool tli_lapack_identity(tl_Tensor *t) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  int last = t->ndim - 2;
  if (!tli_fill(t, tli_int(0))) return false;
  for (int d = 0; d < last; d++) sizes[d] = t->sizes[d], strides[d] = t->strides[d];
  sizes[last] = t->sizes[last];
  strides[last] = t->sizes[last] + 1;
  tl_Tensor *diagonal = tli_alias(t, last + 1, sizes, strides, t->offset);
  bool ok = diagonal && tli_fill(diagonal, tli_int(1));
  tli_release(diagonal);
  return ok;
}

bool tli_op_inv_info(tl_Tensor *A, tl_Tensor **out) {
  const char *op = "linalg.inv";
  tli_Matrices b;
  TL_TRY(tli_lapack_matrices(op, A, true, &b));
  tl_Tensor *x = tli_empty((tl_DType)A->dtype, tli_device(A), A->ndim, A->sizes);
  bool ok = x && tli_lapack_identity(x) && solve_columns(op, A, &b, x, b.n, &out[1]);
  return solved(ok, x, out);
}

/* Computes the sign of a determinant and the logarithm of its magnitude from the LU factors of one
** matrix. */
static void log_det(const tl_Tensor *lu, const int *pivots, int n, int64_t offset, double *sign,
                    double *log_abs) {
  *sign = 1;
  *log_abs = 0;
  for (int d = 0; d < n; d++) {
    double u = lu->dtype == TL_F32 ? (double)((float *)tli_data(lu))[offset + (int64_t)d * n + d]
                                   : ((double *)tli_data(lu))[offset + (int64_t)d * n + d];
    if (pivots[d] != d + 1) *sign = -*sign;
    if (u == 0) *sign = 0;
    if (u < 0) *sign = -*sign;
    *log_abs += log(fabs(u));
    if (isnan(u)) *sign = NAN;
  }
}

static void store_number(tl_Tensor *t, int64_t i, double value) {
  if (t->dtype == TL_F32)
    ((float *)tli_data(t))[i] = (float)value;
  else
    ((double *)tli_data(t))[i] = value;
}

/* Computes the results of log_dets with operators, for batches that are complex or not on the CPU.
** Each exchange of two rows flips the sign of a determinant. */
static bool log_dets_by_operators(tl_Tensor *lu, tl_Tensor *pivots, tl_Tensor **out) {
  tl_Ints last = {1, (int64_t[]){-1}};
  tl_Scalar one = tli_int(1), end = tli_int(lu->sizes[lu->ndim - 1] + 1);
  tli_Chain c = {0};
  tl_Tensor *u = TLI_STEP(&c, tlo_diagonal(lu, 0, -2, -1));
  tl_Tensor *in_place = TLI_STEP(&c, tlo_arange(one, end, one, TL_I32, tli_device(lu)));
  tl_Tensor *moved = TLI_STEP(&c, tlo_ne(pivots, in_place));
  tl_Tensor *exchanges = TLI_STEP(&c, tlo_sum(moved, last, false, TL_NODTYPE));
  tl_Tensor *odd = chain_with_int(&c, tlo_remainder, exchanges, 2);
  tl_Tensor *turned = chain_with_int(&c, tlo_ne, odd, 0);
  tl_Tensor *signs = TLI_STEP(&c, tlo_sgn(u));
  tl_Tensor *sign = TLI_STEP(&c, tlo_prod(signs, -1, false, TL_NODTYPE));
  tl_Tensor *other = chain_neg(&c, sign);
  tl_Tensor *size = TLI_STEP(&c, tlo_abs(u));
  tl_Tensor *logs = TLI_STEP(&c, tlo_log(size));
  out[0] = TLI_STEP(&c, tlo_where(turned, other, sign));
  out[1] = TLI_STEP(&c, tlo_sum(logs, last, false, TL_NODTYPE));
  return tli_chain_end_all(&c, out, 2);
}

static bool log_dets(const char *op, tl_Tensor *A, tl_Tensor **out) {
  tli_Matrices b;
  tl_Tensor *lu[3];
  TL_TRY(tli_lapack_matrices(op, A, true, &b) && factor(op, A, &b, lu));
  if (!by_loop(A)) {
    bool made = log_dets_by_operators(lu[0], lu[1], out);
    tli_release_results(lu, 3);
    return made;
  }
  out[0] = tli_empty((tl_DType)A->dtype, tli_device(A), b.nbatch, A->sizes);
  out[1] = tli_empty((tl_DType)A->dtype, tli_device(A), b.nbatch, A->sizes);
  bool ok = out[0] && out[1];
  for (int64_t i = 0; ok && i < b.count; i++) {
    double sign, log_abs;
    log_det(lu[0], (const int *)tli_data(lu[1]) + i * b.n, b.n, i * b.n * b.n, &sign, &log_abs);
    store_number(out[0], i, sign);
    store_number(out[1], i, log_abs);
  }
  tli_release_results(lu, 3);
  if (!ok) tli_release_results(out, 2);
  return ok;
}

bool tli_op_slogdet(tl_Tensor *A, tl_Tensor **out) { return log_dets("linalg.slogdet", A, out); }

tl_Tensor *tli_op_det(tl_Tensor *A) {
  tl_Tensor *parts[2] = {NULL, NULL};
  TL_TRY_NULL(log_dets("linalg.det", A, parts));
  if (!by_loop(A)) {
    tli_Chain c = {0};
    tl_Tensor *size = TLI_STEP(&c, tlo_exp(parts[1]));
    tl_Tensor *det = tli_chain_end(&c, chain_mul(&c, parts[0], size));
    tli_release_results(parts, 2);
    return det;
  }
  for (int64_t i = 0; i < parts[0]->numel; i++) {
    double sign = tli_to_double(
        tli_load((char *)tli_data(parts[0]) + i * (int64_t)tl_dtype_size((tl_DType)A->dtype),
                 (tl_DType)A->dtype));
    double log_abs = tli_to_double(
        tli_load((char *)tli_data(parts[1]) + i * (int64_t)tl_dtype_size((tl_DType)A->dtype),
                 (tl_DType)A->dtype));
    store_number(parts[0], i, sign == 0 ? 0 : sign * exp(log_abs));
  }
  tli_release(parts[1]);
  return parts[0];
}

/* Computes the order of the rows after the first k exchanges. Exchange i swaps row i with row
** pivot[i]. Pivots count from 1. */
static bool exchange(const int *pivot, int64_t k, int64_t m, int64_t *order) {
  for (int64_t i = 0; i < m; i++) order[i] = i;
  for (int64_t i = 0; i < k; i++) {
    int64_t other = pivot[i] - (int64_t)1, kept = order[i];
    if (other < 0 || other >= m)
      return tli_fail(TL_EINDEX, "linalg: expected as pivots rows from 1 to %" PRId64 ", got %d", m,
                      pivot[i]);
    order[i] = order[other];
    order[other] = kept;
  }
  return true;
}

tl_Tensor *tli_op_pivot_matrix(tl_Tensor *pivots, int64_t m, tl_DType dtype) {
  TL_TRY_NULL(tli_lapack_dtype("linalg", dtype));
  if (pivots->ndim < 1 || tli_dtype_category((tl_DType)pivots->dtype) != TLI_INT ||
      pivots->sizes[pivots->ndim - 1] > m)
    return tli_fail_null(TL_ESHAPE,
                         "linalg: expected as pivots at most %" PRId64
                         " integers for each matrix, got %s %s",
                         m, tli_sizes_str(pivots), tl_dtype_name((tl_DType)pivots->dtype));
  int64_t k = pivots->sizes[pivots->ndim - 1], count = k ? pivots->numel / k : 0;
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < pivots->ndim - 1; d++) sizes[d] = pivots->sizes[d];
  if (k == 0) {
    count = 1;
    for (int d = 0; d < pivots->ndim - 1; d++) count *= sizes[d];
  }
  sizes[pivots->ndim - 1] = sizes[pivots->ndim] = m;
  tl_Tensor *p = tli_empty(dtype, tli_device(pivots), pivots->ndim + 1, sizes);
  if (!tli_has_values(pivots)) return p;
  tl_Tensor *plain = p ? tli_contiguous_as(pivots, TL_I32) : NULL;
  size_t bytes = (size_t)(m ? m : 1) * sizeof(int64_t);
  int64_t *order = plain && tli_fill(p, tli_int(0)) ? tli_alloc(bytes) : NULL;
  if (order == NULL) {
    tli_release(p);
    tli_release(plain);
    return NULL;
  }
  bool ok = true;
  for (int64_t b = 0; ok && b < count; b++) {
    ok = exchange((const int *)tli_data(plain) + b * k, k, m, order);
    for (int64_t i = 0; ok && i < m; i++) {
      int64_t at = (b * m + order[i]) * m + i;
      tli_store((char *)tli_data(p) + at * tli_dtype_bytes[dtype], dtype, tli_int(1));
    }
  }
  tli_free(order, bytes);
  tli_release(plain);
  if (ok) return p;
  tli_release(p);
  return NULL;
}

tl_Tensor *tli_op_triangular(tl_Tensor *A, tl_Tensor *B, bool upper, bool transpose, bool unit) {
  const char *op = "linalg.solve_triangular";
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, true, &b)) return NULL;
  tl_Tensor *a = tli_contiguous_as(A, (tl_DType)A->dtype);
  tl_Tensor *x = a ? tli_empty((tl_DType)B->dtype, tli_device(B), B->ndim, B->sizes) : NULL;
  bool ok = x && tli_copy(x, B) &&
            lib->trsm(tli_lapack_context(A), (tl_DType)A->dtype, true, upper, transpose, unit,
                      b.count, b.n, (int)B->sizes[B->ndim - 1], tli_data(a), tli_data(x));
  tli_release(a);
  if (!ok) tli_release(x), x = NULL;
  return x;
}

tl_Tensor *tli_op_cholesky_solved(tl_Tensor *B, tl_Tensor *L, bool upper) {
  tl_Tensor *Lc = tli_op_conj(L);
  tl_Tensor *y = Lc ? tli_op_triangular(upper ? Lc : L, B, upper, upper, false) : NULL;
  tl_Tensor *x = y ? tli_op_triangular(upper ? L : Lc, y, upper, !upper, false) : NULL;
  tli_release(Lc);
  tli_release(y);
  return x;
}
