/*
** conv.c - convolutions. Convolutions with any number of dimensions call one operator, which takes
** lists of sizes and runs one kernel over three dimensions. A transposed convolution is the
** gradient of a plain convolution with respect to the input.
*/
#include <string.h>

#include "ops/chain.h"
#include "ops/copy/memory_format.h"
#include "ops/windows.h"

/* ---- the geometry of a convolution ---- */

typedef struct Options {
  int64_t stride[3], padding[3], dilation[3], output_padding[3];
  int64_t groups;
  bool transposed;
  tli_Format format; /* the memory format in which the convolution is computed */
} Options;

static bool check_channels(const char *op, const tl_Tensor *input, const tl_Tensor *weight, int n,
                           const Options *o) {
  if (input->ndim != n + 1 && input->ndim != n + 2)
    return tli_fail(TL_ESHAPE,
                    "%s: input: expected %d or %d dimensions (without or with a batch), "
                    "got %s",
                    op, n + 1, n + 2, tli_sizes_str(input));
  if (weight->ndim != n + 2)
    return tli_fail(TL_ESHAPE, "%s: weight: expected %d dimensions, got %s", op, n + 2,
                    tli_sizes_str(weight));
  int64_t channels = input->sizes[input->ndim - n - 1];
  if (o->groups < 1)
    return tli_fail(TL_EARG, "%s: groups: expected at least 1, got %" PRId64, op, o->groups);
  if (weight->sizes[0] % o->groups != 0 || weight->sizes[0] == 0)
    return tli_fail(TL_ESHAPE,
                    "%s: weight: expected a first dimension that is a multiple of "
                    "groups %" PRId64 ", got %s",
                    op, o->groups, tli_sizes_str(weight));
  int64_t wanted = o->transposed ? weight->sizes[0] : weight->sizes[1] * o->groups;
  if (channels != wanted)
    return tli_fail(TL_ESHAPE,
                    "%s: input: expected %" PRId64 " channels for weight %s and groups %" PRId64
                    ", got %s",
                    op, wanted, tli_sizes_str(weight), o->groups, tli_sizes_str(input));
  for (int d = 2; d < n + 2; d++)
    if (weight->sizes[d] < 1)
      return tli_fail(TL_ESHAPE, "%s: weight: expected a kernel of at least 1 element, got %s", op,
                      tli_sizes_str(weight));
  return true;
}

static bool check_operands(const char *op, tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                           int64_t outputs) {
  if (input->dtype == TL_BOOL)
    return tli_fail(TL_EDTYPE, "%s: input: expected numbers, got bool", op);
  if (weight->dtype != input->dtype || (bias && bias->dtype != input->dtype))
    return tli_fail(TL_EDTYPE,
                    "%s: expected input, weight and bias of one dtype, got %s, %s and %s", op,
                    tl_dtype_name((tl_DType)input->dtype), tl_dtype_name((tl_DType)weight->dtype),
                    bias ? tl_dtype_name((tl_DType)bias->dtype) : "none");
  if (bias && (bias->ndim != 1 || bias->sizes[0] != outputs))
    return tli_fail(TL_ESHAPE, "%s: bias: expected shape [%" PRId64 "], got %s", op, outputs,
                    tli_sizes_str(bias));
  tl_Tensor *all[] = {input, weight, bias};
  return tli_same_device_all(op, all, bias ? 3 : 2);
}

/* Computes the sizes of the result. Each size must be at least 1. */
static bool result_sizes(const char *op, const tl_Tensor *input, const tl_Tensor *weight, int n,
                         const Options *o, int64_t *sizes) {
  const int64_t *in = input->sizes + input->ndim - n;
  for (int d = 0; d < n; d++) {
    int64_t reach = o->dilation[d] * (weight->sizes[d + 2] - 1) + 1;
    if (o->transposed) {
      if (o->output_padding[d] >= o->stride[d] && o->output_padding[d] >= o->dilation[d])
        return tli_fail(TL_EARG,
                        "%s: output_padding: expected less than stride or dilation, got %" PRId64,
                        op, o->output_padding[d]);
      sizes[d] = (in[d] - 1) * o->stride[d] - 2 * o->padding[d] + reach + o->output_padding[d];
      if (sizes[d] < 1)
        return tli_fail(TL_ESHAPE,
                        "%s: input %s is too small for padding %" PRId64
                        ": the result would have size %" PRId64,
                        op, tli_sizes_str(input), o->padding[d], sizes[d]);
      continue;
    }
    int64_t padded = in[d] + 2 * o->padding[d];
    if (padded < reach)
      return tli_fail(TL_ESHAPE,
                      "%s: the kernel reaches over %" PRId64 " elements, more than the %" PRId64
                      " of input %s with padding %" PRId64,
                      op, reach, padded, tli_sizes_str(input), o->padding[d]);
    sizes[d] = (padded - reach) / o->stride[d] + 1;
  }
  return true;
}

/* Returns the description of a convolution for the kernel. The windows slide over `large` (batch,
** channels, ...), and `small` has one element for each window. */
static tlk_Conv kernel_call(const tl_Tensor *large, const tl_Tensor *small, const tl_Tensor *weight,
                            const Options *o) {
  int n = weight->ndim - 2;
  tlk_Conv c = {.dtype = (tl_DType)weight->dtype,
                .channels_last = o->format != TLI_ROW_MAJOR,
                .batch = large->sizes[0],
                .groups = o->groups,
                .channels_in = large->sizes[1],
                .channels_out = small->sizes[1]};
  for (int k = 0; k < 3; k++) {
    /* index into the lists of sizes; negative for dimensions that the kernel has and the operator
    ** lacks */
    int d = k - (3 - n);
    c.windows.in[k] = d < 0 ? 1 : large->sizes[d + 2];
    c.windows.out[k] = d < 0 ? 1 : small->sizes[d + 2];
    c.windows.kernel[k] = d < 0 ? 1 : weight->sizes[d + 2];
    c.windows.stride[k] = d < 0 ? 1 : o->stride[d];
    c.windows.padding[k] = d < 0 ? 0 : o->padding[d];
    c.windows.dilation[k] = d < 0 ? 1 : o->dilation[d];
  }
  return c;
}

/* Returns the channels-last format of the input or the weight, if one of them has such a format and
** the back end supports it. Otherwise returns TLI_ROW_MAJOR. */
static tli_Format format_of(const tl_Tensor *input, const tl_Tensor *weight) {
  if (!tli_backend(tli_device(input))->conv_channels_last) return TLI_ROW_MAJOR;
  tli_Format format = tli_format_of(input);
  return format == TLI_ROW_MAJOR ? tli_format_of(weight) : format;
}

static Options options_of(int n, tl_Ints stride, tl_Ints padding, tl_Ints dilation, bool transposed,
                          tl_Ints output_padding, int64_t groups) {
  Options o = {.groups = groups, .transposed = transposed, .format = TLI_ROW_MAJOR};
  for (int d = 0; d < n; d++) {
    o.stride[d] = stride.v[d];
    o.padding[d] = padding.v[d];
    o.dilation[d] = dilation.v[d];
    o.output_padding[d] = output_padding.v[d];
  }
  return o;
}

/* ---- the operator ---- */

/* Adds a bias (C) to a new result in place. The bias broadcasts to the result in the shape (1, C,
** 1, ...). */
static bool add_bias(tl_Tensor *result, tl_Tensor *bias) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < result->ndim; d++) {
    sizes[d] = d == 1 ? bias->sizes[0] : 1;
    strides[d] = d == 1 ? bias->strides[0] : 0;
  }
  tl_Tensor *view = tli_alias(bias, result->ndim, sizes, strides, bias->offset);
  bool ok = view && tlo_add_(result, view, tli_int(1));
  tli_release(view);
  return ok;
}

static bool run_forward(const Options *o, tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                        tl_Tensor *result) {
  tl_Device device = tli_device(input);
  tlk_Conv c =
      o->transposed ? kernel_call(result, input, weight, o) : kernel_call(input, result, weight, o);
  void *in = tli_data(input), *w = tli_data(weight), *out = tli_data(result);
  if (!o->transposed)
    return TLI_RUN(device, conv, .conv = c, .out = out, .in = in, .weight = w,
                   .bias = bias ? tli_data(bias) : NULL);
  if (!TLI_RUN(device, conv_input, .conv = c, .grad_in = out, .grad_out = in, .weight = w))
    return false;
  return bias == NULL || add_bias(result, bias);
}

/* Runs a convolution. `input` is (N, C, ...), and each list has one number for each dimension. */
tl_Tensor *tli_op_convolution(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias, tl_Ints stride,
                              tl_Ints padding, tl_Ints dilation, bool transposed,
                              tl_Ints output_padding, int64_t groups) {
  int n = weight->ndim - 2;
  Options o = options_of(n, stride, padding, dilation, transposed, output_padding, groups);
  o.format = format_of(input, weight);
  int64_t sizes[TL_MAX_DIMS] = {input->sizes[0]};
  sizes[1] = transposed ? weight->sizes[1] * groups : weight->sizes[0];
  TL_TRY_NULL(result_sizes("convolution", input, weight, n, &o, sizes + 2));
  tl_DType dtype = (tl_DType)input->dtype;
  tl_Tensor *t[3] = {NULL};
  tl_Tensor *result = tli_empty_format(o.format, dtype, tli_device(input), n + 2, sizes);
  bool ok = result && (t[0] = tli_lay(input, dtype, o.format)) &&
            (t[1] = tli_lay(weight, dtype, o.format)) &&
            (bias == NULL || (t[2] = tli_contiguous_as(bias, dtype)));
  if (ok && result->numel > 0) ok = run_forward(&o, t[0], t[1], t[2], result);
  tli_release_results(t, 3);
  if (ok) return tli_follow(result, tli_format_of(input) == TLI_ROW_MAJOR ? weight : input);
  tli_release(result);
  return NULL;
}

static tl_Tensor *gradient_of_input(const Options *o, tl_Tensor *grad, tl_Tensor *input,
                                    tl_Tensor *weight) {
  tl_Tensor *result = tli_empty_format(o->format, (tl_DType)input->dtype, tli_device(input),
                                       input->ndim, input->sizes);
  if (result == NULL || result->numel == 0) return result;
  tl_Device device = tli_device(input);
  tlk_Conv c =
      o->transposed ? kernel_call(grad, result, weight, o) : kernel_call(result, grad, weight, o);
  void *g = tli_data(grad), *w = tli_data(weight), *out = tli_data(result);
  if (o->transposed
          ? TLI_RUN(device, conv, .conv = c, .out = out, .in = g, .weight = w, .bias = NULL)
          : TLI_RUN(device, conv_input, .conv = c, .grad_in = out, .grad_out = g, .weight = w))
    return result;
  tli_release(result);
  return NULL;
}

static tl_Tensor *gradient_of_weight(const Options *o, tl_Tensor *grad, tl_Tensor *input,
                                     tl_Tensor *weight) {
  tl_Tensor *result = tli_empty_format(o->format, (tl_DType)weight->dtype, tli_device(weight),
                                       weight->ndim, weight->sizes);
  if (result == NULL) return NULL;
  bool ok;
  if (grad->numel == 0 || input->numel == 0) {
    ok = tli_fill(result, tli_int(0));
  } else {
    tl_Tensor *large = o->transposed ? grad : input, *small = o->transposed ? input : grad;
    tlk_Conv c = kernel_call(large, small, weight, o);
    ok = TLI_RUN(tli_device(input), conv_weight, .conv = c, .grad_weight = tli_data(result),
                 .in = tli_data(large), .grad_out = tli_data(small));
  }
  if (ok) return result;
  tli_release(result);
  return NULL;
}

/* Replaces *t by a row-major tensor with the same values and the given dtype. */
static bool relay(tl_Tensor **t, tl_DType dtype) {
  tl_Tensor *rows = tli_contiguous_as(*t, dtype);
  tli_release(*t);
  return (*t = rows) != NULL;
}

static tl_Tensor *gradient_of_bias(tl_Tensor *grad) {
  int64_t dims[TL_MAX_DIMS], n = 0;
  for (int d = 0; d < grad->ndim; d++)
    if (d != 1) dims[n++] = d;
  return tlo_sum(grad, (tl_Ints){n, dims}, false, TL_NODTYPE);
}

bool tli_op_convolution_backward(tl_Tensor *grad_output, tl_Tensor *input, tl_Tensor *weight,
                                 tl_Ints stride, tl_Ints padding, tl_Ints dilation, bool transposed,
                                 tl_Ints output_padding, int64_t groups, bool want_input,
                                 bool want_weight, bool want_bias, tl_Tensor **out) {
  Options o =
      options_of(weight->ndim - 2, stride, padding, dilation, transposed, output_padding, groups);
  o.format = format_of(input, weight);
  tl_DType dtype = (tl_DType)weight->dtype;
  tl_Tensor *t[3] = {NULL};
  bool ok = (t[0] = tli_lay(grad_output, dtype, o.format)) &&
            (t[1] = tli_lay(input, dtype, o.format)) && (t[2] = tli_lay(weight, dtype, o.format));
  if (ok && want_input) ok = (out[0] = gradient_of_input(&o, t[0], t[1], t[2])) != NULL;
  if (ok && want_weight) ok = (out[1] = gradient_of_weight(&o, t[0], t[1], t[2])) != NULL;
  if (ok && want_weight && tli_format_of(weight) == TLI_ROW_MAJOR)
    /* gives the gradient the weight's memory order, because an optimizer reads both together */
    ok = relay(&out[1], dtype);
  if (ok && want_bias) {
    /* switches recording off, because the node of the gradient is attached later */
    bool mode = tli_set_grad_mode(false);
    ok = (out[2] = gradient_of_bias(t[0])) != NULL;
    tli_set_grad_mode(mode);
  }
  tli_release_results(t, 3);
  if (!ok) tli_release_results(out, 3);
  return ok;
}

/* Adds `term` to *sum, which may be NULL. Steals `term`. Returns false if `term` is NULL. */
static bool accumulate(tl_Tensor **sum, tl_Tensor *term) {
  if (term == NULL) return false;
  if (*sum == NULL) {
    *sum = term;
    return true;
  }
  tl_Tensor *both = tlo_add(*sum, term, tli_int(1));
  tli_release(term);
  tli_release(*sum);
  *sum = both;
  return both != NULL;
}

/* Expands a bias (C) to the shape of grad_output (N, C, ...). */
static tl_Tensor *bias_spread(tl_Tensor *bias, tl_Tensor *grad_output) {
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < grad_output->ndim; d++) sizes[d] = d == 1 ? bias->sizes[0] : 1;
  tl_Tensor *shaped = tlo_reshape(bias, (tl_Ints){grad_output->ndim, sizes});
  tl_Tensor *wide =
      shaped ? tlo_expand(shaped, (tl_Ints){grad_output->ndim, grad_output->sizes}) : NULL;
  tli_release(shaped);
  return wide;
}

/* Computes the derivative of convolution_backward. Each of its results is bilinear in two of the
** three tensors grad_output, input and weight. So each term of the derivative is a convolution, or
** a gradient of a convolution, with the incoming gradient in place of one tensor. */
bool tlo_convolution_second(tl_Tensor *into_input, tl_Tensor *into_weight, tl_Tensor *into_bias,
                            tl_Tensor *grad_output, tl_Tensor *input, tl_Tensor *weight,
                            tl_Ints stride, tl_Ints padding, tl_Ints dilation, bool transposed,
                            tl_Ints output_padding, int64_t groups, tl_Tensor **out) {
  tl_Tensor *t[3] = {NULL};
  bool ok = true;
  for (int i = 0; i < 3; i++) out[i] = NULL;
  if (into_input) {
    ok = accumulate(&out[0], tlo_convolution(into_input, weight, NULL, stride, padding, dilation,
                                             transposed, output_padding, groups)) &&
         tlo_convolution_backward(grad_output, into_input, weight, stride, padding, dilation,
                                  transposed, output_padding, groups, false, true, false, t) &&
         accumulate(&out[2], tli_retain(t[1]));
    tli_release_results(t, 3);
  }
  if (ok && into_weight) {
    ok = accumulate(&out[0], tlo_convolution(input, into_weight, NULL, stride, padding, dilation,
                                             transposed, output_padding, groups)) &&
         tlo_convolution_backward(grad_output, input, into_weight, stride, padding, dilation,
                                  transposed, output_padding, groups, true, false, false, t) &&
         accumulate(&out[1], tli_retain(t[0]));
    tli_release_results(t, 3);
  }
  if (ok && into_bias) ok = accumulate(&out[0], bias_spread(into_bias, grad_output));
  if (!ok) tli_release_results(out, 3);
  return ok;
}

/* ---- conv1d, conv2d, ... ---- */

/* Convolves integers in float64, where every sum up to 2^53 is exact. */
static tl_Tensor *convolve_whole(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias, int n,
                                 const Options *o) {
  tli_Chain c = {0};
  tl_Tensor *in = TLI_STEP(&c, tlo_to_dtype(input, TL_F64));
  tl_Tensor *w = TLI_STEP(&c, tlo_to_dtype(weight, TL_F64));
  tl_Tensor *b = bias ? TLI_STEP(&c, tlo_to_dtype(bias, TL_F64)) : NULL;
  tl_Tensor *sum =
      TLI_STEP(&c, tlo_convolution(in, w, b, (tl_Ints){n, o->stride}, (tl_Ints){n, o->padding},
                                   (tl_Ints){n, o->dilation}, o->transposed,
                                   (tl_Ints){n, o->output_padding}, o->groups));
  tl_Tensor *whole = TLI_STEP(&c, tlo_to_dtype(sum, TL_I64));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_to_dtype(whole, (tl_DType)input->dtype)));
}

/* ---- complex convolutions as one real convolution ----
**
** Each complex channel becomes two real channels: its real and its imaginary part. Each element
** re + im i of the weight becomes a block of four real elements. The real part of the output is
** re * (real part of the input) - im * (imaginary part of the input), and the imaginary part of the
** output is im * (real part of the input) + re * (imaginary part of the input). */

/* Returns a real tensor that has the real and imaginary parts of the complex t as separate
** channels. The result has t's shape, except that the dimension before dimension k is twice as
** large. */
static tl_Tensor *channel_parts(tli_Chain *c, tl_Tensor *t, int k) {
  int64_t sizes[TL_MAX_DIMS];
  tl_Tensor *pairs = TLI_STEP(c, tlo_view_as_real(t));
  tl_Tensor *moved =
      TLI_STEP(c, tlo_movedim(pairs, (tl_Ints){1, (int64_t[]){-1}}, (tl_Ints){1, (int64_t[]){k}}));
  for (int d = 0; d < t->ndim; d++) sizes[d] = t->sizes[d] * (d == k - 1 ? 2 : 1);
  return TLI_STEP(c, tlo_reshape(moved, (tl_Ints){t->ndim, sizes}));
}

/* Returns a real weight in which each complex element has become a 2 x 2 block of the first two
** dimensions, so these dimensions are twice as large. The first dimension belongs to the outputs
** or, for a transposed convolution, to the inputs. */
static tl_Tensor *weight_blocks(tli_Chain *c, tl_Tensor *weight, bool transposed) {
  int64_t sizes[TL_MAX_DIMS];
  tl_Tensor *re = TLI_STEP(c, tlo_real(weight)), *im = TLI_STEP(c, tlo_imag(weight));
  tl_Tensor *minus = chain_neg(c, im);
  tl_Tensor *rows[2][2] = {{re, transposed ? im : minus}, {transposed ? minus : im, re}};
  tl_Tensor *first = TLI_STEP(c, tlo_stack((tl_Tensors){2, rows[0]}, 2));
  tl_Tensor *second = TLI_STEP(c, tlo_stack((tl_Tensors){2, rows[1]}, 2));
  tl_Tensor *both = TLI_STEP(c, tlo_stack((tl_Tensors){2, (tl_Tensor *[]){first, second}}, 1));
  for (int d = 0; d < weight->ndim; d++) sizes[d] = weight->sizes[d] * (d < 2 ? 2 : 1);
  return TLI_STEP(c, tlo_reshape(both, (tl_Ints){weight->ndim, sizes}));
}

static tl_Tensor *convolve_complex(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias, int n,
                                   const Options *o) {
  uint64_t count = tli_node_count();
  tli_Chain c = {0};
  tl_Tensor *in = channel_parts(&c, input, 2);
  tl_Tensor *w = weight_blocks(&c, weight, o->transposed);
  tl_Tensor *b = bias ? channel_parts(&c, bias, 1) : NULL;
  tl_Tensor *parts =
      TLI_STEP(&c, tlo_convolution(in, w, b, (tl_Ints){n, o->stride}, (tl_Ints){n, o->padding},
                                   (tl_Ints){n, o->dilation}, o->transposed,
                                   (tl_Ints){n, o->output_padding}, o->groups));
  if (c.failed) return tli_chain_end(&c, NULL);
  int64_t sizes[TL_MAX_DIMS] = {parts->sizes[0], parts->sizes[1] / 2, 2};
  for (int d = 2; d < parts->ndim; d++) sizes[d + 1] = parts->sizes[d];
  tl_Tensor *apart = TLI_STEP(&c, tlo_reshape(parts, (tl_Ints){parts->ndim + 1, sizes}));
  tl_Tensor *pairs =
      TLI_STEP(&c, tlo_movedim(apart, (tl_Ints){1, (int64_t[]){2}}, (tl_Ints){1, (int64_t[]){-1}}));
  tl_Tensor *result = tli_chain_end(&c, TLI_STEP(&c, tlo_complex_of_pairs(pairs)));
  tli_entitle(result, "Add", count); /* gives the autograd node the name that PyTorch uses */
  return result;
}

/* Checks the arguments, adds a batch dimension to an input without one, and calls the operator. */
static tl_Tensor *convolve(const char *op, int n, tl_Tensor *input, tl_Tensor *weight,
                           tl_Tensor *bias, tl_Ints stride, tl_Ints padding, tl_Ints dilation,
                           bool transposed, tl_Ints output_padding, int64_t groups) {
  Options o = {.groups = groups, .transposed = transposed};
  TL_TRY_NULL(tli_spread(op, "stride", stride, n, 1, o.stride));
  TL_TRY_NULL(tli_spread(op, "padding", padding, n, 0, o.padding));
  TL_TRY_NULL(tli_spread(op, "dilation", dilation, n, 1, o.dilation));
  TL_TRY_NULL(tli_spread(op, "output_padding", output_padding, n, 0, o.output_padding));
  TL_TRY_NULL(check_channels(op, input, weight, n, &o));
  int64_t outputs = transposed ? weight->sizes[1] * groups : weight->sizes[0];
  TL_TRY_NULL(check_operands(op, input, weight, bias, outputs));
  int64_t sizes[3];
  TL_TRY_NULL(result_sizes(op, input, weight, n, &o, sizes));
  bool single = input->ndim == n + 1;
  uint64_t count = tli_node_count();
  tl_Tensor *batch = single ? tlo_unsqueeze(input, 0) : tli_retain(input);
  if (batch == NULL) return NULL;
  tl_Tensor *result = tli_is_float((tl_DType)input->dtype)
                          ? tlo_convolution(batch, weight, bias, (tl_Ints){n, o.stride},
                                            (tl_Ints){n, o.padding}, (tl_Ints){n, o.dilation},
                                            transposed, (tl_Ints){n, o.output_padding}, groups)
                      : tli_is_complex((tl_DType)input->dtype)
                          ? convolve_complex(batch, weight, bias, n, &o)
                          : convolve_whole(batch, weight, bias, n, &o);
  tli_release(batch);
  if (!single || result == NULL) return result;
  tl_Tensor *one = tlo_select(result, 0, 0);
  tli_release(result);
  tli_entitle(one, "Squeeze", count); /* gives the autograd node the name that PyTorch uses */
  return one;
}

/* Computes the padding that keeps the size. Its total is dilation * (kernel - 1) for each
** dimension. The larger half is at the end of the dimension. If the halves differ, the function
** pads a copy of the input. */
static tl_Tensor *pad_for_same(const char *op, int n, tl_Tensor *input, tl_Tensor *weight,
                               tl_Ints stride, tl_Ints dilation, int64_t *padding) {
  int64_t step[3], gap[3], around[6];
  bool even = true;
  TL_TRY_NULL(tli_spread(op, "stride", stride, n, 1, step));
  TL_TRY_NULL(tli_spread(op, "dilation", dilation, n, 1, gap));
  if (weight->ndim != n + 2 || input->ndim < n) {
    memset(padding, 0, 3 * sizeof *padding);
    /* returns the input unchanged; the check of the sizes, which comes later, reports the error */
    return tli_retain(input);
  }
  for (int d = 0; d < n; d++) {
    if (step[d] != 1)
      return tli_fail_null(TL_EARG, "%s: padding 'same' needs a stride of 1, got %" PRId64, op,
                           step[d]);
    int64_t total = gap[d] * (weight->sizes[d + 2] - 1);
    padding[d] = total / 2;
    even = even && total % 2 == 0;
    around[2 * (n - 1 - d)] = 0;
    around[2 * (n - 1 - d) + 1] = total % 2;
  }
  if (even) return tli_retain(input);
  return tlo_constant_pad(input, (tl_Ints){2 * n, around}, tli_int(0));
}

static tl_Tensor *convolve_named(const char *op, int n, tl_Tensor *input, tl_Tensor *weight,
                                 tl_Tensor *bias, tl_Ints stride, const char *padding,
                                 tl_Ints dilation, int64_t groups) {
  if (strcmp(padding, "valid") == 0)
    return convolve(op, n, input, weight, bias, stride, tli_zero, dilation, false, tli_zero,
                    groups);
  if (strcmp(padding, "same") != 0)
    return tli_fail_null(TL_EARG, "%s: padding: expected numbers, 'valid' or 'same', got '%s'", op,
                         padding);
  int64_t sizes[3];
  tl_Tensor *padded = pad_for_same(op, n, input, weight, stride, dilation, sizes);
  tl_Tensor *result = padded ? convolve(op, n, padded, weight, bias, stride, (tl_Ints){n, sizes},
                                        dilation, false, tli_zero, groups)
                             : NULL;
  tli_release(padded);
  return result;
}

#define CONV(n)                                                                                   \
  tl_Tensor *tlo_conv##n##d(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias, tl_Ints stride, \
                            tl_Ints padding, tl_Ints dilation, int64_t groups) {                  \
    return convolve("conv" #n "d", n, input, weight, bias, stride, padding, dilation, false,      \
                    tli_zero, groups);                                                            \
  }                                                                                               \
  tl_Tensor *tlo_conv##n##d_padding(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,         \
                                    tl_Ints stride, const char *padding, tl_Ints dilation,        \
                                    int64_t groups) {                                             \
    return convolve_named("conv" #n "d", n, input, weight, bias, stride, padding, dilation,       \
                          groups);                                                                \
  }                                                                                               \
  tl_Tensor *tlo_conv_transpose##n##d(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,       \
                                      tl_Ints stride, tl_Ints padding, tl_Ints output_padding,    \
                                      int64_t groups, tl_Ints dilation) {                         \
    return convolve("conv_transpose" #n "d", n, input, weight, bias, stride, padding, dilation,   \
                    true, output_padding, groups);                                                \
  }

CONV(1)
CONV(2)
CONV(3)
