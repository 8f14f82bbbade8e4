/* pointwise_c64.c - elementwise loops that compute in complex64. */
#define TLK_PART float
#define TLK_OF(name) name##f
#define TLK_TYPE c64
#include "kernels/cpu/pointwise/complex_loops.h"
