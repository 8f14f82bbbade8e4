/*
** padded_image.h - an image in scratch memory, in the form that convolution reads, with its
** padding. If windows move in steps of s > 1, the image is split into s planes ("phases"), each of
** which has every s-th element. For neighbouring windows, a tap (an element of the kernel) then
** reads contiguous elements. So one offset into the image describes a tap.
*/
#ifndef TLK_PADDED_IMAGE_H
#define TLK_PADDED_IMAGE_H

#include "core/device/backend.h"

/* The layout of one channel of an image: `phases` planes of `pitch` elements. Element i of
** dimension d is in phase (i + before) % step, at position (i + before) / step. */
typedef struct tlk_ConvLayout {
  int64_t sizes[3]; /* sizes of the image */
  int64_t before[3], step[3], phases[3], pitch[3];
  int64_t channel; /* number of elements in a channel */
} tlk_ConvLayout;

static inline int64_t tlk_conv_product(const int64_t v[3]) { return v[0] * v[1] * v[2]; }

tlk_ConvLayout tlk_conv_input_layout(const tlk_Windows *w);
/* Returns the layout of the gradients of the results. Zeros surround the gradients where taps
** (kernel elements) reach beyond the edges. */
tlk_ConvLayout tlk_conv_output_layout(const tlk_Windows *w);

/* Copies n elements of 4 or 8 bytes that are `step` elements apart in src. */
void tlk_conv_strided(char *dst, const char *src, int64_t n, int64_t step, int64_t size);
/* Copies channels from src to dst in this layout; the padding of dst must already be zero. */
void tlk_conv_copy(const tlk_ConvLayout *l, int64_t channels, char *dst, const char *src,
                   int64_t size);

/* Returns the offset from a window's first element to the element that a tap (kernel element)
** reads, in one input channel of the scratch image. */
int64_t tlk_conv_offset(const tlk_ConvLayout *l, const tlk_Windows *w, const int64_t tap[3]);
/* Advances `tap` to the next element of the kernel, last dimension fastest; returns false at the
** end. */
bool tlk_conv_next_tap(const int64_t kernel[3], int64_t tap[3]);

#endif
