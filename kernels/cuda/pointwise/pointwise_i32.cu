/* pointwise_i32.cu - elementwise kernels that compute in int32_t. */
#include "kernels/cuda/pointwise/elementwise.cuh"

#define TYPE i32
#define COMPUTE int32_t
#define STORED int32_t, any8
#include "kernels/cuda/pointwise/pointwise_table.cuh"
