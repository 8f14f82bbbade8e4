/*
** common.c - support functions for generated operators.
*/
#include "ops/common.h"
#include "core/device/settings.h"
#include "core/observe/trace.h"
#include "core/tensor/ledger.h"

#include <math.h>
#include <string.h>

/* ---- complex tensors ---- */

bool tli_has_lapack(const tl_Tensor *t) {
  bool real_only = tli_device(t).type == TL_CUDA;
  return tli_lapack(tli_device(t)) != NULL && !(real_only && tli_is_complex((tl_DType)t->dtype));
}

bool tli_refuse_complex(const char *op) {
  return tli_fail(TL_EDTYPE, "%s: does not take complex numbers", op);
}

/* ---- payload of nodes ---- */

bool tli_ints_keep(tli_IntsBuf *buf, tl_Ints ints) {
  buf->given = ints.v != NULL;
  if (!buf->given) return true;
  int64_t *to = buf->few;
  if (ints.n > TL_MAX_DIMS) {
    to = buf->many = tli_alloc((size_t)ints.n * sizeof *to);
    if (to == NULL) return false;
  }
  buf->n = ints.n;
  memcpy(to, ints.v, (size_t)ints.n * sizeof *to);
  return true;
}

bool tli_ints_lengths(tli_IntsBuf *buf, tl_Tensors list, int64_t dim) {
  int64_t *lengths = tli_alloc((size_t)list.n * sizeof *lengths);
  if (lengths == NULL) return false;
  int64_t ndim = 0;
  for (int64_t i = 0; i < list.n; i++)
    if (list.v[i]->ndim > ndim) ndim = list.v[i]->ndim;
  int64_t d = dim < 0 ? dim + ndim : dim;
  for (int64_t i = 0; i < list.n; i++) lengths[i] = d < list.v[i]->ndim ? list.v[i]->sizes[d] : 0;
  bool ok = tli_ints_keep(buf, (tl_Ints){list.n, lengths});
  tli_free(lengths, (size_t)list.n * sizeof *lengths);
  return ok;
}

void tli_ints_drop(tli_IntsBuf *buf) {
  if (buf->many) tli_free(buf->many, (size_t)buf->n * sizeof *buf->many);
  buf->many = NULL;
}

void tli_name_keep(tli_Name *name, const char *text) {
  size_t n = text ? strlen(text) : 0;
  if (n >= sizeof name->text) n = sizeof name->text - 1;
  memcpy(name->text, text ? text : "", n);
  name->text[n] = '\0';
}

/* ---- releasing ---- */

void *tli_release_results(tl_Tensor **slots, int n) {
  for (int i = 0; i < n; i++) {
    tli_release(slots[i]);
    slots[i] = NULL;
  }
  return NULL;
}

void tli_apply_end(tl_Tensor **slots, int n, bool ok, tl_Tensor **out, int nout) {
  tli_release_results(slots, n);
  if (!ok) tli_release_results(out, nout);
}

tl_Tensors tli_tensors_new(int64_t n) {
  /* a list with more entries would overflow the size in bytes, so the allocation of such a list
  ** fails */
  size_t most = SIZE_MAX / sizeof(tl_Tensor *);
  int64_t each = (int64_t)(sizeof(tl_Tensor) + sizeof(tl_Tensor *));
  if (!tli_ledger_fits(n > INT64_MAX / each ? INT64_MAX : n * each)) return (tl_Tensors){0, NULL};
  tl_Tensors list = {n, tli_alloc((size_t)n > most ? SIZE_MAX : (size_t)n * sizeof(tl_Tensor *))};
  if (list.v == NULL) return (tl_Tensors){0, NULL};
  for (int64_t i = 0; i < n; i++) list.v[i] = NULL;
  return list;
}

void tli_tensors_free(tl_Tensors *list) {
  if (list->v == NULL) return;
  for (int64_t i = 0; i < list->n; i++) tli_release(list->v[i]);
  tli_free(list->v, (size_t)list->n * sizeof(tl_Tensor *));
  *list = (tl_Tensors){0, NULL};
}

void tli_tensors_move(tl_Tensors *list, tl_Tensor **out) {
  for (int64_t i = 0; i < list->n; i++) {
    out[i] = list->v[i];
    list->v[i] = NULL;
  }
  tli_tensors_free(list);
}

bool tli_call_results(const char *op, tl_Tensors *list, tl_Tensors *out) {
  if (list->n != out->n) {
    tli_fail(TL_EARG, "%s: expected %" PRId64 " results, got %" PRId64, op, out->n, list->n);
    tli_tensors_free(list);
    return false;
  }
  tli_tensors_move(list, out->v);
  return true;
}

/* ---- copying ---- */

bool tli_copy(tl_Tensor *dst, const tl_Tensor *src) {
  if (dst->numel == 0) return true;
  if (tli_contiguous(dst) && tli_contiguous(src) && dst->dtype == src->dtype &&
      dst->numel <= 1024 && tli_device(dst).type == TL_CPU) {
    memmove(tli_data(dst), tli_data(src), (size_t)dst->numel * tl_dtype_size((tl_DType)dst->dtype));
    return true;
  }
  struct tlk_copy call;
  call.cx = tli_context(tli_device(dst));
  tli_iter_build(&call.it, dst->ndim, dst->sizes, (tl_Tensor *[]){dst, (tl_Tensor *)src}, 2);
  return tli_backend(tli_device(dst))->copy(&call);
}

bool tli_fill(tl_Tensor *dst, tl_Scalar value) {
  if (dst->numel == 0) return true;
  struct tlk_fill call;
  call.cx = tli_context(tli_device(dst));
  call.value = value;
  tli_iter_build(&call.it, dst->ndim, dst->sizes, &dst, 1);
  return tli_backend(tli_device(dst))->fill(&call);
}

tl_Tensor *tli_contiguous_as(tl_Tensor *t, tl_DType dtype) {
  if (t->dtype == dtype && tli_contiguous(t)) return tli_retain(t);
  tl_Tensor *copy = tli_empty(dtype, tli_device(t), t->ndim, t->sizes);
  if (copy && !tli_copy(copy, t)) {
    tli_release(copy);
    return NULL;
  }
  return copy;
}

tl_Tensor *tli_clone_for(const char *op, tl_Tensor *self) {
  (void)op;
  tl_Tensor *copy = tli_empty_like(self, (tl_DType)self->dtype);
  if (copy && !tli_copy(copy, self)) {
    tli_release(copy);
    return NULL;
  }
  return copy;
}

/* ---- in place and out= ---- */

static bool storable(const char *op, const tl_Tensor *to, tl_DType from) {
  if (tli_dtype_category((tl_DType)to->dtype) >= tli_dtype_category(from)) return true;
  return tli_fail(TL_EDTYPE, "%s: a result of dtype %s cannot be stored in a tensor of dtype %s",
                  op, tl_dtype_name(from), tl_dtype_name((tl_DType)to->dtype));
}

tl_Tensor *tli_inplace_source(tl_Tensor *const *inputs, int n) {
  return tli_recording(inputs, n) ? tlo_clone(inputs[0]) : tli_retain(inputs[0]);
}

bool tli_inplace_fits(const char *op, const tl_Tensor *self, const tl_Tensor *result) {
  if (!tli_same_sizes(self, result))
    return tli_fail(TL_ESHAPE, "%s: the result has shape %s, which does not fit self of shape %s",
                    op, tli_sizes_str(result), tli_sizes_str(self));
  return storable(op, self, (tl_DType)result->dtype);
}

bool tli_write_back(const char *op, tl_Tensor *self, tl_Tensor *result) {
  bool ok = result && tli_inplace_fits(op, self, result) && tli_copy(self, result);
  tli_release(result);
  return ok;
}

bool tli_out_assign(const char *op, tl_Tensor *out, tl_Tensor *result) {
  if (tli_grad_mode() && (tli_requires_grad(out) || tli_requires_grad(result)))
    return tli_fail(TL_EAUTOGRAD, "%s: with out= no gradient can be recorded; use torch.no_grad",
                    op);
  if (!storable(op, out, (tl_DType)result->dtype)) return false;
  if (!tli_same_device(tli_device(out), tli_device(result)))
    return tli_fail(TL_EDEVICE, "%s: out is on %s, the result on %s", op,
                    tli_device_str(tli_device(out)), tli_device_str(tli_device(result)));
  if (!tli_same_sizes(out, result)) {
    tl_Ints sizes = {result->ndim, result->sizes};
    if (!tlo_resize_(out, sizes)) return false;
  }
  if (!tli_copy(out, result)) return false;
  tli_bump(out, op);
  return true;
}

/* ---- checks ---- */

/* Returns the name of input i, one of n inputs, for error messages. */
static const char *input_name(int i, int n) {
  static const char *const two[] = {"self", "other"};
  static const char *const more[] = {"the first", "the second", "the third"};
  return n == 2 ? two[i] : i < 3 ? more[i] : "a later one";
}

bool tli_same_device_all(const char *op, tl_Tensor *const *ts, int n) {
  int first = -1;
  if (tli_only_cpu()) return true;
  for (int i = 0; i < n; i++) {
    tl_Device device = tli_device(ts[i]);
    /* a 0-d CPU tensor can be combined with tensors on any device */
    if (device.type == TL_CPU && ts[i]->ndim == 0) continue;
    if (first < 0) first = i;
    if (!tli_same_device(tli_device(ts[first]), device))
      return tli_fail(TL_EDEVICE,
                      "%s: expected all tensors on one device, got %s on %s and %s on %s", op,
                      input_name(first, n), tli_device_str(tli_device(ts[first])), input_name(i, n),
                      tli_device_str(device));
  }
  return true;
}

bool tli_clashes(const tl_Tensor *out, const tl_Tensor *in) {
  if (out->storage != in->storage || out->numel == 0) return false;
  if (out->offset != in->offset || !tli_same_sizes(out, in) || out->dtype != in->dtype) return true;
  for (int d = 0; d < out->ndim; d++)
    if (out->sizes[d] > 1 && out->strides[d] != in->strides[d]) return true;
  return false;
}

bool tli_check_ndim(const char *op, int64_t n) {
  if (n <= TL_MAX_DIMS) return true;
  return tli_fail(TL_EARG, "%s: expected at most %d dimensions, got %" PRId64, op, TL_MAX_DIMS, n);
}

bool tli_check_sizes(const char *op, tl_Ints size, tl_DType dtype) {
  TL_TRY(tli_check_ndim(op, size.n));
  int n = (int)size.n;
  for (int d = 0; d < n; d++)
    if (size.v[d] < 0)
      return tli_fail(TL_EARG, "%s: sizes %s: expected sizes of at least 0, got %" PRId64, op,
                      tli_shape_str(n, size.v), size.v[d]);
  if (tli_numel(n, size.v, tl_dtype_size(dtype)) >= 0) return true;
  return tli_fail(TL_EARG, "%s: sizes %s: expected less than 2^63 bytes in all", op,
                  tli_shape_str(n, size.v));
}

/* Computes the bounds of the numbers that an integer dtype accepts; the bounds themselves are
** excluded. Unsigned dtypes also accept negative numbers, which wrap around as in PyTorch. */
static void whole_bounds(tl_DType dtype, double *low, double *high) {
  double most = (double)tli_int_max(dtype);
  int digits = tli_dtype_digits[dtype];
  *high = digits >= 63 ? ldexp(1, digits) : most + 1;
  *low = tli_is_unsigned(dtype) ? -*high : -most - 2;
}

bool tli_check_floating(const char *op, const tl_Tensor *input) {
  if (tli_is_float((tl_DType)input->dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: input: expected a floating tensor, got %s", op,
                  tl_dtype_name((tl_DType)input->dtype));
}

bool tli_check_complex_number(const char *op, tl_Scalar value, tl_DType dtype) {
  if (value.kind != TL_COMPLEX || tli_is_complex(dtype)) return true;
  return tli_fail(TL_EARG, "%s: the complex number %g%+gi does not fit in a tensor of dtype %s", op,
                  value.f, value.imag, tl_dtype_name(dtype));
}

bool tli_check_complex_values(const char *op, const tl_Tensor *values, tl_DType dtype) {
  if (values->flags & TLI_NUMBER) return tli_check_complex_number(op, tli_number_of(values), dtype);
  if (!tli_is_complex((tl_DType)values->dtype) || tli_is_complex(dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: values of dtype %s cannot be stored in a tensor of dtype %s", op,
                  tl_dtype_name((tl_DType)values->dtype), tl_dtype_name(dtype));
}

bool tli_check_holds(const char *op, tl_Scalar value, tl_DType dtype) {
  TL_TRY(tli_check_complex_number(op, value, dtype));
  if (dtype == TL_F64 || dtype == TL_C128 || dtype == TL_BOOL || value.kind == TL_BOOLEAN)
    return true;
  if (dtype == TL_I64 && value.kind == TL_INTEGER) return true;
  double v = tli_to_double(value), low, high;
  bool ok;
  if (tli_is_inexact(dtype)) {
    /* infinity and NaN, for which v - v is not 0, are allowed */
    ok = fabs(v) <= tli_float_max(dtype) || v - v != 0;
  } else {
    whole_bounds(dtype, &low, &high);
    ok = v > low && v < high;
  }
  if (ok) return true;
  if (value.kind == TL_INTEGER)
    return tli_fail(TL_EARG, "%s: %" PRId64 " does not fit in a tensor of dtype %s", op, value.i,
                    tl_dtype_name(dtype));
  return tli_fail(TL_EARG, "%s: %g does not fit in a tensor of dtype %s", op, v,
                  tl_dtype_name(dtype));
}

bool tli_check_range(const char *op, const char *argument, tl_Tensor *t, double low, double high) {
  if (t->numel == 0) return true;
  tl_Device device = tli_device(t);
  tl_Tensor *in = tli_contiguous_as(t, t->dtype == TL_F32 ? TL_F32 : TL_F64);
  bool ok = in && TLI_RUN(device, check_range, .in = tli_array(in), .n = in->numel, .low = low,
                          .high = high, .source = tli_fault_source(device, op, argument));
  tli_release(in);
  return ok;
}

bool tli_mark_dims(const char *op, tl_Ints dims, int ndim, bool marked[TL_MAX_DIMS]) {
  bool all = dims.v == NULL || dims.n == 0;
  for (int d = 0; d < TL_MAX_DIMS; d++) marked[d] = all && d < ndim;
  for (int64_t i = 0; i < dims.n; i++) {
    int d = tli_dim(op, dims.v[i], ndim);
    if (d < 0) return false;
    if (marked[d])
      return tli_fail(TL_EARG, "%s: dimension " TLI_POS " appears twice in the list of dimensions",
                      op, (int64_t)d);
    marked[d] = true;
  }
  return true;
}

/* ---- small tensors and views ---- */

tl_Tensor *tli_new(const char *op, tl_Ints size, tl_DType dtype, tl_Device device) {
  if (dtype == TL_NODTYPE) dtype = tli_default_dtype();
  if (device.type < 0) device = tli_default_device();
  TL_TRY_NULL(tli_check_sizes(op, size, dtype));
  return tli_empty(dtype, device, (int)size.n, size.v);
}

tl_Tensor *tli_zeros(const char *op, tl_Tensor *like, tl_Ints size) {
  tl_Tensor *t = tli_new(op, size, (tl_DType)like->dtype, tli_device(like));
  if (t && !tli_fill(t, tli_int(0))) {
    tli_release(t);
    return NULL;
  }
  return t;
}

tl_Tensor *tli_cut(const tl_Tensor *t, int dim, int64_t start, int64_t n, int64_t step) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < t->ndim; d++) {
    sizes[d] = d == dim ? n : t->sizes[d];
    strides[d] = d == dim ? t->strides[d] * step : t->strides[d];
  }
  int64_t offset = t->offset + (n > 0 ? start * t->strides[dim] : 0);
  return tli_alias(t, t->ndim, sizes, strides, offset);
}

tl_Tensor *tli_pick(const tl_Tensor *t, int dim, int64_t at) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < t->ndim; d++) {
    int to = d < dim ? d : d - 1;
    if (d == dim) continue;
    sizes[to] = t->sizes[d];
    strides[to] = t->strides[d];
  }
  return tli_alias(t, t->ndim - 1, sizes, strides, t->offset + at * t->strides[dim]);
}

bool tli_truth(tl_Tensor *t, bool *out) {
  uint8_t byte = 0;
  TL_TRY(tli_read(t, TL_BOOL, &byte));
  *out = byte != 0;
  return true;
}

static bool truth_of(tl_Tensor *steals, tl_Tensor *(*reduce)(tl_Tensor *, tl_Ints, bool),
                     bool *out) {
  tl_Tensor *one = steals ? reduce(steals, TLI_NOINTS, false) : NULL;
  bool ok = one && tli_truth(one, out);
  tli_release(steals);
  tli_release(one);
  return ok;
}

bool tli_any_true(tl_Tensor *steals, bool *out) { return truth_of(steals, tlo_any, out); }
bool tli_all_true(tl_Tensor *steals, bool *out) { return truth_of(steals, tlo_all, out); }

bool tli_any_zero(tl_Tensor *t, bool *out) {
  *out = false;
  if (!tli_has_values(t)) return true;
  return tli_any_true(tli_with_number(tlo_eq, t, tli_int(0)), out);
}

/* Computes the minimum or maximum of t (`reduce`) without recording the call for autograd. Sets
** *out to `none` if t has no elements or is a meta tensor. */
static bool extreme(tl_Tensor *t, tl_Tensor *(*reduce)(tl_Tensor *, tl_Ints, bool), double none,
                    double *out) {
  *out = none;
  if (t->numel == 0 || !tli_has_values(t)) return true;
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *one = reduce(t, TLI_NOINTS, false);
  tli_set_grad_mode(mode);
  bool ok = one && tli_read(one, TL_F64, out);
  tli_release(one);
  return ok;
}

bool tli_smallest(tl_Tensor *t, double *out) { return extreme(t, tlo_amin, INFINITY, out); }
bool tli_largest(tl_Tensor *t, double *out) { return extreme(t, tlo_amax, -INFINITY, out); }

bool tli_count_true(const tl_Tensor *t, int64_t *count) {
  *count = 0;
  if (t->numel == 0) return true;
  tl_Tensor *counted = tli_empty(TL_I64, tli_device(t), 0, NULL);
  bool ok = counted &&
            TLI_RUN(tli_device(t), count_nonzero, .in = tli_array(t), .n = t->numel,
                    .count = tli_data(counted)) &&
            tli_read(counted, TL_I64, count);
  tli_release(counted);
  return ok;
}

bool tli_true_positions(const tl_Tensor *t, tl_Tensor *out, int ndim, const int64_t *sizes) {
  struct tlk_nonzero call = {
      .cx = tli_context(tli_device(t)), .out = tli_data(out), .in = tli_array(t), .ndim = ndim};
  memcpy(call.sizes, sizes, (size_t)ndim * sizeof *sizes);
  return tli_backend(tli_device(t))->nonzero(&call);
}

bool tli_accumulate(tl_Tensor *dst, tl_Tensor *src) {
  static const tli_PointwiseSpec add = {"add", TLK_add,          2, 1, TLI_TYPES_NUMBER, false,
                                        true,  TLI_COMPLEX_TAKEN};
  tl_Scalar one = tli_int(1);
  return tli_pointwise_into(&add, (tl_Tensor *[]){dst, src}, &one, dst);
}

/* ---- operators that run on the CPU only ---- */

bool tli_to_host(tl_Tensor *const *inputs, tl_Tensor **out, int n) {
  for (int i = 0; i < n; i++) out[i] = NULL;
  for (int i = 0; i < n; i++) {
    if (inputs[i] == NULL) continue;
    out[i] = tli_moved(inputs[i], TLI_CPU, false);
    if (out[i] == NULL) return tli_release_results(out, n), false;
  }
  return true;
}

tl_Tensor *tli_moved_as_is(tl_Tensor *t, tl_Device device, bool async) {
  if (tli_contiguous(t) || !tli_dense(t)) return tli_moved(t, device, async);
  tl_Tensor *flat = tli_alias(t, 1, &t->numel, (int64_t[]){1}, t->offset);
  tl_Tensor *moved = flat ? tli_moved(flat, device, async) : NULL;
  tl_Tensor *result = moved ? tli_alias(moved, t->ndim, t->sizes, t->strides, 0) : NULL;
  tli_release(flat);
  tli_release(moved);
  return result;
}

bool tli_from_host(tl_Device device, tl_Tensor **results, int n) {
  for (int i = 0; i < n; i++) {
    if (results[i] == NULL) continue;
    tl_Tensor *moved = tli_moved_as_is(results[i], device, false);
    tli_release(results[i]);
    results[i] = moved;
    if (moved == NULL) return tli_release_results(results, n), false;
  }
  return true;
}

/* ---- compositions ---- */

tl_Tensor *tli_with_number(tli_Binary fn, tl_Tensor *t, tl_Scalar s) {
  tl_Tensor *number = tli_number(s);
  tl_Tensor *result = number ? fn(t, number) : NULL;
  tli_release(number);
  return result;
}

tl_Tensor *tli_number_with(tli_Binary fn, tl_Scalar s, tl_Tensor *t) {
  tl_Tensor *number = tli_number(s);
  tl_Tensor *result = number ? fn(number, t) : NULL;
  tli_release(number);
  return result;
}

tl_Tensor *tli_where_else(tl_Tensor *condition, tl_Tensor *t, tl_Scalar s) {
  tl_Tensor *number = tli_number(s);
  tl_Tensor *result = number ? tlo_where(condition, t, number) : NULL;
  tli_release(number);
  return result;
}

tl_Tensor *tli_where_then(tl_Tensor *condition, tl_Scalar s, tl_Tensor *t) {
  tl_Tensor *number = tli_number(s);
  tl_Tensor *result = number ? tlo_where(condition, number, t) : NULL;
  tli_release(number);
  return result;
}

tli_Along tli_along(const tl_Tensor *t, int dim) {
  tli_Along a = {1, t->ndim ? t->sizes[dim] : 1, 1};
  for (int d = 0; d < dim; d++) a.outer *= t->sizes[d];
  for (int d = dim + 1; d < t->ndim; d++) a.inner *= t->sizes[d];
  return a;
}

bool tli_fill_uninitialized(tl_Tensor *t) {
  if (tli_setting(TL_DETERMINISTIC) == 0 || !tli_setting(TL_FILL_UNINITIALIZED)) return true;
  tl_DType dtype = (tl_DType)t->dtype;
  if (tli_is_inexact(dtype)) return tli_fill(t, tli_float(NAN));
  return tli_fill(t, tli_int(tli_dtype_category(dtype) == TLI_INT ? tli_int_max(dtype) : 1));
}
