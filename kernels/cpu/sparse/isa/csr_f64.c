/* csr_f64.c - the loops of csr_loops.h in double. */
typedef double real;
#include "kernels/cpu/sparse/csr_loops.h"

extern const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f64);
const tlk_CsrLoops TLK_ISA_NAME(tlk_csr_f64) = CSR_LOOPS;
