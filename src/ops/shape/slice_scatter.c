/*
** slice_scatter.c - operators that return a copy of a tensor with one part replaced.
*/
#include "ops/common.h"

/* Copies src to `part`, which is a view of `result`, and returns result. The call consumes both
** references. */
static tl_Tensor *replace_part(const char *op, tl_Tensor *result, tl_Tensor *part, tl_Tensor *src) {
  bool ok = part != NULL;
  if (ok && !tli_same_sizes(part, src))
    ok = tli_fail(TL_ESHAPE, "%s: src: expected shape %s, got %s", op, tli_sizes_str(part),
                  tli_sizes_str(src));
  ok = ok && tlo_copy_(part, src, false);
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
  /* end_ is inclusive, so the exclusive end is one more */
  int64_t stop = (end_ < 0 ? end_ + size : end_) + 1;
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
