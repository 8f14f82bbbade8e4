/* lapack_c128.c - LAPACK in complex numbers whose parts are double. */
typedef double real;
typedef _Complex double number;
#define P "z"
#define TLK_COMPLEX
#include "kernels/cpu/linalg/lapack_routines.h"

const tlk_LapackRoutines tlk_lapack_c128 = LAPACK_ROUTINES;
