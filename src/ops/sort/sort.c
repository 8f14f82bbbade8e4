/*
** sort.c - sorting and selecting by rank. Kernels process rows. Any other dimension is moved to the
** end before the kernel call, and moved back afterwards.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* ---- rows ---- */

/* Exchanges dim with the last dimension and returns the result in row-major order. */
static tl_Tensor *to_rows(tl_Tensor *t, int dim) {
  if (t->ndim == 0 || dim == t->ndim - 1) return tli_contiguous_as(t, (tl_DType)t->dtype);
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  memcpy(sizes, t->sizes, sizeof sizes);
  memcpy(strides, t->strides, sizeof strides);
  sizes[dim] = t->sizes[t->ndim - 1];
  strides[dim] = t->strides[t->ndim - 1];
  sizes[t->ndim - 1] = t->sizes[dim];
  strides[t->ndim - 1] = t->strides[dim];
  tl_Tensor *view = tli_alias(t, t->ndim, sizes, strides, t->offset);
  tl_Tensor *rows = view ? tli_contiguous_as(view, (tl_DType)t->dtype) : NULL;
  tli_release(view);
  return rows;
}

/* Allocates a result with rows of n elements. All other sizes are those of `in`. */
static tl_Tensor *new_rows(const tl_Tensor *in, tl_DType dtype, int64_t n) {
  int64_t sizes[TL_MAX_DIMS];
  memcpy(sizes, in->sizes, sizeof sizes);
  if (in->ndim > 0) sizes[in->ndim - 1] = n;
  return tli_empty(dtype, tli_device(in), in->ndim, sizes);
}

/* Undoes to_rows after the kernel call: exchanges the last dimension and dim again. Steals rows. */
static tl_Tensor *from_rows(tl_Tensor *rows, int dim) {
  tl_Tensor *back = rows ? to_rows(rows, dim) : NULL;
  tli_release(rows);
  return back;
}

typedef struct Rows {
  tl_Tensor *in;
  int64_t rows, n;
} Rows;

static bool rows_of(tl_Tensor *self, int dim, Rows *r) {
  r->in = to_rows(self, dim);
  if (r->in == NULL) return false;
  r->n = self->ndim ? self->sizes[dim] : 1;
  r->rows = r->n > 0 ? self->numel / r->n : 0;
  return true;
}

/* Allocates the two results of an operator: values and positions, with k elements for each row. */
static bool make_results(const Rows *r, int64_t k, tl_Tensor **out) {
  out[0] = new_rows(r->in, (tl_DType)r->in->dtype, k);
  out[1] = out[0] ? new_rows(r->in, TL_I64, k) : NULL;
  return out[1] != NULL;
}

static bool finish_results(bool ok, Rows *r, int dim, tl_Tensor **out) {
  tli_release(r->in);
  if (ok) {
    out[0] = from_rows(out[0], dim);
    out[1] = from_rows(out[1], dim);
  }
  if (ok && out[0] && out[1]) return true;
  tli_release_results(out, 2);
  return false;
}

/* ---- sort and topk ---- */

bool tli_op_sort(tl_Tensor *self, int64_t dim, bool descending, bool stable, tl_Tensor **out) {
  (void)stable; /* `stable` has no effect, because sorting is always stable */
  int d = tli_dim("sort", dim, self->ndim);
  Rows r;
  TL_TRY(d >= 0);
  TL_TRY(rows_of(self, d, &r));
  bool ok = make_results(&r, r.n, out);
  if (ok && self->numel > 0)
    ok = TLI_RUN(tli_device(self), sort, .descending = descending, .values = tli_array(out[0]),
                 .indices = tli_data(out[1]), .in = tli_array(r.in), .rows = r.rows, .n = r.n);
  ok = finish_results(ok, &r, d, out);
  for (int k = 0; ok && k < 2; k++) ok = (out[k] = tli_follow(out[k], self)) != NULL;
  if (!ok) tli_release_results(out, 2);
  return ok;
}

tl_Tensor *tlo_argsort(tl_Tensor *self, int64_t dim, bool descending, bool stable) {
  tl_Tensor *out[2] = {NULL};
  bool ok = tli_op_sort(self, dim, descending, stable, out);
  tli_release(out[0]);
  return ok ? out[1] : NULL;
}

tl_Tensor *tlo_msort(tl_Tensor *self) {
  tl_Tensor *out[2];
  TL_TRY_NULL(tlo_sort(self, 0, false, true, out));
  tli_release(out[1]);
  return out[0];
}

bool tli_op_topk(tl_Tensor *self, int64_t k, int64_t dim, bool largest, bool sorted,
                 tl_Tensor **out) {
  (void)sorted; /* `sorted` has no effect, because the result is always sorted */
  int d = tli_dim("topk", dim, self->ndim);
  Rows r;
  TL_TRY(d >= 0);
  int64_t size = self->ndim ? self->sizes[d] : 1;
  if (k < 0 || k > size || (self->ndim == 0 && k != 1))
    return tli_fail(
        TL_EARG, "topk: k: expected 0 to %" PRId64 " for dimension " TLI_POS " of %s, got %" PRId64,
        size, (int64_t)d, tli_sizes_str(self), k);
  TL_TRY(rows_of(self, d, &r));
  bool ok = make_results(&r, k, out);
  if (ok && out[0]->numel > 0)
    ok = TLI_RUN(tli_device(self), topk, .descending = largest, .values = tli_array(out[0]),
                 .indices = tli_data(out[1]), .in = tli_array(r.in), .rows = r.rows, .n = r.n,
                 .k = k);
  return finish_results(ok, &r, d, out);
}

/* ---- one element of each row ---- */

typedef bool (*PickFn)(const Rows *r, void *context, tl_Tensor **out);

/* Selects one element along dim, and its position. With keepdim, dim remains with size 1. */
static bool pick(const char *op, tl_Tensor *self, int64_t dim, bool keepdim, PickFn fn,
                 void *context, tl_Tensor **out) {
  int d = tli_dim(op, dim, self->ndim);
  Rows r;
  TL_TRY(d >= 0);
  if (self->ndim > 0 && self->sizes[d] == 0)
    return tli_fail(TL_ESHAPE,
                    "%s: expected at least one element along dimension " TLI_POS ", got %s", op,
                    (int64_t)d, tli_sizes_str(self));
  TL_TRY(rows_of(self, d, &r));
  bool ok = make_results(&r, 1, out) && (self->numel == 0 || fn(&r, context, out));
  ok = finish_results(ok, &r, d, out);
  if (!ok || keepdim || self->ndim == 0) return ok;
  int64_t sizes[TL_MAX_DIMS];
  int n = 0;
  for (int k = 0; k < self->ndim; k++)
    if (k != d) sizes[n++] = self->sizes[k];
  for (int i = 0; i < 2; i++) tli_set_geometry(out[i], n, sizes, NULL);
  return true;
}

typedef struct Rank {
  int64_t rank;
  bool skip_nan;
} Rank;

static bool pick_rank(const Rows *r, void *context, tl_Tensor **out) {
  const Rank *rank = context;
  return TLI_RUN(tli_device(r->in), select_rank, .rank = rank->rank, .skip_nan = rank->skip_nan,
                 .values = tli_array(out[0]), .indices = tli_data(out[1]), .in = tli_array(r->in),
                 .rows = r->rows, .n = r->n);
}

static bool pick_mode(const Rows *r, void *context, tl_Tensor **out) {
  (void)context;
  return TLI_RUN(tli_device(r->in), mode, .values = tli_array(out[0]), .indices = tli_data(out[1]),
                 .in = tli_array(r->in), .rows = r->rows, .n = r->n);
}

bool tli_op_kthvalue(tl_Tensor *self, int64_t k, int64_t dim, bool keepdim, tl_Tensor **out) {
  int d = tli_dim("kthvalue", dim, self->ndim);
  TL_TRY(d >= 0);
  int64_t size = self->ndim ? self->sizes[d] : 1;
  if (k < 1 || k > size)
    return tli_fail(TL_EARG,
                    "kthvalue: k: expected 1 to %" PRId64 " for dimension " TLI_POS
                    " of %s, got %" PRId64,
                    size, (int64_t)d, tli_sizes_str(self), k);
  Rank rank = {k - 1, false};
  return pick("kthvalue", self, d, keepdim, pick_rank, &rank, out);
}

bool tli_op_median_dim(tl_Tensor *self, int64_t dim, bool keepdim, tl_Tensor **out) {
  Rank rank = {-1, false};
  return pick("median", self, dim, keepdim, pick_rank, &rank, out);
}

bool tli_op_nanmedian_dim(tl_Tensor *self, int64_t dim, bool keepdim, tl_Tensor **out) {
  Rank rank = {-1, true};
  return pick("nanmedian", self, dim, keepdim, pick_rank, &rank, out);
}

bool tli_op_mode(tl_Tensor *self, int64_t dim, bool keepdim, tl_Tensor **out) {
  return pick("mode", self, dim, keepdim, pick_mode, NULL, out);
}

/* Returns the median of all elements. As in PyTorch, the median of an empty tensor is NaN. */
static tl_Tensor *median_of_all(const char *op, tl_Tensor *self, bool skip_nan) {
  if (self->numel == 0)
    return tli_is_float((tl_DType)self->dtype)
               ? tli_scalar_tensor(tli_float(NAN), (tl_DType)self->dtype, tli_device(self))
               : tli_fail_null(TL_ESHAPE, "%s: expected at least one element, got %s", op,
                               tli_sizes_str(self));
  tl_Tensor *in = tli_contiguous_as(self, (tl_DType)self->dtype);
  int64_t one = 1;
  tl_Tensor *row = in ? tli_alias(in, 1, &in->numel, &one, in->offset) : NULL;
  tl_Tensor *out[2] = {NULL};
  Rank rank = {-1, skip_nan};
  if (row && pick(op, row, 0, false, pick_rank, &rank, out)) tli_release(out[1]);
  tli_release(in);
  tli_release(row);
  return out[0];
}

tl_Tensor *tli_op_median(tl_Tensor *self) { return median_of_all("median", self, false); }

tl_Tensor *tli_op_nanmedian(tl_Tensor *self) { return median_of_all("nanmedian", self, true); }
