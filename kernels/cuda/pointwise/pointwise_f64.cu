/* pointwise_f64.cu - elementwise kernels that compute in double. */
#include "kernels/cuda/pointwise/elementwise.cuh"

#define TYPE f64
#define COMPUTE double
#define STORED double
#define IS_FLOATING
#include "kernels/cuda/pointwise/pointwise_table.cuh"
