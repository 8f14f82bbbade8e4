/*
** rotary_embedding.c - rotary position embedding (J. Su et al., "RoFormer: Enhanced Transformer
** with Rotary Position Embedding", 2021). Pairs of features are rotated by angles that grow with
** the position; the gradient is the inverse rotation. The kernel reads the pairs through views of
** the input, so it needs no copy for any order of heads and positions.
*/
#include "ops/chain.h"

static const char op[] = "rotary_embedding";

/* ---- checks ---- */

static bool check_dtype(const char *name, const tl_Tensor *t) {
  if (tli_is_float((tl_DType)t->dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: %s: expected a floating tensor, got %s", op, name,
                  tl_dtype_name((tl_DType)t->dtype));
}

static bool check_angles(const tl_Tensor *input, const tl_Tensor *cos, const tl_Tensor *sin) {
  int last = input->ndim - 1;
  if (!tli_same_sizes(cos, sin))
    return tli_fail(TL_ESHAPE, "%s: sin: expected the shape of cos, %s, got %s", op,
                    tli_sizes_str(cos), tli_sizes_str(sin));
  if (input->ndim == 0)
    return tli_fail(TL_ESHAPE, "%s: input: expected (..., features), got []", op);
  int64_t sizes[TL_MAX_DIMS], pairs = cos->ndim > 0 ? cos->sizes[cos->ndim - 1] : 0;
  for (int d = 0; d < last; d++) sizes[d] = input->sizes[d];
  sizes[last] = pairs;
  if (cos->ndim > 0 && pairs <= input->sizes[last] / 2 &&
      tli_expandable(cos->ndim, cos->sizes, input->ndim, sizes))
    return true;
  sizes[last] = input->sizes[last] / 2;
  return tli_fail(TL_ESHAPE,
                  "%s: cos: expected a shape that broadcasts to %s, with as many or fewer in the "
                  "last dimension, for input %s, got %s",
                  op, tli_shape_str(input->ndim, sizes), tli_sizes_str(input), tli_sizes_str(cos));
}

tl_Tensor *tlo_rotary_embedding(tl_Tensor *input, tl_Tensor *cos, tl_Tensor *sin,
                                bool interleaved) {
  TL_TRY_NULL(check_dtype("input", input) && check_dtype("cos", cos) && check_dtype("sin", sin) &&
              check_angles(input, cos, sin) &&
              tli_same_device_all(op, (tl_Tensor *[]){input, cos, sin}, 3));
  return tlo_rotate_pairs(input, cos, sin, interleaved, false);
}

/* ---- the recorded operator ---- */

/* Sets *a to a view of the first features of all pairs, and *b to a view of the second features. */
static void cut_pairs(tli_Chain *c, const tl_Tensor *t, int64_t pairs, bool interleaved,
                      tl_Tensor **a, tl_Tensor **b) {
  int last = t->ndim - 1;
  *a = TLI_STEP(c, tli_cut(t, last, 0, pairs, interleaved ? 2 : 1));
  *b = TLI_STEP(c, tli_cut(t, last, interleaved ? 1 : pairs, pairs, interleaved ? 2 : 1));
}

/* Copies the features from index `from` on, which belong to no pair. */
static void copy_rest(tli_Chain *c, const tl_Tensor *out, const tl_Tensor *in, int64_t from) {
  int last = in->ndim - 1;
  int64_t n = in->sizes[last] - from;
  if (n == 0) return;
  tl_Tensor *to = TLI_STEP(c, tli_cut(out, last, from, n, 1));
  tl_Tensor *rest = TLI_STEP(c, tli_cut(in, last, from, n, 1));
  TLI_DO(c, tli_copy(to, rest));
}

tl_Tensor *tli_op_rotate_pairs(tl_Tensor *input, tl_Tensor *cos, tl_Tensor *sin, bool interleaved,
                               bool back) {
  tli_Chain c = {0};
  int64_t pairs = cos->sizes[cos->ndim - 1];
  tl_Tensor *out = TLI_STEP(&c, tli_empty_like(input, (tl_DType)input->dtype));
  tl_Tensor *args[6] = {NULL, NULL, NULL, NULL, cos, sin};
  if (c.failed) return tli_chain_end(&c, NULL);
  cut_pairs(&c, out, pairs, interleaved, &args[0], &args[1]);
  cut_pairs(&c, input, pairs, interleaved, &args[2], &args[3]);
  TLI_DO(&c, tli_fused(back ? TLK_FUSED_rotate_back : TLK_FUSED_rotate, args, 6));
  if (!c.failed) copy_rest(&c, out, input, 2 * pairs);
  return tli_chain_end(&c, out);
}

/* ---- the gradient ---- */

/* Sets *a to the first features of all pairs and *b to the second features, converted to `dtype`.
** Derivatives are recorded. */
static void narrow_pairs(tli_Chain *c, tl_Tensor *t, int64_t pairs, bool interleaved,
                         tl_DType dtype, tl_Tensor **a, tl_Tensor **b) {
  int64_t step = interleaved ? 2 : 1, first = interleaved ? 1 : pairs;
  tl_Tensor *one = TLI_STEP(c, tlo_slice(t, -1, 0, interleaved ? 2 * pairs : pairs, step));
  tl_Tensor *two = TLI_STEP(c, tlo_slice(t, -1, first, 2 * pairs, step));
  *a = one ? chain_to(c, one, dtype) : NULL;
  *b = two ? chain_to(c, two, dtype) : NULL;
}

/* Computes the gradients of rotated pairs. The rotation is x = a cos - b sin, y = b cos + a sin.
** With gradients x' and y', the gradient of cos is therefore x' a + y' b, and the gradient of sin
** is y' a - x' b. For the inverse rotation, the gradient of sin is negated. */
bool tlo_rotate_pairs_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *cos, tl_Tensor *sin,
                               bool interleaved, bool back, bool want_input, bool want_cos,
                               bool want_sin, tl_Tensor **out) {
  tli_Chain c = {0};
  out[0] = out[1] = out[2] = NULL;
  if (want_input) out[0] = TLI_STEP(&c, tlo_rotate_pairs(grad, cos, sin, interleaved, !back));
  if (want_cos || want_sin) {
    int64_t pairs = cos->sizes[cos->ndim - 1];
    tl_Tensor *x, *y, *a, *b;
    tl_DType dtype = (tl_DType)cos->dtype;
    narrow_pairs(&c, grad, pairs, interleaved, dtype, &x, &y);
    narrow_pairs(&c, input, pairs, interleaved, dtype, &a, &b);
    tl_Tensor *yb = chain_mul(&c, y, b), *xa = chain_mul(&c, x, a);
    out[1] = chain_add(&c, xa, yb);
    tl_Tensor *xb = chain_mul(&c, x, b), *ya = chain_mul(&c, y, a);
    out[2] = back ? chain_sub(&c, xb, ya) : chain_sub(&c, ya, xb);
  }
  return tli_chain_end_all(&c, out, 3);
}
