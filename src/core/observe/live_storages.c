/*
** live_storages.c - implements live_storages.h. Storages are in a map by address. The map's memory
** comes directly from the system, not from the allocator, because the map is needed for the message
** when the allocator's memory is exhausted. If the system has no memory either, a storage is not
** recorded.
*/
#include "core/observe/live_storages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/backend.h"
#include "core/device/running.h"
#include "core/error.h"
#include "core/platform/platform.h"
#include "core/observe/profile.h"

typedef struct Entry {
  const void *key; /* the storage's address */
  const char *site, *op;
  int64_t bytes;
  tl_Device device;
  int8_t dtype;
} Entry;

#define MAP live
#define MAP_ENTRY Entry
#define MAP_GET(n) tli_memory_get(16, n)
#define MAP_PUT(p, n) tli_memory_put(p)
#include "core/memory/address_map.h"

static tli_Mutex lock = TLI_MUTEX_INIT;
TLI_FORK_SAFE_LAST(lock)
static live_Map live; /* guarded */
static atomic_bool recording;

void tli_live_record(bool on) {
  tli_mutex_lock(&lock);
  bool was = atomic_load(&recording);
  live_clear(&live);
  atomic_store(&recording, on);
  tli_mutex_unlock(&lock);
  if (on != was) atomic_fetch_add(&tli_profiles, on ? 1 : -1);
}

bool tli_live_recording(void) { return atomic_load_explicit(&recording, memory_order_relaxed); }

void tli_live_note(const tl_Storage *s, bool freed) {
  if (!tli_live_recording()) return;
  Entry e = {.key = s, .bytes = s->bytes, .device = s->device, .dtype = TL_NODTYPE};
  if (!freed) {
    const char *(*site)(void) = atomic_load(&tli_call_site);
    e.site = site ? site() : NULL;
    e.op = tli_operator();
  }
  tli_mutex_lock(&lock);
  if (tli_live_recording()) {
    Entry *entry = freed ? live_find(&live, s) : live_add(&live, s);
    if (entry && freed)
      live_remove(&live, entry);
    else if (entry)
      *entry = e;
  }
  tli_mutex_unlock(&lock);
}

void tli_live_dtype(const tl_Storage *s, tl_DType dtype) {
  if (!tli_live_recording()) return;
  tli_mutex_lock(&lock);
  Entry *entry = live_find(&live, s);
  if (entry) entry->dtype = (int8_t)dtype;
  tli_mutex_unlock(&lock);
}

/* ---- groups ------------------------------------------------------------------------ */

static int by_group(const void *a, const void *b) {
  const tli_LiveGroup *x = a, *y = b;
#define COMPARE(field) \
  if (x->field != y->field) return x->field < y->field ? -1 : 1
  COMPARE(site);
  COMPARE(op);
  COMPARE(dtype);
  COMPARE(size);
  COMPARE(device.type);
  COMPARE(device.index);
#undef COMPARE
  return 0;
}

static int by_bytes(const void *a, const void *b) {
  const tli_LiveGroup *x = a, *y = b;
  int64_t bx = x->size * x->count, by = y->size * y->count;
  if (bx != by) return bx > by ? -1 : 1;
  int order = x->site && y->site ? strcmp(x->site, y->site) : 0;
  return order ? order : by_group(a, b);
}

tli_LiveGroup *tli_live_groups(int64_t *n) {
  tli_mutex_lock(&lock);
  *n = 0;
  tli_LiveGroup *groups = tli_memory_get(16, (live.n + 1) * sizeof *groups);
  for (size_t i = 0; groups && i < live.size; i++) {
    const Entry *e = &live.places[i];
    if (e->key) groups[(*n)++] = (tli_LiveGroup){e->site, e->op, e->device, e->dtype, e->bytes, 1};
  }
  tli_mutex_unlock(&lock);
  if (groups == NULL) return tli_fail_null(TL_EMEM, "memory_snapshot: out of memory");
  qsort(groups, (size_t)*n, sizeof *groups, by_group);
  int64_t kept = 0;
  for (int64_t i = 0; i < *n; i++)
    if (kept > 0 && by_group(&groups[kept - 1], &groups[i]) == 0)
      groups[kept - 1].count++;
    else
      groups[kept++] = groups[i];
  *n = kept;
  qsort(groups, (size_t)kept, sizeof *groups, by_bytes);
  return groups;
}

void tli_live_free(tli_LiveGroup *groups) {
  if (groups) tli_memory_put(groups);
}

void tli_live_head(char *text, size_t size) {
  *text = '\0';
  if (!tli_live_recording()) return;
  int64_t n;
  tli_LiveGroup *groups = tli_live_groups(&n);
  if (groups == NULL) return;
  size_t used = 0;
  for (int64_t i = 0; i < n && i < 3 && used < size; i++) {
    const tli_LiveGroup *g = &groups[i];
    int written = snprintf(text + used, size - used, "%s%" PRId64 " x %.1f KB of %s at %s (%s)",
                           i == 0 ? "; most of it: " : ", ", g->count, (double)g->size / 1024,
                           g->dtype < 0 ? "bytes" : tl_dtype_name((tl_DType)g->dtype),
                           g->site ? g->site : "an unknown line", g->op ? g->op : "unknown");
    used += written > 0 ? (size_t)written : 0;
  }
  tli_live_free(groups);
}
