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

/* Allocates two pieces of at least `rows` rows, and a buffer of `buffer` bytes. */
static bool open_room(tlk_FftRoom *room, int64_t rows, size_t buffer) {
  /* a real signal has one row more, and the first pass of a folded line writes whole vectors */
  size_t array = (size_t)(rows + TLK_FFT_LANE_BYTES / 4) * TLK_FFT_LANE_BYTES + APART;
  room->bytes = 4 * array + buffer;
  char *at = room->memory = tli_alloc(room->bytes);
  if (at == NULL) return false;
  room->piece = (tlk_FftPiece){at, at + array};
  room->other = (tlk_FftPiece){at + 2 * array, at + 3 * array};
  room->rows = at + 4 * array;
  return true;
}

bool tlk_fft_room_open(tlk_FftRoom *room, const tlk_FftPlan *plan) {
  return open_room(room, plan->inner ? plan->inner->n : plan->n,
                   (size_t)TLK_FFT_CHUNK * 2 * TLK_FFT_LANE_BYTES);
}

bool tlk_fft_room_open_folded(tlk_FftRoom *room, const tlk_FftPlan *plan) {
  int64_t rows = tlk_fft_folding(plan)->fold->n;
  return open_room(room, rows, (size_t)(rows + 1) * 2 * TLK_FFT_LANE_BYTES);
}

void tlk_fft_room_close(tlk_FftRoom *room) { tli_free(room->memory, room->bytes); }

void tlk_fft_clear(tlk_FftPiece piece, int64_t from, int64_t to) {
  size_t bytes = (size_t)(to - from) * TLK_FFT_LANE_BYTES;
  memset(tlk_fft_row(piece.re, from), 0, bytes);
  memset(tlk_fft_row(piece.im, from), 0, bytes);
}

static void run_passes(const tlk_FftLoops *loops, const tlk_FftPlan *p, tlk_FftRoom *room) {
  for (int i = 0; i < p->npasses; i++) {
    loops->pass(&p->passes[i], room->piece, room->other);
    tlk_FftPiece done = room->other;
    room->other = room->piece;
    room->piece = done;
  }
}

void tlk_fft_run(const tlk_FftLoops *loops, const tlk_FftPlan *p, tlk_FftRoom *room) {
  if (p->inner == NULL) {
    run_passes(loops, p, room);
    return;
  }
  loops->multiply(p->n, p->chirp, 1, room->piece);
  tlk_fft_clear(room->piece, p->n, p->inner->n);
  run_passes(loops, p->inner, room);
  loops->multiply(p->inner->n, p->filter, 1, room->piece);
  tlk_fft_exchange(&room->piece), tlk_fft_exchange(&room->other);
  run_passes(loops, p->inner, room);
  tlk_fft_exchange(&room->piece), tlk_fft_exchange(&room->other);
  loops->multiply(p->n, p->chirp, 1, room->piece);
}

void tlk_fft_run_folded(const tlk_FftLoops *loops, const tlk_FftPlan *p, const void *in,
                        double sign, tlk_FftRoom *room) {
  loops->fold(p->fold->n, in, sign, p->fold_twiddles, room->piece);
  run_passes(loops, p->fold, room);
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

void tlk_fft_load(const tlk_FftLoops *loops, const tlk_FftLines *k, const void *data, int64_t rows,
                  tlk_FftRoom *room, tlk_FftPiece to) {
  char *in = (char *)(uintptr_t)data;
  if (k->adjacent && k->lanes == k->all) {
    loops->split(rows, in + k->at[0] * k->size, k->step, to);
    return;
  }
  if (k->lanes < k->all) memset(room->rows, 0, (size_t)TLK_FFT_CHUNK * 2 * TLK_FFT_LANE_BYTES);
  for (int64_t r = 0; r < rows; r += TLK_FFT_CHUNK) {
    int64_t some = tlk_min(TLK_FFT_CHUNK, rows - r);
    tlk_fft_carry(k, in, r, some, room->rows, false);
    loops->split(some, room->rows, k->all,
                 (tlk_FftPiece){tlk_fft_row(to.re, r), tlk_fft_row(to.im, r)});
  }
}

void tlk_fft_store(const tlk_FftLoops *loops, const tlk_FftLines *k, void *data, int64_t rows,
                   tlk_FftRoom *room, tlk_FftPiece from, double scale) {
  if (k->adjacent && k->lanes == k->all) {
    loops->join(rows, from, scale, (char *)data + k->at[0] * k->size, k->step);
    return;
  }
  for (int64_t r = 0; r < rows; r += TLK_FFT_CHUNK) {
    int64_t some = tlk_min(TLK_FFT_CHUNK, rows - r);
    loops->join(some, (tlk_FftPiece){tlk_fft_row(from.re, r), tlk_fft_row(from.im, r)}, scale,
                room->rows, k->all);
    tlk_fft_carry(k, data, r, some, room->rows, true);
  }
}
