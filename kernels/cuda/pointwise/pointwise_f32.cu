/* pointwise_f32.cu - elementwise kernels that compute in float. */
#include "kernels/cuda/pointwise/elementwise.cuh"

#define TYPE f32
#define COMPUTE float
#define STORED float, bf16, f16
#define IS_FLOATING
#include "kernels/cuda/pointwise/pointwise_table.cuh"
