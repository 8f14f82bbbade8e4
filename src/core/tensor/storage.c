/*
** storage.c - reference-counted bytes. Small CPU data follows the header in the same block; the
** header's size is a multiple of the alignment, so header and data are both aligned. Larger data,
** and data of other devices, is a separate block.
*/
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/device/capture.h"
#include "core/memory/device_memory.h"
#include "core/observe/profile.h"
#include "core/tensor/ledger.h"

_Static_assert(offsetof(tl_Storage, small) % TLI_ALIGN == 0, "inline data must be aligned");

/* A release function that does nothing, for memory that the caller keeps and frees itself. */
static void keep(void *data, void *context) {
  (void)data;
  (void)context;
}

static tl_Storage *header_new(tl_Device device, int64_t bytes, size_t behind) {
  tl_Storage *s = tli_alloc(sizeof *s + behind);
  if (s == NULL) return NULL;
  atomic_init(&s->refs, 1);
  atomic_init(&s->version, 0);
  atomic_init(&s->ledger, NULL);
  s->device = device;
  s->writer = NULL;
  s->bytes = bytes;
  s->data = s->small;
  s->release = NULL;
  s->context = NULL;
  return s;
}

/* Frees the header, and the data if it is in the header's block. Foreign memory may happen to begin
** where that block ends, so the address of the data alone does not tell; foreign memory also has a
** release function. */
static void header_free(tl_Storage *s) {
  bool inside = s->data == s->small && s->release == NULL;
  size_t behind = inside ? (size_t)s->bytes : 0;
  tli_free(s, sizeof *s + behind);
}

static tl_Storage *make(tl_Device device, int64_t bytes) {
  if (device.type == TL_CPU && bytes <= TLI_INLINE_BYTES) {
    tl_Storage *small = header_new(device, bytes, (size_t)bytes);
    if (tli_profiling() && small) tli_profile_memory(small, false);
    return small;
  }

  void *data = NULL;
  const tl_Backend *backend = NULL;
  if (device.type == TL_CPU) {
    /* size_t has only 32 bits on some machines, so a large `bytes` may not fit */
    size_t size = (size_t)bytes;
    data = tli_alloc((int64_t)size == bytes ? size : SIZE_MAX);
  } else {
    backend = tli_backend_open(device);
    if (backend && bytes > 0) data = tli_device_alloc(device, bytes);
  }
  if (data == NULL && (device.type == TL_CPU || backend == NULL || bytes > 0)) return NULL;

  tl_Storage *s = header_new(device, bytes, 0);
  if (s) {
    s->data = data;
    if (backend) s->capture = tli_capture_number(device);
  } else if (backend) {
    if (data) tli_device_free(device, data, bytes);
  } else {
    tli_free(data, (size_t)bytes);
  }
  if (tli_profiling() && s) tli_profile_memory(s, false);
  return s;
}

/* Fails if a ledger's limit leaves no room for further bytes. */
static bool within_limit(const tli_Ledger *l, int64_t bytes) {
  int64_t live = 0;
  for (int i = 0; i < TL_NDEVICETYPES; i++)
    live += atomic_load_explicit(&l->live[i], memory_order_relaxed);
  if (live <= l->most && bytes <= l->most - live) return true;
  return tli_fail(TL_EMEM,
                  "out of memory: asked for %" PRId64 " bytes, with %" PRId64
                  " in use by this Lua state, under its limit of %" PRId64 " (tl_set_limits)",
                  bytes, live, l->most);
}

tl_Storage *tli_storage_new(tl_Device device, int64_t bytes) {
  tli_Ledger *l = tli_ledger();
  if (l == NULL || (l->most == 0 && !l->clean) || device.type == TL_META)
    return make(device, bytes);
  if (l->most > 0 && !within_limit(l, bytes)) return NULL;
  tl_Storage *s = make(device, bytes);
  if (s == NULL) return NULL;
  if (l->clean && device.type == TL_CPU && bytes > 0) memset(s->data, 0, (size_t)bytes);
  /* a ledger with a limit also counts the temporary tensors of operators */
  if (l->most > 0) tli_storage_charge(s, l);
  return s;
}

tl_Storage *tli_storage_wrap(tl_Device device, void *data, int64_t bytes,
                             void (*release)(void *data, void *context), void *context) {
  tl_Storage *s = header_new(device, bytes, 0);
  if (s == NULL) return NULL;
  s->data = data;
  s->release = release ? release : keep;
  s->context = context;
  return s;
}

/* Returns the number of bytes that a ledger counts for a storage. Storages of the meta device use
** no memory. */
static int64_t held(const tl_Storage *s) { return s->device.type == TL_META ? 0 : s->bytes; }

static _Thread_local tli_Ledger *callers;

static void discharge(tl_Storage *s) {
  tli_Ledger *ledger = atomic_load_explicit(&s->ledger, memory_order_acquire);
  if (ledger == NULL) return;
  if (ledger == callers) ledger->young = ledger->young > held(s) ? ledger->young - held(s) : 0;
  atomic_fetch_sub_explicit(&ledger->live[s->device.type], held(s), memory_order_relaxed);
  tli_ledger_release(ledger);
}

static void storage_free(tl_Storage *s) {
  discharge(s);
  if (tli_profiling() && s->release == NULL) tli_profile_memory(s, true);
  if (s->release) {
    s->release(s->data, s->context);
  } else if (s->device.type != TL_CPU) {
    if (s->data) tli_device_free(s->device, s->data, s->bytes);
  } else if (s->data != s->small) {
    tli_free(s->data, (size_t)s->bytes);
  }
  header_free(s);
}

void tli_storage_release(tl_Storage *s) {
  if (s != NULL && tli_last_reference(&s->refs)) storage_free(s);
}

/* ---- ledgers ---- */

tli_Ledger *tli_ledger_new(void) {
  tli_Ledger *l = tli_alloc(sizeof *l);
  if (l == NULL) return NULL;
  atomic_init(&l->refs, 1);
  for (int type = 0; type < TL_NDEVICETYPES; type++) atomic_init(&l->live[type], 0);
  l->young = l->most = 0;
  l->clean = false;
  return l;
}

void tli_set_ledger(tli_Ledger *l) { callers = l; }

tli_Ledger *tli_ledger(void) { return callers; }

bool tli_ledger_fits(int64_t bytes) {
  return callers == NULL || callers->most == 0 || within_limit(callers, bytes);
}

bool tli_ledger_take(tli_Ledger **l, int64_t bytes) {
  *l = NULL;
  if (callers == NULL || callers->most == 0) return true;
  if (!within_limit(callers, bytes)) return false;
  *l = callers;
  atomic_fetch_add_explicit(&callers->refs, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&callers->live[TL_CPU], bytes, memory_order_relaxed);
  callers->young += bytes;
  return true;
}

void tli_ledger_give(tli_Ledger *l, int64_t bytes) {
  if (l == NULL) return;
  atomic_fetch_sub_explicit(&l->live[TL_CPU], bytes, memory_order_relaxed);
  tli_ledger_release(l);
}

void tli_ledger_release(tli_Ledger *l) {
  if (l != NULL && tli_last_reference(&l->refs)) tli_free(l, sizeof *l);
}

bool tli_storage_charge(tl_Storage *s, tli_Ledger *l) {
  tli_Ledger *none = NULL;
  if (atomic_load_explicit(&s->ledger, memory_order_relaxed) != NULL) return false;
  /* the ledger is charged before the storage refers to it, because a thread that frees the storage
  ** would otherwise subtract the bytes before they were added */
  atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&l->live[s->device.type], held(s), memory_order_relaxed);
  if (atomic_compare_exchange_strong(&s->ledger, &none, l)) {
    l->young += held(s);
    return true;
  }
  atomic_fetch_sub_explicit(&l->live[s->device.type], held(s), memory_order_relaxed);
  atomic_fetch_sub_explicit(&l->refs, 1, memory_order_relaxed);
  return false;
}

void tli_storage_recharge(tl_Storage *s, tli_Ledger *l) {
  if (atomic_load_explicit(&s->ledger, memory_order_acquire) == l) return;
  atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&l->live[s->device.type], held(s), memory_order_relaxed);
  l->young += held(s);
  tli_Ledger *before = atomic_exchange(&s->ledger, l);
  if (before == NULL) return;
  atomic_fetch_sub_explicit(&before->live[s->device.type], held(s), memory_order_relaxed);
  tli_ledger_release(before);
}
