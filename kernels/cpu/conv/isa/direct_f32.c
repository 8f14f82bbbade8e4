/* direct_f32.c - the loops of direct_loops.h in float. */
typedef float real;
#include "kernels/cpu/conv/direct_loops.h"

extern const tlk_ConvLoops TLK_ISA_NAME(tlk_conv_f32);
const tlk_ConvLoops TLK_ISA_NAME(tlk_conv_f32) = CONV_LOOPS;
