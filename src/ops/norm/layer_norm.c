/*
** layer_norm.c - layer_norm and rms_norm, which normalise a tensor, or the sum of two tensors, over
** the last dimensions. See norm.h.
*/
#include <math.h>

#include "ops/norm/norm.h"

typedef struct Rows {
  int64_t rows, n;
} Rows;

static Rows rows_of(const tl_Tensor *t, int64_t dims) {
  Rows r = {1, 1};
  for (int d = 0; d < t->ndim; d++) *(d < t->ndim - dims ? &r.rows : &r.n) *= t->sizes[d];
  return r;
}

/* Checks that normalized_shape equals the last sizes of input and the shapes of weight and bias. */
static bool check_shape(const char *op, const tl_Tensor *input, tl_Ints shape,
                        const tl_Tensor *weight, const tl_Tensor *bias) {
  TL_TRY(tli_is_complex((tl_DType)input->dtype) || tli_check_floating(op, input));
  bool fits = shape.n >= 1 && shape.n <= input->ndim;
  for (int64_t d = 0; fits && d < shape.n; d++)
    fits = input->sizes[input->ndim - shape.n + d] == shape.v[d];
  if (!fits)
    return tli_fail(TL_ESHAPE,
                    "%s: expected input whose last sizes are normalized_shape %s, got %s", op,
                    tli_shape_str((int)shape.n, shape.v), tli_sizes_str(input));
  for (int k = 0; k < 2; k++) {
    const tl_Tensor *t = k == 0 ? weight : bias;
    bool same = t == NULL || t->ndim == shape.n;
    for (int64_t d = 0; t && same && d < shape.n; d++) same = t->sizes[d] == shape.v[d];
    if (!same)
      return tli_fail(TL_ESHAPE, "%s: %s: expected shape %s, got %s", op,
                      k == 0 ? "weight" : "bias", tli_shape_str((int)shape.n, shape.v),
                      tli_sizes_str(t));
  }
  return true;
}

/* Runs the kernel, which computes *result and *rstd. The kernel also computes *mean if `mean` is
** not NULL, and *sum if there is a residual. */
static bool run_rows(tli_Chain *c, tl_Tensor *input, tl_Tensor *residual, int64_t dims,
                     tl_Tensor *weight, tl_Tensor *bias, double eps, tl_Tensor **result,
                     tl_Tensor **sum, tl_Tensor **mean, tl_Tensor **rstd) {
  tl_DType dtype = (tl_DType)input->dtype;
  Rows r = rows_of(input, dims);
  tl_Tensor *in = chain_cast(c, input, dtype);
  tl_Tensor *w = weight ? chain_cast(c, weight, dtype) : NULL;
  tl_Tensor *b = bias ? chain_cast(c, bias, dtype) : NULL;
  tl_Tensor *other = residual ? chain_cast(c, residual, dtype) : NULL;
  if (residual) *sum = TLI_STEP(c, tli_empty(dtype, tli_device(input), input->ndim, input->sizes));
  *result = TLI_STEP(c, tli_empty(dtype, tli_device(input), input->ndim, input->sizes));
  if (mean) *mean = chain_empty(c, stat_dtype(input), input, r.rows);
  *rstd = chain_empty(c, stat_dtype(input), input, r.rows);
  if (c->failed || r.rows == 0 || r.n == 0) return !c->failed;
  if (!TLI_RUN(tli_device(input), layer_norm, .out = tli_array(*result),
               .mean = array_of(mean ? *mean : NULL), .rstd = tli_array(*rstd), .in = tli_array(in),
               .weight = array_of(w), .bias = array_of(b), .residual = array_of(other),
               .sum = array_of(residual ? *sum : NULL), .rows = r.rows, .n = r.n, .eps = eps))
    c->failed = true;
  return !c->failed;
}

/* Computes the gradients by the kernel. The kernel adds grad_sum, which may be NULL, to the
** gradient of the input. */
static bool fused_rows(tl_Tensor *grad_output, tl_Tensor *grad_sum, tl_Tensor *input, int64_t dims,
                       tl_Tensor *weight, tl_Tensor *mean, tl_Tensor *rstd, Wanted want,
                       tl_Tensor **out) {
  tli_Chain c = {0};
  bool mode = tli_set_grad_mode(false);
  tl_DType dtype = (tl_DType)input->dtype;
  Rows r = rows_of(input, dims);
  const int64_t *tail = input->sizes + input->ndim - dims;
  tl_Tensor *g = chain_cast(&c, grad_output, dtype), *in = chain_cast(&c, input, dtype);
  tl_Tensor *w = weight ? chain_cast(&c, weight, dtype) : NULL;
  tl_Tensor *more = grad_sum ? chain_cast(&c, grad_sum, dtype) : NULL;
  if (want.input)
    out[0] = TLI_STEP(&c, tli_empty(dtype, tli_device(in), input->ndim, input->sizes));
  if (want.weight) out[1] = TLI_STEP(&c, tli_empty(dtype, tli_device(in), (int)dims, tail));
  if (want.bias) out[2] = TLI_STEP(&c, tli_empty(dtype, tli_device(in), (int)dims, tail));
  if (!c.failed && (r.rows == 0 || r.n == 0)) {
    for (int i = 1; i < 3; i++)
      if (out[i] && !tli_fill(out[i], tli_int(0))) c.failed = true;
  } else if (!c.failed &&
             !TLI_RUN(tli_device(in), layer_norm_backward, .grad_in = array_of(out[0]),
                      .grad_weight = array_of(out[1]), .grad_bias = array_of(out[2]),
                      .grad_out = tli_array(g), .in = tli_array(in), .mean = array_of(mean),
                      .rstd = tli_array(rstd), .weight = array_of(w), .grad_sum = array_of(more),
                      .rows = r.rows, .n = r.n)) {
    c.failed = true;
  }
  return unrecorded_end(&c, mode, out, 3);
}

static bool recorded_rows(tl_Tensor *grad, tl_Tensor *grad_sum, tl_Tensor *input, int64_t dims,
                          tl_Tensor *weight, double eps, bool centre, Wanted want,
                          tl_Tensor **out) {
  tli_Chain c = {0};
  int64_t last[TL_MAX_DIMS];
  for (int64_t d = 0; d < dims; d++) last[d] = input->ndim - dims + d;
  tl_Tensor like = {.ndim = (uint8_t)dims};
  for (int64_t d = 0; d < dims; d++) like.sizes[d] = input->sizes[last[d]];
  tli_norm_gradients(&c, grad, input, weight, &like, (tl_Ints){dims, last}, eps, centre, want, out);
  if (grad_sum && want.input) out[0] = chain_add(&c, out[0], grad_sum);
  return tli_chain_end_all(&c, out, 3);
}

bool tli_op_layer_norm_core(tl_Tensor *input, int64_t dims, tl_Tensor *weight, tl_Tensor *bias,
                            double eps, tl_Tensor **out) {
  tli_Chain c = {0};
  run_rows(&c, input, NULL, dims, weight, bias, eps, &out[0], NULL, &out[1], &out[2]);
  return tli_chain_end_all(&c, out, 3);
}

bool tlo_layer_norm_backward(tl_Tensor *grad_output, tl_Tensor *input, int64_t dims,
                             tl_Tensor *weight, tl_Tensor *mean, tl_Tensor *rstd, double eps,
                             bool want_input, bool want_weight, bool want_bias, tl_Tensor **out) {
  Wanted want = {want_input, want_weight, want_bias};
  out[0] = out[1] = out[2] = NULL;
  if (watched(grad_output, input, weight))
    return recorded_rows(grad_output, NULL, input, dims, weight, eps, true, want, out);
  return fused_rows(grad_output, NULL, input, dims, weight, mean, rstd, want, out);
}

tl_Tensor *tlo_layer_norm(tl_Tensor *input, tl_Ints normalized_shape, tl_Tensor *weight,
                          tl_Tensor *bias, double eps) {
  TL_TRY_NULL(check_shape("layer_norm", input, normalized_shape, weight, bias));
  tl_Tensor *out[3];
  bool ok = tlo_layer_norm_core(input, normalized_shape.n, weight, bias, eps, out);
  return first_of(ok, out, 3);
}

bool tli_op_rms_norm_core(tl_Tensor *input, int64_t dims, tl_Tensor *weight, double eps,
                          tl_Tensor **out) {
  tli_Chain c = {0};
  run_rows(&c, input, NULL, dims, weight, NULL, eps, &out[0], NULL, NULL, &out[1]);
  return tli_chain_end_all(&c, out, 2);
}

bool tlo_rms_norm_backward(tl_Tensor *grad_output, tl_Tensor *input, int64_t dims,
                           tl_Tensor *weight, tl_Tensor *rstd, double eps, bool want_input,
                           bool want_weight, tl_Tensor **out) {
  Wanted want = {want_input, want_weight, false};
  tl_Tensor *both[3] = {NULL};
  bool ok = watched(grad_output, input, weight)
                ? recorded_rows(grad_output, NULL, input, dims, weight, eps, false, want, both)
                : fused_rows(grad_output, NULL, input, dims, weight, NULL, rstd, want, both);
  out[0] = both[0];
  out[1] = both[1];
  return ok;
}

/* Returns the epsilon of a floating dtype: the distance from 1 to the next larger number. An
** integer dtype, which the callers refuse, counts as float32. */
static double rms_epsilon(tl_DType dtype) {
  return tli_float_epsilon(tli_is_inexact(dtype) ? dtype : TL_F32);
}

/* Computes input * (mean(input^2) + eps)^-1/2 for complex numbers. As in PyTorch, input^2 is the
** complex square, not the squared magnitude. */
static tl_Tensor *complex_rms_norm(tl_Tensor *input, int64_t dims, tl_Tensor *weight, double eps) {
  int64_t last[TL_MAX_DIMS];
  for (int64_t k = 0; k < dims; k++) last[k] = k - dims;
  tli_Chain c = {0};
  tl_Tensor *squares = TLI_STEP(&c, tlo_square(input));
  tl_Tensor *mean = TLI_STEP(&c, tlo_mean(squares, (tl_Ints){dims, last}, true, TL_NODTYPE));
  tl_Tensor *shifted = chain_add(&c, mean, chain_number(&c, eps));
  tl_Tensor *factor = TLI_STEP(&c, tlo_rsqrt(shifted));
  tl_Tensor *result = chain_mul(&c, input, factor);
  return tli_chain_end(&c, weight ? chain_mul(&c, result, weight) : result);
}

tl_Tensor *tlo_rms_norm(tl_Tensor *input, tl_Ints normalized_shape, tl_Tensor *weight, double eps) {
  TL_TRY_NULL(check_shape("rms_norm", input, normalized_shape, weight, NULL));
  if (isnan(eps)) eps = rms_epsilon((tl_DType)input->dtype);
  if (tli_is_complex((tl_DType)input->dtype))
    return complex_rms_norm(input, normalized_shape.n, weight, eps);
  tl_Tensor *out[2];
  bool ok = tlo_rms_norm_core(input, normalized_shape.n, weight, eps, out);
  return first_of(ok, out, 2);
}

/* ---- add_layer_norm and add_rms_norm ---- */

static bool check_residual(const char *op, const tl_Tensor *input, const tl_Tensor *residual) {
  if (!tli_is_float((tl_DType)residual->dtype))
    return tli_fail(TL_EDTYPE, "%s: residual: expected a floating tensor, got %s", op,
                    tl_dtype_name((tl_DType)residual->dtype));
  return tli_same_sizes(input, residual) ||
         tli_fail(TL_ESHAPE, "%s: residual: expected input's shape %s, got %s", op,
                  tli_sizes_str(input), tli_sizes_str(residual));
}

/* Converts both operands to the dtype that their sum has. */
static void common_dtype(tli_Chain *c, tl_Tensor **input, tl_Tensor **residual) {
  tl_DType dtype = tli_result_dtype((tl_Tensor *[]){*input, *residual}, 2);
  *input = chain_to(c, *input, dtype);
  *residual = chain_to(c, *residual, dtype);
}

bool tli_op_add_layer_norm_core(tl_Tensor *input, tl_Tensor *residual, int64_t dims,
                                tl_Tensor *weight, tl_Tensor *bias, double eps, tl_Tensor **out) {
  tli_Chain c = {0};
  run_rows(&c, input, residual, dims, weight, bias, eps, &out[0], &out[1], &out[2], &out[3]);
  return tli_chain_end_all(&c, out, 4);
}

bool tli_op_add_rms_norm_core(tl_Tensor *input, tl_Tensor *residual, int64_t dims,
                              tl_Tensor *weight, double eps, tl_Tensor **out) {
  tli_Chain c = {0};
  run_rows(&c, input, residual, dims, weight, NULL, eps, &out[0], &out[1], NULL, &out[2]);
  return tli_chain_end_all(&c, out, 3);
}

/* Computes the gradients. grad_output or grad_sum is NULL if the corresponding result has no
** gradient. */
static bool add_norm_backward(tl_Tensor *grad_output, tl_Tensor *grad_sum, tl_Tensor *sum,
                              int64_t dims, tl_Tensor *weight, tl_Tensor *mean, tl_Tensor *rstd,
                              double eps, Wanted want, tl_Tensor **out) {
  if (grad_output == NULL) {
    out[0] = want.input && grad_sum ? tli_retain(grad_sum) : NULL;
    return true;
  }
  tl_Tensor *all[] = {grad_output, grad_sum, sum, weight};
  if (tli_recording(all, 4))
    return recorded_rows(grad_output, grad_sum, sum, dims, weight, eps, mean != NULL, want, out);
  return fused_rows(grad_output, grad_sum, sum, dims, weight, mean, rstd, want, out);
}

bool tlo_add_layer_norm_backward(tl_Tensor *grad_output, tl_Tensor *grad_sum, tl_Tensor *sum,
                                 int64_t dims, tl_Tensor *weight, tl_Tensor *mean, tl_Tensor *rstd,
                                 double eps, bool want_input, bool want_residual, bool want_weight,
                                 bool want_bias, tl_Tensor **out) {
  tl_Tensor *made[3] = {NULL};
  Wanted want = {want_input || want_residual, want_weight, want_bias};
  bool ok =
      add_norm_backward(grad_output, grad_sum, sum, dims, weight, mean, rstd, eps, want, made);
  out[0] = made[0];
  out[1] = made[0] ? tli_retain(made[0]) : NULL;
  out[2] = made[1];
  out[3] = made[2];
  return ok;
}

bool tlo_add_rms_norm_backward(tl_Tensor *grad_output, tl_Tensor *grad_sum, tl_Tensor *sum,
                               int64_t dims, tl_Tensor *weight, tl_Tensor *rstd, double eps,
                               bool want_input, bool want_residual, bool want_weight,
                               tl_Tensor **out) {
  tl_Tensor *made[3] = {NULL};
  Wanted want = {want_input || want_residual, want_weight, false};
  bool ok =
      add_norm_backward(grad_output, grad_sum, sum, dims, weight, NULL, rstd, eps, want, made);
  out[0] = made[0];
  out[1] = made[0] ? tli_retain(made[0]) : NULL;
  out[2] = made[1];
  return ok;
}

/* Moves the first two of n results, which are returned to users, to `out`, and releases the other
** results, which only the derivative needs. */
static bool first_two(bool ok, tl_Tensor **made, int n, tl_Tensor **out) {
  if (!ok) return false;
  for (int i = 2; i < n; i++) tli_release(made[i]);
  out[0] = made[0];
  out[1] = made[1];
  return true;
}

bool tlo_add_layer_norm(tl_Tensor *input, tl_Tensor *residual, tl_Ints normalized_shape,
                        tl_Tensor *weight, tl_Tensor *bias, double eps, tl_Tensor **out) {
  TL_TRY(check_shape("add_layer_norm", input, normalized_shape, weight, bias) &&
         check_residual("add_layer_norm", input, residual));
  tli_Chain c = {0};
  tl_Tensor *made[4] = {NULL};
  common_dtype(&c, &input, &residual);
  bool ok = !c.failed &&
            tlo_add_layer_norm_core(input, residual, normalized_shape.n, weight, bias, eps, made);
  tli_release(tli_chain_end(&c, NULL));
  return first_two(ok, made, 4, out);
}

bool tlo_add_rms_norm(tl_Tensor *input, tl_Tensor *residual, tl_Ints normalized_shape,
                      tl_Tensor *weight, double eps, tl_Tensor **out) {
  TL_TRY(check_shape("add_rms_norm", input, normalized_shape, weight, NULL) &&
         check_residual("add_rms_norm", input, residual));
  tli_Chain c = {0};
  tl_Tensor *made[3] = {NULL};
  common_dtype(&c, &input, &residual);
  if (isnan(eps)) eps = rms_epsilon(c.failed ? TL_F32 : (tl_DType)input->dtype);
  bool ok =
      !c.failed && tlo_add_rms_norm_core(input, residual, normalized_shape.n, weight, eps, made);
  tli_release(tli_chain_end(&c, NULL));
  return first_two(ok, made, 3, out);
}
