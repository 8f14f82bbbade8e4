/*
** capture.c - implements capture.h. Each generator that a capture draws from has two words on the
** device, {seed, block}. The words are written before each replay, and the generator then advances
** by the number of blocks that the graph draws. These words are allocated before the capture. If
** they were allocated in the capture, earlier kernels of the same graph might use the same memory,
** and each replay would overwrite the words.
**
** A graph contains the addresses that its kernels read and write. Memory allocated in the capture
** is in the graph's pool, which lives as long as the graph; any other storage is kept alive by a
** reference.
*/
#include "core/device/capture.h"

#include <stdio.h>

#include "core/device/pending.h"
#include "core/device/running.h"
#include "core/device/settings.h"
#include "core/memory/alloc.h"
#include "core/device/backend.h"
#include "core/memory/pinned.h"
#include "core/platform/platform.h"
#include "core/tensor/tensor.h"
#include "core/device/transfer.h"

enum { MOST_GENERATORS = 8 }; /* the largest number of generators in one graph */

/* A generator that a graph draws from. */
typedef struct Draws {
  struct Draws *next;
  tli_Generator *generator; /* owned */
  tl_Tensor *state; /* the generator's words on the device (borrowed from the capture's states) */
  uint64_t blocks;  /* number of blocks that one replay draws */
} Draws;

/* A storage that a graph keeps alive. */
typedef struct Kept {
  const void *key;
  tl_Storage *storage; /* the storage (owned reference), which is the key of the map */
} Kept;

#define MAP kept
#define MAP_ENTRY Kept
#define MAP_GET(n) tli_alloc(n)
#define MAP_PUT(p, n) tli_free(p, n)
#include "core/memory/address_map.h"

struct tli_Capture {
  /* the next capture in the list of open captures (borrowed); guarded by the lock */
  tli_Capture *next;
  tl_Device device;
  uint64_t number;   /* number of the capture while it is open; otherwise 0 */
  uint64_t pool;     /* the graph's memory pool; 0 if no capture was begun */
  tl_Stream *stream; /* the stream on which the capture began (borrowed) */
  /* the stream of the last replay or, before the first replay, of the capture (borrowed) */
  tl_Stream *last;
  tl_Graph *graph;                    /* the captured graph (owned); NULL if nothing was captured */
  Draws *draws;                       /* owned */
  tl_Tensor *states[MOST_GENERATORS]; /* two words on the device for each generator (owned) */
  kept_Map kept;                      /* guarded */
  bool lost; /* whether memory was exhausted, so that a storage could not be kept alive */
};

static tli_Mutex lock = TLI_MUTEX_INIT;
TLI_FORK_SAFE(lock)
static tli_Capture *open_captures; /* list of the open captures (borrowed); guarded by the lock */
/* number of open captures; while it is 0, no call searches the list */
atomic_int tli_captures_open;

static const tl_DeviceApi *api_of(tl_Device device) { return tli_backend(device)->device; }

/* ---- open captures ------------------------------------------------------------------- */

static void link_open(tli_Capture *c) {
  tli_mutex_lock(&lock);
  c->next = open_captures;
  open_captures = c;
  atomic_fetch_add(&tli_captures_open, 1);
  tli_watch_pending(c->device.type, true);
  tli_mutex_unlock(&lock);
}

static void unlink_open(tli_Capture *c) {
  tli_mutex_lock(&lock);
  for (tli_Capture **at = &open_captures; *at; at = &(*at)->next) {
    if (*at != c) continue;
    *at = c->next;
    atomic_fetch_sub(&tli_captures_open, 1);
    break;
  }
  bool left = false;
  for (const tli_Capture *at = open_captures; at; at = at->next)
    left = left || at->device.type == c->device.type;
  tli_watch_pending(c->device.type, left);
  tli_mutex_unlock(&lock);
}

uint64_t tli_capture_number(tl_Device device) {
  if (atomic_load_explicit(&tli_captures_open, memory_order_relaxed) == 0 || device.type == TL_CPU)
    return 0;
  return api_of(device)->capture(tli_stream(device));
}

/* Returns the open capture with this number on this kind of device, or NULL. The caller holds the
** lock. */
static tli_Capture *find_open(int8_t type, uint64_t number) {
  tli_Capture *c = open_captures;
  while (c && !(c->number == number && c->device.type == type)) c = c->next;
  return c;
}

tli_Capture *tli_capture_of(tl_Device device) {
  uint64_t number = tli_capture_number(device);
  if (number == 0) return NULL;
  tli_mutex_lock(&lock);
  tli_Capture *c = find_open(device.type, number);
  tli_mutex_unlock(&lock);
  return c;
}

void (*_Atomic tli_warn)(const char *text);

/* Returns whether the host may wait for a device. Warns or fails if TL_SYNC_DEBUG asks for it. */
static bool allows_waits(tl_Device device) {
  int64_t mode = tli_setting(TL_SYNC_DEBUG);
  if (mode == 1) {
    char text[64];
    snprintf(text, sizeof text, "the host waits for %s", tli_device_str(device));
    tli_warning(text);
  }
  return mode < 2 || tli_fail(TL_EDEVICE,
                              "the host would have to wait for %s here, which "
                              "set_sync_debug_mode has made an error",
                              tli_device_str(device));
}

bool tli_may_wait(tl_Device device) {
  if (tli_capture_number(device) == 0) return allows_waits(device);
  return tli_fail(TL_EDEVICE,
                  "the host would have to wait for %s here: not possible while a graph is captured",
                  tli_device_str(device));
}

/* ---- storages that a graph keeps ------------------------------------------------------ */

/* Keeps a storage alive as long as the graph. The caller holds the lock. */
static void keep(tli_Capture *c, tl_Storage *s) {
  Kept *kept = kept_add(&c->kept, s);
  if (kept == NULL)
    c->lost = true;
  else if (kept->storage == NULL)
    kept->storage = tli_storage_retain(s);
}

static void keep_for(tl_Device device, tl_Storage *s) {
  uint64_t number = tli_capture_number(device);
  if (number == 0 || (s->release == NULL && s->device.type != TL_CPU && s->capture == number))
    return;
  tli_mutex_lock(&lock);
  tli_Capture *c = find_open(device.type, number);
  if (c) keep(c, s);
  tli_mutex_unlock(&lock);
}

/* Keeps a storage in device memory alive as long as the graph that is being captured. Skips a
** storage with 0 references, because such a storage is a local variable of the caller that stands
** for a part of another storage. */
void tli_capture_keep(tl_Storage *s) {
  if (s->device.type == TL_CPU || atomic_load_explicit(&s->refs, memory_order_relaxed) == 0) return;
  keep_for(s->device, s);
}

void tli_capture_keep_host(tl_Storage *s, tl_Device device) { keep_for(device, s); }

/* Releases a storage in a way that keeps its memory until the last replay has finished. */
static void let_go(tli_Capture *c, tl_Storage *s) {
  if (s->device.type == TL_CPU)
    (void)!tli_pinned_used(s, c->device, c->last);
  else if (s->data && s->release == NULL)
    (void)!api_of(s->device)->record_stream(s->device, s->data, c->last);
  tli_storage_release(s);
}

static void drop_kept(tli_Capture *c) {
  for (size_t i = 0; i < c->kept.size; i++)
    if (c->kept.places[i].key) let_go(c, c->kept.places[i].storage);
  kept_clear(&c->kept);
}

/* ---- graphs ------------------------------------------------------------------------ */

tli_Capture *tli_capture_new(void) {
  tli_Capture *c = tli_alloc(sizeof *c);
  if (c) *c = (tli_Capture){0};
  return c;
}

static void drop_draws(tli_Capture *c) {
  while (c->draws) {
    Draws *d = c->draws;
    c->draws = d->next;
    tli_generator_release(d->generator);
    tli_free(d, sizeof *d);
  }
}

/* Releases the state words in a way that keeps their memory until the last replay has finished. */
static void drop_states(tli_Capture *c) {
  for (int i = 0; i < MOST_GENERATORS; i++) {
    tl_Tensor *state = c->states[i];
    if (state && c->last)
      (void)!api_of(c->device)->record_stream(c->device, tli_data(state), c->last);
    tli_release(state);
    c->states[i] = NULL;
  }
}

static bool make_states(tli_Capture *c) {
  for (int i = 0; i < MOST_GENERATORS; i++)
    if ((c->states[i] = tli_empty(TL_I64, c->device, 1, (int64_t[]){2})) == NULL) return false;
  return true;
}

void tli_capture_reset(tli_Capture *c) {
  if (c->number) {
    unlink_open(c);
    c->graph = api_of(c->device)->capture_end(c->stream);
  }
  drop_draws(c);
  drop_states(c);
  drop_kept(c);
  if (c->graph) api_of(c->device)->graph_free(c->graph);
  *c = (tli_Capture){0};
}

void tli_capture_free(tli_Capture *c) {
  if (c == NULL) return;
  tli_capture_reset(c);
  tli_free(c, sizeof *c);
}

static _Atomic uint64_t last_pool;

uint64_t tli_capture_new_pool(void) { return atomic_fetch_add(&last_pool, 1) + 1; }

uint64_t tli_capture_last_pool(void) { return atomic_load(&last_pool); }

uint64_t tli_capture_pool(const tli_Capture *c) { return c->pool; }

bool tli_capture_open(const tli_Capture *c) { return c->number != 0; }

bool tli_capture_begin(tli_Capture *c, tl_Device device, uint64_t pool, tl_CaptureMode mode) {
  tl_Stream *stream = tli_stream(device);
  if (c->graph || c->number)
    return tli_fail(TL_EDEVICE, "this graph has been captured already; use another or reset it");
  if (stream == api_of(device)->default_stream(device))
    return tli_fail(TL_EDEVICE, "a graph is captured on a stream other than the default one: make "
                                "another current first");
  if (pool == 0) pool = tli_capture_new_pool();
  c->device = device;
  c->stream = c->last = stream;
  if (!make_states(c) || !api_of(device)->capture_begin(stream, pool, mode)) {
    drop_states(c);
    *c = (tli_Capture){0};
    return false;
  }
  c->pool = pool;
  c->number = api_of(device)->capture(stream);
  link_open(c);
  return true;
}

bool tli_capture_end(tli_Capture *c) {
  if (c->number == 0) return tli_fail(TL_EDEVICE, "no capture was begun");
  if (tli_stream(c->device) != c->stream)
    return tli_fail(TL_EDEVICE, "a capture ends on the stream that it was begun on: make that one "
                                "current first");
  tli_collect_pending(c->device, c->stream);
  unlink_open(c);
  c->number = 0;
  c->graph = api_of(c->device)->capture_end(c->stream);
  bool lost = c->graph && c->lost;
  if (c->graph == NULL || lost) tli_capture_reset(c);
  if (lost) return tli_fail(TL_EMEM, "out of memory for the list of the graph's memory");
  return c->graph != NULL;
}

/* ---- random numbers ---------------------------------------------------------------- */

static Draws *draws_of(tli_Capture *c, tli_Generator *g) {
  Draws *d = c->draws;
  while (d && d->generator != g) d = d->next;
  if (d) return d;
  int n = 0;
  for (d = c->draws; d; d = d->next) n++;
  if (n == MOST_GENERATORS)
    return tli_fail_null(TL_EARG, "a graph draws from at most %d generators", MOST_GENERATORS);
  TL_TRY_NULL(d = tli_alloc(sizeof *d));
  *d = (Draws){c->draws, tli_generator_retain(g), c->states[n], 0};
  return c->draws = d;
}

bool tli_capture_draw(tli_Capture *c, tli_Generator *g, uint64_t blocks, tli_Stretch *out) {
  Draws *d = draws_of(c, g);
  if (d == NULL) return false;
  *out = (tli_Stretch){0, d->blocks, d->state};
  d->blocks += blocks;
  return true;
}

static bool write_states(const tli_Capture *c) {
  for (const Draws *d = c->draws; d; d = d->next) {
    uint64_t words[2] = {d->generator->seed, d->generator->offset};
    TL_TRY(tli_move_bytes(c->device, tli_data(d->state), TLI_CPU, words, sizeof words, false));
  }
  return true;
}

bool tli_capture_replay(tli_Capture *c) {
  if (c->graph == NULL)
    return tli_fail(TL_EDEVICE,
                    c->number ? "the capture has not been ended" : "nothing was captured");
  if (tli_capture_number(c->device))
    return tli_fail(TL_EDEVICE, "not possible while a graph is captured");
  tl_Stream *stream = tli_stream(c->device);
  if (c->last) TL_TRY(tli_stream_follow(c->device, stream, c->last));
  TL_TRY(write_states(c) && api_of(c->device)->graph_launch(c->graph, stream));
  c->last = stream;
  for (Draws *d = c->draws; d; d = d->next) d->generator->offset += d->blocks;
  return true;
}
