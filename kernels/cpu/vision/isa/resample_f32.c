/* resample_f32.c - resampling along one dimension in float. */
typedef float real;
#include "kernels/cpu/vision/resample_loops.h"

extern const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_f32);
const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_f32) = RESAMPLE_LOOPS;
