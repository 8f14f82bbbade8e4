/*
** matmul.h - matrix products in the form that kernels take.
*/
#ifndef TLI_MATMUL_H
#define TLI_MATMUL_H

#include "ops/common.h"

/* A matrix product in the form that the kernel takes. Each operand is used in place or copied. */
typedef struct tli_Product {
  tlk_Gemm gemm;
  tl_Tensor *a, *b; /* owned */
} tli_Product;

/* Describes out = alpha * a @ b + beta * out. `out` is row-major; a and b are matrices, or batches
** of matrices with the same batch size. The caller must end the product even if this call fails. */
bool tli_product(tli_Product *p, tl_Tensor *out, tl_Tensor *a, tl_Tensor *b, tl_Scalar alpha,
                 tl_Scalar beta) TL_MUSTCHECK;
void tli_product_end(tli_Product *p);

/* Returns whether one kernel can compute a linear layer of these operands. If not, a composition
** computes the layer or reports the error. `bias` may be NULL. */
bool tli_linear_fits(const tl_Tensor *input, const tl_Tensor *weight, const tl_Tensor *bias);

#endif
