/* moments_f64.c - mean and sum of squared deviations in double. */
typedef double real;
#include "kernels/cpu/reduce/moments_loops.h"

extern const tlk_Reducer TLK_ISA_NAME(tlk_moments_f64);
const tlk_Reducer TLK_ISA_NAME(tlk_moments_f64) = MOMENTS_LOOPS;

void TLK_ISA_NAME(tlk_sum_pairs_f64)(int64_t n, const void *x, double *sums);
void TLK_ISA_NAME(tlk_sum_pairs_f64)(int64_t n, const void *x, double *sums) {
  sum_pairs(n, x, sums);
}
