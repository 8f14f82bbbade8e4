/*
** least_squares.c - least squares by singular values, for matrices of any rank.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/linalg/lapack.h"

/* Returns the squared magnitudes |t|^2 of all elements. */
static tl_Tensor *squares_of(tl_Tensor *t) {
  if (!tli_is_complex((tl_DType)t->dtype)) return tlo_mul(t, t);
  tl_Tensor *size = tlo_abs(t), *squares = size ? tlo_mul(size, size) : NULL;
  tli_release(size);
  return squares;
}

/* Copies the columns of B to a column-major matrix with max(m, n) rows and at least one column, as
** gelsd requires. */
static tl_Tensor *padded_columns(const tl_Tensor *B, const tli_Matrices *b, int64_t nrhs) {
  int64_t ld = b->m > b->n ? b->m : b->n;
  tl_Tensor *x = tli_lapack_empty(B, b, (tl_DType)B->dtype, 2, nrhs > 0 ? nrhs : 1, ld);
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

/* Returns rows [begin, end) of gelsd's output as a matrix of shape (end - begin, nrhs). */
static tl_Tensor *padded_rows(const tl_Tensor *x, int64_t begin, int64_t end, int64_t nrhs) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS], ld = x->sizes[x->ndim - 1];
  for (int d = 0; d < x->ndim; d++) sizes[d] = x->sizes[d], strides[d] = x->strides[d];
  sizes[x->ndim - 1] = nrhs, sizes[x->ndim - 2] = end - begin;
  strides[x->ndim - 2] = 1, strides[x->ndim - 1] = ld;
  return tli_alias(x, x->ndim, sizes, strides, x->offset + begin);
}

static tl_Tensor *lstsq_residuals(const tl_Tensor *x, const tli_Matrices *b, int64_t nrhs,
                                  const int *rank) {
  bool full = b->m > b->n;
  for (int64_t i = 0; i < b->count; i++) full = full && rank[i] == b->n;
  if (!full) return tli_empty(tli_real_dtype((tl_DType)x->dtype), tli_device(x), 1, (int64_t[]){0});
  tl_Tensor *rest = padded_rows(x, b->n, b->m, nrhs);
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *squares = rest ? squares_of(rest) : NULL;
  tl_Tensor *sums =
      squares ? tlo_sum(squares, (tl_Ints){1, (int64_t[]){-2}}, false, TL_NODTYPE) : NULL;
  tli_set_grad_mode(mode);
  tli_release(rest);
  tli_release(squares);
  return sums;
}

/* Computes the least-norm solution, as gelsd does, on devices without gelsd. Uses only singular
** values that exceed rcond times the largest singular value. */
static bool least_squares_there(tl_Tensor *A, tl_Tensor *B, const tli_Matrices *b, double rcond,
                                tl_Tensor **out) {
  tl_Tensor *usv[3];
  TL_TRY(tli_lapack_svd("linalg.lstsq", A, 'S', usv));
  tli_Chain c = {0};
  tl_Tensor *s = usv[1];
  tl_Tensor *limit = chain_with(&c, tlo_mul, chain_slice(&c, s, -1, 0, 1), rcond);
  tl_Tensor *taken = TLI_STEP(&c, tlo_gt(s, limit));
  tl_Tensor *inverse = TLI_STEP(&c, tlo_reciprocal(s));
  tl_Tensor *scales = chain_unsqueeze(&c, chain_where_else(&c, taken, inverse, tli_int(0)), -1);
  tl_Tensor *shares = chain_mul(&c, chain_matmul(&c, chain_h(&c, usv[0]), B), scales);
  tl_Tensor *x = chain_matmul(&c, chain_h(&c, usv[2]), shares);
  tl_Ints last = {1, (int64_t[]){-1}}, above = {1, (int64_t[]){-2}};
  tl_Tensor *rank = TLI_STEP(&c, tlo_sum(taken, last, false, TL_NODTYPE));
  tl_Tensor *rest = chain_sub(&c, B, chain_matmul(&c, A, x));
  tl_Tensor *squares = TLI_STEP(&c, squares_of(rest));
  bool full = false;
  if (b->m > b->n) TLI_DO(&c, tli_all_true(tli_retain(taken), &full));
  tl_Tensor *residuals =
      full ? TLI_STEP(&c, tlo_sum(squares, above, false, TL_NODTYPE))
           : TLI_STEP(&c, tli_empty((tl_DType)s->dtype, tli_device(A), 1, (int64_t[]){0}));
  tl_Tensor *results[4] = {x, residuals, rank, s};
  memcpy(out, results, sizeof results);
  bool ok = tli_chain_end_all(&c, out, 4);
  tli_release_results(usv, 3);
  return ok;
}

/* Arrays of integer results of LAPACK, with one or more elements for each matrix. */
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

bool tli_op_least_squares(tl_Tensor *A, tl_Tensor *B, double rcond, tl_Tensor **out) {
  const char *op = "linalg.lstsq";
  tli_Matrices b;
  Infos info, rank;
  const tlk_Lapack *lib = tli_lapack_of(op, A);
  if (lib == NULL || !tli_lapack_matrices(op, A, false, &b)) return false;
  bool fits = B->ndim == A->ndim && B->dtype == A->dtype && B->sizes[B->ndim - 2] == b.m;
  for (int d = 0; fits && d < b.nbatch; d++) fits = A->sizes[d] == B->sizes[d];
  if (!fits)
    return tli_fail(
        TL_ESHAPE,
        "%s: B: expected shape (..., %d, k) and dtype %s to go with A of shape %s, got %s %s", op,
        b.m, tl_dtype_name((tl_DType)A->dtype), tli_sizes_str(A), tli_sizes_str(B),
        tl_dtype_name((tl_DType)B->dtype));
  int64_t nrhs = B->sizes[B->ndim - 1];
  TL_TRY(tli_lapack_finite(op, A) && tli_lapack_finite(op, B));
  if (isnan(rcond)) rcond = tli_float_epsilon((tl_DType)A->dtype) * (b.m > b.n ? b.m : b.n);
  /* a meta tensor has no values, so its matrices are assumed to have full rank */
  bool values = tli_has_values(A);
  if (tli_device(A).type != TL_CPU && values && b.count > 0 && b.k > 0) {
    bool mode = tli_set_grad_mode(false), made = least_squares_there(A, B, &b, rcond, out);
    tli_set_grad_mode(mode);
    return made;
  }
  TL_TRY(infos_new(&info, b.count));
  if (!infos_new(&rank, b.count)) return infos_free(&info), false;
  tl_Tensor *a = tli_lapack_columns(A), *x = a ? padded_columns(B, &b, nrhs) : NULL;
  out[3] = x ? tli_lapack_empty(A, &b, tli_real_dtype((tl_DType)A->dtype), 1, b.k, 0) : NULL;
  out[2] = out[3] ? tli_empty(TL_I64, tli_device(A), b.nbatch, A->sizes) : NULL;
  bool ok = out[2] != NULL;
  for (int64_t i = 0; i < b.count; i++) rank.v[i] = values ? 0 : b.k, info.v[i] = 0;
  ok = ok && (b.count == 0 || b.k == 0 ||
              (lib->gelsd(tli_lapack_context(A), (tl_DType)A->dtype, b.count, b.m, b.n,
                          nrhs > 0 ? (int)nrhs : 1, tli_data(a), tli_data(x), tli_data(out[3]),
                          rcond, rank.v, info.v) &&
               tli_infos_fine(info.v, info.n, op, "has not converged (does it hold NaN?)")));
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
