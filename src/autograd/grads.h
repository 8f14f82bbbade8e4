/*
** grads.h - making and adding up gradients inside a backward pass.
*/
#ifndef TLI_GRADS_H
#define TLI_GRADS_H

#include "autograd/graph.h"

/* A gradient all of whose elements are `value`. */
tl_Tensor *tli_grad_fill(const tli_Info *info, int64_t value) TL_MUSTCHECK;

/* The sum of two gradients of one value; steals both. In place where nothing
** is recorded and nobody else can see one of them. */
tl_Tensor *tli_grad_add(tl_Tensor *a, tl_Tensor *b) TL_MUSTCHECK;

#endif
