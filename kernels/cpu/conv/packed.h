/*
** packed.h - loops of convolutions whose images are channels-last and whose weights are packed. A
** tile covers a few positions of the output. For each kernel element and output position, a table
** holds a pointer to the channels of the corresponding input pixel, or to zeros (-inf for max
** pooling) where that pixel lies in the padding. So images need not be copied or padded.
*/
#ifndef TLK_CONV_PACKED_H
#define TLK_CONV_PACKED_H

#include <stdbool.h>
#include <stdint.h>

/* The number of positions in a tile. */
#define TLK_PACKED_ROWS 6
/* The number of channels that the width of a panel is a multiple of, and the largest width. */
#define TLK_PACKED_LANES 16
#define TLK_PACKED_WIDTH 64

typedef struct tlk_PackedTile {
  int rows;               /* number of positions; the table repeats the last one to fill the tile */
  const float *const *in; /* (elements, TLK_PACKED_ROWS) */
  int64_t elements;
  int64_t from, terms; /* the channels of each element that are summed */
  const float *weight; /* (elements, terms, pitch), or (elements, pitch) for `channels` */
  int64_t pitch, cols; /* columns of the weight, and those of them that are results */
  bool add, last;      /* whether sums exist from earlier terms, and whether no terms follow */
  float *sums;         /* (TLK_PACKED_ROWS, TLK_PACKED_WIDTH) */
  const float *bias;   /* (pitch) */
  const float *other;  /* added to the result unless NULL; rows are `step` elements apart */
  float *out;
  int64_t step;
  float low, high; /* limits of results */
} tlk_PackedTile;

typedef struct tlk_PackedLoops {
  /* Sums products of all channels. The weight is one panel. */
  void (*tile)(const tlk_PackedTile *t);
  /* Computes each channel from that channel alone. There are at least TLK_PACKED_LANES channels. */
  void (*channels)(const tlk_PackedTile *t);
  /* Finds each channel's largest element. There are at least TLK_PACKED_LANES channels. */
  void (*largest)(const tlk_PackedTile *t);
} tlk_PackedLoops;

#endif
