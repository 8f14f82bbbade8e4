/* pointwise_c128.c - elementwise loops that compute in complex128. */
#define TLK_PART double
#define TLK_OF(name) name
#define TLK_TYPE c128
#include "kernels/cpu/pointwise/complex_loops.h"
