/*
** pool.c - pooling. Windows slide over the last n dimensions, which form a plane; there is one
** plane for each index into the leading dimensions. Maxima are returned with their positions in the
** plane. The gradient of a maximum and max_unpool use these positions to gather and scatter
** elements.
*/
#include <stdlib.h>
#include <string.h>

#include "ops/chain.h"
#include "ops/copy/memory_format.h"
#include "ops/index/index_call.h"
#include "ops/windows.h"

/* ---- arguments ---- */

typedef struct Windows {
  int64_t kernel[3], stride[3], padding[3], dilation[3];
} Windows;

static bool read_windows(const char *op, int n, tl_Ints kernel, tl_Ints stride, tl_Ints padding,
                         tl_Ints dilation, Windows *w) {
  TL_TRY(tli_spread(op, "kernel_size", kernel, n, 1, w->kernel));
  TL_TRY(tli_spread(op, "stride", stride.n == 0 ? kernel : stride, n, 1, w->stride));
  TL_TRY(tli_spread(op, "padding", padding, n, 0, w->padding));
  TL_TRY(tli_spread(op, "dilation", dilation, n, 1, w->dilation));
  for (int d = 0; d < n; d++)
    if (w->padding[d] > (w->dilation[d] * (w->kernel[d] - 1) + 1) / 2)
      return tli_fail(TL_EARG,
                      "%s: padding: expected at most half of kernel_size %" PRId64 ", got %" PRId64,
                      op, w->kernel[d], w->padding[d]);
  return true;
}

/* Checks that input is (N, C, ...) or (C, ...) and that each of its last `full` sizes is at least
** 1. */
static bool check_input(const char *op, const tl_Tensor *input, int n, int full) {
  bool fits = input->ndim == n + 1 || input->ndim == n + 2;
  for (int d = input->ndim - full; fits && d < input->ndim; d++) fits = input->sizes[d] > 0;
  if (fits) return true;
  return tli_fail(TL_ESHAPE,
                  "%s: input: expected %d or %d dimensions, the last %d not empty, got %s", op,
                  n + 1, n + 2, full, tli_sizes_str(input));
}

/* Reads the output sizes of an adaptive pool. A size of -1 stands for the input's size. */
static bool read_output_size(const char *op, const tl_Tensor *input, int n, tl_Ints list,
                             int64_t *sizes) {
  TL_TRY(tli_spread(op, "output_size", list, n, -1, sizes));
  for (int d = 0; d < n; d++)
    if (sizes[d] < 0) sizes[d] = input->sizes[input->ndim - n + d];
  return true;
}

/* Fills in the kernel call *p and the result's sizes. Each list in *w has n numbers. */
static bool plan(const char *op, const int64_t *in_sizes, int ndim, const Windows *w, int n,
                 bool ceil_mode, tlk_Pool *p, int64_t *sizes) {
  *p = (tlk_Pool){.planes = 1};
  for (int d = 0; d < ndim - n; d++) p->planes *= sizes[d] = in_sizes[d];
  for (int k = 0; k < 3; k++) {
    int d = k - (3 - n);
    tlk_Windows *v = &p->windows;
    v->in[k] = d < 0 ? 1 : in_sizes[ndim - n + d];
    v->kernel[k] = d < 0 ? 1 : w->kernel[d];
    v->stride[k] = d < 0 ? 1 : w->stride[d];
    v->padding[k] = d < 0 ? 0 : w->padding[d];
    v->dilation[k] = d < 0 ? 1 : w->dilation[d];
    v->out[k] = tli_count_windows(v->in[k], v->kernel[k], v->stride[k], v->padding[k],
                                  v->dilation[k], ceil_mode);
    if (v->out[k] < 1)
      return tli_fail(TL_ESHAPE, "%s: a window of %" PRId64 " elements does not fit into input %s",
                      op, v->dilation[k] * (v->kernel[k] - 1) + 1, tli_shape_str(ndim, in_sizes));
    if (d >= 0) sizes[ndim - n + d] = v->out[k];
  }
  return true;
}

static void plan_adaptive(const int64_t *in_sizes, int ndim, tl_Ints output_size, tlk_Pool *p,
                          int64_t *sizes) {
  int n = (int)output_size.n;
  *p = (tlk_Pool){.planes = 1, .adaptive = true};
  for (int d = 0; d < ndim - n; d++) p->planes *= sizes[d] = in_sizes[d];
  for (int k = 0; k < 3; k++) {
    int d = k - (3 - n);
    p->windows.in[k] = d < 0 ? 1 : in_sizes[ndim - n + d];
    p->windows.out[k] = d < 0 ? 1 : output_size.v[d];
    if (d >= 0) sizes[ndim - n + d] = output_size.v[d];
  }
}

static Windows windows_of(tl_Ints kernel, tl_Ints stride, tl_Ints padding, tl_Ints dilation) {
  Windows w;
  for (int d = 0; d < kernel.n; d++) {
    w.kernel[d] = kernel.v[d];
    w.stride[d] = stride.v[d];
    w.padding[d] = padding.v[d];
    w.dilation[d] = dilation.v ? dilation.v[d] : 1;
  }
  return w;
}

/* ---- maxima ---- */

static bool run_max(const tlk_Pool *p, tl_Tensor *self, const int64_t *sizes, bool want_indices,
                    tl_Tensor **out) {
  tl_DType dtype = (tl_DType)self->dtype;
  tl_Tensor *in = tli_contiguous_as(self, dtype);
  bool ok = in && (out[0] = tli_empty(dtype, tli_device(self), self->ndim, sizes));
  if (ok && want_indices)
    ok = (out[1] = tli_empty(TL_I64, tli_device(self), self->ndim, sizes)) != NULL;
  if (ok && out[0]->numel > 0)
    ok = TLI_RUN(tli_device(self), max_pool, .pool = *p, .out = tli_array(out[0]),
                 .indices = out[1] ? tli_data(out[1]) : NULL, .in = tli_array(in));
  tli_release(in);
  for (int k = 0; ok && k < (want_indices ? 2 : 1); k++)
    ok = (out[k] = tli_follow(out[k], self)) != NULL;
  if (!ok) tli_release_results(out, 2);
  return ok;
}

bool tli_op_max_windows(tl_Tensor *self, tl_Ints kernel, tl_Ints stride, tl_Ints padding,
                        tl_Ints dilation, bool ceil_mode, int64_t n, bool want_indices,
                        tl_Tensor **out) {
  Windows w = windows_of(kernel, stride, padding, dilation);
  tlk_Pool p;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY(plan("max_pool", self->sizes, self->ndim, &w, (int)n, ceil_mode, &p, sizes));
  return run_max(&p, self, sizes, want_indices, out);
}

bool tli_op_max_windows_adaptive(tl_Tensor *self, tl_Ints output_size, int64_t n, bool want_indices,
                                 tl_Tensor **out) {
  (void)n;
  tlk_Pool p;
  int64_t sizes[TL_MAX_DIMS];
  plan_adaptive(self->sizes, self->ndim, output_size, &p, sizes);
  return run_max(&p, self, sizes, want_indices, out);
}

/* Releases the positions of the maxima, out[1], if the caller has not requested them. Max pooling
** computes these positions whenever its gradient may be needed. Returns `ok`. */
static bool keep_indices(bool ok, bool return_indices, tl_Tensor **out) {
  if (ok && !return_indices) {
    tli_release(out[1]);
    out[1] = NULL;
  }
  return ok;
}

static bool max_pool(const char *op, int n, tl_Tensor *input, tl_Ints kernel_size, tl_Ints stride,
                     tl_Ints padding, tl_Ints dilation, bool ceil_mode, bool return_indices,
                     tl_Tensor **out) {
  Windows w;
  out[0] = out[1] = NULL;
  TL_TRY(check_input(op, input, n, n + 1));
  TL_TRY(read_windows(op, n, kernel_size, stride, padding, dilation, &w));
  bool want = return_indices || tli_recording(&input, 1);
  return keep_indices(tlo_max_windows(input, (tl_Ints){n, w.kernel}, (tl_Ints){n, w.stride},
                                      (tl_Ints){n, w.padding}, (tl_Ints){n, w.dilation}, ceil_mode,
                                      n, want, out),
                      return_indices, out);
}

static bool adaptive_max_pool(const char *op, int n, tl_Tensor *input, tl_Ints output_size,
                              bool return_indices, tl_Tensor **out) {
  int64_t sizes[3];
  out[0] = out[1] = NULL;
  TL_TRY(check_input(op, input, n, input->ndim - 1));
  TL_TRY(read_output_size(op, input, n, output_size, sizes));
  bool want = return_indices || tli_recording(&input, 1);
  return keep_indices(tlo_max_windows_adaptive(input, (tl_Ints){n, sizes}, n, want, out),
                      return_indices, out);
}

/* ---- averages ---- */

static tl_Tensor *run_average(const tlk_Pool *p, tl_Tensor *self, const int64_t *sizes,
                              bool backward) {
  tl_DType dtype = (tl_DType)self->dtype;
  tl_Tensor *in = tli_contiguous_as(self, dtype);
  tl_Tensor *out = in ? tli_empty(dtype, tli_device(self), self->ndim, sizes) : NULL;
  bool ok = out != NULL;
  tl_Device device = tli_device(self);
  if (ok && out->numel > 0) {
    if (in->numel == 0)
      ok = tli_fill(out, tli_int(0));
    else if (backward)
      ok = TLI_RUN(device, avg_pool_backward, .pool = *p, .grad_in = tli_array(out),
                   .grad_out = tli_array(in));
    else
      ok = TLI_RUN(device, avg_pool, .pool = *p, .out = tli_array(out), .in = tli_array(in));
  }
  tli_release(in);
  if (ok) return tli_follow(out, self);
  tli_release(out);
  return NULL;
}

tl_Tensor *tli_op_average_windows(tl_Tensor *self, tl_Ints kernel, tl_Ints stride, tl_Ints padding,
                                  bool ceil_mode, bool include_pad, int64_t divisor) {
  Windows w = windows_of(kernel, stride, padding, TLI_NOINTS);
  tlk_Pool p;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(plan("avg_pool", self->sizes, self->ndim, &w, (int)kernel.n, ceil_mode, &p, sizes));
  p.include_pad = include_pad;
  p.divisor = divisor;
  return run_average(&p, self, sizes, false);
}

tl_Tensor *tli_op_average_spread(tl_Tensor *self, tl_Ints size, tl_Ints kernel, tl_Ints stride,
                                 tl_Ints padding, bool ceil_mode, bool include_pad,
                                 int64_t divisor) {
  Windows w = windows_of(kernel, stride, padding, TLI_NOINTS);
  tlk_Pool p;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(plan("avg_pool", size.v, (int)size.n, &w, (int)kernel.n, ceil_mode, &p, sizes));
  p.include_pad = include_pad;
  p.divisor = divisor;
  return run_average(&p, self, size.v, true);
}

tl_Tensor *tli_op_average_adaptive(tl_Tensor *self, tl_Ints output_size) {
  tlk_Pool p;
  int64_t sizes[TL_MAX_DIMS];
  plan_adaptive(self->sizes, self->ndim, output_size, &p, sizes);
  return run_average(&p, self, sizes, false);
}

tl_Tensor *tli_op_average_adaptive_spread(tl_Tensor *self, tl_Ints size, tl_Ints output_size) {
  tlk_Pool p;
  int64_t sizes[TL_MAX_DIMS];
  plan_adaptive(size.v, (int)size.n, output_size, &p, sizes);
  return run_average(&p, self, size.v, true);
}

/* Averages integers. The mean is computed in float64 and rounded towards 0. The mean is a multiple
** of 1 / elements, so half of 1 / elements is added to its magnitude before rounding. This
** compensates for errors of floating-point arithmetic but cannot reach the next integer. */
static tl_Tensor *whole_averages(tl_Tensor *input, int n, const Windows *w, bool ceil_mode,
                                 bool include_pad, int64_t divisor) {
  int64_t elements = divisor == TLI_NOINT ? 1 : llabs(divisor);
  for (int d = 0; divisor == TLI_NOINT && d < n; d++) elements *= w->kernel[d];
  tli_Chain c = {0};
  tl_Tensor *numbers = TLI_STEP(&c, tlo_to_dtype(input, TL_F64));
  tl_Tensor *mean =
      TLI_STEP(&c, tlo_average_windows(numbers, (tl_Ints){n, w->kernel}, (tl_Ints){n, w->stride},
                                       (tl_Ints){n, w->padding}, ceil_mode, include_pad,
                                       divisor == TLI_NOINT ? 0 : divisor));
  tl_Tensor *sign = TLI_STEP(&c, tlo_sign(mean));
  tl_Tensor *sum = chain_add(&c, mean, chain_scale(&c, sign, 0.5 / (double)elements));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_to_dtype(sum, (tl_DType)input->dtype)));
}

static tl_Tensor *avg_pool(const char *op, int n, tl_Tensor *input, tl_Ints kernel_size,
                           tl_Ints stride, tl_Ints padding, bool ceil_mode, bool include_pad,
                           int64_t divisor) {
  Windows w;
  TL_TRY_NULL(check_input(op, input, n, n + 1));
  TL_TRY_NULL(read_windows(op, n, kernel_size, stride, padding, tli_one, &w));
  if (divisor == 0)
    return tli_fail_null(TL_EARG, "%s: divisor_override: expected a number other than 0", op);
  if (tli_dtype_category((tl_DType)input->dtype) == TLI_INT)
    return whole_averages(input, n, &w, ceil_mode, include_pad, divisor);
  TL_TRY_NULL(tli_check_floating(op, input));
  return tlo_average_windows(input, (tl_Ints){n, w.kernel}, (tl_Ints){n, w.stride},
                             (tl_Ints){n, w.padding}, ceil_mode, include_pad,
                             divisor == TLI_NOINT ? 0 : divisor);
}

static tl_Tensor *adaptive_avg_pool(const char *op, int n, tl_Tensor *input, tl_Ints output_size) {
  int64_t sizes[3];
  TL_TRY_NULL(check_input(op, input, n, n));
  if (input->numel > 0) TL_TRY_NULL(tli_check_floating(op, input));
  TL_TRY_NULL(read_output_size(op, input, n, output_size, sizes));
  bool whole = input->numel > 0;
  int64_t dims[3];
  for (int d = 0; d < n; d++) {
    whole = whole && sizes[d] == 1;
    dims[d] = input->ndim - n + d;
  }
  if (whole) return tli_follow(tlo_mean(input, (tl_Ints){n, dims}, true, TL_NODTYPE), input);
  return tlo_average_adaptive(input, (tl_Ints){n, sizes});
}

/* Computes (sum of x^p)^(1/p) as (mean of x^p * elements)^(1/p). The mean is written as sign(mean)
** * relu(|mean|), so that the gradient is 0 where the mean is 0; the root alone would have an
** infinite gradient there. */
static tl_Tensor *lp_pool(const char *op, int n, tl_Tensor *input, double norm_type,
                          tl_Ints kernel_size, tl_Ints stride, bool ceil_mode) {
  int64_t kernel[3];
  TL_TRY_NULL(tli_spread(op, "kernel_size", kernel_size, n, 1, kernel));
  double elements = 1;
  for (int d = 0; d < n; d++) elements *= (double)kernel[d];
  tli_Chain c = {0};
  tl_Tensor *powers = chain_with(&c, tlo_pow, input, norm_type);
  tl_Tensor *mean = TLI_STEP(
      &c, avg_pool(op, n, powers, kernel_size, stride, tli_zero, ceil_mode, true, TLI_NOINT));
  tl_Tensor *sign = TLI_STEP(&c, tlo_sign(mean)), *size = TLI_STEP(&c, tlo_abs(mean));
  tl_Tensor *signed_mean = chain_mul(&c, sign, TLI_STEP(&c, tlo_relu(size)));
  tl_Tensor *sum = chain_scale(&c, signed_mean, elements);
  return tli_chain_end(&c, chain_with(&c, tlo_pow, sum, 1 / norm_type));
}

/* ---- planes and positions in them ---- */

/* Describes planes as the lines of a gather or scatter kernel, and a loop over all planes. The
** operands are contiguous, and their dtypes may differ. */
static void plane_lines(tlk_IndexCall *lines, tl_Tensor *const *args, const int64_t *lengths,
                        int64_t planes) {
  tli_Iter *it = &lines->it;
  *it = (tli_Iter){.nargs = 3, .ndim = 1, .numel = planes, .sizes = {planes}};
  for (int k = 0; k < 3; k++) {
    int64_t size = tli_dtype_bytes[args[k]->dtype];
    it->args[k].data = tli_data(args[k]);
    it->args[k].dtype = (tl_DType)args[k]->dtype;
    it->args[k].strides[0] = lengths[k] * size;
    lines->strides[k] = size;
  }
}

static int64_t product(const int64_t *sizes, int begin, int end) {
  int64_t p = 1;
  for (int d = begin; d < end; d++) p *= sizes[d];
  return p;
}

/* Sets each element of result to the element of self in the same plane at the position in indices.
** self is (planes, plane); indices and result are (planes, m). */
static bool gather_planes(tl_Tensor *result, tl_Tensor *self, tl_Tensor *indices, int n) {
  int64_t planes = product(self->sizes, 0, self->ndim - n);
  int64_t plane = product(self->sizes, self->ndim - n, self->ndim);
  int64_t m = product(indices->sizes, indices->ndim - n, indices->ndim);
  struct tlk_gather call = {.cx = tli_context(tli_device(self)),
                            .index = {.count = m, .n = plane},
                            .source = tli_fault_source(tli_device(self), "max_unpool", "indices")};
  plane_lines(&call.index, (tl_Tensor *[]){result, indices, self}, (int64_t[]){m, m, plane},
              planes);
  return tli_backend(tli_device(self))->gather(&call);
}

tl_Tensor *tli_op_plane_gather(tl_Tensor *self, tl_Tensor *indices, int64_t n) {
  tl_DType dtype = (tl_DType)self->dtype;
  tl_Tensor *in = tli_contiguous_as(self, dtype);
  tl_Tensor *index = in ? tli_contiguous_as(indices, TL_I64) : NULL;
  tl_Tensor *result = index ? tli_empty(dtype, tli_device(self), index->ndim, index->sizes) : NULL;
  if (result && result->numel > 0 && !gather_planes(result, in, index, (int)n)) {
    tli_release(result);
    result = NULL;
  }
  tli_release(in);
  tli_release(index);
  return result;
}

static bool scatter_planes(tl_Tensor *result, tl_Tensor *self, tl_Tensor *indices, int n,
                           bool add) {
  int64_t planes = product(result->sizes, 0, result->ndim - n);
  int64_t plane = product(result->sizes, result->ndim - n, result->ndim);
  int64_t m = product(indices->sizes, indices->ndim - n, indices->ndim);
  TL_TRY(tli_check_index("max_unpool", "indices", indices, plane, false));
  struct tlk_scatter call = {.cx = tli_context(tli_device(self)),
                             .index = {.count = m, .n = plane},
                             .join = add ? TLK_JOIN_ADD : TLK_JOIN_SET};
  plane_lines(&call.index, (tl_Tensor *[]){result, indices, self}, (int64_t[]){plane, m, m},
              planes);
  return tli_backend(tli_device(self))->scatter(&call);
}

/* Scatters elements into planes. With `add`, the sums are computed in the kernel's compute dtype,
** which may be wider than self's. */
tl_Tensor *tli_op_plane_scatter(tl_Tensor *self, tl_Tensor *indices, tl_Ints size, int64_t n,
                                bool add) {
  bool wide = add && tli_scatter_upcasts(TLK_JOIN_ADD, self);
  tl_DType dtype = wide ? tli_dtype_compute((tl_DType)self->dtype) : (tl_DType)self->dtype;
  tl_Tensor *in = tli_contiguous_as(self, dtype);
  tl_Tensor *index = in ? tli_contiguous_as(indices, TL_I64) : NULL;
  tl_Tensor *sums = index ? tli_empty(dtype, tli_device(self), (int)size.n, size.v) : NULL;
  bool ok = sums && tli_fill(sums, tli_int(0)) &&
            (in->numel == 0 || scatter_planes(sums, in, index, (int)n, add));
  tl_Tensor *result = ok ? tli_contiguous_as(sums, (tl_DType)self->dtype) : NULL;
  tli_release(in);
  tli_release(index);
  tli_release(sums);
  return result;
}

/* ---- max_unpool ---- */

/* Computes the sizes of max_unpool's result, which are the sizes before pooling. A given
** output_size, with or without the leading dimensions, must be a size from which pooling produces
** the input's size. */
static bool unpooled_sizes(const char *op, const tl_Tensor *input, const Windows *w, int n,
                           tl_Ints output_size, int64_t *sizes) {
  int lead = input->ndim - n;
  for (int d = 0; d < lead; d++) sizes[d] = input->sizes[d];
  if (output_size.v && output_size.n != n && output_size.n != input->ndim)
    return tli_fail(TL_EARG, "%s: output_size: expected %d numbers, got %" PRId64, op, n,
                    output_size.n);
  for (int d = 0; d < n; d++) {
    int64_t natural =
        (input->sizes[lead + d] - 1) * w->stride[d] + w->kernel[d] - 2 * w->padding[d];
    sizes[lead + d] = output_size.v ? output_size.v[output_size.n - n + d] : natural;
    if (sizes[lead + d] <= natural - w->stride[d] || sizes[lead + d] >= natural + w->stride[d] ||
        sizes[lead + d] < 1)
      return tli_fail(TL_EARG,
                      "%s: output_size: expected %" PRId64 " or less than %" PRId64
                      " more or less, got %" PRId64,
                      op, natural, w->stride[d], sizes[lead + d]);
  }
  return true;
}

static tl_Tensor *max_unpool(const char *op, int n, tl_Tensor *input, tl_Tensor *indices,
                             tl_Ints kernel_size, tl_Ints stride, tl_Ints padding,
                             tl_Ints output_size) {
  Windows w;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(check_input(op, input, n, n));
  TL_TRY_NULL(read_windows(op, n, kernel_size, stride, padding, tli_one, &w));
  if (tli_dtype_category((tl_DType)indices->dtype) != TLI_INT || !tli_same_sizes(input, indices))
    return tli_fail_null(TL_ESHAPE, "%s: indices: expected integers of shape %s, got %s %s", op,
                         tli_sizes_str(input), tl_dtype_name((tl_DType)indices->dtype),
                         tli_sizes_str(indices));
  TL_TRY_NULL(unpooled_sizes(op, input, &w, n, output_size, sizes));
  return tlo_plane_scatter(input, indices, (tl_Ints){input->ndim, sizes}, n, false);
}

/* ---- one, two and three dimensions ---- */

#define POOL(n)                                                                                   \
  bool tlo_max_pool##n##d(tl_Tensor *input, tl_Ints kernel_size, tl_Ints stride, tl_Ints padding, \
                          tl_Ints dilation, bool ceil_mode, bool return_indices,                  \
                          tl_Tensor **out) {                                                      \
    return max_pool("max_pool" #n "d", n, input, kernel_size, stride, padding, dilation,          \
                    ceil_mode, return_indices, out);                                              \
  }                                                                                               \
  bool tlo_max_pool##n##d_with_indices(tl_Tensor *input, tl_Ints kernel_size, tl_Ints stride,     \
                                       tl_Ints padding, tl_Ints dilation, bool ceil_mode,         \
                                       tl_Tensor **out) {                                         \
    return max_pool("max_pool" #n "d", n, input, kernel_size, stride, padding, dilation,          \
                    ceil_mode, true, out);                                                        \
  }                                                                                               \
  bool tlo_adaptive_max_pool##n##d(tl_Tensor *input, tl_Ints output_size, bool return_indices,    \
                                   tl_Tensor **out) {                                             \
    return adaptive_max_pool("adaptive_max_pool" #n "d", n, input, output_size, return_indices,   \
                             out);                                                                \
  }                                                                                               \
  bool tlo_adaptive_max_pool##n##d_with_indices(tl_Tensor *input, tl_Ints output_size,            \
                                                tl_Tensor **out) {                                \
    return adaptive_max_pool("adaptive_max_pool" #n "d", n, input, output_size, true, out);       \
  }                                                                                               \
  tl_Tensor *tlo_max_unpool##n##d(tl_Tensor *input, tl_Tensor *indices, tl_Ints kernel_size,      \
                                  tl_Ints stride, tl_Ints padding, tl_Ints output_size) {         \
    return max_unpool("max_unpool" #n "d", n, input, indices, kernel_size, stride, padding,       \
                      output_size);                                                               \
  }                                                                                               \
  tl_Tensor *tlo_adaptive_avg_pool##n##d(tl_Tensor *input, tl_Ints output_size) {                 \
    return adaptive_avg_pool("adaptive_avg_pool" #n "d", n, input, output_size);                  \
  }                                                                                               \
  tl_Tensor *tlo_lp_pool##n##d(tl_Tensor *input, double norm_type, tl_Ints kernel_size,           \
                               tl_Ints stride, bool ceil_mode) {                                  \
    return lp_pool("lp_pool" #n "d", n, input, norm_type, kernel_size, stride, ceil_mode);        \
  }

POOL(1)
POOL(2)
POOL(3)

tl_Tensor *tlo_avg_pool1d(tl_Tensor *input, tl_Ints kernel_size, tl_Ints stride, tl_Ints padding,
                          bool ceil_mode, bool count_include_pad) {
  return avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode,
                  count_include_pad, TLI_NOINT);
}

tl_Tensor *tlo_avg_pool2d(tl_Tensor *input, tl_Ints kernel_size, tl_Ints stride, tl_Ints padding,
                          bool ceil_mode, bool count_include_pad, int64_t divisor_override) {
  return avg_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode,
                  count_include_pad, divisor_override);
}

tl_Tensor *tlo_avg_pool3d(tl_Tensor *input, tl_Ints kernel_size, tl_Ints stride, tl_Ints padding,
                          bool ceil_mode, bool count_include_pad, int64_t divisor_override) {
  return avg_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode,
                  count_include_pad, divisor_override);
}
