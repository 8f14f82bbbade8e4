/*
** lanes.c - copies lines to vector lanes and back, and transforms them there, as lanes.h declares.
*/
#include "kernels/cpu/fft/lanes.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "kernels/cpu/block_walk.h"

/* The gap between two arrays, in bytes. Without this gap, the arrays could be a power of two apart,
** and elements at the same position in both would evict one another from the cache. */
#define APART 192

/* Allocates the working memory of *room: two pieces of at least `rows` rows each, and buffers of
** `buffer` bytes in all. */
static bool open_room(tlk_FftRoom *room, const tlk_FftPlan *plan, int64_t rows, size_t buffer) {
  /* a real signal has one row more, and the first pass of a folded line writes whole vectors */
  size_t array = (size_t)(rows + TLK_FFT_LANE_BYTES / 4) * TLK_FFT_LANE_BYTES + APART;
  room->loops = tlk_fft_loops(plan->part);
  room->bytes = 4 * array + buffer;
  char *at = room->memory = tli_alloc(room->bytes);
  if (at == NULL) return false;
  room->piece = (tlk_FftPiece){at, at + array};
  room->other = (tlk_FftPiece){at + 2 * array, at + 3 * array};
  room->rows = at + 4 * array;
  return true;
}

bool tlk_fft_room_open(tlk_FftRoom *room, const tlk_FftPlan *plan) {
  size_t rows = (size_t)TLK_FFT_CHUNK * 2 * TLK_FFT_LANE_BYTES, half = rows / 2;
  if (!open_room(room, plan, plan->inner ? plan->inner->n : plan->n, 2 * rows + 2 * APART))
    return false;
  char *chunk = room->rows + rows;
  room->chunk = (tlk_FftPiece){chunk + APART, chunk + half + 2 * APART};
  memset(room->rows, 0, rows); /* a lane without a line computes with zeros */
  return true;
}

bool tlk_fft_room_open_folded(tlk_FftRoom *room, const tlk_FftPlan *plan) {
  int64_t rows = tlk_fft_folding(plan)->fold->n;
  return open_room(room, plan, rows, (size_t)(2 * rows + 2) * 2 * TLK_FFT_LANE_BYTES);
}

void tlk_fft_room_close(tlk_FftRoom *room) { tli_free(room->memory, room->bytes); }

void tlk_fft_clear(tlk_FftPiece piece, int64_t from, int64_t to) {
  size_t bytes = (size_t)(to - from) * TLK_FFT_LANE_BYTES;
  memset(tlk_fft_row(piece.re, from), 0, bytes);
  memset(tlk_fft_row(piece.im, from), 0, bytes);
}

static void next(tlk_FftRoom *room) {
  tlk_FftPiece done = room->other;
  room->other = room->piece;
  room->piece = done;
}

static void run_passes(const tlk_FftPlan *p, int from, int to, tlk_FftRoom *room) {
  for (int i = from; i < to; i++) {
    room->loops->pass(&p->passes[i], room->piece, room->other);
    next(room);
  }
}

static tlk_FftPiece rows_from(tlk_FftPiece piece, int64_t row) {
  return (tlk_FftPiece){tlk_fft_row(piece.re, row), tlk_fft_row(piece.im, row)};
}

static void run_convolution(const tlk_FftPlan *p, tlk_FftRoom *room) {
  const tlk_FftPlan *inner = p->inner;
  room->loops->multiply(p->n, p->chirp, 1, room->piece);
  tlk_fft_clear(room->piece, p->n, inner->n);
  run_passes(inner, 0, inner->npasses, room);
  room->loops->multiply(inner->n, p->filter, 1, room->piece);
  tlk_fft_exchange(&room->piece), tlk_fft_exchange(&room->other);
  run_passes(inner, 0, inner->npasses, room);
  tlk_fft_exchange(&room->piece), tlk_fft_exchange(&room->other);
  room->loops->multiply(p->n, p->chirp, 1, room->piece);
}

void tlk_fft_run_folded(const tlk_FftPlan *p, const void *in, int64_t count, bool followed,
                        double sign, tlk_FftRoom *room) {
  const tlk_FftPlan *fold = p->fold;
  room->loops->fold(fold->n, in, count > 1 ? 2 * p->n : 0, followed, sign, p->fold_twiddles,
                    room->piece);
  if (count > 1) {
    int64_t row = room->loops->width / 2;
    tlk_FftRoom second = {.loops = room->loops,
                          .piece = rows_from(room->piece, row),
                          .other = rows_from(room->other, row)};
    run_passes(fold, 0, fold->npasses, &second);
  }
  run_passes(fold, 0, fold->npasses, room);
}

bool tlk_fft_has_lanes(const tlk_FftPlan *p) {
  return p->npasses >= 0 || (p->inner && p->inner->npasses >= 0);
}

void tlk_fft_carry(const tlk_FftLines *k, char *data, int64_t from, int64_t rows, char *lanes,
                   bool out) {
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

/* Returns the piece into which lines are loaded, or from which they are stored. */
static tlk_FftPiece piece_of(const tlk_FftEnd *end, tlk_FftPiece piece) {
  return end->inverse ? (tlk_FftPiece){piece.im, piece.re} : piece;
}

/* Copies `rows` elements of the lines, from number `from` on, to row `row` of a piece and the rows
** after it. */
static void load_rows(const tlk_FftEnd *in, int64_t from, int64_t rows, tlk_FftRoom *room,
                      const tlk_FftPiece *piece, int64_t row) {
  const tlk_FftLines *k = in->lines;
  char *data = (char *)(uintptr_t)in->data;
  if (k->adjacent && k->lanes == k->all) {
    room->loops->split(rows, data + (k->at[0] + from * k->step) * k->size, k->step,
                       rows_from(*piece, row));
    return;
  }
  for (int64_t r = 0; r < rows; r += TLK_FFT_CHUNK) {
    int64_t some = tlk_min(TLK_FFT_CHUNK, rows - r);
    tlk_fft_carry(k, data, from + r, some, room->rows, false);
    room->loops->split(some, room->rows, k->all, rows_from(*piece, row + r));
  }
}

/* Copies `rows` rows of a piece, from row `row` on, to the lines, from element `to` on. */
static void store_rows(const tlk_FftEnd *out, int64_t to, int64_t rows, tlk_FftRoom *room,
                       const tlk_FftPiece *piece, int64_t row) {
  const tlk_FftLines *k = out->lines;
  char *data = (char *)(uintptr_t)out->data;
  if (k->adjacent && k->lanes == k->all) {
    room->loops->join(rows, rows_from(*piece, row), out->scale,
                      data + (k->at[0] + to * k->step) * k->size, k->step);
    return;
  }
  for (int64_t r = 0; r < rows; r += TLK_FFT_CHUNK) {
    int64_t some = tlk_min(TLK_FFT_CHUNK, rows - r);
    room->loops->join(some, rows_from(*piece, row + r), out->scale, room->rows, k->all);
    tlk_fft_carry(k, data, to + r, some, room->rows, true);
  }
}

void tlk_fft_load(const tlk_FftEnd *in, tlk_FftRoom *room, tlk_FftPiece to) {
  tlk_FftPiece piece = piece_of(in, to);
  load_rows(in, 0, in->rows, room, &piece, 0);
}

void tlk_fft_store(const tlk_FftEnd *out, tlk_FftRoom *room, tlk_FftPiece from) {
  tlk_FftPiece piece = piece_of(out, from);
  store_rows(out, 0, out->rows, room, &piece, 0);
}

/* Loads lines and transforms them by the first pass. Both steps alternate, for some groups of rows
** at a time, so that the loaded rows are still in the cache. */
static void load_by_pass(const tlk_FftPass *pass, const tlk_FftEnd *in, tlk_FftRoom *room) {
  int64_t r = pass->radix, most = TLK_FFT_CHUNK / r, lanes = in->lines->all;
  tlk_FftPiece chunk = piece_of(in, room->chunk);
  for (int64_t g = 0; g < pass->m; g += most) {
    int64_t some = tlk_min(most, pass->m - g);
    for (int64_t k = 0; k < r; k++) load_rows(in, k * pass->m + g, some, room, &chunk, k * some);
    tlk_FftPass part = *pass;
    part.m = some, part.far = some * lanes;
    part.twiddles = (const char *)pass->twiddles + g * (r - 1) * in->lines->size;
    room->loops->pass(&part, room->chunk, rows_from(room->other, g * r));
  }
  next(room);
}

/* Transforms lines by the last pass, which has one group, and stores them. Both steps alternate,
** for some rows at a time, so that the rows are still in the cache. */
static void store_by_pass(const tlk_FftPass *pass, const tlk_FftEnd *out, tlk_FftRoom *room) {
  int64_t r = pass->radix, most = TLK_FFT_CHUNK / r, lanes = out->lines->all;
  tlk_FftPiece chunk = piece_of(out, room->chunk);
  int64_t rows = pass->span / lanes;
  for (int64_t i = 0; i < rows; i += most) {
    int64_t some = tlk_min(most, rows - i);
    tlk_FftPass part = *pass;
    part.span = part.apart = some * lanes;
    room->loops->pass(&part, rows_from(room->piece, i), room->chunk);
    for (int64_t k = 0; k < r; k++) store_rows(out, k * rows + i, some, room, &chunk, k * some);
  }
}

void tlk_fft_run(const tlk_FftPlan *p, tlk_FftRoom *room, const tlk_FftEnd *in,
                 const tlk_FftEnd *out) {
  if (p->inner || p->npasses < 2) {
    if (in) tlk_fft_load(in, room, room->piece);
    if (p->inner)
      run_convolution(p, room);
    else
      run_passes(p, 0, p->npasses, room);
    if (out) tlk_fft_store(out, room, room->piece);
    return;
  }
  int last = p->npasses - 1;
  if (in) load_by_pass(&p->passes[0], in, room);
  run_passes(p, in ? 1 : 0, out ? last : last + 1, room);
  if (out) store_by_pass(&p->passes[last], out, room);
}
