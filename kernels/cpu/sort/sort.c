/*
** sort.c - sorting rows and selecting from them. Each element of a row becomes an item, which
** consists of a key and the element's position. Keys of up to 32 bits share one word with the
** position. Threads share the rows, or the sort of a single long row.
*/
#include "kernels/cpu/sort/sort.h"

#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/kernel/element.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"

/* ---- keys ---- */

static bool is_wide(tl_DType dtype, int64_t n) {
  return tli_dtype_bytes[dtype] == 8 || n > UINT32_MAX;
}

static uint32_t key_of_float(float x) {
  uint32_t u = tli_float_bits(x == 0 ? 0.0f : x);
  uint32_t key = u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
  return x != x ? 0xffffffffu : key;
}

static uint64_t key_of_double(double x) {
  double plain = x == 0 ? 0.0 : x;
  uint64_t u;
  memcpy(&u, &plain, sizeof u);
  uint64_t key = u ^ (u >> 63 ? UINT64_MAX : (uint64_t)1 << 63);
  return x != x ? UINT64_MAX : key;
}

static uint64_t key_of_i32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
static uint64_t key_of_i64(int64_t x) { return (uint64_t)x ^ ((uint64_t)1 << 63); }

/* Returns the key of an element. Elements of up to 32 bits have keys of 32 bits. */
#define KEY_OF(x)                   \
  _Generic((x), float               \
           : key_of_float, double   \
           : key_of_double, int32_t \
           : key_of_i32, int64_t    \
           : key_of_i64)(x)

/* Calls X(name) for each dtype that can be sorted. Complex numbers cannot; operators refuse
** them. */
#define SORTED_FLOAT(name, X) X(name)
#define SORTED_INT(name, X) X(name)
#define SORTED_BOOL(name, X) X(name)
#define SORTED_COMPLEX(name, X)
#define SORTED(name, text, bytes, category, digits, exponent, X) SORTED_##category(name, X)

static inline uint64_t key_at(const void *data, tl_DType dtype, int64_t i) {
  switch (dtype) {
#define CASE(name) \
  case TL_##name: return KEY_OF(tli_read_##name(((const tli_##name *)data)[i]));
    TL_DTYPES(SORTED, CASE)
#undef CASE
  default: return 0;
  }
}

/* Expands to cases of a switch, one for each dtype, in which a loop calls the macro PUT for the
** keys of elements [begin, end) of a row. */
#define KEYS(name)                                                         \
  case TL_##name:                                                          \
    for (int64_t i = begin; i < end; i++) PUT(key_at(data, TL_##name, i)); \
    break;
#define ALL_KEYS            \
  switch (dtype) {          \
    TL_DTYPES(SORTED, KEYS) \
  default: break;           \
  }

/* The keys in a row's items are stored as (key ^ mask) - base. This is the distance from the
** smallest key or, in descending order, from the largest. A distance has at most `bits` bits; for
** integers, this is usually less than the width of the type. */
typedef struct Span {
  uint64_t mask, base;
  int bits;
  bool wide;
} Span;

static Span span_of(const void *data, tl_DType dtype, int64_t n, bool flip) {
  uint64_t low = 0, high = is_wide(dtype, 0) ? UINT64_MAX : 0xffffffffu;
  if (!tli_is_float(dtype) && n > 0) {
    int64_t begin = 0, end = n;
    low = UINT64_MAX;
    high = 0;
#define PUT(key)                  \
  do {                            \
    uint64_t k_ = (key);          \
    low = k_ < low ? k_ : low;    \
    high = k_ > high ? k_ : high; \
  } while (0)
    ALL_KEYS
#undef PUT
  }
  uint64_t most = high - low;
  return (Span){.mask = flip ? UINT64_MAX : 0,
                .base = flip ? ~high : low,
                .bits = most ? 64 - __builtin_clzll((unsigned long long)most) : 0,
                .wide = most > UINT32_MAX || n > UINT32_MAX};
}

typedef struct Make {
  void *items;
  const void *data;
  tl_DType dtype;
  Span span;
} Make;

static void make_items(void *context, int64_t begin, int64_t end) {
  const Make *m = context;
  const void *data = m->data;
  tl_DType dtype = m->dtype;
  uint64_t mask = m->span.mask, base = m->span.base;
  if (m->span.wide) {
    tlk_LargePair *items = m->items;
    /* The other dtypes have keys of up to 32 bits. Their items are wide only in rows of more than
    ** 2^32 elements, whose positions do not fit beside the key. */
#define PUT(k) \
  items[i] = (tlk_LargePair) { ((k) ^ mask) - base, (uint64_t)i }
    switch (dtype) {
      KEYS(F64)
      KEYS(I64)
    default:
      for (int64_t i = begin; i < end; i++) PUT(key_at(data, dtype, i));
    }
#undef PUT
  } else {
    tlk_Pair *items = m->items;
#define PUT(key) items[i] = (((key) ^ mask) - base) << 32 | (uint64_t)i
    ALL_KEYS
#undef PUT
  }
}

/* A loop over a row checks for interruption after this number of elements. */
#define UNASKED (1 << 18)

/* Runs the next statement for parts [begin, end) of a list of n elements. Returns `result` from the
** function if the user interrupts the work. */
#define FOR_PARTS(n, result)                                                                \
  for (int64_t begin = 0, end; end = tlk_min(begin + UNASKED, n), begin < (n); begin = end) \
    if (begin > 0 && !tli_go_on()) {                                                        \
      return result;                                                                        \
    } else

static bool make_keys(uint64_t *keys, const void *data, tl_DType dtype, int64_t n, bool flip) {
  uint64_t mask = !flip ? 0 : is_wide(dtype, 0) ? UINT64_MAX : 0xffffffffu;
#define PUT(k) keys[i] = (k) ^ mask
  FOR_PARTS(n, false)
  ALL_KEYS
#undef PUT
  return true;
}

static uint64_t nan_key(tl_DType dtype) {
  return !tli_is_float(dtype) ? 0 : dtype == TL_F64 ? UINT64_MAX : 0xffffffffu;
}

/* ---- rows ---- */

typedef struct Work {
  tlk_Array in, values;
  int64_t *indices;
  int64_t rows, n, k; /* number of rows, their length, and k, the number of results for each row */
  int64_t size;       /* size of an element in bytes */
  bool flip, alone;
  int64_t rank;
  bool skip_nan;
  atomic_bool failed;
} Work;

/* Stores result number `to` of the row: the value of the element at position `place`, and its
** position. */
static inline void give(const Work *w, int64_t row, int64_t to, int64_t place) {
  if (w->values.data)
    memcpy((char *)w->values.data + (row * w->k + to) * w->size,
           (const char *)w->in.data + (row * w->n + place) * w->size, (size_t)w->size);
  if (w->indices) w->indices[row * w->k + to] = place + 1;
}

static const char *row_data(const Work *w, int64_t row) {
  return (const char *)w->in.data + row * w->n * w->size;
}

/* The sorted items of a row. Either `items` or `wide` holds the items, and the other pointer is
** NULL. */
typedef struct Sorted {
  const Work *work;
  int64_t row;
  const tlk_Pair *items;
  const tlk_LargePair *wide;
  Span span;
} Sorted;

static inline int64_t place_of(const Sorted *s, int64_t i) {
  return s->wide ? (int64_t)s->wide[i].place : (int64_t)(uint32_t)s->items[i];
}

/* Returns the sorted items of a row, or no items if the user interrupts the sort. `memory` has room
** for two lists of items. */
static Sorted sorted_row(const Work *w, int64_t row, void *memory) {
  Make m = {memory, row_data(w, row), w->in.dtype, {0}};
  m.span = span_of(m.data, m.dtype, w->n, w->flip);
  Sorted s = {.work = w, .row = row, .span = m.span};
  if (!w->alone)
    make_items(&m, 0, w->n);
  else if (!tli_parallel_try(w->n, TLK_GRAIN, make_items, &m))
    return s;
  tlk_Pair *items = memory;
  tlk_LargePair *wide = memory;
  if (m.span.wide)
    s.wide = tlk_sort_large_pairs(w->n, m.span.bits, wide, wide + w->n, w->alone);
  else
    s.items = tlk_sort_pairs(w->n, m.span.bits, items, items + w->n, w->alone);
  return s;
}

/* Stores the values [begin, end) of a sorted row. Values of int32 and int64 are computed from their
** keys if an item is one word; other values are loaded from the row. */
static void give_values(const Sorted *s, char *out, int64_t begin, int64_t end) {
  const void *data = row_data(s->work, s->row);
  uint64_t mask = s->span.mask, base = s->span.base;
#define DECODE(type, offset)                                                             \
  for (int64_t i = begin; i < end; i++)                                                  \
    ((type *)(void *)out)[i] = (type)((((s->items[i] >> 32) + base) ^ mask) - (offset)); \
  return
#define FETCH(type)                                                  \
  for (int64_t i = begin; i < end; i++)                              \
    ((type *)(void *)out)[i] = ((const type *)data)[place_of(s, i)]; \
  return
  if (s->items) {
    switch (s->work->in.dtype) {
    case TL_I64: DECODE(uint64_t, (uint64_t)1 << 63);
    case TL_I32: DECODE(uint32_t, 0x80000000u);
    default: break;
    }
  }
  switch (s->work->size) {
  case 8: FETCH(uint64_t);
  case 4: FETCH(uint32_t);
  case 2: FETCH(uint16_t);
  default: FETCH(uint8_t);
  }
#undef DECODE
#undef FETCH
}

static void give_range(void *context, int64_t begin, int64_t end) {
  const Sorted *s = context;
  const Work *w = s->work;
  if (w->values.data) give_values(s, (char *)w->values.data + s->row * w->k * w->size, begin, end);
  if (w->indices == NULL) return;
  int64_t *indices = w->indices + s->row * w->k;
  for (int64_t i = begin; i < end; i++) indices[i] = place_of(s, i) + 1;
}

/* Sorts a row. Like all functions on rows, it returns false if the user interrupts it. */
static bool sort_row(const Work *w, int64_t row, void *memory) {
  Sorted s = sorted_row(w, row, memory);
  if (!s.items && !s.wide) return false;
  if (w->alone) return tli_parallel_try(w->k, TLK_GRAIN, give_range, &s);
  give_range(&s, 0, w->k);
  return true;
}

typedef bool (*RowFn)(const Work *w, int64_t row, void *memory);

typedef struct Rows {
  Work *work;
  RowFn fn;
  size_t bytes; /* size of the memory that fn needs for a row */
} Rows;

static void run_rows(void *context, int64_t begin, int64_t end) {
  const Rows *r = context;
  void *memory = tli_alloc(r->bytes);
  if (memory == NULL) {
    r->work->failed = true;
    return;
  }
  for (int64_t row = begin; row < end && !r->work->failed; row++)
    if (!r->fn(r->work, row, memory)) r->work->failed = true;
  tli_free(memory, r->bytes);
}

/* Rows of at least this length are processed one after the other, and the user can interrupt the
** work on a row. All threads together sort such a row; a selection of some elements is the work of
** one thread. */
#define LONG_ROW (1 << 19)

/* Runs fn on all rows. Threads divide the rows among themselves. If there are few rows, or long
** ones, they are processed one after the other (LONG_ROW). */
static bool run(Work *w, RowFn fn, size_t bytes) {
  Rows r = {w, fn, bytes};
  w->size = (int64_t)tl_dtype_size(w->in.dtype);
  w->alone = (w->rows < tl_get_num_threads() || w->n >= LONG_ROW) && !tli_parallel_inside();
  int64_t grain = tlk_max(1, TLK_GRAIN / 16 / tlk_max(1, w->n));
  if (w->alone)
    run_rows(&r, 0, w->rows);
  else
    TL_TRY(tli_parallel_try(w->rows, grain, run_rows, &r));
  if (!w->failed || w->alone) return !w->failed;
  /* The message of a failure is on the thread that failed. So this thread sets one: that of an
  ** interruption if there was one, or else that of exhausted memory. */
  return tli_go_on() && tli_fail(TL_EMEM, "sort: out of memory");
}

static size_t sort_bytes(tl_DType dtype, int64_t n) {
  return 2 * (size_t)n * (is_wide(dtype, n) ? sizeof(tlk_LargePair) : sizeof(tlk_Pair));
}

bool tlk_sort(const struct tlk_sort *call) {
  Work w = {.in = call->in,
            .values = call->values,
            .indices = call->indices,
            .rows = call->rows,
            .n = call->n,
            .k = call->n,
            .flip = call->descending};
  return run(&w, sort_row, sort_bytes(call->in.dtype, call->n));
}

/* ---- selection by rank ---- */

#define SELECT_BITS 11
#define SELECT_BINS (1 << SELECT_BITS)

/* Finds the key of rank `rank` among n keys; *smaller receives the number of smaller keys. The key
** is found digit by digit from the highest digit on, and only keys that begin with the digits found
** so far are kept. Overwrites `keys`. */
static bool select_key(uint64_t *keys, int64_t n, int64_t rank, int bits, uint64_t *found,
                       int64_t *smaller) {
  int64_t counts[SELECT_BINS];
  *found = 0;
  *smaller = 0;
  for (int shift = bits - SELECT_BITS; n > 0; shift -= SELECT_BITS) {
    int low = shift < 0 ? 0 : shift;
    uint64_t mask = ((uint64_t)1 << (shift < 0 ? SELECT_BITS + shift : SELECT_BITS)) - 1;
    memset(counts, 0, sizeof counts);
    FOR_PARTS(n, false)
    for (int64_t i = begin; i < end; i++) counts[(keys[i] >> low) & mask]++;
    uint64_t bin = 0;
    for (; rank >= counts[bin]; bin++) {
      rank -= counts[bin];
      *smaller += counts[bin];
    }
    int64_t kept = 0;
    FOR_PARTS(n, false)
    for (int64_t i = begin; i < end; i++)
      if (((keys[i] >> low) & mask) == bin) keys[kept++] = keys[i];
    n = kept;
    *found = keys[0];
    if (low == 0) break;
  }
  return true;
}

static int key_bits(tl_DType dtype) { return is_wide(dtype, 0) ? 64 : 32; }

/* Collects the elements of a row whose keys are at most `limit`. Returns their number, or -1 if the
** user interrupts the work. */
static int64_t make_items_below(uint64_t limit, tlk_LargePair *items, const void *data,
                                tl_DType dtype, int64_t n, uint64_t mask) {
  int64_t kept = 0;
#define PUT(key)                                                       \
  do {                                                                 \
    uint64_t k_ = (key) ^ mask;                                        \
    if (k_ <= limit) items[kept++] = (tlk_LargePair){k_, (uint64_t)i}; \
  } while (0)
  FOR_PARTS(n, -1)
  ALL_KEYS
#undef PUT
  return kept;
}

/* Keeps the items with keys below `last`, and the first `ties` items with the key `last`. */
static void keep_items(tlk_LargePair *items, int64_t n, uint64_t last, int64_t ties) {
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++)
    if (items[i].key < last || (items[i].key == last && ties-- > 0)) items[kept++] = items[i];
}

/* the first 1 / SAMPLE of a row is a sample, which bounds the search in the whole row */
#define SAMPLE 16

/* Finds the positions of the first k elements in sorted order, and sorts only these elements. The
** k-th element of a sample of the row is an upper bound for the keys of these elements. */
static bool select_row(const Work *w, int64_t row, void *memory) {
  const void *data = row_data(w, row);
  tlk_LargePair *items = memory;
  uint64_t *keys = (uint64_t *)(void *)(items + w->n);
  int bits = key_bits(w->in.dtype);
  uint64_t mask = !w->flip ? 0 : bits == 64 ? UINT64_MAX : 0xffffffffu;
  uint64_t limit = UINT64_MAX, last;
  int64_t smaller, part = w->n / SAMPLE;
  if (w->k <= part / 4) {
    TL_TRY(make_keys(keys, data, w->in.dtype, part, w->flip) &&
           select_key(keys, part, w->k - 1, bits, &limit, &smaller));
  }
  int64_t near = make_items_below(limit, items, data, w->in.dtype, w->n, mask);
  for (int64_t i = 0; i < near; i++) keys[i] = items[i].key;
  TL_TRY(near >= 0 && select_key(keys, near, w->k - 1, bits, &last, &smaller));
  keep_items(items, near, last, w->k - smaller);
  tlk_LargePair *spare = (tlk_LargePair *)(void *)keys;
  tlk_LargePair *sorted = tlk_sort_large_pairs(w->k, bits, items, spare, false);
  for (int64_t i = 0; i < w->k; i++) give(w, row, i, (int64_t)sorted[i].place);
  return true;
}

bool tlk_topk(const struct tlk_topk *call) {
  Work w = {.in = call->in,
            .values = call->values,
            .indices = call->indices,
            .rows = call->rows,
            .n = call->n,
            .k = call->k,
            .flip = call->descending};
  if (call->n < 256 || call->k > call->n / 4)
    return run(&w, sort_row, sort_bytes(call->in.dtype, call->n));
  size_t bytes = (size_t)call->n * (sizeof(tlk_LargePair) + sizeof(uint64_t));
  return run(&w, select_row, bytes);
}

/* Returns the position of an element with the given key in a row. If several elements have the key,
** `which` counts them from 0. */
static int64_t find_key(const Work *w, int64_t row, uint64_t key, int64_t which) {
  const void *data = row_data(w, row);
  for (int64_t i = 0; i < w->n; i++)
    if (key_at(data, w->in.dtype, i) == key && which-- == 0) return i;
  return 0;
}

static bool rank_row(const Work *w, int64_t row, void *memory) {
  uint64_t *keys = memory, nan = nan_key(w->in.dtype);
  int64_t rank = w->rank, smaller, nans = 0;
  TL_TRY(make_keys(keys, row_data(w, row), w->in.dtype, w->n, false));
  if (rank < 0) { /* a caller that wants the median passes a negative rank */
    for (int64_t i = 0; nan != 0 && i < w->n; i++) nans += keys[i] == nan;
    if (nans > 0 && (!w->skip_nan || nans == w->n)) {
      give(w, row, 0, find_key(w, row, nan, 0));
      return true;
    }
    rank = (w->n - nans - 1) / 2;
  }
  uint64_t key;
  TL_TRY(select_key(keys, w->n, rank, key_bits(w->in.dtype), &key, &smaller));
  give(w, row, 0, find_key(w, row, key, rank - smaller));
  return true;
}

bool tlk_select_rank(const struct tlk_select_rank *call) {
  Work w = {.in = call->in,
            .values = call->values,
            .indices = call->indices,
            .rows = call->rows,
            .n = call->n,
            .k = 1,
            .rank = call->rank,
            .skip_nan = call->skip_nan};
  return run(&w, rank_row, (size_t)call->n * sizeof(uint64_t));
}

/* ---- mode ---- */

static bool mode_row(const Work *w, int64_t row, void *memory) {
  Sorted s = sorted_row(w, row, memory);
  if (!s.items && !s.wide) return false;
  uint64_t nan = nan_key(w->in.dtype), before = 0;
  int64_t best = 0, length = 0, place = 0;
  for (int64_t i = 0; i < w->n; i++) {
    uint64_t key = s.wide ? s.wide[i].key : s.items[i] >> 32;
    /* NaN counts as different from every element, even from NaN */
    bool same = i > 0 && key == before && !(nan != 0 && key == nan);
    length = same ? length + 1 : 1;
    before = key;
    if (length <= best) continue;
    best = length;
    place = place_of(&s, i);
  }
  give(w, row, 0, place);
  return true;
}

bool tlk_mode(const struct tlk_mode *call) {
  Work w = {.in = call->in,
            .values = call->values,
            .indices = call->indices,
            .rows = call->rows,
            .n = call->n,
            .k = 1};
  return run(&w, mode_row, sort_bytes(call->in.dtype, call->n));
}

/* ---- sorting whole rows ---- */

static bool row_less(const uint64_t *keys, int64_t m, int64_t a, int64_t b) {
  const uint64_t *x = keys + a * m, *y = keys + b * m;
  for (int64_t i = 0; i < m; i++)
    if (x[i] != y[i]) return x[i] < y[i];
  return false;
}

static void merge_orders(const uint64_t *keys, int64_t m, const int64_t *a, int64_t na,
                         const int64_t *b, int64_t nb, int64_t *out) {
  int64_t i = 0, j = 0;
  while (i < na || j < nb) {
    bool second = i == na || (j < nb && row_less(keys, m, b[j], a[i]));
    *out++ = second ? b[j++] : a[i++];
  }
}

/* Sorts the numbers of n rows with m keys each by a merge sort that merges longer and longer runs.
** `order` receives the result. Returns false if the user interrupts the sort. */
static bool order_rows(const uint64_t *keys, int64_t n, int64_t m, int64_t *order, int64_t *spare) {
  int64_t *from = order, *to = spare;
  for (int64_t i = 0; i < n; i++) from[i] = i;
  for (int64_t run = 1, merged = 0; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      int64_t na = tlk_min(run, n - i), nb = tlk_min(run, n - i - na);
      merge_orders(keys, m, from + i, na, from + i + na, nb, to + i);
      merged += na + nb;
      if (merged < UNASKED / 16) continue;
      TL_TRY(tli_go_on());
      merged = 0;
    }
    int64_t *sorted = to;
    to = from;
    from = sorted;
  }
  for (int64_t i = 0; i < n; i++) order[i] = from[i] + 1;
  return true;
}

bool tlk_row_order(const struct tlk_row_order *call) {
  size_t bytes = (size_t)(call->n * call->m + call->n) * sizeof(uint64_t);
  uint64_t *keys = tli_alloc(bytes);
  if (keys == NULL) return false;
  bool ok = make_keys(keys, call->in.data, call->in.dtype, call->n * call->m, false) &&
            order_rows(keys, call->n, call->m, call->order,
                       (int64_t *)(void *)(keys + call->n * call->m));
  tli_free(keys, bytes);
  return ok;
}
