/*
** fold.c - unfold and fold. unfold copies the windows of a convolution to the columns of a matrix
** (im2col). fold adds columns at the positions of their windows (col2im).
*/
#include <string.h>

#include "ops/chain.h"
#include "ops/windows.h"

typedef struct Columns {
  tlk_Windows w;
  int64_t batch, channels;
} Columns;

/* Describes the windows of an image. `size` is (N, C, H, W). */
static bool columns_of(const char *op, tl_Ints size, tl_Ints kernel, tl_Ints dilation,
                       tl_Ints padding, tl_Ints stride, Columns *c) {
  c->batch = size.v[0];
  c->channels = size.v[1];
  c->w = (tlk_Windows){{1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {1, 0, 0}};
  TL_TRY(tli_spread(op, "kernel_size", kernel, 2, 1, c->w.kernel + 1));
  TL_TRY(tli_spread(op, "dilation", dilation, 2, 1, c->w.dilation + 1));
  TL_TRY(tli_spread(op, "padding", padding, 2, 0, c->w.padding + 1));
  TL_TRY(tli_spread(op, "stride", stride, 2, 1, c->w.stride + 1));
  for (int d = 1; d < 3; d++) {
    c->w.in[d] = size.v[d + 1];
    int64_t reach = c->w.dilation[d] * (c->w.kernel[d] - 1) + 1;
    int64_t room = c->w.in[d] + 2 * c->w.padding[d] - reach;
    if (room < 0)
      return tli_fail(TL_ESHAPE,
                      "%s: the kernel reaches over %" PRId64 " elements, more than the %" PRId64
                      " of size %s with padding %" PRId64,
                      op, reach, c->w.in[d] + 2 * c->w.padding[d],
                      tli_shape_str((int)size.n, size.v), c->w.padding[d]);
    c->w.out[d] = room / c->w.stride[d] + 1;
  }
  return true;
}

tl_Tensor *tli_op_im2col(tl_Tensor *self, tl_Ints kernel, tl_Ints dilation, tl_Ints padding,
                         tl_Ints stride) {
  Columns c;
  TL_TRY_NULL(
      columns_of("unfold", (tl_Ints){4, self->sizes}, kernel, dilation, padding, stride, &c));
  int64_t sizes[] = {c.batch, c.channels * c.w.kernel[1] * c.w.kernel[2], c.w.out[1] * c.w.out[2]};
  tl_DType dtype = (tl_DType)self->dtype;
  tl_Tensor *in = tli_contiguous_as(self, dtype);
  tl_Tensor *out = in ? tli_empty(dtype, tli_device(self), 3, sizes) : NULL;
  if (out && out->numel > 0 &&
      !TLI_RUN(tli_device(self), im2col, .windows = c.w, .planes = c.batch * c.channels,
               .cols = tli_array(out), .in = tli_array(in))) {
    tli_release(out);
    out = NULL;
  }
  tli_release(in);
  return out;
}

tl_Tensor *tli_op_col2im(tl_Tensor *self, tl_Ints size, tl_Ints kernel, tl_Ints dilation,
                         tl_Ints padding, tl_Ints stride) {
  Columns c;
  TL_TRY_NULL(columns_of("fold", size, kernel, dilation, padding, stride, &c));
  int64_t rows = c.channels * c.w.kernel[1] * c.w.kernel[2], cols = c.w.out[1] * c.w.out[2];
  if (self->ndim != 3 || self->sizes[1] != rows || self->sizes[2] != cols)
    return tli_fail_null(TL_ESHAPE, "fold: input: expected (N, %" PRId64 ", %" PRId64 "), got %s",
                         rows, cols, tli_sizes_str(self));
  tl_DType dtype = (tl_DType)self->dtype;
  tl_Tensor *in = tli_contiguous_as(self, dtype);
  tl_Tensor *out = in ? tli_empty(dtype, tli_device(self), 4, size.v) : NULL;
  if (out && out->numel > 0 &&
      !TLI_RUN(tli_device(self), col2im, .windows = c.w, .planes = c.batch * c.channels,
               .in = tli_array(out), .cols = tli_array(in))) {
    tli_release(out);
    out = NULL;
  }
  tli_release(in);
  return out;
}

tl_Tensor *tlo_unfold_windows(tl_Tensor *input, tl_Ints kernel_size, tl_Ints dilation,
                              tl_Ints padding, tl_Ints stride) {
  if (tli_is_complex((tl_DType)input->dtype)) {
    uint64_t count = tli_node_count();
    tli_Chain c = {0};
    tl_Tensor *re = TLI_STEP(&c, tlo_real(input)), *im = TLI_STEP(&c, tlo_imag(input));
    re = TLI_STEP(&c, tlo_unfold_windows(re, kernel_size, dilation, padding, stride));
    im = TLI_STEP(&c, tlo_unfold_windows(im, kernel_size, dilation, padding, stride));
    tl_Tensor *result = tli_chain_end(&c, TLI_STEP(&c, tlo_complex(re, im)));
    tli_entitle(result, "Im2Col", count);
    return result;
  }
  if (input->ndim != 3 && input->ndim != 4)
    return tli_fail_null(TL_ESHAPE, "unfold: input: expected (N, C, H, W) or (C, H, W), got %s",
                         tli_sizes_str(input));
  if (input->ndim == 4) return tlo_im2col(input, kernel_size, dilation, padding, stride);
  tl_Tensor *batch = tlo_unsqueeze(input, 0);
  tl_Tensor *columns = batch ? tlo_im2col(batch, kernel_size, dilation, padding, stride) : NULL;
  tl_Tensor *result = columns ? tlo_select(columns, 0, 0) : NULL;
  tli_release(batch);
  tli_release(columns);
  return result;
}

static tl_Tensor *fold_batch(tl_Tensor *columns, const int64_t *output_size, tl_Ints kernel_size,
                             tl_Ints dilation, tl_Ints padding, tl_Ints stride) {
  int64_t kernel[2];
  TL_TRY_NULL(tli_spread("fold", "kernel_size", kernel_size, 2, 1, kernel));
  int64_t area = kernel[0] * kernel[1];
  if (columns->sizes[1] % area != 0)
    return tli_fail_null(TL_ESHAPE,
                         "fold: input: expected a multiple of %" PRId64
                         " rows (elements of the kernel), got %s",
                         area, tli_sizes_str(columns));
  int64_t size[] = {columns->sizes[0], columns->sizes[1] / area, output_size[0], output_size[1]};
  return tlo_col2im(columns, (tl_Ints){4, size}, kernel_size, dilation, padding, stride);
}

tl_Tensor *tlo_fold(tl_Tensor *input, tl_Ints output_size, tl_Ints kernel_size, tl_Ints dilation,
                    tl_Ints padding, tl_Ints stride) {
  int64_t size[2];
  TL_TRY_NULL(tli_spread("fold", "output_size", output_size, 2, 1, size));
  if (input->ndim != 2 && input->ndim != 3)
    return tli_fail_null(TL_ESHAPE, "fold: input: expected (N, C * kernel, windows), got %s",
                         tli_sizes_str(input));
  if (input->ndim == 3) return fold_batch(input, size, kernel_size, dilation, padding, stride);
  tl_Tensor *batch = tlo_unsqueeze(input, 0);
  tl_Tensor *images =
      batch ? fold_batch(batch, size, kernel_size, dilation, padding, stride) : NULL;
  tl_Tensor *result = images ? tlo_select(images, 0, 0) : NULL;
  tli_release(batch);
  tli_release(images);
  return result;
}
