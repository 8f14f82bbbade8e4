/*
** backend.c - finds a device's table of kernels, and the calling thread's current stream. The
** tables of the CPU and of the meta device are built in. A plugin's table is opened on first use,
** once for the process, and stays open. So every tensor's device has a table.
*/
#include "core/device/backend.h"

#include <string.h>

#include "core/device/capture.h"
#include "core/device/pending.h"
#include "core/platform/platform.h"
#include "core/device/plugin.h"

_Atomic(const tl_Backend *) tli_backends[TL_NDEVICETYPES] = {[TL_CPU] = &tlk_cpu_backend};

atomic_bool tli_devices_opened;

const tlk_Context tli_cpu_context = {.device = {TL_CPU, 0}};

/* ---- opening --------------------------------------------------------------------- */

/* Guards the opening of a plugin. Unlike other locks, it is not held across fork(), because opening
** a plugin may itself fork. If a process forks while another thread is opening a plugin, the child
** process can open no plugin, because that thread may have held the dynamic loader's own lock. */
static tli_Mutex lock = TLI_MUTEX_INIT;
static atomic_bool opening;
static bool cut_off;

static void after_fork(void) {
  tli_mutex_init(&lock);
  cut_off = cut_off || atomic_load(&opening);
  atomic_store(&opening, false);
}

__attribute__((constructor)) static void watch_forks(void) { tli_at_fork(NULL, NULL, after_fork); }

const tlk_Lapack *tli_lapack(tl_Device device) {
  const tl_Backend *backend = tli_backend(device);
  if (backend->lapack || backend->device == NULL) return backend->lapack;
  if (backend->device->lapack == NULL || tli_capture_number(device) != 0) return NULL;
  return backend->device->lapack();
}

const char *tli_device_type_name(int type) {
  static const char *const names[] = {
#define X(name, text) text,
      TL_DEVICES(X)
#undef X
  };
  return type >= 0 && type < TL_NDEVICETYPES ? names[type] : "device";
}

/* Opens the table of a kind of device. The caller holds the lock. */
static const tl_Backend *open_table(int type) {
#ifdef TLI_RUNTIME
  if (type == TL_META) return tli_fail_null(TL_EDEVICE, "this library has no meta device");
#else
  if (type == TL_META) return &tlk_meta_backend;
#endif
  if (cut_off)
    return tli_fail_null(TL_EDEVICE, "this process was forked while its parent opened a device");
  atomic_store(&opening, true);
  const tl_Backend *backend = tli_plugin_open(tli_device_type_name(type));
  atomic_store(&opening, false);
  return backend;
}

/* Returns the table of a kind of device; NULL with a message on failure. */
static const tl_Backend *open_type(int type) {
  const tl_Backend *backend = atomic_load_explicit(&tli_backends[type], memory_order_acquire);
  if (backend) return backend;
  tli_mutex_lock(&lock);
  backend = atomic_load_explicit(&tli_backends[type], memory_order_acquire);
  if (backend == NULL && (backend = open_table(type)) != NULL) {
    atomic_store(&tli_devices_opened, true);
    atomic_store_explicit(&tli_backends[type], backend, memory_order_release);
  }
  tli_mutex_unlock(&lock);
  return backend;
}

const tl_Backend *tli_backend_open(tl_Device device) {
  if (device.type < 0 || device.type >= TL_NDEVICETYPES)
    return tli_fail_null(TL_EDEVICE, "device: expected a device, got number %d", device.type);
  const tl_Backend *backend = open_type(device.type);
  if (backend == NULL)
    return tli_fail_null(TL_EDEVICE, "device %s: not available: %s; use \"cpu\"",
                         tli_device_str(device), tl_error());
  if (backend->device == NULL) return backend;
  int count = backend->device->count();
  if (device.index >= 0 && device.index < count) return backend;
  return tli_fail_null(TL_EDEVICE, "device %s: expected %s:0 to %s:%d", tli_device_str(device),
                       backend->name, backend->name, count - 1);
}

int tli_device_count(tl_DeviceType type) {
  const tl_Backend *backend = open_type((int)type);
  return backend == NULL ? 0 : backend->device ? backend->device->count() : 1;
}

/* ---- the calling thread's streams ------------------------------------------------ */

static _Thread_local tlk_Context contexts[TL_NDEVICETYPES][TL_MAX_DEVICES];
static _Thread_local int8_t current_device[TL_NDEVICETYPES];

const tlk_Context *tli_context_of(tl_Device device) {
  tlk_Context *cx = &contexts[device.type][device.index];
  if (cx->stream == NULL) {
    cx->device = device;
    cx->stream = tli_backend(device)->device->default_stream(device);
  }
  return cx;
}

tl_Stream *tli_stream(tl_Device device) { return tli_context(device)->stream; }

/* the thread's stream guards, innermost first (borrowed) */
static _Thread_local tli_StreamGuard *guards;

static tl_Stream *guarded_stream(const tli_StreamGuard *s, tl_Device device, tl_Stream *stream) {
  if (s == NULL) return stream;
  stream = guarded_stream(s->outer, device, stream);
  return tli_same_device(s->device, device) && s->before == stream ? s->stream : stream;
}

static void set_stream(tl_Device device, tl_Stream *stream) {
  tlk_Context *cx = &contexts[device.type][device.index];
  cx->device = device;
  cx->stream = stream;
}

void tli_set_stream(tl_Device device, tl_Stream *stream) {
  if (guards && stream == NULL) stream = tli_backend(device)->device->default_stream(device);
  set_stream(device, guarded_stream(guards, device, stream));
}

void tli_stream_guard(tli_StreamGuard *s, tl_Device device, tl_Stream *stream) {
  *s = (tli_StreamGuard){device, tli_stream(device), stream, guards};
  guards = s;
  set_stream(device, stream);
}

void tli_stream_guard_end(const tli_StreamGuard *s) {
  guards = s->outer;
  set_stream(s->device, s->before);
}

bool tli_stream_follow(tl_Device device, tl_Stream *next, tl_Stream *first) {
  if (next == first) return true;
  const tl_DeviceApi *api = tli_backend(device)->device;
  tli_collect_pending(device, first);
  tli_collect_pending(device, next);
  tl_Event *event = api->event(device, 0);
  bool ok = event && api->event_record(event, first) && api->stream_wait(next, event);
  if (event) api->event_free(event);
  return ok;
}

static _Thread_local tl_Device default_device = {TL_CPU, 0};

tl_Device tli_default_device(void) { return default_device; }

void tli_set_default_device(tl_Device device) { default_device = device; }

int tli_current_device(tl_DeviceType type) { return current_device[type]; }

void tli_set_current_device(tl_DeviceType type, int index) { current_device[type] = (int8_t)index; }
