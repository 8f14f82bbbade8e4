/*
** line_loop.h - the loop over all elements that gather and scatter share.
*/
#ifndef TLK_CUDA_INDEX_LINES_H
#define TLK_CUDA_INDEX_LINES_H

#include "kernels/cuda/cuda.h"

/* Returns one loop over all elements of all lines. A line consists of the elements along the
** indexed dimension. In this loop the indexed operand has stride 0 along the lines. */
tli_Iter cuda_index_loop(const tlk_IndexCall *call, int indexed);

#endif
