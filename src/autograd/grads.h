/*
** grads.h - creating and adding gradients in a backward pass.
*/
#ifndef TLI_GRADS_H
#define TLI_GRADS_H

#include "autograd/graph.h"

/* Returns a gradient whose elements are all `value`. */
tl_Tensor *tli_grad_fill(const tli_Info *info, int64_t value) TL_MUSTCHECK;

/* Returns the sum of two gradients of the same value; steals both. If no graph is recorded and one
** of the gradients has no other owner, the sum is computed in place. */
tl_Tensor *tli_grad_add(tl_Tensor *a, tl_Tensor *b) TL_MUSTCHECK;

#endif
