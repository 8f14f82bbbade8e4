/*
** pending.c - implements pending.h. While a graph is captured on a kind of device, the kernels of
** that kind are called through a second table. Its functions ask the device whether garbage should
** be collected, and then call the kernels of the plugin's own table.
*/
#include "core/device/pending.h"

#include "core/device/backend.h"
#include "core/memory/device_memory.h"

/* For each kind of device that can keep calls pending and on which a graph was ever captured,
** `plain` has the plugin's own table and `watched` the table whose functions also collect
** garbage. */
static const tl_Backend *plain[TL_NDEVICETYPES];
static tl_Backend watched[TL_NDEVICETYPES];

static void collect(tl_Device device, const tl_Stream *stream, int kernel, const void *call) {
  bool (*garbage)(bool lacking) = atomic_load(&tli_collect_garbage);
  if (garbage && plain[device.type]->device->pending(stream, kernel, call)) (void)!garbage(false);
}

#define X(name, operands)                                                 \
  static bool run_##name(const struct tlk_##name *call) {                 \
    collect(call->cx->device, call->cx->stream, TLK_KERNEL_##name, call); \
    return plain[call->cx->device.type]->name(call);                      \
  }
TLK_KERNELS(X)
#undef X

static void fill_tables(tl_DeviceType type) {
  plain[type] = atomic_load(&tli_backends[type]);
  watched[type] = *plain[type];
#define X(name, operands) watched[type].name = run_##name;
  TLK_KERNELS(X)
#undef X
}

void tli_watch_pending(tl_DeviceType type, bool on) {
  if (tli_backends[type]->device->pending == NULL) return;
  if (plain[type] == NULL) fill_tables(type);
  atomic_store(&tli_backends[type], on ? &watched[type] : plain[type]);
}

void tli_collect_pending(tl_Device device, const tl_Stream *stream) {
  if (atomic_load_explicit(&tli_captures_open, memory_order_relaxed) > 0 && plain[device.type])
    collect(device, stream, -1, NULL);
}
