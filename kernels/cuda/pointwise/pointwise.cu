/*
** pointwise.cu - the entry of the device's kernel table that launches elementwise kernels.
*/
#include "kernels/cuda/pointwise/pointwise.h"

static const tlk_PointwiseFn *table_of(tl_DType compute) {
  switch (compute) {
  case TL_F32: return tlk_pointwise_f32;
  case TL_F64: return tlk_pointwise_f64;
  case TL_I32: return tlk_pointwise_i32;
  case TL_I64: return tlk_pointwise_i64;
  case TL_C64: return tlk_pointwise_c64;
  case TL_C128: return tlk_pointwise_c128;
  default: return NULL;
  }
}

bool tlk_pointwise(const struct tlk_pointwise *call) {
  const tlk_PointwiseFn *table = table_of(call->compute);
  bool complex = call->compute == TL_C64 || call->compute == TL_C128;
  if (call->it.numel == 0) return true;
  if (!cuda_takes_loop("pointwise", &call->it, complex)) return false;
  if (table && table[call->kernel]) return table[call->kernel](call);
  return cuda_fail(TL_EDTYPE, "there is no elementwise kernel %d for this type", (int)call->kernel);
}
