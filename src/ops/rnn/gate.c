/*
** gate.c - the gradients of a gate of a recurrent cell, sigmoid(gate) * value or sigmoid(gate) *
** tanh(value), computed from the two factors in one pass. Autograd does not record the operator.
*/
#include "ops/chain.h"

static const char op[] = "_gate_backward";

static bool check(tl_Tensor *const *t, int n) {
  for (int i = 0; i < n; i++)
    if (t[i]->dtype != t[0]->dtype || !tli_is_float((tl_DType)t[i]->dtype))
      return tli_fail(TL_EDTYPE, "%s: expected tensors of one floating dtype, got %s and %s", op,
                      tl_dtype_name((tl_DType)t[0]->dtype), tl_dtype_name((tl_DType)t[i]->dtype));
    else if (!tli_same_sizes(t[i], t[0]))
      return tli_fail(TL_ESHAPE, "%s: expected tensors of one shape, got %s and %s", op,
                      tli_sizes_str(t[0]), tli_sizes_str(t[i]));
  return tli_same_device_all(op, t, n);
}

bool tlo__gate_backward(tl_Tensor *grad, tl_Tensor *open, tl_Tensor *value, bool squash,
                        tl_Tensor **out) {
  tl_Tensor *all[5] = {NULL, NULL, grad, open, value};
  TL_TRY(check(all + 2, 3));
  tli_Chain c = {0};
  for (int i = 0; i < 2; i++)
    all[i] = out[i] = TLI_STEP(&c, tli_empty_like(grad, (tl_DType)grad->dtype));
  if (!c.failed)
    TLI_DO(&c, tli_fused(squash ? TLK_FUSED_gate_tanh_backward : TLK_FUSED_gate_backward, all, 5));
  return tli_chain_end_all(&c, out, 2);
}
