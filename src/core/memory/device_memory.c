/*
** device_memory.c - implements device_memory.h: collects garbage and tries again before an
** allocation on a device fails.
*/
#include "core/memory/device_memory.h"

#include <stdio.h>

#include "core/device/backend.h"
#include "core/observe/history.h"

bool (*_Atomic tli_collect_garbage)(bool lacking);

static _Atomic int64_t ooms[TL_NDEVICETYPES][TL_MAX_DEVICES];
/* the value of tli_error_number just after this thread last failed because a device's memory was
** exhausted */
static _Thread_local uint64_t exhausted;

int64_t tli_device_ooms(tl_Device device) { return ooms[device.type][device.index]; }

void tli_device_reset_ooms(tl_Device device) { ooms[device.type][device.index] = 0; }

bool tli_device_exhausted(void) { return exhausted && exhausted == tli_error_number(); }

/* Formats bytes as "12.00 MB", in one of a few buffers of the thread. */
static const char *size_str(int64_t bytes) {
  static _Thread_local char texts[8][32];
  static _Thread_local int next;
  static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
  char *text = texts[next++ % 8];
  double size = (double)bytes;
  int unit = 0;
  for (; size >= 1000 && unit < 4; unit++) size /= 1000;
  snprintf(text, sizeof texts[0], unit ? "%.2f %s" : "%.0f %s", size, units[unit]);
  return text;
}

static void *fail_exhausted(tl_Device device, int64_t bytes, bool collected) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  tl_MemoryStats s;
  int64_t free = 0, total = 0;
  ooms[device.type][device.index]++;
  if (!api->memory_stats(device, &s) || !api->memory_info(device, &free, &total)) return NULL;
  tli_memory_event(device, TL_MEMORY_OOM, (const void *)(intptr_t)free, bytes,
                   api->stream_id(tli_stream(device)));
  int64_t held = s.allocated_bytes[TL_POOL_ALL].current;
  int64_t cached = s.reserved_bytes[TL_POOL_ALL].current - held;
  tli_fail(
      TL_EMEM,
      "out of memory on %s: asked for %s; tensors hold %s, %s are cached in blocks of up to "
      "%s, %s of %s are free%s%s%s; %s: release tensors (x:release(), torch.scope), use smaller "
      "batches, torch.no_grad or torch.utils.checkpoint",
      tli_device_str(device), size_str(bytes), size_str(held), size_str(cached),
      size_str(s.largest_free), size_str(free), size_str(total), s.limit < total ? ", " : "",
      s.limit < total ? size_str(s.limit) : "", s.limit < total ? " may be used" : "",
      collected ? "garbage was collected and the cache given back" : "the cache was given back");
  exhausted = tli_error_number();
  return NULL;
}

/* the hook of this thread, and the device whose requests it serves */
static _Thread_local tli_AllocHook *hook;
static _Thread_local tl_Device hooked;

tli_AllocHook *tli_device_divert(tl_Device device, tli_AllocHook *to) {
  tli_AllocHook *before = hook;
  hook = to;
  hooked = device;
  return before;
}

static bool is_hooked(tl_Device device) {
  return hook && device.type == hooked.type && device.index == hooked.index;
}

void tli_device_free(tl_Device device, void *data, int64_t bytes) {
  if (!is_hooked(device) || !hook->put(hook, data))
    tli_backend(device)->device->free(device, data, bytes);
}

static void *device_alloc(tl_Device device, int64_t bytes);

void *tli_device_alloc(tl_Device device, int64_t bytes) {
  if (!is_hooked(device)) return device_alloc(device, bytes);
  void *data = hook->get(hook, (size_t)bytes);
  if (data) return data;
  data = device_alloc(device, bytes);
  if (data && hook) hook->got(hook, data, (size_t)bytes);
  return data;
}

static void *device_alloc(tl_Device device, int64_t bytes) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  void *data = api->alloc(tli_context(device), bytes);
  if (data || tl_error_kind() != TL_EMEM) return data;
  bool (*collect)(bool) = atomic_load(&tli_collect_garbage);
  bool collected = collect && collect(true);
  if (collected) {
    data = api->alloc(tli_context(device), bytes);
    if (data || tl_error_kind() != TL_EMEM) return data;
  }
  return fail_exhausted(device, bytes, collected);
}
