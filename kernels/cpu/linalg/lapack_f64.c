/* lapack_f64.c - the LAPACK calls of lapack_routines.h in double. */
typedef double real, number;
#define P "d"
#include "kernels/cpu/linalg/lapack_routines.h"

const tlk_LapackRoutines tlk_lapack_f64 = LAPACK_ROUTINES;
