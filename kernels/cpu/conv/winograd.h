/*
** winograd.h - convolutions with kernels of 3 x 3, and their gradients, in
** tiles as winograd_loops.h has them. Tiles are counted in segments: neighbours in a
** row of tiles, of a length that all rows share.
*/
#ifndef TLK_WINOGRAD_H
#define TLK_WINOGRAD_H

#include "core/backend.h"

/* Segments of the tiles that cover planes of `sizes`, image by image; those of
** one image above another come one after another. */
typedef struct tlk_Segments {
  int64_t sizes[2];
  int64_t tiles; /* of a segment */
  int64_t across, down, count;
} tlk_Segments;

/* Where a segment begins. */
typedef struct tlk_Segment {
  int64_t image, row, col;
} tlk_Segment;

tlk_Segments tlk_segments(const int64_t sizes[2], int64_t images);
tlk_Segment tlk_segment(const tlk_Segments *s, int64_t index);
/* How many segments from `index` on, at most n, are taken together: they lie
** below one another in one image. */
int64_t tlk_segments_below(const tlk_Segments *s, int64_t index, int64_t n);
/* How many, at most `most`, are best taken together: few tiles too many for
** whole groups of `rows`. */
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
** not to be used: the transforms spread Inf and NaN over whole tiles. */
bool tlk_winograd_sums(const tlk_Conv *conv, bool backward, float *out, const float *in,
                       const float *weight, const float *bias, bool *finite);
bool tlk_winograd_weight(const tlk_Conv *conv, float *grad_weight, const float *in,
                         const float *grad_out, bool *finite);

#endif
