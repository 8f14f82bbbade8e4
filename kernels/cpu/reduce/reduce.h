/*
** reduce.h - macros for the loops of reductions, whose template is reduce_loops.h.
*/
#ifndef TLK_REDUCE_H
#define TLK_REDUCE_H

#include "kernels/cpu/loops.h"

/* The number of accumulators for a row: two vectors of the widest instruction set. */
#define TLK_ROW_LANES(acc) ((int)(128 / sizeof(acc)))
/* Unrolls the loop that halves up to 32 lanes down to 1, so that the lanes stay in registers. */
#define TLK_UNROLL_HALVES _Pragma("GCC unroll 5")
/* Forces the compiler to store the array in memory. Otherwise compilers would extract single lanes
** from a wide register, which is slower than loading short vectors from memory. */
#define TLK_FROM_MEMORY(array) __asm__("" : "+m"(array));

/* Expands to the entry of one reduction in the table of type s, or to nothing if the reduction is
** not defined for that type. */
#define TLK_REDUCER_ENTRY(s, name, types)                                                 \
  TLK_IN_##s##_##types([TLK_reduction_##name] = {sizeof(tlm_##name##_##s##_acc), false,   \
                                                 start_##name##_##s, row_##name##_##s,    \
                                                 columns_##name##_##s, join_##name##_##s, \
                                                 finish_##name##_##s}, )

#endif
