/* pointwise_i64.cu - elementwise kernels that compute in int64_t. */
#include "kernels/cuda/pointwise/elementwise.cuh"

#define TYPE i64
#define COMPUTE int64_t
#define STORED int64_t
#include "kernels/cuda/pointwise/pointwise_table.cuh"
