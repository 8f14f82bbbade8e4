/*
** scan.cu - the entry of the device's kernel table that launches scans.
*/
#include "kernels/cuda/scan/scan.h"

bool tlk_scan(const struct tlk_scan *call) {
  const tlk_ScanFn *table = call->compute == TL_F32   ? tlk_scan_f32
                            : call->compute == TL_F64 ? tlk_scan_f64
                            : call->compute == TL_I64 ? tlk_scan_i64
                                                      : tlk_scan_i32;
  if (call->outer == 0 || call->n == 0 || call->inner == 0) return true;
  if (table[call->kernel]) return table[call->kernel](call);
  return cuda_fail(TL_EDTYPE, "there is no scan %d for this type", (int)call->kernel);
}
