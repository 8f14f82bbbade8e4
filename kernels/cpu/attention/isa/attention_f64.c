/* attention_f64.c - the loops of attention_loops.h in double. */
typedef double real;
#include "kernels/cpu/attention/attention_loops.h"
#define ONE_QUERY NULL

extern const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f64);
const tlk_AttentionLoops TLK_ISA_NAME(tlk_attention_f64) = ATTENTION_LOOPS;
