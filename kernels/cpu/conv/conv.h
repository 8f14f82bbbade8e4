/*
** conv.h - inner loops of convolution. Images lie in scratch memory with their
** padding, in rows of one pitch; positions are counted through rows and what
** lies between them, so that a whole vector of positions is contiguous for
** every element of the kernel. What comes out between the rows is not used.
*/
#ifndef TLK_CONV_H
#define TLK_CONV_H

#include "kernels/cpu/cpu.h"

/* One set for float, one for double. */
typedef struct tlk_ConvLoops {
  int lanes;   /* elements of a vector */
  int rows;    /* channels of a tile */
  int vectors; /* of positions in a tile, at most */
  /* out (rows, vectors * lanes), rows `step` elements apart = the sum over taps
  ** of weights[tap][row] * in[offsets[tap] + position]; added to out if `add`. */
  void (*tile)(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
               int vectors, bool add, void *out, int64_t step);
  /* The same for one row; its weights lie side by side. */
  void (*row)(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
              int vectors, bool add, void *out);
  int dot_rows, dot_taps;
  /* sums[row][tap] += the sum over images and positions of grad[row][position]
  ** * in[offsets[tap] + position]: n positions, a multiple of lanes, of images
  ** that are in_step and grad_step apart, rows of grad row_step. */
  void (*dots)(int64_t images, int64_t n, const int64_t *offsets, const void *in, int64_t in_step,
               const void *grad, int64_t grad_step, int64_t row_step, void *sums);
  /* The same for one row. */
  int line_taps;
  void (*dots_line)(int64_t images, int64_t n, const int64_t *offsets, const void *in,
                    int64_t in_step, const void *grad, int64_t grad_step, void *sums);
} tlk_ConvLoops;

#endif
