/*
** winograd.h - convolutions with kernels of 3 x 3, and their gradients, by tiles of
** 4 x 4 results (winograd_loops.h). A row of tiles is cut into segments; all segments of
** a call have the same number of tiles.
*/
#ifndef TLK_WINOGRAD_H
#define TLK_WINOGRAD_H

#include "core/device/backend.h"

/* The segments of all images. They are numbered image by image, in an image column by column from
** left to right, and in a column from top to bottom. */
typedef struct tlk_Segments {
  int64_t sizes[2];     /* height and width of an image */
  int64_t tiles;        /* number of tiles in a segment */
  int64_t across, down; /* number of segments of an image in each direction */
  int64_t count;        /* number of segments of all images */
} tlk_Segments;

/* A segment's image, and the segment's first row and column in elements. */
typedef struct tlk_Segment {
  int64_t image, row, col;
} tlk_Segment;

tlk_Segments tlk_segments(const int64_t sizes[2], int64_t images);
tlk_Segment tlk_segment(const tlk_Segments *s, int64_t index);
/* Returns how many segments from `index` on, at most n, lie below one another in one image, so that
** one step can transform them. */
int64_t tlk_segments_below(const tlk_Segments *s, int64_t index, int64_t n);
/* Returns the number of segments, at most `most`, that make the best chunk: the tiles of a
** chunk are rounded up to groups of `rows`, which should add as few as possible. */
int64_t tlk_segments_together(const tlk_Segments *s, int64_t most, int64_t rows);

/* Copies elements of `channels` planes of `sizes`, beginning at (row, col), to dst (rows, cols,
** lanes). There are at most `lanes` channels; elements outside of the planes are zero. */
void tlk_channels_last(float *dst, int64_t lanes, int64_t rows, int64_t cols, const float *src,
                       int64_t channels, const int64_t sizes[2], int64_t row, int64_t col);

/* The images of a group: their planes, and the position of the first window. */
typedef struct tlk_Planes {
  const float *data;
  int64_t channels, sizes[2], first[2];
} tlk_Planes;

/* Returns the bytes of scratch memory that tlk_winograd_patches needs. */
size_t tlk_strip_bytes(const tlk_Segments *s);
/* Transforms the patches of segments [index, index + n), which are below one another, of the
** image at `in`. In out, points are `plane` apart, vectors of channels within a point are
** `block` apart, and tiles are adjacent. */
void tlk_winograd_patches(const tlk_Segments *s, int64_t index, int64_t n, const tlk_Planes *in,
                          float *strip, float *out, int64_t block, int64_t plane);

/* Returns whether the method supports this convolution, and whether the convolution is so large
** that the method is faster. */
bool tlk_winograd_fits(const tlk_Conv *conv);
/* Compute the convolution or the gradient of its input, and the gradient of its weight. If a result
** is not finite, `finite` is false and the results must not be used: a transform mixes the elements
** of a tile, so one Inf or NaN would spread over all of them. */
bool tlk_winograd_sums(const tlk_Conv *conv, bool backward, float *out, const float *in,
                       const float *weight, const float *bias, bool *finite);
bool tlk_winograd_weight(const tlk_Conv *conv, float *grad_weight, const float *in,
                         const float *grad_out, bool *finite);

#endif
