/* lapack_c64.c - the LAPACK calls of lapack_routines.h for complex numbers of two floats. */
typedef float real;
typedef _Complex float number;
#define P "c"
#define TLK_COMPLEX
#include "kernels/cpu/linalg/lapack_routines.h"

const tlk_LapackRoutines tlk_lapack_c64 = LAPACK_ROUTINES;
