/*
** reduce.h - the arithmetic of collectives: reduces several arrays to one.
*/
#ifndef TLI_DIST_REDUCE_H
#define TLI_DIST_REDUCE_H

#include "core/tensor/dtype.h"

/* The reductions, as X(name, text). All tables marked ORDER REDUCE have the same order. Bitwise
** reductions are for integers and bool, the mean is for floating and complex types. Among bool
** values, the sum and the maximum are logical "or", the product and the minimum logical "and". */
#define TLI_REDUCTIONS(X) \
  X(SUM, "sum")           \
  X(AVG, "avg")           \
  X(PRODUCT, "product")   \
  X(MIN, "min")           \
  X(MAX, "max")           \
  X(BAND, "band")         \
  X(BOR, "bor")           \
  X(BXOR, "bxor")

typedef enum tli_Reduction {
#define X(name, text) TLI_REDUCE_##name,
  TLI_REDUCTIONS(X)
#undef X
      TLI_NREDUCTIONS
} tli_Reduction;

extern const char *const tli_reduction_names[TLI_NREDUCTIONS];
/* Returns false with a message if the reduction does not support the dtype. */
bool tli_reduction_fits(const char *op, tli_Reduction r, tl_DType dtype) TL_MUSTCHECK;

/* Computes out[i] = from[0][i] o from[1][i] o ..., where "o" is the reduction's operation, always
** from left to right, so that all ranks get the same bits. float16 and bfloat16 are rounded once,
** at the end. Integers wrap around. The minimum and the maximum are NaN if an operand is NaN. `out`
** may be one of the k > 0 arrays. */
void tli_reduce_arrays(tl_DType dtype, tli_Reduction r, void *out, const void *const *from, int k,
                       int64_t n);

#endif
