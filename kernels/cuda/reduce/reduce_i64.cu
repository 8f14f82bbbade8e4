/* reduce_i64.cu - reductions that compute in int64_t. */
#include "kernels/cuda/reduce/reduce.cuh"

#define TYPE i64
#include "kernels/cuda/reduce/reduce_table.cuh"
