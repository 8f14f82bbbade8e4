/*
** pointwise_f32.cu - compiles a few elementwise float kernels so that each memory access is counted
** (traffic.cc). Compiling all kernels this way would take minutes.
*/
#include "kernels/cuda/pointwise/elementwise.cuh"

#define COUNTED(X) X(add, 2) X(mul, 2) X(relu, 1) X(gelu, 1) X(where, 3) X(addcmul, 3)

namespace {
#define X(name, n) POINTWISE_FUNCTOR(name, n, f32, float, SAME)
COUNTED(X)
#undef X
} // namespace

static bool run(const struct tlk_pointwise *call, int kernel) {
  switch (kernel) {
#define X(name, n) \
  case TLK_##name: return Run<name##_f32, float, bf16, f16>::go(call);
    COUNTED(X)
#undef X
  default: return cuda_fail(TL_EDEVICE, "kernel %d is not among those that are counted", kernel);
  }
}

#define X(name, inputs, types, result) \
  [](const struct tlk_pointwise *call) { return run(call, TLK_##name); },
const tlk_PointwiseFn tlk_pointwise_f32[] = {TLK_POINTWISES(X)};
#undef X
