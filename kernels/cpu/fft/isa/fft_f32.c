/* fft_f32.c - the loops of fft_loops.h in float. */
typedef float real;
#define REAL_BYTES 4
#include "kernels/cpu/fft/fft_loops.h"

extern const tlk_FftLoops TLK_ISA_NAME(tlk_fft_f32);
const tlk_FftLoops TLK_ISA_NAME(tlk_fft_f32) = FFT_LOOPS;
