/*
** history.c - implements history.h. Events are in a ring buffer, which grows up to its limit. Each
** distinct call stack is stored once. A map from the addresses of live blocks gives the stack that
** allocated each block. If memory is exhausted, events are not recorded, and callers see no
** failure.
*/
#include "core/observe/history.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/error.h"
#include "core/kernel/hash.h"
#include "core/platform/platform.h"
#include "core/tensor/tensor.h"

#define NBUCKETS 1024  /* number of buckets in the table of stacks */
#define MOST_TEXT 4096 /* the largest number of bytes in a stack's text */

/* An entry of the map of live blocks: the call stack that allocated a block. */
typedef struct Owner {
  const void *key;  /* the block's address */
  tli_Stack *stack; /* owned */
} Owner;

#define MAP owners
#define MAP_ENTRY Owner
#define MAP_GET(n) tli_alloc(n)
#define MAP_PUT(p, n) tli_free(p, n)
#include "core/memory/address_map.h"

typedef struct Record {
  tli_Recording how;
  tli_MemoryEvent *events; /* ring buffer of events (owned) */
  int64_t room, n, first;
  /* table of distinct stacks; the table owns one reference to each stack */
  tli_Stack *stacks[NBUCKETS];
  owners_Map owners;
} Record;

size_t (*_Atomic tli_read_call_stack)(char *text, size_t size);
int (*_Atomic tli_call_frames)(tli_Frame *frames, int most);

static tli_Mutex lock = TLI_MUTEX_INIT;
TLI_FORK_SAFE(lock)
static Record records[TL_NDEVICETYPES]; /* guarded */
static atomic_bool recording[TL_NDEVICETYPES];

/* ---- stacks ------------------------------------------------------------------------ */

void tli_stack_release(tli_Stack *s) {
  if (s && tli_last_reference(&s->refs)) tli_free(s, sizeof *s + s->size + 1);
}

static tli_Stack *stack_retain(tli_Stack *s) {
  if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

/* Returns a new reference to the stack with the given text, which is stored only once; NULL if
** memory is exhausted. */
static tli_Stack *intern(Record *r, const char *text, size_t size) {
  uint64_t hash = tli_hash(TLI_HASH_SEED, text, size);
  tli_Stack **bucket = &r->stacks[hash % NBUCKETS];
  for (tli_Stack *s = *bucket; s; s = s->next)
    if (s->hash == hash && s->size == size && memcmp(s->text, text, size) == 0)
      return stack_retain(s);
  tli_Stack *s = tli_alloc(sizeof *s + size + 1);
  if (s == NULL) return NULL;
  atomic_init(&s->refs, 2);
  s->hash = hash;
  s->next = *bucket;
  s->size = size;
  memcpy(s->text, text, size);
  s->text[size] = '\0';
  return *bucket = s;
}

static bool wants_stack(const Record *r, tl_MemoryAction action) {
  bool alloc = action == TL_MEMORY_ALLOC || action == TL_MEMORY_OOM;
  return alloc ? r->how.alloc_stacks : r->how.other_stacks;
}

/* ---- allocated blocks ------------------------------------------------------------------ */

static void forget_owner(Record *r, const void *data) {
  Owner *owner = owners_find(&r->owners, data);
  if (owner == NULL) return;
  tli_stack_release(owner->stack);
  owners_remove(&r->owners, owner);
}

static void set_owner(Record *r, const void *data, tli_Stack *stack) {
  forget_owner(r, data);
  Owner *owner = stack && data ? owners_add(&r->owners, data) : NULL;
  if (owner) owner->stack = stack_retain(stack);
}

/* ---- events ------------------------------------------------------------------------ */

static void put(Record *r, const tli_MemoryEvent *event) {
  int64_t at = (r->first + r->n) % r->room;
  if (r->n == r->room) {
    tli_stack_release(r->events[at].stack);
    r->first = (r->first + 1) % r->room;
    r->n--;
  }
  r->events[at] = *event;
  stack_retain(event->stack);
  r->n++;
}

/* Doubles the ring buffer unless it has reached its limit. */
static void grow_events(Record *r) {
  if (r->n < r->room || r->room >= r->how.most) return;
  int64_t room = r->room ? 2 * r->room : 1024;
  if (room > r->how.most) room = r->how.most;
  tli_MemoryEvent *events = tli_alloc((size_t)room * sizeof *events);
  if (events == NULL) return;
  for (int64_t i = 0; i < r->n; i++) events[i] = r->events[(r->first + i) % r->room];
  if (r->events) tli_free(r->events, (size_t)r->room * sizeof *events);
  r->events = events;
  r->room = room;
  r->first = 0;
}

static void record(Record *r, tli_MemoryEvent *event, const char *text, size_t size) {
  if (size > 0 && wants_stack(r, event->action)) event->stack = intern(r, text, size);
  if (event->action == TL_MEMORY_ALLOC) set_owner(r, event->data, event->stack);
  if (event->action == TL_MEMORY_FREE_COMPLETED) forget_owner(r, event->data);
  if (r->how.events) grow_events(r);
  if (r->how.events && r->room > 0) put(r, event);
  tli_stack_release(event->stack);
}

void tli_memory_event(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                      int64_t stream_id) {
  if (!atomic_load_explicit(&recording[device.type], memory_order_relaxed)) return;
  char text[MOST_TEXT];
  size_t (*stack)(char *, size_t) = atomic_load(&tli_read_call_stack);
  size_t size = stack ? stack(text, sizeof text) : 0;
  tli_MemoryEvent event = {device, action, data, bytes, stream_id, tli_time_ns(), NULL};
  tli_mutex_lock(&lock);
  Record *r = &records[device.type];
  if (r->how.on) record(r, &event, text, size);
  tli_mutex_unlock(&lock);
}

/* ---- reading the history ----------------------------------------------------------------- */

static void clear(Record *r) {
  for (; r->n > 0; r->n--, r->first = (r->first + 1) % r->room)
    tli_stack_release(r->events[r->first].stack);
  for (size_t i = 0; i < r->owners.size; i++) tli_stack_release(r->owners.places[i].stack);
  for (int b = 0; b < NBUCKETS; b++)
    while (r->stacks[b]) {
      tli_Stack *s = r->stacks[b];
      r->stacks[b] = s->next;
      tli_stack_release(s);
    }
  if (r->events) tli_free(r->events, (size_t)r->room * sizeof *r->events);
  owners_clear(&r->owners);
  *r = (Record){.how = r->how};
}

void tli_history_record(tl_DeviceType type, const tli_Recording *how, bool forget) {
  tli_mutex_lock(&lock);
  Record *r = &records[type];
  if (forget || how->most < r->room) clear(r);
  r->how = *how;
  atomic_store(&recording[type], how->on);
  tli_mutex_unlock(&lock);
}

bool tli_history_copy(tl_DeviceType type, tli_History *out) {
  tli_mutex_lock(&lock);
  const Record *r = &records[type];
  *out = (tli_History){r->n, NULL};
  bool ok = r->n == 0 || (out->events = tli_alloc((size_t)r->n * sizeof *out->events)) != NULL;
  for (int64_t i = 0; ok && i < r->n; i++) {
    out->events[i] = r->events[(r->first + i) % r->room];
    stack_retain(out->events[i].stack);
  }
  tli_mutex_unlock(&lock);
  return ok;
}

void tli_history_free(tli_History *h) {
  for (int64_t i = 0; h->events && i < h->n; i++) tli_stack_release(h->events[i].stack);
  if (h->events) tli_free(h->events, (size_t)h->n * sizeof *h->events);
  *h = (tli_History){0};
}

tli_Stack *tli_history_owner(tl_DeviceType type, const void *data) {
  tli_mutex_lock(&lock);
  const Record *r = &records[type];
  const Owner *owner = owners_find(&r->owners, data);
  tli_Stack *stack = owner ? stack_retain(owner->stack) : NULL;
  tli_mutex_unlock(&lock);
  return stack;
}
