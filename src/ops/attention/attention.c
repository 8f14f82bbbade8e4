/*
** attention.c - scaled_dot_product_attention. Its arguments are converted to the shape (batch,
** heads, positions, features), as views if the strides allow this, and passed to the operator
** `attention`. The operator `attention` is recorded for autograd, and its kernel stores no scores.
*/
#include <math.h>

#include "ops/attention/attention.h"
#include "core/device/settings.h"

static const char op[] = "scaled_dot_product_attention";

/* ---- checks ---- */

static bool check_rows(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value) {
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
  return tli_same_device_all(op, all, 3);
}

static bool check_options(tl_Tensor *query, tl_Tensor *mask, double dropout, bool causal) {
  if (!(dropout >= 0 && dropout <= 1))
    return tli_fail(TL_EARG, "%s: dropout_p: expected a probability from 0 to 1, got %g", op,
                    dropout);
  if (mask == NULL) return true;
  if (causal) return tli_fail(TL_EARG, "%s: attn_mask and is_causal exclude each other", op);
  if (mask->dtype != TL_BOOL && !tli_is_float((tl_DType)mask->dtype))
    return tli_fail(TL_EDTYPE, "%s: attn_mask: expected a bool or floating tensor, got %s", op,
                    tl_dtype_name((tl_DType)mask->dtype));
  return tli_same_device_all(op, (tl_Tensor *[]){query, mask}, 2);
}

/* ---- shapes ---- */

/* The leading dimensions that query, key, value and mask have in common after broadcasting: the
** batch dimensions, followed by the heads. */
typedef struct Lead {
  int n;
  int64_t sizes[TL_MAX_DIMS];
} Lead;

static Lead lead_of(const tl_Tensor *t) {
  Lead lead = {.n = t->ndim - 2};
  for (int d = 0; d < lead.n; d++) lead.sizes[d] = t->sizes[d];
  return lead;
}

/* Broadcasts `lead` with the leading dimensions of t. `heads` replaces t's own number of heads,
** since query heads may share a head of t. */
static bool join_lead(Lead *lead, const tl_Tensor *t, int64_t heads) {
  Lead a = *lead, b = lead_of(t);
  if (b.n > 0) b.sizes[b.n - 1] = heads;
  lead->n = a.n > b.n ? a.n : b.n;
  for (int d = lead->n - 1, i = a.n - 1, j = b.n - 1; d >= 0; d--, i--, j--) {
    int64_t x = i < 0 ? 1 : a.sizes[i], y = j < 0 ? 1 : b.sizes[j];
    if (x != y && x != 1 && y != 1) return false;
    lead->sizes[d] = x == 1 ? y : x;
  }
  return true;
}

static int64_t heads_of(const tl_Tensor *t) { return t->ndim > 2 ? t->sizes[t->ndim - 3] : 1; }

/* Repeats each head (dimension -3) of t until t has as many heads as the query. */
static tl_Tensor *repeat_heads(tli_Chain *c, tl_Tensor *t, int64_t heads) {
  int64_t have = heads_of(t);
  return have == heads ? t : TLI_STEP(c, tlo_repeat_interleave(t, heads / have, t->ndim - 3));
}

static bool check_groups(const tl_Tensor *t, const tl_Tensor *query) {
  if (t->ndim < 3 || query->ndim < 3)
    return tli_fail(TL_ESHAPE,
                    "%s: enable_gqa: expected (..., heads, positions, features), got %s and %s", op,
                    tli_sizes_str(query), tli_sizes_str(t));
  int64_t have = heads_of(t), want = heads_of(query);
  if (have == want || (have != 0 && want % have == 0)) return true;
  return tli_fail(TL_ESHAPE,
                  "%s: enable_gqa: %" PRId64 " heads of query are no multiple of %" PRId64, op,
                  want, have);
}

/* Returns t, whose shape is (..., heads, n, m), as (batch, heads, n, m). Broadcasts the leading
** dimensions to `lead` and merges the batch dimensions. */
static tl_Tensor *as_heads(tli_Chain *c, tl_Tensor *t, const Lead *lead, int64_t heads) {
  if (c->failed ||
      (t->ndim == 4 && lead->n == 2 && t->sizes[0] == lead->sizes[0] && t->sizes[1] == heads))
    return t;
  int64_t wide[TL_MAX_DIMS], four[4] = {1, heads, t->sizes[t->ndim - 2], t->sizes[t->ndim - 1]};
  for (int d = 0; d < lead->n; d++) wide[d] = lead->sizes[d];
  for (int d = 0; d + 1 < lead->n; d++) four[0] *= lead->sizes[d];
  if (lead->n > 0) wide[lead->n - 1] = heads;
  for (int k = 0; k < 2; k++) wide[lead->n + k] = four[2 + k];
  tl_Tensor *expanded = TLI_STEP(c, tlo_expand(t, (tl_Ints){lead->n + 2, wide}));
  return TLI_STEP(c, tlo_reshape(expanded, (tl_Ints){4, four}));
}

/* Returns the mask with shape (batch or 1, heads or 1, queries or 1, keys). */
static tl_Tensor *as_pairs(tli_Chain *c, tl_Tensor *mask, const Lead *lead, int64_t keys) {
  if (mask == NULL || (mask->ndim == 4 && lead->n <= 2 && mask->sizes[3] == keys)) return mask;
  int n = lead->n > 2 ? lead->n + 2 : 4, heads = n - 3;
  int64_t wide[TL_MAX_DIMS], four[4] = {1};
  bool shared = true; /* whether the whole batch shares the mask */
  for (int d = 0; d < n; d++) {
    int from = d - (n - mask->ndim);
    wide[d] = from < 0 ? 1 : mask->sizes[from];
    if (d < heads) shared = shared && wide[d] == 1;
  }
  wide[n - 1] = keys;
  for (int d = 0; d < heads; d++) four[0] *= wide[d] = n > 4 && !shared ? lead->sizes[d] : wide[d];
  for (int k = 1; k < 4; k++) four[k] = wide[heads + k - 1];
  tl_Tensor *expanded = TLI_STEP(c, tlo_expand(mask, (tl_Ints){n, wide}));
  return TLI_STEP(c, tlo_reshape(expanded, (tl_Ints){4, four}));
}

/* ---- the public operator ---- */

static bool check_mask(const tl_Tensor *mask, const Lead *lead, int64_t queries, int64_t keys) {
  int64_t sizes[TL_MAX_DIMS + 2];
  for (int d = 0; d < lead->n; d++) sizes[d] = lead->sizes[d];
  sizes[lead->n] = queries;
  sizes[lead->n + 1] = keys;
  if (mask == NULL || tli_expandable(mask->ndim, mask->sizes, lead->n + 2, sizes)) return true;
  return tli_fail(TL_ESHAPE, "%s: attn_mask: expected a shape that broadcasts to %s, got %s", op,
                  tli_shape_str(lead->n + 2, sizes), tli_sizes_str(mask));
}

/* Computes the leading dimensions (batch dimensions and heads) of the result. */
static bool join_leads(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value, bool gqa, Lead *lead) {
  int64_t heads = heads_of(query);
  *lead = lead_of(query);
  if (gqa) TL_TRY(check_groups(key, query) && check_groups(value, query));
  if (join_lead(lead, key, gqa ? heads : heads_of(key)) &&
      join_lead(lead, value, gqa ? heads : heads_of(value)))
    return true;
  return tli_fail(TL_ESHAPE, "%s: batch sizes of query %s, key %s and value %s do not broadcast",
                  op, tli_sizes_str(query), tli_sizes_str(key), tli_sizes_str(value));
}

/* The operands of the attention kernel, brought to the shapes that the kernel takes. */
typedef struct Operands {
  tl_Tensor *query, *key, *value, *mask; /* owned by the tli_Chain that has computed them */
} Operands;

static Operands operands(tli_Chain *c, tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                         tl_Tensor *mask, bool gqa, const Lead *lead) {
  int64_t heads = lead->n > 0 ? lead->sizes[lead->n - 1] : 1, few = heads_of(key);
  /* whether each group of query heads can share a head of key and value, without copies of that
  ** head */
  bool shared = few == heads_of(value) && few > 0 && heads % few == 0;
  if (gqa && !shared) {
    key = repeat_heads(c, key, heads);
    value = repeat_heads(c, value, heads);
  }
  int64_t kv_heads = shared ? few : heads;
  return (Operands){as_heads(c, query, lead, heads), as_heads(c, key, lead, kv_heads),
                    as_heads(c, value, lead, kv_heads),
                    as_pairs(c, mask, lead, key ? key->sizes[key->ndim - 2] : 0)};
}

/* Reserves the random numbers for dropout in the generator's stream. Writes their position to
** *from. */
static bool draw(const Operands *o, double dropout, tli_Generator *generator, tli_Stretch *from) {
  const int64_t *n = o->query->sizes;
  int64_t words = n[0] * n[1] * n[2] * tli_words(o->key->sizes[2]);
  *from = (tli_Stretch){0};
  return dropout == 0 || tli_generator_stretch(generator, tli_device(o->query), words, 4, from);
}

/* Decides whether to use the kernel that stores no weights, by the settings of torch.backends.cuda
** and nn.attention.sdpa_kernel, and stores the decision in *fused. Fails if these settings exclude
** all implementations. */
static bool choose(const tl_Tensor *query, bool *fused) {
  int64_t allowed = tli_setting(TL_SDP_BACKENDS);
  int64_t kernels = TL_SDP_FLASH | TL_SDP_EFFICIENT;
  if (tli_device(query).type == TL_CUDA) kernels |= TL_SDP_CUDNN;
  *fused = (allowed & kernels) && !((allowed & TL_SDP_MATH) && (allowed & TL_SDP_MATH_FIRST));
  if (*fused || (allowed & TL_SDP_MATH)) return true;
  return tli_fail(TL_EARG,
                  "%s: no backend for %s is allowed: expected flash, memory-efficient or math to "
                  "be among those of nn.attention.sdpa_kernel or enabled in torch.backends.cuda",
                  op, tli_device_str(tli_device(query)));
}

static tlk_Attention call_of(const Operands *o, double dropout, bool causal, double scale,
                             const tli_Stretch *from) {
  tlk_Attention a = {.causal = causal,
                     .scale = scale,
                     .dropout = dropout,
                     .seed = from->seed,
                     .block = from->block,
                     .state = tli_stretch_words(from->state)};
  tli_attention_call(&a, o->query, o->value, o->mask);
  return a;
}

tl_Tensor *tlo_scaled_dot_product_attention(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                                            tl_Tensor *attn_mask, double dropout_p, bool is_causal,
                                            double scale, bool enable_gqa,
                                            tli_Generator *generator) {
  TL_TRY_NULL(check_rows(query, key, value));
  TL_TRY_NULL(check_options(query, attn_mask, dropout_p, is_causal));
  Lead lead;
  TL_TRY_NULL(join_leads(query, key, value, enable_gqa, &lead));
  int64_t queries = query->sizes[query->ndim - 2], keys = key->sizes[key->ndim - 2];
  TL_TRY_NULL(check_mask(attn_mask, &lead, queries, keys));
  bool fused;
  TL_TRY_NULL(choose(query, &fused));
  if (isnan(scale)) scale = 1 / sqrt((double)query->sizes[query->ndim - 1]);
  tli_Chain c = {0};
  Operands o = operands(&c, query, key, value, attn_mask, enable_gqa, &lead);
  tl_Tensor *out[2] = {NULL, NULL};
  tli_Stretch from;
  TLI_DO(&c, draw(&o, dropout_p, generator, &from));
  if (fused)
    TLI_DO(&c, tlo_attention(o.query, o.key, o.value, o.mask, dropout_p, is_causal, scale,
                             (int64_t)from.seed, (int64_t)from.block, from.state, out));
  tli_release(out[1]);
  tl_Tensor *result = out[0] ? tli_keep(&c, out[0]) : NULL;
  if (!fused && !c.failed) {
    tlk_Attention a = call_of(&o, dropout_p, is_causal, scale, &from);
    result = tli_attention_math(&c, o.query, o.key, o.value, o.mask, &a);
  }
  if (lead.n != 2) {
    lead.sizes[lead.n] = queries;
    lead.sizes[lead.n + 1] = value->sizes[value->ndim - 1];
    result = TLI_STEP(&c, tlo_reshape(result, (tl_Ints){lead.n + 2, lead.sizes}));
  }
  return tli_chain_end(&c, result);
}

/* ---- the recorded operator ---- */

tl_Tensor *tli_head_rows(tl_Tensor *t, tlk_HeadRows *rows) {
  tl_Tensor *used = t->strides[3] == 1 || t->sizes[3] <= 1
                        ? tli_retain(t)
                        : tli_contiguous_as(t, (tl_DType)t->dtype);
  if (used)
    *rows = (tlk_HeadRows){tli_data(used), used->strides[0], used->strides[1], used->strides[2]};
  return used;
}

tl_Tensor *tli_empty_heads(const tl_Tensor *like, int64_t size) {
  const int64_t *n = like->sizes;
  bool inside = like->strides[1] < like->strides[2] && n[1] > 1 && n[2] > 1;
  int64_t sizes[4] = {n[0], inside ? n[2] : n[1], inside ? n[1] : n[2], size};
  tl_Tensor *t = tli_empty((tl_DType)like->dtype, tli_device(like), 4, sizes);
  if (t == NULL || !inside) return t;
  tl_Tensor *turned = tli_op_transpose(t, 1, 2);
  tli_release(t);
  return turned;
}

tlk_HeadPairs tli_head_pairs(const tl_Tensor *mask) {
  if (mask == NULL) return (tlk_HeadPairs){.array = {NULL, TL_F32}};
  int64_t strides[4];
  for (int d = 0; d < 4; d++) strides[d] = mask->sizes[d] == 1 ? 0 : mask->strides[d];
  return (tlk_HeadPairs){tli_array(mask), strides[0], strides[1], strides[2], strides[3]};
}

void tli_attention_call(tlk_Attention *a, const tl_Tensor *query, const tl_Tensor *value,
                        const tl_Tensor *mask) {
  a->dtype = (tl_DType)query->dtype;
  a->batch = query->sizes[0];
  a->heads = query->sizes[1];
  a->kv_heads = value->sizes[1];
  a->queries = query->sizes[2];
  a->keys = value->sizes[2];
  a->size = query->sizes[3];
  a->value_size = value->sizes[3];
  a->mask = tli_head_pairs(mask);
}

static bool attend(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value, tlk_Attention a,
                   tl_Tensor *result, tl_Tensor *norm) {
  tlk_HeadRows out;
  tl_Tensor *t[4] = {tli_head_rows(query, &a.query)};
  bool ok =
      t[0] && (t[1] = tli_head_rows(key, &a.key)) && (t[2] = tli_head_rows(value, &a.value)) &&
      (t[3] = tli_head_rows(result, &out)) &&
      TLI_RUN(tli_device(query), attention, .attention = a, .out = out, .norm = tli_data(norm));
  tli_release_results(t, 4);
  return ok;
}

bool tli_op_attention(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value, tl_Tensor *mask,
                      double dropout, bool causal, double scale, int64_t seed, int64_t block,
                      tl_Tensor *state, tl_Tensor **out) {
  tl_DType stat = query->dtype == TL_F64 ? TL_F64 : TL_F32;
  tlk_Attention a = {.causal = causal,
                     .scale = scale,
                     .dropout = dropout,
                     .seed = (uint64_t)seed,
                     .block = (uint64_t)block,
                     .state = tli_stretch_words(state)};
  tli_attention_call(&a, query, value, mask);
  out[0] = tli_empty_heads(query, value->sizes[3]);
  out[1] = out[0] ? tli_empty(stat, tli_device(query), 3, query->sizes) : NULL;
  bool ok = out[1] != NULL;
  if (ok && a.keys == 0)
    ok = tli_fill(out[0], tli_int(0));
  else if (ok && out[0]->numel > 0)
    ok = attend(query, key, value, a, out[0], out[1]);
  return ok || tli_release_results(out, 2);
}
