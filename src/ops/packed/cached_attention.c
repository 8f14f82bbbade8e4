/*
** cached_attention.c - attention over caches of keys and values. The caches are changed in place.
*/
#include <math.h>

#include "ops/chain.h"

static const char op[] = "_cached_attention";

enum { GROUP = 32 /* number of elements of int8 that share a scale */ };

typedef struct Call {
  tl_Tensor *query, *key, *value; /* the operands, whose rows are contiguous */
  tl_Tensors stored;
  tl_Ints used, counts;
  /* number of tensors of each cache: keys and values, and their scales if the cache is int8 */
  int per_cache;
} Call;

/* ---- checks ---- */

static bool check_rows(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value) {
  tl_Tensor *all[3] = {query, key, value};
  static const char *const names[3] = {"query", "key", "value"};
  for (int k = 0; k < 3; k++) {
    if (all[k]->dtype != TL_F32)
      return tli_fail(TL_EDTYPE, "%s: %s: expected float32, got %s", op, names[k],
                      tl_dtype_name((tl_DType)all[k]->dtype));
    if (all[k]->ndim != 4 || all[k]->sizes[0] != 1)
      return tli_fail(TL_ESHAPE, "%s: %s: expected (1, heads, positions, features), got shape %s",
                      op, names[k], tli_sizes_str(all[k]));
  }
  const int64_t *q = query->sizes, *k = key->sizes;
  bool same = true;
  for (int d = 0; d < 4; d++) same = same && k[d] == value->sizes[d];
  if (!same || k[1] == 0 || q[1] == 0 || q[1] % k[1] != 0 || q[2] != k[2] || q[3] != k[3] ||
      q[3] == 0)
    return tli_fail(TL_ESHAPE, "%s: query %s, key %s and value %s do not fit", op,
                    tli_sizes_str(query), tli_sizes_str(key), tli_sizes_str(value));
  if (tli_recording(all, 3))
    return tli_fail(TL_EARG, "%s: cached keys have no gradients: call it in torch.no_grad", op);
  return tli_same_device_all(op, all, 3);
}

/* Returns whether two contiguous tensors have bytes in common. */
static bool share_memory(const tl_Tensor *a, const tl_Tensor *b) {
  uintptr_t x = (uintptr_t)tli_data(a), y = (uintptr_t)tli_data(b);
  return x < y + (uintptr_t)(b->numel * tli_dtype_bytes[b->dtype]) &&
         y < x + (uintptr_t)(a->numel * tli_dtype_bytes[a->dtype]);
}

/* Checks tensor i of the list `stored`. The cache to which it belongs must have room for `need`
** keys. */
static bool check_stored(const Call *c, int64_t i, int64_t need) {
  tl_Tensor *t = c->stored.v[i];
  int part = (int)(i % c->per_cache);
  const tl_Tensor *first = c->stored.v[i - part];
  const int64_t *k = c->key->sizes;
  int64_t features = part < 2 ? k[3] : k[3] / GROUP;
  tl_DType dtype = part < 2 ? (tl_DType)c->stored.v[0]->dtype : TL_F16;
  if ((tl_DType)t->dtype != dtype)
    return tli_fail(TL_EDTYPE, "%s: stored[" TLI_POS "]: expected %s, got %s", op, i,
                    tl_dtype_name(dtype), tl_dtype_name((tl_DType)t->dtype));
  bool fits = t->ndim == 4 && t->sizes[0] == 1 && t->sizes[1] == k[1] && t->sizes[2] >= need &&
              t->sizes[3] == features && first->ndim == 4 && t->sizes[2] == first->sizes[2];
  if (!fits || !tli_contiguous(t))
    return tli_fail(TL_ESHAPE,
                    "%s: stored[" TLI_POS
                    "]: expected a contiguous tensor (1, %lld, at least %lld, "
                    "%lld), got %s of shape %s",
                    op, i, (long long)k[1], (long long)need, (long long)features,
                    tli_contiguous(t) ? "one" : "strides", tli_sizes_str(t));
  for (int64_t j = 0; j < i && tli_has_values(t); j++)
    if (share_memory(t, c->stored.v[j]))
      return tli_fail(TL_EARG, "%s: stored[" TLI_POS "] and stored[" TLI_POS "] share memory", op,
                      j, i);
  TL_TRY(tli_same_device_all(op, (tl_Tensor *[]){c->query, t}, 2));
  return tli_inplace_check(op, t);
}

static bool check_caches(Call *c) {
  int64_t n = c->used.n, total = 0;
  bool known = c->stored.n > 0;
  tl_DType dtype = known ? (tl_DType)c->stored.v[0]->dtype : TL_F32;
  if (dtype != TL_F32 && dtype != TL_F16 && dtype != TL_I8)
    return tli_fail(TL_EDTYPE, "%s: stored: expected float32, float16 or int8, got %s", op,
                    tl_dtype_name(dtype));
  c->per_cache = dtype == TL_I8 ? 4 : 2;
  if (c->counts.n != n || c->stored.n != n * c->per_cache)
    return tli_fail(TL_EARG,
                    "%s: expected as many counts as used, and %d tensors for each; got %lld, "
                    "%lld and %lld",
                    op, c->per_cache, (long long)c->counts.n, (long long)n, (long long)c->stored.n);
  if (dtype == TL_I8 && c->key->sizes[3] % GROUP != 0)
    return tli_fail(TL_ESHAPE, "%s: int8: expected a multiple of %d features, got %lld", op, GROUP,
                    (long long)c->key->sizes[3]);
  for (int64_t i = 0; i < n; i++) {
    int64_t used = c->used.v[i], count = c->counts.v[i];
    if (used < 0 || count < 0 || used > INT32_MAX || count > INT32_MAX)
      return tli_fail(TL_EARG, "%s: used, counts: expected numbers of positions, got %lld and %lld",
                      op, (long long)used, (long long)count);
    total += count;
    for (int k = 0; k < c->per_cache; k++)
      TL_TRY(check_stored(c, i * c->per_cache + k, used + count));
  }
  return total == c->query->sizes[2] ||
         tli_fail(TL_EARG, "%s: counts: expected the sum %lld, the number of queries, got %lld", op,
                  (long long)c->query->sizes[2], (long long)total);
}

/* ---- the calls ---- */

static tlk_HeadRows rows_of(const tl_Tensor *t) {
  return (tlk_HeadRows){tli_data(t), 0, t->strides[1], t->strides[2]};
}

static tlk_Cache cache_of(const Call *c, int64_t i, int64_t first) {
  tl_Tensor *const *own = c->stored.v + i * c->per_cache;
  bool scaled = c->per_cache == 4;
  return (tlk_Cache){.keys = tli_data(own[0]),
                     .values = tli_data(own[1]),
                     .key_scales = scaled ? tli_data(own[2]) : NULL,
                     .value_scales = scaled ? tli_data(own[3]) : NULL,
                     .capacity = own[0]->sizes[2],
                     .used = c->used.v[i],
                     .first = first,
                     .count = c->counts.v[i]};
}

static bool run(const Call *c, double scale, int64_t window, const tl_Tensor *out) {
  const int64_t *q = c->query->sizes;
  struct tlk_cached_attention call = {.stored = (tl_DType)c->stored.v[0]->dtype,
                                      /* out is (positions, heads, features) */
                                      .out = {tli_data(out), 0, q[3], q[1] * q[3]},
                                      .query = rows_of(c->query),
                                      .key = rows_of(c->key),
                                      .value = rows_of(c->value),
                                      .heads = q[1],
                                      .kv_heads = c->key->sizes[1],
                                      .size = q[3],
                                      .window = window,
                                      .scale = isnan(scale) ? 1 / sqrt((double)q[3]) : scale,
                                      .cx = tli_context(tli_device(c->query))};
  int64_t first = 0;
  for (int64_t i = 0; i < c->used.n;) {
    for (call.count = 0; call.count < TLK_CACHES && i < c->used.n; call.count++, i++) {
      call.caches[call.count] = cache_of(c, i, first);
      first += c->counts.v[i];
    }
    TL_TRY(tli_backend(tli_device(c->query))->cached_attention(&call));
  }
  for (int64_t i = 0; i < c->stored.n; i++) TL_TRY(tli_inplace_done(op, c->stored.v[i], NULL));
  return true;
}

/* Returns the tensor itself if each row is contiguous, otherwise a copy. */
static tl_Tensor *with_rows(tl_Tensor *t) {
  return t->strides[3] == 1 || t->sizes[3] == 1 ? tli_retain(t) : tli_contiguous_as(t, TL_F32);
}

static tl_Tensor *compute(Call *c, double scale, int64_t window) {
  const int64_t *q = c->query->sizes;
  int64_t sizes[4] = {1, q[2], q[1], q[3]};
  TL_TRY_NULL(check_caches(c));
  tl_Tensor *out = tli_empty(TL_F32, tli_device(c->query), 4, sizes);
  TL_TRY_NULL(out);
  tl_Tensor *result = NULL;
  if (out->numel == 0 || run(c, scale, window, out)) result = tlo_transpose(out, 1, 2);
  tli_release(out);
  return result;
}

tl_Tensor *tlo__cached_attention(tl_Tensor *query, tl_Tensor *key, tl_Tensor *value,
                                 tl_Tensors stored, tl_Ints used, tl_Ints counts, double scale,
                                 int64_t window) {
  TL_TRY_NULL(check_rows(query, key, value));
  if (window < 0)
    return tli_fail_null(TL_EARG, "%s: window: expected at least 0, got %lld", op,
                         (long long)window);
  Call c = {.query = with_rows(query),
            .key = with_rows(key),
            .value = with_rows(value),
            .stored = stored,
            .used = used,
            .counts = counts};
  tl_Tensor *result = c.query && c.key && c.value ? compute(&c, scale, window) : NULL;
  tli_release(c.query);
  tli_release(c.key);
  tli_release(c.value);
  return result;
}
