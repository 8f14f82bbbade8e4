/*
** attention.h - code that attention and its gradient share. Tensors are (batch, heads,
** positions, features).
*/
#ifndef TLI_ATTENTION_H
#define TLI_ATTENTION_H

#include "ops/attention/attention_math.h"

/* Fills in the sizes and the mask of a call. */
void tli_attention_call(tlk_Attention *a, const tl_Tensor *query, const tl_Tensor *value,
                        const tl_Tensor *mask);
/* Describes the rows of t for a kernel. Returns a new reference to t or, if its elements are
** not contiguous in rows, to a copy. */
tl_Tensor *tli_head_rows(tl_Tensor *t, tlk_HeadRows *rows) TL_MUSTCHECK;
/* Describes a mask (batch or 1, heads or 1, queries or 1, keys) for a kernel; `mask` may be
** NULL. */
tlk_HeadPairs tli_head_pairs(const tl_Tensor *mask);
/* Returns uninitialised rows of `size` elements, with like's heads and positions, in like's order
** in memory. */
tl_Tensor *tli_empty_heads(const tl_Tensor *like, int64_t size) TL_MUSTCHECK;

#endif
