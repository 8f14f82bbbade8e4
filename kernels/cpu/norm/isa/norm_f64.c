/* norm_f64.c - the loops of norm_loops.h in double. */
typedef double real;
#include "kernels/cpu/norm/norm_loops.h"

extern const tlk_Norm TLK_ISA_NAME(tlk_norm_f64);
const tlk_Norm TLK_ISA_NAME(tlk_norm_f64) = NORM_LOOPS;
