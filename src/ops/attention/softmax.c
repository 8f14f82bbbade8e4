/*
** softmax.c - softmax and log_softmax along a dimension, and gumbel_softmax.
*/
#include "ops/common.h"

typedef tl_Tensor *(*AlongFn)(tl_Tensor *self, int64_t dim);

static tl_Tensor *softmax_of(AlongFn fn, const char *op, tl_Tensor *self, int64_t dim,
                             tl_DType dtype) {
  if (dtype == TL_NODTYPE || dtype == (tl_DType)self->dtype) dtype = (tl_DType)self->dtype;
  if (!tli_is_float(dtype))
    return tli_fail_null(TL_EDTYPE, "%s: expected a floating tensor or dtype, got %s", op,
                         tl_dtype_name(dtype));
  tl_Tensor *x = tlo_to_dtype(self, dtype);
  tl_Tensor *result = x ? fn(x, dim) : NULL;
  tli_release(x);
  return result;
}

tl_Tensor *tlo_softmax(tl_Tensor *self, int64_t dim, tl_DType dtype) {
  if (dtype == TL_NODTYPE && tli_is_float((tl_DType)self->dtype))
    return tlo_softmax_along(self, dim);
  return softmax_of(tlo_softmax_along, "softmax", self, dim, dtype);
}

tl_Tensor *tlo_log_softmax(tl_Tensor *self, int64_t dim, tl_DType dtype) {
  if (dtype == TL_NODTYPE && tli_is_float((tl_DType)self->dtype))
    return tlo_log_softmax_along(self, dim);
  return softmax_of(tlo_log_softmax_along, "log_softmax", self, dim, dtype);
}

static tl_Tensor *softmax_forward(bool log, const char *op, tl_Tensor *self, int64_t dim) {
  int d = tli_dim(op, dim, self->ndim);
  if (d < 0) return NULL;
  tl_Tensor *in = tli_contiguous_as(self, (tl_DType)self->dtype);
  tl_Tensor *out = in ? tli_empty((tl_DType)in->dtype, tli_device(in), in->ndim, in->sizes) : NULL;
  if (out && out->numel > 0) {
    tli_Along a = tli_along(in, d);
    if (!TLI_RUN(tli_device(in), softmax, .log = log, .out = tli_array(out), .in = tli_array(in),
                 .outer = a.outer, .n = a.n, .inner = a.inner)) {
      tli_release(out);
      out = NULL;
    }
  }
  tli_release(in);
  return out;
}

tl_Tensor *tli_op_softmax_along(tl_Tensor *self, int64_t dim) {
  return softmax_forward(false, "softmax", self, dim);
}

tl_Tensor *tli_op_log_softmax_along(tl_Tensor *self, int64_t dim) {
  return softmax_forward(true, "log_softmax", self, dim);
}

static tl_Tensor *softmax_gradient(bool log, tl_Tensor *grad_output, tl_Tensor *output,
                                   int64_t dim) {
  int d = tli_dim("softmax", dim, output->ndim);
  if (d < 0) return NULL;
  tl_DType dtype = (tl_DType)output->dtype;
  tl_Tensor *grad = tli_contiguous_as(grad_output, dtype);
  tl_Tensor *out = grad ? tli_contiguous_as(output, dtype) : NULL;
  tl_Tensor *result = out ? tli_empty(dtype, tli_device(out), out->ndim, out->sizes) : NULL;
  if (result && result->numel > 0) {
    tli_Along a = tli_along(out, d);
    if (!TLI_RUN(tli_device(out), softmax_backward, .log = log, .grad_in = tli_array(result),
                 .grad_out = tli_array(grad), .out = tli_array(out), .outer = a.outer, .n = a.n,
                 .inner = a.inner)) {
      tli_release(result);
      result = NULL;
    }
  }
  tli_release(grad);
  tli_release(out);
  return result;
}

tl_Tensor *tli_op_softmax_backward(tl_Tensor *grad_output, tl_Tensor *output, int64_t dim) {
  return softmax_gradient(false, grad_output, output, dim);
}

tl_Tensor *tli_op_log_softmax_backward(tl_Tensor *grad_output, tl_Tensor *output, int64_t dim) {
  return softmax_gradient(true, grad_output, output, dim);
}

/* ---- gumbel_softmax ---- */

/* Returns (logits + Gumbel noise) / tau. The noise is -log of exponentially distributed numbers. */
static tl_Tensor *gumbel_logits(tl_Tensor *logits, double tau, tli_Generator *generator) {
  tl_Tensor *drawn = tli_empty_like(logits, (tl_DType)logits->dtype);
  tl_Tensor *divisor = drawn ? tli_number(tli_float(tau)) : NULL;
  tl_Tensor *noise = NULL, *sum = NULL, *result = NULL;
  if (divisor && tlo_exponential_(drawn, 1, generator)) noise = tlo_log(drawn);
  if (noise) sum = tlo_sub(logits, noise, tli_int(1));
  if (sum) result = tlo_true_divide(sum, divisor);
  tl_Tensor *slots[] = {drawn, divisor, noise, sum};
  tli_release_results(slots, 4);
  return result;
}

/* Returns a tensor that is 1 at the largest element of `soft` along dim and 0 elsewhere, and that
** passes its gradient on to `soft`. With `hard` as the 0s and 1s, the result is (hard - detached
** soft) + soft, whose value is exactly `hard`. */
static tl_Tensor *harden(tl_Tensor *soft, int64_t dim) {
  tl_Tensor *t[5] = {tlo_detach(soft)};
  tl_Tensor *result = NULL;
  if (t[0]) t[1] = tlo_argmax(t[0], dim, true);
  if (t[1]) t[2] = tli_empty_like(soft, (tl_DType)soft->dtype);
  if (t[2] && tli_fill(t[2], tli_int(0))) t[3] = tli_number(tli_int(1));
  if (t[3]) t[4] = tlo_scatter_value(t[2], dim, t[1], tli_int(1));
  if (t[4]) result = tlo_straight_through(t[4], soft);
  tli_release_results(t, 5);
  return result;
}

tl_Tensor *tlo_gumbel_softmax(tl_Tensor *logits, double tau, bool hard, double eps, int64_t dim,
                              tli_Generator *generator) {
  (void)eps; /* eps has no effect, as in PyTorch */
  if (!tli_is_float((tl_DType)logits->dtype))
    return tli_fail_null(TL_EDTYPE, "gumbel_softmax: expected a floating tensor, got %s",
                         tl_dtype_name((tl_DType)logits->dtype));
  if (!(tau > 0))
    return tli_fail_null(TL_EARG, "gumbel_softmax: tau: expected a number above 0, got %g", tau);
  tl_Tensor *sharp = gumbel_logits(logits, tau, generator);
  tl_Tensor *soft = sharp ? tlo_softmax(sharp, dim, TL_NODTYPE) : NULL;
  tl_Tensor *result = soft && hard ? harden(soft, dim) : soft ? tli_retain(soft) : NULL;
  tli_release(sharp);
  tli_release(soft);
  return result;
}

tl_Tensor *tli_op_straight_through(tl_Tensor *self, tl_Tensor *soft) {
  (void)soft;
  return tli_retain(self);
}
