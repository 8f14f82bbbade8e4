/*
** lapack.c - torch.linalg's factorizations: checks, column-major copies, calls of the back
** end's LAPACK, and results as views of its output. A column-major copy is a row-major copy of
** the transpose.
*/
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/kernel/lapack.h"
#include "ops/chain.h"
#include "ops/linalg/lapack.h"

/* A batch of matrices: the last two dimensions of a tensor. */
typedef struct Batch {
  int64_t count;
  int m, n, k; /* k = min(m, n) */
  int nbatch;  /* dimensions before the last two */
} Batch;

static const tlk_Lapack *lapack(const char *op, const tl_Tensor *t) {
  const tlk_Lapack *table = tli_lapack(tli_device(t));
  if (table == NULL)
    tli_fail(TL_EDEVICE, "%s: not available on %s", op, tli_device_str(tli_device(t)));
  return table;
}

static const tlk_Context *at(const tl_Tensor *t) { return tli_context(tli_device(t)); }

static bool on_cpu(const tl_Tensor *t) { return tli_device(t).type == TL_CPU; }

static bool matrices(const char *op, const tl_Tensor *t, bool square, Batch *b) {
  if (t->dtype != TL_F32 && t->dtype != TL_F64)
    return tli_fail(TL_EDTYPE, "%s: expected float32 or float64, got %s", op,
                    tl_dtype_name((tl_DType)t->dtype));
  if (t->ndim < 2)
    return tli_fail(TL_ESHAPE, "%s: expected a matrix or a batch of them, got shape %s", op,
                    tli_sizes_str(t));
  int64_t m = t->sizes[t->ndim - 2], n = t->sizes[t->ndim - 1];
  if (square && m != n)
    return tli_fail(TL_ESHAPE, "%s: expected square matrices, got shape %s", op, tli_sizes_str(t));
  if (m > INT32_MAX || n > INT32_MAX)
    return tli_fail(TL_ESHAPE, "%s: expected sizes below 2^31, got shape %s", op, tli_sizes_str(t));
  *b = (Batch){1, (int)m, (int)n, (int)(m < n ? m : n), t->ndim - 2};
  for (int d = 0; d < b->nbatch; d++) b->count *= t->sizes[d];
  return true;
}

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* Returns a new tensor (batch..., sizes...). */
static tl_Tensor *batch_empty(const tl_Tensor *like, const Batch *b, tl_DType dtype, int ndim,
                              int64_t size1, int64_t size2) {
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < b->nbatch; d++) sizes[d] = like->sizes[d];
  sizes[b->nbatch] = size1;
  if (ndim == 2) sizes[b->nbatch + 1] = size2;
  return tli_empty(dtype, tli_device(like), b->nbatch + ndim, sizes);
}

/* Returns t with its last two dimensions swapped, as an unrecorded view. */
static tl_Tensor *swapped(const tl_Tensor *t) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < t->ndim; d++) {
    int from = d == t->ndim - 1 ? d - 1 : d == t->ndim - 2 ? d + 1 : d;
    sizes[d] = t->sizes[from];
    strides[d] = t->strides[from];
  }
  return tli_alias(t, t->ndim, sizes, strides, t->offset);
}

/* Returns a column-major copy, stored as the row-major tensor of the transposes. */
static tl_Tensor *columns(const tl_Tensor *t) {
  tl_Tensor *view = swapped(t);
  tl_Tensor *copy =
      view ? tli_empty((tl_DType)t->dtype, tli_device(t), view->ndim, view->sizes) : NULL;
  if (copy && !tli_copy(copy, view)) tli_release(copy), copy = NULL;
  tli_release(view);
  return copy;
}

/* Converts a column-major result to the matrix that it represents; steals it. */
static tl_Tensor *rows(tl_Tensor *steals) {
  tl_Tensor *view = steals ? swapped(steals) : NULL;
  tli_release(steals);
  return view;
}

/* LAPACK's int results, one or more for each matrix. */
typedef struct Infos {
  int *v;
  int64_t n;
} Infos;

static bool infos_new(Infos *i, int64_t n) {
  i->n = n;
  i->v = tli_alloc((size_t)(n ? n : 1) * sizeof(int));
  return i->v != NULL;
}

static void infos_free(Infos *i) { tli_free(i->v, (size_t)(i->n ? i->n : 1) * sizeof(int)); }

static bool fine(const int *info, int64_t n, const char *op, const char *what) {
  for (int64_t b = 0; b < n; b++) {
    if (info[b] == 0) continue; /* a negative info means that LAPACK itself has found NaN */
    if (n > 1) return tli_fail(TL_EARG, "%s: matrix " TLI_POS " of the batch %s", op, b, what);
    return tli_fail(TL_EARG, "%s: the matrix %s", op, what);
  }
  return true;
}

static bool infos_fine(const Infos *i, const char *op, const char *what) {
  return fine(i->v, i->n, op, what);
}

/* Returns one info for each matrix, initially 0. */
static tl_Tensor *new_info(const tl_Tensor *A, const Batch *b) {
  tl_Tensor *info = tli_empty(TL_I32, tli_device(A), b->nbatch, A->sizes);
  if (info && !tli_fill(info, tli_int(0))) tli_release(info), info = NULL;
  return info;
}

bool tli_info_fine(tl_Tensor *info, const char *op, const char *what) {
  if (!tli_has_values(info)) return true;
  tl_Tensor *here = tli_moved(info, TLI_CPU, false);
  bool ok = here && fine(tli_data(here), here->numel, op, what);
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
  Batch b;
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, true, &b)) return false;
  tl_Tensor *a = columns(A);
  out[1] = a ? new_info(A, &b) : NULL;
  bool ok = out[1] &&
            (b.count == 0 || b.n == 0 ||
             lib->potrf(at(A), (tl_DType)a->dtype, b.count, b.n, tli_data(a), tli_data(out[1])));
  a = rows(a);
  out[0] = ok && a ? tli_op_tril(a, 0) : NULL;
  tli_release(a);
  if (out[0]) return true;
  tli_release_results(out, 2);
  return false;
}

/* ---- L D L^T ---- */

bool tli_op_ldl_factor_info(tl_Tensor *A, tl_Tensor **out) {
  const char *op = "linalg.ldl_factor";
  Batch b;
  const tlk_Lapack *lib = lapack(op, A);
  out[0] = out[1] = out[2] = NULL;
  if (lib == NULL || !matrices(op, A, true, &b)) return false;
  tl_Tensor *a = columns(A);
  out[1] = a ? batch_empty(A, &b, TL_I32, 1, b.n, 0) : NULL;
  out[2] = out[1] ? new_info(A, &b) : NULL;
  bool ok = out[2] && (b.count == 0 || b.n == 0 ||
                       lib->sytrf(at(A), (tl_DType)a->dtype, b.count, b.n, tli_data(a),
                                  tli_data(out[1]), tli_data(out[2])));
  a = rows(a);
  out[0] = ok && a ? tli_op_tril(a, 0) : NULL;
  tli_release(a);
  if (out[0]) return true;
  tli_release_results(out, 3);
  return false;
}

/* Checks that sytrs accepts the pivots: rows from 1 to n, and the same negative row twice for a
** block of size 2. */
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

/* All operands have the same batch. */
tl_Tensor *tli_op_ldl_solved(tl_Tensor *LD, tl_Tensor *pivots, tl_Tensor *B) {
  const char *op = "linalg.ldl_solve";
  Batch b;
  const tlk_Lapack *lib = lapack(op, LD);
  TL_TRY_NULL(lib && matrices(op, LD, true, &b));
  int64_t nrhs = B->sizes[B->ndim - 1];
  tl_Tensor *a = columns(LD), *x = a ? columns(B) : NULL;
  tl_Tensor *order = x ? tli_contiguous_as(pivots, TL_I32) : NULL;
  bool ok = order && check_blocks(op, order, b.count, b.n);
  ok = ok && (b.count == 0 || b.n == 0 || nrhs == 0 ||
              lib->sytrs(at(LD), (tl_DType)LD->dtype, b.count, b.n, (int)nrhs, tli_data(a),
                         tli_data(order), tli_data(x)));
  tli_release(a);
  tli_release(order);
  x = rows(x);
  if (!ok) tli_release(x), x = NULL;
  return x;
}

/* ---- LU and solving by it ---- */

/* Computes the factors (column-major), pivots and info of self. */
static bool factor(const char *op, tl_Tensor *self, const Batch *b, tl_Tensor **out) {
  const tlk_Lapack *lib = lapack(op, self);
  for (int i = 0; i < 3; i++) out[i] = NULL;
  if (lib == NULL) return false;
  out[0] = columns(self);
  out[1] = out[0] ? batch_empty(self, b, TL_I32, 1, b->k, 0) : NULL;
  out[2] = out[1] ? new_info(self, b) : NULL;
  bool ok = out[2] && (b->count == 0 || b->k == 0 ||
                       lib->getrf(at(self), (tl_DType)self->dtype, b->count, b->m, b->n,
                                  tli_data(out[0]), tli_data(out[1]), tli_data(out[2])));
  if (!ok) tli_release_results(out, 3);
  return ok;
}

bool tli_op_lu_factor_info(tl_Tensor *A, bool pivot, tl_Tensor **out) {
  const char *op = "linalg.lu_factor";
  Batch b;
  if (!pivot)
    return tli_fail(TL_EARG, "%s: pivot: expected true: there is no factorization without pivoting",
                    op);
  TL_TRY(matrices(op, A, false, &b) && factor(op, A, &b, out));
  out[0] = rows(out[0]);
  if (out[0]) return true;
  tli_release_results(out, 3);
  return false;
}

/* Replaces x (column-major), which holds the right side, by the solution of A x = b. For
** singular matrices it is NaN or infinite. */
static bool solve_columns(const char *op, tl_Tensor *A, const Batch *b, tl_Tensor *x, int nrhs,
                          tl_Tensor **info) {
  tl_Tensor *lu[3];
  TL_TRY(factor(op, A, b, lu));
  bool ok = b->count == 0 || b->n == 0 || nrhs == 0 ||
            lapack(op, A)->getrs(at(A), (tl_DType)A->dtype, b->count, b->n, nrhs, tli_data(lu[0]),
                                 (const int *)tli_data(lu[1]), tli_data(x));
  *info = ok ? tli_retain(lu[2]) : NULL;
  tli_release_results(lu, 3);
  return ok;
}

/* Returns both results or neither. Steals x. */
static bool solved(bool ok, tl_Tensor *x, tl_Tensor **out) {
  out[0] = rows(x);
  if (ok && out[0]) return true;
  tli_release_results(out, 2);
  return false;
}

bool tli_op_solve_info(tl_Tensor *A, tl_Tensor *B, tl_Tensor **out) {
  const char *op = "linalg.solve";
  Batch b;
  TL_TRY(matrices(op, A, true, &b));
  tl_Tensor *x = columns(B);
  bool ok = x && solve_columns(op, A, &b, x, (int)B->sizes[B->ndim - 1], &out[1]);
  return solved(ok, x, out);
}

/* Sets t, a dense batch of square matrices, to identities. */
static bool set_identity(tl_Tensor *t) {
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
  Batch b;
  TL_TRY(matrices(op, A, true, &b));
  tl_Tensor *x = tli_empty((tl_DType)A->dtype, tli_device(A), A->ndim, A->sizes);
  bool ok = x && set_identity(x) && solve_columns(op, A, &b, x, b.n, &out[1]);
  return solved(ok, x, out);
}

/* Computes sign and logarithm of |det| from the factors of one matrix. */
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

/* The same for a batch that is not on the CPU. Each exchange of two rows flips the sign. */
static bool log_dets_there(tl_Tensor *lu, tl_Tensor *pivots, tl_Tensor **out) {
  tl_Ints last = {1, (int64_t[]){-1}};
  tl_Scalar one = tli_int(1), end = tli_int(lu->sizes[lu->ndim - 1] + 1);
  tli_Chain c = {0};
  tl_Tensor *u = TLI_STEP(&c, tlo_diagonal(lu, 0, -2, -1));
  tl_Tensor *in_place = TLI_STEP(&c, tlo_arange(one, end, one, TL_I32, tli_device(lu)));
  tl_Tensor *moved = TLI_STEP(&c, tlo_ne(pivots, in_place));
  tl_Tensor *exchanges = TLI_STEP(&c, tlo_sum(moved, last, false, TL_NODTYPE));
  tl_Tensor *odd = chain_with_int(&c, tlo_remainder, exchanges, 2);
  tl_Tensor *turned = chain_with_int(&c, tlo_ne, odd, 0);
  tl_Tensor *signs = TLI_STEP(&c, tlo_sign(u));
  tl_Tensor *sign = TLI_STEP(&c, tlo_prod(signs, -1, false, TL_NODTYPE));
  tl_Tensor *other = chain_neg(&c, sign);
  tl_Tensor *size = TLI_STEP(&c, tlo_abs(u));
  tl_Tensor *logs = TLI_STEP(&c, tlo_log(size));
  out[0] = TLI_STEP(&c, tlo_where(turned, other, sign));
  out[1] = TLI_STEP(&c, tlo_sum(logs, last, false, TL_NODTYPE));
  return tli_chain_end_all(&c, out, 2);
}

static bool log_dets(const char *op, tl_Tensor *A, tl_Tensor **out) {
  Batch b;
  tl_Tensor *lu[3];
  TL_TRY(matrices(op, A, true, &b) && factor(op, A, &b, lu));
  if (!on_cpu(A)) {
    bool made = log_dets_there(lu[0], lu[1], out);
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
  if (!on_cpu(A)) {
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

/* Computes the order of the rows after k exchanges of row i with row pivot[i], counted from 1. */
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
  if (dtype != TL_F32 && dtype != TL_F64)
    return tli_fail_null(TL_EDTYPE, "linalg: expected float32 or float64, got %s",
                         tl_dtype_name(dtype));
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
  Batch b;
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, true, &b)) return NULL;
  tl_Tensor *a = tli_contiguous_as(A, (tl_DType)A->dtype);
  tl_Tensor *x = a ? tli_empty((tl_DType)B->dtype, tli_device(B), B->ndim, B->sizes) : NULL;
  bool ok = x && tli_copy(x, B) &&
            lib->trsm(at(A), (tl_DType)A->dtype, true, upper, transpose, unit, b.count, b.n,
                      (int)B->sizes[B->ndim - 1], tli_data(a), tli_data(x));
  tli_release(a);
  if (!ok) tli_release(x), x = NULL;
  return x;
}

tl_Tensor *tli_op_cholesky_solved(tl_Tensor *B, tl_Tensor *L, bool upper) {
  tl_Tensor *y = tli_op_triangular(L, B, upper, upper, false);
  tl_Tensor *x = y ? tli_op_triangular(L, y, upper, !upper, false) : NULL;
  tli_release(y);
  return x;
}

/* ---- QR ---- */

typedef struct QrPlan {
  int q_columns; /* columns of Q that are computed; 0 for mode "r" */
  int r_rows;
} QrPlan;

static bool qr_plan(const char *mode, const Batch *b, QrPlan *plan) {
  if (strcmp(mode, "reduced") == 0)
    *plan = (QrPlan){b->k, b->k};
  else if (strcmp(mode, "complete") == 0)
    *plan = (QrPlan){b->m, b->m};
  else if (strcmp(mode, "r") == 0)
    *plan = (QrPlan){0, b->k};
  else
    return tli_fail(TL_EARG, "linalg.qr: mode: expected 'reduced', 'complete' or 'r', got '%.40s'",
                    mode);
  return true;
}

/* Returns the upper triangle of the first r_rows rows of a factored (column-major) a. */
static tl_Tensor *qr_upper(const tl_Tensor *a, const Batch *b, int r_rows) {
  tl_Tensor *view = swapped(a); /* (..., m, n) */
  if (view == NULL) return NULL;
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < view->ndim; d++) sizes[d] = view->sizes[d];
  sizes[view->ndim - 2] = r_rows < b->m ? r_rows : b->m;
  tl_Tensor *top = tli_alias(view, view->ndim, sizes, view->strides, view->offset);
  tl_Tensor *r = top ? tli_op_triu(top, 0) : NULL;
  tli_release(top);
  tli_release(view);
  return r;
}

/* Copies the reflectors to the first columns of a (m, columns) column-major matrix. */
static tl_Tensor *qr_reflectors(const tl_Tensor *a, const Batch *b, int ncolumns) {
  tl_Tensor *q = batch_empty(a, b, (tl_DType)a->dtype, 2, ncolumns, b->m);
  if (q == NULL || !tli_fill(q, tli_int(0))) return tli_release(q), NULL;
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < a->ndim; d++) sizes[d] = a->sizes[d];
  sizes[a->ndim - 2] = least(ncolumns, b->n);
  tl_Tensor *to = tli_alias(q, q->ndim, sizes, q->strides, q->offset);
  tl_Tensor *from = to ? tli_alias(a, a->ndim, sizes, a->strides, a->offset) : NULL;
  bool ok = from && tli_copy(to, from);
  tli_release(to);
  tli_release(from);
  if (!ok) tli_release(q), q = NULL;
  return q;
}

bool tli_op_geqrf(tl_Tensor *A, tl_Tensor **out) {
  const char *op = "geqrf";
  Batch b;
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, false, &b)) return false;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *a = columns(A);
  out[1] = a ? batch_empty(A, &b, dtype, 1, b.k, 0) : NULL;
  bool any = b.count > 0 && b.k > 0;
  bool ok = out[1] &&
            (!any || lib->geqrf(at(A), dtype, b.count, b.m, b.n, tli_data(a), tli_data(out[1])));
  out[0] = rows(a);
  if (ok && out[0]) return true;
  tli_release_results(out, 2);
  return false;
}

tl_Tensor *tli_op_householder_columns(tl_Tensor *A, tl_Tensor *tau) {
  const char *op = "linalg.householder_product";
  Batch b;
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, false, &b)) return NULL;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *scales = tli_contiguous_as(tau, dtype), *a = scales ? columns(A) : NULL;
  bool ok = a && (b.count == 0 ||
                  lib->orgqr(at(A), dtype, b.count, b.m, b.n, (int)tau->sizes[tau->ndim - 1],
                             tli_data(a), tli_data(scales)));
  tli_release(scales);
  if (ok) return rows(a);
  tli_release(a);
  return NULL;
}

bool tli_op_qr(tl_Tensor *A, const char *mode, tl_Tensor **out) {
  const char *op = "linalg.qr";
  Batch b;
  QrPlan plan = {0, 0};
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, false, &b) || !qr_plan(mode, &b, &plan)) return false;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *a = columns(A), *q = NULL;
  tl_Tensor *tau = a ? batch_empty(A, &b, dtype, 1, b.k, 0) : NULL;
  bool any = b.count > 0 && b.k > 0;
  bool ok =
      tau && (!any || lib->geqrf(at(A), dtype, b.count, b.m, b.n, tli_data(a), tli_data(tau)));
  out[1] = ok ? qr_upper(a, &b, plan.r_rows) : NULL;
  ok = ok && out[1];
  if (ok && plan.q_columns == 0 && strcmp(mode, "r") == 0) {
    out[0] = tli_empty(dtype, tli_device(A), 1, (int64_t[]){0});
    ok = out[0] != NULL;
  } else if (ok) {
    q = qr_reflectors(a, &b, plan.q_columns);
    ok = q &&
         (b.count == 0 || plan.q_columns == 0 || b.m == 0 ||
          lib->orgqr(at(A), dtype, b.count, b.m, plan.q_columns, b.k, tli_data(q), tli_data(tau)));
    out[0] = ok ? rows(q) : (tli_release(q), NULL);
    ok = ok && out[0];
  }
  tli_release(a);
  tli_release(tau);
  if (!ok) tli_release_results(out, 2);
  return ok;
}

/* ---- singular values and eigenvalues ---- */

static const char stuck[] = "has not converged (does it hold NaN?)";

/* Whether a device's Jacobi rotations have not converged; LAPACK on the CPU may. */
static bool may_converge_here(const tl_Tensor *A) {
  return tli_device(A).type != TL_CPU && tl_error_kind() == TL_EARG;
}

static bool svd(const char *op, tl_Tensor *A, char job, tl_Tensor **out);

static bool svd_on_host(const char *op, tl_Tensor *A, char job, tl_Tensor **out) {
  tl_Tensor *here = tli_moved(A, TLI_CPU, false);
  bool ok = here && svd(op, here, job, out) && tli_from_host(tli_device(A), out, 3);
  tli_release(here);
  return ok;
}

static bool svd(const char *op, tl_Tensor *A, char job, tl_Tensor **out) {
  Batch b;
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, false, &b)) return false;
  tl_DType dtype = (tl_DType)A->dtype;
  int64_t nu = job == 'A'   ? b.m
               : job == 'S' ? b.k
                            : 0,
          nv = job == 'A'   ? b.n
               : job == 'S' ? b.k
                            : 0;
  tl_Tensor *a = columns(A), *info = a ? new_info(A, &b) : NULL;
  out[0] = info ? batch_empty(A, &b, dtype, 2, nu, b.m) : NULL;
  out[1] = out[0] ? batch_empty(A, &b, dtype, 1, b.k, 0) : NULL;
  out[2] = out[1] ? batch_empty(A, &b, dtype, 2, b.n, nv) : NULL;
  bool ok = out[2] != NULL, again = false;
  if (ok && b.k == 0) { /* without singular values, the orthogonal factors are identities */
    ok = job != 'A' || (set_identity(out[0]) && set_identity(out[2]));
  } else if (ok && b.count > 0) {
    ok = lib->gesdd(at(A), dtype, job, b.count, b.m, b.n, tli_data(a), tli_data(out[1]),
                    tli_data(out[0]), tli_data(out[2]), tli_data(info)) &&
         tli_info_fine(info, op, stuck);
    again = !ok && may_converge_here(A);
  }
  tli_release(info);
  tli_release(a);
  if (ok) {
    out[0] = rows(out[0]);
    out[2] = rows(out[2]);
    ok = out[0] && out[2];
  }
  if (!ok) tli_release_results(out, 3);
  return again ? svd_on_host(op, A, job, out) : ok;
}

bool tli_op_svd_full(tl_Tensor *A, bool full_matrices, tl_Tensor **out) {
  return svd("linalg.svd", A, full_matrices ? 'A' : 'S', out);
}

static bool eigh(const char *op, tl_Tensor *A, const char *UPLO, bool vectors, tl_Tensor **out) {
  Batch b;
  bool upper = UPLO[0] == 'U' || UPLO[0] == 'u';
  if ((!upper && UPLO[0] != 'L' && UPLO[0] != 'l') || UPLO[1])
    return tli_fail(TL_EARG, "%s: UPLO: expected 'L' or 'U', got '%.40s'", op, UPLO);
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, true, &b)) return false;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *info = new_info(A, &b);
  out[1] = info ? columns(A) : NULL;
  out[0] = out[1] ? batch_empty(A, &b, dtype, 1, b.n, 0) : NULL;
  bool ok = out[0] && (b.count == 0 || b.n == 0 ||
                       (lib->syevd(at(A), dtype, vectors, upper, b.count, b.n, tli_data(out[1]),
                                   tli_data(out[0]), tli_data(info)) &&
                        tli_info_fine(info, op, stuck)));
  tli_release(info);
  if (ok) {
    out[1] = rows(out[1]);
    ok = out[1] != NULL;
  }
  if (!ok) tli_release_results(out, 2);
  return ok;
}

bool tli_op_eigh(tl_Tensor *A, const char *UPLO, tl_Tensor **out) {
  return eigh("linalg.eigh", A, UPLO, true, out);
}

static double epsilon(const tl_Tensor *t) { return t->dtype == TL_F32 ? FLT_EPSILON : DBL_EPSILON; }

/* ---- least squares ---- */

/* Copies B's columns to a column-major matrix of max(m, n) rows, with at least one column,
** because gelsd requires one. */
static tl_Tensor *padded_columns(const tl_Tensor *B, const Batch *b, int64_t nrhs) {
  int64_t ld = b->m > b->n ? b->m : b->n;
  tl_Tensor *x = batch_empty(B, b, (tl_DType)B->dtype, 2, nrhs > 0 ? nrhs : 1, ld);
  if (x == NULL || !tli_fill(x, tli_int(0))) return tli_release(x), NULL;
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < x->ndim; d++) sizes[d] = x->sizes[d], strides[d] = x->strides[d];
  sizes[x->ndim - 2] = b->m, sizes[x->ndim - 1] = nrhs;
  strides[x->ndim - 2] = 1, strides[x->ndim - 1] = ld;
  tl_Tensor *top = tli_alias(x, x->ndim, sizes, strides, x->offset);
  bool ok = top && tli_copy(top, B);
  tli_release(top);
  if (!ok) tli_release(x), x = NULL;
  return x;
}

/* Returns rows [begin, end) of gelsd's output as a matrix (end - begin, nrhs). */
static tl_Tensor *padded_rows(const tl_Tensor *x, int64_t begin, int64_t end, int64_t nrhs) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS], ld = x->sizes[x->ndim - 1];
  for (int d = 0; d < x->ndim; d++) sizes[d] = x->sizes[d], strides[d] = x->strides[d];
  sizes[x->ndim - 1] = nrhs, sizes[x->ndim - 2] = end - begin;
  strides[x->ndim - 2] = 1, strides[x->ndim - 1] = ld;
  return tli_alias(x, x->ndim, sizes, strides, x->offset + begin);
}

static tl_Tensor *lstsq_residuals(const tl_Tensor *x, const Batch *b, int64_t nrhs,
                                  const int *rank) {
  bool full = b->m > b->n;
  for (int64_t i = 0; i < b->count; i++) full = full && rank[i] == b->n;
  if (!full) return tli_empty((tl_DType)x->dtype, tli_device(x), 1, (int64_t[]){0});
  tl_Tensor *rest = padded_rows(x, b->n, b->m, nrhs);
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *squares = rest ? tlo_mul(rest, rest) : NULL;
  tl_Tensor *sums =
      squares ? tlo_sum(squares, (tl_Ints){1, (int64_t[]){-2}}, false, TL_NODTYPE) : NULL;
  tli_set_grad_mode(mode);
  tli_release(rest);
  tli_release(squares);
  return sums;
}

/* Checks for NaN and infinity: gelsd prints complaints about them, and may not terminate. */
static bool all_finite(const char *op, tl_Tensor *t) {
  bool finite;
  if (!tli_has_values(t)) return true;
  TL_TRY(tli_all_true(tlo_isfinite(t), &finite));
  return finite || tli_fail(TL_EARG, "%s: expected finite numbers, got NaN or infinity", op);
}

/* Does what gelsd does, on a device without such a routine: the least-norm solution, from the
** singular values above rcond times the largest one. */
static bool least_squares_there(tl_Tensor *A, tl_Tensor *B, const Batch *b, double rcond,
                                tl_Tensor **out) {
  tl_Tensor *usv[3];
  TL_TRY(svd("linalg.lstsq", A, 'S', usv));
  tli_Chain c = {0};
  tl_Tensor *s = usv[1];
  tl_Tensor *limit = chain_with(&c, tlo_mul, chain_slice(&c, s, -1, 0, 1), rcond);
  tl_Tensor *taken = TLI_STEP(&c, tlo_gt(s, limit));
  tl_Tensor *inverse = TLI_STEP(&c, tlo_reciprocal(s));
  tl_Tensor *scales = chain_unsqueeze(&c, chain_where_else(&c, taken, inverse, tli_int(0)), -1);
  tl_Tensor *shares = chain_mul(&c, chain_matmul(&c, chain_t(&c, usv[0]), B), scales);
  tl_Tensor *x = chain_matmul(&c, chain_t(&c, usv[2]), shares);
  tl_Ints last = {1, (int64_t[]){-1}}, above = {1, (int64_t[]){-2}};
  tl_Tensor *rank = TLI_STEP(&c, tlo_sum(taken, last, false, TL_NODTYPE));
  tl_Tensor *rest = chain_sub(&c, B, chain_matmul(&c, A, x));
  tl_Tensor *squares = chain_mul(&c, rest, rest);
  bool full = false;
  if (b->m > b->n) TLI_DO(&c, tli_all_true(tli_retain(taken), &full));
  tl_Tensor *residuals =
      full ? TLI_STEP(&c, tlo_sum(squares, above, false, TL_NODTYPE))
           : TLI_STEP(&c, tli_empty((tl_DType)A->dtype, tli_device(A), 1, (int64_t[]){0}));
  tl_Tensor *results[4] = {x, residuals, rank, s};
  memcpy(out, results, sizeof results);
  bool ok = tli_chain_end_all(&c, out, 4);
  tli_release_results(usv, 3);
  return ok;
}

bool tli_op_least_squares(tl_Tensor *A, tl_Tensor *B, double rcond, tl_Tensor **out) {
  const char *op = "linalg.lstsq";
  Batch b;
  Infos info, rank;
  const tlk_Lapack *lib = lapack(op, A);
  if (lib == NULL || !matrices(op, A, false, &b)) return false;
  bool fits = B->ndim == A->ndim && B->dtype == A->dtype && B->sizes[B->ndim - 2] == b.m;
  for (int d = 0; fits && d < b.nbatch; d++) fits = A->sizes[d] == B->sizes[d];
  if (!fits)
    return tli_fail(
        TL_ESHAPE,
        "%s: B: expected shape (..., %d, k) and dtype %s to go with A of shape %s, got %s %s", op,
        b.m, tl_dtype_name((tl_DType)A->dtype), tli_sizes_str(A), tli_sizes_str(B),
        tl_dtype_name((tl_DType)B->dtype));
  int64_t nrhs = B->sizes[B->ndim - 1];
  TL_TRY(all_finite(op, A) && all_finite(op, B));
  if (isnan(rcond)) rcond = epsilon(A) * (b.m > b.n ? b.m : b.n);
  bool values = tli_has_values(A); /* without values A is assumed to have full rank */
  if (!on_cpu(A) && values && b.count > 0 && b.k > 0) {
    bool mode = tli_set_grad_mode(false), made = least_squares_there(A, B, &b, rcond, out);
    tli_set_grad_mode(mode);
    return made;
  }
  TL_TRY(infos_new(&info, b.count));
  if (!infos_new(&rank, b.count)) return infos_free(&info), false;
  tl_Tensor *a = columns(A), *x = a ? padded_columns(B, &b, nrhs) : NULL;
  out[3] = x ? batch_empty(A, &b, (tl_DType)A->dtype, 1, b.k, 0) : NULL;
  out[2] = out[3] ? tli_empty(TL_I64, tli_device(A), b.nbatch, A->sizes) : NULL;
  bool ok = out[2] != NULL;
  for (int64_t i = 0; i < b.count; i++) rank.v[i] = values ? 0 : b.k, info.v[i] = 0;
  ok = ok && (b.count == 0 || b.k == 0 ||
              (lib->gelsd(at(A), (tl_DType)A->dtype, b.count, b.m, b.n, nrhs > 0 ? (int)nrhs : 1,
                          tli_data(a), tli_data(x), tli_data(out[3]), rcond, rank.v, info.v) &&
               infos_fine(&info, op, "has not converged (does it hold NaN?)")));
  ok = ok && tli_fill(out[2], tli_int(0));
  for (int64_t i = 0; ok && values && b.k > 0 && i < b.count; i++)
    ((int64_t *)tli_data(out[2]))[i] = rank.v[i];
  out[0] = ok ? padded_rows(x, 0, b.n, nrhs) : NULL;
  out[1] = out[0] ? lstsq_residuals(x, &b, nrhs, rank.v) : NULL;
  ok = out[1] != NULL;
  infos_free(&info);
  infos_free(&rank);
  tli_release(a);
  tli_release(x);
  if (!ok) tli_release_results(out, 4);
  return ok;
}
