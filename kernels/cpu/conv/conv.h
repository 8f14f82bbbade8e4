/*
** conv.h - inner loops of convolution. An image lies in scratch memory together with its padding,
** and all its rows have the same length, the pitch. The loops count positions through whole rows,
** including the padding between rows. So the inputs of a vector of neighbouring positions are
** contiguous for every tap, which is an element of the convolution's kernel. Results at positions
** between rows are discarded.
*/
#ifndef TLK_CONV_H
#define TLK_CONV_H

#include "kernels/cpu/cpu.h"

/* Inner loops of convolution. There is one set for float and one for double. */
typedef struct tlk_ConvLoops {
  int lanes;   /* number of elements in a vector */
  int rows;    /* number of output channels in a tile */
  int vectors; /* largest number of vectors of positions in a tile */
  /* Computes out (rows, vectors * lanes) as the sum over taps of weights[tap][row] *
  ** in[offsets[tap] + position], or adds that sum to out if `add`. Rows of out are `step` elements
  ** apart. */
  void (*tile)(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
               int vectors, bool add, void *out, int64_t step);
  /* Computes one row as `tile` does; the row's weights are contiguous. */
  void (*row)(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
              int vectors, bool add, void *out);
  int dot_rows, dot_taps;
  /* Adds to sums[row][tap] the sum over images and positions of grad[row][position] *
  ** in[offsets[tap] + position]. The loop uses the first n positions of each image; n is a multiple
  ** of `lanes`. Images are in_step and grad_step elements apart, and rows of grad are row_step
  ** elements apart. */
  void (*dots)(int64_t images, int64_t n, const int64_t *offsets, const void *in, int64_t in_step,
               const void *grad, int64_t grad_step, int64_t row_step, void *sums);
  /* Does the work of `dots` for one row and `line_taps` taps. */
  int line_taps;
  void (*dots_line)(int64_t images, int64_t n, const int64_t *offsets, const void *in,
                    int64_t in_step, const void *grad, int64_t grad_step, void *sums);
} tlk_ConvLoops;

#endif
