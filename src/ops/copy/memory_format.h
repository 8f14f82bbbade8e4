/*
** memory_format.h - in which order dimensions lie in memory, by PyTorch's names:
** row-major ("contiguous_format"), or with the channels innermost, after them the
** last dimension and so on, outermost the batch ("channels_last" of (N, C, H, W),
** "channels_last_3d" of (N, C, D, H, W)).
*/
#ifndef TLI_OPS_MEMORY_FORMAT_H
#define TLI_OPS_MEMORY_FORMAT_H

#include "ops/common.h"

typedef enum tli_Format {
  TLI_PRESERVE, /* that of the input */
  TLI_ROW_MAJOR,
  TLI_CHANNELS_LAST,
  TLI_CHANNELS_LAST_3D
} tli_Format;

/* The format of that name, PRESERVE without one. Fails where no tensor of ndim
** dimensions has it. */
bool tli_read_format(const char *op, const char *name, int ndim, tli_Format *format) TL_MUSTCHECK;

/* Whether t lies so, without gaps. PRESERVE asks for row-major. */
bool tli_lies(const tl_Tensor *t, tli_Format format);

/* What t's strides suggest, as PyTorch reads them: a channels-last format, also
** of a tensor with gaps, or ROW_MAJOR. */
tli_Format tli_format_of(const tl_Tensor *t);

/* A new tensor in a format that is not PRESERVE. */
tl_Tensor *tli_empty_format(tli_Format format, tl_DType dtype, tl_Device device, int ndim,
                            const int64_t *sizes) TL_MUSTCHECK;

/* As tli_empty_like, with another dtype, device or format where given. */
tl_Tensor *tli_new_like(const char *op, tl_Tensor *self, tl_DType dtype, tl_Device device,
                        const char *memory_format) TL_MUSTCHECK;

/* A result in the channels-last format of the input that it was made of, or the
** result itself where that has none. What fits both orders only gets the strides,
** in place: `steals` is the caller's own or the input itself. NULL is passed on. */
tl_Tensor *tli_follow(tl_Tensor *steals, const tl_Tensor *input) TL_MUSTCHECK;

#endif
