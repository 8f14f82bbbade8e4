/*
** select.h - picking from rows without sorting them: a block for each row.
*/
#ifndef TLK_CUDA_SELECT_H
#define TLK_CUDA_SELECT_H

#include "kernels/cuda/cuda.h"

struct Keys;
struct Picked;

#define SELECT_MOST 1024  /* first elements at most */
#define SELECT_SHORT 1024 /* rows that are better sorted */

/* The first elements of each row in order. */
bool cuda_select_first(const tlk_Context *cx, const struct Keys *in, const struct Picked *out);
/* See select_rank in core/kernel/kernel.h. */
bool cuda_select_rank(const tlk_Context *cx, const struct Keys *in, const struct Picked *out,
                      int64_t rank, bool skip_nan);

#endif
