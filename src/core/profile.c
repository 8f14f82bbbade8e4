/*
** profile.c - see profile.h. Events lie in chunks that never move; texts (names, shapes,
** stacks) are kept once for each content, and events have their numbers. The open spans of
** a thread are a chain by `parent`.
*/
#include "core/profile.h"

#include <string.h>

#include "core/backend.h"
#include "core/error.h"
#include "core/history.h"
#include "core/live.h"
#include "core/platform.h"

#define CHUNK 8192     /* entries */
#define MOST_TEXT 4096 /* bytes of a stack */
#define CACHE 1024     /* names by address; a power of two */

const char *const tli_span_kinds[TLI_NSPANS + 1] = {
    "operator", "backward", "user", "module", "collector", "data", "optimizer", "step", NULL};

atomic_int tli_profiles;

/* A list that grows by chunks. */
typedef struct List {
  size_t item;
  int64_t n;
  char **chunks; /* owned, each CHUNK items */
  int64_t nchunks, room;
} List;

typedef struct Text {
  uint64_t hash;
  size_t size;
  char *text; /* owned, ended by '\0' */
} Text;

/* A span's work on a device, between two of its events. */
typedef struct DeviceSpan {
  int32_t event;
  tl_Device device;
  tl_Stream *stream;
  tl_Event *begin, *end; /* owned; NULL */
} DeviceSpan;

struct tli_Profile {
  tli_ProfileOptions options;
  uint64_t serial;
  bool active;
  int32_t top;   /* the innermost open event; -1: none */
  int64_t begin; /* tli_now_ns */
  int64_t began, end, dropped, bytes;
  List events, memory, texts, devices;
  int32_t *places; /* owned: texts by hash, open addressing; -1: free */
  int64_t nplaces;
  tl_Event *zero[TL_NDEVICETYPES][TL_MAX_DEVICES]; /* owned; when the session began there */
  int64_t zero_at[TL_NDEVICETYPES][TL_MAX_DEVICES];
  struct {
    const char *name;
    int32_t id;
  } cache[CACHE];
};

static _Thread_local tli_Profile *mine; /* borrowed */
static _Atomic uint64_t next_serial = 1;

/* ---- memory of its own ------------------------------------------------------------- */

static void *get(tli_Profile *p, size_t bytes) {
  void *block = tli_memory_get(16, bytes);
  if (block) p->bytes += (int64_t)bytes;
  return block;
}

static void put(void *block) {
  if (block) tli_memory_put(block);
}

static void *at(const List *l, int64_t i) {
  return l->chunks[i / CHUNK] + (size_t)(i % CHUNK) * l->item;
}

static bool grow_chunks(tli_Profile *p, List *l) {
  int64_t room = l->room ? 2 * l->room : 64;
  char **chunks = get(p, (size_t)room * sizeof *chunks);
  TL_TRY(chunks);
  if (l->nchunks) memcpy(chunks, l->chunks, (size_t)l->nchunks * sizeof *chunks);
  put(l->chunks);
  l->chunks = chunks;
  l->room = room;
  return true;
}

/* Room for one more; NULL if there is none. */
static void *push(tli_Profile *p, List *l) {
  if (l->n == INT32_MAX) return NULL;
  if (l->n == l->nchunks * CHUNK) {
    if (l->nchunks == l->room) TL_TRY_NULL(grow_chunks(p, l));
    char *chunk = get(p, CHUNK * l->item);
    TL_TRY_NULL(chunk);
    l->chunks[l->nchunks++] = chunk;
  }
  return at(l, l->n++);
}

static void list_free(List *l) {
  for (int64_t i = 0; i < l->nchunks; i++) put(l->chunks[i]);
  put(l->chunks);
  *l = (List){.item = l->item};
}

/* ---- texts ------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return hash ^ hash >> 29;
}

static int32_t *place_of(const tli_Profile *p, uint64_t hash, const char *text, size_t size) {
  for (uint64_t i = hash;; i++) {
    int32_t *place = &p->places[i & (uint64_t)(p->nplaces - 1)];
    if (*place < 0) return place;
    const Text *t = at(&p->texts, *place);
    if (t->hash == hash && t->size == size && memcmp(t->text, text, size) == 0) return place;
  }
}

static bool grow_places(tli_Profile *p) {
  if (2 * (p->texts.n + 1) <= p->nplaces) return true;
  int64_t n = p->nplaces ? 2 * p->nplaces : 512;
  int32_t *old = p->places, *places = get(p, (size_t)n * sizeof *places);
  TL_TRY(places);
  memset(places, -1, (size_t)n * sizeof *places);
  p->places = places;
  p->nplaces = n;
  for (int64_t i = 0; i < p->texts.n; i++) {
    const Text *t = at(&p->texts, i);
    *place_of(p, t->hash, t->text, t->size) = (int32_t)i;
  }
  put(old);
  return true;
}

/* The number of a text; -1 where there is no memory. */
static int32_t intern(tli_Profile *p, const char *text, size_t size) {
  if (!grow_places(p)) return -1;
  uint64_t hash = hash_of(text, size);
  int32_t *place = place_of(p, hash, text, size);
  if (*place >= 0) return *place;
  char *copy = get(p, size + 1);
  Text *t = copy ? push(p, &p->texts) : NULL;
  if (t == NULL) {
    put(copy);
    return -1;
  }
  memcpy(copy, text, size);
  copy[size] = '\0';
  *t = (Text){hash, size, copy};
  return *place = (int32_t)(p->texts.n - 1);
}

/* The same for a name, which is mostly a constant: the text is compared, since another one
** may lie at the address by now. */
static int32_t name_of(tli_Profile *p, const char *name) {
  size_t slot = (uintptr_t)name / 4 & (CACHE - 1);
  if (p->cache[slot].name == name) {
    const Text *t = at(&p->texts, p->cache[slot].id);
    if (strcmp(t->text, name) == 0) return p->cache[slot].id;
  }
  int32_t id = intern(p, name, strlen(name));
  if (id < 0) return id;
  p->cache[slot].name = name;
  p->cache[slot].id = id;
  return id;
}

#define MOST_SHAPES 512

static int32_t shapes_of(tli_Profile *p, const tli_SpanInput *inputs, int n) {
  int64_t all[MOST_SHAPES];
  int used = 0;
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < inputs[i].n; k++) {
      const tl_Tensor *t = inputs[i].v[k];
      int ndim = t ? t->ndim : 0;
      if (used + 1 + ndim > MOST_SHAPES) return intern(p, (char *)all, sizeof *all * (size_t)used);
      all[used++] = t ? ndim : -1;
      for (int d = 0; d < ndim; d++) all[used++] = t->sizes[d];
    }
  return intern(p, (char *)all, sizeof *all * (size_t)used);
}

static int32_t stack_of(tli_Profile *p) {
  char text[MOST_TEXT];
  size_t (*stack)(char *, size_t) = atomic_load(&tli_call_stack);
  return intern(p, text, stack ? stack(text, sizeof text) : 0);
}

/* ---- devices ----------------------------------------------------------------------- */

static tl_Event *record_event(tl_Device device, tl_Stream *stream) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  tl_Event *event = api->event(device, TL_EVENT_TIMING);
  if (event && !api->event_record(event, stream)) {
    api->event_free(event);
    event = NULL;
  }
  return event;
}

/* The device where a span with these inputs works; the CPU: none that has a clock. */
static tl_Device device_of(const tli_SpanInput *inputs, int n) {
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < inputs[i].n; k++)
      if (inputs[i].v[k] && tli_device(inputs[i].v[k]).type != TL_CPU)
        return tli_device(inputs[i].v[k]);
  return (tl_Device){TL_CPU, 0};
}

static void begin_on_device(tli_Profile *p, int32_t event, tl_Device device) {
  tl_Stream *stream = tli_stream(device);
  const tl_DeviceApi *api = tli_backend(device)->device;
  if (api->capture(stream) != 0) return; /* recorded, not run */
  tl_Event **zero = &p->zero[device.type][device.index];
  if (*zero == NULL) {
    /* Nothing is in front of it, so it is when the host says. */
    if (!api->stream_sync(stream) || (*zero = record_event(device, stream)) == NULL) return;
    p->zero_at[device.type][device.index] = tli_now_ns() - p->begin;
  }
  DeviceSpan *s = push(p, &p->devices);
  if (s == NULL) return;
  *s = (DeviceSpan){event, device, stream, record_event(device, stream), NULL};
  ((tli_ProfileEvent *)at(&p->events, event))->device_time = p->devices.n; /* until it ends */
}

static void end_on_device(tli_Profile *p, tli_ProfileEvent *e) {
  if (e->device_time == 0) return;
  DeviceSpan *s = at(&p->devices, e->device_time - 1);
  e->device_time = 0;
  s->end = record_event(s->device, s->stream);
}

/* When each span's work ran. */
static bool read_devices(tli_Profile *p) {
  bool ok = true;
  for (int64_t i = 0; i < p->devices.n; i++) {
    DeviceSpan *s = at(&p->devices, i);
    const tl_DeviceApi *api = tli_backend(s->device)->device;
    tli_ProfileEvent *e = at(&p->events, s->event);
    tl_Event *zero = p->zero[s->device.type][s->device.index];
    double since = 0, took = 0;
    if (ok && s->begin && s->end) {
      ok = api->event_sync(s->end) && api->event_elapsed(zero, s->begin, &since) &&
           api->event_elapsed(s->begin, s->end, &took);
      if (ok) {
        e->device_begin = p->zero_at[s->device.type][s->device.index] + (int64_t)(since * 1e6);
        e->device_time = (int64_t)(took * 1e6);
      }
    }
    if (s->begin) api->event_free(s->begin);
    if (s->end) api->event_free(s->end);
    s->begin = s->end = NULL;
  }
  for (int type = 0; type < TL_NDEVICETYPES; type++)
    for (int i = 0; i < TL_MAX_DEVICES; i++)
      if (p->zero[type][i]) {
        tli_backend((tl_Device){(int8_t)type, (int8_t)i})->device->event_free(p->zero[type][i]);
        p->zero[type][i] = NULL;
      }
  return ok;
}

/* ---- spans ------------------------------------------------------------------------- */

static tli_ProfileEvent *event_at(const tli_Profile *p, int32_t i) { return at(&p->events, i); }

tli_Span tli_span_open(tli_SpanKind kind, const char *name, const tli_SpanInput *inputs, int n) {
  tli_Profile *p = mine;
  if (p == NULL) return (tli_Span){0, -1};
  int32_t id = name_of(p, name);
  tli_ProfileEvent *e = id >= 0 ? push(p, &p->events) : NULL;
  if (e == NULL) {
    p->dropped++;
    return (tli_Span){0, -1};
  }
  *e = (tli_ProfileEvent){.parent = p->top,
                          .name = id,
                          .shapes = -1,
                          .stack = -1,
                          .kind = (uint8_t)kind,
                          .device_begin = -1,
                          .open = true};
  if (p->options.shapes && n > 0) e->shapes = shapes_of(p, inputs, n);
  if (p->options.stacks) e->stack = stack_of(p);
  p->top = (int32_t)(p->events.n - 1);
  tl_Device device = p->options.devices ? device_of(inputs, n) : (tl_Device){TL_CPU, 0};
  if (device.type != TL_CPU) begin_on_device(p, p->top, device);
  e->begin = tli_now_ns() - p->begin;
  return (tli_Span){p->serial, p->top};
}

/* Ends the innermost one. */
static void close_top(tli_Profile *p, int64_t now) {
  tli_ProfileEvent *e = event_at(p, p->top);
  e->duration = now - e->begin;
  e->open = false;
  end_on_device(p, e);
  p->top = e->parent;
  if (p->top < 0) return;
  tli_ProfileEvent *outer = event_at(p, p->top);
  outer->inside += e->duration;
  outer->bytes += e->bytes;
}

void tli_span_close(tli_Span span, double flops) {
  tli_Profile *p = mine;
  if (p == NULL || span.session != p->serial || !event_at(p, span.event)->open) return;
  int64_t now = tli_now_ns() - p->begin;
  event_at(p, span.event)->flops = flops;
  while (event_at(p, span.event)->open) close_top(p, now);
}

bool tli_profile_here(void) { return mine != NULL; }

bool tli_span_flops(void) { return mine && mine->options.flops; }

void tli_span_node(uint64_t sequence) {
  if (mine && mine->top >= 0) event_at(mine, mine->top)->sequence = sequence;
}

static void note_memory(tli_Profile *p, const tl_Storage *s, int64_t bytes,
                        tli_MemoryCategory category) {
  tli_ProfileMemory *m = push(p, &p->memory);
  if (m == NULL) {
    p->dropped++;
    return;
  }
  *m = (tli_ProfileMemory){tli_now_ns() - p->begin, s, bytes, p->top, (uint8_t)category, s->device};
}

void tli_profile_memory(const tl_Storage *s, bool freed) {
  tli_live_note(s, freed);
  tli_Profile *p = mine;
  if (p == NULL || !p->options.memory || s->bytes == 0) return;
  int64_t bytes = freed ? -s->bytes : s->bytes;
  if (p->top >= 0) {
    event_at(p, p->top)->bytes += bytes;
    event_at(p, p->top)->own_bytes += bytes;
  }
  note_memory(p, s, bytes, TLI_MEMORY_UNKNOWN);
}

void tli_profile_mark(const tl_Tensor *t, tli_MemoryCategory category) {
  tli_Profile *p = mine;
  if (p && p->options.memory && t->storage->bytes > 0)
    note_memory(p, t->storage, t->storage->bytes, category);
}

/* ---- sessions ---------------------------------------------------------------------- */

tli_Profile *tli_profile_start(const tli_ProfileOptions *options) {
  if (mine) return tli_fail_null(TL_EARG, "profile: there is one in this thread already");
  tli_Profile *p = tli_memory_get(16, sizeof *p);
  if (p == NULL) return tli_fail_null(TL_EMEM, "profile: out of memory");
  memset(p, 0, sizeof *p);
  *p = (tli_Profile){.options = *options, .top = -1, .active = true, .bytes = sizeof *p};
  p->events.item = sizeof(tli_ProfileEvent);
  p->memory.item = sizeof(tli_ProfileMemory);
  p->texts.item = sizeof(Text);
  p->devices.item = sizeof(DeviceSpan);
  p->serial = atomic_fetch_add(&next_serial, 1);
  p->began = tli_time_ns();
  p->begin = tli_now_ns();
  mine = p;
  atomic_fetch_add(&tli_profiles, 1);
  return p;
}

bool tli_profile_stop(tli_Profile *p) {
  if (!p->active) return true;
  if (mine != p)
    return tli_fail(TL_EARG, "profile: it can only be stopped in the thread that has started it");
  p->end = tli_now_ns() - p->begin;
  while (p->top >= 0) close_top(p, p->end);
  p->active = false;
  mine = NULL;
  atomic_fetch_sub(&tli_profiles, 1);
  return read_devices(p);
}

bool tli_profile_active(const tli_Profile *p) { return p->active; }

void tli_profile_free(tli_Profile *p) {
  if (p == NULL || p->active) return; /* of another thread, which still records */
  for (int64_t i = 0; i < p->texts.n; i++) put(((Text *)at(&p->texts, i))->text);
  list_free(&p->events);
  list_free(&p->memory);
  list_free(&p->texts);
  list_free(&p->devices);
  put(p->places);
  put(p);
}

int64_t tli_profile_duration(const tli_Profile *p) {
  return p->active ? tli_now_ns() - p->begin : p->end;
}
int64_t tli_profile_began(const tli_Profile *p) { return p->began; }
int64_t tli_profile_dropped(const tli_Profile *p) { return p->dropped; }
int64_t tli_profile_bytes(const tli_Profile *p) { return p->bytes; }
int64_t tli_profile_count(const tli_Profile *p) { return p->events.n; }
int64_t tli_profile_memory_count(const tli_Profile *p) { return p->memory.n; }

const tli_ProfileEvent *tli_profile_event(const tli_Profile *p, int64_t i) {
  return at(&p->events, i);
}

const tli_ProfileMemory *tli_profile_memory_event(const tli_Profile *p, int64_t i) {
  return at(&p->memory, i);
}

const char *tli_profile_text(const tli_Profile *p, int32_t i, size_t *size) {
  const Text *t = at(&p->texts, i);
  *size = t->size;
  return t->text;
}
