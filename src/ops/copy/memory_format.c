/*
** memory_format.c - implements memory_format.h. Pooling kernels, and convolution kernels on the
** CPU, read and write only row-major memory; if the input is channels-last, their result is copied
** to the channels-last order. Batch norm, and convolutions on a GPU, support both orders. The
** kernels of conv/packed.c and the quantized convolutions take only channels-last images.
** Elementwise operators preserve any order.
*/
#include "ops/copy/memory_format.h"

#include <string.h>

static const char *const names[] = {"preserve_format", "contiguous_format", "channels_last",
                                    "channels_last_3d"};

bool tli_read_format(const char *op, const char *name, int ndim, tli_Format *format) {
  *format = TLI_PRESERVE;
  if (name == NULL) return true;
  int k = 0;
  while (k < 4 && strcmp(name, names[k]) != 0) k++;
  if (k == 4)
    return tli_fail(TL_EARG,
                    "%s: memory_format: expected torch.contiguous_format, preserve_format, "
                    "channels_last or channels_last_3d, got '%.40s'",
                    op, name);
  *format = (tli_Format)k;
  int dims = k == TLI_CHANNELS_LAST ? 4 : k == TLI_CHANNELS_LAST_3D ? 5 : ndim;
  return dims == ndim ||
         tli_fail(TL_ESHAPE, "%s: memory_format: %s is for tensors of %d dimensions, got %d", op,
                  name, dims, ndim);
}

/* Returns the dimension that is k-th in memory, counted from the innermost one. */
static int dim_at(tli_Format format, int ndim, int k) {
  if (format < TLI_CHANNELS_LAST) return ndim - 1 - k;
  return k == 0 ? 1 : k == ndim - 1 ? 0 : ndim - k;
}

bool tli_lies(const tl_Tensor *t, tli_Format format) {
  if (format < TLI_CHANNELS_LAST) return tli_contiguous(t);
  if (t->ndim != (format == TLI_CHANNELS_LAST ? 4 : 5)) return false;
  int64_t expected = 1;
  for (int k = 0; k < t->ndim; k++) {
    int d = dim_at(format, t->ndim, k);
    if (t->sizes[d] != 1 && t->strides[d] != expected) return false;
    expected *= t->sizes[d];
  }
  return true;
}

/* Returns the memory format that t's strides suggest. As in PyTorch's is_channels_last_strides_2d,
** a tensor is channels-last if its strides ascend from the channels outwards. If sizes of 1 leave
** the order ambiguous, the format is row-major. */
tli_Format tli_format_of(const tl_Tensor *t) {
  if ((t->ndim != 4 && t->ndim != 5) || t->strides[1] == 0) return TLI_ROW_MAJOR;
  int64_t least = 0;
  for (int k = 0; k < t->ndim; k++) {
    int d = dim_at(TLI_CHANNELS_LAST, t->ndim, k);
    if (t->sizes[d] == 0 || t->strides[d] < least) return TLI_ROW_MAJOR;
    if (d == 0 && least == t->strides[1]) return TLI_ROW_MAJOR;
    least = t->strides[d] * t->sizes[d];
  }
  return t->ndim == 4 ? TLI_CHANNELS_LAST : TLI_CHANNELS_LAST_3D;
}

static void set_strides(tl_Tensor *t, tli_Format format) {
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS], stride = 1;
  for (int k = 0; k < t->ndim; k++) {
    int d = dim_at(format, t->ndim, k);
    sizes[d] = t->sizes[d];
    strides[d] = stride;
    if (sizes[d] > 1) stride *= sizes[d];
  }
  tli_set_geometry(t, t->ndim, sizes, strides);
}

tl_Tensor *tli_empty_format(tli_Format format, tl_DType dtype, tl_Device device, int ndim,
                            const int64_t *sizes) {
  tl_Tensor *t = tli_empty(dtype, device, ndim, sizes);
  if (t && format >= TLI_CHANNELS_LAST) set_strides(t, format);
  return t;
}

tl_Tensor *tli_lay(tl_Tensor *t, tl_DType dtype, tli_Format format) {
  if (format == TLI_ROW_MAJOR) return tli_contiguous_as(t, dtype);
  if (t->dtype == dtype && tli_lies(t, format)) return tli_retain(t);
  tl_Tensor *copy = tli_empty_format(format, dtype, tli_device(t), t->ndim, t->sizes);
  if (copy == NULL || tli_copy(copy, t)) return copy;
  tli_release(copy);
  return NULL;
}

tl_Tensor *tli_new_like(const char *op, tl_Tensor *self, tl_DType dtype, tl_Device device,
                        const char *memory_format) {
  tli_Format format;
  TL_TRY_NULL(tli_read_format(op, memory_format, self->ndim, &format));
  if (dtype == TL_NODTYPE) dtype = (tl_DType)self->dtype;
  if (device.type < 0) device = tli_device(self);
  if (format != TLI_PRESERVE)
    return tli_empty_format(format, dtype, device, self->ndim, self->sizes);
  if (tli_same_device(device, tli_device(self))) return tli_empty_like(self, dtype);
  return tli_empty_format(tli_format_of(self), dtype, device, self->ndim, self->sizes);
}

tl_Tensor *tli_follow(tl_Tensor *steals, const tl_Tensor *input) {
  if (steals == NULL || steals->ndim != input->ndim) return steals;
  tli_Format format = tli_format_of(input);
  if (format == TLI_ROW_MAJOR || tli_format_of(steals) == format) return steals;
  if (tli_lies(steals, format)) {
    /* changes only the strides: with one channel, or one element per channel, both formats have the
    ** same layout */
    set_strides(steals, format);
    return steals;
  }
  tl_Tensor *laid = tlo_laid_out(steals, format);
  tli_release(steals);
  return laid;
}

tl_Tensor *tli_op_laid_out(tl_Tensor *self, int64_t format) {
  tl_Tensor *copy = tli_empty_format((tli_Format)format, (tl_DType)self->dtype, tli_device(self),
                                     self->ndim, self->sizes);
  if (copy && !tli_copy(copy, self)) {
    tli_release(copy);
    return NULL;
  }
  return copy;
}

bool tlo_is_contiguous(tl_Tensor *self, const char *memory_format, bool *out) {
  tli_Format format;
  /* passes the number of dimensions that the format needs instead of self's, so that a tensor with
  ** another number of dimensions gives false instead of an error */
  TL_TRY(tli_read_format("is_contiguous", memory_format,
                         strcmp(memory_format, names[2]) == 0   ? 4
                         : strcmp(memory_format, names[3]) == 0 ? 5
                                                                : 0,
                         &format));
  *out = tli_lies(self, format);
  return true;
}

tl_Tensor *tlo_contiguous(tl_Tensor *self) {
  return tli_contiguous(self) ? tli_retain(self) : tlo_to_row_major(self);
}

tl_Tensor *tlo_contiguous_format(tl_Tensor *self, const char *memory_format) {
  tli_Format format;
  TL_TRY_NULL(tli_read_format("contiguous", memory_format, self->ndim, &format));
  if (format == TLI_PRESERVE)
    return tli_fail_null(TL_EARG, "contiguous: memory_format: preserve_format names no order");
  return tli_lies(self, format) ? tli_retain(self) : tlo_laid_out(self, format);
}

tl_Tensor *tli_op_clone(tl_Tensor *self) { return tli_clone_for("clone", self); }

tl_Tensor *tlo_clone_format(tl_Tensor *self, const char *memory_format) {
  tli_Format format;
  TL_TRY_NULL(tli_read_format("clone", memory_format, self->ndim, &format));
  return format == TLI_PRESERVE ? tlo_clone(self) : tlo_laid_out(self, format);
}
