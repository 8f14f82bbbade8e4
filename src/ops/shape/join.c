/*
** join.c - operators that split tensors into lists of views, and operators that join, repeat or
** rearrange tensors by copying.
*/
#include <string.h>

#include "core/platform/parallel.h"
#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* ---- lists of views ---- */

/* Checks `dim` for operators that return lists. Returns -1 after a failure. */
static int list_dim(const char *op, tl_Tensor *self, int64_t dim) {
  if (self->ndim > 0) return tli_dim(op, dim, self->ndim);
  tli_fail(TL_ESHAPE, "%s: expected a tensor of at least one dimension", op);
  return -1;
}

/* Ends an operator that returns a list: moves the list to *out if `ok` is true, and frees it
** otherwise. Returns `ok`. */
static bool list_done(bool ok, tl_Tensors *list, tl_Tensors *out) {
  if (!ok) tli_tensors_free(list);
  *out = *list;
  return ok;
}

/* Checks, at every 4096th element of a long list, whether the operator was interrupted. Returns
** whether to continue. */
static bool goes_on(int64_t i) { return i % 4096 != 0 || tli_go_on(); }

/* Splits self into n pieces of `length` positions. The last piece has the remaining positions. */
static bool cut_evenly(tl_Tensor *self, int dim, int64_t n, int64_t length, tl_Tensors *out) {
  tl_Tensors list = tli_tensors_new(n);
  bool ok = list.v != NULL;
  int64_t size = self->sizes[dim];
  for (int64_t i = 0, at = 0; ok && i < n; i++, at += length) {
    int64_t stop = length < size - at ? at + length : size;
    list.v[i] = goes_on(i) ? tlo_slice(self, dim, at, stop, 1) : NULL;
    ok = list.v[i] != NULL;
  }
  return list_done(ok, &list, out);
}

bool tlo_split(tl_Tensor *self, int64_t split_size, int64_t dim, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int d = list_dim("split", self, dim);
  if (d < 0) return false;
  int64_t size = self->sizes[d];
  if (split_size < 0 || (split_size == 0 && size != 0))
    return tli_fail(
        TL_EARG,
        "split: expected a piece of at least %d position%s for a dimension of size %" PRId64
        ", got %" PRId64,
        size != 0, size != 0 ? "" : "s", size, split_size);
  int64_t n = size > 0 ? (size - 1) / split_size + 1 : 1;
  return cut_evenly(self, d, n, split_size, out);
}

bool tlo_split_sizes(tl_Tensor *self, tl_Ints split_sizes, int64_t dim, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int d = list_dim("split", self, dim);
  if (d < 0) return false;
  int64_t total = 0;
  bool fits = true;
  for (int64_t i = 0; i < split_sizes.n; i++)
    fits =
        fits && split_sizes.v[i] >= 0 && !__builtin_add_overflow(total, split_sizes.v[i], &total);
  if (!fits || total != self->sizes[d])
    return tli_fail(TL_EARG, "split: expected sizes of at least 0 that sum to %" PRId64 ", got %s",
                    self->sizes[d],
                    tli_shape_str(split_sizes.n > TL_MAX_DIMS ? TL_MAX_DIMS : (int)split_sizes.n,
                                  split_sizes.v));
  tl_Tensors list = tli_tensors_new(split_sizes.n);
  bool ok = list.v != NULL;
  for (int64_t i = 0, at = 0; ok && i < split_sizes.n; at += split_sizes.v[i++]) {
    list.v[i] = tlo_slice(self, d, at, at + split_sizes.v[i], 1);
    ok = list.v[i] != NULL;
  }
  return list_done(ok, &list, out);
}

bool tlo_chunk(tl_Tensor *self, int64_t chunks, int64_t dim, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int d = list_dim("chunk", self, dim);
  if (d < 0) return false;
  if (chunks < 1)
    return tli_fail(TL_EARG, "chunk: expected at least 1 chunk, got %" PRId64, chunks);
  int64_t size = self->sizes[d];
  if (size == 0) return cut_evenly(self, d, chunks, 0, out);
  int64_t length = (size - 1) / chunks + 1;
  return cut_evenly(self, d, (size - 1) / length + 1, length, out);
}

bool tlo_unbind(tl_Tensor *self, int64_t dim, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int d = list_dim("unbind", self, dim);
  if (d < 0) return false;
  tl_Tensors list = tli_tensors_new(self->sizes[d]);
  bool ok = list.v != NULL;
  for (int64_t i = 0; ok && i < list.n; i++) {
    list.v[i] = goes_on(i) ? tlo_select(self, d, i) : NULL;
    ok = list.v[i] != NULL;
  }
  return list_done(ok, &list, out);
}

/* ---- cat ---- */

/* Returns whether t is an empty vector. Such a vector can be joined with tensors of any shape. */
static bool is_nothing(const tl_Tensor *t) { return t->ndim == 1 && t->sizes[0] == 0; }

/* Computes the shape of the joined tensor. *d receives the dimension along which the tensors are
** joined. */
static bool joined_shape(tl_Tensors list, int64_t dim, int *d, int *ndim, int64_t *sizes) {
  if (list.n == 0) return tli_fail(TL_EARG, "cat: expected at least one tensor");
  const tl_Tensor *first = NULL;
  for (int64_t i = 0; i < list.n; i++) {
    if (list.v[i]->ndim == 0)
      return tli_fail(TL_ESHAPE, "cat: tensor " TLI_POS " has no dimensions; use stack", i);
    if (first == NULL && !is_nothing(list.v[i])) first = list.v[i];
  }
  if (first == NULL) first = list.v[0];
  *d = tli_dim("cat", dim, first->ndim);
  if (*d < 0) return false;
  *ndim = first->ndim;
  memcpy(sizes, first->sizes, sizeof first->sizes);
  sizes[*d] = 0;
  for (int64_t i = 0; i < list.n; i++) {
    const tl_Tensor *t = list.v[i];
    if (is_nothing(t)) continue;
    bool same = t->ndim == *ndim;
    for (int k = 0; same && k < t->ndim; k++) same = k == *d || t->sizes[k] == sizes[k];
    if (!same)
      return tli_fail(TL_ESHAPE,
                      "cat: tensor " TLI_POS " has shape %s: expected that of the others, %s, but "
                      "for dimension " TLI_POS,
                      i, tli_sizes_str(t), tli_sizes_str(first), (int64_t)*d);
    if (__builtin_add_overflow(sizes[*d], t->sizes[*d], &sizes[*d]))
      return tli_fail(TL_EARG, "cat: the result would be too large");
  }
  return true;
}

static bool copy_parts(tl_Tensor *whole, tl_Tensors list, int d) {
  bool ok = true;
  for (int64_t i = 0, at = 0; ok && i < list.n; i++) {
    tl_Tensor *t = list.v[i];
    if (is_nothing(t)) continue;
    tl_Tensor *part = tli_cut(whole, d, at, t->sizes[d], 1);
    ok = part && tli_copy(part, t);
    tli_release(part);
    at += t->sizes[d];
  }
  return ok;
}

static bool on_one_device(const char *op, tl_Tensors list) {
  for (int64_t i = 1; i < list.n; i++)
    if (!tli_same_device(tli_device(list.v[0]), tli_device(list.v[i])))
      return tli_fail(TL_EDEVICE, "%s: expected all tensors on one device, got %s and %s", op,
                      tli_device_str(tli_device(list.v[0])), tli_device_str(tli_device(list.v[i])));
  return true;
}

/* Returns the memory format of the tensors if all have the same format, otherwise row-major. */
static tli_Format common_format(tl_Tensors list) {
  tli_Format common = TLI_PRESERVE;
  for (int64_t i = 0; i < list.n; i++) {
    if (is_nothing(list.v[i])) continue;
    tli_Format format = tli_format_of(list.v[i]);
    if (common != TLI_PRESERVE && common != format) return TLI_ROW_MAJOR;
    common = format;
  }
  return common;
}

tl_Tensor *tli_op_cat(tl_Tensors tensors, int64_t dim) {
  int d = 0, ndim = 0;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(joined_shape(tensors, dim, &d, &ndim, sizes));
  TL_TRY_NULL(on_one_device("cat", tensors));
  /* there are no 0-d tensors here, so promotion depends only on the dtypes */
  tl_DType dtype = (tl_DType)tensors.v[0]->dtype;
  for (int64_t i = 1; i < tensors.n; i++)
    dtype = tli_dtype_promote(dtype, (tl_DType)tensors.v[i]->dtype);
  TL_TRY_NULL(tli_check_sizes("cat", (tl_Ints){ndim, sizes}, dtype));
  tl_Tensor *whole =
      tli_empty_format(common_format(tensors), dtype, tli_device(tensors.v[0]), ndim, sizes);
  if (whole && !copy_parts(whole, tensors, d)) {
    tli_release(whole);
    return NULL;
  }
  return whole;
}

bool tlo_split_with_sizes(tl_Tensor *self, tl_Ints split_sizes, int64_t dim, tl_Tensors *out) {
  return tlo_split_sizes(self, split_sizes, dim, out);
}

bool tlo_cat_backward(tl_Tensor *grad, tl_Ints lengths, int64_t dim, tl_Tensors *out) {
  return tlo_split_sizes(grad, lengths, dim, out);
}

tl_Tensor *tli_op_stack(tl_Tensors tensors, int64_t dim) {
  if (tensors.n == 0) return tli_fail_null(TL_EARG, "stack: expected at least one tensor");
  for (int64_t i = 1; i < tensors.n; i++)
    if (!tli_same_sizes(tensors.v[0], tensors.v[i]))
      return tli_fail_null(TL_ESHAPE,
                           "stack: tensor " TLI_POS " has shape %s: expected that of the first, %s",
                           i, tli_sizes_str(tensors.v[i]), tli_sizes_str(tensors.v[0]));
  int d = tli_dim("stack", dim, tensors.v[0]->ndim + 1);
  if (d < 0) return NULL;
  tl_Tensors list = tli_tensors_new(tensors.n);
  bool ok = list.v != NULL;
  for (int64_t i = 0; ok && i < list.n; i++) {
    list.v[i] = tlo_unsqueeze(tensors.v[i], d);
    ok = list.v[i] != NULL;
  }
  tl_Tensor *result = ok ? tlo_cat(list, d) : NULL;
  tli_tensors_free(&list);
  return result;
}

/* ---- repeating ---- */

/* Repeats self along dimensions from `first` on, as many of them as TL_MAX_DIMS allows. For each
** dimension, size s is viewed as (1, s), expanded to (r, s), copied, and flattened to (r * s). Sets
** *next to the first dimension that is not repeated yet. */
static tl_Tensor *repeat_some(tl_Tensor *self, const int64_t *times, int first, int *next) {
  int64_t apart[TL_MAX_DIMS], wide[TL_MAX_DIMS], joined[TL_MAX_DIMS];
  int n = 0, room = TL_MAX_DIMS - self->ndim, d;
  for (d = 0; d < self->ndim; d++) {
    bool repeats = d >= first && d < *next && times[d] != 1;
    if (repeats && room == 0) *next = d;
    repeats = repeats && room-- > 0;
    if (repeats) {
      apart[n] = 1;
      wide[n++] = times[d];
    }
    apart[n] = wide[n] = self->sizes[d];
    n++;
    joined[d] = repeats ? times[d] * self->sizes[d] : self->sizes[d];
  }
  tli_Chain c = {0};
  tl_Tensor *view = TLI_STEP(&c, tlo_view(self, (tl_Ints){n, apart}));
  tl_Tensor *repeated = TLI_STEP(&c, tlo_expand(view, (tl_Ints){n, wide}));
  tl_Tensor *copy = TLI_STEP(&c, tlo_to_row_major(repeated));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(copy, (tl_Ints){self->ndim, joined})));
}

static bool check_times(const char *op, const tl_Tensor *self, tl_Ints times) {
  TL_TRY(tli_check_ndim(op, times.n));
  int64_t sizes[TL_MAX_DIMS];
  int64_t skip = times.n - self->ndim;
  if (skip < 0)
    return tli_fail(TL_EARG, "%s: expected a number for each of %d dimensions, got %" PRId64, op,
                    self->ndim, times.n);
  for (int64_t d = 0; d < times.n; d++) {
    int64_t own = d < skip ? 1 : self->sizes[d - skip];
    if (times.v[d] < 0)
      return tli_fail(TL_EARG, "%s: expected numbers of at least 0, got %" PRId64, op, times.v[d]);
    if (__builtin_mul_overflow(own, times.v[d], &sizes[d]))
      return tli_fail(TL_EARG, "%s: the result would be too large", op);
  }
  return tli_check_sizes(op, (tl_Ints){times.n, sizes}, (tl_DType)self->dtype);
}

static tl_Tensor *repeat(const char *op, tl_Tensor *self, tl_Ints times) {
  TL_TRY_NULL(check_times(op, self, times));
  int64_t sizes[TL_MAX_DIMS];
  int n = (int)times.n, skip = n - self->ndim;
  for (int d = 0; d < n; d++) sizes[d] = d < skip ? 1 : self->sizes[d - skip];
  tl_Tensor *current = tlo_view(self, (tl_Ints){n, sizes});
  for (int first = 0, next = n; current && first < n; first = next, next = n) {
    tl_Tensor *more = repeat_some(current, times.v, first, &next);
    tli_release(current);
    current = more;
  }
  if (current == NULL || n > 0) return current;
  tl_Tensor *copy = tlo_clone(current);
  tli_release(current);
  return copy;
}

tl_Tensor *tlo_repeat(tl_Tensor *self, tl_Ints sizes) { return repeat("repeat", self, sizes); }

tl_Tensor *tlo_tile(tl_Tensor *self, tl_Ints dims) {
  if (dims.n >= self->ndim) return repeat("tile", self, dims);
  int64_t times[TL_MAX_DIMS];
  int64_t skip = self->ndim - dims.n;
  for (int64_t d = 0; d < self->ndim; d++) times[d] = d < skip ? 1 : dims.v[d - skip];
  return repeat("tile", self, (tl_Ints){self->ndim, times});
}

/* ---- rearranging ---- */

/* Reverses dimensions by copying from an alias with negative strides. Public tensors never have
** such strides. */
tl_Tensor *tli_op_flip(tl_Tensor *self, tl_Ints dims) {
  bool marked[TL_MAX_DIMS];
  TL_TRY_NULL(tli_mark_dims("flip", dims, self->ndim, marked));
  int64_t strides[TL_MAX_DIMS], offset = self->offset;
  for (int d = 0; d < self->ndim; d++) {
    bool flips = marked[d] && dims.n > 0 && self->sizes[d] > 1;
    strides[d] = flips ? -self->strides[d] : self->strides[d];
    if (flips) offset += (self->sizes[d] - 1) * self->strides[d];
  }
  tl_Tensor *result = tli_empty_like(self, (tl_DType)self->dtype);
  tl_Tensor *backwards = self->numel > 0 ? tli_alias(self, self->ndim, self->sizes, strides, offset)
                                         : tli_retain(self);
  bool ok = result && backwards && tli_copy(result, backwards);
  tli_release(backwards);
  if (ok) return result;
  tli_release(result);
  return NULL;
}

static tl_Tensor *roll_one(tl_Tensor *self, int64_t shift, int64_t dim) {
  int d = tli_dim("roll", dim, self->ndim);
  if (d < 0) return NULL;
  int64_t size = self->ndim > 0 ? self->sizes[d] : 0;
  if (size == 0) return tlo_clone(self);
  int64_t start = size - shift % size;
  if (start >= size) start -= size;
  tli_Chain c = {0};
  tl_Tensor *end = chain_slice(&c, self, d, start, size);
  return tli_chain_end(&c, chain_cat(&c, end, chain_slice(&c, self, d, 0, start), d));
}

static tl_Tensor *roll_flat(tl_Tensor *self, int64_t shift) {
  tli_Chain c = {0};
  tl_Tensor *flat = TLI_STEP(&c, tlo_reshape(self, (tl_Ints){1, (int64_t[]){-1}}));
  tl_Tensor *rolled = TLI_STEP(&c, roll_one(flat, shift, 0));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(rolled, (tl_Ints){self->ndim, self->sizes})));
}

tl_Tensor *tlo_roll(tl_Tensor *self, tl_Ints shifts, tl_Ints dims) {
  if (shifts.n == 0) return tli_fail_null(TL_EARG, "roll: expected at least one shift");
  if (dims.n == 0 && shifts.n == 1) return roll_flat(self, shifts.v[0]);
  if (dims.n != shifts.n)
    return tli_fail_null(
        TL_EARG, "roll: expected as many dimensions as shifts, got %" PRId64 " and %" PRId64,
        dims.n, shifts.n);
  if (self->ndim == 0)
    return tli_fail_null(TL_EINDEX, "roll: dims: a tensor without dimensions has none to roll");
  tl_Tensor *current = tli_retain(self);
  for (int64_t i = 0; current && i < shifts.n; i++) {
    tl_Tensor *rolled = roll_one(current, shifts.v[i], dims.v[i]);
    tli_release(current);
    current = rolled;
  }
  return current;
}

/* ---- triangles ---- */

/* Returns a bool mask (rows, cols) that is true where column - row <= diagonal. */
static tl_Tensor *lower_mask(tl_Device device, int64_t rows, int64_t cols, int64_t diagonal) {
  static const tli_PointwiseSpec le = {"tril",           TLK_le, 2,    0,
                                       TLI_TYPES_NUMBER, true,   true, TLI_COMPLEX_REFUSED};
  tl_Scalar first = tli_int(diagonal), last = tli_int(diagonal + rows);
  tli_Chain c = {0};
  tl_Tensor *at = TLI_STEP(&c, tlo_arange(tli_int(0), tli_int(cols), tli_int(1), TL_I64, device));
  tl_Tensor *ends = TLI_STEP(&c, tlo_arange(first, last, tli_int(1), TL_I64, device));
  tl_Tensor *of_rows = TLI_STEP(&c, tli_alias(ends, 2, (int64_t[]){rows, 1}, (int64_t[]){1, 1}, 0));
  return tli_chain_end(&c, TLI_STEP(&c, tli_pointwise(&le, (tl_Tensor *[]){at, of_rows}, NULL)));
}

/* Clamps the number of a diagonal to the range from -rows to cols. The diagonals at both ends of
** this range are empty. */
static int64_t within(int64_t diagonal, int64_t rows, int64_t cols) {
  return diagonal < -rows ? -rows : diagonal > cols ? cols : diagonal;
}

static tl_Tensor *triangle(const char *op, tl_Tensor *self, int64_t diagonal, bool lower) {
  if (self->ndim < 2)
    return tli_fail_null(TL_ESHAPE, "%s: expected at least 2 dimensions, got shape %s", op,
                         tli_sizes_str(self));
  static const tli_PointwiseSpec choose = {"where",          TLK_where, 3,    0,
                                           TLI_TYPES_NUMBER, false,     true, TLI_COMPLEX_TAKEN};
  int64_t rows = self->sizes[self->ndim - 2], cols = self->sizes[self->ndim - 1];
  tl_Device device = tli_device(self);
  tli_Chain c = {0};
  tl_Tensor *mask =
      TLI_STEP(&c, lower_mask(device, rows, cols, within(diagonal, rows, cols) - !lower));
  tl_Tensor *zero = TLI_STEP(&c, tli_scalar_tensor(tli_int(0), (tl_DType)self->dtype, device));
  tl_Tensor *inputs[] = {mask, lower ? self : zero, lower ? zero : self};
  return tli_chain_end(&c, TLI_STEP(&c, tli_pointwise(&choose, inputs, NULL)));
}

tl_Tensor *tli_op_tril(tl_Tensor *self, int64_t diagonal) {
  return triangle("tril", self, diagonal, true);
}

tl_Tensor *tli_op_triu(tl_Tensor *self, int64_t diagonal) {
  return triangle("triu", self, diagonal, false);
}
