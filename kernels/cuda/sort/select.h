/*
** select.h - selects elements of rows without sorting. Each block processes one row, or a part of
** one.
*/
#ifndef TLK_CUDA_SELECT_H
#define TLK_CUDA_SELECT_H

#include "kernels/cuda/cuda.h"

struct Keys;
struct Picked;

#define SELECT_MOST 1024  /* largest number of elements that may be selected */
#define SELECT_SHORT 1024 /* sorting is faster for rows up to this length */

/* Selects the first elements of each row, in sorted order. */
bool cuda_select_first(const tlk_Context *cx, const struct Keys *in, const struct Picked *out);
/* Implements select_rank of core/kernel/kernel.h. */
bool cuda_select_rank(const tlk_Context *cx, const struct Keys *in, const struct Picked *out,
                      int64_t rank, bool skip_nan);

#endif
