/*
** line.h - transforms a single line, which is a sequence of n numbers.
*/
#ifndef TLK_FFT_LINE_H
#define TLK_FFT_LINE_H

#include "kernels/cpu/fft/transform.h"

/* Transforms one line in memory. Threads share the work. `out` may be the same array as `in`. */
bool tlk_fft_line(const tlk_FftPlan *plan, const void *in, void *out, bool inverse, double scale)
    TL_MUSTCHECK;

#endif
