/*
** profile.c - implements profile.h. profile_record.h has the data. The open spans of a thread are
** linked by `parent`.
**
** A guest is a thread that works for the session's thread, the host. It records into its own
** tli_Profile. When the guest leaves, its record is appended, under the invitation's lock, to the
** record `gathered`. When the session stops, the host appends `gathered` to its own record.
*/
#include "core/observe/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/backend.h"
#include "core/device/running.h"
#include "core/error.h"
#include "core/observe/history.h"
#include "core/observe/live_storages.h"
#include "core/observe/observer.h"
#include "core/observe/profile_record.h"
#include "core/platform/platform.h"

#define MOST_TEXT 4096 /* the largest number of bytes in a stack's text */
#define MOST_FRAMES 96 /* the largest number of frames that identify a stack */
/* for a storage of at least this many bytes the profiler always queries the size of the device's
** cache */
#define CACHED_LEAST 4096

const char *const tli_span_kinds[TLI_NSPANS + 1] = {"operator",  "backward", "user",      "module",
                                                    "collector", "data",     "optimizer", "step",
                                                    "kernel",    NULL};

atomic_int tli_profiles;

struct tli_Invitation {
  atomic_int refs;
  tli_Mutex lock;
  tli_Profile *gathered; /* the guests' data (owned, guarded); NULL after the session has ended */
};

static _Thread_local tli_Profile *mine; /* borrowed */
static _Atomic uint64_t next_serial = 1;

/* Returns the number of a name's text. Names are usually string constants, so a cache that finds
** names by their address avoids most look-ups. The cache also compares the texts, since another
** name may now have the same address. */
static int32_t name_of(tli_Profile *p, const char *name) {
  size_t slot = (uintptr_t)name / 4 & (TLI_NAME_CACHE - 1);
  if (p->cache[slot].name == name) {
    const tli_RecordText *t = tli_record_at(&p->texts, p->cache[slot].id);
    if (strcmp(t->text, name) == 0) return p->cache[slot].id;
  }
  int32_t id = tli_record_text(p, name, strlen(name));
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
      if (used + 1 + ndim > MOST_SHAPES)
        return tli_record_text(p, (char *)all, sizeof *all * (size_t)used);
      all[used++] = t ? ndim : -1;
      for (int d = 0; d < ndim; d++) all[used++] = t->sizes[d];
    }
  return tli_record_text(p, (char *)all, sizeof *all * (size_t)used);
}

/* Computes the key that identifies the current call stack, and returns the key's length. The key
** has the number of the operator's name and, for each frame, the number of the source's text, the
** running line, and the first line of the function. */
static int32_t frames_of(tli_Profile *p, int32_t *key) {
  tli_Frame frames[MOST_FRAMES];
  int (*call_frames)(tli_Frame *, int) = atomic_load(&tli_call_frames);
  const char *op = tli_operator();
  int32_t used = 0, n = call_frames ? call_frames(frames, MOST_FRAMES) : 0;
  key[used++] = op ? name_of(p, op) : -1;
  for (int32_t i = 0; i < n; i++) {
    key[used++] = name_of(p, frames[i].source);
    key[used++] = frames[i].line;
    key[used++] = frames[i].function;
  }
  return used;
}

/* Returns the number of the text of the thread's current call stack. The text is formatted only if
** the frames are new. */
static int32_t stack_of(tli_Profile *p) {
  int32_t key[1 + 3 * MOST_FRAMES];
  int32_t frames = tli_record_text(p, (char *)key, sizeof *key * (size_t)frames_of(p, key));
  if (frames < 0) return -1;
  tli_RecordText *known = tli_record_at(&p->texts, frames);
  if (known->in_words >= 0) return known->in_words;
  char text[MOST_TEXT];
  size_t (*stack)(char *, size_t) = atomic_load(&tli_read_call_stack);
  return known->in_words = tli_record_text(p, text, stack ? stack(text, sizeof text) : 0);
}

/* ---- devices ----------------------------------------------------------------------- */

static tl_Event *record_event(tl_Device device, tl_Stream *stream) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  tl_Event *event = api->event(device, TL_EVENT_TIMING);
  if (event == NULL || api->event_record(event, stream)) return event;
  api->event_free(event);
  return NULL;
}

/* Returns the device on which a span with these inputs works. The result is the CPU if no input is
** on a device with a clock. */
static tl_Device device_of(const tli_SpanInput *inputs, int n) {
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < inputs[i].n; k++)
      if (inputs[i].v[k] && tli_device(inputs[i].v[k]).type != TL_CPU &&
          tli_has_values(inputs[i].v[k]))
        return tli_device(inputs[i].v[k]);
  return (tl_Device){TL_CPU, 0};
}

static void watch_device(tli_Profile *p, tl_Device device);

static void begin_on_device(tli_Profile *p, int32_t event, tl_Device device) {
  tl_Stream *stream = tli_stream(device);
  const tl_DeviceApi *api = tli_backend(device)->device;
  /* captured work is recorded instead of run, so it has no duration */
  if (api->capture(stream) != 0) return;
  tl_Event **zero = &p->zero[device.type][device.index];
  if (*zero == NULL) {
    /* The stream has no pending work when the event is recorded, so the event's time is the host's
    ** current time. */
    if (!api->stream_sync(stream) || (*zero = record_event(device, stream)) == NULL) return;
    p->zero_at[device.type][device.index] = tli_now_ns() - p->begin;
    watch_device(p, device);
  }
  tli_DeviceSpan *s = tli_record_push(p, &p->devices);
  if (s == NULL) return;
  *s = (tli_DeviceSpan){event, device, stream, record_event(device, stream), NULL};
  /* until the session stops, device_time holds the index of the event's tli_DeviceSpan */
  ((tli_ProfileEvent *)tli_record_at(&p->events, event))->device_time = p->devices.n;
}

static void end_on_device(tli_Profile *p, tli_ProfileEvent *e) {
  if (e->device_time == 0) return;
  tli_DeviceSpan *s = tli_record_at(&p->devices, e->device_time - 1);
  e->device_time = 0;
  s->end = record_event(s->device, s->stream);
}

/* Reads the start and the duration of each span's work on a device. */
static bool read_devices(tli_Profile *p) {
  bool ok = true;
  for (int64_t i = 0; i < p->devices.n; i++) {
    tli_DeviceSpan *s = tli_record_at(&p->devices, i);
    const tl_DeviceApi *api = tli_backend(s->device)->device;
    tli_ProfileEvent *e = tli_record_at(&p->events, s->event);
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

static tli_ProfileEvent *event_at(const tli_Profile *p, int32_t i) {
  return tli_record_at(&p->events, i);
}

static tli_Span record_span(tli_SpanKind kind, const char *name, const tli_SpanInput *inputs,
                            int n) {
  tli_Profile *p = mine;
  if (p == NULL) return (tli_Span){.event = -1};
  int32_t id = name_of(p, name);
  tli_ProfileEvent *e = id >= 0 ? tli_record_push(p, &p->events) : NULL;
  if (e == NULL) {
    p->dropped++;
    return (tli_Span){.event = -1};
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
  return (tli_Span){.session = p->serial, .event = p->top};
}

tli_Span tli_span_open(tli_SpanKind kind, const char *name, const tli_SpanInput *inputs, int n) {
  tli_Span span = record_span(kind, name, inputs, n);
  span.observed = tli_observer_open(kind, name);
  return span;
}

/* Ends the innermost span. */
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
  outer->inner_flops += (float)e->flops + e->inner_flops;
}

void tli_span_close(tli_Span span, double flops) {
  tli_observer_close(span.observed);
  tli_Profile *p = mine;
  if (p == NULL || span.session != p->serial || !event_at(p, span.event)->open) return;
  int64_t now = tli_now_ns() - p->begin;
  tli_ProfileEvent *e = event_at(p, span.event);
  while (p->top != span.event) close_top(p, now);
  /* if `flops` is NaN, which FLOP formulas return for empty inputs, the comparison is false */
  if (flops > 1.001 * (double)e->inner_flops) {
    /* the formula includes the operators inside this one, which must not be counted twice */
    if (e->inner_flops > 0)
      for (int32_t i = span.event + 1; i < (int32_t)p->events.n; i++) event_at(p, i)->flops = 0;
    e->flops = flops;
    e->inner_flops = 0;
  }
  close_top(p, now);
}

bool tli_profile_here(void) { return mine != NULL; }

bool tli_span_flops(void) { return mine && mine->options.flops; }

void tli_span_node(uint64_t sequence) {
  if (mine && mine->top >= 0) event_at(mine, mine->top)->sequence = sequence;
}

static int64_t cached_bytes(tl_Device device) {
  if (device.type == TL_CPU) return tl_memory_cached();
  tl_MemoryStats s;
  if (!tli_backend(device)->device->memory_stats(device, &s)) return 0;
  return s.reserved_bytes[TL_POOL_ALL].current - s.allocated_bytes[TL_POOL_ALL].current;
}

/* Returns the number of bytes cached for a storage's device. Small storages rarely change that
** number, so for them it is queried only at every 64th event; otherwise the last known number is
** returned. */
static int64_t cached_on(tli_Profile *p, const tl_Storage *s) {
  int64_t *known = &p->cached[s->device.type][s->device.index];
  if (s->bytes >= CACHED_LEAST || p->memory.n % 64 == 1) *known = cached_bytes(s->device);
  return *known;
}

static void note_memory(tli_Profile *p, const tl_Storage *s, int64_t bytes,
                        tli_MemoryCategory category) {
  tli_ProfileMemory *m = tli_record_push(p, &p->memory);
  if (m == NULL) {
    p->dropped++;
    return;
  }
  *m = (tli_ProfileMemory){.time = tli_now_ns() - p->begin,
                           .storage = s,
                           .bytes = bytes,
                           .cached = cached_on(p, s),
                           .event = p->top,
                           .category = (uint8_t)category,
                           .device = s->device};
}

void tli_profile_memory(const tl_Storage *s, bool freed) {
  if (s->device.type == TL_META) return;
  tli_live_note(s, freed);
  if (!freed && s->bytes > 0) tli_count_memory(s->bytes);
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
  if (p && p->options.memory && t->storage->bytes > 0 && tli_has_values(t))
    note_memory(p, t->storage, t->storage->bytes, category);
}

/* ---- other threads ----------------------------------------------------------------- */

static tli_Invitation *invitation_new(const tli_ProfileOptions *options) {
  tli_Invitation *v = tli_memory_get(16, sizeof *v);
  tli_Profile *gathered = v ? tli_record_new(options, NULL) : NULL;
  if (gathered == NULL) {
    tli_record_put(v);
    return NULL;
  }
  atomic_init(&v->refs, 1);
  tli_mutex_init(&v->lock);
  v->gathered = gathered;
  return v;
}

void tli_invitation_release(tli_Invitation *v) {
  if (v == NULL || !tli_last_reference(&v->refs)) return;
  tli_profile_free(v->gathered);
  tli_mutex_destroy(&v->lock);
  tli_record_put(v);
}

/* Ends an invitation, and returns the guests' data (owned). Data that guests hand over later is
** dropped. */
static tli_Profile *invitation_end(tli_Invitation *v) {
  tli_mutex_lock(&v->lock);
  tli_Profile *gathered = v->gathered;
  v->gathered = NULL;
  tli_mutex_unlock(&v->lock);
  return gathered;
}

tli_Invitation *tli_profile_invite(void) {
  if (!tli_profiling() || mine == NULL) return NULL;
  atomic_fetch_add(&mine->invitation->refs, 1);
  return mine->invitation;
}

void tli_profile_join(tli_Invitation *v, const char *thread) {
  if (v == NULL || mine) return;
  tli_mutex_lock(&v->lock);
  bool open = v->gathered != NULL;
  tli_ProfileOptions options = {0};
  int64_t begin = 0;
  if (open) {
    options = v->gathered->options;
    begin = v->gathered->begin;
  }
  tli_mutex_unlock(&v->lock);
  options.devices = false; /* measuring devices would make the guest thread wait for its events */
  tli_Profile *p = open ? tli_record_new(&options, thread) : NULL;
  if (p == NULL) return;
  atomic_fetch_add(&v->refs, 1);
  p->invitation = v;
  p->guest = true;
  p->begin = begin;
  p->serial = atomic_fetch_add(&next_serial, 1);
  mine = p;
}

void tli_profile_leave(void) {
  tli_Profile *p = mine;
  if (p == NULL || !p->guest) return;
  mine = NULL;
  int64_t now = tli_now_ns() - p->begin;
  while (p->top >= 0) close_top(p, now);
  tli_Invitation *v = p->invitation;
  tli_mutex_lock(&v->lock);
  if (v->gathered) tli_record_append(v->gathered, p);
  tli_mutex_unlock(&v->lock);
  tli_profile_free(p);
}

void tli_profile_add(tli_Invitation *v, const char *thread, tli_SpanKind kind, const char *name,
                     int64_t begin, int64_t end) {
  if (v == NULL) return;
  tli_mutex_lock(&v->lock);
  tli_Profile *p = v->gathered;
  int32_t id = p ? tli_record_text(p, name, strlen(name)) : -1;
  int32_t number =
      id >= 0 ? tli_record_thread_of(p, tli_record_text(p, thread, strlen(thread))) : -1;
  tli_ProfileEvent *e = number >= 0 ? tli_record_push(p, &p->events) : NULL;
  bool kernel = kind == TLI_SPAN_KERNEL;
  if (e)
    *e = (tli_ProfileEvent){.begin = begin - p->begin,
                            .duration = kernel ? 0 : end - begin,
                            .parent = -1,
                            .name = id,
                            .shapes = -1,
                            .stack = -1,
                            .thread = (uint16_t)number,
                            .kind = (uint8_t)kind,
                            .device_begin = kernel ? begin - p->begin : -1,
                            .device_time = kernel ? end - begin : 0};
  else if (p)
    p->dropped++;
  tli_mutex_unlock(&v->lock);
}

/* ---- activities of devices ---------------------------------------------------------------- */

/* Guards the variables below. One session at a time receives the reports of the devices'
** activities. */
static tli_Mutex receiver_lock = TLI_MUTEX_INIT;
TLI_FORK_SAFE(receiver_lock)
/* the session that receives the devices' activities (owned reference, guarded); NULL if there is
** none */
static tli_Invitation *watcher;
/* the difference between the host's clock and that of each kind of device: tli_now_ns minus the
** device's time, in ns; guarded by the lock */
static int64_t clock_ahead[TL_NDEVICETYPES];

static void note_activity(const tl_Activity *a) {
  char stream[48];
  snprintf(stream, sizeof stream, "%s stream %lld", tli_device_str(a->device),
           (long long)a->stream_id);
  tli_mutex_lock(&receiver_lock);
  tli_Invitation *v = watcher;
  int64_t ahead = clock_ahead[a->device.type];
  if (v) atomic_fetch_add(&v->refs, 1);
  tli_mutex_unlock(&receiver_lock);
  tli_profile_add(v, stream, TLI_SPAN_KERNEL, a->name, a->begin + ahead, a->end + ahead);
  tli_invitation_release(v);
}

static void watch_device(tli_Profile *p, tl_Device device) {
  const tl_DeviceApi *api = tli_backend(device)->device;
  if (api->activities == NULL || p->watches[device.type] || p->invitation == NULL) return;
  tli_mutex_lock(&receiver_lock);
  bool free = watcher == NULL;
  if (free) {
    watcher = p->invitation;
    atomic_fetch_add(&watcher->refs, 1);
  }
  bool ours = watcher == p->invitation;
  tli_mutex_unlock(&receiver_lock);
  int64_t now = 0;
  if (!ours || !api->activities(note_activity, &now)) return;
  p->watches[device.type] = true;
  tli_mutex_lock(&receiver_lock);
  clock_ahead[device.type] = tli_now_ns() - now;
  tli_mutex_unlock(&receiver_lock);
}

static void watch_no_more(tli_Profile *p) {
  int64_t now;
  for (int type = 0; type < TL_NDEVICETYPES; type++)
    if (p->watches[type]) tli_backend((tl_Device){(int8_t)type, 0})->device->activities(NULL, &now);
  tli_mutex_lock(&receiver_lock);
  tli_Invitation *v = watcher == p->invitation ? watcher : NULL;
  if (v) watcher = NULL;
  tli_mutex_unlock(&receiver_lock);
  tli_invitation_release(v);
}

/* ---- sessions ---------------------------------------------------------------------- */

tli_Profile *tli_profile_start(const tli_ProfileOptions *options) {
  if (mine) return tli_fail_null(TL_EARG, "profile: a profile runs in this thread already");
  tli_Profile *p = tli_record_new(options, "main");
  if (p) p->invitation = invitation_new(options);
  if (p == NULL || p->invitation == NULL) {
    tli_profile_free(p);
    return tli_fail_null(TL_EMEM, "profile: out of memory");
  }
  p->serial = atomic_fetch_add(&next_serial, 1);
  p->began = tli_time_ns();
  p->begin = p->invitation->gathered->begin = tli_now_ns();
  p->active = true;
  mine = p;
  atomic_fetch_add(&tli_profiles, 1);
  return p;
}

/* A memory event and its original index, so that events with equal times keep their order. */
typedef struct Moment {
  tli_ProfileMemory event;
  int64_t at;
} Moment;

static int by_time(const void *a, const void *b) {
  const Moment *x = a, *y = b;
  if (x->event.time != y->event.time) return x->event.time < y->event.time ? -1 : 1;
  return x->at < y->at ? -1 : 1;
}

/* Sorts the memory events of several threads by time. If memory is exhausted, drops the events of
** the other threads, which begin at index `own`. */
static void sort_memory(tli_Profile *p, int64_t own) {
  int64_t n = p->memory.n;
  Moment *moments = tli_memory_get(16, (size_t)n * sizeof *moments);
  if (moments == NULL) {
    p->dropped += n - own;
    p->memory.n = own;
    return;
  }
  for (int64_t i = 0; i < n; i++)
    moments[i] = (Moment){*(const tli_ProfileMemory *)tli_record_at(&p->memory, i), i};
  qsort(moments, (size_t)n, sizeof *moments, by_time);
  for (int64_t i = 0; i < n; i++)
    *(tli_ProfileMemory *)tli_record_at(&p->memory, i) = moments[i].event;
  tli_record_put(moments);
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
  bool ok = read_devices(p);
  watch_no_more(p);
  tli_Profile *gathered = invitation_end(p->invitation);
  int64_t own = p->memory.n;
  tli_record_append(p, gathered);
  tli_profile_free(gathered);
  if (p->memory.n > own) sort_memory(p, own);
  return ok;
}

bool tli_profile_active(const tli_Profile *p) { return p->active; }

void tli_profile_free(tli_Profile *p) {
  /* as long as a thread records, the profile belongs to that thread */
  if (p == NULL || p->active) return;
  tli_record_clear(p);
  tli_invitation_release(p->invitation);
  tli_record_put(p);
}

int64_t tli_profile_duration(const tli_Profile *p) {
  return p->active ? tli_now_ns() - p->begin : p->end;
}
int64_t tli_profile_began(const tli_Profile *p) { return p->began; }
int64_t tli_profile_dropped(const tli_Profile *p) { return p->dropped; }
int64_t tli_profile_bytes(const tli_Profile *p) { return p->bytes; }
int64_t tli_profile_count(const tli_Profile *p) { return p->events.n; }
int64_t tli_profile_memory_count(const tli_Profile *p) { return p->memory.n; }

int32_t tli_profile_threads(const tli_Profile *p) { return (int32_t)p->threads.n; }
int32_t tli_profile_thread(const tli_Profile *p, int32_t i) { return tli_record_thread(p, i); }

const tli_ProfileEvent *tli_profile_event(const tli_Profile *p, int64_t i) {
  return tli_record_at(&p->events, i);
}

const tli_ProfileMemory *tli_profile_memory_event(const tli_Profile *p, int64_t i) {
  return tli_record_at(&p->memory, i);
}

const char *tli_profile_text(const tli_Profile *p, int32_t i, size_t *size) {
  const tli_RecordText *t = tli_record_at(&p->texts, i);
  *size = t->size;
  return t->text;
}
