/*
** backend.c - finds the kernels of a device. The CPU's are always there;
** others register when their plugin is loaded and stay until the process ends.
*/
#include "core/backend.h"

#include <stdatomic.h>

#include "core/error.h"

static _Atomic(const tl_Backend *) registered[TL_NDEVICETYPES];

static const tl_Backend *find(int type) {
  if (type == TL_CPU) return tlk_cpu_backend();
  if (type < 0 || type >= TL_NDEVICETYPES) return NULL;
  return atomic_load_explicit(&registered[type], memory_order_acquire);
}

const tl_Backend *tli_backend(tl_Device device) {
  const tl_Backend *backend = find(device.type);
  if (backend == NULL)
    return tli_fail_null(TL_EDEVICE,
                         "device %s: not available: this build is without %s; use \"cpu\"",
                         tli_device_str(device), device.type == TL_CUDA ? "CUDA" : "such devices");
  return backend;
}

int tli_device_count(tl_DeviceType type) {
  const tl_Backend *backend = find((int)type);
  return backend == NULL ? 0 : backend->count ? backend->count() : 1;
}

void tli_backend_register(tl_DeviceType type, const tl_Backend *backend) {
  atomic_store_explicit(&registered[type], backend, memory_order_release);
}
