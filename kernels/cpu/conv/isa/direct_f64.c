/* direct_f64.c - the loops of direct_loops.h in double. */
typedef double real;
#include "kernels/cpu/conv/direct_loops.h"

extern const tlk_ConvLoops TLK_ISA_NAME(tlk_conv_f64);
const tlk_ConvLoops TLK_ISA_NAME(tlk_conv_f64) = CONV_LOOPS;
