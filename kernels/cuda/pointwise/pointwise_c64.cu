/* pointwise_c64.cu - elementwise kernels that compute in complex64. */
#define TYPE c64
#define TLK_PART float
#include "kernels/cuda/pointwise/complex_table.cuh"
