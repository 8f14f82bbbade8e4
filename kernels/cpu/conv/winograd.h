/*
** winograd.h - convolutions with 3 x 3 kernels, and their gradients, computed in tiles of 4 x 4
** results (winograd_loops.h). Each row of tiles of an image is divided into segments. A segment
** consists of adjacent tiles, and all segments have the same number of tiles.
*/
#ifndef TLK_WINOGRAD_H
#define TLK_WINOGRAD_H

#include "core/device/backend.h"

/* The division of all images into segments. Segments are numbered image by image. The segments of
** an image form a grid, which is numbered column by column from left to right, and within a column
** from top to bottom. */
typedef struct tlk_Segments {
  int64_t sizes[2];     /* height and width of an image */
  int64_t tiles;        /* number of tiles in a segment */
  int64_t across, down; /* number of segments of an image along its width, and along its height */
  int64_t count;        /* number of segments of all images */
} tlk_Segments;

/* A segment: its image, and its first row and column, counted in elements. */
typedef struct tlk_Segment {
  int64_t image, row, col;
} tlk_Segment;

tlk_Segments tlk_segments(const int64_t sizes[2], int64_t images);
tlk_Segment tlk_segment(const tlk_Segments *s, int64_t index);
/* Returns how many of the n segments from `index` on lie directly below one another in the same
** image. One call can transform them together. */
int64_t tlk_segments_below(const tlk_Segments *s, int64_t index, int64_t n);
/* Returns the number of segments in a chunk, at most `most`. A chunk's number of tiles is rounded
** up to a multiple of `rows`. The result is the number of segments that needs the least
** rounding. */
int64_t tlk_segments_together(const tlk_Segments *s, int64_t most, int64_t rows);

/* Copies to dst (rows, cols, lanes) the part of each plane that begins at (row, col). There are
** `channels` planes, at most `lanes`; `sizes` is the size of a plane. Elements outside of the
** planes are read as zero. */
void tlk_channels_last(float *dst, int64_t lanes, int64_t rows, int64_t cols, const float *src,
                       int64_t channels, const int64_t sizes[2], int64_t row, int64_t col);

/* The images of a group: number of planes, sizes of a plane, and position of the first window. */
typedef struct tlk_Planes {
  const float *data;
  int64_t channels, sizes[2], first[2];
} tlk_Planes;

/* Returns the size in bytes of the scratch memory `strip` for tlk_winograd_patches. */
size_t tlk_strip_bytes(const tlk_Segments *s);
/* Transforms the patches of segments [index, index + n), which lie below one another in the image
** `in`. A transformed patch has TLK_POINTS points. Point p of tile t (counted from the first tile
** of segment `index`) is a vector of `lanes` channels for each block k of channels. The vector is
** stored at out + p * plane + k * block + t * lanes. */
void tlk_winograd_patches(const tlk_Segments *s, int64_t index, int64_t n, const tlk_Planes *in,
                          float *strip, float *out, int64_t block, int64_t plane);

/* Returns whether Winograd's method can compute this convolution and is faster than other
** methods. */
bool tlk_winograd_fits(const tlk_Conv *conv);
/* The first function computes the convolution or, if `backward`, the gradient of its input. The
** second one computes the gradient of the weight. `finite` becomes false if a result is not finite.
** The caller must then discard the results: a transform mixes the elements of a tile, so one Inf or
** NaN spreads over the whole tile. */
bool tlk_winograd_sums(const tlk_Conv *conv, bool backward, float *out, const float *in,
                       const float *weight, const float *bias, bool *finite);
bool tlk_winograd_weight(const tlk_Conv *conv, float *grad_weight, const float *in,
                         const float *grad_out, bool *finite);

#endif
