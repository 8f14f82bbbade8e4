/*
** reduce_i32.cu - reductions that compute in int32_t.
*/
#include "kernels/cuda/reduce/reduce.cuh"

#define NUMBER_F(name) REDUCTION_F(name, i32)
#define NUMBER_E(name) run_reduction<name##_i32>,
#define FLOATING_F(name)
#define FLOATING_E(name) NULL,

namespace {
#define X(name, types) types##_F(name)
TLK_REDUCTIONS(X)
#undef X
} // namespace

const tlk_ReduceFn tlk_reduce_i32[] = {
#define X(name, types) types##_E(name)
    TLK_REDUCTIONS(X)
#undef X
};
