/* gates_f32.c - the loops of gates_loops.h in float. */
typedef float real;
#include "kernels/cpu/rnn/gates_loops.h"

extern const tlk_RnnLoops TLK_ISA_NAME(tlk_rnn_f32);
const tlk_RnnLoops TLK_ISA_NAME(tlk_rnn_f32) = GATES_LOOPS;
