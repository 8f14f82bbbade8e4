/*
** winograd.h - convolutions with kernels of 3 x 3, and their gradients, by tiles of
** 4 x 4 results (winograd_loops.h). A row of tiles is cut into segments; all segments of
** a call have the same number of tiles.
*/
#ifndef TLK_WINOGRAD_H
#define TLK_WINOGRAD_H

#include "core/device/backend.h"

/* The segments of all images. Their order: images, then columns of segments from left to
** right, then each column from the top down. */
typedef struct tlk_Segments {
  int64_t sizes[2];     /* height and width of an image */
  int64_t tiles;        /* of a segment */
  int64_t across, down; /* segments of an image in each direction */
  int64_t count;        /* of all images */
} tlk_Segments;

/* Where a segment begins: the image, and its row and column in elements. */
typedef struct tlk_Segment {
  int64_t image, row, col;
} tlk_Segment;

tlk_Segments tlk_segments(const int64_t sizes[2], int64_t images);
tlk_Segment tlk_segment(const tlk_Segments *s, int64_t index);
/* How many segments from `index` on, at most n, are transformed in one step: they lie
** below one another in one image. */
int64_t tlk_segments_below(const tlk_Segments *s, int64_t index, int64_t n);
/* How many segments, at most `most`, make the best chunk: their tiles are rounded up to
** groups of `rows`, and the fewer are added by that the better. */
int64_t tlk_segments_together(const tlk_Segments *s, int64_t most, int64_t rows);

/* dst (rows, cols, lanes) = elements from (row, col) on of `channels` planes of
** `sizes`, at most as many as lanes; zero beyond them. */
void tlk_channels_last(float *dst, int64_t lanes, int64_t rows, int64_t cols, const float *src,
                       int64_t channels, const int64_t sizes[2], int64_t row, int64_t col);

/* Images of a group: their planes, and where the first window begins. */
typedef struct tlk_Planes {
  const float *data;
  int64_t channels, sizes[2], first[2];
} tlk_Planes;

/* Bytes of scratch memory that this needs. */
size_t tlk_strip_bytes(const tlk_Segments *s);
/* Transforms the patches of segments [index, index + n), which lie below one
** another, of the image at `in`: out has points `plane` apart, in them vectors
** of channels `block` apart, and in them tiles. */
void tlk_winograd_patches(const tlk_Segments *s, int64_t index, int64_t n, const tlk_Planes *in,
                          float *strip, float *out, int64_t block, int64_t plane);

/* Whether it is a convolution for these, and large enough to gain. */
bool tlk_winograd_fits(const tlk_Conv *conv);
/* The convolution, or the gradient of its input, and the gradient of its
** weight. Where a result is not finite, `finite` is false and the results are
** not to be used: a transform mixes the elements of a tile, so one Inf or NaN would spread
** over all of them. */
bool tlk_winograd_sums(const tlk_Conv *conv, bool backward, float *out, const float *in,
                       const float *weight, const float *bias, bool *finite);
bool tlk_winograd_weight(const tlk_Conv *conv, float *grad_weight, const float *in,
                         const float *grad_out, bool *finite);

#endif
