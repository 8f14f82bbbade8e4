/*
** pointwise.c - runs all elementwise operators: promotes and broadcasts the inputs, allocates the
** result, and calls one kernel. In most calls the inputs have the same dtype and shape. These calls
** take the short path at the top of tli_pointwise, which is the hot path of the whole library.
*/
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/kernel/sweep.h"
#include "ops/common.h"

/* Returns the dtype to which inputs are promoted. */
static tl_DType common_dtype(const tli_PointwiseSpec *spec, tl_Tensor *const *in) {
  tl_DType dtype = (tl_DType)in[0]->dtype;
  for (int i = 1; i < spec->ninputs; i++)
    if (in[i]->dtype != dtype || (in[i]->flags & TLI_NUMBER))
      return tli_result_dtype(in, spec->ninputs);
  return dtype;
}

/* Refuses bool inputs where PyTorch does. An operator on integers refuses a call whose inputs are
** all bool. Arithmetic such as sub refuses any bool input. */
static bool check_bool(const tli_PointwiseSpec *spec, tl_Tensor *const *in, tl_DType dtype) {
  bool found = spec->types == TLI_TYPES_INTEGER && dtype == TL_BOOL;
  for (int i = 0; i < spec->ninputs && spec->types != TLI_TYPES_INTEGER; i++)
    found = found || in[i]->dtype == TL_BOOL;
  if (!found) return true;
  return tli_fail(
      TL_EDTYPE,
      "%s: does not take bool tensors; use logical_not, logical_xor or bitwise operators",
      spec->name);
}

static bool check_dtype(const tli_PointwiseSpec *spec, tl_Tensor *const *in, tl_DType *dtype) {
  if (tli_is_stored(*dtype) || *dtype == TL_NODTYPE)
    return tli_fail(TL_EDTYPE, "%s: not implemented for '%s'", spec->name,
                    tl_dtype_name((tl_DType)in[0]->dtype));
  if (!spec->takes_bool) TL_TRY(check_bool(spec, in, *dtype));
  if (tli_is_complex(*dtype) && spec->on_complex == TLI_COMPLEX_REFUSED)
    return tli_refuse_complex(spec->name);
  if (tli_is_inexact(*dtype)) {
    if (spec->types != TLI_TYPES_INTEGER) return true;
    return tli_fail(TL_EDTYPE, "%s: expected integer or bool tensors, got %s", spec->name,
                    tl_dtype_name(*dtype));
  }
  if (spec->types == TLI_TYPES_FLOATING) *dtype = tli_default_dtype();
  /* pow(self, 2) runs this kernel and promotes bool to int64, because the exponent is an integer */
  if (spec->kernel == TLK_square && *dtype == TL_BOOL) *dtype = TL_I64;
  return true;
}

static bool check_params(const tli_PointwiseSpec *spec, tl_DType dtype, const tl_Scalar *params) {
  if (tli_is_inexact(dtype)) return true;
  for (int i = 0; i < spec->nparams; i++)
    if (params[i].kind == TL_FLOATING)
      return tli_fail(TL_EDTYPE, "%s: expected an integer argument for integer tensors, got %g",
                      spec->name, params[i].f);
  return true;
}

static bool run_kernel(const tli_PointwiseSpec *spec, tlk_Pointwise kernel, tl_DType dtype,
                       tl_Tensor *const *in, int ninputs, const tl_Scalar *params, tl_Tensor *out) {
  tl_Tensor *args[TLI_ITER_MAX] = {out};
  for (int i = 0; i < ninputs; i++) args[i + 1] = in[i];
  tl_Device device = tli_device(out);
  /* sets only the fields that the kernel reads, because clearing the large struct would take
  ** time */
  struct tlk_pointwise call;
  call.cx = tli_context(device);
  call.kernel = kernel;
  call.compute = tli_dtype_compute(dtype);
  /* only integer kernels can fail, because of a division by zero */
  if (tli_is_inexact(dtype))
    memset(&call.source, 0, sizeof call.source);
  else
    call.source = tli_fault_source(device, spec->name, NULL);
  /* kernels that ignore the parameters may still copy the array */
  memset(call.params, 0, sizeof call.params);
  for (int i = 0; i < spec->nparams && params; i++) {
    if (params[i].kind == TL_COMPLEX && !tli_is_complex(dtype))
      return tli_fail(TL_EDTYPE, "%s: expected a real number for real tensors, got %g%+gi",
                      spec->name, params[i].f, params[i].imag);
    call.params[i] = params[i];
  }
  tli_iter_build(&call.it, out->ndim, out->sizes, args, ninputs + 1);
  if (device.type == TL_CPU && tli_sweep_collects()) return tli_sweep_add(&call);
  return tli_backend(device)->pointwise(&call);
}

/* Computes powers whose exponent is a number. Faster kernels compute the most common exponents. */
static bool run_power(const tli_PointwiseSpec *spec, tl_DType dtype, tl_Tensor *const *in,
                      tl_Tensor *out) {
  tl_Scalar exponent = tli_number_of(in[1]);
  double e = exponent.kind == TL_COMPLEX ? NAN : tli_to_double(exponent);
  tlk_Pointwise kernel = TLK_pow;
  if (!tli_is_inexact(dtype)) {
    if (e < 0)
      return tli_fail(TL_EARG,
                      "pow: integers to the power of a negative integer, %g, are no "
                      "integers; use floating tensors",
                      e);
    kernel = e == 2 ? TLK_square : e == 3 ? TLK_cube : TLK_pow;
  } else {
    kernel = e == 2      ? TLK_square
             : e == 3    ? TLK_cube
             : e == 0.5  ? TLK_sqrt
             : e == -1   ? TLK_reciprocal
             : e == -0.5 ? TLK_rsqrt
                         : TLK_pow;
  }
  return run_kernel(spec, kernel, dtype, in, kernel == TLK_pow ? 2 : 1, NULL, out);
}

/* Returns whether input i of a kernel limits the results, as the bounds of clamp do: -1 for a lower
** bound, 1 for an upper bound, and otherwise 0. */
static int bound_of(tlk_Pointwise kernel, int i) {
  if (i == 0) return 0;
  if (kernel == TLK_clamp) return i == 1 ? -1 : 1;
  if (kernel == TLK_maximum || kernel == TLK_fmax) return -1;
  return kernel == TLK_minimum || kernel == TLK_fmin ? 1 : 0;
}

/* Refuses a number as a bound if no number of the integer dtype satisfies it. */
static bool check_bounds(const tli_PointwiseSpec *spec, tl_DType dtype, tl_Tensor *const *in) {
  if (tli_is_inexact(dtype)) return true;
  for (int i = 1; i < spec->ninputs; i++) {
    int bound = bound_of(spec->kernel, i);
    if (bound == 0 || !(in[i]->flags & TLI_NUMBER)) continue;
    int64_t value = tli_to_int(tli_number_of(in[i]));
    if (bound < 0 ? value <= tli_int_max(dtype) : value >= tli_int_min(dtype)) continue;
    return tli_fail(TL_EARG, "%s: the %s bound %" PRId64 " is outside the range of %s", spec->name,
                    bound < 0 ? "lower" : "upper", value, tl_dtype_name(dtype));
  }
  return true;
}

/* Converts a number that is a bound to the dtype. A number outside the dtype's range becomes the
** nearest value, as bounds do in PyTorch. */
static tl_Tensor *saturated(const tl_Tensor *number, tl_DType dtype) {
  int64_t value = tli_to_int(tli_number_of(number));
  int64_t low = tli_int_min(dtype), high = tli_int_max(dtype);
  return tli_scalar_tensor(tli_int(value < low    ? low
                                   : value > high ? high
                                                  : value),
                           dtype, TLI_CPU);
}

/* Runs a kernel after numbers, and 0-d tensors of other dtypes, have been converted to the integer
** dtype. Numbers out of range wrap around, so -1 becomes 255 in uint8; bounds are saturated
** instead. */
static bool run_wrapped(const tli_PointwiseSpec *spec, tl_DType dtype, tl_Tensor *const *in,
                        const tl_Scalar *params, tl_Tensor *out) {
  tl_Tensor *args[TLI_ITER_MAX], *wrapped[TLI_ITER_MAX] = {NULL};
  bool ok = true;
  for (int i = 0; i < spec->ninputs; i++) {
    args[i] = in[i];
    bool number = in[i]->flags & TLI_NUMBER;
    if (!ok || !(number || (in[i]->ndim == 0 && in[i]->dtype != dtype))) continue;
    args[i] = wrapped[i] = number && bound_of(spec->kernel, i) ? saturated(in[i], dtype)
                                                               : tli_op_to_dtype(in[i], dtype);
    ok = wrapped[i] != NULL;
  }
  ok = ok && run_kernel(spec, spec->kernel, dtype, args, spec->ninputs, params, out);
  tli_release_results(wrapped, spec->ninputs);
  return ok;
}

/* Returns the kernel to use for a dtype. Only nextafter has separate kernels for 16-bit types. All
** other kernels compute these types in float, where the next number is much closer than the next
** 16-bit number. */
static tlk_Pointwise kernel_for(tlk_Pointwise kernel, tl_DType dtype) {
  if (kernel != TLK_nextafter) return kernel;
  return dtype == TL_F16    ? TLK_nextafter_f16
         : dtype == TL_BF16 ? TLK_nextafter_bf16
                            : TLK_nextafter;
}

static bool run(const tli_PointwiseSpec *spec, tl_DType dtype, tl_Tensor *const *in,
                const tl_Scalar *params, tl_Tensor *out) {
  if (out->numel == 0) return true;
  bool wraps = tli_is_unsigned(dtype) || (!tli_is_inexact(dtype) && bound_of(spec->kernel, 1));
  if (wraps && spec->kernel != TLK_pow) return run_wrapped(spec, dtype, in, params, out);
  if (spec->kernel == TLK_pow && (in[1]->flags & TLI_NUMBER))
    return run_power(spec, dtype, in, out);
  return run_kernel(spec, kernel_for(spec->kernel, dtype), dtype, in, spec->ninputs, params, out);
}

static tl_DType result_dtype(const tli_PointwiseSpec *spec, tl_DType dtype) {
  if (spec->to_bool) return TL_BOOL;
  return spec->on_complex == TLI_COMPLEX_TO_REAL ? tli_real_dtype(dtype) : dtype;
}

/* Checks the inputs, and computes the shape and dtype of the result. */
static bool plan(const tli_PointwiseSpec *spec, tl_Tensor *const *in, const tl_Scalar *params,
                 tl_DType *dtype, int *ndim, int64_t *sizes) {
  *dtype = common_dtype(spec, in);
  TL_TRY(check_dtype(spec, in, dtype));
  TL_TRY(check_params(spec, *dtype, params));
  TL_TRY(check_bounds(spec, *dtype, in));
  TL_TRY(tli_same_device_all(spec->name, in, spec->ninputs));
  return tli_broadcast_shape(spec->name, in, spec->ninputs, ndim, sizes);
}

/* Returns the first input that has the result's shape. The result gets the device and the order of
** dimensions of this input. Returns NULL if there is no such input. */
static const tl_Tensor *model(const tli_PointwiseSpec *spec, tl_Tensor *const *in, int ndim,
                              const int64_t *sizes) {
  for (int i = 0; i < spec->ninputs; i++) {
    if (in[i]->ndim != ndim) continue;
    int d = 0;
    while (d < ndim && in[i]->sizes[d] == sizes[d]) d++;
    if (d == ndim && ndim > 0) return in[i];
  }
  return NULL;
}

/* Returns the device of the inputs. Numbers and 0-d CPU tensors are ignored. */
static tl_Device device_of(const tli_PointwiseSpec *spec, tl_Tensor *const *in) {
  for (int i = 0; i < spec->ninputs; i++)
    if (tli_device(in[i]).type != TL_CPU) return tli_device(in[i]);
  return TLI_CPU;
}

/* Returns whether all inputs are row-major floating tensors with the same dtype, shape and device,
** except that inputs after the first may be numbers. In this case only numbers need promotion or
** broadcasting, and no check can fail. */
static bool alike(const tli_PointwiseSpec *spec, tl_Tensor *const *in) {
  const tl_Tensor *first = in[0];
  if ((first->flags & (TLI_CONTIGUOUS | TLI_NUMBER)) != TLI_CONTIGUOUS) return false;
  if (!tli_is_float((tl_DType)first->dtype) || tli_is_stored(first->dtype) ||
      spec->types == TLI_TYPES_INTEGER)
    return false;
  for (int i = 1; i < spec->ninputs; i++) {
    const tl_Tensor *t = in[i];
    bool fits = t->flags & TLI_NUMBER
                    ? t->dtype < TL_BOOL /* the number is neither bool nor complex */
                    : t->dtype == first->dtype && tli_contiguous(t) && tli_same_sizes(t, first) &&
                          tli_same_device(tli_device(t), tli_device(first));
    if (!fits) return false;
  }
  return true;
}

static tl_Tensor *run_alike(const tli_PointwiseSpec *spec, tl_Tensor *const *in,
                            const tl_Scalar *params) {
  tl_DType dtype = (tl_DType)in[0]->dtype;
  tl_Tensor *out = tli_empty_like(in[0], spec->to_bool ? TL_BOOL : dtype);
  if (out && !run(spec, dtype, in, params, out)) {
    tli_release(out);
    return NULL;
  }
  return out;
}

tl_Tensor *tli_pointwise(const tli_PointwiseSpec *spec, tl_Tensor *const *in,
                         const tl_Scalar *params) {
  if (alike(spec, in)) return run_alike(spec, in, params);
  tl_DType dtype;
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(plan(spec, in, params, &dtype, &ndim, sizes));
  const tl_Tensor *like = model(spec, in, ndim, sizes);
  tl_DType result = result_dtype(spec, dtype);
  tl_Tensor *out =
      like ? tli_empty_like(like, result) : tli_empty(result, device_of(spec, in), ndim, sizes);
  if (out && !run(spec, dtype, in, params, out)) {
    tli_release(out);
    return NULL;
  }
  return out;
}

static bool into_fresh(const tli_PointwiseSpec *spec, tl_DType dtype, tl_Tensor *const *in,
                       const tl_Scalar *params, tl_Tensor *out) {
  tl_Tensor *fresh = tli_empty_like(out, (tl_DType)out->dtype);
  bool ok =
      fresh && run(spec, dtype, in, params, fresh) && tli_sweep_flush() && tli_copy(out, fresh);
  tli_release(fresh);
  return ok;
}

bool tli_pointwise_into(const tli_PointwiseSpec *spec, tl_Tensor *const *in,
                        const tl_Scalar *params, tl_Tensor *out) {
  tl_DType dtype;
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY(plan(spec, in, params, &dtype, &ndim, sizes));
  tl_DType result = result_dtype(spec, dtype);
  if (tli_dtype_category(result) > tli_dtype_category((tl_DType)out->dtype))
    return tli_fail(TL_EDTYPE, "%s_: a result of dtype %s cannot be stored in a tensor of dtype %s",
                    spec->name, tl_dtype_name(result), tl_dtype_name((tl_DType)out->dtype));
  if (tli_is_complex((tl_DType)out->dtype) && spec->on_complex == TLI_COMPLEX_TO_REAL)
    return tli_fail(TL_EDTYPE, "%s_: does not take complex tensors, since the result is real",
                    spec->name);
  bool fits = out->ndim == ndim;
  for (int d = 0; fits && d < ndim; d++) fits = out->sizes[d] == sizes[d];
  if (!fits)
    return tli_fail(TL_ESHAPE, "%s_: the result has shape %s, which does not fit self of shape %s",
                    spec->name, tli_shape_str(ndim, sizes), tli_sizes_str(out));
  if (!tli_same_device(tli_device(out), device_of(spec, in)) && tli_device(out).type == TL_CPU)
    return tli_fail(TL_EDEVICE, "%s_: expected all tensors on one device, got self on %s and %s",
                    spec->name, tli_device_str(tli_device(out)),
                    tli_device_str(device_of(spec, in)));
  for (int i = 0; i < spec->ninputs; i++)
    if (tli_clashes(out, in[i])) return into_fresh(spec, dtype, in, params, out);
  return run(spec, dtype, in, params, out);
}

/* ---- kernels of several outputs ---- */

bool tli_fused(tlk_Fused kernel, tl_Tensor *const *operands, int n) {
  const tl_Tensor *out = operands[0];
  tl_Device device = tli_device(out);
  /* sets only the fields that the kernel reads, because clearing the large struct would take
  ** time */
  struct tlk_fused call;
  if (out->numel == 0) return true;
  call.cx = tli_context(device);
  call.kernel = kernel;
  call.compute = out->dtype == TL_F64 ? TL_F64 : TL_F32;
  tli_iter_build(&call.it, out->ndim, out->sizes, operands, n);
  return tli_backend(device)->fused(&call);
}
