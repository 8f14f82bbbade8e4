/*
** logic.c - selection and comparison, composed of other operators.
*/
#include "ops/chain.h"

/* ---- choice ---- */

tl_Tensor *tlo_where(tl_Tensor *condition, tl_Tensor *self, tl_Tensor *other) {
  if (condition->dtype == TL_BOOL) return tlo_select_where(condition, self, other);
  if (condition->dtype != TL_U8)
    return tli_fail_null(TL_EDTYPE, "where: expected a bool condition, got %s",
                         tl_dtype_name((tl_DType)condition->dtype));
  tl_Tensor *mask = tlo_to_dtype(condition, TL_BOOL);
  tl_Tensor *result = mask ? tlo_select_where(mask, self, other) : NULL;
  tli_release(mask);
  return result;
}

/* Returns the positions, from 1, of all true elements, with one row for each element: (count,
** ndim). */
static tl_Tensor *true_positions(tl_Tensor *condition, int ndim, const int64_t *sizes) {
  tl_Tensor *in = tli_contiguous_as(condition, (tl_DType)condition->dtype);
  if (in == NULL) return NULL;
  tl_Tensor *rows = NULL;
  int64_t count = 0;
  if (tli_count_true(in, &count))
    rows = tli_empty(TL_I64, tli_device(in), 2, (int64_t[]){count, ndim});
  if (rows && count > 0 && !tli_true_positions(in, rows, ndim, sizes)) {
    tli_release(rows);
    rows = NULL;
  }
  tli_release(in);
  return rows;
}

bool tlo_where_positions(tl_Tensor *condition, tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int64_t one = 1;
  /* a 0-d condition is treated as a vector of one element */
  bool zero = condition->ndim == 0;
  tl_Tensor *rows =
      true_positions(condition, zero ? 1 : condition->ndim, zero ? &one : condition->sizes);
  bool ok = rows && tlo_unbind(rows, 1, out);
  tli_release(rows);
  return ok;
}

tl_Tensor *tli_op_bitwise_not(tl_Tensor *self) {
  return self->dtype == TL_BOOL ? tlo_logical_not(self) : tlo_bitwise_invert(self);
}

/* ---- comparison of whole tensors ---- */

/* Converts integers and bools to int64, because bools cannot be subtracted and differences of small
** integers may overflow. */
static tl_Tensor *number_like(tl_Tensor *t) {
  return tli_is_inexact((tl_DType)t->dtype) ? tli_retain(t) : tlo_to_dtype(t, TL_I64);
}

/* Computes |a - b| of int64 tensors in float64. The larger number minus the smaller one may wrap
** around to a negative int64, and 2^64 is added in that case. */
static tl_Tensor *whole_distance(tl_Tensor *a, tl_Tensor *b) {
  tli_Chain c = {0};
  tl_Tensor *larger = TLI_STEP(&c, tlo_maximum(a, b));
  tl_Tensor *smaller = TLI_STEP(&c, tlo_minimum(a, b));
  tl_Tensor *difference = chain_sub(&c, larger, smaller);
  tl_Tensor *wrapped = chain_with_int(&c, tlo_lt, difference, 0);
  tl_Tensor *turns = chain_to(&c, wrapped, TL_F64);
  tl_Tensor *excess = chain_with(&c, tlo_mul, turns, 0x1p64);
  return tli_chain_end(&c, chain_add(&c, chain_to(&c, difference, TL_F64), excess));
}

static tl_Tensor *distance_of(tl_Tensor *a, tl_Tensor *b) {
  if (a->dtype == TL_I64) return whole_distance(a, b);
  tli_Chain c = {0};
  tl_Tensor *difference = chain_sub(&c, a, b);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_abs(difference)));
}

/* Returns a mask of the elements whose difference is finite and at most atol + rtol * |b|. */
static tl_Tensor *near(tl_Tensor *a, tl_Tensor *b, double rtol, double atol) {
  tli_Chain c = {0};
  tl_Tensor *distance = TLI_STEP(&c, distance_of(a, b));
  if (b->dtype == TL_I64) b = chain_to(&c, b, TL_F64);
  tl_Tensor *relative = chain_with(&c, tlo_mul, b, rtol);
  tl_Tensor *magnitude = TLI_STEP(&c, tlo_abs(relative));
  tl_Tensor *allowed = chain_with(&c, tli_plus, magnitude, atol);
  tl_Tensor *within = TLI_STEP(&c, tlo_le(distance, allowed));
  tl_Tensor *finite = TLI_STEP(&c, tlo_isfinite(distance));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_logical_and(within, finite)));
}

static tl_Tensor *both_nan(tl_Tensor *a, tl_Tensor *b) {
  tli_Chain c = {0};
  tl_Tensor *first = TLI_STEP(&c, tlo_isnan(a));
  tl_Tensor *second = TLI_STEP(&c, tlo_isnan(b));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_logical_and(first, second)));
}

static tl_Tensor *isclose(const char *op, tl_Tensor *self, tl_Tensor *other, double rtol,
                          double atol, bool equal_nan) {
  if (self->dtype != other->dtype)
    return tli_fail_null(TL_EDTYPE, "%s: expected tensors of one dtype, got %s and %s", op,
                         tl_dtype_name((tl_DType)self->dtype),
                         tl_dtype_name((tl_DType)other->dtype));
  if (!(rtol >= 0) || !(atol >= 0))
    return tli_fail_null(TL_EARG, "%s: expected tolerances of at least 0, got rtol %g, atol %g", op,
                         rtol, atol);
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *a = TLI_STEP(&c, number_like(self)), *b = TLI_STEP(&c, number_like(other));
  tl_Tensor *equal = TLI_STEP(&c, tlo_eq(a, b));
  tl_Tensor *close = TLI_STEP(&c, near(a, b, rtol, atol));
  tl_Tensor *result = TLI_STEP(&c, tlo_logical_or(equal, close));
  tl_Tensor *nan = equal_nan ? TLI_STEP(&c, both_nan(a, b)) : NULL;
  if (equal_nan) result = TLI_STEP(&c, tlo_logical_or(result, nan));
  tli_set_grad_mode(mode);
  return tli_chain_end(&c, result);
}

tl_Tensor *tlo_isclose(tl_Tensor *self, tl_Tensor *other, double rtol, double atol,
                       bool equal_nan) {
  return isclose("isclose", self, other, rtol, atol, equal_nan);
}

bool tlo_allclose(tl_Tensor *self, tl_Tensor *other, double rtol, double atol, bool equal_nan,
                  bool *out) {
  *out = false;
  return tli_all_true(isclose("allclose", self, other, rtol, atol, equal_nan), out);
}

bool tlo_equal(tl_Tensor *self, tl_Tensor *other, bool *out) {
  *out = false;
  return !tli_same_sizes(self, other) || tli_all_true(tlo_eq(self, other), out);
}

/* ---- properties of one tensor ---- */

bool tlo_is_same_size(tl_Tensor *self, tl_Tensor *other, bool *out) {
  *out = tli_same_sizes(self, other);
  return true;
}

tl_Tensor *tlo_isreal(tl_Tensor *self) {
  if (tli_is_complex((tl_DType)self->dtype)) {
    tl_Tensor *imag = tlo_imag(self);
    tl_Tensor *result = imag ? tli_with_number(tlo_eq, imag, tli_int(0)) : NULL;
    tli_release(imag);
    return result;
  }
  return tlo_full_like(self, tli_bool(true), TL_BOOL, TLI_NODEVICE, NULL);
}

bool tlo_is_nonzero(tl_Tensor *self, bool *out) {
  if (self->numel == 1) return tli_truth(self, out);
  return tli_fail(TL_ESHAPE, "is_nonzero: self: expected one element, got shape %s",
                  tli_sizes_str(self));
}

bool tlo_is_signed(tl_Tensor *self, bool *out) {
  tl_DType dtype = (tl_DType)self->dtype;
  *out = dtype != TL_BOOL && !tli_is_unsigned(dtype);
  return true;
}
