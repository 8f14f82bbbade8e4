/*
** profile_record.c - implements profile_record.h. Events are stored in chunks that never move. Each
** distinct text (name, shapes, stack) is stored once, and events refer to it by number.
*/
#include "core/observe/profile_record.h"

#include <string.h>

#include "core/error.h"
#include "core/platform/platform.h"

void *tli_record_get(tli_Profile *p, size_t bytes) {
  void *block = tli_memory_get(16, bytes);
  if (block) p->bytes += (int64_t)bytes;
  return block;
}

void tli_record_put(void *block) {
  if (block) tli_memory_put(block);
}

static bool grow_chunks(tli_Profile *p, tli_RecordList *l) {
  int64_t room = l->room ? 2 * l->room : 64;
  char **chunks = tli_record_get(p, (size_t)room * sizeof *chunks);
  TL_TRY(chunks);
  if (l->nchunks) memcpy(chunks, l->chunks, (size_t)l->nchunks * sizeof *chunks);
  tli_record_put(l->chunks);
  l->chunks = chunks;
  l->room = room;
  return true;
}

void *tli_record_push(tli_Profile *p, tli_RecordList *l) {
  if (l->n == INT32_MAX) return NULL;
  if (l->n == l->nchunks * TLI_RECORD_CHUNK) {
    if (l->nchunks == l->room) TL_TRY_NULL(grow_chunks(p, l));
    char *chunk = tli_record_get(p, TLI_RECORD_CHUNK * l->item);
    TL_TRY_NULL(chunk);
    l->chunks[l->nchunks++] = chunk;
  }
  return tli_record_at(l, l->n++);
}

static void list_free(tli_RecordList *l) {
  for (int64_t i = 0; i < l->nchunks; i++) tli_record_put(l->chunks[i]);
  tli_record_put(l->chunks);
  *l = (tli_RecordList){.item = l->item};
}

/* ---- texts ------------------------------------------------------------------------- */

static uint64_t hash_of(const char *text, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u + size;
  while (size > 0) {
    uint64_t word = 0;
    size_t n = size < sizeof word ? size : sizeof word;
    memcpy(&word, text, n);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    text += n;
    size -= n;
  }
  return hash;
}

static int32_t *place_of(const tli_Profile *p, uint64_t hash, const char *text, size_t size) {
  for (uint64_t i = hash;; i++) {
    int32_t *place = &p->places[i & (uint64_t)(p->nplaces - 1)];
    if (*place < 0) return place;
    const tli_RecordText *t = tli_record_at(&p->texts, *place);
    if (t->hash == hash && t->size == size && memcmp(t->text, text, size) == 0) return place;
  }
}

static bool grow_places(tli_Profile *p) {
  if (2 * (p->texts.n + 1) <= p->nplaces) return true;
  int64_t n = p->nplaces ? 2 * p->nplaces : 512;
  int32_t *old = p->places, *places = tli_record_get(p, (size_t)n * sizeof *places);
  TL_TRY(places);
  memset(places, -1, (size_t)n * sizeof *places);
  p->places = places;
  p->nplaces = n;
  for (int64_t i = 0; i < p->texts.n; i++) {
    const tli_RecordText *t = tli_record_at(&p->texts, i);
    *place_of(p, t->hash, t->text, t->size) = (int32_t)i;
  }
  tli_record_put(old);
  return true;
}

int32_t tli_record_text(tli_Profile *p, const char *text, size_t size) {
  if (!grow_places(p)) return -1;
  uint64_t hash = hash_of(text, size);
  int32_t *place = place_of(p, hash, text, size);
  if (*place >= 0) return *place;
  char *copy = tli_record_get(p, size + 1);
  tli_RecordText *t = copy ? tli_record_push(p, &p->texts) : NULL;
  if (t == NULL) {
    tli_record_put(copy);
    return -1;
  }
  memcpy(copy, text, size);
  copy[size] = '\0';
  *t = (tli_RecordText){hash, size, copy, -1};
  return *place = (int32_t)(p->texts.n - 1);
}

/* ---- records ---------------------------------------------------------------------- */

tli_Profile *tli_record_new(const tli_ProfileOptions *options, const char *thread) {
  tli_Profile *p = tli_memory_get(16, sizeof *p);
  if (p == NULL) return NULL;
  memset(p, 0, sizeof *p);
  *p = (tli_Profile){.options = *options, .top = -1, .bytes = sizeof *p};
  p->events.item = sizeof(tli_ProfileEvent);
  p->memory.item = sizeof(tli_ProfileMemory);
  p->texts.item = sizeof(tli_RecordText);
  p->devices.item = sizeof(tli_DeviceSpan);
  p->threads.item = sizeof(int32_t);
  int32_t name = thread ? tli_record_text(p, thread, strlen(thread)) : -1,
          *first = tli_record_push(p, &p->threads);
  if (first) *first = name;
  if (first && (name >= 0 || thread == NULL)) return p;
  tli_profile_free(p);
  return NULL;
}

void tli_record_clear(tli_Profile *p) {
  for (int64_t i = 0; i < p->texts.n; i++)
    tli_record_put(((tli_RecordText *)tli_record_at(&p->texts, i))->text);
  list_free(&p->events);
  list_free(&p->memory);
  list_free(&p->texts);
  list_free(&p->devices);
  list_free(&p->threads);
  tli_record_put(p->places);
}

int32_t tli_record_thread(const tli_Profile *p, int64_t i) {
  return *(const int32_t *)tli_record_at(&p->threads, i);
}

int32_t tli_record_thread_of(tli_Profile *p, int32_t name) {
  for (int64_t i = 1; i < p->threads.n; i++)
    if (tli_record_thread(p, i) == name) return (int32_t)i;
  int32_t *t = name < 0 || p->threads.n > UINT16_MAX ? NULL : tli_record_push(p, &p->threads);
  if (t == NULL) return -1;
  *t = name;
  return (int32_t)(p->threads.n - 1);
}

static int32_t moved(const int32_t *texts, int32_t i) { return i < 0 ? i : texts[i]; }

static void append_events(tli_Profile *p, const tli_Profile *from, const int32_t *texts,
                          const int32_t *threads) {
  int32_t first = (int32_t)p->events.n;
  for (int64_t i = 0; i < from->events.n; i++) {
    const tli_ProfileEvent *e = tli_record_at(&from->events, i);
    tli_ProfileEvent *copy = tli_record_push(p, &p->events);
    if (copy == NULL) {
      p->dropped += from->events.n - i;
      return;
    }
    *copy = *e;
    copy->name = moved(texts, e->name);
    copy->shapes = moved(texts, e->shapes);
    copy->stack = moved(texts, e->stack);
    copy->parent = e->parent < 0 ? -1 : first + e->parent;
    copy->thread = (uint16_t)threads[e->thread];
  }
}

static void append_memory(tli_Profile *p, const tli_Profile *from, int32_t first) {
  for (int64_t i = 0; i < from->memory.n; i++) {
    tli_ProfileMemory *copy = tli_record_push(p, &p->memory);
    if (copy == NULL) {
      p->dropped += from->memory.n - i;
      return;
    }
    *copy = *(const tli_ProfileMemory *)tli_record_at(&from->memory, i);
    if (copy->event >= 0) copy->event += first;
  }
}

void tli_record_append(tli_Profile *p, const tli_Profile *from) {
  int32_t first = (int32_t)p->events.n;
  int64_t n = from->texts.n + from->threads.n;
  int32_t *texts = tli_record_get(p, (size_t)n * sizeof *texts);
  int32_t *threads = texts ? texts + from->texts.n : NULL;
  bool ok = texts != NULL;
  for (int64_t i = 0; ok && i < from->texts.n; i++) {
    const tli_RecordText *t = tli_record_at(&from->texts, i);
    ok = (texts[i] = tli_record_text(p, t->text, t->size)) >= 0;
  }
  for (int64_t i = 0; ok && i < from->threads.n; i++) {
    int32_t name = tli_record_thread(from, i);
    threads[i] = name < 0 ? 0 : tli_record_thread_of(p, texts[name]);
    ok = threads[i] >= 0;
  }
  p->dropped += from->dropped;
  if (ok) {
    append_events(p, from, texts, threads);
    if (p->events.n == first + from->events.n) append_memory(p, from, first);
  } else {
    p->dropped += from->events.n;
  }
  p->bytes -= texts ? n * (int64_t)sizeof *texts : 0;
  tli_record_put(texts);
}
