/*
** attention.c - the forward pass of attention, one block of queries at a time. Each block of
** queries reads the keys once, block by block, and updates a running softmax: a larger score
** rescales the earlier sums. So only one block of scores is in memory at a time.
*/
#include "core/kernel/elementary.h"
#include "kernels/cpu/attention/attention.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"

typedef struct Call {
  const struct tlk_attention *call;
  tlk_AttentionPlan plan;
  atomic_bool failed;
} Call;

/* The scratch buffers of one thread. */
typedef struct Work {
  void *rows, *turned; /* rows of queries, and the transpose of these rows */
  void *keys, *values; /* copies */
  void *scores, *mask, *keep, *packed;
  void *out; /* running sums of weighted values */
  void *largest, *sum, *factor;
} Work;

static int64_t lay_out(const tlk_AttentionPlan *p, Work *w, void *memory) {
  tlk_Carver c = {memory, 0};
  int64_t size = p->size, queries = p->queries * size, block = p->keys * queries;
  w->rows = tlk_carve(&c, p->queries * p->width * size);
  w->turned = tlk_carve(&c, p->width * queries);
  w->keys = tlk_carve(&c, p->keys * p->width * size);
  w->values = tlk_carve(&c, p->keys * p->value_width * size);
  w->scores = tlk_carve(&c, block);
  w->mask = tlk_carve(&c, p->a->mask.array.data ? 3 * block : 0);
  w->keep = tlk_carve(&c, p->a->dropout > 0 ? block : 0);
  w->out = tlk_carve(&c, p->queries * p->value_width * size);
  w->packed = tlk_carve(&c, tlk_attention_packed(p));
  w->largest = tlk_carve(&c, queries);
  w->sum = tlk_carve(&c, queries);
  w->factor = tlk_carve(&c, queries);
  return c.used;
}

static double number_at(const tlk_AttentionPlan *p, const void *array, int64_t i) {
  return p->size == 8 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

static void put_number(const tlk_AttentionPlan *p, void *array, int64_t i, double x) {
  if (p->size == 8)
    ((double *)array)[i] = x;
  else
    ((float *)array)[i] = (float)x;
}

/* Adds the contribution of a block of keys to the running sums, unless all scores of the block are
** masked. `begun` tells whether the sums already contain an earlier block. Returns whether the sums
** contain any block after the call. */
static bool add_keys(const Call *c, const Work *w, const tlk_AttentionBlock *block,
                     tlk_Matrix turned, bool begun) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  tlk_Matrix keys = tlk_attention_rows(p, &a->key, block->b, block->kv, block->key, block->keys,
                                       a->size, false, w->keys);
  if (!tlk_attention_scores(p, block, keys, turned, w->mask, w->scores, w->packed)) return begun;
  p->loops->softmax(block->keys, block->cols, w->scores, w->largest, w->sum, w->factor);
  if (tlk_attention_keep(p, block, w->keep))
    p->loops->multiply(block->keys * block->cols, w->scores, w->keep);
  for (int64_t i = 0; begun && i < block->queries; i++) {
    double factor = number_at(p, w->factor, i);
    if (factor != 1)
      p->loops->scale(p->value_width, (char *)w->out + i * p->value_width * p->size, factor);
  }
  tlk_Matrix values = tlk_attention_rows(p, &a->value, block->b, block->kv, block->key, block->keys,
                                         a->value_size, true, w->values);
  tlk_attention_product(p, block->queries, block->keys, p->value_width,
                        (tlk_Matrix){.at = w->scores, .row = 1, .col = block->cols}, values, begun,
                        w->out, p->value_width, w->packed);
  return true;
}

/* Divides the weighted sums of values by the sums of exponentials, which completes the softmax. */
static void finish(const Call *c, const Work *w, const tlk_AttentionBlock *block) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  int64_t row = p->value_width * p->size;
  for (int64_t i = 0; i < block->queries; i++) {
    double sum = number_at(p, w->sum, i);
    char *out = (char *)w->out + i * row;
    if (sum == 0)
      memset(out, 0, (size_t)row);
    else
      p->loops->scale(p->value_width, out, 1 / sum);
    put_number(p, c->call->norm, (block->b * a->heads + block->h) * a->queries + block->query + i,
               sum == 0 ? 0 : number_at(p, w->largest, i) + tli_log(sum));
  }
  tlk_attention_store(p, &c->call->out, block->b, block->h, block->query, block->queries,
                      a->value_size, w->out, p->value_width);
}

static void run_block(const Call *c, const Work *w, tlk_AttentionBlock block) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  tlk_Matrix rows = tlk_attention_rows(p, &a->query, block.b, block.h, block.query, block.queries,
                                       a->size, false, w->rows);
  tlk_Matrix turned = tlk_attention_turn(p, rows, block.queries, a->size, block.cols, w->turned);
  if (!turned.half) p->loops->scale(a->size * block.cols, w->turned, a->scale);
  for (int64_t i = 0; i < block.cols; i++) {
    put_number(p, w->largest, i, p->loops->lowest);
    put_number(p, w->sum, i, 0);
  }
  bool begun = false;
  for (int64_t j = 0; j < p->key_blocks && tlk_attention_keys(p, j, &block); j++)
    begun = add_keys(c, w, &block, turned, begun);
  finish(c, w, &block);
}

/* Computes the results of blocks [begin, end) of queries, where blocks are numbered head by head
** through all samples. */
static void run_blocks(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  const tlk_AttentionPlan *p = &c->plan;
  Work w;
  size_t bytes = (size_t)lay_out(p, &w, NULL);
  void *memory = tli_alloc(bytes);
  if (memory == NULL) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  lay_out(p, &w, memory);
  for (int64_t n = begin; n < end; n++) {
    int64_t head = n / p->query_blocks;
    run_block(
        c, &w,
        tlk_attention_queries(p, head / p->a->heads, head % p->a->heads, n % p->query_blocks));
  }
  tli_free(memory, bytes);
}

bool tlk_attention(const struct tlk_attention *call) {
  const tlk_Attention *a = &call->attention;
  int64_t heads = a->batch * a->heads;
  Call c = {.call = call};
  tlk_attention_plan(a, &c.plan);
  int64_t work = c.plan.queries * a->keys * (a->size + a->value_size + 8);
  TL_TRY(tli_parallel_try(heads * c.plan.query_blocks, TLK_GRAIN * 8 / work + 1, run_blocks, &c));
  if (atomic_load_explicit(&c.failed, memory_order_relaxed))
    return tli_fail(TL_EMEM, "scaled_dot_product_attention: out of memory");
  return true;
}
