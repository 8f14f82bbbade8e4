/*
** line.c - transforms one line, as line.h declares. A long line is arranged as a matrix (n1, n2).
** Then the matrix's columns are transformed as lines, and after them its rows.
*/
#include "kernels/cpu/fft/line.h"

#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/fft/lanes.h"

static bool no_memory(void) { return tli_fail(TL_EMEM, "fft: out of memory"); }

typedef struct Line {
  const tlk_FftPlan *plan;
  const tlk_FftLoops *loops;
  const char *in;
  char *out, *between; /* arrays (n1, n2) */
  bool inverse;
  double scale;
  atomic_bool failed;
} Line;

static tlk_FftLines lines_of(const Line *c, int64_t first, int64_t most, int64_t between,
                             int64_t step) {
  int64_t size = 2 * (int64_t)tl_dtype_size(c->plan->part), lanes = tlk_fft_lanes(c->plan->part);
  tlk_FftLines k = {
      .size = size, .step = step, .lanes = tlk_min(lanes, most - first), .all = lanes};
  k.adjacent = between == 1;
  for (int64_t l = 0; l < k.lanes; l++) k.at[l] = (first + l) * between;
  return k;
}

static void line_columns(void *context, int64_t begin, int64_t end) {
  Line *c = context;
  const tlk_FftPlan *p = c->plan, *columns = p->columns;
  tlk_FftRoom room;
  if (!tlk_fft_room_open(&room, columns)) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  int64_t n2 = p->rows->n, size = 2 * (int64_t)tl_dtype_size(p->part);
  for (int64_t b = begin; b < end; b++) {
    tlk_FftLines k = lines_of(c, b * tlk_fft_lanes(p->part), n2, 1, n2);
    tlk_FftEnd in = {&k, c->in, columns->n, c->inverse, 1};
    tlk_FftEnd out = {&k, c->between, columns->n, c->inverse, 1};
    tlk_fft_run(columns, &room, &in, NULL);
    c->loops->twist(columns->n, p->lane_twiddles, (const char *)p->base_twiddles + b * size,
                    p->blocks, room.piece);
    tlk_fft_store(&out, &room, room.piece);
  }
  tlk_fft_room_close(&room);
}

static void line_rows(void *context, int64_t begin, int64_t end) {
  Line *c = context;
  const tlk_FftPlan *p = c->plan, *rows = p->rows;
  tlk_FftRoom room;
  if (!tlk_fft_room_open(&room, rows)) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  int64_t n1 = p->columns->n;
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b * tlk_fft_lanes(p->part);
    tlk_FftLines from = lines_of(c, first, n1, rows->n, 1), to = lines_of(c, first, n1, 1, n1);
    tlk_FftEnd in = {&from, c->between, rows->n, c->inverse, 1};
    tlk_FftEnd out = {&to, c->out, rows->n, c->inverse, c->scale};
    tlk_fft_run(rows, &room, &in, &out);
  }
  tlk_fft_room_close(&room);
}

static bool line_divided(Line *c) {
  const tlk_FftPlan *p = c->plan;
  size_t bytes = (size_t)p->n * 2 * tl_dtype_size(p->part);
  int64_t lanes = tlk_fft_lanes(p->part), n1 = p->columns->n, n2 = p->rows->n;
  if ((c->between = tli_alloc(bytes)) == NULL) return no_memory();
  bool ok = tli_parallel_try(p->blocks, tlk_max(1, TLK_GRAIN / (2 * n1 * lanes)), line_columns, c);
  ok = ok && tli_parallel_try(tlk_ceil_div(n1, lanes), tlk_max(1, TLK_GRAIN / (2 * n2 * lanes)),
                              line_rows, c);
  tli_free(c->between, bytes);
  if (ok && atomic_load_explicit(&c->failed, memory_order_relaxed)) return no_memory();
  return ok;
}

/* Transforms one line by Bluestein's algorithm. The inverse transform is computed as the conjugate
** of the transform of the conjugates. */
static bool line_chirp(const Line *c) {
  const tlk_FftPlan *p = c->plan;
  int64_t size = 2 * (int64_t)tl_dtype_size(p->part), m = p->inner->n;
  double sign = c->inverse ? -1 : 1;
  size_t bytes = (size_t)(m * size);
  char *line = tli_alloc(bytes);
  if (line == NULL) return no_memory();
  c->loops->line_multiply(p->n, c->in, &(tlk_FftFactors){p->chirp, sign, 1, 1}, line);
  memset(line + p->n * size, 0, (size_t)((m - p->n) * size));
  bool ok = tlk_fft_line(p->inner, line, line, false, 1, NULL);
  if (ok) c->loops->line_multiply(m, line, &(tlk_FftFactors){p->filter, 1, 1, 1}, line);
  ok = ok && tlk_fft_line(p->inner, line, line, true, c->scale, NULL);
  if (ok) c->loops->line_multiply(p->n, line, &(tlk_FftFactors){p->chirp, 1, 1, sign}, c->out);
  tli_free(line, bytes);
  return ok;
}

/* Transforms a folded line. If the plan uses Bluestein's algorithm, folds the line's convolution
** instead. */
static void line_folded(const Line *c, tlk_FftRoom *room) {
  const tlk_FftPlan *p = c->plan, *inner = p->inner;
  double sign = c->inverse ? -1 : 1;
  if (inner == NULL) {
    tlk_fft_run_folded(p, c->in, 1, false, sign, room);
    c->loops->line_out(p->n, room->piece, c->scale, sign, c->out);
    return;
  }
  int64_t size = 2 * (int64_t)tl_dtype_size(p->part);
  c->loops->line_multiply(p->n, c->in, &(tlk_FftFactors){p->chirp, sign, 1, 1}, room->rows);
  memset(room->rows + p->n * size, 0, (size_t)((inner->n - p->n) * size));
  tlk_fft_run_folded(inner, room->rows, 1, true, 1, room);
  c->loops->line_product(inner->n, room->piece, &(tlk_FftFactors){p->filter, 1, 1, -1}, room->rows);
  tlk_fft_run_folded(inner, room->rows, 1, true, 1, room);
  c->loops->line_product(p->n, room->piece, &(tlk_FftFactors){p->chirp, -1, c->scale, sign},
                         c->out);
}

static bool line_alone(const Line *c) {
  tlk_FftRoom room;
  if (!tlk_fft_room_open(&room, c->plan)) return no_memory();
  tlk_FftLines k = lines_of(c, 0, 1, c->plan->n, 1);
  tlk_FftEnd in = {&k, c->in, c->plan->n, c->inverse, 1};
  tlk_FftEnd out = {&k, c->out, c->plan->n, c->inverse, c->scale};
  tlk_fft_run(c->plan, &room, &in, &out);
  tlk_fft_room_close(&room);
  return true;
}

bool tlk_fft_line(const tlk_FftPlan *plan, const void *in, void *out, bool inverse, double scale,
                  tlk_FftRoom *room) {
  Line c = {.plan = plan,
            .loops = tlk_fft_loops(plan->part),
            .in = in,
            .out = out,
            .inverse = inverse,
            .scale = scale};
  if (tlk_fft_folding(plan)) {
    tlk_FftRoom own;
    if (room == NULL && !tlk_fft_room_open_folded(&own, plan)) return no_memory();
    line_folded(&c, room ? room : &own);
    if (room == NULL) tlk_fft_room_close(&own);
    return true;
  }
  return plan->columns ? line_divided(&c) : plan->inner ? line_chirp(&c) : line_alone(&c);
}
