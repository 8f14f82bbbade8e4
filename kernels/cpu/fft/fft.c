/*
** fft.c - Fourier transforms along one dimension, of length n. Many lines (the elements along that
** dimension) are transformed at once, one in each vector lane. line.c transforms a single long
** line. Lines are independent, so a NaN stays in its line. Results do not depend on the number of
** threads.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/fft/lanes.h"
#include "kernels/cpu/fft/line.h"
#include "kernels/cpu/fft/plan.h"

/* From this length on, each complex row of a batch is transformed alone, if it can be arranged as a
** matrix. Several rows at once would not fit into the first-level cache. */
#define ALONE_LEAST 1024

typedef struct Call {
  const struct tlk_fft *call;
  /* plan for n complex numbers, or for n / 2 if the signal is real and its length n is even */
  tlk_FftPlan *plan;
  const tlk_FftLoops *loops;
  tl_DType real;
  /* lanes: number of lanes in a vector; size: bytes of a complex number; lines: number of all
  ** lines */
  int64_t lanes, size, lines;
  int64_t in_n, out_n; /* number of elements in an input line and in an output line */
  /* whether the signal is real and has an even length, so that a pair of elements is treated as one
  ** complex number */
  bool paired;
  atomic_bool failed;
} Call;

/* Describes the lines of block b in an array. A line has n elements of `size` bytes. */
static tlk_FftLines block_lines(const Call *c, int64_t b, int64_t n, int64_t size) {
  int64_t inner = c->call->inner, first, count;
  bool columns = inner >= c->lanes / 2;
  if (columns) {
    int64_t blocks = tlk_ceil_div(inner, c->lanes), at = b % blocks * c->lanes;
    first = b / blocks * inner + at;
    count = tlk_min(c->lanes, inner - at);
  } else {
    first = b * c->lanes;
    count = tlk_min(c->lanes, c->lines - first);
  }
  tlk_FftLines k = {
      .size = size, .step = inner, .lanes = count, .all = c->lanes, .adjacent = columns};
  for (int64_t l = 0; l < count; l++) {
    int64_t line = first + l;
    k.at[l] = line / inner * n * inner + line % inner;
  }
  return k;
}

static void block_complex(const Call *c, int64_t b, tlk_FftRoom *room) {
  tlk_FftLines k = block_lines(c, b, c->in_n, c->size);
  bool inverse = c->call->inverse;
  tlk_FftEnd in = {&k, c->call->in.data, c->in_n, inverse, 1};
  tlk_FftEnd out = {&k, c->call->out.data, c->out_n, inverse, c->call->scale};
  tlk_fft_run(c->plan, room, &in, &out);
}

static void block_from_real(const Call *c, int64_t b, tlk_FftRoom *room) {
  int64_t n = c->call->n;
  if (c->paired) {
    tlk_FftLines k = block_lines(c, b, n / 2, c->size);
    tlk_fft_run(c->plan, room, &(tlk_FftEnd){&k, c->call->in.data, n / 2, false, 1}, NULL);
    c->loops->from_pairs(n / 2, c->plan->half_roots, room->piece);
  } else {
    tlk_FftLines k = block_lines(c, b, n, c->size / 2);
    tlk_fft_clear(room->piece, 0, n);
    tlk_fft_carry(&k, c->call->in.data, 0, n, room->piece.re, false);
    tlk_fft_run(c->plan, room, NULL, NULL);
  }
  tlk_FftLines k = block_lines(c, b, c->out_n, c->size);
  tlk_FftEnd out = {&k, c->call->out.data, c->out_n, false, c->call->scale};
  tlk_fft_store(&out, room, room->piece);
}

/* Fills in the second half of the rows: row n - k becomes the conjugate of row k. Row 0 becomes
** real. */
static void mirror_rows(const Call *c, tlk_FftPiece piece) {
  int64_t n = c->call->n;
  tlk_FftPiece minus = {piece.im, piece.im};
  memset(piece.im, 0, TLK_FFT_LANE_BYTES);
  for (int64_t k = 1; k <= n / 2; k++) {
    memcpy(tlk_fft_row(piece.re, n - k), tlk_fft_row(piece.re, k), TLK_FFT_LANE_BYTES);
    c->loops->scale(1, tlk_fft_row(minus.im, k), -1, tlk_fft_row(minus.im, n - k));
  }
}

static void block_to_real(const Call *c, int64_t b, tlk_FftRoom *room) {
  int64_t n = c->call->n;
  tlk_FftLines k = block_lines(c, b, c->in_n, c->size);
  tlk_fft_load(&(tlk_FftEnd){&k, c->call->in.data, c->in_n, false, 1}, room, room->piece);
  if (c->paired)
    c->loops->to_pairs(n / 2, c->plan->half_roots, room->piece);
  else
    mirror_rows(c, room->piece);
  tlk_fft_exchange(&room->piece), tlk_fft_exchange(&room->other);
  if (c->paired) {
    k = block_lines(c, b, n / 2, c->size);
    tlk_FftEnd out = {&k, c->call->out.data, n / 2, true, c->call->scale};
    tlk_fft_run(c->plan, room, NULL, &out);
  } else {
    k = block_lines(c, b, n, c->size / 2);
    tlk_fft_run(c->plan, room, NULL, NULL);
    c->loops->scale(n, room->piece.im, c->call->scale, room->piece.im);
    tlk_fft_carry(&k, c->call->out.data, 0, n, room->piece.im, true);
  }
  tlk_fft_exchange(&room->piece), tlk_fft_exchange(&room->other);
}

static void run_blocks(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  tlk_FftRoom room;
  if (!tlk_fft_room_open(&room, c->plan)) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t b = begin; b < end; b++) switch (c->call->kind) {
    case TLK_FFT_COMPLEX: block_complex(c, b, &room); break;
    case TLK_FFT_FROM_REAL: block_from_real(c, b, &room); break;
    case TLK_FFT_TO_REAL: block_to_real(c, b, &room); break;
    }
  tlk_fft_room_close(&room);
}

/* Transforms `count` lines from line i on, which are rows, by a plan that folds them. `followed`
** tells whether the calling thread transforms the next line, too. */
static void run_folded(const Call *c, int64_t i, int64_t count, bool followed, tlk_FftRoom *room) {
  const struct tlk_fft *call = c->call;
  const tlk_FftPlan *p = c->plan;
  int64_t half = c->size / 2, line = 2 * p->n * half;
  int64_t in_bytes = c->in_n * (call->kind == TLK_FFT_FROM_REAL ? half : c->size);
  int64_t out_bytes = c->out_n * (call->kind == TLK_FFT_TO_REAL ? half : c->size);
  const char *in = (const char *)call->in.data + i * in_bytes;
  char *out = (char *)call->out.data + i * out_bytes;
  double sign = call->inverse ? -1 : 1;
  if (call->kind == TLK_FFT_TO_REAL) {
    for (int64_t k = 0; k < count; k++)
      c->loops->line_pack(p->n, p->half_roots, in + k * in_bytes, room->rows + k * line);
    in = room->rows;
    followed = true;
  }
  tlk_fft_run_folded(p, in, count, followed, sign, room);
  for (int64_t k = 0; k < count; k++, out += out_bytes) {
    tlk_FftPiece piece = tlk_fft_folded_line(room, k);
    if (call->kind == TLK_FFT_FROM_REAL)
      c->loops->line_unpack(p->n, p->half_roots, piece, call->scale, out);
    else
      c->loops->line_out(p->n, piece, call->scale, sign, out);
  }
}

/* Transforms line i alone, not together with other lines in vector lanes. `line` has room for n + 1
** complex numbers. */
static bool run_line(const Call *c, int64_t i, char *line, tlk_FftRoom *room) {
  const struct tlk_fft *call = c->call;
  int64_t size = c->size, half = size / 2, n = call->n, inner = call->inner;
  char *in = (char *)call->in.data + i * c->in_n * (call->kind == TLK_FFT_FROM_REAL ? half : size);
  char *out = (char *)call->out.data + i * c->out_n * (call->kind == TLK_FFT_TO_REAL ? half : size);
  if (call->kind == TLK_FFT_COMPLEX && inner == 1)
    return tlk_fft_line(c->plan, in, out, call->inverse, call->scale, room);
  tlk_Move move = tlk_isa()->move[size == 16 ? 4 : 3];
  if (call->kind == TLK_FFT_COMPLEX) { /* the line is a column of a matrix */
    int64_t at = (i / inner * n * inner + i % inner) * size;
    move(line, size, size, (char *)call->in.data + at, size, inner * size, 1, n);
    bool ok = tlk_fft_line(c->plan, line, line, call->inverse, call->scale, room);
    move((char *)call->out.data + at, size, inner * size, line, size, size, 1, n);
    return ok;
  }
  if (call->kind == TLK_FFT_FROM_REAL && c->paired) {
    TL_TRY(tlk_fft_line(c->plan, in, out, false, call->scale, room));
    c->loops->line_from_pairs(n / 2, c->plan->half_roots, out);
    return true;
  }
  if (call->kind == TLK_FFT_FROM_REAL) {
    c->loops->line_widen(n, in, line);
    TL_TRY(tlk_fft_line(c->plan, line, line, false, call->scale, room));
    memcpy(out, line, (size_t)(c->out_n * size));
    return true;
  }
  if (c->paired) {
    memcpy(line, in, (size_t)(c->in_n * size));
    c->loops->line_to_pairs(n / 2, c->plan->half_roots, line);
    return tlk_fft_line(c->plan, line, out, true, call->scale, room);
  }
  c->loops->line_mirror(n, in, line);
  TL_TRY(tlk_fft_line(c->plan, line, line, true, call->scale, room));
  c->loops->line_real(n, line, out);
  return true;
}

static void run_lines(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  size_t bytes = (size_t)((c->call->n + 1) * c->size);
  char *line = tli_alloc(bytes);
  bool folds = tlk_fft_folding(c->plan) != NULL;
  tlk_FftRoom room;
  if (line == NULL || (folds && !tlk_fft_room_open_folded(&room, c->plan))) {
    if (line) tli_free(line, bytes);
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  bool ok = true, rows = c->plan->fold && c->call->inner == 1 &&
                         (c->paired || c->call->kind == TLK_FFT_COMPLEX);
  int64_t some = rows ? tlk_fft_fold_count(c->plan) : 1;
  for (int64_t i = begin; ok && i < end; i += some)
    if (rows)
      run_folded(c, i, tlk_min(some, end - i), i + some < end, &room);
    else
      ok = run_line(c, i, line, folds ? &room : NULL);
  if (folds) tlk_fft_room_close(&room);
  tli_free(line, bytes);
  if (!ok) atomic_store_explicit(&c->failed, true, memory_order_relaxed);
}

static bool run_call(Call *c) {
  const tlk_FftPlan *p = c->plan;
  int64_t blocks = c->call->inner >= c->lanes / 2
                       ? c->call->outer * tlk_ceil_div(c->call->inner, c->lanes)
                       : tlk_ceil_div(c->lines, c->lanes);
  bool folds = tlk_fft_folding(p) != NULL, divides = p->columns || p->inner || folds;
  bool alone = c->call->inner == 1 &&
               (folds || (p->columns && p->n >= ALONE_LEAST && c->call->kind == TLK_FFT_COMPLEX));
  if (tlk_fft_has_lanes(p) && !alone && (!divides || c->lines >= c->lanes / 2)) {
    TL_TRY(tli_parallel_try(blocks, tlk_max(1, TLK_GRAIN / (4 * c->call->n * c->lanes)), run_blocks,
                            c));
  } else if (folds || c->lines >= tl_get_num_threads()) {
    TL_TRY(tli_parallel_try(c->lines, tlk_max(1, TLK_GRAIN / (4 * c->call->n)), run_lines, c));
  } else {
    run_lines(c, 0, c->lines); /* if there are few lines, threads share the work of each line */
  }
  return !atomic_load_explicit(&c->failed, memory_order_relaxed) ||
         (tli_go_on() && tli_fail(TL_EMEM, "fft: out of memory"));
}

bool tlk_fft(const struct tlk_fft *call) {
  if (call->outer == 0 || call->n == 0 || call->inner == 0) return true;
  bool is_real = call->kind != TLK_FFT_COMPLEX;
  const tlk_Array *complex = call->kind == TLK_FFT_TO_REAL ? &call->in : &call->out;
  tl_DType real = tli_real_dtype(complex->dtype);
  Call c = {.call = call,
            .loops = tlk_fft_loops(real),
            .real = real,
            .lanes = tlk_fft_lanes(real),
            .size = (int64_t)tl_dtype_size(complex->dtype),
            .lines = call->outer * call->inner,
            .in_n = call->kind == TLK_FFT_TO_REAL ? call->n / 2 + 1 : call->n,
            .out_n = call->kind == TLK_FFT_FROM_REAL ? call->n / 2 + 1 : call->n,
            .paired = is_real && call->n % 2 == 0};
  c.plan = tlk_fft_plan(c.paired ? call->n / 2 : call->n, real, c.paired);
  if (c.plan == NULL) return false;
  bool ok = run_call(&c);
  tlk_fft_give_back(c.plan);
  return ok;
}
