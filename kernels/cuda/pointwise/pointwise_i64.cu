/*
** pointwise_i64.cu - elementwise kernels that compute in int64_t.
*/
#include "kernels/cuda/pointwise/elementwise.cuh"

#define NUMBER_F(name, n, result) POINTWISE_FUNCTOR(name, n, i64, int64_t, result)
#define NUMBER_E(name) Run<name##_i64, int64_t>::go,
#define FLOATING_F(name, n, result)
#define INTEGER_F(name, n, result) POINTWISE_FUNCTOR(name, n, i64, int64_t, result)
#define FLOATING_E(name) NULL,
#define RARE_E(name) NULL,
#define INTEGER_E(name) Run<name##_i64, int64_t>::go,
namespace {
#define X(name, inputs, types, result) types##_F(name, inputs, result)
TLK_POINTWISES(X)
#undef X
} // namespace

const tlk_PointwiseFn tlk_pointwise_i64[] = {
#define X(name, inputs, types, result) types##_E(name)
    TLK_POINTWISES(X)
#undef X
};
