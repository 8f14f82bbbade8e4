/*
** lines.h - what gather and scatter share.
*/
#ifndef TLK_CUDA_INDEX_LINES_H
#define TLK_CUDA_INDEX_LINES_H

#include "kernels/cuda/cuda.h"

/* The lines and their elements as one loop; the indexed operand does not move along a
** line. */
tli_Iter cuda_index_loop(const tlk_IndexCall *call, int indexed);

#endif
