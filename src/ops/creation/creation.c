/*
** creation.c - tensors from sizes and numbers. The functions check the sizes themselves, so that
** messages name the operator. Three kernels write the contents: fill, iota, linspace.
*/
#include <math.h>

#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* ---- one value everywhere ---- */

/* Fills t with a value and returns it. Steals t; returns NULL for NULL. */
static tl_Tensor *filled(const char *op, tl_Tensor *t, tl_Scalar value) {
  if (t == NULL) return NULL;
  if (tli_check_holds(op, value, (tl_DType)t->dtype) && tli_fill(t, value)) return t;
  tli_release(t);
  return NULL;
}

/* In deterministic mode, fills the uninitialised memory of t. Returns t. Steals t; returns NULL for
** NULL. */
static tl_Tensor *settled(tl_Tensor *t) {
  if (t == NULL || tli_fill_uninitialized(t)) return t;
  tli_release(t);
  return NULL;
}

tl_Tensor *tlo_empty(tl_Ints size, tl_DType dtype, tl_Device device, const char *memory_format) {
  if (memory_format == NULL) return settled(tli_new("empty", size, dtype, device));
  tli_Format format;
  if (dtype == TL_NODTYPE) dtype = tli_default_dtype();
  if (device.type < 0) device = tli_default_device();
  TL_TRY_NULL(tli_check_sizes("empty", size, dtype));
  TL_TRY_NULL(tli_read_format("empty", memory_format, (int)size.n, &format));
  if (format == TLI_PRESERVE)
    return tli_fail_null(TL_EARG, "empty: memory_format: there is nothing to preserve");
  return settled(tli_empty_format(format, dtype, device, (int)size.n, size.v));
}

tl_Tensor *tlo_zeros(tl_Ints size, tl_DType dtype, tl_Device device) {
  return filled("zeros", tli_new("zeros", size, dtype, device), tli_int(0));
}

tl_Tensor *tlo_ones(tl_Ints size, tl_DType dtype, tl_Device device) {
  return filled("ones", tli_new("ones", size, dtype, device), tli_int(1));
}

tl_Tensor *tlo_full(tl_Ints size, tl_Scalar fill_value, tl_DType dtype, tl_Device device) {
  if (dtype == TL_NODTYPE) dtype = tli_scalar_dtype(fill_value);
  return filled("full", tli_new("full", size, dtype, device), fill_value);
}

tl_Tensor *tlo_empty_like(tl_Tensor *self, tl_DType dtype, tl_Device device,
                          const char *memory_format) {
  return settled(tli_new_like("empty_like", self, dtype, device, memory_format));
}

tl_Tensor *tlo_zeros_like(tl_Tensor *self, tl_DType dtype, tl_Device device,
                          const char *memory_format) {
  return filled("zeros_like", tli_new_like("zeros_like", self, dtype, device, memory_format),
                tli_int(0));
}

tl_Tensor *tlo_ones_like(tl_Tensor *self, tl_DType dtype, tl_Device device,
                         const char *memory_format) {
  return filled("ones_like", tli_new_like("ones_like", self, dtype, device, memory_format),
                tli_int(1));
}

tl_Tensor *tlo_full_like(tl_Tensor *self, tl_Scalar fill_value, tl_DType dtype, tl_Device device,
                         const char *memory_format) {
  return filled("full_like", tli_new_like("full_like", self, dtype, device, memory_format),
                fill_value);
}

tl_Tensor *tlo_scalar_tensor(tl_Scalar s, tl_DType dtype, tl_Device device) {
  return filled("scalar_tensor", tli_new("scalar_tensor", (tl_Ints){0, NULL}, dtype, device), s);
}

/* Returns an uninitialised tensor of the given size. If no dtype or device is given, uses that of
** self. */
static tl_Tensor *new_from(const char *op, tl_Tensor *self, tl_Ints size, tl_DType dtype,
                           tl_Device device) {
  return tli_new(op, size, dtype == TL_NODTYPE ? (tl_DType)self->dtype : dtype,
                 device.type < 0 ? tli_device(self) : device);
}

tl_Tensor *tlo_new_empty(tl_Tensor *self, tl_Ints size, tl_DType dtype, tl_Device device) {
  return settled(new_from("new_empty", self, size, dtype, device));
}

tl_Tensor *tlo_new_zeros(tl_Tensor *self, tl_Ints size, tl_DType dtype, tl_Device device) {
  return filled("new_zeros", new_from("new_zeros", self, size, dtype, device), tli_int(0));
}

tl_Tensor *tlo_new_ones(tl_Tensor *self, tl_Ints size, tl_DType dtype, tl_Device device) {
  return filled("new_ones", new_from("new_ones", self, size, dtype, device), tli_int(1));
}

tl_Tensor *tlo_new_full(tl_Tensor *self, tl_Ints size, tl_Scalar fill_value, tl_DType dtype,
                        tl_Device device) {
  return filled("new_full", new_from("new_full", self, size, dtype, device), fill_value);
}

bool tli_op_fill_(tl_Tensor *self, tl_Scalar value) {
  return tli_check_holds("fill_", value, (tl_DType)self->dtype) && tli_fill(self, value);
}

bool tlo_fill__tensor(tl_Tensor *self, tl_Tensor *value) {
  if (value->ndim == 0) return tlo_copy_(self, value, false);
  return tli_fail(TL_ESHAPE, "fill_: value: expected no dimensions, got %s", tli_sizes_str(value));
}

tl_Tensor *tli_op_fill(tl_Tensor *self, tl_Scalar value) {
  return filled("fill", tli_empty_like(self, (tl_DType)self->dtype), value);
}

tl_Tensor *tlo_fill_tensor(tl_Tensor *self, tl_Tensor *value) {
  if (value->ndim != 0)
    return tli_fail_null(TL_ESHAPE, "fill: value: expected no dimensions, got %s",
                         tli_sizes_str(value));
  tl_Tensor *result = tlo_fill(self, tli_int(0));
  if (result && tlo_copy_(result, value, false)) return result;
  tli_release(result);
  return NULL;
}

bool tli_op_zero_(tl_Tensor *self) { return tli_fill(self, tli_int(0)); }

/* ---- sequences ---- */

static bool is_whole(tl_Scalar s) { return s.kind == TL_INTEGER || s.kind == TL_BOOLEAN; }

/* Checks that start and end are finite, and that the step has the sign that leads from start to
** end. */
static bool check_ends(const char *op, tl_Scalar start, tl_Scalar end, tl_Scalar step) {
  double from = tli_to_double(start), to = tli_to_double(end), by = tli_to_double(step);
  if (!isfinite(from) || !isfinite(to) || !isfinite(by))
    return tli_fail(TL_EARG, "%s: expected finite numbers, got start %g, end %g, step %g", op, from,
                    to, by);
  if (by == 0) return tli_fail(TL_EARG, "%s: expected a step that is not 0", op);
  if (by > 0 ? from <= to : from >= to) return true;
  return tli_fail(TL_EARG, "%s: a step of %g does not lead from %g to %g", op, by, from, to);
}

/* Counts the integers start, start + step, ... that come before `end`. Works even if the distance
** between start and end overflows int64. */
static int64_t count_whole(int64_t start, int64_t end, int64_t step) {
  uint64_t distance = step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
  uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  uint64_t n = distance / by + (distance % by != 0);
  return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static int64_t count_real(double count) { return count >= 0x1p63 ? INT64_MAX : (int64_t)count; }

static tl_Tensor *sequence(const char *op, int64_t n, tl_Scalar start, tl_Scalar step,
                           tl_DType dtype, tl_Device device) {
  tl_Tensor *t = tli_new(op, (tl_Ints){1, &n}, dtype, device);
  if (t && n > 0 &&
      !TLI_RUN(tli_device(t), iota, .out = tli_array(t), .n = n, .start = start, .step = step)) {
    tli_release(t);
    return NULL;
  }
  return t;
}

static tl_Scalar whole(tl_Scalar s) { return tli_int(tli_to_int(s)); }

static bool is_integer(tl_DType dtype) { return tli_dtype_category(dtype) == TLI_INT; }

/* Creates the numbers of arange. Computes the count of the numbers first. For an integer dtype,
** start and step are truncated only afterwards, so numbers may repeat, as in PyTorch. */
tl_Tensor *tlo_arange(tl_Scalar start, tl_Scalar end_, tl_Scalar step, tl_DType dtype,
                      tl_Device device) {
  if (!tli_given(end_)) {
    end_ = start;
    start = tli_int(0);
  }
  if (dtype == TL_NODTYPE)
    dtype = is_whole(start) && is_whole(end_) && is_whole(step) ? TL_I64 : tli_default_dtype();
  if (dtype == TL_BOOL) return tli_fail_null(TL_EDTYPE, "arange: not defined for bool");
  TL_TRY_NULL(check_ends("arange", start, end_, step));
  double from = tli_to_double(start), by = tli_to_double(step);
  int64_t n = is_whole(start) && is_whole(end_) && is_whole(step)
                  ? count_whole(start.i, end_.i, step.i)
                  : count_real(ceil((tli_to_double(end_) - from) / by));
  if (is_integer(dtype)) {
    start = whole(start);
    step = whole(step);
  }
  return sequence("arange", n, start, step, dtype, device);
}

tl_Tensor *tlo_range(tl_Scalar start, tl_Scalar end_, tl_Scalar step, tl_DType dtype,
                     tl_Device device) {
  if (dtype == TL_NODTYPE) dtype = tli_default_dtype();
  if (dtype == TL_BOOL) return tli_fail_null(TL_EDTYPE, "range: not defined for bool");
  TL_TRY_NULL(check_ends("range", start, end_, step));
  if (is_integer(dtype)) {
    start = whole(start);
    end_ = whole(end_);
    step = whole(step);
    TL_TRY_NULL(check_ends("range", start, end_, step));
  }
  double from = tli_to_double(start), by = tli_to_double(step);
  int64_t n = count_real(floor((tli_to_double(end_) - from) / by) + 1);
  return sequence("range", n, start, step, dtype, device);
}

static tl_Tensor *spaced(const char *op, tl_Scalar start, tl_Scalar end, int64_t steps,
                         tl_DType dtype, tl_Device device);

/* Returns complex numbers whose real and imaginary parts are each evenly spaced. */
static tl_Tensor *spaced_complex(const char *op, tl_Scalar start, tl_Scalar end, int64_t steps,
                                 tl_DType dtype, tl_Device device) {
  if (dtype == TL_NODTYPE) dtype = tli_complex_dtype(tli_default_dtype());
  TL_TRY_NULL(tli_check_complex_number(op, start, dtype) &&
              tli_check_complex_number(op, end, dtype));
  tl_Scalar from = tli_float(tli_to_double(start)), to = tli_float(tli_to_double(end));
  tl_DType part = tli_real_dtype(dtype);
  tli_Chain c = {0};
  tl_Tensor *re = TLI_STEP(&c, spaced(op, from, to, steps, part, device));
  tl_Tensor *im =
      TLI_STEP(&c, spaced(op, tli_float(start.imag), tli_float(end.imag), steps, part, device));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_complex(re, im)));
}

static double rounded(tl_Scalar s, tl_DType dtype) {
  char bytes[16];
  tli_store(bytes, dtype, s);
  return tli_to_double(tli_load(bytes, dtype));
}

/* Writes evenly spaced numbers into t by PyTorch's arithmetic: ends of t's dtype, and a step in
** float32 unless t's dtype is float64 or an integer one, or the distance overflows float32. */
static bool write_spaced(const char *op, tl_Tensor *t, tl_Scalar start, tl_Scalar end) {
  tl_DType dtype = (tl_DType)t->dtype;
  int64_t n = t->numel;
  TL_TRY(tli_check_holds(op, start, dtype) && tli_check_holds(op, end, dtype));
  double from = rounded(start, dtype), to = n > 1 ? rounded(end, dtype) : from;
  float distance = (float)to - (float)from;
  bool narrow = dtype != TL_F64 && !is_integer(dtype) && isfinite(distance);
  double step = n == 1   ? 0
                : narrow ? (double)(distance / (float)(n - 1))
                         : (to - from) / (double)(n - 1);
  return TLI_RUN(tli_device(t), linspace, .out = tli_array(t), .n = n, .start = from, .end = to,
                 .step = step, .compute = narrow ? TL_F32 : TL_F64);
}

static tl_Tensor *spaced(const char *op, tl_Scalar start, tl_Scalar end, int64_t steps,
                         tl_DType dtype, tl_Device device) {
  if (start.kind == TL_COMPLEX || end.kind == TL_COMPLEX || tli_complex_wanted(dtype))
    return spaced_complex(op, start, end, steps, dtype, device);
  if (steps < 0)
    return tli_fail_null(TL_EARG, "%s: expected at least 0 steps, got %" PRId64, op, steps);
  if (dtype == TL_BOOL) return tli_fail_null(TL_EDTYPE, "%s: not defined for bool", op);
  tl_Tensor *t = tli_new(op, (tl_Ints){1, &steps}, dtype, device);
  if (t && steps > 0 && !write_spaced(op, t, start, end)) {
    tli_release(t);
    return NULL;
  }
  return t;
}

tl_Tensor *tlo_linspace(tl_Scalar start, tl_Scalar end_, int64_t steps, tl_DType dtype,
                        tl_Device device) {
  return spaced("linspace", start, end_, steps, dtype, device);
}

tl_Tensor *tlo_logspace(tl_Scalar start, tl_Scalar end_, int64_t steps, tl_Scalar base,
                        tl_DType dtype, tl_Device device) {
  bool complex = start.kind == TL_COMPLEX || end_.kind == TL_COMPLEX;
  if (dtype == TL_NODTYPE)
    dtype = complex ? tli_complex_dtype(tli_default_dtype()) : tli_default_dtype();
  TL_TRY_NULL(tli_check_complex_number("logspace", start, dtype) &&
              tli_check_complex_number("logspace", end_, dtype) &&
              tli_check_complex_number("logspace", base, TL_F64));
  if (dtype == TL_BOOL) return tli_fail_null(TL_EDTYPE, "logspace: not defined for bool");
  if (is_integer(dtype)) {
    start = whole(start);
    end_ = whole(end_);
  }
  tl_Scalar number = tli_float(tli_to_double(base));
  tli_Chain c = {0};
  tl_Tensor *exponents = TLI_STEP(
      &c, spaced("logspace", start, end_, steps, tli_is_complex(dtype) ? TL_C128 : TL_F64, device));
  tl_Tensor *powers = TLI_STEP(&c, tli_number_with(tlo_pow, number, exponents));
  return tli_chain_end(&c, chain_to(&c, powers, dtype));
}

tl_Tensor *tlo_eye(int64_t n, int64_t m, tl_DType dtype, tl_Device device) {
  if (m == TLI_NOINT) m = n;
  tl_Tensor *t =
      filled("eye", tli_new("eye", (tl_Ints){2, (int64_t[]){n, m}}, dtype, device), tli_int(0));
  if (t == NULL) return NULL;
  int64_t length = n < m ? n : m;
  tl_Tensor *diagonal = tli_alias(t, 1, &length, (int64_t[]){m + 1}, t->offset);
  bool ok = diagonal && tli_fill(diagonal, tli_int(1));
  tli_release(diagonal);
  if (ok) return t;
  tli_release(t);
  return NULL;
}

/* Fills the diagonal that begins in column 0 at index `row` of the first dimension. */
static bool fill_line(tl_Tensor *self, int64_t row, tl_Scalar value) {
  int64_t length = self->sizes[0] - row, step = 0;
  for (int d = 0; d < self->ndim; d++) {
    step += self->strides[d];
    if (d > 0 && self->sizes[d] < length) length = self->sizes[d];
  }
  tl_Tensor *line = tlo_as_strided(self, (tl_Ints){1, &length}, (tl_Ints){1, &step},
                                   self->offset + row * self->strides[0]);
  bool ok = line && tlo_fill_(line, value);
  tli_release(line);
  return ok;
}

bool tlo_fill_diagonal_(tl_Tensor *self, tl_Scalar fill_value, bool wrap) {
  bool even = self->ndim >= 2;
  for (int d = 1; even && self->ndim > 2 && d < self->ndim; d++)
    even = self->sizes[d] == self->sizes[0];
  if (!even)
    return tli_fail(TL_ESHAPE,
                    "fill_diagonal_: self: expected a matrix, or dimensions of one size, got %s",
                    tli_sizes_str(self));
  if (self->numel == 0) return true;
  int64_t period = wrap && self->ndim == 2 ? self->sizes[1] + 1 : self->sizes[0];
  for (int64_t row = 0; row < self->sizes[0]; row += period)
    TL_TRY(fill_line(self, row, fill_value));
  return true;
}
