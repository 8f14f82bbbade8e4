/*
** attention.c - scaled dot product attention as a composition. Rows that may
** see no key are kept out of the softmax, where they would become NaN, and so
** out of its derivatives.
*/
#include <math.h>

#include "ops/chain.h"

static const char op[] = "scaled_dot_product_attention";

static bool check(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value) {
  tl_Tensor *all[3] = {query, key, value};
  for (int k = 0; k < 3; k++) {
    if (all[k]->ndim < 2)
      return tli_fail(TL_ESHAPE, "%s: expected at least two dimensions, got shape %s", op,
                      tli_sizes_str(all[k]));
    if (all[k]->dtype != query->dtype || !tli_is_float((tl_DType)query->dtype))
      return tli_fail(TL_EDTYPE, "%s: expected tensors of one floating dtype, got %s, %s and %s",
                      op, tl_dtype_name((tl_DType)query->dtype),
                      tl_dtype_name((tl_DType)key->dtype), tl_dtype_name((tl_DType)value->dtype));
  }
  if (query->sizes[query->ndim - 1] != key->sizes[key->ndim - 1])
    return tli_fail(TL_ESHAPE, "%s: last sizes of query %s and key %s differ", op,
                    tli_sizes_str(query), tli_sizes_str(key));
  if (key->sizes[key->ndim - 2] != value->sizes[value->ndim - 2])
    return tli_fail(TL_ESHAPE, "%s: key %s and value %s differ in their number of positions", op,
                    tli_sizes_str(key), tli_sizes_str(value));
  return true;
}

/* Each of the heads (dimension -3) of t as often as needed for the query's. */
static tl_Tensor *repeat_heads(tl_Tensor *t, tl_Tensor *query) {
  if (t->ndim < 3 || query->ndim < 3)
    return tli_fail_null(TL_ESHAPE,
                         "%s: enable_gqa: expected (..., heads, positions, features), "
                         "got %s and %s",
                         op, tli_sizes_str(query), tli_sizes_str(t));
  int64_t have = t->sizes[t->ndim - 3], want = query->sizes[query->ndim - 3];
  if (have == want) return tli_retain(t);
  if (have == 0 || want % have != 0)
    return tli_fail_null(TL_ESHAPE,
                         "%s: enable_gqa: %" PRId64 " heads of query are no multiple of "
                         "%" PRId64,
                         op, want, have);
  return tlo_repeat_interleave(t, want / have, t->ndim - 3);
}

/* Half types as float32, in which scores and weights are computed. */
static tl_Tensor *chain_widened(tli_Chain *c, tl_Tensor *t) {
  return tli_is_half((tl_DType)t->dtype) ? TLI_STEP(c, tlo_to_dtype(t, TL_F32)) : t;
}

/* True where query i may not see key j: j > i. */
static tl_Tensor *future(tl_Tensor *query, tl_Tensor *key) {
  int64_t sizes[2] = {query->sizes[query->ndim - 2], key->sizes[key->ndim - 2]};
  tl_Tensor *ones = tlo_ones((tl_Ints){2, sizes}, TL_BOOL, tli_device(query));
  tl_Tensor *result = ones ? tlo_triu(ones, 1) : NULL;
  tli_release(ones);
  return result;
}

/* What becomes of the scores under a mask; *blind is true, (..., L, 1), for
** the rows that see nothing. Their scores stay finite. */
static tl_Tensor *apply_mask(tli_Chain *c, tl_Tensor *scores, tl_Tensor *mask, tl_Tensor **blind) {
  tl_Ints last = {1, (int64_t[]){-1}};
  tl_Tensor *lowest = chain_number(c, -INFINITY);
  if (mask->dtype == TL_BOOL) {
    tl_Tensor *hidden = TLI_STEP(c, tlo_logical_not(mask));
    *blind = TLI_STEP(c, tlo_all(hidden, last, true));
    tl_Tensor *where = TLI_STEP(c, tlo_gt(hidden, *blind));
    return TLI_STEP(c, tlo_masked_fill(scores, where, lowest));
  }
  tl_Tensor *added = TLI_STEP(c, tlo_to_dtype(mask, (tl_DType)scores->dtype));
  tl_Tensor *hidden = TLI_STEP(c, tlo_eq(added, lowest));
  *blind = TLI_STEP(c, tlo_all(hidden, last, true));
  return chain_add(c, scores, chain_masked_fill(c, added, *blind, 0));
}

static tl_Tensor *attend(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value, tl_Tensor *mask,
                         double dropout, bool causal, double scale, tli_Generator *generator) {
  tli_Chain c = {0};
  tl_Tensor *blind = NULL;
  tl_DType dtype = (tl_DType)query->dtype;
  query = chain_widened(&c, query);
  key = chain_widened(&c, key);
  value = chain_widened(&c, value);
  tl_Tensor *scores = chain_matmul(&c, chain_scale(&c, query, scale), chain_t(&c, key));
  if (causal)
    scores = chain_masked_fill(&c, scores, TLI_STEP(&c, future(query, key)), -INFINITY);
  else if (mask && scores)
    scores = apply_mask(&c, scores, mask, &blind);
  tl_Tensor *weights = TLI_STEP(&c, tlo_softmax(scores, -1, TL_NODTYPE));
  if (dropout > 0) weights = TLI_STEP(&c, tlo_dropout(weights, dropout, true, generator));
  tl_Tensor *result = chain_matmul(&c, weights, value);
  if (blind) result = chain_masked_fill(&c, result, blind, 0);
  if (result && (tl_DType)result->dtype != dtype)
    result = TLI_STEP(&c, tlo_to_dtype(result, dtype));
  return tli_chain_end(&c, result);
}

tl_Tensor *tlo_scaled_dot_product_attention(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                                            tl_Tensor *attn_mask, double dropout_p, bool is_causal,
                                            double scale, bool enable_gqa,
                                            tli_Generator *generator) {
  TL_TRY_NULL(check(query, key, value));
  if (attn_mask && is_causal)
    return tli_fail_null(TL_EARG, "%s: attn_mask and is_causal exclude each other", op);
  if (!(dropout_p >= 0 && dropout_p <= 1))
    return tli_fail_null(TL_EARG, "%s: dropout_p: expected a probability from 0 to 1, got %g", op,
                         dropout_p);
  if (isnan(scale)) scale = 1 / sqrt((double)query->sizes[query->ndim - 1]);
  if (!enable_gqa)
    return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, generator);
  tli_Chain c = {0};
  tl_Tensor *k = TLI_STEP(&c, repeat_heads(key, query));
  tl_Tensor *v = TLI_STEP(&c, repeat_heads(value, query));
  return tli_chain_end(
      &c, TLI_STEP(&c, attend(query, k, v, attn_mask, dropout_p, is_causal, scale, generator)));
}
