/* moments_f64.c - mean and squared deviations in double. */
typedef double real;
#include "kernels/cpu/reduce/moments_loops.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_moments_f64);
const tlk_Reducer TLK_ISA_NAME(tlk_moments_f64) = MOMENTS_LOOPS;
