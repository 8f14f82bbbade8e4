/*
** fft.c - Fourier transforms along one dimension, of length n. Many lines are transformed at once,
** one in each vector lane. A single long line is arranged as a matrix, whose columns and rows are
** then transformed as lines. Lines are independent, so a NaN stays in its line. Results do not
** depend on the number of threads.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "kernels/cpu/block_walk.h"
#include "kernels/cpu/fft/fft.h"

#define CHUNK_ROWS 64 /* number of rows of lanes that are transposed at once */

static const tlk_FftLoops *loops_of(tl_DType real) { return tlk_isa()->fft[real == TL_F64]; }

/* ---- workspaces ---- */

/* The buffers for transforming lines in vector lanes, all in one allocation. */
typedef struct Room {
  tlk_FftPiece piece, other;
  char *rows; /* a buffer (CHUNK_ROWS, lanes) of complex numbers */
  void *memory;
  size_t bytes;
} Room;

/* The gap between two arrays, in bytes. Without it, the arrays could be a power of two apart, and
** elements at the same position in both would evict one another from the cache. */
#define APART 192

static bool room_open(Room *room, const tlk_FftPlan *plan) {
  int64_t rows = (plan->inner ? plan->inner->n : plan->n) + 1;
  size_t array = (size_t)rows * TLK_FFT_LANE_BYTES + APART;
  size_t chunk = (size_t)CHUNK_ROWS * 2 * TLK_FFT_LANE_BYTES;
  room->bytes = 4 * array + chunk;
  char *at = room->memory = tli_alloc(room->bytes);
  if (at == NULL) return false;
  room->piece = (tlk_FftPiece){at, at + array};
  room->other = (tlk_FftPiece){at + 2 * array, at + 3 * array};
  room->rows = at + 4 * array;
  return true;
}

static void room_close(Room *room) { tli_free(room->memory, room->bytes); }

static void exchange(tlk_FftPiece *piece) { *piece = (tlk_FftPiece){piece->im, piece->re}; }

static void *row_of(void *array, int64_t row) { return (char *)array + row * TLK_FFT_LANE_BYTES; }

static void clear(tlk_FftPiece piece, int64_t from, int64_t to) {
  size_t bytes = (size_t)(to - from) * TLK_FFT_LANE_BYTES;
  memset(row_of(piece.re, from), 0, bytes);
  memset(row_of(piece.im, from), 0, bytes);
}

/* ---- transforms in lanes ---- */

static void run_passes(const tlk_FftLoops *loops, const tlk_FftPlan *p, Room *room) {
  for (int i = 0; i < p->npasses; i++) {
    loops->pass(&p->passes[i], room->piece, room->other);
    tlk_FftPiece done = room->other;
    room->other = room->piece;
    room->piece = done;
  }
}

/* Transforms the lines in room->piece. */
static void run(const tlk_FftLoops *loops, const tlk_FftPlan *p, Room *room) {
  if (p->inner == NULL) {
    run_passes(loops, p, room);
    return;
  }
  loops->multiply(p->n, p->chirp, 1, room->piece);
  clear(room->piece, p->n, p->inner->n);
  run_passes(loops, p->inner, room);
  loops->multiply(p->inner->n, p->filter, 1, room->piece);
  exchange(&room->piece), exchange(&room->other);
  run_passes(loops, p->inner, room);
  exchange(&room->piece), exchange(&room->other);
  loops->multiply(p->n, p->chirp, 1, room->piece);
}

static bool has_lanes(const tlk_FftPlan *p) {
  return p->npasses >= 0 || (p->inner && p->inner->npasses >= 0);
}

/* Lines in memory that are transformed at once. Element j of line l is element at[l] + j * step; an
** element has `size` bytes. */
typedef struct Lines {
  int64_t size, step, lanes, all; /* lanes: number of lines; all: number of lanes in a vector */
  bool adjacent;                  /* whether at[l] is at[0] + l for all l */
  int64_t at[TLK_FFT_LANE_BYTES / 4];
} Lines;

/* Copies elements [from, from + rows) of the lines to rows of lanes or, if `out`, back from rows of
** lanes. */
static void carry(const Lines *k, char *data, int64_t from, int64_t rows, char *lanes, bool out) {
  tlk_Move move = tlk_isa()->move[k->size == 16 ? 4 : k->size == 8 ? 3 : 2];
  int64_t size = k->size, row = size * k->all, step = k->step * size;
  int64_t between = k->lanes > 1 ? (k->at[1] - k->at[0]) * size : 0;
  bool even = true;
  for (int64_t l = 2; l < k->lanes; l++) even = even && (k->at[l] - k->at[l - 1]) * size == between;
  for (int64_t l = 0; l < (even ? 1 : k->lanes); l++) {
    char *line = data + (k->at[l] + from * k->step) * size, *lane = lanes + l * size;
    int64_t cols = even ? k->lanes : 1, apart = even ? between : size;
    if (out)
      move(line, apart, step, lane, size, row, cols, rows);
    else
      move(lane, size, row, line, apart, step, cols, rows);
  }
}

static void load(const tlk_FftLoops *loops, const Lines *k, const void *data, int64_t rows,
                 Room *room, tlk_FftPiece to) {
  char *in = (char *)(uintptr_t)data;
  if (k->adjacent && k->lanes == k->all) {
    loops->split(rows, in + k->at[0] * k->size, k->step, to);
    return;
  }
  if (k->lanes < k->all) memset(room->rows, 0, (size_t)CHUNK_ROWS * 2 * TLK_FFT_LANE_BYTES);
  for (int64_t r = 0; r < rows; r += CHUNK_ROWS) {
    int64_t some = tlk_min(CHUNK_ROWS, rows - r);
    carry(k, in, r, some, room->rows, false);
    loops->split(some, room->rows, k->all, (tlk_FftPiece){row_of(to.re, r), row_of(to.im, r)});
  }
}

static void store(const tlk_FftLoops *loops, const Lines *k, void *data, int64_t rows, Room *room,
                  tlk_FftPiece from, double scale) {
  if (k->adjacent && k->lanes == k->all) {
    loops->join(rows, from, scale, (char *)data + k->at[0] * k->size, k->step);
    return;
  }
  for (int64_t r = 0; r < rows; r += CHUNK_ROWS) {
    int64_t some = tlk_min(CHUNK_ROWS, rows - r);
    loops->join(some, (tlk_FftPiece){row_of(from.re, r), row_of(from.im, r)}, scale, room->rows,
                k->all);
    carry(k, data, r, some, room->rows, true);
  }
}

/* ---- one long line: (n1, n2) ---- */

typedef struct Line {
  const tlk_FftPlan *plan;
  const tlk_FftLoops *loops;
  const char *in;
  char *out, *between; /* (n1, n2) */
  bool inverse;
  double scale;
  atomic_bool failed;
} Line;

static Lines lines_of(const Line *c, int64_t first, int64_t most, int64_t between, int64_t step) {
  int64_t size = 2 * (int64_t)tl_dtype_size(c->plan->part), lanes = tlk_fft_lanes(c->plan->part);
  Lines k = {.size = size, .step = step, .lanes = tlk_min(lanes, most - first), .all = lanes};
  k.adjacent = between == 1;
  for (int64_t l = 0; l < k.lanes; l++) k.at[l] = (first + l) * between;
  return k;
}

static void line_columns(void *context, int64_t begin, int64_t end) {
  Line *c = context;
  const tlk_FftPlan *p = c->plan, *columns = p->columns;
  Room room;
  if (!room_open(&room, columns)) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  int64_t n2 = p->rows->n, size = 2 * (int64_t)tl_dtype_size(p->part);
  for (int64_t b = begin; b < end; b++) {
    Lines k = lines_of(c, b * tlk_fft_lanes(p->part), n2, 1, n2);
    load(c->loops, &k, c->in, columns->n, &room, room.piece);
    if (c->inverse) exchange(&room.piece), exchange(&room.other);
    run(c->loops, columns, &room);
    c->loops->twist(columns->n, p->lane_twiddles, (const char *)p->base_twiddles + b * size,
                    p->blocks, room.piece);
    store(c->loops, &k, c->between, columns->n, &room, room.piece, 1);
    if (c->inverse) exchange(&room.piece), exchange(&room.other);
  }
  room_close(&room);
}

static void line_rows(void *context, int64_t begin, int64_t end) {
  Line *c = context;
  const tlk_FftPlan *p = c->plan, *rows = p->rows;
  Room room;
  if (!room_open(&room, rows)) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  int64_t n1 = p->columns->n;
  for (int64_t b = begin; b < end; b++) {
    int64_t first = b * tlk_fft_lanes(p->part);
    Lines in = lines_of(c, first, n1, rows->n, 1), out = lines_of(c, first, n1, 1, n1);
    load(c->loops, &in, c->between, rows->n, &room, room.piece);
    run(c->loops, rows, &room);
    if (c->inverse) exchange(&room.piece);
    store(c->loops, &out, c->out, rows->n, &room, room.piece, c->scale);
    if (c->inverse) exchange(&room.piece);
  }
  room_close(&room);
}

static bool no_memory(void) { return tli_fail(TL_EMEM, "fft: out of memory"); }

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

/* Transforms one line by Bluestein's algorithm. The inverse has the same elements as the forward
** transform; all but the first are in reverse order. */
static bool line_chirp(const Line *c) {
  const tlk_FftPlan *p = c->plan;
  int64_t size = 2 * (int64_t)tl_dtype_size(p->part), m = p->inner->n;
  size_t bytes = (size_t)(m * size);
  char *line = tli_alloc(bytes);
  if (line == NULL) return no_memory();
  c->loops->line_multiply(p->n, c->in, p->chirp, line);
  memset(line + p->n * size, 0, (size_t)((m - p->n) * size));
  bool ok = tlk_fft_line(p->inner, line, line, false, 1);
  if (ok) c->loops->line_multiply(m, line, p->filter, line);
  ok = ok && tlk_fft_line(p->inner, line, line, true, c->scale);
  if (ok) c->loops->line_multiply(p->n, line, p->chirp, c->inverse ? line : c->out);
  for (int64_t k = 0; ok && c->inverse && k < p->n; k++)
    memcpy(c->out + k * size, line + (k > 0 ? p->n - k : 0) * size, (size_t)size);
  tli_free(line, bytes);
  return ok;
}

static bool line_alone(const Line *c) {
  Room room;
  if (!room_open(&room, c->plan)) return no_memory();
  Lines k = lines_of(c, 0, 1, c->plan->n, 1);
  load(c->loops, &k, c->in, c->plan->n, &room, room.piece);
  if (c->inverse) exchange(&room.piece), exchange(&room.other);
  run(c->loops, c->plan, &room);
  if (c->inverse) exchange(&room.piece);
  store(c->loops, &k, c->out, c->plan->n, &room, room.piece, c->scale);
  room_close(&room);
  return true;
}

bool tlk_fft_line(const tlk_FftPlan *plan, const void *in, void *out, bool inverse, double scale) {
  Line c = {.plan = plan,
            .loops = loops_of(plan->part),
            .in = in,
            .out = out,
            .inverse = inverse,
            .scale = scale};
  return plan->columns ? line_divided(&c) : plan->inner ? line_chirp(&c) : line_alone(&c);
}

/* ---- calls ---- */

typedef struct Call {
  const struct tlk_fft *call;
  /* plan for n numbers; for n / 2 if the signal is real and its length n is even */
  tlk_FftPlan *plan;
  const tlk_FftLoops *loops;
  tl_DType real;
  /* number of lanes in a vector, size of a complex number in bytes, total number of lines */
  int64_t lanes, size, lines;
  int64_t in_n, out_n; /* number of elements in an input line and in an output line */
  /* whether the signal is real and of even length, so that each pair of elements forms a complex
  ** number */
  bool paired;
  atomic_bool failed;
} Call;

/* Returns the lines of block b in an array whose lines have n elements of `size` bytes. */
static Lines block_lines(const Call *c, int64_t b, int64_t n, int64_t size) {
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
  Lines k = {.size = size, .step = inner, .lanes = count, .all = c->lanes, .adjacent = columns};
  for (int64_t l = 0; l < count; l++) {
    int64_t line = first + l;
    k.at[l] = line / inner * n * inner + line % inner;
  }
  return k;
}

static void block_complex(const Call *c, int64_t b, Room *room) {
  Lines k = block_lines(c, b, c->in_n, c->size);
  bool inverse = c->call->inverse;
  load(c->loops, &k, c->call->in.data, c->in_n, room, room->piece);
  if (inverse) exchange(&room->piece), exchange(&room->other);
  run(c->loops, c->plan, room);
  if (inverse) exchange(&room->piece), exchange(&room->other);
  store(c->loops, &k, c->call->out.data, c->out_n, room, room->piece, c->call->scale);
}

static void block_from_real(const Call *c, int64_t b, Room *room) {
  int64_t n = c->call->n;
  if (c->paired) {
    Lines k = block_lines(c, b, n / 2, c->size);
    load(c->loops, &k, c->call->in.data, n / 2, room, room->piece);
    run(c->loops, c->plan, room);
    c->loops->from_pairs(n / 2, c->plan->half_roots, room->piece);
  } else {
    Lines k = block_lines(c, b, n, c->size / 2);
    clear(room->piece, 0, n);
    carry(&k, c->call->in.data, 0, n, room->piece.re, false);
    run(c->loops, c->plan, room);
  }
  Lines k = block_lines(c, b, c->out_n, c->size);
  store(c->loops, &k, c->call->out.data, c->out_n, room, room->piece, c->call->scale);
}

/* Fills in the second half of the rows: row n - k is the conjugate of row k. Row 0 becomes real. */
static void mirror_rows(const Call *c, tlk_FftPiece piece) {
  int64_t n = c->call->n;
  tlk_FftPiece minus = {piece.im, piece.im};
  memset(piece.im, 0, TLK_FFT_LANE_BYTES);
  for (int64_t k = 1; k <= n / 2; k++) {
    memcpy(row_of(piece.re, n - k), row_of(piece.re, k), TLK_FFT_LANE_BYTES);
    c->loops->scale(1, row_of(minus.im, k), -1, row_of(minus.im, n - k));
  }
}

static void block_to_real(const Call *c, int64_t b, Room *room) {
  int64_t n = c->call->n;
  Lines in = block_lines(c, b, c->in_n, c->size);
  load(c->loops, &in, c->call->in.data, c->in_n, room, room->piece);
  if (c->paired)
    c->loops->to_pairs(n / 2, c->plan->half_roots, room->piece);
  else
    mirror_rows(c, room->piece);
  exchange(&room->piece), exchange(&room->other);
  run(c->loops, c->plan, room);
  exchange(&room->piece), exchange(&room->other);
  if (c->paired) {
    Lines k = block_lines(c, b, n / 2, c->size);
    store(c->loops, &k, c->call->out.data, n / 2, room, room->piece, c->call->scale);
  } else {
    Lines k = block_lines(c, b, n, c->size / 2);
    c->loops->scale(n, room->piece.re, c->call->scale, room->piece.re);
    carry(&k, c->call->out.data, 0, n, room->piece.re, true);
  }
}

static void run_blocks(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  Room room;
  if (!room_open(&room, c->plan)) {
    atomic_store_explicit(&c->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t b = begin; b < end; b++) switch (c->call->kind) {
    case TLK_FFT_COMPLEX: block_complex(c, b, &room); break;
    case TLK_FFT_FROM_REAL: block_from_real(c, b, &room); break;
    case TLK_FFT_TO_REAL: block_to_real(c, b, &room); break;
    }
  room_close(&room);
}

/* Transforms line i alone; `line` has room for n + 1 complex numbers. */
static bool run_line(const Call *c, int64_t i, char *line) {
  const struct tlk_fft *call = c->call;
  int64_t size = c->size, half = size / 2, n = call->n, inner = call->inner;
  char *in = (char *)call->in.data + i * c->in_n * (call->kind == TLK_FFT_FROM_REAL ? half : size);
  char *out = (char *)call->out.data + i * c->out_n * (call->kind == TLK_FFT_TO_REAL ? half : size);
  if (call->kind == TLK_FFT_COMPLEX && inner == 1)
    return tlk_fft_line(c->plan, in, out, call->inverse, call->scale);
  tlk_Move move = tlk_isa()->move[size == 16 ? 4 : 3], parts = tlk_isa()->move[size == 16 ? 3 : 2];
  if (call->kind == TLK_FFT_COMPLEX) { /* a column */
    int64_t at = (i / inner * n * inner + i % inner) * size;
    move(line, size, size, (char *)call->in.data + at, size, inner * size, 1, n);
    bool ok = tlk_fft_line(c->plan, line, line, call->inverse, call->scale);
    move((char *)call->out.data + at, size, inner * size, line, size, size, 1, n);
    return ok;
  }
  if (call->kind == TLK_FFT_FROM_REAL && c->paired) {
    TL_TRY(tlk_fft_line(c->plan, in, out, false, call->scale));
    c->loops->line_from_pairs(n / 2, c->plan->half_roots, out);
    return true;
  }
  if (call->kind == TLK_FFT_FROM_REAL) {
    memset(line, 0, (size_t)(n * size));
    parts(line, half, size, in, half, half, 1, n);
    TL_TRY(tlk_fft_line(c->plan, line, line, false, call->scale));
    memcpy(out, line, (size_t)(c->out_n * size));
    return true;
  }
  memcpy(line, in, (size_t)(c->in_n * size));
  if (c->paired) {
    c->loops->line_to_pairs(n / 2, c->plan->half_roots, line);
    return tlk_fft_line(c->plan, line, out, true, call->scale);
  }
  memset(line + half, 0, (size_t)half);
  for (int64_t k = 1; k <= n / 2; k++) {
    char *to = line + (n - k) * size;
    memcpy(to, line + k * size, (size_t)size);
    if (size == 8)
      ((float *)(void *)to)[1] *= -1;
    else
      ((double *)(void *)to)[1] *= -1;
  }
  TL_TRY(tlk_fft_line(c->plan, line, line, true, call->scale));
  parts(out, half, half, line, half, size, 1, n);
  return true;
}

static void run_lines(void *context, int64_t begin, int64_t end) {
  Call *c = context;
  size_t bytes = (size_t)((c->call->n + 1) * c->size);
  char *line = tli_alloc(bytes);
  bool ok = line != NULL;
  for (int64_t i = begin; ok && i < end; i++) ok = run_line(c, i, line);
  if (line) tli_free(line, bytes);
  if (!ok) atomic_store_explicit(&c->failed, true, memory_order_relaxed);
}

static bool run_call(Call *c) {
  const tlk_FftPlan *p = c->plan;
  int64_t blocks = c->call->inner >= c->lanes / 2
                       ? c->call->outer * tlk_ceil_div(c->call->inner, c->lanes)
                       : tlk_ceil_div(c->lines, c->lanes);
  bool divides = p->columns || p->inner;
  if (has_lanes(p) && (!divides || c->lines >= c->lanes / 2)) {
    TL_TRY(tli_parallel_try(blocks, tlk_max(1, TLK_GRAIN / (4 * c->call->n * c->lanes)), run_blocks,
                            c));
  } else if (c->lines >= tl_get_num_threads()) {
    TL_TRY(tli_parallel_try(c->lines, tlk_max(1, TLK_GRAIN / (4 * c->call->n)), run_lines, c));
  } else {
    run_lines(c, 0, c->lines); /* there are few lines, so threads share the work of each line */
  }
  return !atomic_load_explicit(&c->failed, memory_order_relaxed) || no_memory();
}

bool tlk_fft(const struct tlk_fft *call) {
  if (call->outer == 0 || call->n == 0 || call->inner == 0) return true;
  bool is_real = call->kind != TLK_FFT_COMPLEX;
  const tlk_Array *complex = call->kind == TLK_FFT_TO_REAL ? &call->in : &call->out;
  tl_DType real = tli_real_dtype(complex->dtype);
  Call c = {.call = call,
            .loops = loops_of(real),
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
