/*
** pointwise.cu - the entry of the device's kernel table that launches elementwise kernels.
*/
#include "kernels/cuda/pointwise/pointwise.h"

bool tlk_pointwise(const struct tlk_pointwise *call) {
  const tlk_PointwiseFn *table = call->compute == TL_F32   ? tlk_pointwise_f32
                                 : call->compute == TL_F64 ? tlk_pointwise_f64
                                 : call->compute == TL_I64 ? tlk_pointwise_i64
                                                           : tlk_pointwise_i32;
  if (call->it.numel == 0) return true;
  if (table[call->kernel]) return table[call->kernel](call);
  return cuda_fail(TL_EDTYPE, "there is no elementwise kernel %d for this type", (int)call->kernel);
}
