/*
** linear_activation.c - linear layers whose kernel also adds the bias and applies the activation.
*/
#include <string.h>

#include "core/observe/profile.h"
#include "ops/chain.h"
#include "ops/matmul/matmul.h"

/* ---- forward ---- */

/* Returns t as a matrix: all leading dimensions are flattened into rows. */
static tl_Tensor *rows_of(tli_Chain *c, tl_Tensor *t) {
  if (c->failed || t->ndim == 2) return t;
  int64_t cols = t->sizes[t->ndim - 1], rows = 1;
  for (int d = 0; d < t->ndim - 1; d++) rows *= t->sizes[d];
  return TLI_STEP(c, tlo_reshape(t, (tl_Ints){2, (int64_t[]){rows, cols}}));
}

static bool run_linear(tl_Tensor *out, tl_Tensor *rows, tl_Tensor *turned, void *bias,
                       tlk_Activation activation, void *inner) {
  tli_Product p;
  bool ok = tli_product(&p, out, rows, turned, tli_int(1), tli_int(0)) &&
            TLI_RUN(tli_device(out), linear, .gemm = p.gemm, .bias = bias, .activation = activation,
                    .inner = inner);
  tli_product_end(&p);
  return ok;
}

/* Brings the operands to the shapes and strides that the kernel takes, by views or copies, and runs
** the kernel. */
static bool linear_by_chain(tl_Tensor *out, tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                            tlk_Activation activation, void *inner) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *flat = rows_of(&c, out), *rows = rows_of(&c, input), *turned = chain_t(&c, weight);
  tl_Tensor *line = bias ? TLI_STEP(&c, tli_contiguous_as(bias, (tl_DType)bias->dtype)) : NULL;
  if (!c.failed)
    c.failed = !run_linear(flat, rows, turned, line ? tli_data(line) : NULL, activation, inner);
  bool ok = !c.failed;
  tli_chain_end(&c, NULL);
  tli_set_grad_mode(mode);
  return ok;
}

/* Runs the kernel. A contiguous input, a weight with contiguous rows and a contiguous bias are read
** in place. */
static bool run(tl_Tensor *out, tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                tlk_Activation activation, void *inner) {
  int64_t n = weight->sizes[0], k = weight->sizes[1], pitch = weight->strides[0];
  if (weight->strides[1] != 1 || pitch < k || pitch > INT32_MAX || !tli_contiguous(input) ||
      (bias && !tli_contiguous(bias)))
    return linear_by_chain(out, input, weight, bias, activation, inner);
  return TLI_RUN(tli_device(out), linear,
                 .gemm = {.dtype = (tl_DType)out->dtype,
                          .trans_b = true,
                          .m = out->numel / n,
                          .n = n,
                          .k = k,
                          .alpha = tli_int(1),
                          .beta = tli_int(0),
                          .a = tli_data(input),
                          .b = tli_data(weight),
                          .c = tli_data(out),
                          .lda = k,
                          .ldb = pitch,
                          .ldc = n,
                          .batch = 1,
                          .stride_c = out->numel},
                 .bias = bias ? tli_data(bias) : NULL, .activation = activation, .inner = inner);
}

/* Computes the layer. If `inner` is not NULL, *inner receives the argument of the activation. */
static tl_Tensor *linear(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                         tlk_Activation activation, tl_Tensor **inner) {
  int64_t sizes[TL_MAX_DIMS], last = input->ndim - 1;
  for (int d = 0; d < last; d++) sizes[d] = input->sizes[d];
  sizes[last] = weight->sizes[0];
  tl_DType dtype = (tl_DType)input->dtype;
  tl_Tensor *out = tli_empty(dtype, tli_device(input), input->ndim, sizes);
  if (inner) *inner = out ? tli_empty(dtype, tli_device(input), input->ndim, sizes) : NULL;
  bool ok = out && (inner == NULL || *inner);
  if (ok && out->numel > 0)
    ok = run(out, input, weight, bias, activation, inner ? tli_data(*inner) : NULL);
  if (ok) return out;
  tli_release(out);
  if (inner) {
    tli_release(*inner);
    *inner = NULL;
  }
  return NULL;
}

tl_Tensor *tli_op_linear_bias(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  return linear(input, weight, bias, TLK_ACTIVATION_NONE, NULL);
}

tl_Tensor *tli_op_linear_relu_core(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  return linear(input, weight, bias, TLK_ACTIVATION_RELU, NULL);
}

static tlk_Activation gelu_of(bool tanh) {
  return tanh ? TLK_ACTIVATION_GELU_TANH : TLK_ACTIVATION_GELU;
}

bool tli_op_linear_gelu_core(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias, bool tanh,
                             tl_Tensor **out) {
  bool recorded = tli_recording((tl_Tensor *[]){input, weight, bias}, 3);
  out[0] = linear(input, weight, bias, gelu_of(tanh), recorded ? &out[1] : NULL);
  return out[0] != NULL;
}

tl_Tensor *tlo_linear_relu(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  if (tli_linear_fits(input, weight, bias)) return tlo_linear_relu_core(input, weight, bias);
  tl_Tensor *inner = tlo_linear(input, weight, bias);
  tl_Tensor *result = inner ? tlo_relu(inner) : NULL;
  tli_release(inner);
  return result;
}

tl_Tensor *tlo_linear_gelu(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                           const char *approximate) {
  bool tanh = strcmp(approximate, "tanh") == 0;
  if ((tanh || strcmp(approximate, "none") == 0) && tli_linear_fits(input, weight, bias)) {
    tl_Tensor *out[2];
    if (!tlo_linear_gelu_core(input, weight, bias, tanh, out)) return NULL;
    tli_release(out[1]);
    return out[0];
  }
  tl_Tensor *inner = tlo_linear(input, weight, bias);
  tl_Tensor *result = inner ? tlo_gelu(inner, approximate) : NULL;
  tli_release(inner);
  return result;
}

/* ---- backward ---- */

typedef struct Wanted {
  bool input, weight, bias;
} Wanted;

static tl_Tensor *sum_of_rows(tli_Chain *c, tl_Tensor *rows) {
  return chain_sum(c, rows, 0, false);
}

/* Computes the gradients of the weight and the bias in one pass. */
static tl_Tensor *weight_and_bias(tli_Chain *c, tl_Tensor *grad, tl_Tensor *input,
                                  tl_Tensor **bias) {
  grad = TLI_STEP(c, tli_contiguous_as(grad, (tl_DType)grad->dtype));
  tl_Tensor *turned = chain_t(c, grad);
  if (c->failed) return NULL;
  tl_DType dtype = (tl_DType)grad->dtype;
  int64_t sizes[2] = {grad->sizes[1], input->sizes[1]};
  tl_Tensor *out = TLI_STEP(c, tli_empty(dtype, tli_device(grad), 2, sizes));
  *bias = TLI_STEP(c, tli_empty(dtype, tli_device(grad), 1, sizes));
  if (c->failed) return NULL;
  tli_Product p;
  const tli_SpanInput inputs[2] = {{&turned, 1}, {&input, 1}};
  tli_Span span = tli_span_open(TLI_SPAN_OPERATOR, "linear_weight", inputs, 2);
  c->failed = !tli_product(&p, out, turned, input, tli_int(1), tli_int(0)) ||
              !TLI_RUN(tli_device(out), linear, .gemm = p.gemm, .sums = tli_data(*bias));
  tli_span_close(span, tli_span_flops() ? 2.0 * (double)out->numel * (double)input->sizes[0] : 0);
  tli_product_end(&p);
  return out;
}

/* Computes the gradients of the layer from `grad`, the gradient of the activation's argument.
** `bias` is the gradient of the bias if it is known already, and otherwise NULL. */
static void linear_gradients(tli_Chain *c, tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight,
                             tl_Tensor *bias, Wanted want, bool recorded, tl_Tensor **out) {
  tl_Tensor *rows = rows_of(c, grad), *in = rows_of(c, input);
  if (want.input) {
    tl_Tensor *flat = TLI_STEP(c, tlo_mm(rows, weight));
    out[0] = input->ndim == 2
                 ? flat
                 : TLI_STEP(c, tlo_reshape(flat, (tl_Ints){input->ndim, input->sizes}));
  }
  bool both = want.weight && want.bias && bias == NULL && !recorded && grad->numel > 0;
  if (both)
    out[1] = weight_and_bias(c, rows, in, &bias);
  else if (want.weight)
    out[1] = chain_matmul(c, chain_t(c, rows), in);
  if (want.bias) out[2] = bias ? bias : sum_of_rows(c, rows);
}

/* Runs the kernel that computes the gradient of the activation's argument and, if requested, the
** gradient of the bias. */
static tl_Tensor *activation_gradient(tli_Chain *c, tl_Tensor *grad, tl_Tensor *saved,
                                      tlk_Activation activation, bool want_bias, tl_Tensor **bias) {
  tl_DType dtype = (tl_DType)saved->dtype;
  int64_t n = saved->sizes[saved->ndim - 1];
  grad = TLI_STEP(c, tli_contiguous_as(grad, dtype));
  saved = TLI_STEP(c, tli_contiguous_as(saved, dtype));
  tl_Tensor *out = TLI_STEP(c, tli_empty(dtype, tli_device(saved), saved->ndim, saved->sizes));
  if (want_bias) *bias = TLI_STEP(c, tli_empty(dtype, tli_device(saved), 1, &n));
  if (!c->failed)
    c->failed = !TLI_RUN(
        tli_device(out), activation_backward, .activation = activation, .grad_in = tli_array(out),
        .grad_bias = want_bias ? tli_array(*bias) : (tlk_Array){NULL, dtype},
        .grad_out = tli_array(grad), .saved = tli_array(saved), .rows = out->numel / n, .n = n);
  return out;
}

static bool hand_over(tli_Chain *c, tl_Tensor **out) {
  for (int k = 0; k < 3; k++) out[k] = !c->failed && out[k] ? tli_retain(out[k]) : NULL;
  bool ok = !c->failed;
  tli_chain_end(c, NULL);
  return ok;
}

bool tlo_linear_bias_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight, bool want_input,
                              bool want_weight, bool want_bias, tl_Tensor **out) {
  tli_Chain c = {0};
  for (int k = 0; k < 3; k++) out[k] = NULL;
  linear_gradients(&c, grad, input, weight, NULL, (Wanted){want_input, want_weight, want_bias},
                   tli_recording((tl_Tensor *[]){grad, input, weight}, 3), out);
  return hand_over(&c, out);
}

bool tlo_linear_relu_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight,
                              tl_Tensor *result, bool want_input, bool want_weight, bool want_bias,
                              tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *bias = NULL, *before;
  bool recorded = tli_recording((tl_Tensor *[]){grad, input, weight, result}, 4);
  for (int k = 0; k < 3; k++) out[k] = NULL;
  if (recorded || grad->numel == 0)
    before = TLI_STEP(&c, tlo_threshold_backward(grad, result, tli_int(0)));
  else
    before = activation_gradient(&c, grad, result, TLK_ACTIVATION_RELU, want_bias, &bias);
  if (!c.failed)
    linear_gradients(&c, before, input, weight, bias, (Wanted){want_input, want_weight, want_bias},
                     recorded, out);
  return hand_over(&c, out);
}

bool tlo_linear_gelu_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                              tl_Tensor *inner, bool tanh, bool want_input, bool want_weight,
                              bool want_bias, tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *sums = NULL, *before;
  bool recorded = tli_recording((tl_Tensor *[]){grad, input, weight, bias}, 4);
  for (int k = 0; k < 3; k++) out[k] = NULL;
  if (recorded || grad->numel == 0) {
    tl_Tensor *x = bias ? TLI_STEP(&c, tlo_linear_bias(input, weight, bias))
                        : TLI_STEP(&c, tlo_linear(input, weight, NULL));
    before = TLI_STEP(&c, tanh ? tlo_gelu_tanh_backward(grad, x) : tlo_gelu_backward(grad, x));
  } else {
    before = activation_gradient(&c, grad, inner, gelu_of(tanh), want_bias, &sums);
  }
  if (!c.failed)
    linear_gradients(&c, before, input, weight, sums, (Wanted){want_input, want_weight, want_bias},
                     recorded, out);
  return hand_over(&c, out);
}
