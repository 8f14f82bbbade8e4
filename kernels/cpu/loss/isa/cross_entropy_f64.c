/* cross_entropy_f64.c - the loops of cross_entropy_loops.h in double. */
typedef double real;
#include "kernels/cpu/loss/cross_entropy_loops.h"

extern const tlk_ClassLoops TLK_ISA_NAME(tlk_classes_f64);
const tlk_ClassLoops TLK_ISA_NAME(tlk_classes_f64) = CROSS_ENTROPY_LOOPS;
