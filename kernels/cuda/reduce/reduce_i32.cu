/* reduce_i32.cu - reductions that compute in int32_t. */
#include "kernels/cuda/reduce/reduce.cuh"

#define TYPE i32
#include "kernels/cuda/reduce/reduce_table.cuh"
