/*
** polynomials.c - derivatives of orthogonal polynomials. The kernel that computes the polynomials
** computes these derivatives as well.
*/
#include "ops/chain.h"

enum { MAX_SLOPE = 8 }; /* must equal TLM_MAX_SLOPE in kernels/bessel.h */

tl_Tensor *tlo_orthogonal_slope(tl_Tensor *input, tl_Tensor *n, int64_t family, int64_t slope) {
  if (slope >= MAX_SLOPE)
    return tli_fail_null(TL_EAUTOGRAD, "orthogonal polynomials are differentiated %d times at most",
                         MAX_SLOPE);
  return tlo_orthogonal_polynomial(input, n, family, slope + 1);
}
