/*
** pool.c - pooling, im2col and col2im. Threads share the planes; one thread computes each
** plane.
*/
#include "kernels/cpu/pool/pool.h"

#include <string.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/upcast.h"

/* ---- positions of windows ---- */

/* The bounds of all windows, allocated as one block of memory. */
typedef struct Tables {
  tlk_Spans spans;
  void *memory;
  size_t bytes;
} Tables;

static void span(const tlk_Pool *p, int d, int64_t o, int64_t *begin, int64_t *end,
                 int64_t *covered) {
  const tlk_Windows *w = &p->windows;
  if (p->adaptive) {
    *begin = o * w->in[d] / w->out[d];
    *end = tlk_ceil_div((o + 1) * w->in[d], w->out[d]);
    *covered = *end - *begin;
    return;
  }
  int64_t from = o * w->stride[d] - w->padding[d];
  int64_t to = from + w->dilation[d] * (w->kernel[d] - 1) + 1;
  /* positions in the padding are counted, but positions beyond the padding are not */
  *covered = tlk_min(to, w->in[d] + w->padding[d]) - from;
  int64_t skipped = from < 0 ? tlk_ceil_div(-from, w->dilation[d]) : 0;
  *begin = from + skipped * w->dilation[d];
  *end = tlk_min(to, w->in[d]);
  if (!p->include_pad) *covered = *end - *begin;
}

/* Computes the factor by which each window's sum is multiplied to give the average: 1 / divisor if
** there is one, otherwise 1 / number of elements. */
static void fill_shares(const tlk_Pool *p, int64_t *const covered[3], double *share) {
  const int64_t *out = p->windows.out;
  for (int64_t a = 0; a < out[0]; a++)
    for (int64_t b = 0; b < out[1]; b++)
      for (int64_t c = 0; c < out[2]; c++) {
        int64_t n = p->divisor ? p->divisor : covered[0][a] * covered[1][b] * covered[2][c];
        *share++ = 1 / (double)n;
      }
}

/* Returns whether windows are adjacent along dimension d: window o covers elements [n * o, n * o +
** n). */
static bool side_by_side(const tlk_Spans *s, int d, int64_t n) {
  for (int64_t o = 0; o < s->out[d]; o++)
    if (s->begin[d][o] != n * o || s->end[d][o] != n * (o + 1)) return false;
  return s->step[d] == 1 || n == 1;
}

/* Describes windows of one size along the last dimension. Blocks of windows may end up to
** TLK_LANES columns after the last window. Windows much wider than the plane are treated as if they
** had different sizes, because margins for their padding would take too much memory and time. */
static void measure_row(const tlk_Pool *p, tlk_Spans *s) {
  const tlk_Windows *w = &p->windows;
  s->stride = w->stride[2];
  s->padding = w->padding[2];
  s->count = w->kernel[2];
  bool fits = w->in[0] * w->in[1] * w->in[2] < INT32_MAX - TLK_LANES;
  int64_t covered = (w->out[2] - 1) * s->stride + (s->count - 1) * s->step[2];
  int64_t columns = tlk_max(s->padding + w->in[2], covered);
  bool wide = columns > 4 * (w->in[2] + TLK_LANES);
  s->margins = p->adaptive || !fits || wide ? 0 : columns + 2 * TLK_LANES;
}

static bool make_tables(const tlk_Pool *p, bool shares, Tables *t) {
  const tlk_Windows *w = &p->windows;
  int64_t numbers = 3 * (w->out[0] + w->out[1] + w->out[2]);
  int64_t windows = shares ? w->out[0] * w->out[1] * w->out[2] : 0;
  t->bytes = (size_t)(numbers + windows) * 8;
  t->memory = tli_alloc(t->bytes);
  if (t->memory == NULL) return false;
  int64_t *at = t->memory, *covered[3];
  for (int d = 0; d < 3; d++) {
    int64_t *begin = at, *end = at + w->out[d];
    covered[d] = at + 2 * w->out[d];
    at += 3 * w->out[d];
    for (int64_t o = 0; o < w->out[d]; o++) span(p, d, o, &begin[o], &end[o], &covered[d][o]);
    t->spans.begin[d] = begin;
    t->spans.end[d] = end;
    t->spans.in[d] = w->in[d];
    t->spans.out[d] = w->out[d];
    t->spans.step[d] = p->adaptive ? 1 : w->dilation[d];
  }
  const tlk_Spans *s = &t->spans;
  measure_row(p, &t->spans);
  t->spans.squares = side_by_side(s, 0, 1) && side_by_side(s, 1, 2) && side_by_side(s, 2, 2);
  double *share = (double *)(void *)at;
  if (shares) fill_shares(p, covered, share);
  t->spans.share = share;
  return true;
}

/* ---- pooling ---- */

typedef enum Kind { MAX, AVERAGE, SPREAD } Kind;

typedef struct Work {
  const tlk_Spans *spans;
  Kind kind;
  tl_DType dtype; /* the dtype that the loops compute in */
  int64_t in_size, out_size;
  char *in, *out;
  int64_t *indices;
  _Atomic bool failed;
} Work;

static void pool_plane(const Work *w, int64_t plane, void *scratch) {
  const tlk_PoolLoops *loops = tlk_isa()->pool[tlk_compute_index(w->dtype)];
  int64_t size = (int64_t)tl_dtype_size(w->dtype);
  char *in = w->in + plane * w->in_size * size, *out = w->out + plane * w->out_size * size;
  int64_t *indices = w->indices ? w->indices + plane * w->out_size : NULL;
  if (w->kind == MAX)
    loops->max(w->spans, in, out, indices, scratch);
  else if (w->kind == AVERAGE)
    loops->average(w->spans, in, out, scratch);
  else
    loops->spread(w->spans, out, in, scratch);
}

static void pool_planes(void *context, int64_t begin, int64_t end) {
  Work *w = context;
  size_t bytes = tlk_pool_scratch(w->spans);
  void *scratch = tli_alloc(bytes);
  if (scratch == NULL) {
    w->failed = true;
    return;
  }
  for (int64_t plane = begin; plane < end; plane++) pool_plane(w, plane, scratch);
  tli_free(scratch, bytes);
}

static bool run(const tlk_Pool *pool, Kind kind, tlk_Array in, tlk_Array out, int64_t *indices) {
  const tlk_Windows *v = &pool->windows;
  Work w = {.kind = kind,
            .in_size = v->in[0] * v->in[1] * v->in[2],
            .out_size = v->out[0] * v->out[1] * v->out[2],
            .indices = indices};
  int64_t nin = pool->planes * w.in_size, nout = pool->planes * w.out_size;
  tlk_Array x = tlk_upcast(in, nin, kind != SPREAD), y = tlk_upcast(out, nout, kind == SPREAD);
  Tables t;
  bool ok = x.data && y.data && make_tables(pool, kind != MAX, &t);
  if (ok) {
    w.spans = &t.spans;
    w.dtype = x.dtype;
    w.in = x.data;
    w.out = y.data;
    ok = tli_parallel_try(pool->planes, tlk_max(1, TLK_GRAIN / 4 / tlk_max(w.in_size, w.out_size)),
                          pool_planes, &w);
    tli_free(t.memory, t.bytes);
    ok = ok && !w.failed;
  }
  if (kind == SPREAD && ok)
    tlk_downcast(in, x, nin);
  else
    tlk_upcast_free(x, in, nin);
  if (kind != SPREAD && ok)
    tlk_downcast(out, y, nout);
  else
    tlk_upcast_free(y, out, nout);
  return ok;
}

bool tlk_max_pool(const struct tlk_max_pool *call) {
  return run(&call->pool, MAX, call->in, call->out, call->indices);
}

bool tlk_avg_pool(const struct tlk_avg_pool *call) {
  return run(&call->pool, AVERAGE, call->in, call->out, NULL);
}

bool tlk_avg_pool_backward(const struct tlk_avg_pool_backward *call) {
  return run(&call->pool, SPREAD, call->grad_in, call->grad_out, NULL);
}

/* ---- im2col and col2im ---- */

typedef struct Columns {
  const tlk_Windows *w;
  tl_DType dtype;
  char *in, *cols;
  bool back; /* true for col2im, which adds `cols` to `in` */
} Columns;

/* For im2col, copies n elements of `in`, which are `step` apart, to a row of `cols`. For col2im,
** adds a row of `cols` to these elements. */
static void join(const Columns *c, int64_t n, char *in, int64_t step, char *cols) {
  int64_t size = (int64_t)tl_dtype_size(c->dtype);
  if (!c->back) {
    if (step == 1)
      memcpy(cols, in, (size_t)(n * size));
    else
      for (int64_t i = 0; i < n; i++) memcpy(cols + i * size, in + i * step * size, (size_t)size);
    return;
  }
  switch (c->dtype) {
  case TL_F32:
    for (int64_t i = 0; i < n; i++) ((float *)(void *)in)[i * step] += ((float *)(void *)cols)[i];
    break;
  case TL_F64:
    for (int64_t i = 0; i < n; i++) ((double *)(void *)in)[i * step] += ((double *)(void *)cols)[i];
    break;
  case TL_I64:
    for (int64_t i = 0; i < n; i++)
      ((int64_t *)(void *)in)[i * step] += ((int64_t *)(void *)cols)[i];
    break;
  default:
    for (int64_t i = 0; i < n; i++)
      ((int32_t *)(void *)in)[i * step] += ((int32_t *)(void *)cols)[i];
  }
}

/* Processes the row of cols that belongs to kernel element `at`: copies elements of the image to
** the row (im2col) or, if c->back, adds the row to elements of the image (col2im). */
static void column_row(const Columns *c, char *in, char *cols, const int64_t at[3]) {
  const tlk_Windows *w = c->w;
  int64_t size = (int64_t)tl_dtype_size(c->dtype), row[3];
  int64_t shift = at[2] * w->dilation[2] - w->padding[2];
  /* the windows along the last dimension for which this kernel element is inside the image */
  int64_t low = shift < 0 ? tlk_ceil_div(-shift, w->stride[2]) : 0;
  int64_t high = w->in[2] - shift > 0 ? tlk_ceil_div(w->in[2] - shift, w->stride[2]) : 0;
  low = tlk_min(low, w->out[2]);
  high = tlk_max(low, tlk_min(high, w->out[2]));
  for (row[0] = 0; row[0] < w->out[0]; row[0]++)
    for (row[1] = 0; row[1] < w->out[1]; row[1]++) {
      int64_t d = row[0] * w->stride[0] - w->padding[0] + at[0] * w->dilation[0];
      int64_t h = row[1] * w->stride[1] - w->padding[1] + at[1] * w->dilation[1];
      bool inside = d >= 0 && d < w->in[0] && h >= 0 && h < w->in[1];
      if (!c->back) memset(cols, 0, (size_t)(w->out[2] * size));
      if (inside && high > low)
        join(c, high - low,
             in + ((d * w->in[1] + h) * w->in[2] + low * w->stride[2] + shift) * size, w->stride[2],
             cols + low * size);
      cols += w->out[2] * size;
    }
}

static void column_planes(void *context, int64_t begin, int64_t end) {
  const Columns *c = context;
  const tlk_Windows *w = c->w;
  int64_t size = (int64_t)tl_dtype_size(c->dtype);
  int64_t plane = w->in[0] * w->in[1] * w->in[2] * size;
  int64_t row = w->out[0] * w->out[1] * w->out[2] * size;
  int64_t rows = w->kernel[0] * w->kernel[1] * w->kernel[2], at[3];
  for (int64_t p = begin; p < end; p++) {
    char *in = c->in + p * plane, *cols = c->cols + p * rows * row;
    if (c->back) memset(in, 0, (size_t)plane);
    for (at[0] = 0; at[0] < w->kernel[0]; at[0]++)
      for (at[1] = 0; at[1] < w->kernel[1]; at[1]++)
        for (at[2] = 0; at[2] < w->kernel[2]; at[2]++) {
          column_row(c, in, cols, at);
          cols += row;
        }
  }
}

static int64_t product(const int64_t v[3]) { return v[0] * v[1] * v[2]; }

bool tlk_im2col(const struct tlk_im2col *call) {
  Columns c = {&call->windows, call->in.dtype, call->in.data, call->cols.data, false};
  int64_t each = product(call->windows.kernel) * product(call->windows.out);
  return tli_parallel_try(call->planes, tlk_max(1, TLK_GRAIN / tlk_max(1, each)), column_planes,
                          &c);
}

bool tlk_col2im(const struct tlk_col2im *call) {
  int64_t nin = call->planes * product(call->windows.in),
          each = product(call->windows.kernel) * product(call->windows.out);
  tlk_Array x = tlk_upcast(call->in, nin, false),
            y = tlk_upcast(call->cols, call->planes * each, true);
  bool ok = x.data && y.data;
  Columns c = {&call->windows, x.dtype, x.data, y.data, true};
  int64_t grain = tlk_max(1, TLK_GRAIN / tlk_max(1, each));
  if (ok && tli_parallel_try(call->planes, grain, column_planes, &c)) {
    tlk_downcast(call->in, x, nin);
  } else {
    ok = false;
    tlk_upcast_free(x, call->in, nin);
  }
  tlk_upcast_free(y, call->cols, call->planes * each);
  return ok;
}
