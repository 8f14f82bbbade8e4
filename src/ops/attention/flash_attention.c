/*
** flash_attention.c - attention to a part of the keys. The operators also return norms, which are
** needed to combine the results for several parts. The backward operators compute the gradients for
** one part. Autograd does not record these operators.
*/
#include <math.h>

#include "ops/attention/attention.h"

static const char forward[] = "_scaled_dot_product_flash_attention";
static const char backward[] = "_scaled_dot_product_flash_attention_backward";

static bool check_operands(const char *op, tl_Tensor *query, tl_Tensor *key, tl_Tensor *value) {
  tl_Tensor *all[3] = {query, key, value};
  for (int k = 0; k < 3; k++) {
    if (all[k]->ndim != 4)
      return tli_fail(TL_ESHAPE, "%s: expected (batch, heads, positions, features), got shape %s",
                      op, tli_sizes_str(all[k]));
    if (all[k]->dtype != query->dtype || !tli_is_float((tl_DType)query->dtype))
      return tli_fail(TL_EDTYPE, "%s: expected tensors of one floating dtype, got %s, %s and %s",
                      op, tl_dtype_name((tl_DType)query->dtype),
                      tl_dtype_name((tl_DType)key->dtype), tl_dtype_name((tl_DType)value->dtype));
  }
  const int64_t *q = query->sizes, *k = key->sizes, *v = value->sizes;
  bool heads = k[1] == v[1] && (q[1] == k[1] || (k[1] > 0 && q[1] % k[1] == 0));
  if (!heads || q[0] != k[0] || k[0] != v[0] || q[3] != k[3] || k[2] != v[2])
    return tli_fail(TL_ESHAPE, "%s: query %s, key %s and value %s do not fit", op,
                    tli_sizes_str(query), tli_sizes_str(key), tli_sizes_str(value));
  return tli_same_device_all(op, all, 3);
}

static double scale_of(double scale, const tl_Tensor *query) {
  return isnan(scale) ? 1 / sqrt((double)query->sizes[3]) : scale;
}

bool tlo__scaled_dot_product_flash_attention(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                                             bool is_causal, double scale, tl_Tensor **out) {
  TL_TRY(check_operands(forward, query, key, value));
  bool before = tli_set_grad_mode(false);
  bool ok =
      tlo_attention(query, key, value, NULL, 0, is_causal, scale_of(scale, query), 0, 0, NULL, out);
  tli_set_grad_mode(before);
  return ok;
}

/* Checks a tensor that a backward operator gets from the forward pass: its sizes must be the first
** `ndim` entries of `sizes`. */
static bool check_given(const char *name, tl_Tensor *t, tl_Tensor *query, tl_DType dtype, int ndim,
                        const int64_t *sizes) {
  bool same = t->ndim == ndim;
  for (int d = 0; same && d < ndim; d++) same = t->sizes[d] == sizes[d];
  if (!same)
    return tli_fail(TL_ESHAPE, "%s: %s: expected shape %s, got %s", backward, name,
                    tli_shape_str(ndim, sizes), tli_sizes_str(t));
  if ((tl_DType)t->dtype != dtype)
    return tli_fail(TL_EDTYPE, "%s: %s: expected %s, got %s", backward, name, tl_dtype_name(dtype),
                    tl_dtype_name((tl_DType)t->dtype));
  return tli_same_device_all(backward, (tl_Tensor *[]){query, t}, 2);
}

bool tlo__scaled_dot_product_flash_attention_backward(tl_Tensor *grad_out, tl_Tensor *query,
                                                      tl_Tensor *key, tl_Tensor *value,
                                                      tl_Tensor *result, tl_Tensor *logsumexp,
                                                      bool is_causal, double scale,
                                                      tl_Tensor **out) {
  TL_TRY(check_operands(backward, query, key, value));
  const int64_t *q = query->sizes, sizes[4] = {q[0], q[1], q[2], value->sizes[3]};
  tl_DType dtype = (tl_DType)query->dtype, stat = dtype == TL_F64 ? TL_F64 : TL_F32;
  TL_TRY(check_given("grad_out", grad_out, query, dtype, 4, sizes));
  TL_TRY(check_given("result", result, query, dtype, 4, sizes));
  TL_TRY(check_given("logsumexp", logsumexp, query, stat, 3, sizes));
  tl_Tensor *norm = tli_contiguous_as(logsumexp, stat), *all[4];
  bool before = tli_set_grad_mode(false);
  bool ok = norm && tlo_attention_backward(grad_out, query, key, value, NULL, result, norm, 0,
                                           is_causal, scale_of(scale, query), 0, 0, NULL, true,
                                           true, true, false, all);
  tli_set_grad_mode(before);
  tli_release(norm);
  for (int k = 0; k < 3 && ok; k++) out[k] = all[k];
  return ok;
}
