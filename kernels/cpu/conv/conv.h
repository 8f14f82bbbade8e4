/*
** conv.h - inner loops of convolution. Images are in scratch memory with their padding, and all
** rows have one pitch. Positions are counted through whole rows including the padding between
** them, so a whole vector of positions is contiguous for every element of the kernel. Results
** at positions between rows are discarded.
*/
#ifndef TLK_CONV_H
#define TLK_CONV_H

#include "kernels/cpu/cpu.h"

/* Inner loops of convolution: one set for float, one for double. */
typedef struct tlk_ConvLoops {
  int lanes;   /* number of elements in a vector */
  int rows;    /* number of channels in a tile */
  int vectors; /* largest number of vectors of positions in a tile */
  /* Computes out (rows, vectors * lanes), whose rows are `step` elements apart, as the sum over
  ** taps of weights[tap][row] * in[offsets[tap] + position]; adds it to out if `add`. */
  void (*tile)(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
               int vectors, bool add, void *out, int64_t step);
  /* Computes one row of `tile`; the row's weights are contiguous. */
  void (*row)(int64_t taps, const int64_t *offsets, const void *in, const void *weights,
              int vectors, bool add, void *out);
  int dot_rows, dot_taps;
  /* Adds to sums[row][tap] the sum over images and positions of grad[row][position] *
  ** in[offsets[tap] + position]. Of each image n positions are used, a multiple of lanes; images
  ** are in_step and grad_step apart, rows of grad are row_step apart. */
  void (*dots)(int64_t images, int64_t n, const int64_t *offsets, const void *in, int64_t in_step,
               const void *grad, int64_t grad_step, int64_t row_step, void *sums);
  /* dots_line computes the sums of `dots` for one row, and for line_taps taps at a time. */
  int line_taps;
  void (*dots_line)(int64_t images, int64_t n, const int64_t *offsets, const void *in,
                    int64_t in_step, const void *grad, int64_t grad_step, void *sums);
} tlk_ConvLoops;

#endif
