/*
** dlpack.c - exchanging tensors with other array libraries by DLPack. An exported tensor is one
** block: the managed tensor, its sizes and strides, and the reference that keeps the memory alive.
** An imported tensor has a storage whose release function calls the producer's deleter.
*/
#include "core/tensor/dlpack.h"

#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/device/api.h"

static const struct {
  tl_DType dtype;
  uint8_t code, bits;
} types[] = {
    {TL_F32, DLPACK_FLOAT, 32},       {TL_F64, DLPACK_FLOAT, 64},
    {TL_F16, DLPACK_FLOAT, 16},       {TL_I8, DLPACK_INT, 8},
    {TL_BF16, DLPACK_BFLOAT, 16},     {TL_I16, DLPACK_INT, 16},
    {TL_I32, DLPACK_INT, 32},         {TL_I64, DLPACK_INT, 64},
    {TL_U8, DLPACK_UINT, 8},          {TL_BOOL, DLPACK_BOOL, 8},
    {TL_C64, DLPACK_COMPLEX, 64},     {TL_C128, DLPACK_COMPLEX, 128},
#ifndef TLI_INFER
    {TL_U16, DLPACK_UINT, 16},        {TL_U32, DLPACK_UINT, 32},
    {TL_U64, DLPACK_UINT, 64},        {TL_F8E4M3, DLPACK_E4M3FN, 8},
    {TL_F8E4M3Z, DLPACK_E4M3FNUZ, 8}, {TL_F8E5M2, DLPACK_E5M2, 8},
    {TL_F8E5M2Z, DLPACK_E5M2FNUZ, 8}, {TL_F8E8M0, DLPACK_E8M0FNU, 8},
    {TL_C32, DLPACK_COMPLEX, 32},
#endif
};

enum { TYPES = sizeof types / sizeof types[0] };

/* ---- exporting ---- */

typedef struct Export {
  union {
    struct DLManagedTensor plain;
    struct DLManagedTensorVersioned versioned;
  };
  /* the exported tensor (owned); an alias of the original, so that later changes of the original's
  ** geometry do not affect it */
  tl_Tensor *tensor;
} Export;

static void export_free(Export *e) {
  tli_release(e->tensor);
  tli_free(e, sizeof *e);
}

static void delete_plain(struct DLManagedTensor *self) {
  if (self) export_free(self->manager_ctx);
}

static void delete_versioned(struct DLManagedTensorVersioned *self) {
  if (self) export_free(self->manager_ctx);
}

static bool type_to(tl_DType dtype, DLDataType *out) {
  for (int i = 0; i < TYPES; i++)
    if (types[i].dtype == dtype) {
      *out = (DLDataType){types[i].code, types[i].bits, 1};
      return true;
    }
  return tli_fail(TL_EDTYPE, "to_dlpack: DLPack has no type for %s", tl_dtype_name(dtype));
}

/* Converts a device to DLPack's form. The importing library does not know the engine's streams, so
** the function waits for the work on the device's current stream. */
static bool device_to(tl_Device device, DLDevice *out) {
  if (device.type != TL_CPU && device.type != TL_CUDA)
    return tli_fail(TL_EDEVICE, "to_dlpack: DLPack has no type for device %s",
                    tli_device_str(device));
  *out = (DLDevice){device.type == TL_CPU ? DLPACK_CPU : DLPACK_CUDA, device.index};
  return device.type == TL_CPU || tli_backend(device)->device->stream_sync(tli_stream(device));
}

/* Returns a block whose fields are set, except the fields of the managed tensor, which the caller
** sets. *out receives the block's DLTensor. */
static Export *export_new(tl_Tensor *tensor, DLTensor *out) {
  if (tensor == NULL) return tli_fail_null(TL_EARG, "to_dlpack: expected a tensor, got NULL");
  *out = (DLTensor){.ndim = tensor->ndim};
  TL_TRY_NULL(type_to((tl_DType)tensor->dtype, &out->dtype));
  TL_TRY_NULL(device_to(tli_device(tensor), &out->device));
  Export *e = tli_alloc(sizeof *e);
  TL_TRY_NULL(e);
  e->tensor = tli_detached(tensor);
  if (e->tensor == NULL) {
    tli_free(e, sizeof *e);
    return NULL;
  }
  out->data = tl_tensor_data(tensor);
  out->shape = e->tensor->sizes;
  out->strides = e->tensor->strides;
  return e;
}

struct DLManagedTensor *tl_tensor_to_dlpack(tl_Tensor *tensor) {
  DLTensor dl;
  Export *e = export_new(tensor, &dl);
  TL_TRY_NULL(e);
  e->plain = (struct DLManagedTensor){dl, e, delete_plain};
  return &e->plain;
}

struct DLManagedTensorVersioned *tl_tensor_to_dlpack_versioned(tl_Tensor *tensor) {
  DLTensor dl;
  Export *e = export_new(tensor, &dl);
  TL_TRY_NULL(e);
  e->versioned =
      (struct DLManagedTensorVersioned){{DLPACK_MAJOR, DLPACK_MINOR}, e, delete_versioned, 0, dl};
  return &e->versioned;
}

/* ---- importing ---- */

static void release_plain(void *data, void *context) {
  (void)data;
  struct DLManagedTensor *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

static void release_versioned(void *data, void *context) {
  (void)data;
  struct DLManagedTensorVersioned *managed = context;
  if (managed->deleter) managed->deleter(managed);
}

static bool type_from(DLDataType type, tl_DType *out) {
  for (int i = 0; i < TYPES; i++)
    if (types[i].code == type.code && types[i].bits == type.bits && type.lanes == 1) {
      *out = types[i].dtype;
      return true;
    }
  return tli_fail(TL_EDTYPE,
                  "from_dlpack: no dtype for DLPack's type with code %d, %d bits, %d lanes",
                  type.code, type.bits, type.lanes);
}

static bool device_from(DLDevice device, tl_Device *out) {
  *out = TLI_CPU;
  if (device.device_type == DLPACK_CPU || device.device_type == DLPACK_CUDA_HOST) return true;
  if (device.device_type != DLPACK_CUDA && device.device_type != DLPACK_CUDA_MANAGED)
    return tli_fail(TL_EDEVICE, "from_dlpack: expected a device of type CPU or CUDA, got type %d",
                    (int)device.device_type);
  if (device.device_id < 0 || device.device_id >= TL_MAX_DEVICES)
    return tli_fail(TL_EDEVICE, "from_dlpack: device number %d is out of range",
                    (int)device.device_id);
  *out = (tl_Device){TL_CUDA, (int8_t)device.device_id};
  return tli_backend_open(*out) != NULL;
}

/* Returns the tensor's strides. In a dimension with one element the stride has no effect, so it may
** be any number. */
static const int64_t *known_strides(const DLTensor *dl, int64_t strides[TL_MAX_DIMS]) {
  if (dl->strides == NULL || dl->shape == NULL || dl->ndim > TL_MAX_DIMS) return NULL;
  for (int d = 0; d < dl->ndim; d++) strides[d] = dl->shape[d] > 1 ? dl->strides[d] : 1;
  return strides;
}

static tl_Tensor *import(const DLTensor *dl, void (*release)(void *data, void *context),
                         void *context) {
  tl_DType dtype = TL_NODTYPE;
  tl_Device device;
  int64_t strides[TL_MAX_DIMS];
  TL_TRY_NULL(type_from(dl->dtype, &dtype));
  TL_TRY_NULL(device_from(dl->device, &device));
  if (dl->byte_offset > PTRDIFF_MAX || dl->byte_offset > UINTPTR_MAX - (uintptr_t)dl->data)
    return tli_fail_null(TL_EARG, "from_dlpack: byte_offset %" PRIu64 " leads out of all memory",
                         dl->byte_offset);
  void *data = dl->data ? (char *)dl->data + dl->byte_offset : NULL;
  return tli_wrap("from_dlpack", device, data, dtype, dl->ndim, dl->shape,
                  known_strides(dl, strides), release, context);
}

tl_Tensor *tl_tensor_from_dlpack(struct DLManagedTensor *managed) {
  if (managed == NULL) return tli_fail_null(TL_EARG, "from_dlpack: expected a tensor, got NULL");
  return import(&managed->dl_tensor, release_plain, managed);
}

tl_Tensor *tl_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed) {
  if (managed == NULL) return tli_fail_null(TL_EARG, "from_dlpack: expected a tensor, got NULL");
  if (managed->version.major != DLPACK_MAJOR)
    return tli_fail_null(TL_EARG, "from_dlpack: expected DLPack's version %d, got %u.%u",
                         DLPACK_MAJOR, (unsigned)managed->version.major,
                         (unsigned)managed->version.minor);
  if (managed->flags & DLPACK_READ_ONLY)
    return tli_fail_null(TL_EARG,
                         "from_dlpack: the memory is read-only, and a tensor's may be written to; "
                         "copy it first");
  return import(&managed->dl_tensor, release_versioned, managed);
}
