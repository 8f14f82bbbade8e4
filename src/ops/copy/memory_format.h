/*
** memory_format.h - the order of dimensions in memory, by PyTorch's names: row-major
** ("contiguous_format"), or with the channels innermost, then the last dimension and so on, and
** the batch outermost ("channels_last" for (N, C, H, W), "channels_last_3d" for (N, C, D, H,
** W)).
*/
#ifndef TLI_OPS_MEMORY_FORMAT_H
#define TLI_OPS_MEMORY_FORMAT_H

#include "ops/common.h"

typedef enum tli_Format {
  TLI_PRESERVE, /* keeps the input's format */
  TLI_ROW_MAJOR,
  TLI_CHANNELS_LAST,
  TLI_CHANNELS_LAST_3D
} tli_Format;

/* Finds the format of a name, or PRESERVE if the name is NULL. Fails if tensors of ndim dimensions
** cannot have the format. */
bool tli_read_format(const char *op, const char *name, int ndim, tli_Format *format) TL_MUSTCHECK;

/* Returns whether t is dense in that format; PRESERVE means row-major. */
bool tli_lies(const tl_Tensor *t, tli_Format format);

/* Returns the format that t's strides suggest, as PyTorch reads strides: a channels-last format,
** even for a tensor with gaps, or ROW_MAJOR. */
tli_Format tli_format_of(const tl_Tensor *t);

/* Returns a new tensor in a format other than PRESERVE. */
tl_Tensor *tli_empty_format(tli_Format format, tl_DType dtype, tl_Device device, int ndim,
                            const int64_t *sizes) TL_MUSTCHECK;

/* Returns a new tensor as tli_empty_like does, with another dtype, device or format if the call
** gives one. */
tl_Tensor *tli_new_like(const char *op, tl_Tensor *self, tl_DType dtype, tl_Device device,
                        const char *memory_format) TL_MUSTCHECK;

/* Returns a result in the channels-last format of its input, or unchanged if the input is
** row-major. If the memory fits both orders, only the strides change, in place: `steals` must be
** the caller's own tensor or the input itself. Returns NULL for NULL. */
tl_Tensor *tli_follow(tl_Tensor *steals, const tl_Tensor *input) TL_MUSTCHECK;

#endif
