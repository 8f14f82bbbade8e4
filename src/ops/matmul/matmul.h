/*
** matmul.h - matrix products in the kernels' form.
*/
#ifndef TLI_MATMUL_H
#define TLI_MATMUL_H

#include "ops/common.h"

/* The operands of a matrix product, each in place or as a copy. */
typedef struct tli_Product {
  tlk_Gemm gemm;
  tl_Tensor *a, *b; /* owned */
} tli_Product;

/* Describes out = alpha * a @ b + beta * out; out is row-major, and a and b have two dimensions, or
** three with the same batch size. The caller must end the product even if this call fails. */
bool tli_product(tli_Product *p, tl_Tensor *out, tl_Tensor *a, tl_Tensor *b, tl_Scalar alpha,
                 tl_Scalar beta) TL_MUSTCHECK;
void tli_product_end(tli_Product *p);

/* Returns whether one kernel computes a linear layer of these operands; bias may be NULL. Otherwise
** a composition computes them or reports the error. */
bool tli_linear_fits(const tl_Tensor *input, const tl_Tensor *weight, const tl_Tensor *bias);

#endif
