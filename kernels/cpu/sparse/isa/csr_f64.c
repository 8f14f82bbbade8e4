/* csr_f64.c - products with sparse matrices of double. */
typedef double real;
#include "kernels/cpu/sparse/csr_loops.h"

extern const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f64);
const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f64) = CSR_LOOPS;
