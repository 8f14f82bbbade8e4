/*
** backend.c - finds the kernels of a device. The CPU's are always there;
** others register when their plugin is loaded and stay until the process ends.
*/
#include "core/backend.h"

#include <stdatomic.h>

#include "core/error.h"

static _Atomic(const tl_Backend *) registered[TL_NDEVICETYPES];

const tl_Backend *tli_backend(tl_Device device) {
  if (device.type == TL_CPU) return tlk_cpu_backend();
  const tl_Backend *backend = NULL;
  if (device.type > 0 && device.type < TL_NDEVICETYPES)
    backend = atomic_load_explicit(&registered[device.type], memory_order_acquire);
  if (backend == NULL)
    return tli_fail_null(TL_EDEVICE, "device %s: not available", tli_device_str(device));
  return backend;
}

void tli_backend_register(tl_DeviceType type, const tl_Backend *backend) {
  atomic_store_explicit(&registered[type], backend, memory_order_release);
}
