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

/* The dtype of scores, weights and norms. */
static inline tl_DType tli_attention_stat(const tl_Tensor *t) {
  return t->dtype == TL_F64 ? TL_F64 : TL_F32;
}

/* ---- steps of a chain, in differentiable operators ---- */

/* Half types as float32, in which scores and weights are computed. */
tl_Tensor *tli_attention_widened(tli_Chain *c, tl_Tensor *t);
/* Repeats the heads of key or value until there are `heads`. */
tl_Tensor *tli_attention_spread(tli_Chain *c, tl_Tensor *t, int64_t heads);
/* The weights (batch, heads, queries, keys) without dropout; mask may be NULL. */
tl_Tensor *tli_attention_weights(tli_Chain *c, tl_Tensor *mask, const tlk_Attention *a,
                                 tl_Tensor *query, tl_Tensor *key);
/* The factors, 0 or 1 / (1 - p), that dropout multiplies the weights by. */
tl_Tensor *tli_attention_kept(tli_Chain *c, const tl_Tensor *query, const tlk_Attention *a);
/* The result of attention. */
tl_Tensor *tli_attention_math(tli_Chain *c, tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                              tl_Tensor *mask, const tlk_Attention *a);

#endif
