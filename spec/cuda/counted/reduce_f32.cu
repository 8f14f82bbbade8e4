/*
** reduce_f32.cu - compiles a few float reductions so that each memory access is counted
** (traffic.cc).
*/
#include "kernels/cuda/reduce/reduce.cuh"

#define COUNTED(X) X(sum) X(amax)

namespace {
#define X(name) REDUCTION_F(name, f32)
COUNTED(X)
#undef X
} // namespace

static bool run(const struct tlk_reduce *call, int kernel) {
  switch (kernel) {
#define X(name) \
  case TLK_reduction_##name: return run_reduction<name##_f32>(call);
    COUNTED(X)
#undef X
  default: return cuda_fail(TL_EDEVICE, "reduction %d is not among those that are counted", kernel);
  }
}

#define X(name, types) \
  [](const struct tlk_reduce *call) { return run(call, TLK_reduction_##name); },
const tlk_ReduceFn tlk_reduce_f32[] = {TLK_REDUCTIONS(X)};
#undef X
