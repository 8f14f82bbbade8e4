/*
** qr.c - the QR factorization, and the orthogonal matrices that reflectors represent.
*/
#include <string.h>

#include "ops/chain.h"
#include "ops/linalg/lapack.h"

typedef struct QrPlan {
  int q_columns; /* number of columns of Q; 0 in mode "r", which computes no Q */
  int r_rows;
} QrPlan;

static bool qr_plan(const char *mode, const tli_Matrices *b, QrPlan *plan) {
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

/* Returns R: the upper triangle of the first r_rows rows of a, which holds geqrf's factors in
** column-major order. */
static tl_Tensor *qr_upper(const tl_Tensor *a, const tli_Matrices *b, int r_rows) {
  tl_Tensor *view = tli_lapack_swapped(a); /* (..., m, n) */
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

/* Copies the reflectors to the first columns of a column-major matrix (m, ncolumns). */
static tl_Tensor *qr_reflectors(const tl_Tensor *a, const tli_Matrices *b, int ncolumns) {
  tl_Tensor *q = tli_lapack_empty(a, b, (tl_DType)a->dtype, 2, ncolumns, b->m);
  if (q == NULL || !tli_fill(q, tli_int(0))) return tli_release(q), NULL;
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < a->ndim; d++) sizes[d] = a->sizes[d];
  sizes[a->ndim - 2] = ncolumns < b->n ? ncolumns : b->n;
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
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, false, &b)) return false;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *a = tli_lapack_columns(A);
  out[1] = a ? tli_lapack_empty(A, &b, dtype, 1, b.k, 0) : NULL;
  bool any = b.count > 0 && b.k > 0;
  bool ok = out[1] && (!any || lib->geqrf(tli_lapack_context(A), dtype, b.count, b.m, b.n,
                                          tli_data(a), tli_data(out[1])));
  out[0] = tli_lapack_rows(a);
  if (ok && out[0]) return true;
  tli_release_results(out, 2);
  return false;
}

tl_Tensor *tli_op_householder_columns(tl_Tensor *A, tl_Tensor *tau) {
  const char *op = "linalg.householder_product";
  tli_Matrices b;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, false, &b)) return NULL;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *scales = tli_contiguous_as(tau, dtype), *a = scales ? tli_lapack_columns(A) : NULL;
  bool ok = a && (b.count == 0 ||
                  lib->orgqr(tli_lapack_context(A), dtype, b.count, b.m, b.n,
                             (int)tau->sizes[tau->ndim - 1], tli_data(a), tli_data(scales)));
  tli_release(scales);
  if (ok) return tli_lapack_rows(a);
  tli_release(a);
  return NULL;
}

bool tli_op_qr(tl_Tensor *A, const char *mode, tl_Tensor **out) {
  const char *op = "linalg.qr";
  tli_Matrices b;
  QrPlan plan = {0, 0};
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, false, &b) || !qr_plan(mode, &b, &plan))
    return false;
  tl_DType dtype = (tl_DType)A->dtype;
  tl_Tensor *a = tli_lapack_columns(A), *q = NULL;
  tl_Tensor *tau = a ? tli_lapack_empty(A, &b, dtype, 1, b.k, 0) : NULL;
  bool any = b.count > 0 && b.k > 0;
  bool ok = tau && (!any || lib->geqrf(tli_lapack_context(A), dtype, b.count, b.m, b.n, tli_data(a),
                                       tli_data(tau)));
  out[1] = ok ? qr_upper(a, &b, plan.r_rows) : NULL;
  ok = ok && out[1];
  if (ok && plan.q_columns == 0 && strcmp(mode, "r") == 0) {
    out[0] = tli_empty(dtype, tli_device(A), 1, (int64_t[]){0});
    ok = out[0] != NULL;
  } else if (ok) {
    q = plan.q_columns == b.n ? tli_retain(a) : qr_reflectors(a, &b, plan.q_columns);
    ok = q && (b.count == 0 || plan.q_columns == 0 || b.m == 0 ||
               lib->orgqr(tli_lapack_context(A), dtype, b.count, b.m, plan.q_columns, b.k,
                          tli_data(q), tli_data(tau)));
    out[0] = ok ? tli_lapack_rows(q) : (tli_release(q), NULL);
    ok = ok && out[0];
  }
  tli_release(a);
  tli_release(tau);
  if (!ok) tli_release_results(out, 2);
  return ok;
}
