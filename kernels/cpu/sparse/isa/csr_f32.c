/* csr_f32.c - products with sparse matrices of float. */
typedef float real;
#include "kernels/cpu/sparse/csr_loops.h"

extern const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f32);
const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f32) = CSR_LOOPS;
