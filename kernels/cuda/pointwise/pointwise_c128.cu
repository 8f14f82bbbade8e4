/* pointwise_c128.cu - elementwise kernels that compute in complex128. */
#define TYPE c128
#define TLK_PART double
#include "kernels/cuda/pointwise/complex_table.cuh"
