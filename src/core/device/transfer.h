/*
** transfer.h - copies between the host and a device. An operator that reads values on the host must
** wait for the device; its entry in the operators' table declares this by `waits`.
*/
#ifndef TLI_TRANSFER_H
#define TLI_TRANSFER_H

#include "core/tensor/tensor.h"

/* Reads all elements of a tensor on any device, in row-major order and converted to `dtype`, into a
** buffer of numel elements. Waits for the device. Copies from the meta device to other devices
** fail, because meta tensors have no values. */
bool tli_read(const tl_Tensor *t, tl_DType dtype, void *buffer) TL_MUSTCHECK;
/* Returns the value of an operand that the caller gave as a number (flag TLI_NUMBER). Such operands
** are on the CPU, so no device is waited for. */
static inline tl_Scalar tli_number_of(const tl_Tensor *number) {
  return tli_load(tli_data(number), (tl_DType)number->dtype);
}
/* Returns a new reference to an operand. If an operand without dimensions is on the CPU and the
** other operands are on a device, the operand is copied to the device. The host does not wait for
** the copy. */
tl_Tensor *tli_operand_on(tl_Tensor *operand, tl_Device device) TL_MUSTCHECK;
/* Reads the number in a tensor with one element. Waits for the device. */
bool tli_read_scalar(const tl_Tensor *t, tl_Scalar *out) TL_MUSTCHECK;
/* Copies a buffer into a row-major tensor of the same dtype on any device. The buffer may be freed
** immediately. */
bool tli_write(tl_Tensor *t, const void *buffer) TL_MUSTCHECK;
/* Creates a tensor from a buffer of `dtype` in row-major order. The caller may free the buffer
** immediately. */
tl_Tensor *tli_upload(tl_DType dtype, tl_Device device, int ndim, const int64_t *sizes,
                      const void *data) TL_MUSTCHECK;
/* Copies bytes to or from a device, or between two devices. */
bool tli_move_bytes(tl_Device to, void *dst, tl_Device from, const void *src, int64_t bytes,
                    bool async) TL_MUSTCHECK;
/* Copies between row-major tensors of the same dtype and shape on different devices. If `async` is
** set, copies from or to pinned host memory (pinned.h) may complete later. */
bool tli_move_into(tl_Tensor *to, const tl_Tensor *from, bool async) TL_MUSTCHECK;
/* Returns a new reference to t if t is on the device, otherwise a row-major copy on the device. If
** `async` is set, a copy on the host is in pinned memory and may complete later. */
tl_Tensor *tli_moved(tl_Tensor *t, tl_Device device, bool async) TL_MUSTCHECK;

#endif
