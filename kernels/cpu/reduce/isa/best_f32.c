/* best_f32.c - finds the smallest and the largest element of float arrays. */
#include <stdint.h>

typedef float Element;
typedef int32_t Position;
#define IS_NAN(x) ((x) != (x))
#define MEMBER f
#include "kernels/cpu/reduce/best_loops.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_best_f32)[2];
const tlk_Reducer TLK_ISA_NAME(tlk_best_f32)[2] = BEST_LOOPS;
