/* gates_f64.c - the loops of gates_loops.h in double. */
typedef double real;
#include "kernels/cpu/rnn/gates_loops.h"

extern const tlk_RnnLoops TLK_ISA_NAME(tlk_rnn_f64);
const tlk_RnnLoops TLK_ISA_NAME(tlk_rnn_f64) = GATES_LOOPS;
