/*
** slices.c - views of a part of self, and their derivatives. A derivative is a tensor of zeros in
** self's shape, with the gradient copied or added to the part.
*/
#include "ops/chain.h"

/* Copies grad into `part`, which is a view of `whole`. Returns `whole`, or NULL on failure. Steals
** `whole` and `part`. */
static tl_Tensor *place(tl_Tensor *whole, tl_Tensor *part, tl_Tensor *grad) {
  bool ok = whole && part && tli_copy(part, grad);
  tli_release(part);
  if (ok) return whole;
  tli_release(whole);
  return NULL;
}

/* ---- one position ---- */

static bool check_select(tl_Tensor *self, int64_t dim, int64_t index, int *d, int64_t *at) {
  if (self->ndim == 0)
    return tli_fail(TL_EINDEX, "select: a tensor without dimensions has no positions");
  *d = tli_dim("select", dim, self->ndim);
  if (*d < 0) return false;
  *at = tli_position("select", index, self->sizes[*d]);
  return *at >= 0;
}

tl_Tensor *tli_op_select(tl_Tensor *self, int64_t dim, int64_t index) {
  int d = 0;
  int64_t at = 0;
  TL_TRY_NULL(check_select(self, dim, index, &d, &at));
  return tli_pick(self, d, at);
}

tl_Tensor *tli_op_select_backward(tl_Tensor *grad, tl_Ints size, int64_t dim, int64_t index) {
  tl_Tensor *whole = tli_zeros("select", grad, size);
  return place(whole, whole ? tli_op_select(whole, dim, index) : NULL, grad);
}

/* ---- a range ---- */

typedef struct Range {
  int dim;
  int64_t start, n, step;
} Range;

/* Reads the bounds of a range. As in Python, negative bounds count from the end, and bounds are
** clipped to the size. An absent bound is TLI_NOINT. */
static bool read_range(tl_Tensor *self, int64_t dim, int64_t start, int64_t stop, int64_t step,
                       Range *r) {
  if (self->ndim == 0)
    return tli_fail(TL_EINDEX, "slice: a tensor without dimensions has no positions");
  r->dim = tli_dim("slice", dim, self->ndim);
  if (r->dim < 0) return false;
  if (step < 1)
    return tli_fail(TL_EARG, "slice: expected a step of at least 1, got %" PRId64, step);
  int64_t size = self->sizes[r->dim];
  if (start == TLI_NOINT) start = 0;
  if (stop == TLI_NOINT) stop = size;
  if (start < 0) start += size;
  if (stop < 0) stop += size;
  start = start < 0 ? 0 : start > size ? size : start;
  stop = stop < start ? start : stop > size ? size : stop;
  r->start = start;
  r->step = step;
  r->n = stop > start ? (stop - start - 1) / step + 1 : 0;
  return true;
}

/* Returns a view of a range along one dimension. If the range has only one element, its step does
** not matter and is ignored, because the stride could overflow. */
static tl_Tensor *cut(const tl_Tensor *t, const Range *r) {
  return tli_cut(t, r->dim, r->start, r->n, r->n > 1 ? r->step : 1);
}

tl_Tensor *tli_op_slice(tl_Tensor *self, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  Range r = {0};
  TL_TRY_NULL(read_range(self, dim, start, stop, step, &r));
  return cut(self, &r);
}

/* Returns a view of the positions from start to stop. An inclusive stop that counts from 1 equals
** an exclusive end that counts from 0, so only negative values are converted: -1 is the last
** position. */
tl_Tensor *tlo_slice_range(tl_Tensor *self, int64_t dim, int64_t start, int64_t stop,
                           int64_t step) {
  if (stop != TLI_NOINT && stop < 0) stop = stop == -1 ? TLI_NOINT : stop + 1;
  return tlo_slice(self, dim, start, stop, step);
}

tl_Tensor *tli_op_slice_backward(tl_Tensor *grad, tl_Ints size, int64_t dim, int64_t start,
                                 int64_t stop, int64_t step) {
  tl_Tensor *whole = tli_zeros("slice", grad, size);
  return place(whole, whole ? tli_op_slice(whole, dim, start, stop, step) : NULL, grad);
}

tl_Tensor *tlo_narrow(tl_Tensor *self, int64_t dim, int64_t start, int64_t length) {
  if (self->ndim == 0)
    return tli_fail_null(TL_EINDEX, "narrow: a tensor without dimensions has no positions");
  int d = tli_dim("narrow", dim, self->ndim);
  if (d < 0) return NULL;
  int64_t size = self->sizes[d];
  if (length < 0)
    return tli_fail_null(TL_EARG, "narrow: expected a length of at least 0, got %" PRId64, length);
  /* an empty range may begin directly behind the last position */
  int64_t at = start == size ? size : tli_position("narrow", start, size);
  if (at < 0) return NULL;
  if (length > size - at)
    return tli_fail_null(TL_EINDEX,
                         "narrow: %" PRId64 " positions from " TLI_POS
                         " on do not fit in dimension " TLI_POS " of size %" PRId64,
                         length, start, (int64_t)d, size);
  return tlo_slice(self, d, at, at + length, 1);
}

/* Reads the value of an integer tensor that has one element. */
static bool read_whole(const char *op, const char *what, tl_Tensor *t, int64_t *out) {
  if (t->numel != 1 || tli_dtype_category((tl_DType)t->dtype) != TLI_INT)
    return tli_fail(TL_EARG, "%s: %s: expected one integer, got %s of %s", op, what,
                    tli_sizes_str(t), tl_dtype_name((tl_DType)t->dtype));
  tl_Tensor *here = tlo_to(t, TL_I64, false, false, TLI_CPU, NULL);
  if (here) *out = *(int64_t *)tli_data(here);
  tli_release(here);
  return here != NULL;
}

tl_Tensor *tlo_narrow_tensor(tl_Tensor *self, int64_t dim, tl_Tensor *start, int64_t length) {
  int64_t at = 0;
  TL_TRY_NULL(read_whole("narrow", "start", start, &at));
  if (at == 0)
    return tli_fail_null(TL_EINDEX,
                         "narrow: start: expected a position, counted from 1 or from the end "
                         "with -1, got 0");
  return tlo_narrow(self, dim, at > 0 ? at - 1 : at, length);
}

/* ---- any geometry ---- */

/* Returns how many elements the memory must have for a view of this size and stride: up to the last
** element that the view reaches. Returns -1 if a size or stride is negative, or on overflow. */
static int64_t reach(tl_Ints size, tl_Ints stride) {
  int64_t last = 0, far;
  bool empty = false;
  for (int64_t d = 0; d < size.n; d++) {
    if (size.v[d] < 0 || stride.v[d] < 0) return -1;
    empty = empty || size.v[d] == 0;
    if (size.v[d] == 0) continue;
    if (__builtin_mul_overflow(size.v[d] - 1, stride.v[d], &far)) return -1;
    if (__builtin_add_overflow(last, far, &last)) return -1;
  }
  return empty ? 0 : last == INT64_MAX ? -1 : last + 1;
}

tl_Tensor *tli_op_as_strided(tl_Tensor *self, tl_Ints size, tl_Ints stride,
                             int64_t storage_offset) {
  TL_TRY_NULL(tli_check_sizes("as_strided", size, (tl_DType)self->dtype));
  int n = (int)size.n;
  if (stride.n != size.n)
    return tli_fail_null(
        TL_EARG, "as_strided: expected as many strides as sizes, got %s and %s",
        tli_shape_str(stride.n > TL_MAX_DIMS ? TL_MAX_DIMS : (int)stride.n, stride.v),
        tli_shape_str(n, size.v));
  int64_t offset = storage_offset == TLI_NOINT ? self->offset : storage_offset;
  int64_t room = self->storage->bytes / tli_dtype_bytes[self->dtype];
  int64_t need = reach(size, stride);
  /* a view without elements may begin anywhere, like a slice of an empty tensor */
  int64_t most = need == 0 ? INT64_MAX / 64 : room;
  if (need < 0 || offset < 0 || offset > most || (need > 0 && need > room - offset))
    return tli_fail_null(TL_EINDEX,
                         "as_strided: sizes %s with strides %s from offset %" PRId64
                         " reach outside of a storage of %" PRId64 " elements",
                         tli_shape_str(n, size.v), tli_shape_str(n, stride.v), offset, room);
  return tli_alias(self, n, size.v, stride.v, offset);
}

static tl_Tensor *new_strided(const char *op, tl_Ints size, tl_Ints stride, tl_DType dtype,
                              tl_Device device) {
  TL_TRY_NULL(tli_check_sizes(op, size, dtype == TL_NODTYPE ? tli_default_dtype() : dtype));
  if (stride.n != size.n)
    return tli_fail_null(TL_EARG,
                         "%s: stride: expected as many strides as sizes, %" PRId64 ", got %" PRId64,
                         op, size.n, stride.n);
  int64_t need = reach(size, stride);
  if (need < 0)
    return tli_fail_null(TL_EARG,
                         "%s: stride: expected numbers of at least 0 that memory has "
                         "room for, got %s",
                         op, tli_shape_str((int)stride.n, stride.v));
  tl_Tensor *flat = tli_new(op, (tl_Ints){1, &need}, dtype, device);
  tl_Tensor *result = flat ? tli_alias(flat, (int)size.n, size.v, stride.v, 0) : NULL;
  tli_release(flat);
  return result;
}

tl_Tensor *tlo_empty_strided(tl_Ints size, tl_Ints stride, tl_DType dtype, tl_Device device) {
  return new_strided("empty_strided", size, stride, dtype, device);
}

tl_Tensor *tlo_new_empty_strided(tl_Tensor *self, tl_Ints size, tl_Ints stride, tl_DType dtype,
                                 tl_Device device) {
  return new_strided("new_empty_strided", size, stride,
                     dtype == TL_NODTYPE ? (tl_DType)self->dtype : dtype,
                     device.type < 0 ? tli_device(self) : device);
}

tl_Tensor *tlo_empty_permuted(tl_Ints size, tl_Ints layout, tl_DType dtype, tl_Device device) {
  int64_t strides[TL_MAX_DIMS], dense = 1;
  unsigned seen = 0;
  TL_TRY_NULL(
      tli_check_sizes("empty_permuted", size, dtype == TL_NODTYPE ? tli_default_dtype() : dtype));
  for (int64_t i = layout.n - 1; i >= 0 && layout.n == size.n; i--) {
    int64_t d = layout.v[i];
    if (d < 0 || d >= size.n) break;
    seen |= 1u << d;
    strides[d] = dense;
    dense *= size.v[d] > 0 ? size.v[d] : 1;
  }
  if (layout.n != size.n || seen != (1u << size.n) - 1)
    return tli_fail_null(TL_EARG,
                         "empty_permuted: physical_layout: expected each of the %" PRId64
                         " dimensions once",
                         size.n);
  return new_strided("empty_permuted", size, (tl_Ints){size.n, strides}, dtype, device);
}

typedef struct Geometry {
  int64_t n, offset;
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
} Geometry;

static Geometry geometry(tl_Ints size, tl_Ints stride, int64_t offset) {
  Geometry g = {.n = size.n, .offset = offset};
  for (int64_t d = 0; d < size.n; d++) {
    g.sizes[d] = size.v[d];
    g.strides[d] = stride.v[d];
  }
  return g;
}

static tl_Tensor *seen(tl_Tensor *flat, const Geometry *g) {
  return tlo_as_strided(flat, (tl_Ints){g->n, g->sizes}, (tl_Ints){g->n, g->strides}, g->offset);
}

/* Finds a dimension to loop over if several positions of `view` share memory. Returns the dimension
** with the smallest stride or, among equal strides, the smallest size. Returns -1 if no positions
** share memory. */
static int walked(tl_Tensor *view) {
  if (!tli_overlaps_itself(view)) return -1;
  int best = -1;
  for (int d = 0; d < view->ndim; d++) {
    if (view->sizes[d] == 1) continue;
    if (best < 0 || view->strides[d] < view->strides[best] ||
        (view->strides[d] == view->strides[best] && view->sizes[d] < view->sizes[best]))
      best = d;
  }
  return best;
}

/* Adds grad to the elements of the vector `flat` at which the geometry g places grad's elements, by
** operators that record history. */
static bool scatter(tl_Tensor *flat, tl_Tensor *grad, Geometry g) {
  tl_Tensor *view = seen(flat, &g);
  if (view == NULL) return false;
  int d = walked(view);
  bool ok = true;
  if (d < 0) {
    ok = tlo_add_(view, grad, tli_int(1));
  } else {
    int64_t n = g.sizes[d], stride = g.strides[d];
    for (int64_t k = d + 1; k < g.n; k++) {
      g.sizes[k - 1] = g.sizes[k];
      g.strides[k - 1] = g.strides[k];
    }
    g.n--;
    for (int64_t i = 0; ok && i < n; i++, g.offset += stride) {
      tl_Tensor *piece = tlo_select(grad, d, i);
      ok = piece && scatter(flat, piece, g);
      tli_release(piece);
    }
  }
  tli_release(view);
  return ok;
}

/* Divides each element of `flat` by the number of positions of `base` that refer to the element.
** Returns the view of the quotients with the geometry `base`. So positions that refer to the same
** element share its gradient. */
static tl_Tensor *shared(tl_Tensor *flat, const Geometry *base) {
  tli_Chain c = {0};
  tl_Tensor *count = TLI_STEP(&c, tlo_zeros_like(flat, TL_NODTYPE, TLI_NODEVICE, NULL));
  tl_Tensor *ones =
      TLI_STEP(&c, tlo_new_ones(flat, (tl_Ints){base->n, base->sizes}, TL_NODTYPE, TLI_NODEVICE));
  TLI_DO(&c, scatter(count, ones, *base));
  tl_Tensor *share = chain_div(&c, flat, count);
  return tli_chain_end(&c, TLI_STEP(&c, seen(share, base)));
}

/* Computes the gradient of as_strided. The geometries of self and of the view refer to the same
** flat piece of storage. The gradient is added to a flat tensor through the view's geometry, and
** read through self's geometry. */
tl_Tensor *tlo_as_strided_backward(tl_Tensor *grad, tl_Ints base_size, tl_Ints base_stride,
                                   int64_t base_offset, tl_Ints size, tl_Ints stride,
                                   int64_t offset) {
  if (offset == TLI_NOINT) offset = base_offset;
  int64_t origin = offset < base_offset ? offset : base_offset;
  Geometry base = geometry(base_size, base_stride, base_offset - origin);
  Geometry view = geometry(size, stride, offset - origin);
  int64_t a = base.offset + reach(base_size, base_stride), b = view.offset + reach(size, stride);
  int64_t length = a > b ? a : b;
  tli_Chain c = {0};
  tl_Tensor *flat =
      TLI_STEP(&c, tlo_new_zeros(grad, (tl_Ints){1, &length}, TL_NODTYPE, TLI_NODEVICE));
  TLI_DO(&c, grad->numel == 0 || scatter(flat, grad, view));
  tl_Tensor *back = TLI_STEP(&c, seen(flat, &base));
  if (!c.failed && tli_overlaps_itself(back)) back = TLI_STEP(&c, shared(flat, &base));
  return tli_chain_end(&c, back);
}

/* ---- windows ---- */

static bool check_unfold(int ndim, const int64_t *sizes, int64_t dimension, int64_t size,
                         int64_t step, int *dim) {
  TL_TRY(tli_check_ndim("unfold", ndim + 1));
  *dim = tli_dim("unfold", dimension, ndim);
  if (*dim < 0) return false;
  int64_t room = ndim > 0 ? sizes[*dim] : 1;
  if (step < 1)
    return tli_fail(TL_EARG, "unfold: expected a step of at least 1, got %" PRId64, step);
  if (size >= 0 && size <= room) return true;
  return tli_fail(TL_EARG,
                  "unfold: expected windows of 0 to %" PRId64 " positions along dimension " TLI_POS
                  ", got %" PRId64,
                  room, (int64_t)*dim, size);
}

tl_Tensor *tli_op_unfold(tl_Tensor *self, int64_t dimension, int64_t size, int64_t step) {
  int d = 0;
  TL_TRY_NULL(check_unfold(self->ndim, self->sizes, dimension, size, step, &d));
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  int n = self->ndim;
  for (int k = 0; k < n; k++) {
    sizes[k] = self->sizes[k];
    strides[k] = self->strides[k];
  }
  sizes[n] = size;
  strides[n] = n > 0 ? self->strides[d] : 1;
  if (n > 0) {
    sizes[d] = (self->sizes[d] - size) / step + 1;
    strides[d] = sizes[d] > 1 ? self->strides[d] * step : self->strides[d];
  }
  return tli_alias(self, n + 1, sizes, strides, self->offset);
}

/* Adds the gradients of windows, which may overlap. If there are fewer windows than positions in a
** window, the loop adds one window at a time. Otherwise it adds one position of all windows at a
** time. */
static bool add_windows(tl_Tensor *whole, tl_Tensor *grad, int dim, int64_t size, int64_t step) {
  int last = grad->ndim - 1;
  int64_t windows = grad->sizes[dim];
  bool by_window = windows < size;
  bool ok = true;
  for (int64_t i = 0; ok && i < (by_window ? windows : size); i++) {
    tl_Tensor *from = tli_pick(grad, by_window ? dim : last, i);
    tl_Tensor *to = by_window ? tli_cut(whole, dim, i * step, size, 1)
                              : tli_cut(whole, dim, i, windows, windows > 1 ? step : 1);
    tl_Tensor *turned = NULL;
    /* moves grad's last dimension, which has the positions in a window, to `dim` */
    if (from && to && by_window) {
      int64_t order[TL_MAX_DIMS];
      for (int d = 0; d < last; d++) order[d] = d < dim ? d : d == dim ? last - 1 : d - 1;
      turned = tli_op_permute(from, (tl_Ints){last, order});
    } else if (from) {
      turned = tli_retain(from);
    }
    ok = turned && to && tli_accumulate(to, turned);
    tli_release_results((tl_Tensor *[]){from, to, turned}, 3);
  }
  return ok;
}

tl_Tensor *tli_op_unfold_backward(tl_Tensor *grad, tl_Ints input_size, int64_t dimension,
                                  int64_t size, int64_t step) {
  int d = 0;
  TL_TRY_NULL(check_unfold((int)input_size.n, input_size.v, dimension, size, step, &d));
  tl_Tensor *whole = tli_zeros("unfold", grad, input_size);
  bool ok = whole != NULL;
  if (ok && whole->ndim == 0) {
    tl_Tensor *sum = size > 0 ? tli_pick(grad, 0, 0) : tli_retain(whole);
    ok = sum && tli_copy(whole, sum);
    tli_release(sum);
  } else if (ok) {
    ok = add_windows(whole, grad, d, size, step);
  }
  if (ok) return whole;
  tli_release(whole);
  return NULL;
}

/* ---- diagonals ---- */

tl_Tensor *tli_op_diagonal(tl_Tensor *self, int64_t offset, int64_t dim1, int64_t dim2) {
  if (self->ndim < 2)
    return tli_fail_null(TL_ESHAPE, "diagonal: expected at least 2 dimensions, got shape %s",
                         tli_sizes_str(self));
  int a = tli_dim("diagonal", dim1, self->ndim);
  int b = a < 0 ? -1 : tli_dim("diagonal", dim2, self->ndim);
  if (b < 0) return NULL;
  if (a == b)
    return tli_fail_null(
        TL_EARG, "diagonal: expected two different dimensions, got " TLI_POS " twice", (int64_t)a);
  int64_t rows = self->sizes[a], cols = self->sizes[b];
  int64_t skip_rows = offset < -rows ? rows : offset < 0 ? -offset : 0;
  int64_t skip_cols = offset > 0 ? offset : 0;
  int64_t length = 0, at = self->offset;
  if (skip_rows < rows && skip_cols < cols) {
    length = rows - skip_rows < cols - skip_cols ? rows - skip_rows : cols - skip_cols;
    at += skip_rows * self->strides[a] + skip_cols * self->strides[b];
  }
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  int n = 0;
  for (int d = 0; d < self->ndim; d++) {
    if (d == a || d == b) continue;
    sizes[n] = self->sizes[d];
    strides[n++] = self->strides[d];
  }
  sizes[n] = length;
  strides[n++] = self->strides[a] + self->strides[b];
  return tli_alias(self, n, sizes, strides, at);
}

tl_Tensor *tli_op_diagonal_backward(tl_Tensor *grad, tl_Ints size, int64_t offset, int64_t dim1,
                                    int64_t dim2) {
  tl_Tensor *whole = tli_zeros("diagonal", grad, size);
  return place(whole, whole ? tli_op_diagonal(whole, offset, dim1, dim2) : NULL, grad);
}
