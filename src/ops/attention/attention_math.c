/*
** attention_math.c - computes attention by differentiable operators. This form stores all weights.
** It serves second derivatives, and users who request it with nn.attention.sdpa_kernel.
*/
#include <math.h>

#include "ops/attention/attention_math.h"

/* Converts half types to float32, the dtype in which scores and weights are computed. */
tl_Tensor *tli_attention_widened(tli_Chain *c, tl_Tensor *t) {
  return tli_is_half((tl_DType)t->dtype) ? TLI_STEP(c, tlo_to_dtype(t, TL_F32)) : t;
}

/* Repeats each head of a key or value until there are as many heads as in the query. */
tl_Tensor *tli_attention_spread(tli_Chain *c, tl_Tensor *t, int64_t heads) {
  if (c->failed || t->sizes[1] == heads) return t;
  int64_t times = heads / t->sizes[1];
  return TLI_STEP(c, tlo_repeat_interleave(t, times, 1));
}

/* Returns a mask that is true for each pair of a query and a key that the query may not see.
** Returns NULL if every query sees all keys. */
static tl_Tensor *hidden_pairs(tli_Chain *c, tl_Tensor *mask, const tlk_Attention *a,
                               tl_Device device) {
  tl_Ints pairs = {2, (int64_t[]){a->queries, a->keys}};
  if (a->causal) return chain_triu(c, TLI_STEP(c, tlo_ones(pairs, TL_BOOL, device)), 1);
  if (mask == NULL) return NULL;
  if (mask->dtype == TL_BOOL) return TLI_STEP(c, tlo_logical_not(mask));
  return chain_with(c, tlo_eq, mask, -INFINITY);
}

/* Computes the weights without dropout. If a query sees no key, its scores stay finite, and its
** weights are set to 0 at the end, so that no NaN arises. */
tl_Tensor *tli_attention_weights(tli_Chain *c, tl_Tensor *mask, const tlk_Attention *a,
                                 tl_Tensor *query, tl_Tensor *key) {
  tl_Tensor *turned = chain_t(c, key), *scaled = chain_scale(c, query, a->scale);
  tl_Tensor *scores = chain_matmul(c, scaled, turned);
  tl_Tensor *hidden = query ? hidden_pairs(c, mask, a, tli_device(query)) : NULL;
  if (hidden == NULL) return TLI_STEP(c, tlo_softmax(scores, -1, TL_NODTYPE));
  tl_Tensor *blind = TLI_STEP(c, tlo_all(hidden, (tl_Ints){1, (int64_t[]){-1}}, true));
  if (mask && mask->dtype != TL_BOOL) {
    tl_Tensor *added = TLI_STEP(c, tlo_to_dtype(mask, tli_attention_stat(query)));
    scores = chain_add(c, scores, chain_masked_fill(c, added, hidden, 0));
  }
  tl_Tensor *where = TLI_STEP(c, tlo_gt(hidden, blind));
  scores = chain_masked_fill(c, scores, where, -INFINITY);
  tl_Tensor *weights = TLI_STEP(c, tlo_softmax(scores, -1, TL_NODTYPE));
  return chain_masked_fill(c, weights, blind, 0);
}

/* Computes the factors by which dropout multiplies the weights. Uses the same random numbers as the
** kernel, so that both drop the same weights. */
tl_Tensor *tli_attention_kept(tli_Chain *c, const tl_Tensor *query, const tlk_Attention *a) {
  int64_t sizes[4] = {a->batch, a->heads, a->queries, tli_words(a->keys)};
  tl_Tensor *words = TLI_STEP(c, tli_empty(tli_attention_stat(query), tli_device(query), 4, sizes));
  if (words && words->numel > 0 &&
      !TLI_RUN(tli_device(words), random, .distribution = TLK_BERNOULLI, .out = tli_array(words),
               .n = words->numel, .seed = a->seed, .block = a->block, .state = a->state,
               .a = tli_float(1 - a->dropout)))
    c->failed = true;
  tl_Tensor *kept = TLI_STEP(c, tlo_narrow(words, 3, 0, a->keys));
  return chain_scale(c, kept, a->dropout < 1 ? 1 / (1 - a->dropout) : 0);
}

tl_Tensor *tli_attention_math(tli_Chain *c, tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                              tl_Tensor *mask, const tlk_Attention *a) {
  tl_Tensor *wide = tli_attention_widened(c, query);
  tl_Tensor *keys = tli_attention_spread(c, tli_attention_widened(c, key), a->heads);
  tl_Tensor *values = tli_attention_spread(c, tli_attention_widened(c, value), a->heads);
  tl_Tensor *weights = tli_attention_weights(c, mask, a, wide, keys);
  if (a->dropout > 0) weights = chain_mul(c, weights, tli_attention_kept(c, query, a));
  tl_Tensor *result = chain_matmul(c, weights, values);
  return c->failed ? NULL : chain_to(c, result, (tl_DType)query->dtype);
}
