/*
** pointwise_f64.cu - elementwise kernels that compute in double.
*/
#include "kernels/cuda/pointwise/elementwise.cuh"

#define NUMBER_F(name, n, result) POINTWISE_FUNCTOR(name, n, f64, double, result)
#define NUMBER_E(name) Run<name##_f64, double>::go,
#define FLOATING_F(name, n, result) POINTWISE_FUNCTOR(name, n, f64, double, result)
#define INTEGER_F(name, n, result)
#define FLOATING_E(name) Run<name##_f64, double>::go,
#define INTEGER_E(name) NULL,
#define RARE_E(name) FLOATING_E(name)
namespace {
#define X(name, inputs, types, result) types##_F(name, inputs, result)
TLK_POINTWISES(X)
#undef X
} // namespace

const tlk_PointwiseFn tlk_pointwise_f64[] = {
#define X(name, inputs, types, result) types##_E(name)
    TLK_POINTWISES(X)
#undef X
};
