/*
** memory_format.h - the order of dimensions in memory, by PyTorch's names. The row-major order is
** "contiguous_format". In the channels-last orders the channels are innermost, followed by the last
** dimension and so on, and the batch is outermost: "channels_last" for (N, C, H, W),
** "channels_last_3d" for (N, C, D, H, W).
*/
#ifndef TLI_OPS_MEMORY_FORMAT_H
#define TLI_OPS_MEMORY_FORMAT_H

#include "ops/common.h"

typedef enum tli_Format {
  TLI_PRESERVE, /* the format of the input, whichever it is */
  TLI_ROW_MAJOR,
  TLI_CHANNELS_LAST,
  TLI_CHANNELS_LAST_3D
} tli_Format;

/* Finds the memory format with a given name; the format is TLI_PRESERVE if the name is NULL. Fails
** if tensors of ndim dimensions cannot have the format. */
bool tli_read_format(const char *op, const char *name, int ndim, tli_Format *format) TL_MUSTCHECK;

/* Returns whether t is dense in the given format. TLI_PRESERVE counts as row-major. */
bool tli_lies(const tl_Tensor *t, tli_Format format);

/* Returns the memory format that t's strides suggest, by PyTorch's rule. This is a channels-last
** format, even if t has gaps, or TLI_ROW_MAJOR. */
tli_Format tli_format_of(const tl_Tensor *t);

/* Returns a new tensor in the given format, which must not be TLI_PRESERVE. */
tl_Tensor *tli_empty_format(tli_Format format, tl_DType dtype, tl_Device device, int ndim,
                            const int64_t *sizes) TL_MUSTCHECK;

/* Returns t in the given dtype and memory format, without gaps: t itself or a copy. */
tl_Tensor *tli_lay(tl_Tensor *t, tl_DType dtype, tli_Format format) TL_MUSTCHECK;

/* Returns a new tensor like tli_empty_like. The call may specify another dtype, device or
** format. */
tl_Tensor *tli_new_like(const char *op, tl_Tensor *self, tl_DType dtype, tl_Device device,
                        const char *memory_format) TL_MUSTCHECK;

/* Returns `steals` in the channels-last format of `input`, or unchanged if `input` is row-major. If
** the memory layout fits both formats, only the strides of `steals` change, in place. Therefore
** only the caller may own `steals`, unless it is the input itself. Returns NULL for NULL. */
tl_Tensor *tli_follow(tl_Tensor *steals, const tl_Tensor *input) TL_MUSTCHECK;

#endif
