/*
** packed_linear.c - products with weights in the quantized blocks of GGUF files.
*/
#include <string.h>

#include "core/kernel/blocks.h"
#include "ops/chain.h"

/* Checks a packed weight. Sets the layout and the number of elements of a row. */
static bool read_layout(const char *op, const tl_Tensor *weight, const char *kind, int *layout,
                        int64_t *features) {
  if (weight->dtype != TL_U8 || weight->ndim != 2)
    return tli_fail(TL_EARG, "%s: weight: expected uint8 of two dimensions, got %s %s", op,
                    tl_dtype_name((tl_DType)weight->dtype), tli_sizes_str(weight));
  int known = (int)tli_block_kind(kind), bytes = 2, elements = 1;
  if (known != TLI_BLOCK_COUNT) {
    bytes = tli_block_layouts[known].bytes;
    elements = tli_block_layouts[known].elements;
  } else if (strcmp(kind, "F16") == 0) {
    known = TLK_PACKED_F16;
  } else if (strcmp(kind, "BF16") == 0) {
    known = TLK_PACKED_BF16;
  } else {
    return tli_fail(TL_EARG, "%s: kind: expected a layout such as \"Q8_0\" or \"F16\", got \"%s\"",
                    op, kind);
  }
  if (weight->sizes[1] % bytes != 0)
    return tli_fail(TL_ESHAPE, "%s: weight: expected rows of blocks of %d bytes, got %s", op, bytes,
                    tli_sizes_str(weight));
  *layout = known;
  *features = weight->sizes[1] / bytes * elements;
  return true;
}

static bool run(tl_Tensor *out, const tl_Tensor *input, const tl_Tensor *weight, int layout,
                int64_t rows, int64_t features) {
  return TLI_RUN(tli_device(out), packed_linear, .out = tli_array(out),
                 .in = input ? tli_data(input) : NULL, .weight = tli_data(weight), .kind = layout,
                 .rows = rows, .outputs = weight->sizes[0], .features = features);
}

/* Returns the weight in contiguous form: the tensor itself or a copy. Weights of 2-byte elements
** begin at an even address, as the kernel requires. */
static tl_Tensor *rows_of(tl_Tensor *weight, int layout) {
  tl_Tensor *w = tli_contiguous_as(weight, TL_U8);
  bool is_odd = w && layout >= TLK_PACKED_F16 && ((uintptr_t)tli_data(w) & 1);
  if (!is_odd) return w;
  tl_Tensor *copy = tlo_clone(w);
  tli_release(w);
  return copy;
}

tl_Tensor *tli_op_packed_linear(tl_Tensor *input, tl_Tensor *weight, const char *kind) {
  static const char op[] = "packed_linear";
  int layout;
  int64_t features, sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_same_device_all(op, (tl_Tensor *[]){input, weight}, 2));
  TL_TRY_NULL(read_layout(op, weight, kind, &layout, &features));
  if (!tli_is_float((tl_DType)input->dtype))
    return tli_fail_null(TL_EDTYPE, "%s: input: expected a floating tensor, got %s", op,
                         tl_dtype_name((tl_DType)input->dtype));
  if (input->ndim == 0 || input->sizes[input->ndim - 1] != features)
    return tli_fail_null(
        TL_ESHAPE, "%s: input: expected (..., %lld) for rows of %lld bytes of %s, got %s", op,
        (long long)features, (long long)weight->sizes[1], kind, tli_sizes_str(input));
  memcpy(sizes, input->sizes, sizeof sizes);
  sizes[input->ndim - 1] = weight->sizes[0];
  tl_Tensor *x = tli_contiguous_as(input, TL_F32), *w = rows_of(weight, layout);
  tl_Tensor *out = x && w ? tli_empty(TL_F32, tli_device(input), input->ndim, sizes) : NULL;
  bool ok = out != NULL;
  if (ok && out->numel > 0)
    ok = features == 0 ? tli_fill(out, tli_int(0))
                       : run(out, x, w, layout, out->numel / weight->sizes[0], features);
  tli_release(x);
  tli_release(w);
  tl_Tensor *result = ok ? tli_contiguous_as(out, (tl_DType)input->dtype) : NULL;
  tli_release(out);
  return result;
}

tl_Tensor *tli_op_packed_values(tl_Tensor *weight, const char *kind) {
  int layout;
  int64_t features;
  TL_TRY_NULL(read_layout("packed_values", weight, kind, &layout, &features));
  tl_Tensor *w = rows_of(weight, layout);
  tl_Tensor *out =
      w ? tli_empty(TL_F32, tli_device(weight), 2, (int64_t[]){weight->sizes[0], features}) : NULL;
  bool ok = out != NULL && (out->numel == 0 || run(out, NULL, w, layout, 0, features));
  tli_release(w);
  if (!ok) tli_release_results(&out, 1);
  return out;
}

tl_Tensor *tlo_packed_linear_backward(tl_Tensor *grad, tl_Tensor *weight, const char *kind) {
  tli_Chain c = {0};
  tl_Tensor *values = TLI_STEP(&c, tlo_packed_values(weight, kind));
  tl_Tensor *same = values ? chain_to(&c, values, (tl_DType)grad->dtype) : NULL;
  return tli_chain_end(&c, same ? TLI_STEP(&c, tlo_matmul(grad, same)) : NULL);
}
