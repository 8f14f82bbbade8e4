/*
** swiglu.c - (input + bias) * silu(gate + gate_bias), for two tensors or for the two halves of one
** tensor. If only one bias is given, the other one is the number 0. The gradient of a bias is the
** gradient of the tensor to which the bias is added; the engine sums it over broadcast dimensions.
**
** One pass computes the gradients of both factors. While a graph of the gradient is recorded,
** differentiable operators compute the same formula.
*/
#include "ops/chain.h"

static const char op[] = "swiglu";

/* ---- kernel calls ---- */

/* The operands of the gate: the factors a and b, and their biases, which may be NULL. */
typedef struct Factors {
  tl_Tensor *a, *b, *bias_a, *bias_b;
} Factors;

/* Runs the kernel. The operands are the n outputs, followed by grad if it is not NULL, and the
** factors. */
static bool run(tli_Chain *c, tlk_Fused plain, tlk_Fused biased, tl_Tensor *const *outputs, int n,
                tl_Tensor *grad, const Factors *f) {
  bool with_bias = f->bias_a || f->bias_b;
  tl_Tensor *zero = NULL;
  if (with_bias)
    zero = TLI_STEP(c, tli_scalar_tensor(tli_float(0), (tl_DType)outputs[0]->dtype, TLI_CPU));
  if (c->failed) return false;
  tl_Tensor *args[TLI_ITER_MAX];
  int count = 0;
  for (int i = 0; i < n; i++) args[count++] = outputs[i];
  if (grad) args[count++] = grad;
  args[count++] = f->a;
  args[count++] = f->b;
  if (with_bias) {
    args[count++] = f->bias_a ? f->bias_a : zero;
    args[count++] = f->bias_b ? f->bias_b : zero;
  }
  return TLI_DO(c, tli_fused(with_bias ? biased : plain, args, count)), !c->failed;
}

static bool run_forward(tli_Chain *c, tl_Tensor *out, const Factors *f) {
  return run(c, TLK_FUSED_swiglu, TLK_FUSED_swiglu_bias, &out, 1, NULL, f);
}

static bool run_backward(tli_Chain *c, tl_Tensor *const *out, tl_Tensor *grad, const Factors *f) {
  return run(c, TLK_FUSED_swiglu_backward, TLK_FUSED_swiglu_bias_backward, out, 2, grad, f);
}

/* Computes the gradients of both factors by differentiable operators. */
static void recorded(tli_Chain *c, tl_Tensor *grad, const Factors *f, tl_Tensor **out) {
  tl_Tensor *a = f->bias_a ? chain_add(c, f->a, f->bias_a) : f->a;
  tl_Tensor *b = f->bias_b ? chain_add(c, f->b, f->bias_b) : f->b;
  tl_Tensor *active = TLI_STEP(c, tlo_silu(b));
  tl_Tensor *product = chain_mul(c, grad, a);
  out[0] = chain_mul(c, grad, active);
  out[1] = TLI_STEP(c, tlo_silu_backward(product, b));
}

/* ---- two tensors ---- */

tl_Tensor *tli_op_swiglu_pair(tl_Tensor *input, tl_Tensor *gate, tl_Tensor *bias,
                              tl_Tensor *gate_bias) {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  tl_Tensor *both[] = {input, gate};
  TL_TRY_NULL(tli_broadcast_shape(op, both, 2, &ndim, sizes));
  tli_Chain c = {0};
  Factors f = {input, gate, bias, gate_bias};
  bool same = tli_same_sizes(input, gate);
  tl_Tensor *out =
      TLI_STEP(&c, same ? tli_empty_like(input, (tl_DType)input->dtype)
                        : tli_empty((tl_DType)input->dtype, tli_device(input), ndim, sizes));
  run_forward(&c, out, &f);
  return tli_chain_end(&c, out);
}

bool tlo_swiglu_pair_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *gate, tl_Tensor *bias,
                              tl_Tensor *gate_bias, tl_Tensor **out) {
  tli_Chain c = {0};
  Factors f = {input, gate, bias, gate_bias};
  tl_Tensor *made[2] = {NULL, NULL};
  if (tli_recording((tl_Tensor *[]){grad, input, gate, bias, gate_bias}, 5)) {
    recorded(&c, grad, &f, made);
  } else {
    for (int i = 0; i < 2; i++) made[i] = TLI_STEP(&c, tli_empty_like(grad, (tl_DType)grad->dtype));
    run_backward(&c, made, grad, &f);
  }
  out[0] = made[0];
  out[1] = made[1];
  out[2] = bias ? made[0] : NULL;
  out[3] = gate_bias ? made[1] : NULL;
  return tli_chain_end_all(&c, out, 4);
}

/* ---- the halves of one tensor ---- */

/* Sets *a and *b to the two halves of t along the dimension that is aligned with dimension `dim` of
** `like`, a tensor to which t broadcasts. The halves are views and are not recorded. If t is NULL,
** both are NULL. */
static void halve(tli_Chain *c, tl_Tensor *t, const tl_Tensor *like, int dim, tl_Tensor **a,
                  tl_Tensor **b) {
  int from = t ? dim - (like->ndim - t->ndim) : -1;
  *a = *b = t;
  /* t is broadcast along this dimension, so both halves are t itself */
  if (from < 0 || t->sizes[from] == 1) return;
  int64_t half = like->sizes[dim] / 2;
  *a = TLI_STEP(c, tli_cut(t, from, 0, half, 1));
  *b = TLI_STEP(c, tli_cut(t, from, half, half, 1));
}

static Factors halves(tli_Chain *c, tl_Tensor *input, tl_Tensor *bias, int64_t dim) {
  Factors f;
  int64_t half = input->sizes[dim] / 2;
  f.a = TLI_STEP(c, tli_cut(input, (int)dim, 0, half, 1));
  f.b = TLI_STEP(c, tli_cut(input, (int)dim, half, half, 1));
  halve(c, bias, input, (int)dim, &f.bias_a, &f.bias_b);
  return f;
}

tl_Tensor *tli_op_swiglu_halves(tl_Tensor *input, tl_Tensor *bias, int64_t dim) {
  tli_Chain c = {0};
  Factors f = halves(&c, input, bias, dim);
  int64_t sizes[TL_MAX_DIMS];
  for (int d = 0; d < input->ndim; d++) sizes[d] = d == dim ? input->sizes[d] / 2 : input->sizes[d];
  tl_Tensor *out =
      TLI_STEP(&c, tli_empty((tl_DType)input->dtype, tli_device(input), input->ndim, sizes));
  run_forward(&c, out, &f);
  return tli_chain_end(&c, out);
}

static tl_Tensor *recorded_halves(tli_Chain *c, tl_Tensor *grad, tl_Tensor *input, tl_Tensor *bias,
                                  int64_t dim) {
  tl_Tensor *all = bias ? chain_add(c, input, bias) : input;
  int64_t half = input->sizes[dim] / 2;
  Factors f = {NULL, NULL, NULL, NULL};
  f.a = TLI_STEP(c, tlo_narrow(all, dim, 0, half));
  f.b = TLI_STEP(c, tlo_narrow(all, dim, half, half));
  tl_Tensor *parts[2];
  recorded(c, grad, &f, parts);
  return chain_cat(c, parts[0], parts[1], dim);
}

bool tlo_swiglu_halves_backward(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *bias, int64_t dim,
                                tl_Tensor **out) {
  tli_Chain c = {0};
  tl_Tensor *made;
  if (tli_recording((tl_Tensor *[]){grad, input, bias}, 3)) {
    made = recorded_halves(&c, grad, input, bias, dim);
  } else {
    made = TLI_STEP(&c, tli_empty_like(input, (tl_DType)input->dtype));
    Factors to = {NULL, NULL, NULL, NULL}, f = {NULL, NULL, NULL, NULL};
    if (!c.failed) to = halves(&c, made, NULL, dim);
    if (!c.failed) f = halves(&c, input, bias, dim);
    run_backward(&c, (tl_Tensor *[]){to.a, to.b}, grad, &f);
  }
  out[0] = made;
  out[1] = bias ? made : NULL;
  return tli_chain_end_all(&c, out, 2);
}

/* ---- the public operator ---- */

static bool check(tl_Tensor *const *t, const char *const *names, int n) {
  for (int i = 0; i < n; i++) {
    if (t[i] == NULL || tli_is_float((tl_DType)t[i]->dtype)) continue;
    return tli_fail(TL_EDTYPE, "%s: %s: expected a floating tensor, got %s", op, names[i],
                    tl_dtype_name((tl_DType)t[i]->dtype));
  }
  return true;
}

static bool check_bias(const char *name, const tl_Tensor *bias, int ndim, const int64_t *sizes) {
  if (bias == NULL || tli_expandable(bias->ndim, bias->sizes, ndim, sizes)) return true;
  return tli_fail(TL_ESHAPE, "%s: %s: expected a shape that broadcasts to %s, got %s", op, name,
                  tli_shape_str(ndim, sizes), tli_sizes_str(bias));
}

/* Converts t's 4 entries to their common dtype. Entries may be NULL. */
static void promote(tli_Chain *c, tl_Tensor **t) {
  tl_Tensor *given[4];
  int n = 0;
  for (int i = 0; i < 4; i++)
    if (t[i]) given[n++] = t[i];
  tl_DType dtype = tli_result_dtype(given, n);
  for (int i = 0; i < 4; i++)
    if (t[i]) t[i] = chain_to(c, t[i], dtype);
}

static tl_Tensor *of_halves(tl_Tensor *input, tl_Tensor *bias, tl_Tensor *gate_bias, int64_t dim) {
  if (gate_bias)
    return tli_fail_null(TL_EARG,
                         "%s: gate_bias: expected nil where there is no gate: bias has "
                         "the numbers of both halves",
                         op);
  int d = tli_dim(op, dim, input->ndim);
  if (d < 0) return NULL;
  if (input->ndim == 0 || input->sizes[d] % 2 != 0)
    return tli_fail_null(TL_ESHAPE,
                         "%s: input: expected an even size in dimension " TLI_POS ", got %s", op,
                         (int64_t)d, tli_sizes_str(input));
  TL_TRY_NULL(check_bias("bias", bias, input->ndim, input->sizes));
  tli_Chain c = {0};
  tl_Tensor *t[4] = {input, bias};
  promote(&c, t);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_swiglu_halves(t[0], t[1], d)));
}

static tl_Tensor *of_pair(tl_Tensor *input, tl_Tensor *gate, tl_Tensor *bias,
                          tl_Tensor *gate_bias) {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_broadcast_shape(op, (tl_Tensor *[]){input, gate}, 2, &ndim, sizes));
  TL_TRY_NULL(check_bias("bias", bias, ndim, sizes) &&
              check_bias("gate_bias", gate_bias, ndim, sizes));
  tli_Chain c = {0};
  tl_Tensor *t[4] = {input, gate, bias, gate_bias};
  promote(&c, t);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_swiglu_pair(t[0], t[1], t[2], t[3])));
}

tl_Tensor *tlo_swiglu(tl_Tensor *input, tl_Tensor *gate, tl_Tensor *bias, tl_Tensor *gate_bias,
                      int64_t dim) {
  tl_Tensor *t[] = {input, gate, bias, gate_bias}, *given[4];
  static const char *const names[] = {"input", "gate", "bias", "gate_bias"};
  int n = 0;
  TL_TRY_NULL(check(t, names, 4));
  for (int i = 0; i < 4; i++)
    if (t[i]) given[n++] = t[i];
  TL_TRY_NULL(tli_same_device_all(op, given, n));
  return gate ? of_pair(input, gate, bias, gate_bias) : of_halves(input, bias, gate_bias, dim);
}
