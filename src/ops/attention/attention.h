/*
** attention.h - code shared by attention and its gradient. Tensors are (batch, heads, positions,
** features).
*/
#ifndef TLI_ATTENTION_H
#define TLI_ATTENTION_H

#include "ops/attention/attention_math.h"

/* Fills in the sizes and the mask of a kernel call. */
void tli_attention_call(tlk_Attention *a, const tl_Tensor *query, const tl_Tensor *value,
                        const tl_Tensor *mask);
/* Describes the rows of t for a kernel. Returns a new reference to t if each row of t is
** contiguous, and a copy otherwise. */
tl_Tensor *tli_head_rows(tl_Tensor *t, tlk_HeadRows *rows) TL_MUSTCHECK;
/* Returns the description of a mask for a kernel. The shape of the mask is (batch or 1, heads or 1,
** queries or 1, keys); `mask` may be NULL. */
tlk_HeadPairs tli_head_pairs(const tl_Tensor *mask);
/* Returns an uninitialised tensor with rows of `size` elements. It has the heads, positions and
** memory order of `like`. */
tl_Tensor *tli_empty_heads(const tl_Tensor *like, int64_t size) TL_MUSTCHECK;

#endif
