/* attention_f32.c - the loops of attention_loops.h in float. */
typedef float real;
#include "kernels/cpu/attention/attention_loops.h"

extern const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f32);
const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f32) = ATTENTION_LOOPS;
