/*
** dlpack.h - DLPack's ABI, written from its specification (dmlc.github.io/dlpack/latest/c_api.html,
** versions 0.8 and 1.0). The structs have the tags that DLPack's own header uses, because tlua.h
** names them. Only dlpack.c includes this file; programs use DLPack's header.
*/
#ifndef TLI_DLPACK_H
#define TLI_DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3, DLPACK_CUDA_MANAGED = 13 };

typedef struct DLDevice {
  int32_t device_type;
  int32_t device_id;
} DLDevice;

enum {
  DLPACK_INT = 0,
  DLPACK_UINT = 1,
  DLPACK_FLOAT = 2,
  DLPACK_BFLOAT = 4,
  DLPACK_COMPLEX = 5,
  DLPACK_BOOL = 6,
  DLPACK_E4M3FN = 10,
  DLPACK_E4M3FNUZ = 11,
  DLPACK_E5M2 = 12,
  DLPACK_E5M2FNUZ = 13,
  DLPACK_E8M0FNU = 14
};

typedef struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* number of lanes of a vector type; 1 for the type of plain numbers */
} DLDataType;

typedef struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* strides in elements; NULL means row-major */
  uint64_t byte_offset;
} DLTensor;

struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
};

typedef struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0, DLPACK_READ_ONLY = 1 };

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
};

#endif
