/*
** select.h - selecting elements of rows without sorting; each row has a block.
*/
#ifndef TLK_CUDA_SELECT_H
#define TLK_CUDA_SELECT_H

#include "kernels/cuda/cuda.h"

struct Keys;
struct Picked;

#define SELECT_MOST 1024  /* the most elements that may be selected */
#define SELECT_SHORT 1024 /* sorting is faster for rows up to this length */

/* Selects the first elements of each row, in order. */
bool cuda_select_first(const tlk_Context *cx, const struct Keys *in, const struct Picked *out);
/* See select_rank in core/kernel/kernel.h. */
bool cuda_select_rank(const tlk_Context *cx, const struct Keys *in, const struct Picked *out,
                      int64_t rank, bool skip_nan);

#endif
