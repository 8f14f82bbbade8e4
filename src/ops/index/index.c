/*
** index.c - index_select, index_add ..., take, put and x[...]. An index tensor selects slices along
** one dimension, or along several adjacent dimensions that are treated as one. The dimensions that
** an index tensor selects from are called the "place"; in the result the dimensions of the index
** replace them. Kernels step through a place with one stride. If a place has no single stride, the
** tensor is first copied in row-major order.
*/
#include <string.h>

#include "ops/chain.h"
#include "ops/index/index_call.h"

/* ---- places ---- */

typedef struct Place {
  int first, count;
  int64_t n;    /* positions */
  int64_t step; /* stride between neighbouring positions in the indexed dimensions, in elements */
  bool even;    /* whether the same stride leads from every position to the next */
} Place;

static Place place_of(const tl_Tensor *t, int first, int count) {
  Place p = {.first = first, .count = count, .n = 1, .even = true};
  for (int d = first + count - 1; d >= first && d < t->ndim; d--) {
    if (t->sizes[d] == 1) continue;
    if (p.n == 1)
      p.step = t->strides[d];
    else if (t->strides[d] != p.n * p.step)
      p.even = false;
    p.n *= t->sizes[d];
  }
  return p;
}

/* Computes the shape of t in which the dimensions [first, first + count) are replaced by all
** dimensions of index. Returns the number of dimensions. */
static int replaced_sizes(const tl_Tensor *t, int first, int count, const tl_Tensor *index,
                          int64_t sizes[2 * TL_MAX_DIMS]) {
  int n = 0;
  for (int d = 0; d < first && d < t->ndim; d++) sizes[n++] = t->sizes[d];
  for (int d = 0; d < index->ndim; d++) sizes[n++] = index->sizes[d];
  for (int d = first + count; d < t->ndim; d++) sizes[n++] = t->sizes[d];
  return n;
}

/* Describes an operand whose lines (the rows of a kernel's loop) run along dimensions [first, first
** + count). `sizes` receives the sizes of all other dimensions. Returns their number. */
static int operand_of(tl_Tensor *t, int first, int count, tli_Operand *o, int64_t *sizes) {
  int n = 0;
  *o = (tli_Operand){.tensor = t, .along = place_of(t, first, count).step};
  for (int d = 0; d < t->ndim; d++) {
    if (d >= first && d < first + count) continue;
    sizes[n] = t->sizes[d];
    o->strides[n++] = t->strides[d];
  }
  return n;
}

/* Describes the operands of a kernel call. `whole` has the dimensions [first, first + count) that
** the index tensor `at` selects from; in `part` the dimensions of `at` replace them. Returns the
** number of all other dimensions. */
static int operands_of(tl_Tensor *whole, tl_Tensor *part, tl_Tensor *at, int first, int count,
                       tli_Operand *of_whole, tli_Operand *of_part, tli_Operand *of_at,
                       int64_t *sizes) {
  int ndim = operand_of(whole, first, count, of_whole, sizes);
  operand_of(part, first, at->ndim, of_part, sizes);
  *of_at = (tli_Operand){.tensor = at, .along = 1};
  return ndim;
}

static tl_Tensor *make_even(tl_Tensor *t, int first, int count) {
  if (place_of(t, first, count).even) return tli_retain(t);
  return tli_contiguous_as(t, (tl_DType)t->dtype);
}

/* ---- reading ---- */

/* Reads `whole` at the positions `at` (int64, row-major). The indexed dimensions of `whole` must
** have a single stride. */
static tl_Tensor *read_even(const char *op, tl_Tensor *whole, tl_Tensor *at, int first, int count) {
  int64_t sizes[2 * TL_MAX_DIMS];
  int ndim = replaced_sizes(whole, first, count, at, sizes);
  tl_Tensor *out = tli_empty((tl_DType)whole->dtype, tli_device(whole), ndim, sizes);
  if (out == NULL) return NULL;
  int64_t n = place_of(whole, first, count).n;
  bool ok;
  if (out->numel == 0) {
    ok = tli_check_index(op, "index", at, n, false);
  } else {
    tli_Operand operands[3];
    int lines =
        operands_of(whole, out, at, first, count, &operands[2], &operands[0], &operands[1], sizes);
    ok = tli_gather(op, operands, lines, sizes, at->numel, n);
  }
  if (ok) return out;
  tli_release(out);
  return NULL;
}

tl_Tensor *tli_read_positions(const char *op, tl_Tensor *self, tl_Tensor *index, int first,
                              int count) {
  tl_Tensor *at = tli_index_int64(op, index);
  tl_Tensor *whole = at ? make_even(self, first, count) : NULL;
  tl_Tensor *out = whole ? read_even(op, whole, at, first, count) : NULL;
  tli_release(at);
  tli_release(whole);
  return out;
}

tl_Tensor *tli_op_index_positions(tl_Tensor *self, tl_Tensor *index, int64_t first, int64_t count) {
  int d = tli_dim("index", first, self->ndim);
  return d < 0 ? NULL : tli_read_positions("index", self, index, d, (int)count);
}

/* ---- writing ---- */

/* Combines self with `values` at the positions `at`, which must have been checked. The indexed
** dimensions of self must have a single stride. `values` must have the shape that a read at these
** positions would return. */
static bool write_even(tlk_Join join, tl_Tensor *self, tl_Tensor *at, tl_Tensor *values, int first,
                       int count) {
  tl_Tensor *part = make_even(values, first, at->ndim);
  if (part == NULL) return false;
  tli_Operand operands[3];
  int64_t sizes[TL_MAX_DIMS];
  int lines =
      operands_of(self, part, at, first, count, &operands[0], &operands[2], &operands[1], sizes);
  bool ok = tli_scatter(join, operands, lines, sizes, at->numel, place_of(self, first, count).n);
  tli_release(part);
  return ok;
}

static bool write_any(tlk_Join join, tl_Tensor *self, tl_Tensor *at, tl_Tensor *values, int first,
                      int count) {
  if (values->numel == 0) return true;
  bool wide = tli_scatter_upcasts(join, self);
  if (!wide && place_of(self, first, count).even)
    return write_even(join, self, at, values, first, count);
  tl_DType dtype = (tl_DType)self->dtype;
  if (wide) dtype = tli_dtype_compute(dtype);
  tl_Tensor *work = tli_contiguous_as(self, dtype), *from = tli_contiguous_as(values, dtype);
  bool ok = work && from && write_even(join, work, at, from, first, count) && tli_copy(self, work);
  tli_release(work);
  tli_release(from);
  return ok;
}

static bool write_positions(const char *op, tlk_Join join, tl_Tensor *self, tl_Tensor *index,
                            tl_Tensor *values, int first, int count) {
  tl_Tensor *at = tli_index_int64(op, index);
  tl_Tensor *from = at ? tli_unaliased(values, self) : NULL;
  bool ok = from && tli_check_index(op, "index", at, place_of(self, first, count).n, false) &&
            write_any(join, self, at, from, first, count);
  tli_release(at);
  tli_release(from);
  return ok;
}

bool tli_op_put_positions_(tl_Tensor *self, tl_Tensor *index, tl_Tensor *values, int64_t first,
                           int64_t count, bool accumulate) {
  return write_positions("index_put", accumulate ? TLK_JOIN_ADD : TLK_JOIN_SET, self, index, values,
                         (int)first, (int)count);
}

tl_Tensor *tli_op_index_positions_backward(tl_Tensor *grad_output, tl_Tensor *index, tl_Ints size,
                                           int64_t first, int64_t count) {
  int d = tli_dim("index", first, (int)size.n);
  if (d < 0) return NULL;
  tl_Tensor *result =
      tli_empty((tl_DType)grad_output->dtype, tli_device(grad_output), (int)size.n, size.v);
  if (result && tli_fill(result, tli_int(0)) &&
      write_positions("index", TLK_JOIN_ADD, result, index, grad_output, d, (int)count))
    return result;
  tli_release(result);
  return NULL;
}

/* Returns a tensor whose elements are all one number, which is stored once. All strides are 0. */
static tl_Tensor *everywhere(tl_Scalar value, const tl_Tensor *like, int ndim,
                             const int64_t *sizes) {
  static const int64_t strides[TL_MAX_DIMS];
  tl_Tensor *one = tli_scalar_tensor(value, (tl_DType)like->dtype, tli_device(like));
  tl_Tensor *wide = one ? tli_alias(one, ndim, sizes, strides, 0) : NULL;
  tli_release(one);
  return wide;
}

tl_Tensor *tlo_put_positions_backward_self(tl_Tensor *grad_output, tl_Tensor *index, int64_t first,
                                           int64_t count, bool accumulate) {
  if (accumulate) return tli_retain(grad_output);
  int64_t sizes[2 * TL_MAX_DIMS];
  int ndim = replaced_sizes(grad_output, (int)first, (int)count, index, sizes);
  tl_Tensor *zeros = everywhere(tli_int(0), grad_output, ndim, sizes);
  tl_Tensor *result =
      zeros ? tlo_put_positions(grad_output, index, zeros, first, count, false) : NULL;
  tli_release(zeros);
  return result;
}

/* ---- one index along dim ---- */

/* Returns t, or a one-dimensional view of a 0-d tensor. */
static tl_Tensor *with_dimension(tl_Tensor *t) {
  int64_t one = 1;
  return t->ndim ? tli_retain(t) : tli_alias(t, 1, &one, &one, t->offset);
}

static bool check_list(const char *op, const tl_Tensor *index) {
  if (index->ndim <= 1) return true;
  return tli_fail(TL_ESHAPE, "%s: index: expected one dimension, got %s", op, tli_sizes_str(index));
}

tl_Tensor *tli_op_index_select(tl_Tensor *self, int64_t dim, tl_Tensor *index) {
  int d = tli_dim("index_select", dim, self->ndim);
  if (d < 0) return NULL;
  TL_TRY_NULL(check_list("index_select", index));
  if (self->ndim == 0 && index->numel != 1)
    return tli_fail_null(
        TL_ESHAPE, "index_select: index: a tensor without dimensions has one position, got %s",
        tli_sizes_str(index));
  tl_Tensor *list = with_dimension(index);
  tl_Tensor *result = list ? tli_read_positions("index_select", self, list, d, 1) : NULL;
  tli_release(list);
  /* the result is 0-d if self is 0-d */
  if (result && self->ndim == 0) tli_set_geometry(result, 0, NULL, NULL);
  return result;
}

/* Checks that source has self's shape, except that its size along dim is the length of index. */
static bool check_index_source(const char *op, const tl_Tensor *self, int dim,
                               const tl_Tensor *index, const tl_Tensor *source) {
  TL_TRY(check_list(op, index));
  if (source->dtype != self->dtype)
    return tli_fail(TL_EDTYPE, "%s: source: expected self's dtype %s, got %s", op,
                    tl_dtype_name((tl_DType)self->dtype), tl_dtype_name((tl_DType)source->dtype));
  bool fits = source->ndim == self->ndim || (self->ndim <= 1 && source->ndim <= 1);
  for (int d = 0; fits && d < self->ndim && source->ndim > 0; d++)
    fits = source->sizes[d] == (d == dim ? index->numel : self->sizes[d]);
  if (fits && (source->ndim == 0 || self->ndim == 0)) fits = index->numel == source->numel;
  if (fits) return true;
  return tli_fail(TL_ESHAPE,
                  "%s: source: expected the shape of self %s with %" PRId64 " in dimension " TLI_POS
                  ", got %s",
                  op, tli_sizes_str(self), index->numel, (int64_t)dim, tli_sizes_str(source));
}

static bool index_write(const char *op, tlk_Join join, tl_Tensor *self, int64_t dim,
                        tl_Tensor *index, tl_Tensor *source) {
  int d = tli_dim(op, dim, self->ndim);
  TL_TRY(d >= 0);
  TL_TRY(check_index_source(op, self, d, index, source));
  tl_Tensor *t[] = {with_dimension(self), with_dimension(index), with_dimension(source)};
  bool ok = t[0] && t[1] && t[2] && write_positions(op, join, t[0], t[1], t[2], d, 1);
  tli_release_results(t, 3);
  return ok;
}

bool tli_op_index_add_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *source,
                       tl_Scalar alpha) {
  TL_TRY(tli_check_complex_number("index_add", alpha, (tl_DType)self->dtype));
  if (tli_to_double(alpha) == 1)
    return index_write("index_add", TLK_JOIN_ADD, self, dim, index, source);
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *scaled = tlo_scaled(source, alpha);
  tli_set_grad_mode(mode);
  bool ok = scaled && index_write("index_add", TLK_JOIN_ADD, self, dim, index, scaled);
  tli_release(scaled);
  return ok;
}

bool tli_op_index_copy_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *source) {
  return index_write("index_copy", TLK_JOIN_SET, self, dim, index, source);
}

/* Writes the sizes that a result of index_select has: self's sizes, with the length of index in
** place of the size along dim. */
static void listed_sizes(const tl_Tensor *self, int dim, const tl_Tensor *index, int64_t *sizes) {
  for (int d = 0; d < self->ndim; d++) sizes[d] = d == dim ? index->numel : self->sizes[d];
}

bool tli_op_index_fill_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Scalar value) {
  int d = tli_dim("index_fill", dim, self->ndim);
  TL_TRY(d >= 0);
  TL_TRY(check_list("index_fill", index));
  TL_TRY(tli_check_complex_number("index_fill", value, (tl_DType)self->dtype));
  if (index->numel == 0) return true;
  int64_t sizes[TL_MAX_DIMS];
  listed_sizes(self, d, index, sizes);
  tl_Tensor *at = tli_wrap_index("index_fill", "index", index, place_of(self, d, 1).n);
  tl_Tensor *source = at ? everywhere(value, self, self->ndim, sizes) : NULL;
  bool ok = source && index_write("index_fill", TLK_JOIN_SET, self, d, at, source);
  tli_release(at);
  tli_release(source);
  return ok;
}

tl_Tensor *tlo_index_fill_tensor(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *value) {
  if (value->ndim != 0)
    return tli_fail_null(TL_ESHAPE, "index_fill: value: expected no dimensions, got %s",
                         tli_sizes_str(value));
  TL_TRY_NULL(tli_check_complex_values("index_fill", value, (tl_DType)self->dtype));
  tli_Chain c = {0};
  tl_Tensor *cast = chain_to(&c, value, (tl_DType)self->dtype);
  tl_Tensor *none = TLI_STEP(&c, tlo_zeros_like(self, TL_BOOL, TLI_NODEVICE, NULL));
  /* the value is filled in by a mask, so that a position that index contains twice counts only once
  ** in the value's gradient */
  tl_Tensor *mask = TLI_STEP(&c, tlo_index_fill(none, dim, index, tli_bool(true)));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_masked_fill(self, mask, cast)));
}

tl_Tensor *tlo_index_reduce(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *source,
                            const char *reduce, bool include_self) {
  int d = tli_dim("index_reduce", dim, self->ndim);
  if (d < 0) return NULL;
  TL_TRY_NULL(check_index_source("index_reduce", self, d, index, source));
  if (strcmp(reduce, "sum") == 0)
    return tli_fail_null(
        TL_EARG,
        "index_reduce: reduce: expected another reduction than 'sum', for which index_add exists");
  int64_t line[TL_MAX_DIMS];
  for (int k = 0; k < source->ndim; k++) line[k] = k == d ? index->numel : 1;
  tli_Chain c = {0};
  tl_Tensor *along = TLI_STEP(&c, tlo_reshape(index, (tl_Ints){source->ndim, line}));
  tl_Tensor *at = TLI_STEP(&c, tlo_expand(along, (tl_Ints){source->ndim, source->sizes}));
  return tli_chain_end(&c,
                       TLI_STEP(&c, tlo_scatter_reduce(self, d, at, source, reduce, include_self)));
}

/* ---- take and put: self as one line ---- */

static tl_Tensor *flattened(tl_Tensor *t) {
  return tlo_reshape(t, (tl_Ints){1, (int64_t[]){t->numel}});
}

tl_Tensor *tlo_take(tl_Tensor *self, tl_Tensor *index) {
  tl_Tensor *row = flattened(self);
  tl_Tensor *at = row ? tli_wrap_index("take", "index", index, self->numel) : NULL;
  tl_Tensor *result = at ? tlo_index_positions(row, at, 0, 1) : NULL;
  tli_release(row);
  tli_release(at);
  return result;
}

/* Writes the elements of source to self at the positions `at`. self is row-major, and positions
** count its elements in memory. */
static bool put_row(tl_Tensor *self, tl_Tensor *at, tl_Tensor *source, bool accumulate) {
  int64_t one = 1;
  tl_Tensor *row = tli_alias(self, 1, &self->numel, &one, self->offset);
  tl_Tensor *values = row ? tli_contiguous_as(source, (tl_DType)source->dtype) : NULL;
  tl_Tensor *list = values ? tli_alias(values, 1, &values->numel, &one, values->offset) : NULL;
  tl_Tensor *positions = list ? tli_alias(at, 1, &at->numel, &one, at->offset) : NULL;
  bool ok = positions && write_positions("put", accumulate ? TLK_JOIN_ADD : TLK_JOIN_SET, row,
                                         positions, list, 0, 1);
  tl_Tensor *slots[] = {row, values, list, positions};
  tli_release_results(slots, 4);
  return ok;
}

bool tli_op_put_(tl_Tensor *self, tl_Tensor *index, tl_Tensor *source, bool accumulate) {
  if (source->dtype != self->dtype)
    return tli_fail(TL_EDTYPE, "put: source: expected self's dtype %s, got %s",
                    tl_dtype_name((tl_DType)self->dtype), tl_dtype_name((tl_DType)source->dtype));
  if (source->numel != index->numel)
    return tli_fail(TL_ESHAPE, "put: source: expected as many elements as index %s, got %s",
                    tli_sizes_str(index), tli_sizes_str(source));
  tl_Tensor *at = tli_wrap_index("put", "index", index, self->numel);
  tl_Tensor *work = at ? tli_contiguous_as(self, (tl_DType)self->dtype) : NULL;
  bool ok = work && put_row(work, at, source, accumulate) &&
            (tli_contiguous(self) || tli_copy(self, work));
  tli_release(at);
  tli_release(work);
  return ok;
}

tl_Tensor *tlo_put_backward_self(tl_Tensor *grad_output, tl_Tensor *index, tl_Tensor *source,
                                 bool accumulate) {
  if (accumulate) return tli_retain(grad_output);
  tl_Tensor *zeros = everywhere(tli_int(0), grad_output, source->ndim, source->sizes);
  tl_Tensor *result = zeros ? tlo_put(grad_output, index, zeros, false) : NULL;
  tli_release(zeros);
  return result;
}

/* ---- take_along_dim ---- */

static tl_Tensor *broadcast_but(tl_Tensor *t, int ndim, const int64_t *common, int dim) {
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < ndim; d++) sizes[d] = d == dim ? t->sizes[d] : common[d];
  return tlo_expand(t, (tl_Ints){ndim, sizes});
}

tl_Tensor *tlo_take_along_dim(tl_Tensor *self, tl_Tensor *indices, int64_t dim) {
  if (dim == TLI_NOINT) {
    tl_Tensor *row = flattened(self), *list = row ? flattened(indices) : NULL;
    tl_Tensor *at = list ? tli_wrap_index("take_along_dim", "indices", list, self->numel) : NULL;
    tl_Tensor *result = at ? tlo_gather(row, 0, at) : NULL;
    tli_release(list);
    if (result == NULL) tli_fail_about("take_along_dim: indices");
    tli_release(row);
    tli_release(at);
    return result;
  }
  int d = tli_dim("take_along_dim", dim, self->ndim);
  if (d < 0) return NULL;
  if (self->ndim != indices->ndim)
    return tli_fail_null(TL_ESHAPE,
                         "take_along_dim: expected self and indices with as many "
                         "dimensions as each other, got %s and %s",
                         tli_sizes_str(self), tli_sizes_str(indices));
  int64_t common[TL_MAX_DIMS];
  for (int k = 0; k < self->ndim; k++) {
    common[k] = self->sizes[k] == 1 ? indices->sizes[k] : self->sizes[k];
    if (k != d && indices->sizes[k] != 1 && indices->sizes[k] != common[k])
      return tli_fail_null(TL_ESHAPE,
                           "take_along_dim: shapes %s and %s do not broadcast but in "
                           "dimension " TLI_POS,
                           tli_sizes_str(self), tli_sizes_str(indices), (int64_t)d);
  }
  tl_Tensor *from = broadcast_but(self, self->ndim, common, d);
  tl_Tensor *plain =
      from ? tli_wrap_index("take_along_dim", "indices", indices, place_of(self, d, 1).n) : NULL;
  tl_Tensor *at = plain ? broadcast_but(plain, self->ndim, common, d) : NULL;
  tl_Tensor *result = at ? tlo_gather(from, d, at) : NULL;
  if (result == NULL) tli_fail_about("take_along_dim: indices");
  tli_release(plain);
  tli_release(from);
  tli_release(at);
  return result;
}

/* ---- unravel_index ---- */

/* Returns (from_zero / step) mod size, plus 1. These are the positions, counted from 1, along one
** dimension. */
static tl_Tensor *unravelled(tl_Tensor *from_zero, int64_t step, int64_t size) {
  tli_Chain c = {0};
  tl_Tensor *steps = chain_with_int(&c, tlo_floor_divide, from_zero, step);
  tl_Tensor *at = chain_with_int(&c, tlo_remainder, steps, size);
  return tli_chain_end(&c, chain_with_int(&c, tli_plus, at, 1));
}

bool tlo_unravel_index(tl_Tensor *indices, tl_Ints shape, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int64_t numel = 1;
  TL_TRY(tli_check_sizes("unravel_index", shape, TL_I8));
  for (int64_t d = 0; d < shape.n; d++) numel *= shape.v[d];
  tl_Tensors list = tli_tensors_new(shape.n);
  tl_Tensor *at = list.v ? tli_wrap_index("unravel_index", "indices", indices, numel) : NULL;
  tl_Tensor *from_zero = at ? tli_with_number(tli_minus, at, tli_int(1)) : NULL;
  bool ok = from_zero || tli_fail_about("unravel_index: indices");
  int64_t step = numel;
  for (int64_t d = 0; ok && d < list.n; d++) {
    /* an empty shape has no valid positions; 1 avoids a division by 0 */
    int64_t size = shape.v[d] > 0 ? shape.v[d] : 1;
    step = step > 0 ? step / size : 1;
    list.v[d] = unravelled(from_zero, step, size);
    ok = list.v[d] != NULL;
  }
  tli_release(at);
  tli_release(from_zero);
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}

/* ---- x[...] ---- */

/* An evaluated list of indices. In `tensor` the indexed dimensions are adjacent and begin at
** `first`; `positions` selects from these dimensions as if they were one. */
typedef struct Selection {
  tl_Tensor *tensor;    /* self or a view of self (owned) */
  tl_Tensor *positions; /* owned */
  int first, count;
} Selection;

static void selection_drop(Selection *s) {
  tli_release(s->tensor);
  tli_release(s->positions);
}

/* The indices of x[...]: for each dimension of `tensor` (owned), a tensor of positions (owned), or
** NULL to select the whole dimension. */
typedef struct Entries {
  tl_Tensor *tensor; /* owned */
  int n;
  tl_Tensor *v[TL_MAX_DIMS];
} Entries;

static void entries_drop(Entries *e) {
  tli_release_results(e->v, e->n);
  tli_release(e->tensor);
}

static bool check_mask_fits(const tl_Tensor *mask, const tl_Tensor *t, int first) {
  for (int d = 0; d < mask->ndim; d++)
    if (mask->sizes[d] != t->sizes[first + d])
      return tli_fail(TL_EINDEX,
                      "index: mask of shape %s does not fit dimension " TLI_POS
                      " of a tensor of shape %s",
                      tli_sizes_str(mask), (int64_t)(first + d), tli_sizes_str(t));
  return true;
}

/* Adds an entry for each dimension of a mask: the positions of its true elements in that
** dimension. */
static bool add_mask(Entries *e, tl_Tensor *mask) {
  if (mask->ndim == 0) { /* a 0-d mask indexes a new dimension of size 1 */
    tl_Tensor *wider = tlo_unsqueeze(e->tensor, e->n);
    if (wider == NULL) return false;
    tli_release(e->tensor);
    e->tensor = wider;
  }
  int dims = mask->ndim ? mask->ndim : 1;
  if (e->n + dims > e->tensor->ndim)
    return tli_fail(TL_EINDEX, "index: too many indices for a tensor of shape %s",
                    tli_sizes_str(e->tensor));
  TL_TRY(check_mask_fits(mask, e->tensor, e->n));
  tl_Tensor *rows = tlo_nonzero(mask, false);
  if (rows && mask->ndim == 0) {
    /* for a 0-d mask, nonzero has shape (n, 0) with n = 0 or 1; make n entries of position 1 */
    int64_t n = rows->sizes[0];
    tli_release(rows);
    rows = tli_empty(TL_I64, tli_device(mask), 2, (int64_t[]){n, 1});
    if (rows && !tli_fill(rows, tli_int(1))) tli_release(rows), rows = NULL;
  }
  bool ok = rows != NULL;
  for (int d = 0; ok && d < dims; d++) ok = (e->v[e->n++] = tlo_select(rows, 1, d)) != NULL;
  tli_release(rows);
  return ok;
}

static bool add_entry(Entries *e, tl_Tensor *index) {
  if (index && index->dtype == TL_BOOL) return add_mask(e, index);
  if (e->n >= e->tensor->ndim)
    return tli_fail(TL_EINDEX, "index: too many indices for a tensor of shape %s",
                    tli_sizes_str(e->tensor));
  tl_Tensor *entry = NULL;
  if (index && !(entry = tli_wrap_index("index", "index", index, e->tensor->sizes[e->n])))
    return false;
  e->v[e->n++] = entry;
  return true;
}

/* Returns whether the dimensions that have an index are adjacent. *first receives the first of
** these dimensions, and *count their number. */
static bool side_by_side(const Entries *e, int *first, int *count) {
  int last = -1;
  *count = 0;
  for (int d = 0; d < e->n; d++) {
    if (e->v[d] == NULL) continue;
    if ((*count)++ == 0) *first = d;
    last = d;
  }
  return *count == 0 || last - *first + 1 == *count;
}

/* Moves the dimensions that have an index to the front. */
static bool bring_forward(Entries *e) {
  int64_t order[TL_MAX_DIMS];
  tl_Tensor *v[TL_MAX_DIMS] = {NULL};
  int n = 0;
  for (int d = 0; d < e->n; d++) {
    if (e->v[d] == NULL) continue;
    v[n] = e->v[d];
    order[n++] = d;
  }
  int count = n;
  for (int d = 0; d < e->tensor->ndim; d++)
    if (d >= e->n || e->v[d] == NULL) order[n++] = d;
  tl_Tensor *moved = tlo_permute(e->tensor, (tl_Ints){n, order});
  if (moved == NULL) return false;
  tli_release(e->tensor);
  e->tensor = moved;
  e->n = count;
  for (int d = 0; d < count; d++) e->v[d] = v[d];
  return true;
}

/* Combines the positions in `count` dimensions, after broadcasting them, into positions in the
** dimension to which these dimensions are flattened. */
static tl_Tensor *join_entries(const Entries *e, int first, int count) {
  tl_Tensor *joined = tli_retain(e->v[first]);
  for (int d = first + 1; joined && d < first + count; d++) {
    tl_Tensor *next = tlo_join_positions(joined, e->v[d], tli_int(e->tensor->sizes[d]));
    tli_release(joined);
    joined = next;
  }
  return joined;
}

/* Selects the elements at which a single mask is true. The positions refer to the flattened
** dimensions. */
static bool select_masked(tl_Tensor *self, tl_Tensor *mask, Selection *s) {
  *s = (Selection){NULL, NULL, 0, mask->ndim};
  TL_TRY(check_mask_fits(mask, self, 0));
  tl_Tensor *t[2] = {NULL};
  if ((t[0] = tlo_reshape(mask, (tl_Ints){1, &mask->numel})) && (t[1] = tlo_nonzero(t[0], false)))
    s->positions = tlo_select(t[1], 1, 0);
  tli_release_results(t, 2);
  if (s->positions) s->tensor = tli_retain(self);
  return s->positions != NULL;
}

static bool select_entries(tl_Tensor *self, tl_Tensors indices, Selection *s) {
  tl_Tensor *only = indices.n == 1 ? indices.v[0] : NULL;
  if (only && only->dtype == TL_BOOL && only->ndim > 1 && only->ndim <= self->ndim)
    return select_masked(self, only, s);
  Entries e = {.tensor = tli_retain(self)};
  bool ok = true;
  *s = (Selection){NULL, NULL, 0, 0};
  for (int64_t i = 0; ok && i < indices.n; i++) ok = add_entry(&e, indices.v[i]);
  if (ok && !side_by_side(&e, &s->first, &s->count)) {
    ok = bring_forward(&e);
    s->first = 0;
  }
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  if (ok && s->count > 0)
    ok = tli_broadcast_shape("index", e.v + s->first, s->count, &ndim, sizes) &&
         (s->positions = join_entries(&e, s->first, s->count)) != NULL;
  if (ok) s->tensor = tli_retain(e.tensor);
  entries_drop(&e);
  if (!ok) selection_drop(s);
  return ok;
}

/* Copies the indices from the CPU to self's device if necessary. After a copy, *indices and *owned
** are the same new list, and the caller frees *owned. */
static bool bring_indices(const tl_Tensor *self, tl_Tensors *indices, tl_Tensors *owned) {
  tl_Device device = tli_device(self);
  bool there = true;
  *owned = (tl_Tensors){0, NULL};
  for (int64_t i = 0; i < indices->n; i++) {
    tl_Tensor *t = indices->v[i];
    if (t == NULL || tli_same_device(tli_device(t), device)) continue;
    if (tli_device(t).type != TL_CPU)
      return tli_fail(TL_EDEVICE, "index: expected indices on %s, where self is, or cpu, got %s",
                      tli_device_str(device), tli_device_str(tli_device(t)));
    there = false;
  }
  if (there) return true;
  *owned = tli_tensors_new(indices->n);
  bool ok = owned->v != NULL;
  for (int64_t i = 0; ok && i < indices->n; i++)
    ok = !indices->v[i] || (owned->v[i] = tli_moved(indices->v[i], device, false));
  if (!ok) tli_tensors_free(owned);
  *indices = *owned;
  return ok;
}

tl_Tensor *tli_op_index(tl_Tensor *self, tl_Tensors indices) {
  Selection s;
  tl_Tensors owned;
  TL_TRY_NULL(bring_indices(self, &indices, &owned));
  bool ok = select_entries(self, indices, &s);
  tli_tensors_free(&owned);
  if (!ok) return NULL;
  tl_Tensor *result = s.count == 0 ? tlo_clone(s.tensor)
                                   : tlo_index_positions(s.tensor, s.positions, s.first, s.count);
  selection_drop(&s);
  return result;
}

/* Returns whether the call fills a mask of self's shape with one number. This needs no
** positions. */
static bool fills(tl_Tensor *self, tl_Tensors indices, tl_Tensor *values, bool accumulate) {
  return indices.n == 1 && !accumulate && values->numel == 1 && indices.v[0] &&
         indices.v[0]->dtype == TL_BOOL && tli_same_sizes(indices.v[0], self) && self->ndim > 0;
}

static bool fill_masked(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *values) {
  tl_Tensor *value = tlo_reshape(values, (tl_Ints){0, (int64_t[]){0}});
  bool ok = value && tlo_masked_fill_(self, mask, value);
  tli_release(value);
  return ok;
}

/* Returns `values` in self's dtype, expanded to the shape of the selected elements. */
static tl_Tensor *fitted(const Selection *s, tl_Tensor *values) {
  int64_t sizes[2 * TL_MAX_DIMS];
  int ndim = replaced_sizes(s->tensor, s->first, s->count, s->positions, sizes);
  tl_Tensor *t[2] = {NULL}, *result = NULL;
  /* skips leading dimensions of size 1 that `values` has in addition to the destination */
  int skip = 0;
  while (values->ndim - skip > ndim && values->sizes[skip] == 1) skip++;
  if (!tli_expandable(values->ndim - skip, values->sizes + skip, ndim, sizes))
    return tli_fail_null(TL_ESHAPE,
                         "index_put: values: expected a shape that broadcasts to %s, "
                         "got %s",
                         tli_shape_str(ndim, sizes), tli_sizes_str(values));
  if ((t[0] = tlo_to_dtype(values, (tl_DType)s->tensor->dtype)) &&
      (t[1] = tlo_reshape(t[0], (tl_Ints){values->ndim - skip, values->sizes + skip})))
    result = tlo_expand(t[1], (tl_Ints){ndim, sizes});
  tli_release_results(t, 2);
  return result;
}

static bool put(tl_Tensor *self, tl_Tensors indices, tl_Tensor *values, bool accumulate) {
  if (fills(self, indices, values, accumulate)) return fill_masked(self, indices.v[0], values);
  Selection s;
  TL_TRY(select_entries(self, indices, &s));
  bool ok;
  if (s.count == 0) {
    ok = accumulate ? tlo_add_(self, values, tli_int(1)) : tlo_copy_(self, values, false);
  } else {
    tl_Tensor *wide = fitted(&s, values);
    ok = wide && tlo_put_positions_(s.tensor, s.positions, wide, s.first, s.count, accumulate);
    tli_release(wide);
  }
  selection_drop(&s);
  return ok;
}

/* Returns `values` on self's device. Only numbers and 0-d CPU tensors are copied from another
** device. */
static tl_Tensor *bring_values(const tl_Tensor *self, tl_Tensor *values) {
  TL_TRY_NULL(tli_check_complex_values("index_put", values, (tl_DType)self->dtype));
  tl_Device device = tli_device(self);
  if (tli_same_device(tli_device(values), device)) return tli_retain(values);
  if (values->flags & TLI_NUMBER)
    return tli_scalar_tensor(tli_number_of(values), (tl_DType)self->dtype, device);
  if (values->ndim == 0 && tli_device(values).type == TL_CPU)
    return tlo_to_device_only(values, device, false, false, NULL);
  return tli_fail_null(TL_EDEVICE, "index_put: values: expected %s, where self is, got %s",
                       tli_device_str(device), tli_device_str(tli_device(values)));
}

static bool is_mask(const tl_Tensor *index) {
  return index && index->dtype == TL_BOOL && index->ndim > 0;
}

/* Returns the number of elements that a mask of a meta tensor is assumed to select. If possible,
** the number is one for which `values` fits. `end` is the first dimension of self after those that
** the mask covers. */
static int64_t selected_by(const tl_Tensor *mask, const tl_Tensor *self, tl_Tensors indices,
                           int end, const tl_Tensor *values) {
  int used = 0;
  for (int64_t i = 0; i < indices.n; i++) used += indices.v[i] != NULL;
  int at = values->ndim - (self->ndim - end) - 1;
  int64_t n = used == 1 && at >= 0 ? values->sizes[at] : 1;
  return n < mask->numel ? n : mask->numel;
}

/* Replaces the masks of meta tensors by positions. The number of positions is chosen to fit the
** shape of `values`. *indices and *owned receive the same new list, and the caller frees *owned. */
static bool assume_masks(const tl_Tensor *self, tl_Tensors *indices, const tl_Tensor *values,
                         tl_Tensors *owned) {
  tl_Tensors list = tli_tensors_new(TL_MAX_DIMS);
  bool ok = list.v != NULL;
  int d = 0;
  list.n = 0;
  for (int64_t i = 0; ok && i < indices->n; i++) {
    tl_Tensor *index = indices->v[i];
    int rank = is_mask(index) ? index->ndim : 1;
    if (d + rank > self->ndim) { /* there are too many indices; the caller reports that */
      list.n = TL_MAX_DIMS;
      tli_tensors_free(&list);
      return true;
    }
    if (is_mask(index)) {
      ok = check_mask_fits(index, self, d);
      int64_t n = ok ? selected_by(index, self, *indices, d + rank, values) : 0;
      for (int k = 0; ok && k < rank; k++)
        ok = (list.v[list.n++] = tli_empty(TL_I64, tli_device(self), 1, &n)) != NULL;
    } else {
      list.v[list.n++] = index ? tli_retain(index) : NULL;
    }
    d += rank;
  }
  int64_t used = list.n;
  list.n = TL_MAX_DIMS;
  if (!ok) {
    tli_tensors_free(&list);
    return false;
  }
  *owned = list;
  *indices = (tl_Tensors){used, list.v};
  return true;
}

bool tli_op_index_put_(tl_Tensor *self, tl_Tensors indices, tl_Tensor *values, bool accumulate) {
  tl_Tensors owned, assumed = {0, NULL};
  TL_TRY(bring_indices(self, &indices, &owned));
  tl_Tensor *there = bring_values(self, values);
  bool ok = there != NULL;
  if (ok && !tli_has_values(self) && !fills(self, indices, there, accumulate))
    ok = assume_masks(self, &indices, there, &assumed);
  ok = ok && put(self, indices, there, accumulate);
  tli_release(there);
  tli_tensors_free(&assumed);
  tli_tensors_free(&owned);
  return ok;
}

tl_Tensor *tlo_index_put(tl_Tensor *self, tl_Tensors indices, tl_Tensor *values, bool accumulate) {
  tl_Tensor *result = tlo_clone(self);
  if (result && tlo_index_put_(result, indices, values, accumulate)) return result;
  tli_release(result);
  return NULL;
}
