/*
** line.h - transforms a single line, which is a sequence of n numbers.
*/
#ifndef TLK_FFT_LINE_H
#define TLK_FFT_LINE_H

#include "kernels/cpu/fft/lanes.h"

/* Transforms one line in memory. Threads share the work of a long line. `out` may be the same array
** as `in`. `room` has the buffers for folded lines if the plan folds lines; it may be NULL. */
bool tlk_fft_line(const tlk_FftPlan *plan, const void *in, void *out, bool inverse, double scale,
                  tlk_FftRoom *room) TL_MUSTCHECK;

#endif
