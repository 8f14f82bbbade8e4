/*
** cached_attention.c - attention over caches of keys and values, for steps of generation. Keys and
** values in fewer bits are converted block by block, so that they stay in the cache of the
** processor. The query heads that share a key head are the rows of one product.
*/
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/kernel/blocks.h"
#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/block_walk.h"

enum { GROUP = 32 /* number of elements of int8 that share a scale */ };

typedef struct Call {
  const struct tlk_cached_attention *call;
  tlk_Attention attention; /* describes the attention for one key head */
  tlk_AttentionPlan plan;
  atomic_bool failed;
} Call;

/* The buffers of one thread. */
typedef struct Work {
  float *turned, *keys, *values, *scores, *out, *largest, *sum, *factor;
} Work;

static int64_t lay_out(const tlk_AttentionPlan *p, Work *w, void *memory) {
  tlk_Carver c = {memory, 0};
  int64_t column = p->queries * 4;
  w->turned = tlk_carve(&c, p->width * column);
  w->keys = tlk_carve(&c, p->keys * p->width * 4);
  w->values = tlk_carve(&c, p->keys * p->width * 4);
  w->scores = tlk_carve(&c, p->keys * column);
  w->out = tlk_carve(&c, p->width * column);
  w->largest = tlk_carve(&c, column);
  w->sum = tlk_carve(&c, column);
  w->factor = tlk_carve(&c, column);
  return c.used;
}

/* ---- storing ---- */

/* Rounds a group to 8 bits and returns its scale, which is NaN if an element is not finite. */
static uint16_t round_group(const float *x, int8_t *q) {
  /* adding this number, 1.5 * 2^23, and subtracting it again rounds a float to an integer */
  const float rounder = 12582912.0f;
  uint32_t most = 0;
  for (int i = 0; i < GROUP; i++) {
    uint32_t bits = tli_float_bits(x[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  uint16_t scale = tli_f32_to_f16(tli_bits_float(most) / 127);
  float wide = tli_f16_to_f32(scale), by = wide > 0 ? 1 / wide : 0;
  if (!(wide <= 65504)) {
    memset(q, 0, GROUP);
    return tli_f32_to_f16(NAN);
  }
  for (int i = 0; i < GROUP; i++) {
    float v = x[i] * by + rounder - rounder;
    q[i] = (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
  }
  return scale;
}

static void store_row(const Call *c, const float *from, void *rows, uint16_t *scales, int64_t row) {
  int64_t n = c->call->size;
  if (c->call->stored != TL_I8) {
    int64_t bytes = tli_dtype_bytes[c->call->stored];
    if (bytes == 4)
      memcpy((char *)rows + row * n * 4, from, (size_t)n * 4);
    else
      c->plan.isa->convert[TL_F32][TL_F16](n, (char *)rows + row * n * 2, from);
    return;
  }
  for (int64_t g = 0; g < n / GROUP; g++)
    scales[row * (n / GROUP) + g] =
        round_group(from + g * GROUP, (int8_t *)rows + row * n + g * GROUP);
}

static const float *row_at(const tlk_HeadRows *rows, int64_t head, int64_t row) {
  return (const float *)rows->data + head * rows->head + row * rows->row;
}

/* ---- one block of keys ---- */

/* Returns n stored rows as a matrix of float32, beginning with row `first`. The matrix is the
** stored rows themselves if possible, otherwise a copy in `buffer`. `right` is set if the matrix
** will be the right factor of a matrix product: its rows must then be padded to whole vectors. */
static tlk_Matrix load_rows(const Call *c, const void *rows, const uint16_t *scales, int64_t first,
                            int64_t n, bool right, float *buffer) {
  int64_t size = c->call->size, width = c->plan.width;
  tl_DType stored = c->call->stored;
  const char *at = (const char *)rows + first * size * tli_dtype_bytes[stored];
  if (stored == TL_F32 && (!right || width == size)) return (tlk_Matrix){at, size, 1, false, size};
  tlk_Convert convert = c->plan.isa->convert[stored][TL_F32];
  if (width == size) {
    convert(n * size, buffer, at);
  } else {
    for (int64_t r = 0; r < n; r++) {
      convert(size, buffer + r * width, at + r * size * tli_dtype_bytes[stored]);
      memset(buffer + r * width + size, 0, (size_t)(width - size) * 4);
    }
  }
  if (stored == TL_I8)
    for (int64_t r = 0; r < n; r++)
      for (int64_t g = 0; g < size / GROUP; g++) {
        float scale = tli_f16_to_f32(scales[(first + r) * (size / GROUP) + g]);
        float *x = buffer + r * width + g * GROUP;
        for (int i = 0; i < GROUP; i++) x[i] *= scale;
      }
  return (tlk_Matrix){buffer, width, 1, false, size};
}

/* Adds the contribution of keys [first, first + n) of a key head to the sums of a single query.
** Keys and values in float16 are read in place. */
static void add_keys_of_one(const Call *c, const Work *w, const tlk_Cache *cache, int64_t row,
                            int64_t n) {
  int64_t size = c->call->size;
  bool half = c->call->stored == TL_F16;
  const void *keys = (const uint16_t *)cache->keys + row * size,
             *values = (const uint16_t *)cache->values + row * size;
  if (!half) {
    keys = load_rows(c, cache->keys, cache->key_scales, row, n, false, w->keys).at;
    values = load_rows(c, cache->values, cache->value_scales, row, n, false, w->values).at;
  }
  c->plan.loops->one_query(n, size, w->turned, keys, values, half, w->scores, w->largest, w->sum,
                           w->out);
}

/* Adds the contribution of keys [first, first + n) of a key head to the sums of `queries`
** queries. */
static void add_keys(const Call *c, const Work *w, const tlk_Cache *cache, int64_t head,
                     int64_t first, int64_t n, int64_t queries, bool begun) {
  const tlk_AttentionPlan *p = &c->plan;
  int64_t cols = p->queries, row = head * cache->capacity + first;
  if (queries == 1) {
    add_keys_of_one(c, w, cache, row, n);
    return;
  }
  tlk_Matrix turned = {w->turned, cols, 1, false, cols};
  tlk_Matrix keys = load_rows(c, cache->keys, cache->key_scales, row, n, false, w->keys);
  tlk_attention_product(p, n, c->call->size, cols, keys, turned, false, w->scores, cols, NULL);
  p->loops->softmax(n, cols, w->scores, w->largest, w->sum, w->factor);
  for (int64_t i = 0; begun && i < queries; i++)
    if (w->factor[i] != 1) p->loops->scale(p->width, w->out + i * p->width, w->factor[i]);
  tlk_Matrix values = load_rows(c, cache->values, cache->value_scales, row, n, true, w->values);
  tlk_attention_product(p, queries, n, p->width,
                        (tlk_Matrix){.at = w->scores, .row = 1, .col = cols}, values, begun, w->out,
                        p->width, NULL);
}

/* Computes the attention of one position to the keys [begin, end), for `n` query heads from `head`
** on. */
static void attend(const Call *c, const Work *w, const tlk_Cache *cache, int64_t head, int64_t n,
                   int64_t position, int64_t begin, int64_t end) {
  const tlk_AttentionPlan *p = &c->plan;
  const struct tlk_cached_attention *l = c->call;
  tlk_Matrix rows = {row_at(&l->query, head, position), l->query.head, 1, false, l->size};
  if (n == 1) {
    memcpy(w->turned, rows.at, (size_t)l->size * 4);
    memset(w->out, 0, (size_t)l->size * 4);
  } else {
    tlk_attention_turn(p, rows, n, l->size, p->queries, w->turned);
  }
  p->loops->scale(n == 1 ? l->size : l->size * p->queries, w->turned, l->scale);
  for (int64_t i = 0; i < p->queries; i++) {
    w->largest[i] = (float)p->loops->lowest;
    w->sum[i] = 0;
  }
  int64_t kv = head / (l->heads / l->kv_heads);
  for (int64_t first = begin; first < end; first += p->keys)
    add_keys(c, w, cache, kv, first, tlk_min(p->keys, end - first), n, first > begin);
  for (int64_t i = 0; i < n; i++) {
    float *out = (float *)l->out.data + (head + i) * l->out.head + position * l->out.row;
    memcpy(out, w->out + i * p->width, (size_t)l->size * 4);
    p->loops->scale(l->size, out, 1 / (double)w->sum[i]);
  }
}

/* Stores the new keys and values of one key head in the cache, and then computes the attention of
** the queries that use this head. */
static void run_head(const Call *c, const Work *w, const tlk_Cache *cache, int64_t kv) {
  const struct tlk_cached_attention *l = c->call;
  int64_t shared = l->heads / l->kv_heads;
  for (int64_t i = 0; i < cache->count; i++) {
    int64_t position = cache->first + i, row = kv * cache->capacity + cache->used + i;
    store_row(c, row_at(&l->key, kv, position), cache->keys, cache->key_scales, row);
    store_row(c, row_at(&l->value, kv, position), cache->values, cache->value_scales, row);
    int64_t end = cache->used + i + 1;
    int64_t begin = l->window > 0 ? tlk_max(0, end - l->window) : 0;
    for (int64_t h = 0; h < shared; h += c->plan.queries)
      attend(c, w, cache, kv * shared + h, tlk_min(c->plan.queries, shared - h), position, begin,
             end);
  }
}

static void run_heads(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  Work w;
  size_t bytes = (size_t)lay_out(&c->plan, &w, NULL);
  void *memory = tli_alloc(bytes);
  if (memory == NULL) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  lay_out(&c->plan, &w, memory);
  for (int64_t i = begin; i < end; i++)
    run_head(c, &w, &c->call->caches[i / c->call->kv_heads], i % c->call->kv_heads);
  tli_free(memory, bytes);
}

bool tlk_cached_attention(const struct tlk_cached_attention *call) {
  int64_t keys = 1;
  for (int i = 0; i < call->count; i++)
    keys = tlk_max(keys, (call->caches[i].used + 1) * call->caches[i].count);
  Call c = {.call = call,
            .attention = {.dtype = TL_F32,
                          .batch = 1,
                          .heads = 1,
                          .kv_heads = 1,
                          .queries = call->heads / call->kv_heads,
                          .keys = keys,
                          .size = call->size,
                          .value_size = call->size}};
  tlk_attention_plan(&c.attention, &c.plan);
  int64_t work = c.plan.queries * keys * (2 * call->size + 8);
  TL_TRY(tli_parallel_try(call->count * call->kv_heads, TLK_GRAIN * 8 / work + 1, run_heads, &c));
  if (atomic_load_explicit(&c.failed, memory_order_relaxed))
    return tli_fail(TL_EMEM, "_cached_attention: out of memory");
  return true;
}
