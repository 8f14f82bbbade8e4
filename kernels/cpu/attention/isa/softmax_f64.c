/* softmax_f64.c - the loops of softmax_loops.h in double. */
typedef double real;
#include "kernels/cpu/attention/softmax_loops.h"

extern const tlk_Softmax TLK_ISA_NAME(tlk_softmax_f64);
const tlk_Softmax TLK_ISA_NAME(tlk_softmax_f64) = SOFTMAX_LOOPS;
