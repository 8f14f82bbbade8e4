/* lapack_c64.c - LAPACK in complex numbers whose parts are float. */
typedef float real;
typedef _Complex float number;
#define P "c"
#define TLK_COMPLEX
#include "kernels/cpu/linalg/lapack_routines.h"

const tlk_LapackRoutines tlk_lapack_c64 = LAPACK_ROUTINES;
