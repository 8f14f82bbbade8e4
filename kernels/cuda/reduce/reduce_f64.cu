/*
** reduce_f64.cu - reductions that compute in double.
*/
#include "kernels/cuda/reduce/reduce.cuh"

#define NUMBER_F(name) REDUCTION_F(name, f64)
#define NUMBER_E(name) run_reduction<name##_f64>,
#define FLOATING_F(name) REDUCTION_F(name, f64)
#define FLOATING_E(name) run_reduction<name##_f64>,

namespace {
#define X(name, types) types##_F(name)
TLK_REDUCTIONS(X)
#undef X
} // namespace

const tlk_ReduceFn tlk_reduce_f64[] = {
#define X(name, types) types##_E(name)
    TLK_REDUCTIONS(X)
#undef X
};
