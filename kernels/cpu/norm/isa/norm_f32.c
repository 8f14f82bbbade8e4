/* norm_f32.c - the loops of norm_loops.h in float. */
typedef float real;
#include "kernels/cpu/norm/norm_loops.h"

extern const tlk_Norm TLK_ISA_NAME(tlk_norm_f32);
const tlk_Norm TLK_ISA_NAME(tlk_norm_f32) = NORM_LOOPS;
