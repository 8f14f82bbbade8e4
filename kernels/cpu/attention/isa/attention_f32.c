/* attention_f32.c - the loops of attention_loops.h in float. */
typedef float real;
#include "kernels/cpu/attention/attention_loops.h"
#include "kernels/cpu/attention/one_query_loops.h"
#define ONE_QUERY attend_one

extern const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f32);
const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f32) = ATTENTION_LOOPS;
