/*
** line_loop.h - the loop that gather and scatter share; it visits all elements.
*/
#ifndef TLK_CUDA_INDEX_LINES_H
#define TLK_CUDA_INDEX_LINES_H

#include "kernels/cuda/cuda.h"

/* Returns one loop over all elements of all lines; the indexed operand has stride 0 along the
** line. */
tli_Iter cuda_index_loop(const tlk_IndexCall *call, int indexed);

#endif
