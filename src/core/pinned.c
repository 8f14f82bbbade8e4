/*
** pinned.c - see pinned.h. Memory that a copy still needs is in a list with the
** event that follows the copy; the list holds a reference of its own.
*/
#include "core/pinned.h"

#include "core/alloc.h"
#include "core/backend.h"
#include "core/platform.h"

/* ---- storages -------------------------------------------------------------------- */

typedef struct Origin {
  const tl_DeviceApi *api;
  int64_t bytes;
} Origin;

static void release(void *data, void *context) {
  Origin *origin = context;
  origin->api->pinned_free(data, origin->bytes);
  tli_free(origin, sizeof *origin);
}

tl_Storage *tli_pinned_storage(tl_DeviceType type, int64_t bytes) {
  const tl_Backend *backend = tli_backend_open((tl_Device){(int8_t)type, 0});
  TL_TRY_NULL(backend);
  tli_pinned_reap();
  int64_t some = bytes > 0 ? bytes : 1;
  Origin *origin = tli_alloc(sizeof *origin);
  void *data = origin ? backend->device->pinned_alloc(some) : NULL;
  if (data) {
    *origin = (Origin){backend->device, some};
    tl_Storage *storage = tli_storage_wrap(TLI_CPU, data, bytes, release, origin);
    if (storage) return storage;
    backend->device->pinned_free(data, some);
  }
  tli_free(origin, sizeof *origin);
  return NULL;
}

tl_Tensor *tli_pinned_empty(tl_DeviceType type, tl_DType dtype, int ndim, const int64_t *sizes) {
  int64_t none = 0;
  tl_Tensor *t = tli_empty(dtype, TLI_CPU, 1, &none);
  TL_TRY_NULL(t);
  int64_t bytes = tli_numel(ndim, sizes, (size_t)tli_dtype_bytes[dtype]) * tli_dtype_bytes[dtype];
  tl_Storage *storage = tli_pinned_storage(type, bytes);
  if (storage == NULL) {
    tli_release(t);
    return NULL;
  }
  tli_storage_release(t->storage);
  t->storage = storage;
  tli_set_geometry(t, ndim, sizes, NULL);
  return t;
}

bool tli_is_pinned(const tl_Tensor *t) { return t->storage->release == release; }

/* ---- copies on their way --------------------------------------------------------- */

typedef struct Use {
  struct Use *next;
  tl_Storage *storage; /* owned */
  tl_Event *event;     /* owned */
  const tl_DeviceApi *api;
} Use;

static tli_Mutex lock = TLI_MUTEX_INIT;
TLI_FORK_SAFE(lock)
static Use *uses; /* owned list; guarded */

static void use_free(Use *use) {
  if (use->event) use->api->event_free(use->event);
  tli_storage_release(use->storage);
  tli_free(use, sizeof *use);
}

void tli_pinned_reap(void) {
  Use *done = NULL;
  tli_mutex_lock(&lock);
  for (Use **at = &uses; *at;) {
    Use *use = *at;
    bool reached = false;
    if (!use->api->event_query(use->event, &reached) || !reached) {
      at = &use->next;
      continue;
    }
    *at = use->next;
    use->next = done;
    done = use;
  }
  tli_mutex_unlock(&lock);
  while (done) {
    Use *use = done;
    done = use->next;
    use_free(use);
  }
}

bool tli_pinned_used(tl_Storage *storage, tl_Device device) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  tl_Stream *stream = tli_stream(device);
  if (api->capture(stream)) return true; /* as with all that a graph uses: the user keeps it */
  Use *use = tli_alloc(sizeof *use);
  if (use == NULL) return api->stream_sync(stream) && false;
  *use = (Use){NULL, tli_storage_retain(storage), api->event(device, 0), api};
  if (use->event == NULL || !api->event_record(use->event, stream)) {
    bool waited = api->stream_sync(stream);
    use_free(use);
    return waited && false;
  }
  tli_mutex_lock(&lock);
  use->next = uses;
  uses = use;
  tli_mutex_unlock(&lock);
  return true;
}
