/*
** attention_backward.c - the gradient of attention, in two forms. Usually a kernel recomputes the
** weights block by block. While a graph of the gradient itself is recorded, differentiable
** operators compute the gradient instead, and all weights are stored.
*/
#include <math.h>

#include "ops/attention/attention.h"

/* ---- by the kernel ---- */

typedef struct Inputs {
  tl_Tensor *grad, *query, *key, *value, *mask, *result, *norm;
} Inputs;

/* The indices of the gradients, in the order of the operator's results. */
enum { QUERY, KEY, VALUE, MASK, GRADS };

static bool zeros(tl_Tensor *t) { return t == NULL || tli_fill(t, tli_int(0)); }

static bool new_gradients(const Inputs *in, const bool *want, tl_Tensor **out) {
  tl_Tensor *like[3] = {in->query, in->key, in->value};
  for (int k = 0; k < 3; k++)
    if (want[k] && !(out[k] = tli_empty_heads(like[k], like[k]->sizes[3]))) return false;
  if (!want[MASK]) return true;
  out[MASK] = tli_empty(tli_attention_stat(in->query), tli_device(in->query), in->mask->ndim,
                        in->mask->sizes);
  return out[MASK] && zeros(out[MASK]);
}

/* Describes the rows of a gradient for the kernel. If the gradient is not needed, t is NULL, and
** the field `data` of the result is NULL. */
static tlk_HeadRows rows_of(tl_Tensor *t) {
  if (t == NULL) return (tlk_HeadRows){.data = NULL};
  return (tlk_HeadRows){tli_data(t), t->strides[0], t->strides[1], t->strides[2]};
}

static bool run_kernel(const Inputs *in, tlk_Attention a, tl_Tensor **out) {
  tlk_HeadRows grad, result;
  tl_Tensor *t[5] = {NULL};
  bool ok =
      (t[0] = tli_head_rows(in->query, &a.query)) && (t[1] = tli_head_rows(in->key, &a.key)) &&
      (t[2] = tli_head_rows(in->value, &a.value)) && (t[3] = tli_head_rows(in->grad, &grad)) &&
      (t[4] = tli_head_rows(in->result, &result)) &&
      TLI_RUN(tli_device(in->query), attention_backward, .attention = a,
              .grad_query = rows_of(out[QUERY]), .grad_key = rows_of(out[KEY]),
              .grad_value = rows_of(out[VALUE]), .grad_mask = tli_head_pairs(out[MASK]),
              .grad_out = grad, .out = result, .norm = tli_data(in->norm));
  tli_release_results(t, 5);
  return ok;
}

static bool fused(const Inputs *in, tlk_Attention a, const bool *want, tl_Tensor **out) {
  bool ok = new_gradients(in, want, out);
  if (ok && (in->result->numel == 0 || a.keys == 0))
    for (int k = 0; k < 3; k++) ok = ok && zeros(out[k]);
  else
    ok = ok && run_kernel(in, a, out);
  return ok || tli_release_results(out, GRADS);
}

/* ---- in differentiable operators ---- */

/* Sums the gradient of repeated keys or values over each group of query heads that share a
** key/value head. */
static tl_Tensor *gathered(tli_Chain *c, tl_Tensor *t, int64_t heads) {
  if (c->failed || t->sizes[1] == heads) return t;
  int64_t sizes[5] = {t->sizes[0], heads, t->sizes[1] / heads, t->sizes[2], t->sizes[3]};
  tl_Tensor *split = TLI_STEP(c, tlo_reshape(t, (tl_Ints){5, sizes}));
  return chain_sum(c, split, 2, false);
}

static tl_Tensor *as_dtype(tli_Chain *c, tl_Tensor *t, const tl_Tensor *like) {
  if (c->failed || t->dtype == like->dtype) return t;
  return TLI_STEP(c, tlo_to_dtype(t, (tl_DType)like->dtype));
}

static void composed(tli_Chain *c, const Inputs *in, const tlk_Attention *a, const bool *want,
                     tl_Tensor **out) {
  tl_Tensor *query = tli_attention_widened(c, in->query);
  tl_Tensor *grad = tli_attention_widened(c, in->grad);
  tl_Tensor *key = tli_attention_spread(c, tli_attention_widened(c, in->key), a->heads);
  tl_Tensor *value = tli_attention_spread(c, tli_attention_widened(c, in->value), a->heads);
  tl_Tensor *weights = tli_attention_weights(c, in->mask, a, query, key), *used = weights;
  /* the gradient of the loss with respect to the weights after dropout */
  tl_Tensor *into = chain_matmul(c, grad, chain_t(c, value));
  if (a->dropout > 0) {
    tl_Tensor *kept = tli_attention_kept(c, in->query, a);
    used = chain_mul(c, weights, kept);
    into = chain_mul(c, into, kept);
  }
  tl_Tensor *delta = chain_sum(c, chain_mul(c, weights, into), -1, true);
  tl_Tensor *scores = chain_mul(c, weights, chain_sub(c, into, delta));
  tl_Tensor *scaled = chain_scale(c, scores, a->scale);
  tl_Tensor *grads[GRADS] = {
      want[QUERY] ? chain_matmul(c, scaled, key) : NULL,
      want[KEY] ? gathered(c, chain_matmul(c, chain_t(c, scaled), query), a->kv_heads) : NULL,
      want[VALUE] ? gathered(c, chain_matmul(c, chain_t(c, used), grad), a->kv_heads) : NULL};
  tl_Tensor *like[3] = {in->query, in->key, in->value};
  for (int k = 0; k < 3; k++)
    if (grads[k]) out[k] = as_dtype(c, grads[k], like[k]);
  if (want[MASK]) out[MASK] = TLI_STEP(c, tlo_sum_to_size(scores, (tl_Ints){4, in->mask->sizes}));
}

static bool recorded(const Inputs *in, tlk_Attention a, const bool *want, tl_Tensor **out) {
  tli_Chain c = {0};
  composed(&c, in, &a, want, out);
  bool ok = !c.failed;
  for (int k = 0; k < GRADS; k++) out[k] = ok && out[k] ? tli_retain(out[k]) : NULL;
  tli_chain_end(&c, NULL);
  return ok;
}

/* ---- the operator ---- */

bool tli_op_attention_backward(tl_Tensor *grad, tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                               tl_Tensor *mask, tl_Tensor *result, tl_Tensor *norm, double dropout,
                               bool causal, double scale, int64_t seed, int64_t block,
                               tl_Tensor *state, bool want_query, bool want_key, bool want_value,
                               bool want_mask, tl_Tensor **out) {
  Inputs in = {grad, query, key, value, mask, result, norm};
  bool want[GRADS] = {want_query, want_key, want_value, want_mask};
  tlk_Attention a = {.causal = causal,
                     .scale = scale,
                     .dropout = dropout,
                     .seed = (uint64_t)seed,
                     .block = (uint64_t)block,
                     .state = tli_stretch_words(state)};
  tli_attention_call(&a, query, value, mask);
  for (int k = 0; k < GRADS; k++) out[k] = NULL;
  if (tli_recording((tl_Tensor *[]){grad, query, key, value, mask}, 5))
    return recorded(&in, a, want, out);
  return fused(&in, a, want, out);
}
