/*
** linear.c - linear and bilinear layers, composed of matrix products.
*/
#include <string.h>

#include "ops/matmul/matmul.h"

/* Computes a linear layer for an input (rows, in). */
static tl_Tensor *linear_rows(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  tl_Tensor *wt = tlo_t(weight);
  tl_Tensor *result = wt == NULL ? NULL
                      : bias     ? tlo_addmm(bias, input, wt, tli_int(1), tli_int(1))
                                 : tlo_mm(input, wt);
  tli_release(wt);
  return result;
}

static tl_Tensor *linear_folded(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  int last = input->ndim - 1;
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < last; d++) sizes[d] = input->sizes[d];
  sizes[last] = weight->sizes[0];
  int64_t rows = 1;
  for (int d = 0; d < last; d++) rows *= input->sizes[d];
  tl_Tensor *flat = tlo_reshape(input, (tl_Ints){2, (int64_t[]){rows, input->sizes[last]}});
  tl_Tensor *product = flat ? linear_rows(flat, weight, bias) : NULL;
  tl_Tensor *result = product ? tlo_reshape(product, (tl_Ints){last + 1, sizes}) : NULL;
  tli_release(flat);
  tli_release(product);
  return result;
}

static bool check_linear(const tl_Tensor *input, const tl_Tensor *weight, const tl_Tensor *bias) {
  if (weight->ndim != 1 && weight->ndim != 2)
    return tli_fail(TL_ESHAPE, "linear: weight: expected shape (out, in) or (in), got %s",
                    tli_sizes_str(weight));
  if (input->ndim < 1 || input->sizes[input->ndim - 1] != weight->sizes[weight->ndim - 1])
    return tli_fail(TL_ESHAPE,
                    "linear: input: expected a last dimension of %" PRId64 " for weight %s, got %s",
                    weight->sizes[weight->ndim - 1], tli_sizes_str(weight), tli_sizes_str(input));
  if (bias && weight->ndim == 2 &&
      (bias->ndim > 1 || (bias->ndim == 1 && bias->sizes[0] != weight->sizes[0])))
    return tli_fail(TL_ESHAPE, "linear: bias: expected shape [%" PRId64 "] for weight %s, got %s",
                    weight->sizes[0], tli_sizes_str(weight), tli_sizes_str(bias));
  return true;
}

bool tli_linear_fits(const tl_Tensor *input, const tl_Tensor *weight, const tl_Tensor *bias) {
  if (weight->ndim != 2 || input->ndim < 1 || weight->sizes[1] == 0) return false;
  if (!tli_is_float((tl_DType)input->dtype) || input->dtype != weight->dtype) return false;
  if (input->sizes[input->ndim - 1] != weight->sizes[1]) return false;
  if (!tli_same_device(tli_device(input), tli_device(weight))) return false;
  return bias == NULL ||
         (bias->ndim == 1 && bias->sizes[0] == weight->sizes[0] && bias->dtype == input->dtype &&
          tli_same_device(tli_device(bias), tli_device(input)));
}

static tl_Tensor *linear(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  if (bias && tli_linear_fits(input, weight, bias)) return tlo_linear_bias(input, weight, bias);
  if (weight->ndim == 2 && input->ndim == 2) return linear_rows(input, weight, bias);
  if (weight->ndim == 2) return linear_folded(input, weight, bias);
  tl_Tensor *product = tlo_matmul(input, weight);
  if (product == NULL || bias == NULL) return product;
  tl_Tensor *result = tlo_add(product, bias, tli_int(1));
  tli_release(product);
  return result;
}

/* Computes a linear layer. Vectors and inputs with more than two dimensions need several operators;
** the autograd node of the last operator gets the name that PyTorch uses. */
tl_Tensor *tlo_linear(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  TL_TRY_NULL(check_linear(input, weight, bias));
  uint64_t count = tli_node_count();
  tl_Tensor *result = linear(input, weight, bias);
  bool vector = input->ndim == 1;
  if (weight->ndim == 2 && (bias ? vector : input->ndim != 2))
    tli_entitle(result, bias || !vector ? "UnsafeView" : "Squeeze", count);
  return result;
}

static bool check_bilinear(const tl_Tensor *a, const tl_Tensor *b, const tl_Tensor *weight) {
  bool fits = a->ndim == b->ndim && a->ndim >= 1 && weight->ndim == 3;
  for (int d = 0; fits && d < a->ndim - 1; d++) fits = a->sizes[d] == b->sizes[d];
  fits = fits && a->sizes[a->ndim - 1] == weight->sizes[1] &&
         b->sizes[b->ndim - 1] == weight->sizes[2];
  if (fits) return true;
  return tli_fail(TL_ESHAPE,
                  "bilinear: expected inputs (..., in1) and (..., in2) with weight "
                  "(out, in1, in2), got %s, %s and %s",
                  tli_sizes_str(a), tli_sizes_str(b), tli_sizes_str(weight));
}

/* Computes a bilinear layer: the product (rows, in1) @ (in1, out * in2) is multiplied by input2 and
** summed over in2. */
tl_Tensor *tlo_bilinear(tl_Tensor *input1, tl_Tensor *input2, tl_Tensor *weight, tl_Tensor *bias) {
  TL_TRY_NULL(check_bilinear(input1, input2, weight));
  int64_t out = weight->sizes[0], in1 = weight->sizes[1], in2 = weight->sizes[2];
  int64_t sizes[TL_MAX_DIMS], rows = 1;
  for (int d = 0; d < input1->ndim - 1; d++) rows *= sizes[d] = input1->sizes[d];
  sizes[input1->ndim - 1] = out;
  tl_Tensor *t[8] = {NULL}, *result = NULL;
  if ((t[0] = tlo_reshape(input1, (tl_Ints){2, (int64_t[]){rows, in1}})) &&
      (t[1] = tlo_reshape(input2, (tl_Ints){3, (int64_t[]){rows, in2, 1}})) &&
      (t[2] = tlo_permute(weight, (tl_Ints){3, (int64_t[]){1, 0, 2}})) &&
      (t[3] = tlo_reshape(t[2], (tl_Ints){2, (int64_t[]){in1, out * in2}})) &&
      (t[4] = tlo_mm(t[0], t[3])) &&
      (t[5] = tlo_reshape(t[4], (tl_Ints){3, (int64_t[]){rows, out, in2}})) &&
      (t[6] = tlo_bmm(t[5], t[1])) && (t[7] = tlo_reshape(t[6], (tl_Ints){input1->ndim, sizes})))
    result = bias ? tlo_add(t[7], bias, tli_int(1)) : tli_retain(t[7]);
  tli_release_results(t, 8);
  return result;
}
