/*
** copy.c - copies of tensors: in another dtype, on another device, in another memory order, to an
** existing tensor, and without history.
*/
#include <stdatomic.h>
#include <string.h>

#include "core/device/running.h"
#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* ---- copies ---- */

tl_Tensor *tli_op_to_row_major(tl_Tensor *self) {
  tl_Tensor *copy = tli_empty((tl_DType)self->dtype, tli_device(self), self->ndim, self->sizes);
  if (copy && !tli_copy(copy, self)) {
    tli_release(copy);
    return NULL;
  }
  return copy;
}

tl_Tensor *tlo_detach(tl_Tensor *self) { return tli_detached(self); }

/* Broadcasts self to the sizes of `to`. */
static tl_Tensor *broadcast(const char *op, const tl_Tensor *self, const tl_Tensor *to) {
  if (!tli_expandable(self->ndim, self->sizes, to->ndim, to->sizes))
    return tli_fail_null(TL_ESHAPE, "%s: a tensor of shape %s does not fit self of shape %s", op,
                         tli_sizes_str(self), tli_sizes_str(to));
  int64_t strides[TL_MAX_DIMS];
  int skip = to->ndim - self->ndim;
  for (int d = 0; d < to->ndim; d++)
    strides[d] = d < skip || self->sizes[d - skip] != to->sizes[d] ? 0 : self->strides[d - skip];
  return tli_alias(self, to->ndim, to->sizes, strides, self->offset);
}

/* Returns whether the elements of a can be copied to b as bytes, without conversion. */
static bool alike(const tl_Tensor *a, const tl_Tensor *b) {
  return a->dtype == b->dtype && tli_same_sizes(a, b) && tli_contiguous(a) && tli_contiguous(b);
}

/* Copies src to self. Refuses an implicit conversion from complex to real numbers, as all operators
** that store values do; PyTorch only warns. A conversion to bool is allowed, because it only tests
** whether the complex number differs from 0. */
bool tli_op_copy_(tl_Tensor *self, tl_Tensor *src, bool non_blocking) {
  if (self->dtype != TL_BOOL) TL_TRY(tli_check_complex_values("copy_", src, (tl_DType)self->dtype));
  bool moves = !tli_same_device(tli_device(self), tli_device(src));
  if (moves && alike(self, src)) return tli_move_into(self, src, non_blocking);
  tli_Chain c = {0};
  if (!tli_same_sizes(self, src)) src = TLI_STEP(&c, broadcast("copy_", src, self));
  if (!c.failed && tli_clashes(self, src)) {
    src = TLI_STEP(&c, tli_op_to_row_major(src));
  } else if (moves) {
    /* a copy to the host must be synchronous, because its elements are read again below */
    bool async = non_blocking && tli_device(self).type != TL_CPU;
    src = TLI_STEP(&c, tli_moved(src, tli_device(self), async));
  }
  TLI_DO(&c, tli_copy(self, src));
  return tli_chain_end_all(&c, NULL, 0);
}

/* ---- dtype and device ---- */

tl_Tensor *tli_op_to_dtype(tl_Tensor *self, tl_DType dtype) {
  tl_Tensor *copy = tli_empty_like(self, dtype);
  if (copy && !tli_copy(copy, self)) {
    tli_release(copy);
    return NULL;
  }
  return copy;
}

/* Copies self to another device. The copy has the same order of dimensions in memory, as the result
** of clone does. */
tl_Tensor *tli_op_move(tl_Tensor *self, tl_Device device, bool non_blocking) {
  if (device.type == TL_META) return tli_on_meta(self);
  tl_Tensor *dense = tli_dense(self) ? tli_retain(self) : tli_op_clone(self);
  tl_Tensor *moved = dense ? tli_moved_as_is(dense, device, non_blocking) : NULL;
  tli_release(dense);
  return moved;
}

void tli_warn_discarding(const tl_Tensor *self, tl_DType dtype) {
  static atomic_bool warned;
  if (!tli_is_complex((tl_DType)self->dtype) || tli_is_complex(dtype) || dtype == TL_BOOL) return;
  if (!atomic_exchange(&warned, true))
    tli_warning("casting complex values to real discards the imaginary part");
}

/* Converts self to a dtype and a device. Converts the dtype on the source or the destination
** device, so that fewer bytes are transferred. */
static tl_Tensor *convert(tl_Tensor *self, tl_DType dtype, tl_Device device, bool async,
                          bool copy) {
  if (dtype == TL_NODTYPE) dtype = (tl_DType)self->dtype;
  bool moves = device.type >= 0 && !tli_same_device(device, tli_device(self));
  if (moves) TL_TRY_NULL(tli_backend_open(device));
  if (dtype == (tl_DType)self->dtype) {
    if (moves) return tlo_move(self, device, async);
    return copy ? tlo_clone(self) : tli_retain(self);
  }
  tli_warn_discarding(self, dtype);
  if (!moves) return tlo_to_dtype(self, dtype);
  bool first = device.type != TL_META && tli_dtype_bytes[dtype] <= tli_dtype_bytes[self->dtype];
  /* a copy to the host must be synchronous if the host then converts it, because the data might not
  ** have arrived */
  async = async && (first || device.type != TL_CPU);
  tl_Tensor *half_way = first ? tlo_to_dtype(self, dtype) : tlo_move(self, device, async);
  tl_Tensor *result = NULL;
  if (half_way) result = first ? tlo_move(half_way, device, async) : tlo_to_dtype(half_way, dtype);
  tli_release(half_way);
  return result;
}

/* Converts a tensor to another dtype, device and memory format. If the tensor already has the
** memory format, the function only calls `convert`. */
static tl_Tensor *convert_to(const char *op, tl_Tensor *self, tl_DType dtype, tl_Device device,
                             bool async, bool copy, const char *memory_format) {
  if (memory_format == NULL) return convert(self, dtype, device, async, copy);
  tli_Format format;
  TL_TRY_NULL(tli_read_format(op, memory_format, self->ndim, &format));
  bool keeps = format == TLI_PRESERVE || format == tli_format_of(self);
  /* a copy that the host then reorders must be synchronous */
  async = async && (format == TLI_PRESERVE || device.type != TL_CPU);
  tli_Chain c = {0};
  tl_Tensor *result = TLI_STEP(&c, convert(self, dtype, device, async, copy && keeps));
  if (!keeps || (result && format != TLI_PRESERVE && !tli_lies(result, format)))
    result = TLI_STEP(&c, tlo_laid_out(result, format));
  return tli_chain_end(&c, result);
}

tl_Tensor *tli_op_to(tl_Tensor *self, tl_DType dtype, bool non_blocking, bool copy,
                     tl_Device device, const char *memory_format) {
  return convert_to("to", self, dtype, device, non_blocking, copy, memory_format);
}

tl_Tensor *tlo_to_device(tl_Tensor *self, tl_Device device, tl_DType dtype, bool non_blocking,
                         bool copy, const char *memory_format) {
  return convert_to("to", self, dtype, device, non_blocking, copy, memory_format);
}

tl_Tensor *tlo_to_device_only(tl_Tensor *self, tl_Device device, bool non_blocking, bool copy,
                              const char *memory_format) {
  return convert_to("to", self, TL_NODTYPE, device, non_blocking, copy, memory_format);
}

tl_Tensor *tlo_to_like(tl_Tensor *self, tl_Tensor *other, bool non_blocking, bool copy,
                       const char *memory_format) {
  return convert_to("to", self, (tl_DType)other->dtype, tli_device(other), non_blocking, copy,
                    memory_format);
}

tl_Tensor *tlo_cpu(tl_Tensor *self, const char *memory_format) {
  return convert_to("cpu", self, TL_NODTYPE, TLI_CPU, false, false, memory_format);
}

static tl_Tensor *to_kind(tl_Tensor *self, tl_DeviceType type, tl_Device device, bool non_blocking,
                          const char *memory_format) {
  const char *kind = tli_device_type_name(type);
  if (tli_same_device(device, TLI_NODEVICE))
    device = (tl_Device){(int8_t)type, (int8_t)tli_current_device(type)};
  if (device.type != (int8_t)type)
    return tli_fail_null(TL_EARG, "%s: device: expected a device such as \"%s:0\", got %s", kind,
                         kind, tli_device_str(device));
  return convert_to(kind, self, TL_NODTYPE, device, non_blocking, false, memory_format);
}

static tl_Tensor *to_number(tl_Tensor *self, tl_DeviceType type, int64_t number, bool non_blocking,
                            const char *memory_format) {
  if (number < 0 || number >= TL_MAX_DEVICES)
    return tli_fail_null(TL_EARG, "%s: device: expected a number from 0 to %d, got %" PRId64,
                         tli_device_type_name(type), TL_MAX_DEVICES - 1, number);
  return to_kind(self, type, (tl_Device){(int8_t)type, (int8_t)number}, non_blocking,
                 memory_format);
}

tl_Tensor *tlo_cuda(tl_Tensor *self, tl_Device device, bool non_blocking,
                    const char *memory_format) {
  return to_kind(self, TL_CUDA, device, non_blocking, memory_format);
}
tl_Tensor *tlo_cuda_number(tl_Tensor *self, int64_t device, bool non_blocking,
                           const char *memory_format) {
  return to_number(self, TL_CUDA, device, non_blocking, memory_format);
}
tl_Tensor *tlo_sim(tl_Tensor *self, tl_Device device, bool non_blocking,
                   const char *memory_format) {
  return to_kind(self, TL_SIM, device, non_blocking, memory_format);
}
tl_Tensor *tlo_sim_number(tl_Tensor *self, int64_t device, bool non_blocking,
                          const char *memory_format) {
  return to_number(self, TL_SIM, device, non_blocking, memory_format);
}

tl_Tensor *tlo_type_as(tl_Tensor *self, tl_Tensor *other) {
  return convert(self, (tl_DType)other->dtype, tli_device(other), false, false);
}

/* ---- another shape in place ---- */

/* Gives self new memory of `bytes` bytes, which begins with a copy of the old contents. The new
** storage takes over the version counter of the old one. If the counter began at 0 again, a node
** that has saved self might not notice that self has changed. */
static bool grow(tl_Tensor *self, int64_t bytes) {
  tl_Storage *old = self->storage;
  tl_Storage *storage = tli_storage_new(old->device, bytes);
  if (storage == NULL) return false;
  bool ok = true;
  if (old->bytes > 0 && old->device.type == TL_CPU)
    memcpy(storage->data, old->data, (size_t)old->bytes);
  else if (old->bytes > 0)
    ok = tli_move_bytes(old->device, storage->data, old->device, old->data, old->bytes, true);
  if (!ok) {
    tli_storage_release(storage);
    return false;
  }
  atomic_store_explicit(&storage->version, tli_version(self), memory_order_relaxed);
  self->storage = storage;
  tli_charge(self);
  tli_storage_release(old);
  return true;
}

/* In deterministic mode, fills the elements from index `from` on, which are still uninitialised. */
static bool settle_new_part(tl_Tensor *self, int64_t from) {
  int64_t n = self->numel - from, stride = 1;
  tl_Tensor *part = tli_alias(self, 1, &n, &stride, self->offset + from);
  bool ok = part && tli_fill_uninitialized(part);
  tli_release(part);
  return ok;
}

bool tli_op_resize_(tl_Tensor *self, tl_Ints size) {
  tl_DType dtype = (tl_DType)self->dtype;
  if (tli_requires_grad(self))
    return tli_fail(TL_EAUTOGRAD, "resize_: self requires a gradient; use detach or reshape");
  TL_TRY(tli_check_sizes("resize_", size, dtype));
  int64_t element = tli_dtype_bytes[dtype], bytes;
  int64_t numel = tli_numel((int)size.n, size.v, (size_t)element);
  if (__builtin_add_overflow(self->offset * element, numel * element, &bytes))
    return tli_fail(TL_EARG, "resize_: sizes %s: expected less than 2^63 bytes in all",
                    tli_shape_str((int)size.n, size.v));
  bool same = size.n == self->ndim;
  for (int d = 0; same && d < self->ndim; d++) same = size.v[d] == self->sizes[d];
  if (same) return true; /* the sizes are equal, so nothing changes */
  TL_TRY(self->numel == 0 || tli_may_reshape("resize_"));
  int64_t had = (int64_t)self->storage->bytes / element - self->offset;
  if (bytes > self->storage->bytes) TL_TRY(grow(self, bytes));
  tli_set_geometry(self, (int)size.n, size.v, NULL);
  return numel <= had || settle_new_part(self, had);
}
