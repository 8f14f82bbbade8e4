/*
** scan.c - scans (running reductions) along n. One thread processes each line of elements from its
** first to its last element; adjacent lines are processed together in strips. Lines may be rows, or
** rows of pairs such as complex numbers. Such lines are transposed piece by piece into adjacent
** columns, which are scanned together in vectors.
*/
#include <stdatomic.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/cpu.h"

#define STRIP 128 /* largest number of adjacent lines that are scanned together as a strip */
/* The largest number of rows that are transposed together: TURNED_LONG for rows longer than a page,
** otherwise TURNED. Each long row is a memory stream of its own, and processors prefetch only a few
** streams. */
#define TURNED 32
#define TURNED_LONG 16
#define PAGE 4096
/* number of elements that are scanned between two checks for interruption */
#define UNASKED (1 << 18)
#define FEW 8 /* if there are fewer rows than this, rows are processed one by one */

typedef struct Plan {
  const tlk_Isa *isa;
  const tlk_Scanner *scanner;
  tl_DType compute;
  tlk_Array out, in;
  int64_t *indices;
  int64_t n, inner;
  int64_t lines; /* number of all lines of elements */
  /* width: number of lines in a strip; strips: number of strips in a group of adjacent lines */
  int64_t width, strips;
  int64_t group;  /* number of adjacent lines: inner, or all lines if they are transposed */
  int64_t s0, s1; /* s0: stride from one line to the next; s1: stride along n; both in elements */
  /* number of adjacent elements that are moved together when lines are transposed: inner, or 1 if
  ** lines are adjacent */
  int64_t unit;
  atomic_bool stopped; /* becomes true if the user interrupts the scan */
} Plan;

typedef struct Strip {
  int64_t first; /* number of the strip's first element, in the order of memory */
  int64_t cols;
  _Alignas(64) char state[STRIP * TLK_ACC_BYTES];
  int64_t where[STRIP];
} Strip;

static char *element(tlk_Array a, int64_t i) {
  return (char *)a.data + i * (int64_t)tl_dtype_size(a.dtype);
}

/* Copies a piece of an array or of the indices to a buffer (rows, cols) or, if `out`, from the
** buffer to the array. */
static void carry(const Plan *p, const Strip *s, int64_t rows, tl_DType dtype, char *outside,
                  char *buffer, bool out) {
  int64_t size = (int64_t)tl_dtype_size(dtype), unit = p->unit * size, cols = s->cols / p->unit;
  tlk_Move copy = p->isa->move[tlk_log2_size(dtype) + (p->unit == 2)];
  if (out)
    copy(outside, p->s0 * unit, p->s1 * size, buffer, unit, size * s->cols, cols, rows);
  else
    copy(buffer, unit, size * s->cols, outside, p->s0 * unit, p->s1 * size, cols, rows);
}

/* Scans `rows` elements of each line, from element `at` on, in buffers of TLK_CHUNK elements. */
static void run_buffered(const Plan *p, Strip *s, int64_t at, int64_t rows) {
  _Alignas(64) char buffer[TLK_CHUNK * 8], raw[TLK_CHUNK * 8];
  int64_t first = s->first + at * p->s1, total = rows * s->cols;
  bool convert_in = p->in.dtype != p->compute, convert_out = p->out.dtype != p->compute;
  carry(p, s, rows, p->in.dtype, element(p->in, first), convert_in ? raw : buffer, false);
  if (convert_in) p->isa->convert[p->in.dtype][p->compute](total, buffer, raw);
  int64_t *indices = p->indices ? (int64_t *)(void *)raw : NULL;
  p->scanner->run(rows, s->cols, s->cols, buffer, buffer, s->cols, indices, at + 1, s->state,
                  s->where);
  if (indices != NULL) carry(p, s, rows, TL_I64, (char *)(p->indices + first), raw, true);
  if (convert_out) p->isa->convert[p->compute][p->out.dtype](total, raw, buffer);
  carry(p, s, rows, p->out.dtype, element(p->out, first), convert_out ? raw : buffer, true);
}

static void run_strip(Plan *p, Strip *s) {
  p->scanner->start(s->cols, s->state);
  for (int64_t c = 0; c < s->cols; c++) s->where[c] = 1;
  bool side_by_side = p->s0 == 1 || s->cols == 1;
  bool direct = side_by_side && p->in.dtype == p->compute && p->out.dtype == p->compute;
  int64_t rows = (direct ? UNASKED : TLK_CHUNK) / s->cols, done = 0;
  for (int64_t r = 0; r < p->n && !p->stopped; r += rows) {
    int64_t count = tlk_min(rows, p->n - r), at = s->first + r * p->s1;
    done += count * s->cols;
    if (done > UNASKED) {
      done = 0;
      if (tli_interrupted()) p->stopped = true;
    }
    if (direct)
      p->scanner->run(count, s->cols, p->s1, element(p->in, at), element(p->out, at), p->s1,
                      p->indices ? p->indices + at : NULL, r + 1, s->state, s->where);
    else
      run_buffered(p, s, r, count);
  }
}

static void run_strips(void *context, int64_t begin, int64_t end) {
  Plan *p = context;
  Strip s;
  for (int64_t i = begin; i < end; i++) {
    int64_t o = i / p->strips, line = i % p->strips * p->width;
    s.first = o * p->n * p->inner + line * p->s0;
    s.cols = tlk_min(p->width, p->group - line);
    run_strip(p, &s);
  }
}

bool tlk_scan(const struct tlk_scan *call) {
  if (call->outer == 0 || call->n == 0 || call->inner == 0) return true;
  const tlk_Isa *isa = tlk_isa();
  bool turned = call->inner <= 2 && call->outer >= FEW && call->n > 1;
  Plan p = {.isa = isa,
            .scanner = &isa->scanners[tlk_compute_index(call->compute)][call->kernel],
            .compute = call->compute,
            .out = call->out,
            .in = call->in,
            .indices = call->indices,
            .n = call->n,
            .inner = call->inner,
            .lines = call->outer * call->inner,
            .group = turned ? call->outer * call->inner : call->inner,
            .s0 = turned ? call->n : 1,
            .s1 = call->inner,
            .unit = turned ? call->inner : 1};
  if (p.scanner->run == NULL)
    return tli_fail(TL_EINTERNAL, "scan %d: no kernel that computes in %s", (int)call->kernel,
                    tl_dtype_name(call->compute));
  int64_t share = tlk_max(FEW, tlk_ceil_div(call->outer, tl_get_num_threads()));
  bool is_long = call->n * (int64_t)tl_dtype_size(call->in.dtype) > PAGE;
  p.width =
      tlk_min(p.group, turned ? p.unit * tlk_min(is_long ? TURNED_LONG : TURNED, share) : STRIP);
  p.strips = tlk_ceil_div(p.group, p.width);
  TL_TRY(tli_parallel_try(p.lines / p.group * p.strips, tlk_max(1, TLK_GRAIN / (call->n * p.width)),
                          run_strips, &p));
  return !p.stopped || (tli_go_on() && tli_fail(TL_EINTERRUPT, "interrupted!"));
}
