/*
** lanes.h - transforms several lines of numbers at once, one in each vector lane. transform.h
** explains lines, pieces and rows.
*/
#ifndef TLK_FFT_LANES_H
#define TLK_FFT_LANES_H

#include "kernels/cpu/fft/transform.h"

/* number of rows that are transposed at once; a row has one number in each lane */
#define TLK_FFT_CHUNK 64

/* The buffers for transforming lines in vector lanes, all in one allocation. */
typedef struct tlk_FftRoom {
  const tlk_FftLoops *loops;
  tlk_FftPiece piece, other;
  tlk_FftPiece chunk; /* TLK_FFT_CHUNK rows, which stay in the first-level cache */
  /* buffer for an array (TLK_FFT_CHUNK, lanes) of complex numbers or, in the buffers for folded
  ** lines, for two lines and a vector more */
  char *rows;
  void *memory;
  size_t bytes;
} tlk_FftRoom;

/* Lines in memory that are transformed at once. Element j of line l is at address at[l] + j * step;
** an element has `size` bytes. */
typedef struct tlk_FftLines {
  int64_t size, step, lanes, all; /* lanes: number of lines; all: number of lanes in a vector */
  /* whether the lines are neighbours: at[l] is at[0] + l for all l */
  bool adjacent;
  int64_t at[TLK_FFT_LANE_BYTES / 4];
} tlk_FftLines;

static inline const tlk_FftLoops *tlk_fft_loops(tl_DType real) {
  return tlk_isa()->fft[real == TL_F64];
}

static inline void tlk_fft_exchange(tlk_FftPiece *piece) {
  *piece = (tlk_FftPiece){piece->im, piece->re};
}

static inline void *tlk_fft_row(void *array, int64_t row) {
  return (char *)array + row * TLK_FFT_LANE_BYTES;
}

/* Allocates the buffers for a plan. Returns false if memory is exhausted. */
bool tlk_fft_room_open(tlk_FftRoom *room, const tlk_FftPlan *plan) TL_MUSTCHECK;
/* Allocates the buffers for a plan that transforms folded lines. */
bool tlk_fft_room_open_folded(tlk_FftRoom *room, const tlk_FftPlan *plan) TL_MUSTCHECK;
void tlk_fft_room_close(tlk_FftRoom *room);

/* Sets rows [from, to) of a piece to zero. A row holds one element of each line. */
void tlk_fft_clear(tlk_FftPiece piece, int64_t from, int64_t to);
/* Copies elements [from, from + rows) of the lines to rows of lanes or, if `out`, from rows of
** lanes to the lines. */
void tlk_fft_carry(const tlk_FftLines *k, char *data, int64_t from, int64_t rows, char *lanes,
                   bool out);
/* Lines of an array, which tlk_fft_run loads or stores. `inverse` exchanges the real and the
** imaginary parts. Stored elements are multiplied by `scale`. */
typedef struct tlk_FftEnd {
  const tlk_FftLines *lines;
  const void *data;
  int64_t rows; /* number of elements of a line in memory */
  bool inverse;
  double scale;
} tlk_FftEnd;

/* Loads the lines of `in` into the rows of a piece. */
void tlk_fft_load(const tlk_FftEnd *in, tlk_FftRoom *room, tlk_FftPiece to);
/* Stores the rows of a piece as the lines of `out`. */
void tlk_fft_store(const tlk_FftEnd *out, tlk_FftRoom *room, tlk_FftPiece from);
/* Returns whether the plan can transform lines in vector lanes. */
bool tlk_fft_has_lanes(const tlk_FftPlan *p);
/* Returns the plan by which lines are folded into vectors: p itself or, if p computes a convolution
** (Bluestein's method), the plan of this convolution. Returns NULL if lines are not folded. */
static inline const tlk_FftPlan *tlk_fft_folding(const tlk_FftPlan *p) {
  const tlk_FftPlan *plan = p->inner ? p->inner : p;
  return plan->fold ? plan : NULL;
}
/* Returns how many lines plan p folds into vectors at once: 2 if a line fills at most half of a
** vector, otherwise 1. */
static inline int64_t tlk_fft_fold_count(const tlk_FftPlan *p) {
  return 2 * p->fold->n <= tlk_fft_loops(p->part)->width ? 2 : 1;
}
/* Returns the piece that holds folded line i after its transform. */
static inline tlk_FftPiece tlk_fft_folded_line(const tlk_FftRoom *room, int64_t i) {
  int64_t row = i * room->loops->width / 2;
  return (tlk_FftPiece){tlk_fft_row(room->piece.re, row), tlk_fft_row(room->piece.im, row)};
}
/* Transforms `count` folded lines by plan p, which has a plan `fold`. The lines begin p->n complex
** numbers apart, and their imaginary parts are multiplied by `sign` first. `followed` tells whether
** more numbers follow the lines in memory. tlk_fft_folded_line returns the results. */
void tlk_fft_run_folded(const tlk_FftPlan *p, const void *in, int64_t count, bool followed,
                        double sign, tlk_FftRoom *room);
/* Transforms lines: loads them from `in` and stores the results to `out`. If `in` is NULL, the
** lines are in room->piece; if `out` is NULL, the results stay in room->piece. Lines and results
** have n elements each. */
void tlk_fft_run(const tlk_FftPlan *p, tlk_FftRoom *room, const tlk_FftEnd *in,
                 const tlk_FftEnd *out);

#endif
