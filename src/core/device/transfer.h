/*
** transfer.h - between the host and a device. Operators that read on the host say
** so in their entry (`waits`), for the host then waits for the device.
*/
#ifndef TLI_TRANSFER_H
#define TLI_TRANSFER_H

#include "core/tensor/tensor.h"

/* Reads all elements of a tensor on any device, in row-major order and converted
** to `dtype`, into a buffer of numel elements of that. Waits for the device. Like all that
** copies from the meta device to others it fails there: its tensors have no values. */
bool tli_read(const tl_Tensor *t, tl_DType dtype, void *buffer) TL_MUSTCHECK;
/* The number behind an operand that was given as one (flag TLI_NUMBER): those lie
** on the CPU. */
static inline tl_Scalar tli_number_of(const tl_Tensor *number) {
  return tli_load(tli_data(number), (tl_DType)number->dtype);
}
/* An operand, a new reference; of one that lies on the CPU beside others on a device,
** which has no dimensions then, a copy there. It does not wait. */
tl_Tensor *tli_operand_on(tl_Tensor *operand, tl_Device device) TL_MUSTCHECK;
/* The number in a tensor of one element. Waits for the device. */
bool tli_read_scalar(const tl_Tensor *t, tl_Scalar *out) TL_MUSTCHECK;
/* Writes a row-major tensor on any device from a buffer of its dtype, which may
** be freed at once. */
bool tli_write(tl_Tensor *t, const void *buffer) TL_MUSTCHECK;
/* A new tensor so written. */
tl_Tensor *tli_upload(tl_DType dtype, tl_Device device, int ndim, const int64_t *sizes,
                      const void *data) TL_MUSTCHECK;
/* Bytes to or from a device, or between devices of one kind. */
bool tli_move_bytes(tl_Device to, void *dst, tl_Device from, const void *src, int64_t bytes,
                    bool async) TL_MUSTCHECK;
/* Copies between tensors of one dtype and shape, both row-major, on different
** devices. `async`: what comes from or goes to pinned host memory (pinned.h) need
** not have arrived. */
bool tli_move_into(tl_Tensor *to, const tl_Tensor *from, bool async) TL_MUSTCHECK;
/* t, a new reference, or a row-major copy on another device; with `async` one on
** the host is pinned. */
tl_Tensor *tli_moved(tl_Tensor *t, tl_Device device, bool async) TL_MUSTCHECK;

#endif
