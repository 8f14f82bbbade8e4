/*
** pointwise_f32.cu - elementwise kernels that compute in float.
*/
#include "kernels/cuda/pointwise/elementwise.cuh"

#define NUMBER_F(name, n, result) POINTWISE_FUNCTOR(name, n, f32, float, result)
#define FLOATING_F(name, n, result) POINTWISE_FUNCTOR(name, n, f32, float, result)
#define INTEGER_F(name, n, result)
#define NUMBER_E(name) Run<name##_f32, float, bf16, f16>::go,
#define FLOATING_E(name) Run<name##_f32, float, bf16, f16>::go,
#define INTEGER_E(name) NULL,
#define RARE_E(name) Run<name##_f32, float>::go,

namespace {
#define X(name, inputs, types, result) types##_F(name, inputs, result)
TLK_POINTWISES(X)
#undef X
} // namespace

const tlk_PointwiseFn tlk_pointwise_f32[] = {
#define X(name, inputs, types, result) types##_E(name)
    TLK_POINTWISES(X)
#undef X
};
