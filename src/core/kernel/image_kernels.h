/*
** image_kernels.h - the arguments of kernels that compute windows of images and volumes:
** convolution, pooling, resampling and the columns of windows. Arrays are contiguous. Include
** kernel.h instead of this file; it lists all kernels and describes how they are called.
*/
#ifndef TLI_IMAGE_KERNELS_H
#define TLI_IMAGE_KERNELS_H

#include <math.h>

#include "core/kernel/host_device.h"
#include "core/kernel/parts.h"
#include "kernels.h" /* enums of kernels (generated) */

typedef struct tlk_Context tlk_Context;

/* Computes a convolution: out = in * weight + bias; bias (channels_out) is NULL if there is
** none. */
struct tlk_conv {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *out;
  const void *in, *weight, *bias;
};

/* Computes a convolution of two-dimensional images in float32: max(low, min(high, in * weight +
** bias + other)), where other may be NULL. Images are channels-last. If there are as many groups as
** channels, the weight is (kernel, channels) and bias (channels). If there is one group, the weight
** (kernel, channels_in, channels_out) is divided into panels of up to 64 columns, and each panel is
** contiguous. The width of a panel is a multiple of 16; if the widths differ, the first panels are
** 16 columns wider. The last columns of weight and bias may be zeros that belong to no channel. If
** the weight is NULL, the results are the largest elements of the windows. */
struct tlk_conv_packed {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *out;
  const void *in, *weight, *bias, *other;
  float low, high;
};

/* Computes a linear layer or a convolution of 8-bit integers. If `rows` is set, in is (batch,
** channels) and out (batch, n); otherwise both are channels-last images. The input is rounded to
** bytes, x / scale + zero. If scale is 0, scale and zero are computed from the range of each row or
** image.
**
** weight (ceil(n / 16), depth / 4, 16, 4) has panels of 16 channels. In `depth`, the window's
** elements are outermost, and the channels are padded to a multiple of 4. If `depthwise` is set,
** each of the n channels is computed from that channel alone, and weight is (kernel width,
** ceil(kernel height / 4), n, 4). scales and sums (n) have each channel's scale and the sum of its
** integers. bias (n) may be NULL. `other`, which has the form of out and is added to the result,
** may be NULL as well.
**
** Results are limited to the range from low to high. out is float32, or bytes as `in` can be, with
** a scale and zero of its own. */
struct tlk_quantized {
  const tlk_Context *cx;
  int32_t rows;
  /* dtypes of in and out: float32, or uint8 for numbers that are rounded to bytes already */
  tl_DType dtype, out_dtype;
  float scale, out_scale, low, high;
  int32_t zero, out_zero;
  int32_t depthwise;
  tlk_Windows windows;
  int64_t batch, channels, n;
  const void *in;
  const float *other;
  void *out;
  const int8_t *weight;
  const float *scales, *bias;
  const int32_t *sums;
};

/* Computes the gradients of a convolution's input and weight. */
struct tlk_conv_input {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *grad_in;
  const void *grad_out, *weight;
};

struct tlk_conv_weight {
  const tlk_Context *cx;
  tlk_Conv conv;
  void *grad_weight;
  const void *in, *grad_out;
};

/* Finds the maximum of each window, and the position of that maximum in its plane, counted from 1.
** The maximum is NaN if the window contains a NaN. Padding is ignored. */
struct tlk_max_pool {
  const tlk_Context *cx;
  tlk_Pool pool;
  tlk_Array out;
  int64_t *indices;
  tlk_Array in;
};

struct tlk_avg_pool {
  const tlk_Context *cx;
  tlk_Pool pool;
  tlk_Array out, in;
};

struct tlk_avg_pool_backward {
  const tlk_Context *cx;
  tlk_Pool pool;
  tlk_Array grad_in, grad_out;
};

/* Resamples float32 or float64 data along one dimension. The CPU also resamples uint8 data, with
** weights that are rounded to 16 bits as in PyTorch. */
struct tlk_resample {
  const tlk_Context *cx;
  tlk_Resample resample;
  tlk_Array out, in;
};

/* Samples float32 images (images, channels, size[1], size[0]) at the points of `grid` (images,
** places, 2). The result is (images, channels, places). Coordinate x along dimension d stands for
** the position (x + 1) * scale[d] - shift, counted from 0. Dimension 0 counts the columns of the
** image, so the first coordinate of a point is the horizontal one. A sample is interpolated
** bilinearly, or is the nearest element. Outside of the image, the elements count as zeros or as
** the border's elements. The kernel sums by fused multiply-adds, in the order in which PyTorch's
** vectorised kernels do. */
struct tlk_grid_sample {
  const tlk_Context *cx;
  int64_t images, channels, places, size[2];
  double scale[2], shift;
  int32_t nearest, border; /* 0 or 1 */
  tlk_Array out, in, grid;
};

/* Copies windows to columns: cols (planes, kernel..., out...) receives the elements of each window
** of `in` (planes, in...), and 0 in the padding. The kernel col2im does the reverse: it adds the
** elements of cols to `in`, at the windows' positions. */
struct tlk_im2col {
  const tlk_Context *cx;
  tlk_Windows windows;
  int64_t planes;
  tlk_Array cols, in;
};

struct tlk_col2im {
  const tlk_Context *cx;
  tlk_Windows windows;
  int64_t planes;
  tlk_Array in, cols;
};

/* ---- regions of interest ---- */

typedef enum tlk_RoiKind { TLK_ROI_MAX, TLK_ROI_MEAN, TLK_ROI_SPREAD } tlk_RoiKind;

/* Pools the cells of regions of images. `cells` (n, channels, grid[0], grid[1]) has a value for
** each cell. `boxes` (n, 5) has the number of each region's image, from 1, and its x1, y1, x2, y2.
** A region of an image that does not exist has no pixels. Both arrays have the dtype float32 or
** float64.
**   MAX: cells = the largest values of the pixels in images (count, channels, size[0], size[1]).
**     `indices`, which may be NULL, receives the position of each maximum in all images, counted
**     from 1. A cell without pixels is 0, and its position is the number of all elements plus 1.
**   MEAN: cells = the means of the pixels in images (count, channels * grid[0] * grid[1], size[0],
**     size[1]), where each cell has its own channels. A cell without pixels is 0.
**   SPREAD: adds cells, divided by their numbers of pixels, to these pixels of images, which are
**     those of MEAN and contain zeros before the call. */
struct tlk_roi_pool {
  const tlk_Context *cx;
  tlk_RoiKind kind;
  int32_t wide; /* 1 for float64, 0 for float32 */
  tlk_Array cells, images;
  int64_t *indices;
  const double *boxes;
  double scale; /* multiplies the coordinates */
  int64_t n, channels, count, grid[2], size[2];
};

/* Rounds a number to the dtype in which the coordinates of regions are computed. */
TLI_FN double tlk_roi_rounded(const struct tlk_roi_pool *l, double x) {
  return l->wide ? x : (double)(float)x;
}

TLI_FN int64_t tlk_roi_clamped(double x, int64_t last) {
  return !(x > 0) ? 0 : x < (double)last ? (int64_t)x : last;
}

/* Computes which rows (side 0) or columns (side 1) belong to cell i of a region: those from
** edges[0] to edges[1] - 1, counted from 0. Coordinates are rounded as in torchvision. */
TLI_FN void tlk_roi_edges(const struct tlk_roi_pool *l, const double *box, int side, int64_t i,
                          int64_t *edges) {
  bool is_max = l->kind == TLK_ROI_MAX;
  double scale = tlk_roi_rounded(l, l->scale);
  double low = round(tlk_roi_rounded(l, tlk_roi_rounded(l, box[2 - side]) * scale));
  double high = round(tlk_roi_rounded(l, tlk_roi_rounded(l, box[4 - side]) * scale));
  double extent = high - low + (is_max ? 1 : 0);
  double step = tlk_roi_rounded(l, (extent > 1 ? extent : 1) / (double)l->grid[side]);
  int64_t last = is_max ? l->size[side] : l->size[side] - 1;
  edges[0] = tlk_roi_clamped(low + floor(tlk_roi_rounded(l, step * (double)i)), last);
  edges[1] = tlk_roi_clamped(low + ceil(tlk_roi_rounded(l, step * (double)(i + 1))), last);
  if (edges[1] < edges[0] || !(box[0] >= 1 && box[0] <= (double)l->count)) edges[1] = edges[0];
}

#endif
