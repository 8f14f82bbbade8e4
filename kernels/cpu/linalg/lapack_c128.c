/* lapack_c128.c - the LAPACK calls of lapack_routines.h for complex numbers of two doubles. */
typedef double real;
typedef _Complex double number;
#define P "z"
#define TLK_COMPLEX
#include "kernels/cpu/linalg/lapack_routines.h"

const tlk_LapackRoutines tlk_lapack_c128 = LAPACK_ROUTINES;
