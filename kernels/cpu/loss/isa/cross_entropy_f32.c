/* cross_entropy_f32.c - the loops of cross_entropy_loops.h in float. */
typedef float real;
#include "kernels/cpu/loss/cross_entropy_loops.h"

extern const tlk_ClassLoops TLK_ISA_NAME(tlk_classes_f32);
const tlk_ClassLoops TLK_ISA_NAME(tlk_classes_f32) = CROSS_ENTROPY_LOOPS;
