/* best_f64.c - finds the smallest and the largest element of double arrays. */
#include <stdint.h>

typedef double Element;
typedef int64_t Position;
#define IS_NAN(x) ((x) != (x))
#define MEMBER f
#include "kernels/cpu/reduce/best_loops.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_best_f64)[2];
const tlk_Reducer TLK_ISA_NAME(tlk_best_f64)[2] = BEST_LOOPS;
