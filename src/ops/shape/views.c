/*
** views.c - views that keep all elements but change the sizes and strides: view, expand, and
** permutations. Views of a part of a tensor are in slices.c.
**
** The functions tli_op_* return plain aliases; the generated functions tlo_*, which call them, mark
** the aliases as views.
*/
#include <string.h>

#include "ops/common.h"

/* ---- another shape ---- */

/* Writes the requested sizes. Replaces a size of -1 by the size with which the tensor has `numel`
** elements. */
static bool resolve(const char *op, tl_Ints wish, int64_t numel, int64_t *sizes) {
  TL_TRY(tli_check_ndim(op, wish.n));
  int n = (int)wish.n, open = -1;
  int64_t known = 1;
  for (int d = 0; d < n; d++) {
    sizes[d] = wish.v[d];
    if (wish.v[d] == -1 && open < 0)
      open = d;
    else if (wish.v[d] < 0)
      return tli_fail(TL_EARG, "%s: shape %s: expected sizes of at least 0 and at most one -1", op,
                      tli_shape_str(n, wish.v));
    else if (__builtin_mul_overflow(known, wish.v[d], &known))
      known = wish.v[d] == 0 ? 0 : INT64_MAX;
  }
  if (open >= 0 && known == 0)
    return tli_fail(TL_ESHAPE, "%s: shape %s: -1 could stand for any size beside a 0", op,
                    tli_shape_str(n, wish.v));
  if (open >= 0 && numel % known == 0) {
    sizes[open] = numel / known;
    return true;
  }
  if (open < 0 && known == numel) return true;
  return tli_fail(TL_ESHAPE, "%s: shape %s does not fit %" PRId64 " elements", op,
                  tli_shape_str(n, wish.v), numel);
}

/* Computes the strides of a view with other sizes. Visits the dimensions of both shapes, beginning
** with the last. A run of old dimensions that is contiguous in memory can be split into other
** sizes. Returns false if a new dimension would extend across two runs. */
static bool view_strides(const tl_Tensor *t, int ndim, const int64_t *sizes, int64_t *strides) {
  if (t->numel == 0) {
    tli_row_major(ndim, sizes, strides);
    return true;
  }
  int to = ndim - 1;
  /* number of elements in the run, and how many of these the new dimensions cover so far */
  int64_t run = 1, filled = 1;
  int64_t base = t->ndim > 0 ? t->strides[t->ndim - 1] : 1;
  for (int d = t->ndim - 1; d >= 0; d--) {
    run *= t->sizes[d];
    bool last = d == 0 || (t->sizes[d - 1] != 1 && t->strides[d - 1] != run * base);
    if (!last) continue;
    while (to >= 0 && (filled < run || sizes[to] == 1)) {
      strides[to] = filled * base;
      filled *= sizes[to--];
    }
    if (filled != run) return false;
    if (d > 0) base = t->strides[d - 1];
    run = filled = 1;
  }
  /* gives stride 1 to all remaining dimensions, which have size 1 */
  for (; to >= 0; to--) strides[to] = 1;
  return true;
}

/* Computes sizes and strides of a view with other sizes. If the memory layout does not allow such a
** view, sets *possible to false, without a message. */
static bool as_view(const char *op, const tl_Tensor *self, tl_Ints wish, int64_t *sizes,
                    int64_t *strides, bool *possible) {
  TL_TRY(resolve(op, wish, self->numel, sizes));
  int n = (int)wish.n;
  if (self->numel == 0 && self->ndim == n &&
      memcmp(sizes, self->sizes, (size_t)n * sizeof *sizes) == 0) {
    memcpy(strides, self->strides, (size_t)n * sizeof *strides);
    *possible = true;
  } else {
    *possible = view_strides(self, n, sizes, strides);
  }
  return true;
}

tl_Tensor *tli_op_view(tl_Tensor *self, tl_Ints size) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  bool possible;
  TL_TRY_NULL(as_view("view", self, size, sizes, strides, &possible));
  if (possible) return tli_alias(self, (int)size.n, sizes, strides, self->offset);
  return tli_fail_null(
      TL_ESHAPE, "view: shape %s with strides %s cannot become %s without a copy; use reshape",
      tli_sizes_str(self), tli_shape_str(self->ndim, self->strides),
      tli_shape_str((int)size.n, sizes));
}

/* Returns a view with other sizes if possible, otherwise a reshaped copy. The autograd node gets
** the name that PyTorch gives it, which differs between a view, a view of a tensor with gaps, and a
** copy. */
static tl_Tensor *reshape(const char *op, tl_Tensor *self, tl_Ints shape) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  bool possible;
  TL_TRY_NULL(as_view(op, self, shape, sizes, strides, &possible));
  tl_Ints resolved = {shape.n, sizes};
  uint64_t count = tli_node_count();
  if (possible) {
    tl_Tensor *view = tlo_view(self, resolved);
    if (!tli_contiguous(self)) tli_entitle(view, "ReshapeAlias", count);
    return view;
  }
  tl_Tensor *copy = tlo_to_row_major(self);
  tl_Tensor *result = copy ? tlo_view(copy, resolved) : NULL;
  tli_release(copy);
  tli_entitle(result, "UnsafeView", count);
  return result;
}

tl_Tensor *tli_op_reshape(tl_Tensor *self, tl_Ints shape) {
  return reshape("reshape", self, shape);
}

/* Reshapes self: n dimensions with the sizes in `middle` replace the dimensions from `first` to
** `last`, inclusive. */
static tl_Tensor *replace(const char *op, tl_Tensor *self, int first, int last, int64_t n,
                          const int64_t *middle) {
  int64_t ndim = self->ndim - (last - first + 1) + n;
  TL_TRY_NULL(tli_check_ndim(op, ndim));
  int64_t sizes[TL_MAX_DIMS];
  int to = 0;
  for (int d = 0; d < first; d++) sizes[to++] = self->sizes[d];
  for (int64_t k = 0; k < n; k++) sizes[to++] = middle[k];
  for (int d = last + 1; d < self->ndim; d++) sizes[to++] = self->sizes[d];
  return reshape(op, self, (tl_Ints){ndim, sizes});
}

tl_Tensor *tlo_flatten(tl_Tensor *self, int64_t start_dim, int64_t end_dim) {
  int first = tli_dim("flatten", start_dim, self->ndim);
  int last = first < 0 ? -1 : tli_dim("flatten", end_dim, self->ndim);
  if (last < 0) return NULL;
  if (first > last)
    return tli_fail_null(TL_EARG, "flatten: start_dim " TLI_POS " comes after end_dim " TLI_POS,
                         (int64_t)first, (int64_t)last);
  if (self->ndim == 0) return tlo_reshape(self, (tl_Ints){1, (int64_t[]){1}});
  if (first == last) return tli_retain(self);
  int64_t length = 1;
  for (int d = first; d <= last; d++) length *= self->sizes[d];
  return replace("flatten", self, first, last, 1, &length);
}

tl_Tensor *tlo_unflatten(tl_Tensor *self, int64_t dim, tl_Ints sizes) {
  int d = tli_dim("unflatten", dim, self->ndim);
  if (d < 0) return NULL;
  if (self->ndim == 0 || sizes.n == 0)
    return tli_fail_null(TL_EARG, "unflatten: expected %s",
                         self->ndim == 0 ? "a tensor of at least one dimension" : "sizes");
  int64_t resolved[TL_MAX_DIMS];
  TL_TRY_NULL(resolve("unflatten", sizes, self->sizes[d], resolved));
  return replace("unflatten", self, d, d, sizes.n, resolved);
}

/* ---- repeated dimensions ---- */

static bool expanded_sizes(const char *op, const tl_Tensor *self, tl_Ints wish, int64_t *sizes) {
  TL_TRY(tli_check_ndim(op, wish.n));
  int n = (int)wish.n, skip = n - self->ndim;
  if (skip < 0)
    return tli_fail(TL_ESHAPE, "%s: shape %s has fewer dimensions than self of shape %s", op,
                    tli_shape_str(n, wish.v), tli_sizes_str(self));
  for (int d = 0; d < n; d++) {
    int64_t own = d < skip ? 1 : self->sizes[d - skip];
    bool keeps = wish.v[d] == -1 && d >= skip;
    sizes[d] = keeps ? own : wish.v[d];
    if (sizes[d] < 0 || (own != 1 && sizes[d] != own))
      return tli_fail(TL_ESHAPE, "%s: self of shape %s cannot be expanded to %s", op,
                      tli_sizes_str(self), tli_shape_str(n, wish.v));
  }
  return true;
}

tl_Tensor *tli_op_expand(tl_Tensor *self, tl_Ints size) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  TL_TRY_NULL(expanded_sizes("expand", self, size, sizes));
  int n = (int)size.n, skip = n - self->ndim;
  for (int d = n - 1; d >= 0; d--) {
    if (d >= skip && self->sizes[d - skip] == sizes[d])
      strides[d] = self->strides[d - skip];
    else
      strides[d] = sizes[d] == 1 && d + 1 < n ? sizes[d + 1] * strides[d + 1] : sizes[d] == 1;
  }
  if (tli_numel(n, sizes, tli_dtype_bytes[self->dtype]) < 0)
    return tli_fail_null(TL_EARG, "expand: sizes %s: expected less than 2^63 bytes in all",
                         tli_shape_str(n, sizes));
  return tli_alias(self, n, sizes, strides, self->offset);
}

/* Expands self for the operator `op`. Checks the sizes itself, so that messages name `op`. */
static tl_Tensor *expand(const char *op, tl_Tensor *self, tl_Ints size) {
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(expanded_sizes(op, self, size, sizes));
  return tlo_expand(self, size);
}

tl_Tensor *tlo_expand_as(tl_Tensor *self, tl_Tensor *other) {
  return expand("expand_as", self, (tl_Ints){other->ndim, other->sizes});
}

tl_Tensor *tlo_broadcast_to(tl_Tensor *self, tl_Ints size) {
  return expand("broadcast_to", self, size);
}

/* Sums over all dimensions along which `size` broadcasts to self's shape, in one call. */
tl_Tensor *tlo_sum_to_size(tl_Tensor *self, tl_Ints size) {
  int n = (int)size.n, skip = self->ndim - n;
  if (size.n > TL_MAX_DIMS || !tli_expandable(n, size.v, self->ndim, self->sizes))
    return tli_fail_null(TL_ESHAPE, "sum_to_size: shape %s does not broadcast to self's shape %s",
                         tli_shape_str(n, size.v), tli_sizes_str(self));
  int64_t dims[TL_MAX_DIMS];
  int64_t count = 0;
  for (int d = 0; d < self->ndim; d++)
    if (d < skip || (size.v[d - skip] == 1 && self->sizes[d] != 1)) dims[count++] = d;
  /* the sum of integers is int64, even without dimensions to sum over */
  bool widened = n == 0 && !tli_is_inexact((tl_DType)self->dtype);
  if (count == 0 && !widened) return tli_retain(self);
  tl_Tensor *sum = tlo_sum(self, (tl_Ints){count, dims}, true, TL_NODTYPE);
  if (sum == NULL || skip == 0) return sum;
  tl_Tensor *result = tlo_view(sum, size);
  tli_release(sum);
  return result;
}

/* ---- the order of dimensions ---- */

static tl_Tensor *permuted(const tl_Tensor *self, const int *from) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < self->ndim; d++) {
    sizes[d] = self->sizes[from[d]];
    strides[d] = self->strides[from[d]];
  }
  return tli_alias(self, self->ndim, sizes, strides, self->offset);
}

/* Reads a permutation of dimensions. from[d] receives the dimension that moves to position d. */
static bool read_order(const char *op, tl_Ints dims, int ndim, int from[TL_MAX_DIMS]) {
  if (dims.n != ndim)
    return tli_fail(TL_EARG, "%s: expected %d dimensions, one for each of self, got %" PRId64, op,
                    ndim, dims.n);
  bool marked[TL_MAX_DIMS];
  TL_TRY(tli_mark_dims(op, dims, ndim, marked));
  for (int d = 0; d < ndim; d++) from[d] = (int)(dims.v[d] < 0 ? dims.v[d] + ndim : dims.v[d]);
  return true;
}

tl_Tensor *tli_op_permute(tl_Tensor *self, tl_Ints dims) {
  int from[TL_MAX_DIMS];
  TL_TRY_NULL(read_order("permute", dims, self->ndim, from));
  return permuted(self, from);
}

tl_Tensor *tlo_permute_back(tl_Tensor *self, tl_Ints dims) {
  int from[TL_MAX_DIMS];
  int64_t back[TL_MAX_DIMS];
  TL_TRY_NULL(read_order("permute", dims, self->ndim, from));
  for (int d = 0; d < self->ndim; d++) back[from[d]] = d;
  return tlo_permute(self, (tl_Ints){self->ndim, back});
}

tl_Tensor *tli_op_transpose(tl_Tensor *self, int64_t dim0, int64_t dim1) {
  int a = tli_dim("transpose", dim0, self->ndim);
  int b = a < 0 ? -1 : tli_dim("transpose", dim1, self->ndim);
  if (b < 0) return NULL;
  if (self->ndim == 0) return tli_detached(self);
  int from[TL_MAX_DIMS];
  for (int d = 0; d < self->ndim; d++) from[d] = d;
  from[a] = b;
  from[b] = a;
  return permuted(self, from);
}

tl_Tensor *tli_op_t(tl_Tensor *self) {
  if (self->ndim > 2)
    return tli_fail_null(TL_ESHAPE, "t: expected at most 2 dimensions, got shape %s",
                         tli_sizes_str(self));
  return tlo_transpose(self, 0, self->ndim < 2 ? 0 : 1);
}

tl_Tensor *tlo_movedim(tl_Tensor *self, tl_Ints source, tl_Ints destination) {
  if (source.n != destination.n)
    return tli_fail_null(
        TL_EARG, "movedim: expected as many destinations as sources, got %" PRId64 " and %" PRId64,
        destination.n, source.n);
  if (source.n == 0) return tlo_permute(self, (tl_Ints){0, (int64_t[]){0}});
  int ndim = self->ndim;
  bool moved[TL_MAX_DIMS], taken[TL_MAX_DIMS];
  TL_TRY_NULL(tli_mark_dims("movedim", source, ndim, moved));
  TL_TRY_NULL(tli_mark_dims("movedim", destination, ndim, taken));
  if (ndim == 0) return tli_retain(self);
  int64_t order[TL_MAX_DIMS];
  for (int64_t k = 0; k < source.n; k++) {
    int64_t from = source.v[k], to = destination.v[k];
    order[to < 0 ? to + ndim : to] = from < 0 ? from + ndim : from;
  }
  int next = 0;
  for (int d = 0; d < ndim; d++) {
    if (taken[d]) continue;
    while (moved[next]) next++;
    order[d] = next++;
  }
  return tlo_permute(self, (tl_Ints){ndim, order});
}

/* ---- dimensions of size 1 ---- */

tl_Tensor *tli_op_squeeze(tl_Tensor *self, tl_Ints dim) {
  bool marked[TL_MAX_DIMS];
  TL_TRY_NULL(tli_mark_dims("squeeze", dim, self->ndim, marked));
  bool none = dim.v != NULL && dim.n == 0;
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < self->ndim; d++) {
    if (marked[d] && !none && self->sizes[d] == 1) continue;
    sizes[n] = self->sizes[d];
    strides[n++] = self->strides[d];
  }
  return tli_alias(self, n, sizes, strides, self->offset);
}

tl_Tensor *tli_op_unsqueeze(tl_Tensor *self, int64_t dim) {
  TL_TRY_NULL(tli_check_ndim("unsqueeze", self->ndim + 1));
  int at = tli_dim("unsqueeze", dim, self->ndim + 1);
  if (at < 0) return NULL;
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d <= self->ndim; d++) {
    int from = d < at ? d : d - 1;
    sizes[d] = d == at ? 1 : self->sizes[from];
    strides[d] = d == at ? 1 : self->strides[from];
  }
  if (at < self->ndim) strides[at] = self->sizes[at] * self->strides[at];
  return tli_alias(self, self->ndim + 1, sizes, strides, self->offset);
}

/* Converts the sizes, strides and offset of `self` from elements of `from` bytes to elements of
** `to` bytes. One of `from` and `to` must divide the other. Returns NULL on success, or the reason
** why there is no such view. */
static const char *rescale(const tl_Tensor *self, int64_t from, int64_t to, int64_t *sizes,
                           int64_t *strides, int64_t *offset) {
  int last = self->ndim - 1;
  if (last < 0) return "a tensor of at least 1 dimension";
  if (self->strides[last] != 1) return "a stride of 1 in the last dimension";
  bool whole = sizes[last] * from % to == 0 && *offset * from % to == 0;
  for (int d = 0; d < last; d++) {
    whole = whole && strides[d] * from % to == 0;
    strides[d] = strides[d] * from / to;
  }
  sizes[last] = sizes[last] * from / to;
  *offset = *offset * from / to;
  return whole ? NULL : "a last size, strides and an offset that fill whole elements of that dtype";
}

tl_Tensor *tlo_view_dtype(tl_Tensor *self, tl_DType dtype) {
  int64_t from = tli_dtype_bytes[self->dtype], to = tli_dtype_bytes[dtype], offset = self->offset;
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < self->ndim; d++) {
    sizes[d] = self->sizes[d];
    strides[d] = self->strides[d];
  }
  const char *expected = from == to ? NULL : rescale(self, from, to, sizes, strides, &offset);
  if (expected)
    return tli_fail_null(TL_EARG, "view: from %s to %s: expected %s, got shape %s and strides %s",
                         tl_dtype_name((tl_DType)self->dtype), tl_dtype_name(dtype), expected,
                         tli_sizes_str(self), tli_shape_str(self->ndim, self->strides));
  return tli_alias_as(self, dtype, self->ndim, sizes, strides, offset);
}
