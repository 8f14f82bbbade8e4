/*
** packed.h - loops of convolutions whose images are channels-last and whose weights are packed. A
** tile consists of a few positions of the output. For each kernel element and output position, a
** table holds a pointer to the channels of the corresponding input pixel, or to zeros (-inf for max
** pooling) where that pixel lies in the padding. So images need not be copied or padded.
*/
#ifndef TLK_CONV_PACKED_H
#define TLK_CONV_PACKED_H

#include <stdbool.h>
#include <stdint.h>

/* The number of output positions in a tile. */
#define TLK_PACKED_ROWS 6
/* The width of a panel of weights is a multiple of TLK_PACKED_LANES channels, and at most
** TLK_PACKED_WIDTH. */
#define TLK_PACKED_LANES 16
#define TLK_PACKED_WIDTH 64

typedef struct tlk_PackedTile {
  /* number of positions; if fewer than a tile has, the table repeats the last one */
  int rows;
  /* array (elements, TLK_PACKED_ROWS) of pointers to the channels of input pixels */
  const float *const *in;
  int64_t elements;
  int64_t from, terms; /* first channel and number of channels of each pixel that are summed */
  /* array of weights: (elements, terms, pitch), or (elements, pitch) for the function `channels` */
  const float *weight;
  /* number of columns of the weight, and number of columns that are results, without padding */
  int64_t pitch, cols;
  /* add: whether `sums` holds sums of earlier terms; last: whether these terms are the last, so
  ** that the result is stored */
  bool add, last;
  float *sums;       /* array (TLK_PACKED_ROWS, TLK_PACKED_WIDTH) of partial sums */
  const float *bias; /* (pitch) */
  /* array that is added to the result, or NULL; its rows are `step` elements apart */
  const float *other;
  float *out;
  int64_t step;
  float low, high; /* results are limited to the range from low to high */
} tlk_PackedTile;

typedef struct tlk_PackedLoops {
  /* Computes sums of products over the given channels of each pixel. The weight is one panel. */
  void (*tile)(const tlk_PackedTile *t);
  /* Computes each output channel from the input channel with the same number. There are at least
  ** TLK_PACKED_LANES channels. */
  void (*channels)(const tlk_PackedTile *t);
  /* Finds each channel's largest element. There are at least TLK_PACKED_LANES channels. */
  void (*largest)(const tlk_PackedTile *t);
} tlk_PackedLoops;

#endif
