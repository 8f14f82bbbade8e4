/*
** gather.c - gather and scatter along one dimension. The index has the shape of the elements that
** are read or written. In-place functions check all arguments before they write.
*/
#include <math.h>
#include <string.h>

#include "ops/index/index_call.h"

/* ---- along a dimension, with an index for each element ---- */

static bool check_along(const char *op, const tl_Tensor *self, const tl_Tensor *index, int dim) {
  bool fits = index->ndim == self->ndim || (self->ndim <= 1 && index->ndim <= 1);
  for (int d = 0; fits && d < index->ndim && self->ndim > 0; d++)
    fits = d == dim || index->sizes[d] <= self->sizes[d];
  if (fits || index->numel == 0) return true;
  return tli_fail(
      TL_ESHAPE, "%s: index: expected at most the sizes of %s but in dimension " TLI_POS ", got %s",
      op, tli_sizes_str(self), (int64_t)dim, tli_sizes_str(index));
}

/* Describes t as an operand of the kernel, with t's strides. The field `along` is t's stride along
** dim. A 0-d tensor gets strides of 0. */
static tli_Operand operand_along(tl_Tensor *t, int ndim, int dim) {
  tli_Operand o = {.tensor = t, .along = t->ndim ? t->strides[dim] : 0};
  for (int d = 0; d < ndim; d++) o.strides[d] = t->ndim ? t->strides[d] : 0;
  return o;
}

/* Copies index's sizes, with 1 in place of the size along dim, so that they count the lines along
** dim. Returns the size along dim. */
static int64_t lines_along(const tl_Tensor *index, int dim, int64_t *sizes) {
  for (int d = 0; d < index->ndim; d++) sizes[d] = d == dim ? 1 : index->sizes[d];
  return index->ndim ? index->sizes[dim] : 1;
}

static int64_t size_along(const tl_Tensor *t, int dim) { return t->ndim ? t->sizes[dim] : 1; }

tl_Tensor *tli_op_gather(tl_Tensor *self, int64_t dim, tl_Tensor *index) {
  int d = tli_dim("gather", dim, self->ndim);
  if (d < 0) return NULL;
  TL_TRY_NULL(check_along("gather", self, index, d));
  tl_Tensor *at = tli_index_int64("gather", index);
  tl_Tensor *out =
      at ? tli_empty((tl_DType)self->dtype, tli_device(self), at->ndim, at->sizes) : NULL;
  if (out && out->numel > 0) {
    int64_t sizes[TL_MAX_DIMS];
    int64_t count = lines_along(at, d, sizes);
    tli_Operand operands[] = {operand_along(out, at->ndim, d), operand_along(at, at->ndim, d),
                              operand_along(self, at->ndim, d)};
    if (!tli_gather("gather", operands, at->ndim, sizes, count, size_along(self, d))) {
      tli_release(out);
      out = NULL;
    }
  }
  tli_release(at);
  return out;
}

/* ---- scatter ---- */

/* Combines the elements of self at positions `at` with src. The positions must have been
** checked. */
static bool scatter_into(tlk_Join join, tl_Tensor *self, int dim, tl_Tensor *at, tl_Tensor *src) {
  if (tli_scatter_upcasts(join, self)) {
    tl_DType dtype = tli_dtype_compute((tl_DType)self->dtype);
    tl_Tensor *wide = tli_contiguous_as(self, dtype), *wide_src = tli_contiguous_as(src, dtype);
    bool ok =
        wide && wide_src && scatter_into(join, wide, dim, at, wide_src) && tli_copy(self, wide);
    tli_release(wide);
    tli_release(wide_src);
    return ok;
  }
  int64_t sizes[TL_MAX_DIMS];
  int64_t count = lines_along(at, dim, sizes);
  tli_Operand operands[] = {operand_along(self, at->ndim, dim), operand_along(at, at->ndim, dim),
                            operand_along(src, at->ndim, dim)};
  return tli_scatter(join, operands, at->ndim, sizes, count, size_along(self, dim));
}

static bool check_source(const char *op, const tl_Tensor *self, const tl_Tensor *src,
                         const tl_Tensor *index) {
  if (src->dtype != self->dtype)
    return tli_fail(TL_EDTYPE, "%s: src: expected self's dtype %s, got %s", op,
                    tl_dtype_name((tl_DType)self->dtype), tl_dtype_name((tl_DType)src->dtype));
  bool fits = src->ndim == index->ndim || (src->ndim <= 1 && index->ndim <= 1);
  for (int d = 0; fits && d < index->ndim && src->ndim > 0; d++)
    fits = index->sizes[d] <= src->sizes[d];
  if (fits && (src->ndim == 0 || index->ndim == 0)) fits = index->numel <= src->numel;
  if (fits || index->numel == 0) return true;
  return tli_fail(TL_ESHAPE, "%s: src: expected at least the sizes of index %s, got %s", op,
                  tli_sizes_str(index), tli_sizes_str(src));
}

/* Converts an index as tli_index_int64 does, but without repeating the elements of expanded
** dimensions: in the returned tensor these dimensions, except `dim`, have size 1, so that no
** element is copied or checked twice. *spread receives the returned tensor expanded to the sizes of
** index. Both tensors are new references. */
static tl_Tensor *compact_index(const char *op, tl_Tensor *index, int dim, tl_Tensor **spread) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < index->ndim; d++)
    sizes[d] = d != dim && index->strides[d] == 0 && index->sizes[d] > 1 ? 1 : index->sizes[d];
  tl_Tensor *once = tli_alias(index, index->ndim, sizes, index->strides, index->offset);
  tl_Tensor *at = once ? tli_index_int64(op, once) : NULL;
  tli_release(once);
  TL_TRY_NULL(at);
  for (int d = 0; d < index->ndim; d++)
    strides[d] = sizes[d] < index->sizes[d] ? 0 : at->strides[d];
  *spread = tli_alias(at, index->ndim, index->sizes, strides, at->offset);
  if (*spread) return at;
  tli_release(at);
  return NULL;
}

static bool scatter_checked(const char *op, tlk_Join join, tl_Tensor *self, int64_t dim,
                            tl_Tensor *index, tl_Tensor *src) {
  int d = tli_dim(op, dim, self->ndim);
  TL_TRY(d >= 0);
  TL_TRY(check_along(op, self, index, d));
  TL_TRY(check_source(op, self, src, index));
  TL_TRY(tli_same_device_all(op, (tl_Tensor *[]){self, index, src}, 3));
  tl_Tensor *spread = NULL, *at = compact_index(op, index, d, &spread);
  tl_Tensor *from = at ? tli_unaliased(src, self) : NULL;
  bool ok = from && tli_check_index(op, "index", at, size_along(self, d), false) &&
            (spread->numel == 0 || scatter_into(join, self, d, spread, from));
  tli_release(at);
  tli_release(spread);
  tli_release(from);
  return ok;
}

/* Returns a number as a tensor with the sizes of index and the dtype of self. */
static tl_Tensor *spread_number(const tl_Tensor *self, const tl_Tensor *index, tl_Scalar value) {
  static const int64_t strides[TL_MAX_DIMS];
  tl_Tensor *one = tli_scalar_tensor(value, (tl_DType)self->dtype, tli_device(self));
  tl_Tensor *wide = one ? tli_alias(one, index->ndim, index->sizes, strides, 0) : NULL;
  tli_release(one);
  return wide;
}

static bool scatter_number(const char *op, tlk_Join join, tl_Tensor *self, int64_t dim,
                           tl_Tensor *index, tl_Scalar value) {
  TL_TRY(tli_check_complex_number(op, value, (tl_DType)self->dtype));
  tl_Tensor *src = spread_number(self, index, value);
  bool ok = src && scatter_checked(op, join, self, dim, index, src);
  tli_release(src);
  return ok;
}

bool tli_op_scatter_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *src) {
  return scatter_checked("scatter", TLK_JOIN_SET, self, dim, index, src);
}

bool tli_op_scatter_value_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Scalar value) {
  return scatter_number("scatter", TLK_JOIN_SET, self, dim, index, value);
}

static bool join_of(const char *reduce, tlk_Join *join) {
  *join = strcmp(reduce, "add") == 0 ? TLK_JOIN_ADD : TLK_JOIN_MUL;
  if (*join == TLK_JOIN_ADD || strcmp(reduce, "multiply") == 0) return true;
  return tli_fail(TL_EARG, "scatter: reduce: expected 'add' or 'multiply', got '%s'", reduce);
}

bool tli_op_scatter_joined_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *src,
                            const char *reduce) {
  tlk_Join join;
  return join_of(reduce, &join) && scatter_checked("scatter", join, self, dim, index, src);
}

bool tli_op_scatter_value_joined_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Scalar value,
                                  const char *reduce) {
  tlk_Join join;
  return join_of(reduce, &join) && scatter_number("scatter", join, self, dim, index, value);
}

bool tli_op_scatter_add_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *src) {
  return scatter_checked("scatter_add", TLK_JOIN_ADD, self, dim, index, src);
}

tl_Tensor *tli_op_gather_backward(tl_Tensor *grad_output, tl_Ints size, int64_t dim,
                                  tl_Tensor *index) {
  tl_Tensor *result =
      tli_empty((tl_DType)grad_output->dtype, tli_device(grad_output), (int)size.n, size.v);
  if (result && tli_fill(result, tli_int(0)) &&
      scatter_checked("gather", TLK_JOIN_ADD, result, dim, index, grad_output))
    return result;
  tli_release(result);
  return NULL;
}

/* ---- scatter_reduce ---- */

typedef struct Reduction {
  const char *name;
  tlk_Join join;
} Reduction;

static const Reduction reductions[] = {
    {"sum", TLK_JOIN_ADD},  {"prod", TLK_JOIN_MUL}, {"mean", TLK_JOIN_ADD},
    {"amax", TLK_JOIN_MAX}, {"amin", TLK_JOIN_MIN},
};

static const Reduction *find_reduction(const char *name) {
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
    if (strcmp(reductions[i].name, name) == 0) return &reductions[i];
  return tli_fail_null(TL_EARG,
                       "scatter_reduce: reduce: expected 'sum', 'prod', 'mean', 'amax' or "
                       "'amin', got '%s'",
                       name);
}

/* Returns the identity element of a join, such as 0 for sums. With include_self = false, the
** identity element replaces self's elements before others are combined with them. */
static tl_Scalar identity_of(tlk_Join join, tl_DType dtype) {
  if (join == TLK_JOIN_ADD) return tli_int(0);
  if (join == TLK_JOIN_MUL) return tli_int(1);
  if (tli_is_float(dtype)) return tli_float(join == TLK_JOIN_MAX ? -INFINITY : INFINITY);
  return tli_int(join == TLK_JOIN_MAX ? tli_int_min(dtype) : tli_int_max(dtype));
}

/* Divides each element of self by the number of elements that were added to it. Integers are
** rounded down. */
static bool divide_by_count(tl_Tensor *self, int64_t dim, tl_Tensor *index, bool include_self) {
  tl_DType dtype = tli_is_float((tl_DType)self->dtype) ? (tl_DType)self->dtype : TL_I64;
  tl_Tensor *count = tli_empty(dtype, tli_device(self), self->ndim, self->sizes);
  tl_Tensor *one = tli_number(tli_int(1)), *least = NULL;
  bool ok = count && one && tli_fill(count, tli_int(include_self)) &&
            scatter_number("scatter_reduce", TLK_JOIN_ADD, count, dim, index, tli_int(1));
  if (ok) ok = (least = tlo_maximum(count, one)) != NULL;
  if (ok) ok = dtype == TL_I64 ? tlo_floor_divide_(self, least) : tlo_true_divide_(self, least);
  tl_Tensor *slots[] = {count, one, least};
  tli_release_results(slots, 3);
  return ok;
}

static bool reduce_into(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *src,
                        const Reduction *r, bool include_self) {
  tl_Scalar start = identity_of(r->join, (tl_DType)self->dtype);
  if (!include_self && !scatter_number("scatter_reduce", TLK_JOIN_SET, self, dim, index, start))
    return false;
  if (!scatter_checked("scatter_reduce", r->join, self, dim, index, src)) return false;
  return strcmp(r->name, "mean") != 0 || divide_by_count(self, dim, index, include_self);
}

bool tli_op_scatter_reduce_(tl_Tensor *self, int64_t dim, tl_Tensor *index, tl_Tensor *src,
                            const char *reduce, bool include_self) {
  const Reduction *r = find_reduction(reduce);
  int d = r ? tli_dim("scatter_reduce", dim, self->ndim) : -1;
  TL_TRY(d >= 0);
  TL_TRY(check_source("scatter_reduce", self, src, index));
  bool mode = tli_set_grad_mode(false);
  /* works on a copy, so that self does not change if the operator fails */
  tl_Tensor *work = tli_clone_for("scatter_reduce", self);
  bool ok = work && reduce_into(work, d, index, src, r, include_self) && tli_copy(self, work);
  tli_release(work);
  tli_set_grad_mode(mode);
  return ok;
}

static bool backward_mean(tl_Tensor *grad, int64_t dim, tl_Tensor *index, tl_Tensor *src,
                          bool include_self, tl_Tensor **out) {
  return (out[0] = tlo_scatter_mean_share(grad, dim, index, src, include_self)) &&
         (out[1] = tlo_gather(out[0], dim, index));
}

static bool backward_prod(tl_Tensor *grad, tl_Tensor *self, int64_t dim, tl_Tensor *index,
                          tl_Tensor *src, bool include_self, tl_Tensor *result, tl_Tensor **out) {
  out[0] = tlo_scatter_prod_self(grad, self, dim, index, src, include_self);
  tl_Tensor *single = out[0] ? tlo_scatter_single_zeros(self, dim, index, src) : NULL;
  if (single)
    out[1] = tlo_scatter_prod_src(grad, self, dim, index, src, include_self, result, single);
  tli_release(single);
  return out[1] != NULL;
}

/* Returns a where b equals c, and 0 elsewhere. */
static tl_Tensor *where_equal(tl_Tensor *a, tl_Tensor *b, tl_Tensor *c) {
  tl_Tensor *same = tlo_eq(b, c);
  tl_Tensor *result = same ? tlo_keep_where(a, same) : NULL;
  tli_release(same);
  return result;
}

static bool backward_extreme(tl_Tensor *grad, tl_Tensor *self, int64_t dim, tl_Tensor *index,
                             tl_Tensor *src, tl_Tensor *result, tl_Tensor **out) {
  tl_Tensor *t[3] = {tlo_scatter_extreme_share(grad, self, dim, index, src, result)};
  if (t[0] && (t[1] = tlo_gather(t[0], dim, index)) && (t[2] = tlo_gather(result, dim, index))) {
    out[0] = where_equal(t[0], self, result);
    out[1] = out[0] ? where_equal(t[1], src, t[2]) : NULL;
  }
  tli_release_results(t, 3);
  return out[1] != NULL;
}

bool tlo_scatter_reduce_backward(tl_Tensor *grad_output, tl_Tensor *self, int64_t dim,
                                 tl_Tensor *index, tl_Tensor *src, const char *reduce,
                                 bool include_self, tl_Tensor *result, tl_Tensor **out) {
  bool ok;
  out[0] = out[1] = NULL;
  if (strcmp(reduce, "sum") == 0) {
    out[0] = tli_retain(grad_output);
    ok = (out[1] = tlo_gather(grad_output, dim, index)) != NULL;
  } else if (strcmp(reduce, "mean") == 0) {
    ok = backward_mean(grad_output, dim, index, src, include_self, out);
  } else if (strcmp(reduce, "prod") == 0) {
    ok = backward_prod(grad_output, self, dim, index, src, include_self, result, out);
  } else {
    ok = backward_extreme(grad_output, self, dim, index, src, result, out);
  }
  if (ok && !include_self) {
    tl_Tensor *rest = tlo_scatter_value(out[0], dim, index, tli_int(0));
    tli_release(out[0]);
    out[0] = rest;
    ok = rest != NULL;
  }
  if (!ok) tli_release_results(out, 2);
  return ok;
}
