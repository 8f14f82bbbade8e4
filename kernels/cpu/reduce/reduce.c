/*
** reduce.c - reductions of (outer, n, inner) along n.
**
** Work is divided into tasks. If inner is 1, a task is a batch of rows. Otherwise it is a strip of
** adjacent columns, whose accumulators stay in the first-level cache. If there are few such tasks,
** n is divided into segments as well, and the accumulators of a strip's segments are joined in
** order. The division into tasks depends only on the sizes, so results do not depend on the number
** of threads.
*/
#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

/* the largest number of columns in a strip, which is also the largest number of rows in a batch */
#define STRIP 512
#define FEW_TASKS 64 /* if there are fewer tasks than this, n is divided into segments */
/* rows of up to this length are transposed, so that several are reduced together */
#define SHORT_ROW 32
/* if there are fewer columns than this, several rows are reduced as one wide row */
#define NARROW 32

typedef struct Plan Plan;
struct Plan {
  const tlk_Isa *isa;
  const tlk_Reducer *r;
  const tl_Scalar *params;
  tl_DType compute;
  tlk_Array out, in;
  int64_t in_size;
  int64_t outer, n, inner;
  /* number of rows (of numbers or of pairs) that a task reduces; 1 for strips of columns */
  int64_t batch;
  int64_t width, strips; /* number of columns in a strip, and number of strips in a row */
  int64_t segment, segments;
  char *partial; /* accumulators of all tasks if n is divided into segments (owned) */
  /* Stores the results [first, first + count). */
  void (*store)(const Plan *p, int64_t first, int64_t count, const char *acc);
  tlk_Array out2; /* array of the second result, if there is one */
  /* adds up pairs of numbers, such as complex numbers; NULL if the call is not such a sum */
  void (*sum_pairs)(int64_t n, const void *x, double *sums);
};

typedef struct Task {
  int64_t first, count; /* the results [first, first + count), in the order of memory */
  const char *src;      /* address of the task's first element */
  int64_t n;
} Task;

/* ---- accumulating --------------------------------------------------------------- */

static void add_row(const Plan *p, const char *src, int64_t n, void *acc) {
  if (p->in.dtype == p->compute) {
    p->r->row(n, src, acc, p->params);
    return;
  }
  _Alignas(64) char buffer[TLK_CHUNK * 8];
  for (int64_t i = 0; i < n; i += TLK_CHUNK) {
    int64_t piece = tlk_min(TLK_CHUNK, n - i);
    p->isa->convert[p->in.dtype][p->compute](piece, buffer, src + i * p->in_size);
    p->r->row(piece, buffer, acc, p->params);
  }
}

/* Adds rows of `cols` elements to the accumulators. Neighbouring rows begin `inner` elements
** apart. */
static void add_columns(const Plan *p, const char *src, int64_t rows, int64_t cols, int64_t inner,
                        void *acc) {
  if (p->in.dtype == p->compute) {
    p->r->columns(rows, cols, inner, src, acc, p->params);
    return;
  }
  _Alignas(64) char buffer[TLK_CHUNK * 8];
  int64_t at_once = TLK_CHUNK / cols;
  int64_t size = (int64_t)tl_dtype_size(p->compute);
  for (int64_t r = 0; r < rows; r += at_once, src += at_once * inner * p->in_size) {
    int64_t piece = tlk_min(at_once, rows - r);
    tlk_Convert convert = p->isa->convert[p->in.dtype][p->compute];
    if (cols == inner)
      convert(piece * cols, buffer, src);
    else
      for (int64_t i = 0; i < piece; i++)
        convert(cols, buffer + i * cols * size, src + i * inner * p->in_size);
    p->r->columns(piece, cols, cols, buffer, acc, p->params);
  }
}

/* Adds rows with few columns to the accumulators. Several rows are treated as one wide row, which
** fills vectors, and its accumulators are joined at the end. */
static void add_narrow(const Plan *p, const char *src, int64_t rows, int64_t cols, void *acc) {
  int64_t fold = TLK_CHUNK / 8 / cols;
  int64_t wide = rows / fold;
  if (wide >= 4) {
    _Alignas(64) char lanes[TLK_CHUNK / 8 * TLK_ACC_BYTES];
    p->r->start(fold * cols, lanes, p->params);
    add_columns(p, src, wide, fold * cols, fold * cols, lanes);
    for (int64_t f = 0; f < fold; f++) p->r->join(cols, acc, lanes + f * cols * p->r->acc_bytes);
    src += wide * fold * cols * p->in_size;
    rows -= wide * fold;
  }
  add_columns(p, src, rows, cols, cols, acc);
}

/* Adds short rows. They are transposed first, so that the elements at one position of all rows are
** contiguous. */
static void add_short_rows(const Plan *p, const char *src, int64_t count, int64_t n, char *acc) {
  _Alignas(64) char turned[TLK_CHUNK * 8];
  int64_t most = TLK_CHUNK / tlk_max(1, n);
  for (int64_t i = 0; i < count; i += most) {
    int64_t side = tlk_min(most, count - i);
    p->isa->move[tlk_log2_size(p->in.dtype)](turned, p->in_size, side * p->in_size,
                                             src + i * n * p->in_size, n * p->in_size, p->in_size,
                                             side, n);
    add_columns(p, turned, n, side, side, acc + i * p->r->acc_bytes);
  }
}

static void accumulate(const Plan *p, const Task *t, char *acc) {
  p->r->start(t->count, acc, p->params);
  if (p->sum_pairs) {
    for (int64_t i = 0; i < t->count; i += 2)
      p->sum_pairs(t->n, t->src + i * p->n * p->in_size, (double *)(void *)acc + i);
  } else if (p->inner > 1) {
    if (t->count == p->inner && p->inner < NARROW && !p->r->ordered)
      add_narrow(p, t->src, t->n, t->count, acc);
    else
      add_columns(p, t->src, t->n, t->count, p->inner, acc);
  } else if (t->n <= SHORT_ROW && t->count >= TLK_LANES) {
    add_short_rows(p, t->src, t->count, t->n, acc);
  } else {
    for (int64_t i = 0; i < t->count; i++)
      add_row(p, t->src + i * p->n * p->in_size, t->n, acc + i * p->r->acc_bytes);
  }
}

/* ---- tasks ------------------------------------------------------------------------ */

/* Returns task number `index`. The numbers count segments first, then strips, then rows of
** `outer`. */
static Task task_at(const Plan *p, int64_t index) {
  int64_t g = index % p->segments;
  index /= p->segments;
  int64_t strip = index % p->strips;
  int64_t o = index / p->strips * p->batch;
  Task t;
  t.first = o * p->inner + strip * p->width;
  t.count = p->inner > 1 && !p->sum_pairs ? tlk_min(p->width, p->inner - strip * p->width)
                                          : tlk_min(p->batch, p->outer - o) * p->inner;
  t.src = (const char *)p->in.data +
          (o * p->n * p->inner + g * p->segment * p->inner + strip * p->width) * p->in_size;
  t.n = tlk_min(p->segment, p->n - g * p->segment);
  return t;
}

static void run_tasks(void *context, int64_t begin, int64_t end) {
  const Plan *p = context;
  _Alignas(64) char acc[STRIP * TLK_ACC_BYTES];
  for (int64_t i = begin; i < end; i++) {
    Task t = task_at(p, i);
    if (p->partial != NULL) {
      accumulate(p, &t, p->partial + i * p->width * p->r->acc_bytes);
    } else {
      accumulate(p, &t, acc);
      p->store(p, t.first, t.count, acc);
    }
  }
}

static void join_segments(const Plan *p, int64_t tasks) {
  int64_t bytes = p->width * p->r->acc_bytes;
  for (int64_t i = 0; i < tasks; i += p->segments) {
    Task t = task_at(p, i);
    char *acc = p->partial + i * bytes;
    for (int64_t g = 1; g < p->segments; g++) p->r->join(t.count, acc, acc + g * bytes);
    p->store(p, t.first, t.count, acc);
  }
}

static void cut(Plan *p) {
  p->width = tlk_min(p->inner, STRIP);
  p->strips = tlk_ceil_div(p->inner, p->width);
  p->batch = 1;
  p->segment = p->n;
  p->segments = 1;
  int64_t tasks = p->outer * p->strips;
  int64_t each = tlk_max(1, p->n) * p->width;
  if (tasks < FEW_TASKS && each > 2 * TLK_GRAIN) {
    int64_t most = tlk_min(tlk_ceil_div(FEW_TASKS, tasks), each / TLK_GRAIN);
    p->segment = tlk_ceil_div(p->n, tlk_min(most, p->n));
    p->segments = tlk_ceil_div(p->n, p->segment);
  } else if (p->inner == 1 || p->sum_pairs) {
    p->batch = tlk_max(1, tlk_min(STRIP / p->inner, TLK_GRAIN / 4 / each));
  }
}

static bool run(Plan *p) {
  cut(p);
  int64_t tasks = tlk_ceil_div(p->outer, p->batch) * p->strips * p->segments;
  size_t bytes = (size_t)(tasks * p->width * p->r->acc_bytes);
  if (p->segments > 1 && (p->partial = tli_alloc(bytes)) == NULL) return false;
  int64_t each = p->batch * tlk_max(1, p->segment) * p->width;
  bool ok = tli_parallel_try(tasks, tlk_max(1, TLK_GRAIN / each), run_tasks, p);
  if (p->partial != NULL) {
    if (ok) join_segments(p, tasks);
    tli_free(p->partial, bytes);
  }
  return ok;
}

/* ---- one result ------------------------------------------------------------------- */

static char *element(tlk_Array a, int64_t i) {
  return (char *)a.data + i * (int64_t)tl_dtype_size(a.dtype);
}

static void store_result(const Plan *p, int64_t first, int64_t count, const char *acc) {
  char *dst = element(p->out, first);
  if (p->out.dtype == p->compute) {
    p->r->finish(count, dst, acc, p->params);
    return;
  }
  _Alignas(64) char results[STRIP * 8];
  p->r->finish(count, results, acc, p->params);
  p->isa->convert[p->compute][p->out.dtype](count, dst, results);
}

bool tlk_reduce(const struct tlk_reduce *call) {
  if (call->outer == 0 || call->inner == 0) return true;
  const tlk_Isa *isa = tlk_isa();
  Plan p = {.isa = isa,
            .r = &isa->reducers[tlk_compute_index(call->compute)][call->kernel],
            .params = call->params,
            .compute = call->compute,
            .out = call->out,
            .in = call->in,
            .in_size = (int64_t)tl_dtype_size(call->in.dtype),
            .outer = call->outer,
            .n = call->n,
            .inner = call->inner,
            .store = store_result};
  bool floating = call->compute == TL_F32 || call->compute == TL_F64;
  if (call->kernel == TLK_reduction_sum && call->inner == 2 && floating &&
      call->in.dtype == call->compute)
    p.sum_pairs = isa->sum_pairs[call->compute == TL_F64];
  if (p.r->row == NULL)
    return tli_fail(TL_EINTERNAL, "reduction %d: no kernel that computes in %s", (int)call->kernel,
                    tl_dtype_name(call->compute));
  return run(&p);
}

/* ---- two results ------------------------------------------------------------------- */

static void store_best(const Plan *p, int64_t first, int64_t count, const char *acc) {
  const tlk_Best *best = (const tlk_Best *)(const void *)acc;
  int64_t *indices = (int64_t *)p->out2.data + first;
  for (int64_t i = 0; i < count; i++) indices[i] = best[i].index + 1;
  if (p->out.data == NULL) return;
  bool floating = p->compute == TL_F32 || p->compute == TL_F64;
  double values[STRIP]; /* room for either member of tlk_Best's union: int64_t or double */
  for (int64_t i = 0; i < count; i++) memcpy(&values[i], &best[i].value, sizeof values[i]);
  p->isa->convert[floating ? TL_F64 : TL_I64][p->out.dtype](count, element(p->out, first), values);
}

bool tlk_reduce_index(const struct tlk_reduce_index *call) {
  if (call->outer == 0 || call->inner == 0) return true;
  const tlk_Isa *isa = tlk_isa();
  tl_DType compute = tli_dtype_compute(call->in.dtype);
  Plan p = {.isa = isa,
            .r = &isa->best[tlk_compute_index(compute)][call->largest],
            .compute = compute,
            .out = call->values,
            .out2 = {call->indices, TL_I64},
            .in = call->in,
            .in_size = (int64_t)tl_dtype_size(call->in.dtype),
            .outer = call->outer,
            .n = call->n,
            .inner = call->inner,
            .store = store_best};
  return run(&p);
}

static void store_moments(const Plan *p, int64_t first, int64_t count, const char *acc) {
  const tlk_Moments *m = (const tlk_Moments *)(const void *)acc;
  double values[STRIP];
  for (int64_t i = 0; i < count; i++) values[i] = m[i].count > 0 ? m[i].mean : (double)NAN;
  p->isa->convert[TL_F64][p->out.dtype](count, element(p->out, first), values);
  if (p->out2.data == NULL) return;
  for (int64_t i = 0; i < count; i++) values[i] = m[i].deviation;
  p->isa->convert[TL_F64][p->out2.dtype](count, element(p->out2, first), values);
}

bool tlk_moments(const struct tlk_moments *call) {
  if (call->outer == 0 || call->inner == 0) return true;
  const tlk_Isa *isa = tlk_isa();
  tl_DType compute = call->in.dtype == TL_F64 ? TL_F64 : TL_F32;
  Plan p = {.isa = isa,
            .r = isa->moments[compute == TL_F64],
            .compute = compute,
            .out = call->mean,
            .out2 = call->deviation,
            .in = call->in,
            .in_size = (int64_t)tl_dtype_size(call->in.dtype),
            .outer = call->outer,
            .n = call->n,
            .inner = call->inner,
            .store = store_moments};
  return run(&p);
}
