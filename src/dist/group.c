/*
** group.c - joining and leaving a group, and running its calls. The caller runs a call itself if no
** other call is pending. Otherwise a thread of the group runs the calls one after the other. The
** group's transport implements the calls.
*/
#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/parallel.h"
#include "dist/work.h"

/* ---- joining ----------------------------------------------------------------------- */

static const tli_Transport *const transports[] = {&tli_transport_shm, &tli_transport_mpi,
                                                  &tli_transport_nccl, &tli_transport_record};

static const tli_Transport *find_transport(const char *name) {
  for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
    if (strcmp(transports[i]->name, name) == 0) return transports[i];
  return tli_fail_null(TL_EARG, "backend: there is no '%.40s'", name);
}

static void group_free(tli_Group *g) {
  g->transport->leave(g);
  tli_mutex_destroy(&g->lock);
  tli_mutex_destroy(&g->engine);
  tli_free(g->ranks, (size_t)g->size * sizeof *g->ranks);
  tli_free(g, g->transport->bytes);
}

bool tli_group_available(const char *backend) {
  const tli_Transport *transport = find_transport(backend);
  bool there = transport && (transport->available == NULL || transport->available());
  tli_error_clear();
  return there;
}

static tli_Group *group_new(const tli_Transport *transport, int rank, int size, const int *ranks) {
  tli_Group *g = tli_alloc(transport->bytes);
  int *copy = tli_alloc((size_t)size * sizeof *copy);
  if (g == NULL || copy == NULL) {
    tli_free(g, transport->bytes);
    tli_free(copy, (size_t)size * sizeof *copy);
    return NULL;
  }
  memset(g, 0, transport->bytes);
  g->transport = transport;
  g->ranks = memcpy(copy, ranks, (size_t)size * sizeof *ranks);
  g->rank = rank;
  g->size = size;
  g->device = TLI_CPU;
  tli_mutex_init(&g->lock);
  tli_mutex_init(&g->engine);
  g->last = &g->first;
  g->wake_count = &g->own_wake_count;
  g->sleepers = &g->own_sleepers;
  return g;
}

tli_Group *tli_group_join(const char *backend, tli_Store *store, const char *name, int rank,
                          int size, const int *ranks, int64_t timeout, bool detail) {
  const tli_Transport *transport = find_transport(backend);
  TL_TRY_NULL(transport);
  if (size < 1 || size > transport->most)
    return tli_fail_null(TL_EARG, "world_size: expected 1 to %d ranks, got %d", transport->most,
                         size);
  if (rank < 0 || rank >= size)
    return tli_fail_null(TL_EARG, "rank: expected 0 to %d, got %d", size - 1, rank);
  tli_Group *g = group_new(transport, rank, size, ranks);
  TL_TRY_NULL(g);
  g->timeout = timeout;
  g->detail = detail;
  if (transport->join(g, store, name)) return g;
  group_free(g);
  return NULL;
}

void tli_group_set_timeout(tli_Group *g, int64_t timeout) { g->timeout = timeout; }
int tli_group_rank(const tli_Group *g) { return g->rank; }
int tli_group_size(const tli_Group *g) { return g->size; }

/* ---- making calls ------------------------------------------------------------------ */

/* Begins a call. On return a collective is complete, but a message may still be in progress. */
static void start(tli_Group *g, tli_Work *w) {
  w->deadline = w->timeout > INT64_MAX - tli_now_ns() ? INT64_MAX : tli_now_ns() + w->timeout;
  w->begun = tli_now_ns();
  g->transport->note(g, &w->status, true);
  bool ok = g->transport->usable(g) && tli_work_arrive(w);
  if (ok && w->kind >= TLI_SEND) {
    g->transport->post(g, w);
    return;
  }
  ok = ok && g->transport->collective(g, w);
  if (ok) g->transport->note(g, &w->status, false);
  tli_work_end(w, ok);
}

/* Waits until a message that was begun earlier is complete. */
static void await_message(tli_Group *g, tli_Work *w) {
  if (!g->transport->await(g, w)) g->transport->fail(g);
  if (tli_work_error(w)[0] == '\0') g->transport->note(g, &w->status, false);
}

/* ---- the thread -------------------------------------------------------------------- */

static void wake_thread(tli_Group *g) {
  atomic_fetch_add(g->wake_count, 1);
  tli_word_wake(g->wake_count);
}

static tli_Work *next_work(tli_Group *g) {
  tli_mutex_lock(&g->lock);
  tli_Work *w = g->first;
  if (w) {
    g->first = w->next;
    if (g->first == NULL) g->last = &g->first;
  }
  tli_mutex_unlock(&g->lock);
  return w;
}

static void hold(tli_Group *g, bool by_thread) {
  tli_mutex_lock(&g->engine);
  g->by_thread = by_thread;
}

/* The time in nanoseconds for which a thread sleeps between two checks that the other ranks are
** alive. */
#define SLICE INT64_C(20000000)

static bool move(tli_Group *g, bool slept) {
  hold(g, true);
  bool moved = g->transport->move(g, slept);
  tli_mutex_unlock(&g->engine);
  return moved;
}

/* Makes progress on messages. If no message advances, sleeps briefly or until a new call arrives.
** `looked` is the time of the last check that all ranks are alive. */
static void attend_messages(tli_Group *g, int64_t *looked) {
  unsigned seen = atomic_load(g->wake_count);
  atomic_fetch_add(g->sleepers, 1);
  bool moved = move(g, false);
  if (!moved && !atomic_load(&g->closing)) tli_word_wait(g->wake_count, seen, g->transport->nap);
  atomic_fetch_sub(g->sleepers, 1);
  if (tli_now_ns() - *looked < SLICE) return;
  move(g, true);
  *looked = tli_now_ns();
}

/* Does one step: runs the next call or makes progress on messages. Returns false if there was
** nothing to do. */
static bool run_once(tli_Group *g, int64_t *looked) {
  tli_Work *w = next_work(g);
  if (w) {
    hold(g, true);
    start(g, w);
    tli_mutex_unlock(&g->engine);
    return true;
  }
  if (atomic_load(&g->outstanding) == 0) return false;
  attend_messages(g, looked);
  return true;
}

static void run(void *context) {
  tli_Group *g = context;
  int64_t looked = tli_now_ns();
  tli_parallel_set_serial(true);
  while (!atomic_load(&g->closing)) {
    unsigned seen = atomic_load(g->wake_count);
    if (run_once(g, &looked)) continue;
    atomic_fetch_add(g->sleepers, 1);
    if (!atomic_load(&g->closing) && atomic_load(&g->outstanding) == 0)
      tli_word_wait(g->wake_count, seen, 1000000000);
    atomic_fetch_sub(g->sleepers, 1);
  }
  tli_fail(TL_EIO, "the process group was destroyed");
  g->transport->fail(g);
  for (tli_Work *w; (w = next_work(g)) != NULL;) tli_work_end(w, false);
  atomic_store(&g->ended, 1);
  tli_word_wake(&g->ended);
}

static bool need_thread(tli_Group *g) {
  if (g->has_thread) return true;
  if (!tli_thread_start(run, g))
    return tli_fail(TL_EMEM, "no thread to make calls of a process group");
  return g->has_thread = true;
}

/* Passes the call to the group's thread, which then holds a reference to the call. */
static void hand_over(tli_Group *g, tli_Work *w) {
  w->counted = true;
  w->invitation = tli_profile_invite();
  w->next = NULL;
  atomic_fetch_add(&w->refs, 1);
  atomic_fetch_add(&g->outstanding, 1);
}

static bool enqueue(tli_Group *g, tli_Work *w) {
  TL_TRY(need_thread(g));
  hand_over(g, w);
  tli_mutex_lock(&g->lock);
  *g->last = w;
  g->last = &w->next;
  tli_mutex_unlock(&g->lock);
  wake_thread(g);
  return true;
}

/* Launches the call on the device; the group's thread notices when the call has ended. */
static bool launch(tli_Group *g, tli_Work *w) {
  TL_TRY(need_thread(g));
  hand_over(g, w);
  w->deadline = w->timeout > INT64_MAX - tli_now_ns() ? INT64_MAX : tli_now_ns() + w->timeout;
  hold(g, false);
  if (!g->transport->usable(g) || !g->transport->launch(g, w)) tli_work_end(w, false);
  tli_mutex_unlock(&g->engine);
  wake_thread(g);
  return true;
}

bool tli_group_batch(tli_Group *g, bool begins) {
  if (g->transport->batch == NULL) return true;
  hold(g, false);
  bool ok = g->transport->batch(g, begins);
  tli_mutex_unlock(&g->engine);
  wake_thread(g);
  return ok;
}

bool tli_group_buffer(tli_Group *g, tl_Tensor *t, bool add) {
  if (g->transport->buffer == NULL) return true;
  hold(g, false);
  bool ok = g->transport->buffer(g, t, add);
  tli_mutex_unlock(&g->engine);
  return ok;
}

bool tli_group_common(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out) {
  int64_t element = tli_dtype_bytes[dtype];
  *out = NULL;
  bool fits = n >= TLI_COMMON_FROM / element && n <= TLI_COMMON_MOST / element;
  if (g->transport->common == NULL || g->size == 1 || !fits) return true;
  return g->transport->common(g, dtype, n, out);
}

void tli_group_next_pass(tli_Group *g) { g->pass++; }

tli_Work *tli_group_start(tli_Group *g, const tli_Call *call, bool async) {
  tli_Work *w = tli_work_new(g, call, g->timeout, g->detail);
  TL_TRY_NULL(w);
  w->group = g;
  if (w->kind < TLI_SEND) g->number++;
  w->status.number = g->number;
  w->status.pass = g->pass;
  if (g->transport->launch || async || atomic_load(&g->outstanding) > 0) {
    if (g->transport->launch ? launch(g, w) : enqueue(g, w)) return w;
    tli_work_release(w);
    return NULL;
  }
  hold(g, false);
  start(g, w);
  if (w->kind >= TLI_SEND && !tli_work_done(w)) await_message(g, w);
  tli_mutex_unlock(&g->engine);
  return w;
}

void tli_group_abort(tli_Group *g, const char *why) {
  if (g->transport->abort) g->transport->abort(g, why);
  tli_error_clear();
}

#define DRAIN INT64_C(5000000000)

/* Waits a limited time for calls that the devices have not completed, because perhaps no caller has
** waited for these calls. */
static void drain(tli_Group *g) {
  int64_t deadline = tli_now_ns() + DRAIN;
  atomic_uint none = 0;
  while (atomic_load(&g->outstanding) > 0 && tli_now_ns() < deadline)
    tli_word_wait(&none, 0, 1000000);
}

void tli_group_leave(tli_Group *g) {
  if (g == NULL) return;
  if (g->transport->launch) drain(g);
  atomic_store(&g->closing, true);
  if (g->has_thread) {
    while (atomic_load(&g->ended) == 0) {
      wake_thread(g);
      tli_word_wait(&g->ended, 0, 10000000);
    }
  }
  group_free(g);
}
