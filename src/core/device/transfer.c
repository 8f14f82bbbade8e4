/*
** transfer.c - copies between the host and a device. Only copies to the host wait for a device, and
** all such waits are in this file.
*/
#include "core/device/transfer.h"

#include <string.h>

#include "core/device/backend.h"
#include "core/device/capture.h"
#include "core/device/pending.h"
#include "core/memory/alloc.h"
#include "core/memory/pinned.h"
#include "core/observe/trace.h"

/* Copies between a row-major buffer of `dtype` and a tensor on the same device, and converts the
** elements. */
static bool copy_plain(const tl_Tensor *t, tl_DType dtype, void *data, bool out) {
  tl_Storage storage = {.device = tli_device(t), .data = data};
  tl_Tensor plain = {.dtype = (int8_t)dtype, .storage = &storage};
  /* a copy of the struct, because tli_iter_build does not accept a pointer to const */
  tl_Tensor view = *t;
  tli_set_geometry(&plain, t->ndim, t->sizes, NULL);
  tl_Tensor *args[] = {out ? &plain : &view, out ? &view : &plain};
  struct tlk_copy call = {.cx = tli_context(tli_device(t))};
  tli_iter_build(&call.it, t->ndim, t->sizes, args, 2);
  return tli_backend(tli_device(t))->copy(&call);
}

/* Returns false with a message if `from` is the meta device, which has no bytes to copy. */
static bool can_leave(tl_Device from, tl_Device to) {
  return from.type != TL_META || to.type == TL_META ||
         tli_fail(TL_EDEVICE,
                  "a meta tensor has no values to read or copy; module:to_empty{device = \"cpu\"} "
                  "or torch.empty_like(x, {device = \"cpu\"}) makes memory, which is then filled");
}

/* Copies between devices of two different plugins through host memory, because such devices cannot
** read each other's memory. */
static bool move_through_host(tl_Device to, void *dst, tl_Device from, const void *src,
                              int64_t bytes) {
  void *buffer = tli_alloc((size_t)bytes);
  if (buffer == NULL) return false;
  bool ok = tli_move_bytes(TLI_CPU, buffer, from, src, bytes, false) &&
            tli_move_bytes(to, dst, TLI_CPU, buffer, bytes, false);
  tli_free(buffer, (size_t)bytes);
  return ok;
}

bool tli_move_bytes(tl_Device to, void *dst, tl_Device from, const void *src, int64_t bytes,
                    bool async) {
  tl_Device device = to.type == TL_CPU ? from : to;
  TL_TRY(can_leave(from, to));
  if (to.type != from.type && to.type != TL_CPU && from.type != TL_CPU)
    return move_through_host(to, dst, from, src, bytes);
  if (to.type == TL_CPU && !async) TL_TRY(tli_may_wait(device));
  tli_collect_pending(device, tli_stream(device));
  return tli_backend(device)->device->transfer(
      &(struct tlk_transfer){.cx = tli_context(device),
                             .to = to,
                             .from = from,
                             .dst = dst,
                             .src = src,
                             .bytes = bytes,
                             .async = async,
                             .from_stream = from.type == TL_CPU ? NULL : tli_stream(from)});
}

/* Returns t's elements in row-major order and in `dtype`, on t's device. The result is t itself or
** a copy. */
static tl_Tensor *plain_of(const tl_Tensor *t, tl_DType dtype) {
  if ((tl_DType)t->dtype == dtype && tli_contiguous(t)) return tli_retain((tl_Tensor *)t);
  tl_Tensor *plain = tli_empty(dtype, tli_device(t), t->ndim, t->sizes);
  if (plain == NULL || copy_plain(t, dtype, tli_data(plain), true)) return plain;
  tli_release(plain);
  return NULL;
}

bool tli_read(const tl_Tensor *t, tl_DType dtype, void *buffer) {
  int64_t bytes = t->numel * tli_dtype_bytes[dtype];
  TL_TRY(tli_trace_read(t));
  if (bytes == 0) return true;
  if (tli_device(t).type == TL_CPU) {
    if ((tl_DType)t->dtype != dtype || !tli_contiguous(t))
      return copy_plain(t, dtype, buffer, true);
    memcpy(buffer, tli_data(t), (size_t)bytes);
    return true;
  }
  tl_Tensor *plain = plain_of(t, dtype);
  bool ok = plain && tli_move_bytes(TLI_CPU, buffer, tli_device(t), tli_data(plain), bytes, false);
  tli_release(plain);
  return ok;
}

bool tli_read_scalar(const tl_Tensor *t, tl_Scalar *out) {
  _Alignas(16) char element[16];
  TL_ASSERT(t->numel == 1);
  TL_TRY(tli_trace_read(t));
  if (tli_device(t).type != TL_CPU) TL_TRY(tli_read(t, (tl_DType)t->dtype, &element));
  *out = tli_load(tli_device(t).type == TL_CPU ? tli_data(t) : &element, (tl_DType)t->dtype);
  return true;
}

tl_Tensor *tli_operand_on(tl_Tensor *operand, tl_Device device) {
  if (tli_same_device(tli_device(operand), device)) return tli_retain(operand);
  TL_ASSERT(operand->numel == 1 && tli_device(operand).type == TL_CPU);
  return tli_scalar_tensor(tli_number_of(operand), (tl_DType)operand->dtype, device);
}

bool tli_write(tl_Tensor *t, const void *buffer) {
  int64_t bytes = t->numel * tli_dtype_bytes[t->dtype];
  TL_ASSERT(tli_contiguous(t));
  if (bytes == 0) return true;
  if (tli_device(t).type != TL_CPU)
    return tli_move_bytes(tli_device(t), tli_data(t), TLI_CPU, buffer, bytes, false);
  memcpy(tli_data(t), buffer, (size_t)bytes);
  return true;
}

tl_Tensor *tli_upload(tl_DType dtype, tl_Device device, int ndim, const int64_t *sizes,
                      const void *data) {
  tl_Tensor *t = tli_empty(dtype, device, ndim, sizes);
  if (t == NULL || tli_write(t, data)) return t;
  tli_release(t);
  return NULL;
}

/* Copies all bytes from a row-major tensor to another one. `async` requires pinned memory on the
** host's side. */
static bool move(tl_Tensor *to, const tl_Tensor *from, bool async) {
  int64_t bytes = from->numel * tli_dtype_bytes[from->dtype];
  if (bytes == 0) return true;
  const tl_Tensor *host = tli_device(to).type == TL_CPU ? to : from;
  bool late = async && tli_device(host).type == TL_CPU && tli_is_pinned(host);
  TL_TRY(
      tli_move_bytes(tli_device(to), tli_data(to), tli_device(from), tli_data(from), bytes, late));
  tl_Device device = tli_device(host == to ? from : to);
  return !late || tli_pinned_used(host->storage, device, tli_stream(device));
}

bool tli_move_into(tl_Tensor *to, const tl_Tensor *from, bool async) {
  TL_ASSERT(to->dtype == from->dtype && tli_same_sizes(to, from));
  TL_ASSERT(tli_contiguous(to) && tli_contiguous(from));
  return move(to, from, async);
}

/* Returns an uninitialised tensor for the result of a copy. It is in pinned memory if the result is
** on the host and the copy is asynchronous. */
static tl_Tensor *place_for(const tl_Tensor *t, tl_Device device, bool async) {
  if (async && device.type == TL_CPU)
    return tli_pinned_empty(tli_device(t).type, (tl_DType)t->dtype, t->ndim, t->sizes);
  return tli_empty((tl_DType)t->dtype, device, t->ndim, t->sizes);
}

tl_Tensor *tli_moved(tl_Tensor *t, tl_Device device, bool async) {
  if (tli_same_device(tli_device(t), device)) return tli_retain(t);
  TL_TRY_NULL(can_leave(tli_device(t), device));
  if (device.type == TL_META) return tli_empty((tl_DType)t->dtype, device, t->ndim, t->sizes);
  tl_Tensor *plain = plain_of(t, (tl_DType)t->dtype);
  tl_Tensor *to = plain ? place_for(t, device, async) : NULL;
  if (to && !move(to, plain, async)) {
    tli_release(to);
    to = NULL;
  }
  tli_release(plain);
  return to;
}

/* ---- tlua.h ---- */

bool tl_tensor_read(const tl_Tensor *tensor, tl_DType dtype, void *buffer, size_t bytes) {
  if (tensor == NULL) return tli_fail(TL_EARG, "read: expected a tensor, got NULL");
  if (dtype < 0 || dtype >= TL_NDTYPES)
    return tli_fail(TL_EDTYPE, "read: expected a dtype, got %d", (int)dtype);
  TL_TRY(tli_has_dtype(dtype));
  int64_t need;
  if (__builtin_mul_overflow(tensor->numel, (int64_t)tli_dtype_bytes[dtype], &need) ||
      bytes != (size_t)need)
    return tli_fail(TL_EARG,
                    "read: expected a buffer for %" PRId64 " elements of %s, got %zu bytes",
                    tensor->numel, tl_dtype_name(dtype), bytes);
  if (need > 0 && buffer == NULL) return tli_fail(TL_EARG, "read: expected a buffer, got NULL");
  return tli_read(tensor, dtype, buffer);
}
