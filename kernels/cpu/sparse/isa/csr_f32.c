/* csr_f32.c - the loops of csr_loops.h in float. */
typedef float real;
#include "kernels/cpu/sparse/csr_loops.h"

extern const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f32);
const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f32) = CSR_LOOPS;
