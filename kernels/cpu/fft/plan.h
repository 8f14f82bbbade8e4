/*
** plan.h - makes plans of Fourier transforms, and keeps recently used plans in a cache.
*/
#ifndef TLK_FFT_PLAN_H
#define TLK_FFT_PLAN_H

#include "kernels/cpu/fft/transform.h"

/* Returns the plan for n > 0 complex numbers whose parts are F32 or F64, from the cache if
** possible. Returns NULL after a failure. The caller must return the plan with
** tlk_fft_give_back. */
tlk_FftPlan *tlk_fft_plan(int64_t n, tl_DType part, bool pairs) TL_MUSTCHECK;
void tlk_fft_give_back(tlk_FftPlan *plan);

#endif
