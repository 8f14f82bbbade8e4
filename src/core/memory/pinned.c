/*
** pinned.c - implements pinned.h. For each pending copy, a list has a reference to the storage that
** the copy uses, and an event that was recorded after the copy.
*/
#include "core/memory/pinned.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/device/capture.h"
#include "core/platform/platform.h"

/* ---- blocks ---------------------------------------------------------------------- */

/* binary logarithms of the smallest and the largest size of a block in bytes */
enum { SMALLEST = 9, LARGEST = 62 };

/* The header of a block that is kept for reuse, stored at the block's beginning. */
typedef struct Kept {
  struct Kept *next;
} Kept;

typedef struct Cache {
  Kept *blocks[LARGEST + 1];
  tli_PinnedStats stats;
} Cache;

static tli_Mutex lock = TLI_MUTEX_INIT; /* guards all static variables of this file */
TLI_FORK_SAFE(lock)
static Cache caches[TL_NDEVICETYPES]; /* guarded */

static int power_of(int64_t bytes) {
  int power = SMALLEST;
  while (power < LARGEST && (int64_t)1 << power < bytes) power++;
  return power;
}

static void *take_kept(Cache *cache, int power) {
  tli_mutex_lock(&lock);
  Kept *block = cache->blocks[power];
  if (block) {
    cache->blocks[power] = block->next;
    tl_stat_add(&cache->stats.active_requests, 1);
    tl_stat_add(&cache->stats.active_bytes, (int64_t)1 << power);
  }
  tli_mutex_unlock(&lock);
  return block;
}

static void note_new(Cache *cache, int power) {
  tl_Stat *counts[] = {&cache->stats.allocations, &cache->stats.active_requests};
  tl_Stat *bytes[] = {&cache->stats.allocated_bytes, &cache->stats.active_bytes};
  tli_mutex_lock(&lock);
  for (int i = 0; i < 2; i++) {
    tl_stat_add(counts[i], 1);
    tl_stat_add(bytes[i], (int64_t)1 << power);
  }
  tli_mutex_unlock(&lock);
}

void tli_pinned_trim(tl_DeviceType type) {
  Cache *cache = &caches[type];
  Kept *all[LARGEST + 1];
  const tl_Backend *backend = tli_backend((tl_Device){(int8_t)type, 0});
  if (backend == NULL) return; /* a process without a device has no pinned blocks */
  tli_mutex_lock(&lock);
  memcpy(all, cache->blocks, sizeof all);
  memset(cache->blocks, 0, sizeof all);
  for (int power = SMALLEST; power <= LARGEST; power++)
    for (Kept *block = all[power]; block; block = block->next) {
      tl_stat_add(&cache->stats.allocations, -1);
      tl_stat_add(&cache->stats.allocated_bytes, -((int64_t)1 << power));
    }
  tli_mutex_unlock(&lock);
  for (int power = SMALLEST; power <= LARGEST; power++)
    for (Kept *block = all[power], *next; block; block = next) {
      next = block->next;
      backend->device->pinned_free(block, (int64_t)1 << power);
    }
}

static void *take(tl_DeviceType type, const tl_DeviceApi *api, int power) {
  void *block = take_kept(&caches[type], power);
  if (block) return block;
  block = api->pinned_alloc((int64_t)1 << power);
  if (block == NULL) {
    tli_pinned_trim(type);
    block = api->pinned_alloc((int64_t)1 << power);
  }
  if (block) note_new(&caches[type], power);
  return block;
}

static void give_back(tl_DeviceType type, void *block, int power) {
  Cache *cache = &caches[type];
  Kept *kept = block;
  tli_mutex_lock(&lock);
  kept->next = cache->blocks[power];
  cache->blocks[power] = kept;
  tl_stat_add(&cache->stats.active_requests, -1);
  tl_stat_add(&cache->stats.active_bytes, -((int64_t)1 << power));
  tli_mutex_unlock(&lock);
}

tli_PinnedStats tli_pinned_stats(tl_DeviceType type) {
  tli_mutex_lock(&lock);
  tli_PinnedStats stats = caches[type].stats;
  tli_mutex_unlock(&lock);
  return stats;
}

static void each_stat(tl_DeviceType type, void (*change)(tl_Stat *stat)) {
  tli_PinnedStats *s = &caches[type].stats;
  tli_mutex_lock(&lock);
  change(&s->allocations);
  change(&s->allocated_bytes);
  change(&s->active_requests);
  change(&s->active_bytes);
  tli_mutex_unlock(&lock);
}

static void reset_peak(tl_Stat *s) { s->peak = s->current; }
static void reset_sums(tl_Stat *s) { s->allocated = s->freed = 0; }

void tli_pinned_reset_peaks(tl_DeviceType type) { each_stat(type, reset_peak); }
void tli_pinned_reset_sums(tl_DeviceType type) { each_stat(type, reset_sums); }

/* ---- storages -------------------------------------------------------------------- */

typedef struct Origin {
  tl_DeviceType type;
  int power;
} Origin;

static void release(void *data, void *context) {
  Origin *origin = context;
  give_back(origin->type, data, origin->power);
  tli_free(origin, sizeof *origin);
}

tl_Storage *tli_pinned_storage(tl_DeviceType type, int64_t bytes) {
  const tl_Backend *backend = tli_backend_open((tl_Device){(int8_t)type, 0});
  TL_TRY_NULL(backend);
  tli_pinned_reap();
  int power = power_of(bytes);
  Origin *origin = tli_alloc(sizeof *origin);
  void *data = origin ? take(type, backend->device, power) : NULL;
  if (data) {
    *origin = (Origin){type, power};
    tl_Storage *storage = tli_storage_wrap(TLI_CPU, data, bytes, release, origin);
    if (storage) return storage;
    give_back(type, data, power);
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

/* ---- pending copies ------------------------------------------------------------------ */

typedef struct Use {
  struct Use *next;
  tl_Storage *storage; /* owned */
  tl_Event *event;     /* owned */
  const tl_DeviceApi *api;
} Use;

static Use *uses; /* copies that may still run (owned list); guarded by the lock */

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

bool tli_pinned_used(tl_Storage *storage, tl_Device device, tl_Stream *stream) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  if (api->capture(stream)) {
    tli_capture_keep_host(storage, device);
    return true;
  }
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
