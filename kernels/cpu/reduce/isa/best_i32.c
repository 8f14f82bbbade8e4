/* best_i32.c - finds the smallest and the largest element of int32_t arrays. */
#include <stdint.h>

typedef int32_t Element;
typedef int32_t Position;
#define IS_NAN(x) false
#define MEMBER i
#include "kernels/cpu/reduce/best_loops.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_best_i32)[2];
const tlk_Reducer TLK_ISA_NAME(tlk_best_i32)[2] = BEST_LOOPS;
