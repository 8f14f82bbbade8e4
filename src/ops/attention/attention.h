/*
** attention.h - what attention and its gradient share. Tensors are (batch, heads,
** positions, features).
*/
#ifndef TLI_ATTENTION_H
#define TLI_ATTENTION_H

#include "ops/chain.h"

/* Random words of a query: one for each key, in whole blocks of four. */
static inline int64_t tli_words(int64_t keys) { return (keys + 3) & -4; }

/* Sizes and mask of a call. */
void tli_attention_call(tlk_Attention *a, const tl_Tensor *query, const tl_Tensor *value,
                        const tl_Tensor *mask);
/* Rows of t for a kernel: of t itself or, where their elements are apart, of a copy; in
** either case a new reference to it. */
tl_Tensor *tli_head_rows(tl_Tensor *t, tlk_HeadRows *rows) TL_MUSTCHECK;
/* A mask (batch or 1, heads or 1, queries or 1, keys) for a kernel; maybe NULL. */
tlk_HeadPairs tli_head_pairs(const tl_Tensor *mask);
/* Undefined rows of that size, with like's heads and positions, in its order of these two
** in memory. */
tl_Tensor *tli_empty_heads(const tl_Tensor *like, int64_t size) TL_MUSTCHECK;

#endif
