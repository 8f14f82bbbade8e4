/* attention_f32.c - blocks of scores in float. */
typedef float real;
#include "kernels/cpu/attention/attention_loops.h"

extern const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f32);
const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f32) = ATTENTION_LOOPS;
