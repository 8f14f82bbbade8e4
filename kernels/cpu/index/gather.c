/*
** gather.c - gather, scatter, nonzero and binary search. Each element of a result is computed by
** one thread, and the division into tasks does not depend on the number of threads. If several
** elements are scattered to one position, they are applied in the order of the index.
*/
#include "kernels/cpu/index/gather.h"

#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"

/* The number of elements in a task. */
#define TASK 16384
/* While it scatters a line, a thread checks for interruption by the user after this number of
** elements. */
#define UNASKED (1 << 18)

/* ---- checking positions ---- */

typedef struct Check {
  const int64_t *index;
  int64_t size;
  bool wrap;
  tlk_FirstFault first;
} Check;

static bool in_range(int64_t at, int64_t size, bool wrap) {
  return (at >= 1 && at <= size) || (wrap && at <= -1 && at >= -size);
}

static void check_range(void *context, int64_t begin, int64_t end) {
  Check *c = context;
  int64_t least, most;
  tlk_isa()->index->range(end - begin, c->index + begin, &least, &most);
  if (least >= 1 && most <= c->size) return;
  for (int64_t i = begin; i < end; i++) {
    if (in_range(c->index[i], c->size, c->wrap)) continue;
    tlk_note_fault(&c->first, c->index[i]);
    return;
  }
}

bool tlk_check_index(const struct tlk_check_index *call) {
  Check c = {.index = call->index, .size = call->size, .wrap = call->wrap};
  TL_TRY(tli_parallel_try(call->n, 4 * TLK_GRAIN, check_range, &c));
  return tlk_no_fault(call->cx, &c.first,
                      (tlk_Fault){.kind = call->wrap ? TLK_FAULT_WRAPPED : TLK_FAULT_POSITION,
                                  .source = call->source,
                                  .size = call->size});
}

/* ---- tiles ---- */

typedef struct Walk {
  const tlk_IndexCall *call;
  tlk_Blocks blocks;
  int64_t stretch; /* number of elements of one line that a task processes */
  int64_t stretches;
  /* for scatter: number of ranges of positions into which the indexed dimension is divided, one for
  ** each thread */
  int64_t ranges;
  tlk_GatherLoop gather;
  tlk_ScatterLoop scatter;
  tlk_FirstFault first;
  atomic_bool stopped; /* becomes true if the user interrupts a scatter */
} Walk;

static tlk_Tile tile_at(const Walk *w, int64_t block, int64_t stretch) {
  const tlk_IndexCall *l = w->call;
  tlk_Block b = tlk_block_at(&w->blocks, block);
  int64_t begin = stretch * w->stretch;
  tlk_Tile t = {
      .lines = b.cols, .count = tlk_min(w->stretch, l->count - begin), .low = 1, .high = l->n};
  for (int k = 0; k < 3; k++) {
    t.ptrs[k] = b.ptrs[k];
    t.line_strides[k] = tlk_stride(&l->it.args[k], 0, l->it.ndim);
    t.strides[k] = l->strides[k];
  }
  t.ptrs[1] += begin * l->strides[1];
  return t;
}

/* The smallest number of adjacent lines in a block. A row of the index is then long enough to be
** read at once, and the source still fits into the second-level cache. */
#define ABREAST 64

static int64_t least_cols(const tlk_IndexCall *call) {
  const tli_Iter *it = &call->it;
  bool abreast = it->ndim > 0 && it->args[1].strides[0] < call->strides[1];
  return abreast ? ABREAST : 16;
}

/* Returns the number of pieces of work in a task, if each piece has `elements` elements. */
static int64_t per_task(int64_t elements) { return tlk_max(1, TASK / tlk_max(1, elements)); }

static void gather_tasks(void *context, int64_t begin, int64_t end) {
  Walk *w = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t stretch = i % w->stretches;
    tlk_Tile t = tile_at(w, i / w->stretches, stretch);
    t.ptrs[0] += stretch * w->stretch * w->call->strides[0];
    int64_t bad;
    if (!w->gather(&t, &bad)) tlk_note_fault(&w->first, bad);
  }
}

bool tlk_gather(const struct tlk_gather *call) {
  const tli_Iter *it = &call->index.it;
  int64_t side = it->ndim > 0 ? it->sizes[0] : 1;
  Walk w = {.call = &call->index};
  w.gather = tlk_isa()->index->gather[tlk_log2_size(it->args[0].dtype)];
  /* lines that share an index are copied as rows, so their blocks are long */
  bool rows = it->ndim > 0 && it->args[1].strides[0] == 0;
  int64_t cols = rows ? tlk_min(side, TASK) : 0;
  w.stretch = tlk_min(call->index.count, rows ? per_task(cols) : TASK);
  if (!rows) {
    int64_t share = tlk_ceil_div(side, tl_get_num_threads());
    cols = tlk_max(per_task(w.stretch), tlk_min(least_cols(&call->index), share));
  }
  w.blocks = tlk_blocks(it, cols, 1);
  w.stretches = tlk_ceil_div(call->index.count, w.stretch);
  int64_t work = tlk_max(1, w.blocks.cols * w.stretch);
  TL_TRY(tli_parallel_try(w.blocks.count * w.stretches, tlk_max(1, TLK_GRAIN / work), gather_tasks,
                          &w));
  return tlk_no_fault(
      call->cx, &w.first,
      (tlk_Fault){.kind = TLK_FAULT_POSITION, .source = call->source, .size = call->index.n});
}

/* Scatters the lines of a task, or their parts, in order. */
static void scatter_tasks(void *context, int64_t begin, int64_t end) {
  Walk *w = context;
  for (int64_t i = begin * w->stretches; i < end * w->stretches && !w->stopped; i++) {
    int64_t task = i / w->stretches, stretch = i % w->stretches;
    tlk_Tile t = tile_at(w, task / w->ranges, stretch);
    t.ptrs[2] += stretch * w->stretch * w->call->strides[2];
    int64_t part = task % w->ranges, n = w->call->n;
    t.low = part * n / w->ranges + 1;
    t.high = (part + 1) * n / w->ranges;
    if (stretch > 0 && tli_interrupted()) w->stopped = true;
    w->scatter(&t);
  }
}

bool tlk_scatter(const struct tlk_scatter *call) {
  const tli_Iter *it = &call->index.it;
  const tlk_IndexLoops *loops = tlk_isa()->index;
  tl_DType dtype = it->args[0].dtype;
  Walk w = {.call = &call->index, .stretch = tlk_min(call->index.count, UNASKED), .ranges = 1};
  w.stretches = tlk_ceil_div(call->index.count, w.stretch);
  w.scatter = call->join == TLK_JOIN_SET ? loops->set[tlk_log2_size(dtype)]
                                         : loops->join[call->join][tlk_compute_index(dtype)];
  int64_t threads = tl_get_num_threads(), side = it->ndim > 0 ? it->sizes[0] : 1;
  int64_t work = it->numel * call->index.count;
  /* A block covers whole cache lines. If lines share an index, a block covers rows instead. If
  ** there are few lines, threads also divide the indexed dimension among themselves. */
  bool rows = it->ndim > 0 && it->args[1].strides[0] == 0;
  int64_t cols = rows ? TASK : tlk_max(least_cols(&call->index), per_task(call->index.count));
  bool narrow = rows ? call->index.n < threads : side < cols * threads;
  if (narrow && side >= 32 * threads) cols = tlk_min(cols, tlk_ceil_div(side, threads));
  w.blocks = tlk_blocks(it, cols, 1);
  if (w.blocks.count < threads && work >= 2 * TLK_GRAIN) w.ranges = tlk_min(threads, call->index.n);
  int64_t each = tlk_max(1, work / (w.blocks.count * w.ranges));
  TL_TRY(
      tli_parallel_try(w.blocks.count * w.ranges, tlk_max(1, TLK_GRAIN / each), scatter_tasks, &w));
  return !w.stopped || (tli_go_on() && tli_fail(TL_EINTERRUPT, "interrupted!"));
}

/* ---- nonzero elements ---- */

#define PART 65536 /* number of elements in a part, whose nonzero elements are counted together */

typedef struct Nonzero {
  tlk_Array in;
  int64_t n;
  /* before the prefix sum: the number of nonzero elements in each part; after it: the number of
  ** nonzero elements before each part */
  int64_t *counts;
  int64_t *out;
  int ndim;
  const int64_t *sizes;
} Nonzero;

#define BATCH 1024 /* number of elements that are examined together */

/* Returns elements [begin, end), at most BATCH of them, as bools. Elements of another dtype are
** converted into `buffer`. */
static const uint8_t *as_bool(tlk_Array in, int64_t begin, int64_t end, uint8_t *buffer) {
  const char *x = (const char *)in.data + begin * (int64_t)tl_dtype_size(in.dtype);
  if (in.dtype == TL_BOOL) return (const uint8_t *)x;
  tlk_isa()->convert[in.dtype][TL_BOOL](end - begin, buffer, x);
  return buffer;
}

static int64_t count_part(tlk_Array in, int64_t begin, int64_t end) {
  uint8_t buffer[BATCH];
  int64_t count = 0;
  for (int64_t at = begin; at < end; at += BATCH) {
    int64_t n = tlk_min(BATCH, end - at);
    const uint8_t *x = as_bool(in, at, at + n, buffer);
    uint32_t here = 0;
    for (int64_t i = 0; i < n; i++) here += x[i] != 0;
    count += here;
  }
  return count;
}

static void count_parts(void *context, int64_t begin, int64_t end) {
  const Nonzero *z = context;
  for (int64_t p = begin; p < end; p++)
    z->counts[p] = count_part(z->in, p * PART, tlk_min((p + 1) * PART, z->n));
}

/* Writes the multi-dimensional position of element i in an array of these sizes; positions count
** from 1. */
static void write_position(int64_t *out, int64_t i, int ndim, const int64_t *sizes) {
  for (int d = ndim - 1; d >= 0; d--) {
    out[d] = i % sizes[d] + 1;
    i /= sizes[d];
  }
}

/* Lists the indices at which x is true, and returns their number. The loop writes every index, and
** the next index overwrites it if x is false. This is faster than a branch that the processor
** cannot predict. */
static int64_t pick(const uint8_t *x, int64_t n, int32_t *found) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    found[count] = (int32_t)i;
    count += x[i] != 0;
  }
  return count;
}

static void write_parts(void *context, int64_t begin, int64_t end) {
  const Nonzero *z = context;
  uint8_t buffer[BATCH];
  int32_t found[BATCH];
  for (int64_t p = begin; p < end; p++) {
    int64_t *out = z->out + z->counts[p] * z->ndim;
    int64_t stop = tlk_min((p + 1) * PART, z->n);
    for (int64_t at = p * PART; at < stop; at += BATCH) {
      int64_t n = tlk_min(BATCH, stop - at);
      int64_t count = pick(as_bool(z->in, at, at + n, buffer), n, found);
      if (z->ndim == 1)
        for (int64_t k = 0; k < count; k++) out[k] = at + found[k] + 1;
      else
        for (int64_t k = 0; k < count; k++)
          write_position(out + k * z->ndim, at + found[k], z->ndim, z->sizes);
      out += count * z->ndim;
    }
  }
}

static void free_counts(Nonzero *z) {
  tli_free(z->counts, (size_t)tlk_ceil_div(z->n, PART) * sizeof *z->counts);
}

/* Counts the nonzero elements of each part. If it returns true, the caller must free the counts. */
static bool count_all(Nonzero *z) {
  int64_t parts = tlk_ceil_div(z->n, PART);
  z->counts = tli_alloc((size_t)parts * sizeof *z->counts);
  if (z->counts == NULL) return false;
  bool ok = tli_parallel_try(parts, 1, count_parts, z);
  if (!ok) free_counts(z);
  return ok;
}

bool tlk_count_nonzero(const struct tlk_count_nonzero *call) {
  Nonzero z = {.in = call->in, .n = call->n};
  if (!count_all(&z)) return false;
  *call->count = 0;
  for (int64_t p = 0; p < tlk_ceil_div(call->n, PART); p++) *call->count += z.counts[p];
  free_counts(&z);
  return true;
}

bool tlk_nonzero(const struct tlk_nonzero *call) {
  Nonzero z = {.in = call->in, .n = 1, .out = call->out, .ndim = call->ndim, .sizes = call->sizes};
  for (int d = 0; d < call->ndim; d++) z.n *= call->sizes[d];
  if (!count_all(&z)) return false;
  int64_t parts = tlk_ceil_div(z.n, PART), before = 0;
  for (int64_t p = 0; p < parts; p++) {
    int64_t here = z.counts[p];
    z.counts[p] = before;
    before += here;
  }
  bool ok = tli_parallel_try(parts, 1, write_parts, &z);
  free_counts(&z);
  return ok;
}

/* ---- searching ---- */

typedef struct Search {
  int64_t *out;
  tlk_Array sorted, values;
  int64_t n, m;
  bool right;
} Search;

/* Defines a binary search for one type. NaN comes after every number and equals NaN. */
#define SEARCH(name, type)                                                                 \
  static inline bool before_##name(type a, type b) { return a < b || (b != b && a == a); } \
  static int64_t find_##name(const type *x, int64_t n, type v, bool right) {               \
    int64_t low = 0;                                                                       \
    while (n > 0) {                                                                        \
      int64_t half = n / 2;                                                                \
      type middle = x[low + half];                                                         \
      bool further = right ? !before_##name(v, middle) : before_##name(middle, v);         \
      low = further ? low + half + 1 : low;                                                \
      n = further ? n - half - 1 : half;                                                   \
    }                                                                                      \
    return low + 1;                                                                        \
  }                                                                                        \
  static void search_##name(const Search *s, int64_t begin, int64_t end) {                 \
    const type *sorted = s->sorted.data, *values = s->values.data;                         \
    for (int64_t i = begin; i < end; i++)                                                  \
      s->out[i] = find_##name(sorted + i / s->m * s->n, s->n, values[i], s->right);        \
  }

SEARCH(i32, int32_t)
SEARCH(i64, int64_t)
SEARCH(f32, float)
SEARCH(f64, double)

static void search_range(void *context, int64_t begin, int64_t end) {
  const Search *s = context;
  switch (s->sorted.dtype) {
  case TL_F32: search_f32(s, begin, end); break;
  case TL_F64: search_f64(s, begin, end); break;
  case TL_I64: search_i64(s, begin, end); break;
  default: search_i32(s, begin, end); break;
  }
}

bool tlk_search(const struct tlk_search *call) {
  Search s = {call->out, call->sorted, call->values, call->n, call->m, call->right};
  return tli_parallel_try(call->rows * call->m, 2048, search_range, &s);
}
