/*
** reduce_f32.cu - reductions that compute in float.
*/
#include "kernels/cuda/reduce/reduce.cuh"

#define NUMBER_F(name) REDUCTION_F(name, f32)
#define NUMBER_E(name) run_reduction<name##_f32>,
#define FLOATING_F(name) REDUCTION_F(name, f32)
#define FLOATING_E(name) run_reduction<name##_f32>,

namespace {
#define X(name, types) types##_F(name)
TLK_REDUCTIONS(X)
#undef X
} // namespace

const tlk_ReduceFn tlk_reduce_f32[] = {
#define X(name, types) types##_E(name)
    TLK_REDUCTIONS(X)
#undef X
};
