/*
** attention_backward.c - the gradients of attention. The attention weights are recomputed block by
** block from the scores and from `norm`, a number for each query that the forward pass has saved.
**
** For a block of scores S with weights P, whose gradient is G = grad_out . value:
**
**   grad_value += P^T . grad_out      dS = P * (G - delta), delta = sum(grad_out * out)
**   grad_query += scale dS . key      grad_key += scale dS^T . query
**
** If there are enough heads, a thread takes one head of keys and computes all three gradients for
** each of its blocks. Otherwise a first pass divides the blocks of keys among threads, a second
** pass divides the blocks of queries, and each pass computes the scores again. Both ways add sums
** in the same order.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/block_walk.h"

typedef struct Call {
  const struct tlk_attention_backward *call;
  tlk_AttentionPlan plan;
  bool query, key, value, mask; /* for each argument, whether this pass computes its gradient */
  /* number of batches and number of key heads in one task; a task contains all heads that add to
  ** the same elements of the mask's gradient, so no two threads add to one element */
  int64_t batches, heads;
  int64_t keys; /* number of keys for which a task accumulates gradients */
  atomic_bool failed, stopped;
} Call;

/* The scratch buffers of one thread. */
typedef struct Work {
  /* copies of rows: queries, gradients of the results, and results */
  void *rows, *grad_rows, *out_rows;
  void *turned, *grad_turned; /* transposes of rows and of grad_rows */
  void *keys, *values;        /* copies */
  void *scores, *grads, *mask, *keep, *packed;
  void *norm, *delta;
  void *grad_query, *grad_key, *grad_value; /* gradients, summed over the blocks so far */
  tlk_Matrix query, grad; /* the current block's queries, and the gradient of their results */
  tlk_Matrix turned_query, turned_grad;
} Work;

/* Rounds n up to a number of rows that a matrix product writes as a whole. */
static int64_t whole_rows(int64_t n) { return tlk_ceil_div(n, TLK_DOT_LINES) * TLK_DOT_LINES; }

static int64_t lay_out(const Call *call, Work *w, void *memory) {
  const tlk_AttentionPlan *p = &call->plan;
  tlk_Carver c = {memory, 0};
  int64_t queries = p->queries * p->size, keys = p->keys * p->size, block = p->keys * queries;
  w->rows = tlk_carve(&c, queries * p->width);
  w->grad_rows = tlk_carve(&c, queries * p->value_width);
  w->out_rows = tlk_carve(&c, queries * p->value_width);
  w->turned = tlk_carve(&c, queries * p->width);
  w->grad_turned = tlk_carve(&c, queries * p->value_width);
  w->keys = tlk_carve(&c, keys * p->width);
  w->values = tlk_carve(&c, keys * p->value_width);
  w->scores = tlk_carve(&c, block);
  w->grads = tlk_carve(&c, block);
  w->mask = tlk_carve(&c, p->a->mask.array.data ? 3 * block : 0);
  w->keep = tlk_carve(&c, p->a->dropout > 0 ? block : 0);
  w->norm = tlk_carve(&c, queries);
  w->delta = tlk_carve(&c, queries);
  w->packed = tlk_carve(&c, tlk_attention_packed(p));
  w->grad_query = tlk_carve(&c, queries * p->width);
  w->grad_key = tlk_carve(&c, whole_rows(call->keys) * p->width * p->size);
  w->grad_value = tlk_carve(&c, whole_rows(call->keys) * p->value_width * p->size);
  return c.used;
}

static void *row_of(const tlk_AttentionPlan *p, void *rows, int64_t row, int64_t width) {
  return (char *)rows + row * width * p->size;
}

/* ---- a block of queries ---- */

/* Loads the values `norm` of a block's queries, and computes delta = sum(grad_out * out) for each
** query. Both arrays are padded with zeros. */
static void take_numbers(const Call *c, Work *w, const tlk_AttentionBlock *block) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  int64_t first = (block->b * a->heads + block->h) * a->queries + block->query;
  int64_t b = block->b, h = block->h, n = block->queries;
  tlk_Matrix out = tlk_attention_numbers(p, &c->call->out, b, h, block->query, n, a->value_size,
                                         false, w->out_rows);
  tlk_Matrix grad = w->grad;
  if (grad.half)
    grad = tlk_attention_numbers(p, &c->call->grad_out, b, h, block->query, n, a->value_size, false,
                                 w->grad_rows);
  memset(w->norm, 0, (size_t)(block->cols * p->size));
  memset(w->delta, 0, (size_t)(block->cols * p->size));
  memcpy(w->norm, (const char *)c->call->norm + first * p->size, (size_t)(n * p->size));
  for (int64_t i = 0; i < n; i++) {
    double delta = p->loops->dot(a->value_size, (const char *)grad.at + i * grad.row * p->size,
                                 (const char *)out.at + i * out.row * p->size);
    if (p->size == 8)
      ((double *)w->delta)[i] = delta;
    else
      ((float *)w->delta)[i] = (float)delta;
  }
}

static void take_queries(const Call *c, Work *w, const tlk_AttentionBlock *block) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  int64_t n = block->queries;
  w->query =
      tlk_attention_rows(p, &a->query, block->b, block->h, block->query, n, a->size, true, w->rows);
  w->grad = tlk_attention_rows(p, &c->call->grad_out, block->b, block->h, block->query, n,
                               a->value_size, true, w->grad_rows);
  w->turned_query = tlk_attention_turn(p, w->query, n, a->size, block->cols, w->turned);
  if (!w->turned_query.half) p->loops->scale(a->size * block->cols, w->turned, a->scale);
  w->turned_grad = tlk_attention_turn(p, w->grad, n, a->value_size, block->cols, w->grad_turned);
  take_numbers(c, w, block);
}

/* ---- a block of scores ---- */

/* Adds the gradients of a block's scores, which are also those of the additive mask, to the mask's
** gradient, one query at a time. */
static void add_mask(const Call *c, Work *w, const tlk_AttentionBlock *block) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_HeadPairs *m = &c->call->grad_mask;
  int64_t at = block->b * m->batch + block->h * m->head + block->query * m->query + block->key;
  char *to = (char *)m->array.data + at * p->size;
  int64_t row = block->keys * p->size;
  p->isa->move[p->size == 8 ? 3 : 2](w->mask, p->size, row, w->grads, block->cols * p->size,
                                     p->size, block->keys, block->queries);
  for (int64_t i = 0; i < block->queries; i++, to += m->query * p->size)
    p->loops->add(block->keys, to, (char *)w->mask + i * row);
}

/* Adds the contribution of a block to all gradients. `first` is the index of the block's first key
** among the keys of the task. */
static void add_block(const Call *c, Work *w, const tlk_AttentionBlock *block, int64_t first) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  int64_t n = block->keys * block->cols;
  tlk_Matrix weights = {.at = w->scores, .row = block->cols, .col = 1};
  tlk_Matrix grads = {.at = w->grads, .row = block->cols, .col = 1};
  tlk_Matrix keys = tlk_attention_rows(p, &a->key, block->b, block->kv, block->key, block->keys,
                                       a->size, c->query, w->keys);
  if (!tlk_attention_scores(p, block, keys, w->turned_query, w->mask, w->scores, w->packed)) return;
  tlk_Matrix values = tlk_attention_rows(p, &a->value, block->b, block->kv, block->key, block->keys,
                                         a->value_size, false, w->values);
  tlk_attention_product(p, block->keys, a->value_size, block->cols, values, w->turned_grad, false,
                        w->grads, block->cols, w->packed);
  bool dropped = tlk_attention_keep(p, block, w->keep);
  p->loops->gradient(block->keys, block->cols, w->scores, w->grads, dropped ? w->keep : NULL,
                     w->norm, w->delta);
  if (c->mask) add_mask(c, w, block);
  if (a->scale != 1) p->loops->scale(n, w->grads, a->scale);
  if (c->value)
    tlk_attention_product(p, block->keys, block->queries, p->value_width, weights, w->grad, true,
                          row_of(p, w->grad_value, first, p->value_width), p->value_width,
                          w->packed);
  if (c->key)
    tlk_attention_product(p, block->keys, block->queries, p->width, grads, w->query, true,
                          row_of(p, w->grad_key, first, p->width), p->width, w->packed);
  if (c->query)
    tlk_attention_product(p, block->queries, block->keys, p->width,
                          (tlk_Matrix){.at = w->grads, .row = 1, .col = block->cols}, keys, true,
                          w->grad_query, p->width, w->packed);
}

/* Adds the contributions of all keys to the gradients, for one block of queries. */
static void run_queries(const Call *c, Work *w, tlk_AttentionBlock block) {
  const tlk_AttentionPlan *p = &c->plan;
  take_queries(c, w, &block);
  if (c->query) memset(w->grad_query, 0, (size_t)(block.cols * p->width * p->size));
  for (int64_t j = 0; j < p->key_blocks && tlk_attention_keys(p, j, &block); j++)
    add_block(c, w, &block, block.key);
  if (c->query)
    tlk_attention_store(p, &c->call->grad_query, block.b, block.h, block.query, block.queries,
                        p->a->size, w->grad_query, p->width);
}

/* ---- tasks ---- */

/* Computes the gradients of `n` keys of one head, beginning at key `first`, by going through all
** queries of all heads that use these keys. The keys are those of block j, or of all blocks if j is
** negative. */
static bool run_keys(Call *c, Work *w, int64_t b, int64_t kv, int64_t j, int64_t first, int64_t n) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  int64_t group = a->heads / a->kv_heads;
  memset(w->grad_key, 0, (size_t)(whole_rows(n) * p->width * p->size));
  memset(w->grad_value, 0, (size_t)(whole_rows(n) * p->value_width * p->size));
  for (int64_t i = 0; i < group * p->query_blocks; i++) {
    if (tli_interrupted()) return false;
    tlk_AttentionBlock block =
        tlk_attention_queries(p, b, kv * group + i / p->query_blocks, i % p->query_blocks);
    if (j < 0) {
      run_queries(c, w, block);
    } else if (tlk_attention_keys(p, j, &block)) {
      take_queries(c, w, &block);
      add_block(c, w, &block, 0);
    }
  }
  if (c->key)
    tlk_attention_store(p, &c->call->grad_key, b, kv, first, n, a->size, w->grad_key, p->width);
  if (c->value)
    tlk_attention_store(p, &c->call->grad_value, b, kv, first, n, a->value_size, w->grad_value,
                        p->value_width);
  return true;
}

/* Runs task n of the pass over keys. */
static bool run_key_task(Call *c, Work *w, int64_t n) {
  const tlk_AttentionPlan *p = &c->plan;
  const tlk_Attention *a = p->a;
  bool all = c->keys == a->keys;
  int64_t j = all ? -1 : n % p->key_blocks, unit = all ? n : n / p->key_blocks;
  int64_t first = all ? 0 : j * p->keys, keys = tlk_min(c->keys, a->keys - first);
  int64_t across = a->kv_heads / c->heads;
  int64_t b = unit / across * c->batches, kv = unit % across * c->heads;
  for (int64_t i = 0; i < c->batches * c->heads; i++)
    if (!run_keys(c, w, b + i / c->heads, kv + i % c->heads, j, first, keys)) return false;
  return true;
}

static bool run_query_task(Call *c, Work *w, int64_t n) {
  const tlk_AttentionPlan *p = &c->plan;
  int64_t head = n / p->query_blocks;
  run_queries(
      c, w, tlk_attention_queries(p, head / p->a->heads, head % p->a->heads, n % p->query_blocks));
  return !tli_interrupted();
}

static void run_tasks(Call *c, int64_t begin, int64_t end, bool (*task)(Call *, Work *, int64_t)) {
  Work w;
  size_t bytes = (size_t)lay_out(c, &w, NULL);
  void *memory = tli_alloc(bytes);
  if (memory == NULL) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  lay_out(c, &w, memory);
  for (int64_t n = begin; n < end; n++)
    if (!task(c, &w, n)) {
      atomic_store_explicit(&c->stopped, true, memory_order_relaxed);
      break;
    }
  tli_free(memory, bytes);
}

static void run_key_tasks(void *context, int64_t begin, int64_t end) {
  run_tasks(context, begin, end, run_key_task);
}

static void run_query_tasks(void *context, int64_t begin, int64_t end) {
  run_tasks(context, begin, end, run_query_task);
}

static bool run(Call *c, int64_t tasks, int64_t work, tli_RangeFn fn) {
  TL_TRY(tli_parallel_try(tasks, TLK_GRAIN * 8 / (work + 1) + 1, fn, c));
  if (atomic_load_explicit(&c->stopped, memory_order_relaxed)) return tli_go_on();
  if (atomic_load_explicit(&c->failed, memory_order_relaxed))
    return tli_fail(TL_EMEM, "scaled_dot_product_attention: out of memory");
  return true;
}

/* ---- the passes ---- */

/* The number of matrix products for each block: with separate passes over keys and over queries,
** and with a single pass that computes all gradients. */
enum { PRODUCTS_APART = 7, PRODUCTS_TOGETHER = 5 };

/* Returns whether this number of tasks is large enough for a single pass. With fewer tasks some
** threads would be idle, and two passes are faster although they compute some products twice. */
static bool enough(int64_t tasks) {
  int64_t threads = tl_get_num_threads();
  return tlk_ceil_div(tasks, threads) * threads * PRODUCTS_TOGETHER <= tasks * PRODUCTS_APART;
}

static bool key_pass(Call *c, int64_t units, int64_t work, bool together) {
  c->keys = together ? c->plan.a->keys : tlk_min(c->plan.keys, c->plan.a->keys);
  int64_t blocks = c->keys == c->plan.a->keys ? 1 : c->plan.key_blocks;
  return run(c, units * blocks, work * c->keys, run_key_tasks);
}

static bool run_passes(Call *c) {
  const tlk_Attention *a = c->plan.a;
  bool keys = c->key || c->value || c->mask;
  int64_t units = a->batch / c->batches * (a->kv_heads / c->heads);
  int64_t each = a->queries * (a->size + a->value_size + 8) * 2;
  int64_t work = each * c->batches * c->heads * (a->heads / a->kv_heads);
  if (keys && c->query && enough(units)) return key_pass(c, units, work, true);
  bool query = c->query;
  c->query = false;
  if (keys) TL_TRY(key_pass(c, units, work, false));
  if (!query) return true;
  c->key = c->value = c->mask = false;
  c->query = true;
  c->keys = 0;
  return run(c, a->batch * a->heads * c->plan.query_blocks,
             each / a->queries * c->plan.queries * a->keys, run_query_tasks);
}

bool tlk_attention_backward(const struct tlk_attention_backward *call) {
  const tlk_Attention *a = &call->attention;
  const tlk_HeadPairs *mask = &call->grad_mask;
  Call c = {.call = call,
            .query = call->grad_query.data != NULL && a->size > 0,
            .key = call->grad_key.data != NULL && a->size > 0,
            .value = call->grad_value.data != NULL,
            .mask = mask->array.data != NULL,
            .batches = 1,
            .heads = 1};
  if (c.mask && mask->batch == 0) c.batches = a->batch;
  if (c.mask && mask->head == 0) c.heads = a->kv_heads;
  tlk_attention_plan(a, &c.plan);
  return run_passes(&c);
}
