/*
** masking.c - masks, the positions of what is not zero, copies with one part
** replaced, and searching in sorted sequences.
*/
#include <string.h>

#include "ops/common.h"

/* ---- nonzero ---- */

tl_Tensor *tli_op_nonzero(tl_Tensor *self, bool as_tuple) {
  (void)as_tuple; /* false in this form */
  const tl_Backend *backend = tli_backend(tli_device(self));
  int64_t count = 0;
  tl_Tensor *in = tli_contiguous_as(self, (tl_DType)self->dtype);
  bool ok = in && (in->numel == 0 || backend->count_nonzero(tli_array(in), in->numel, &count));
  tl_Tensor *out = NULL;
  if (ok) out = tli_empty(TL_I64, tli_device(self), 2, (int64_t[]){count, self->ndim});
  if (out && out->numel > 0 &&
      !backend->nonzero(tli_data(out), tli_array(in), in->ndim, in->sizes)) {
    tli_release(out);
    out = NULL;
  }
  tli_release(in);
  return out;
}

/* The columns of nonzero; a tensor without dimensions counts as one of one. */
bool tlo_nonzero_tuple(tl_Tensor *self, bool as_tuple, tl_Tensors *out) {
  (void)as_tuple;
  *out = (tl_Tensors){0, NULL};
  tl_Tensor *shaped = self->ndim ? tli_retain(self) : tlo_unsqueeze(self, 0);
  tl_Tensor *rows = shaped ? tlo_nonzero(shaped, false) : NULL;
  bool ok = rows && tlo_unbind(rows, 1, out);
  tli_release(shaped);
  tli_release(rows);
  return ok;
}

/* ---- masks ---- */

static bool check_mask(const char *op, const tl_Tensor *mask) {
  if (mask->dtype == TL_BOOL) return true;
  return tli_fail(TL_EDTYPE, "%s: mask: expected bool, got %s", op,
                  tl_dtype_name((tl_DType)mask->dtype));
}

/* The value in self's dtype, without dimensions. */
static tl_Tensor *fill_value(const tl_Tensor *self, tl_Tensor *mask, tl_Tensor *value) {
  TL_TRY_NULL(check_mask("masked_fill", mask));
  if (value->ndim != 0)
    return tli_fail_null(TL_ESHAPE,
                         "masked_fill: value: expected a number or a tensor of no "
                         "dimensions, got %s",
                         tli_sizes_str(value));
  if (value->flags & TLI_NUMBER)
    return tli_scalar_tensor(tli_load(tli_data(value), (tl_DType)value->dtype),
                             (tl_DType)self->dtype, tli_device(self));
  return tlo_to_dtype(value, (tl_DType)self->dtype);
}

tl_Tensor *tlo_masked_fill(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *value) {
  tl_Tensor *one = fill_value(self, mask, value);
  tl_Tensor *result = one ? tlo_masked_fill_kernel(self, mask, one) : NULL;
  tli_release(one);
  return result;
}

bool tlo_masked_fill_(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *value) {
  tl_Tensor *one = fill_value(self, mask, value);
  bool ok = one && tlo_masked_fill_kernel_(self, mask, one);
  tli_release(one);
  return ok;
}

/* The positions, in one row, of the true elements of mask spread to a shape. */
static tl_Tensor *true_positions(const char *op, tl_Tensor *mask, int ndim, const int64_t *sizes) {
  TL_TRY_NULL(check_mask(op, mask));
  tl_Tensor *t[3] = {NULL}, *result = NULL;
  int64_t numel = tli_numel(ndim, sizes, 1);
  if ((t[0] = tlo_expand(mask, (tl_Ints){ndim, sizes})) &&
      (t[1] = tlo_reshape(t[0], (tl_Ints){1, &numel})) && (t[2] = tlo_nonzero(t[1], false)))
    result = tlo_select(t[2], 1, 0);
  tli_release_results(t, 3);
  return result;
}

tl_Tensor *tlo_masked_select(tl_Tensor *self, tl_Tensor *mask) {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_broadcast_shape("masked_select", (tl_Tensor *[]){self, mask}, 2, &ndim, sizes));
  tl_Tensor *at = true_positions("masked_select", mask, ndim, sizes);
  tl_Tensor *wide = at ? tlo_expand(self, (tl_Ints){ndim, sizes}) : NULL;
  tl_Tensor *result = wide ? tlo_take(wide, at) : NULL;
  tli_release(at);
  tli_release(wide);
  return result;
}

static bool scatter_masked(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *source) {
  if (!tli_expandable(mask->ndim, mask->sizes, self->ndim, self->sizes))
    return tli_fail(TL_ESHAPE,
                    "masked_scatter: mask: expected a shape that broadcasts to %s, got %s",
                    tli_sizes_str(self), tli_sizes_str(mask));
  if (source->dtype != self->dtype)
    return tli_fail(TL_EDTYPE, "masked_scatter: source: expected self's dtype %s, got %s",
                    tl_dtype_name((tl_DType)self->dtype), tl_dtype_name((tl_DType)source->dtype));
  tl_Tensor *t[3] = {true_positions("masked_scatter", mask, self->ndim, self->sizes)};
  bool ok = t[0] != NULL;
  if (ok && source->numel < t[0]->numel)
    ok = tli_fail(TL_ESHAPE,
                  "masked_scatter: source: expected at least %" PRId64
                  " elements, as many as mask has true ones, got %s",
                  t[0]->numel, tli_sizes_str(source));
  ok = ok && (t[1] = tlo_reshape(source, (tl_Ints){1, &source->numel})) &&
       (t[2] = tlo_narrow(t[1], 0, 0, t[0]->numel)) && tlo_put_(self, t[0], t[2], false);
  tli_release_results(t, 3);
  return ok;
}

bool tlo_masked_scatter_(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *source) {
  return scatter_masked(self, mask, source);
}

tl_Tensor *tlo_masked_scatter(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *source) {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_broadcast_shape("masked_scatter", (tl_Tensor *[]){self, mask}, 2, &ndim, sizes));
  tl_Tensor *wide = tlo_expand(self, (tl_Ints){ndim, sizes});
  tl_Tensor *result = wide ? tlo_clone(wide) : NULL;
  if (result && !scatter_masked(result, mask, source)) {
    tli_release(result);
    result = NULL;
  }
  tli_release(wide);
  return result;
}

/* ---- copies with one part replaced ---- */

/* Copies src to `part`, a view of `result`; both are consumed. */
static tl_Tensor *replace_part(const char *op, tl_Tensor *result, tl_Tensor *part, tl_Tensor *src) {
  bool ok = part != NULL;
  if (ok && !tli_same_sizes(part, src))
    ok = tli_fail(TL_ESHAPE, "%s: src: expected shape %s, got %s", op, tli_sizes_str(part),
                  tli_sizes_str(src));
  ok = ok && tlo_copy_(part, src);
  tli_release(part);
  if (ok) return result;
  tli_release(result);
  return NULL;
}

tl_Tensor *tlo_select_scatter(tl_Tensor *self, tl_Tensor *src, int64_t dim, int64_t index) {
  tl_Tensor *result = tlo_clone(self);
  if (result == NULL) return NULL;
  return replace_part("select_scatter", result, tlo_select(result, dim, index), src);
}

tl_Tensor *tlo_slice_scatter(tl_Tensor *self, tl_Tensor *src, int64_t dim, int64_t start,
                             int64_t end_, int64_t step) {
  int d = tli_dim("slice_scatter", dim, self->ndim);
  if (d < 0) return NULL;
  if (self->ndim == 0)
    return tli_fail_null(TL_ESHAPE, "slice_scatter: expected at least one dimension, got %s",
                         tli_sizes_str(self));
  if (step < 1)
    return tli_fail_null(TL_EARG, "slice_scatter: step: expected at least 1, got %" PRId64, step);
  int64_t size = self->sizes[d];
  if (start == TLI_NOINT) start = 0;
  if (end_ == TLI_NOINT) end_ = -1;
  if (start < 0) start = start + size < 0 ? 0 : start + size;
  int64_t stop = (end_ < 0 ? end_ + size : end_) + 1; /* end is included */
  if (stop > size) stop = size;
  if (start > size) start = size;
  if (stop < start) stop = start;
  tl_Tensor *result = tlo_clone(self);
  if (result == NULL) return NULL;
  return replace_part("slice_scatter", result, tlo_slice(result, d, start, stop, step), src);
}

tl_Tensor *tlo_diagonal_scatter(tl_Tensor *self, tl_Tensor *src, int64_t offset, int64_t dim1,
                                int64_t dim2) {
  tl_Tensor *result = tlo_clone(self);
  if (result == NULL) return NULL;
  return replace_part("diagonal_scatter", result, tlo_diagonal(result, offset, dim1, dim2), src);
}

tl_Tensor *tlo_as_strided_scatter(tl_Tensor *self, tl_Tensor *src, tl_Ints size, tl_Ints stride,
                                  int64_t storage_offset) {
  tl_Tensor *result = tlo_to_row_major(self);
  if (result == NULL) return NULL;
  return replace_part("as_strided_scatter", result,
                      tlo_as_strided(result, size, stride, storage_offset), src);
}

/* ---- searching ---- */

static bool check_search(const char *op, const tl_Tensor *sequence, const tl_Tensor *values) {
  bool fits = sequence->ndim == 1;
  if (!fits && sequence->ndim > 0 && sequence->ndim == values->ndim) {
    fits = true;
    for (int d = 0; d < sequence->ndim - 1; d++)
      fits = fits && sequence->sizes[d] == values->sizes[d];
  }
  if (fits) return true;
  return tli_fail(TL_ESHAPE,
                  "%s: expected a sequence of one dimension, or with the first sizes of "
                  "values, got %s and %s",
                  op, tli_sizes_str(sequence), tli_sizes_str(values));
}

tl_Tensor *tli_op_search(tl_Tensor *sorted_sequence, tl_Tensor *values, bool right) {
  tl_DType dtype = tli_result_dtype((tl_Tensor *[]){sorted_sequence, values}, 2);
  dtype = tli_dtype_compute(dtype);
  tl_Tensor *in = tli_contiguous_as(sorted_sequence, dtype);
  tl_Tensor *what = in ? tli_contiguous_as(values, dtype) : NULL;
  tl_Tensor *out = what ? tli_empty(TL_I64, tli_device(in), values->ndim, values->sizes) : NULL;
  if (out && out->numel > 0) {
    int64_t n = in->sizes[in->ndim - 1];
    int64_t rows = in->ndim == 1 ? 1 : what->numel / what->sizes[what->ndim - 1];
    if (!tli_backend(tli_device(in))
             ->search(tli_data(out), tli_array(in), tli_array(what), rows, n, what->numel / rows,
                      right)) {
      tli_release(out);
      out = NULL;
    }
  }
  tli_release(in);
  tli_release(what);
  return out;
}

static tl_Tensor *search(const char *op, tl_Tensor *sequence, tl_Tensor *values, bool out_int32,
                         bool right) {
  TL_TRY_NULL(check_search(op, sequence, values));
  tl_Tensor *found = tlo_search(sequence, values, right);
  if (found == NULL || !out_int32) return found;
  tl_Tensor *narrow = tlo_to_dtype(found, TL_I32);
  tli_release(found);
  return narrow;
}

tl_Tensor *tlo_searchsorted(tl_Tensor *sorted_sequence, tl_Tensor *values, bool out_int32,
                            bool right, const char *side, tl_Tensor *sorter) {
  if (side && strcmp(side, "left") != 0 && strcmp(side, "right") != 0)
    return tli_fail_null(TL_EARG, "searchsorted: side: expected 'left' or 'right', got '%s'", side);
  if (side && right && strcmp(side, "left") == 0)
    return tli_fail_null(TL_EARG, "searchsorted: side 'left' contradicts right = true");
  right = right || (side && strcmp(side, "right") == 0);
  if (sorter == NULL) return search("searchsorted", sorted_sequence, values, out_int32, right);
  if (!tli_same_sizes(sorter, sorted_sequence))
    return tli_fail_null(TL_ESHAPE, "searchsorted: sorter: expected shape %s, got %s",
                         tli_sizes_str(sorted_sequence), tli_sizes_str(sorter));
  tl_Tensor *in_order = tlo_gather(sorted_sequence, -1, sorter);
  tl_Tensor *result = in_order ? search("searchsorted", in_order, values, out_int32, right) : NULL;
  tli_release(in_order);
  return result;
}

tl_Tensor *tlo_bucketize(tl_Tensor *self, tl_Tensor *boundaries, bool out_int32, bool right) {
  if (boundaries->ndim != 1)
    return tli_fail_null(TL_ESHAPE, "bucketize: boundaries: expected one dimension, got %s",
                         tli_sizes_str(boundaries));
  return search("bucketize", boundaries, self, out_int32, right);
}
