/* resample_f64.c - resampling along one dimension in double. */
typedef double real;
#include "kernels/cpu/vision/resample_loops.h"

extern const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_f64);
const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_f64) = {row, line, NULL};
