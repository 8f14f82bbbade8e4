/* lapack_f32.c - the LAPACK calls of lapack_routines.h in float. */
typedef float real, number;
#define P "s"
#include "kernels/cpu/linalg/lapack_routines.h"

const tlk_LapackRoutines tlk_lapack_f32 = LAPACK_ROUTINES;
