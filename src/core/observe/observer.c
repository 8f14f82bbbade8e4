/*
** observer.c - implements tl_set_observer, tl_counters and tl_work_counts. It calls the observer, a
** function of the host, when spans begin and end, and counts the work.
*/
#include "core/observe/observer.h"

#include <stddef.h>
#include <string.h>

#include "core/device/backend.h"
#include "core/error.h"
#include "core/memory/alloc.h"
#include "core/platform/platform.h"

#define MOST_OPEN 32

/* The type of an observer. As tlua.h demands, a host sets it while no other thread uses the
** library. */
typedef void (*Observer)(const tl_Work *work, void *user);
static _Atomic(Observer) observer;
static void *observer_user;

typedef struct Open {
  char name[48];
  const char *kind;
  int64_t begin;
  int32_t mark;
} Open;

static _Thread_local struct {
  /* the number of open spans, and the mark (tli_observer_open) of the span that was opened last */
  int32_t n, latest;
  Open open[MOST_OPEN];
} spans;

static void tell(const Open *o, int depth, int64_t duration) {
  Observer call = atomic_load(&observer);
  if (call) call(&(tl_Work){o->kind, o->name, depth, o->begin, duration}, observer_user);
}

bool tli_observed(void) { return atomic_load_explicit(&observer, memory_order_relaxed) != NULL; }

/* Ends all open spans whose index is at least `at`, beginning with the span that was opened
** last. */
static void close_from(int at) {
  int64_t now = tli_now_ns();
  while (spans.n > at) {
    spans.n--;
    tell(&spans.open[spans.n], spans.n, now - spans.open[spans.n].begin);
  }
}

/* ---- counts ---- */

static atomic_bool counting;
static _Atomic int64_t operators, derivatives, allocations, allocated_bytes;
static int64_t waits_before;

static void add(_Atomic int64_t *count, int64_t n) {
  atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

static void count_span(tli_SpanKind kind) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed)) return;
  if (kind == TLI_SPAN_OPERATOR) add(&operators, 1);
  if (kind == TLI_SPAN_BACKWARD) add(&derivatives, 1);
}

void tli_count_memory(int64_t bytes) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed)) return;
  add(&allocations, 1);
  add(&allocated_bytes, bytes);
}

static int64_t device_waits(void) {
  tl_Counters c;
  tl_counters(&c);
  return c.device_waits;
}

void tl_count_work(bool on) {
  if (on) {
    waits_before = device_waits();
    operators = derivatives = allocations = allocated_bytes = 0;
  }
  if (atomic_exchange(&counting, on) != on) atomic_fetch_add(&tli_profiles, on ? 1 : -1);
}

bool tl_work_counts(tl_WorkCounts *out) {
  size_t least = offsetof(tl_WorkCounts, operators) + sizeof out->operators;
  if (out == NULL || out->size < least)
    return tli_fail(TL_EARG, "work_counts: expected a struct of at least %zu bytes, got %zu", least,
                    out ? out->size : 0);
  tl_WorkCounts c = {.size = out->size,
                     .operators = operators,
                     .derivatives = derivatives,
                     .allocations = allocations,
                     .bytes = allocated_bytes,
                     .device_waits = device_waits() - waits_before};
  memcpy(out, &c, out->size < sizeof c ? out->size : sizeof c);
  return true;
}

/* ---- the observer ---- */

int32_t tli_observer_open(tli_SpanKind kind, const char *name) {
  count_span(kind);
  if (!tli_observed()) return 0;
  /* A script can leave spans open forever, in coroutines that it never resumes. Such spans cannot
  ** be told from other open spans, so all open spans are ended. Otherwise the list would stay full,
  ** and the thread would report no further spans. */
  if (spans.n == MOST_OPEN) close_from(0);
  Open *o = &spans.open[spans.n];
  snprintf(o->name, sizeof o->name, "%s", name);
  o->kind = tli_span_kinds[kind];
  o->begin = tli_now_ns();
  o->mark = spans.latest = spans.latest % INT32_MAX + 1;
  tell(o, spans.n++, -1);
  return o->mark;
}

void tli_observer_close(int32_t mark) {
  int32_t at = mark == 0 ? -1 : spans.n - 1;
  while (at >= 0 && spans.open[at].mark != mark) at--;
  if (at >= 0) close_from(at);
}

void tl_set_observer(void (*observe)(const tl_Work *work, void *user), void *user) {
  observer_user = user;
  spans.n = 0; /* a new observer has not seen the beginning of the spans that are still open */
  Observer was = atomic_exchange(&observer, observe);
  if ((was != NULL) != (observe != NULL)) atomic_fetch_add(&tli_profiles, observe ? 1 : -1);
}

void tl_counters(tl_Counters *out) {
  if (out == NULL) return;
  *out = (tl_Counters){.bytes_used = tl_memory_used(),
                       .bytes_cached = tl_memory_cached(),
                       .bytes_peak = tli_memory_peak()};
  for (int type = 0; type < TL_NDEVICETYPES; type++) {
    const tl_Backend *b = tli_backend((tl_Device){(int8_t)type, 0});
    if (b == NULL || b->device == NULL || b->device->waits == NULL) continue;
    for (int i = 0; i < b->device->count(); i++)
      out->device_waits += b->device->waits((tl_Device){(int8_t)type, (int8_t)i});
  }
}
