/* reduce_f64.cu - reductions that compute in double. */
#include "kernels/cuda/reduce/reduce.cuh"

#define TYPE f64
#define IS_FLOATING
#include "kernels/cuda/reduce/reduce_table.cuh"
