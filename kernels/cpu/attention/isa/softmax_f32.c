/* softmax_f32.c - the loops of softmax_loops.h in float. */
typedef float real;
#include "kernels/cpu/attention/softmax_loops.h"

extern const tlk_Softmax TLK_ISA_NAME(tlk_softmax_f32);
const tlk_Softmax TLK_ISA_NAME(tlk_softmax_f32) = SOFTMAX_LOOPS;
