/*
** attention_math.h - the steps of attention as differentiable operators in a chain (see chain.h).
** Tensors are (batch, heads, positions, features).
*/
#ifndef TLI_ATTENTION_MATH_H
#define TLI_ATTENTION_MATH_H

#include "ops/chain.h"

/* Returns the number of random words that a query uses: one for each key, rounded up to a block of
** four. */
static inline int64_t tli_words(int64_t keys) { return (keys + 3) & -4; }

/* Returns the dtype in which scores, weights and norms are computed. */
static inline tl_DType tli_attention_stat(const tl_Tensor *t) {
  return t->dtype == TL_F64 ? TL_F64 : TL_F32;
}

/* Converts half types to float32, the dtype in which scores and weights are computed. */
tl_Tensor *tli_attention_widened(tli_Chain *c, tl_Tensor *t);
/* Repeats each head of a key or value until there are `heads` heads. */
tl_Tensor *tli_attention_spread(tli_Chain *c, tl_Tensor *t, int64_t heads);
/* Computes the weights (batch, heads, queries, keys) without dropout. `mask` may be NULL. */
tl_Tensor *tli_attention_weights(tli_Chain *c, tl_Tensor *mask, const tlk_Attention *a,
                                 tl_Tensor *query, tl_Tensor *key);
/* Computes the factors by which dropout multiplies the weights: 0 or 1 / (1 - p). */
tl_Tensor *tli_attention_kept(tli_Chain *c, const tl_Tensor *query, const tlk_Attention *a);
/* Computes attention by differentiable operators. */
tl_Tensor *tli_attention_math(tli_Chain *c, tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                              tl_Tensor *mask, const tlk_Attention *a);

#endif
