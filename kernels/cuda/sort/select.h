/*
** select.h - selects elements of rows without sorting; one block processes each row or part of a
** row.
*/
#ifndef TLK_CUDA_SELECT_H
#define TLK_CUDA_SELECT_H

#include "kernels/cuda/cuda.h"

struct Keys;
struct Picked;

#define SELECT_MOST 1024  /* largest number of elements that may be selected */
#define SELECT_SHORT 1024 /* up to this row length, sorting is faster */

/* Selects the first elements of each row, in sorted order. */
bool cuda_select_first(const tlk_Context *cx, const struct Keys *in, const struct Picked *out);
/* Implements select_rank of core/kernel/kernel.h. */
bool cuda_select_rank(const tlk_Context *cx, const struct Keys *in, const struct Picked *out,
                      int64_t rank, bool skip_nan);

#endif
