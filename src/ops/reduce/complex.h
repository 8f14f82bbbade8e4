/*
** complex.h - sums and products of complex tensors, composed of operators on real tensors and
** elementwise operators.
*/
#ifndef TLI_REDUCE_COMPLEX_H
#define TLI_REDUCE_COMPLEX_H

#include "ops/common.h"

/* tli_complex_sum returns the sum of a complex tensor's elements, tli_complex_cumsum returns
** running sums. `result` is the dtype of the result. */
tl_Tensor *tli_complex_sum(const char *op, tl_Tensor *self, tl_Ints dim, bool keepdim,
                           tl_DType result) TL_MUSTCHECK;
tl_Tensor *tli_complex_cumsum(const char *op, tl_Tensor *self, int64_t dim, tl_DType result)
    TL_MUSTCHECK;
/* tli_complex_prod returns the product along dim, or the product of all elements if dim is
** TLI_NOINT. tli_complex_cumprod returns running products. Elements are multiplied in pairs, so the
** number of roundings is logarithmic. */
tl_Tensor *tli_complex_prod(const char *op, tl_Tensor *self, int64_t dim, bool keepdim,
                            tl_DType result) TL_MUSTCHECK;
tl_Tensor *tli_complex_cumprod(const char *op, tl_Tensor *self, int64_t dim, tl_DType result)
    TL_MUSTCHECK;

/* Returns running values of log(sum(exp(self))). The number of roundings is logarithmic. */
tl_Tensor *tli_complex_logcumsumexp(tl_Tensor *self, int64_t dim) TL_MUSTCHECK;

#endif
