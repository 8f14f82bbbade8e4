/* fft_f64.c - the loops of fft_loops.h in double. */
typedef double real;
#define REAL_BYTES 8
#include "kernels/cpu/fft/fft_loops.h"

extern const tlk_FftLoops TLK_ISA_NAME(tlk_fft_f64);
const tlk_FftLoops TLK_ISA_NAME(tlk_fft_f64) = FFT_LOOPS;
