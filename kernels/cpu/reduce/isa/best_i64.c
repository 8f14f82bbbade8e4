/* best_i64.c - finds the smallest and the largest element of int64_t arrays. */
#include <stdint.h>

typedef int64_t Element;
typedef int64_t Position;
#define IS_NAN(x) false
#define MEMBER i
#include "kernels/cpu/reduce/best_loops.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_best_i64)[2];
const tlk_Reducer TLK_ISA_NAME(tlk_best_i64)[2] = BEST_LOOPS;
