/*
** attention.h - code that attention and its gradient share. Tensors are (batch, heads,
** positions, features).
*/
#ifndef TLI_ATTENTION_H
#define TLI_ATTENTION_H

#include "ops/chain.h"

/* Returns the random words of a query: one for each key, in whole blocks of four. */
static inline int64_t tli_words(int64_t keys) { return (keys + 3) & -4; }

/* Fills in the sizes and the mask of a call. */
void tli_attention_call(tlk_Attention *a, const tl_Tensor *query, const tl_Tensor *value,
                        const tl_Tensor *mask);
/* Describes the rows of t for a kernel. Returns a new reference to t or, if its elements are
** not contiguous in rows, to a copy. */
tl_Tensor *tli_head_rows(tl_Tensor *t, tlk_HeadRows *rows) TL_MUSTCHECK;
/* Describes a mask (batch or 1, heads or 1, queries or 1, keys) for a kernel; it may be NULL. */
tlk_HeadPairs tli_head_pairs(const tl_Tensor *mask);
/* Returns uninitialised rows of that size with like's heads and positions, whose order in
** memory is also like's. */
tl_Tensor *tli_empty_heads(const tl_Tensor *like, int64_t size) TL_MUSTCHECK;

/* Returns the dtype of scores, weights and norms. */
static inline tl_DType tli_attention_stat(const tl_Tensor *t) {
  return t->dtype == TL_F64 ? TL_F64 : TL_F32;
}

/* ---- steps of a chain, as differentiable operators ---- */

/* Converts half types to float32, in which scores and weights are computed. */
tl_Tensor *tli_attention_widened(tli_Chain *c, tl_Tensor *t);
/* Repeats the heads of key or value until there are `heads`. */
tl_Tensor *tli_attention_spread(tli_Chain *c, tl_Tensor *t, int64_t heads);
/* Computes the weights (batch, heads, queries, keys) without dropout; mask may be NULL. */
tl_Tensor *tli_attention_weights(tli_Chain *c, tl_Tensor *mask, const tlk_Attention *a,
                                 tl_Tensor *query, tl_Tensor *key);
/* Computes dropout's factors of the weights: 0 or 1 / (1 - p). */
tl_Tensor *tli_attention_kept(tli_Chain *c, const tl_Tensor *query, const tlk_Attention *a);
/* Computes attention. */
tl_Tensor *tli_attention_math(tli_Chain *c, tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                              tl_Tensor *mask, const tlk_Attention *a);

#endif
