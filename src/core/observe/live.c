/*
** live.c - see live.h. A table by address. Its memory comes straight from the system, since
** the allocator itself asks for it when it has none left; where there is no memory a storage
** is not noted.
*/
#include "core/observe/live.h"

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
  const void *storage; /* NULL: free; GONE: free, but others may lie behind it */
  const char *site, *op;
  int64_t bytes;
  tl_Device device;
  int8_t dtype;
} Entry;

static const char gone;
#define GONE ((const void *)&gone)

static tli_Mutex lock = TLI_MUTEX_INIT;
TLI_FORK_SAFE(lock)
static struct {
  Entry *entries; /* owned, open addressing */
  size_t size;    /* a power of two */
  size_t used;    /* places that are or were taken */
} table;
static atomic_bool recording;

static Entry *place_of(Entry *entries, size_t size, const void *storage) {
  size_t i = (size_t)((uint64_t)(uintptr_t)storage * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
  while (entries[i].storage && entries[i].storage != storage) i = (i + 1) & (size - 1);
  return &entries[i];
}

/* Lock held. */
static bool grow(void) {
  if (2 * (table.used + 1) <= table.size) return true;
  size_t alive = 0;
  for (size_t i = 0; i < table.size; i++)
    alive += table.entries[i].storage && table.entries[i].storage != GONE;
  size_t size = table.size ? table.size : 1024;
  if (4 * alive > size) size *= 2;
  Entry *entries = tli_memory_get(16, size * sizeof *entries);
  if (entries == NULL) return false;
  memset(entries, 0, size * sizeof *entries);
  for (size_t i = 0; i < table.size; i++) {
    const Entry *e = &table.entries[i];
    if (e->storage && e->storage != GONE) *place_of(entries, size, e->storage) = *e;
  }
  if (table.entries) tli_memory_put(table.entries);
  table.entries = entries;
  table.size = size;
  table.used = alive;
  return true;
}

void tli_live_record(bool on) {
  tli_mutex_lock(&lock);
  bool was = atomic_load(&recording);
  if (table.entries) tli_memory_put(table.entries);
  table.entries = NULL;
  table.size = table.used = 0;
  atomic_store(&recording, on);
  tli_mutex_unlock(&lock);
  if (on != was) atomic_fetch_add(&tli_profiles, on ? 1 : -1);
}

bool tli_live_recording(void) { return atomic_load_explicit(&recording, memory_order_relaxed); }

void tli_live_note(const tl_Storage *s, bool freed) {
  if (!tli_live_recording()) return;
  Entry e = {.storage = s, .bytes = s->bytes, .device = s->device, .dtype = TL_NODTYPE};
  if (!freed) {
    const char *(*site)(void) = atomic_load(&tli_call_site);
    e.site = site ? site() : NULL;
    e.op = tli_operator();
  }
  tli_mutex_lock(&lock);
  if (!freed && tli_live_recording() && grow()) {
    Entry *place = place_of(table.entries, table.size, s);
    table.used += place->storage == NULL;
    *place = e;
  } else if (freed && table.size > 0) {
    Entry *place = place_of(table.entries, table.size, s);
    if (place->storage) place->storage = GONE;
  }
  tli_mutex_unlock(&lock);
}

void tli_live_dtype(const tl_Storage *s, tl_DType dtype) {
  if (!tli_live_recording()) return;
  tli_mutex_lock(&lock);
  Entry *place = table.size > 0 ? place_of(table.entries, table.size, s) : NULL;
  if (place && place->storage) place->dtype = (int8_t)dtype;
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
  tli_LiveGroup *groups = tli_memory_get(16, (table.used + 1) * sizeof *groups);
  for (size_t i = 0; groups && i < table.size; i++) {
    const Entry *e = &table.entries[i];
    if (e->storage && e->storage != GONE)
      groups[(*n)++] = (tli_LiveGroup){e->site, e->op, e->device, e->dtype, e->bytes, 1};
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
