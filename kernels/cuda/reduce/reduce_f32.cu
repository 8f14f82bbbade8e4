/* reduce_f32.cu - reductions that compute in float. */
#include "kernels/cuda/reduce/reduce.cuh"

#define TYPE f32
#define IS_FLOATING
#include "kernels/cuda/reduce/reduce_table.cuh"
