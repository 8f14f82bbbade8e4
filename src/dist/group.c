/*
** group.c - joining and leaving a group, and who makes its calls: the caller itself while
** nothing else is under way, else a thread of the group's, one call after the other.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/parallel.h"
#include "dist/work.h"

/* ---- joining ----------------------------------------------------------------------- */

static int64_t align(int64_t n) { return (n + 4095) / 4096 * 4096; }

static size_t bytes_for(int64_t size) {
  return (size_t)(align(sizeof(tli_Header)) + align(size * (int64_t)sizeof(tli_Line)) +
                  align(size * size * (int64_t)sizeof(tli_Ring)) + size * 2 * TLI_SLOT);
}

static void lay_out(tli_Group *g) {
  char *at = g->share.data;
  g->header = (tli_Header *)(void *)at;
  at += align(sizeof(tli_Header));
  g->lines = (tli_Line *)(void *)at;
  at += align(g->size * (int64_t)sizeof(tli_Line));
  g->rings = (tli_Ring *)(void *)at;
  at += align((int64_t)g->size * g->size * (int64_t)sizeof(tli_Ring));
  g->slots = at;
}

/* Rank 0 makes the memory and tells its name by the store. */
static bool open_share(tli_Group *g, tli_Store *store, const char *name) {
  char key[256], file[TLI_SHARE_NAME];
  snprintf(key, sizeof key, "%s/shm", name);
  if (g->rank == 0)
    return tli_share_make(&g->share, bytes_for(g->size), file) &&
           tli_store_set(store, key, file, strlen(file));
  char *value = tli_store_get(store, key, NULL, g->timeout);
  if (value == NULL) {
    char why[300];
    snprintf(why, sizeof why, "%s", tl_error());
    return tli_fail(tl_error_kind(), "rank %d is missing: %s", g->ranks[0], why);
  }
  bool ok = tli_share_open(&g->share, value, bytes_for(g->size));
  free(value);
  return ok;
}

/* No two processes have one number: the store counts who comes with it. */
static bool take_number(tli_Group *g, tli_Store *store, const char *name) {
  char key[256];
  int64_t came;
  snprintf(key, sizeof key, "%s/rank/%d", name, g->rank);
  TL_TRY(tli_store_add(store, key, 1, &came));
  if (came == 1) return true;
  return tli_fail(TL_EARG, "rank %d is taken by another process", g->ranks[g->rank]);
}

static void list_absent(const tli_Group *g, char *out, size_t size) {
  int n = 0, at = 0;
  out[0] = '\0';
  for (int r = 0; r < g->size && at < (int)size - 16; r++)
    if (!tli_share_claimed(&g->share, r) && r != g->rank)
      at += snprintf(out + at, size - (size_t)at, "%s%d", n++ ? ", " : "", g->ranks[r]);
}

/* Waits until all have joined. */
static bool meet(tli_Group *g) {
  tli_Line *line = tli_line(g, g->rank);
  int64_t deadline = tli_now_ns() + g->timeout;
  atomic_fetch_add(&g->header->joined, 1);
  for (int r = 0; r < g->size; r++) {
    atomic_fetch_add(&tli_line(g, r)->bell, 1);
    tli_word_wake(&tli_line(g, r)->bell);
  }
  for (;;) {
    unsigned seen = atomic_load(&line->bell);
    if (atomic_load(&g->header->broken)) return tli_broken(g);
    if (atomic_load(&g->header->joined) >= g->size) return true;
    if (tli_now_ns() >= deadline) break;
    tli_word_wait(&line->bell, seen, 20000000);
    TL_TRY(tli_go_on());
  }
  char absent[300], why[500];
  list_absent(g, absent, sizeof absent);
  snprintf(why, sizeof why, "of %d ranks these did not join within %.3g s: %s", g->size,
           (double)g->timeout / 1e9, absent);
  tli_break(g, why);
  return tli_broken(g);
}

static bool join(tli_Group *g, tli_Store *store, const char *name) {
  TL_TRY(take_number(g, store, name));
  TL_TRY(open_share(g, store, name));
  lay_out(g);
  if (!tli_share_claim(&g->share, g->rank))
    return tli_fail(TL_EARG, "rank %d is taken by another process", g->ranks[g->rank]);
  tli_line(g, g->rank)->status = (tli_Status){.dtype = -1};
  return meet(g);
}

static void group_free(tli_Group *g) {
  tli_messages_free(g);
  tli_share_close(&g->share);
  tli_mutex_destroy(&g->lock);
  tli_mutex_destroy(&g->engine);
  tli_free(g, sizeof *g);
}

tli_Group *tli_group_join(tli_Store *store, const char *name, int rank, int size, const int *ranks,
                          int64_t timeout, bool detail) {
  if (size < 1 || size > TLI_MOST_RANKS)
    return tli_fail_null(TL_EARG, "world_size: expected 1 to %d ranks, got %d", TLI_MOST_RANKS,
                         size);
  if (rank < 0 || rank >= size)
    return tli_fail_null(TL_EARG, "rank: expected 0 to %d, got %d", size - 1, rank);
  tli_Group *g = tli_alloc(sizeof *g);
  TL_TRY_NULL(g);
  memset(g, 0, sizeof *g);
  tli_mutex_init(&g->lock);
  tli_mutex_init(&g->engine);
  g->last = &g->first;
  g->rank = rank;
  g->size = size;
  memcpy(g->ranks, ranks, (size_t)size * sizeof *ranks);
  g->timeout = timeout;
  g->detail = detail;
  g->checked = true;
  if (join(g, store, name)) return g;
  group_free(g);
  return NULL;
}

int tli_group_rank(const tli_Group *g) { return g->rank; }
int tli_group_size(const tli_Group *g) { return g->size; }

/* ---- making calls ------------------------------------------------------------------ */

/* Begins a call; a message may go on after that. */
static void start(tli_Group *g, tli_Work *w) {
  w->deadline = w->timeout > INT64_MAX - tli_now_ns() ? INT64_MAX : tli_now_ns() + w->timeout;
  tli_status_set(g, &w->status, true);
  bool ok = atomic_load(&g->header->broken) ? tli_broken(g) : tli_work_arrive(w);
  if (ok && w->kind >= TLI_SEND) {
    tli_message_post(g, w);
    return;
  }
  ok = ok && tli_collective_run(g, w);
  if (ok) tli_status_set(g, &w->status, false);
  tli_work_end(w, ok);
}

/* Until a message that was begun has ended. */
static void await_message(tli_Group *g, const tli_Work *w) {
  tli_Wait wait = {.message = w, .work = w};
  if (!tli_await(g, &wait)) tli_messages_fail(g);
  if (tli_work_error(w)[0] == '\0') tli_status_set(g, &w->status, false);
}

/* ---- the thread -------------------------------------------------------------------- */

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

/* The message whose time is over first. */
static const tli_Work *most_urgent(const tli_Group *g) {
  const tli_Work *best = NULL;
  for (const tli_Work *w = g->posted; w; w = w->next)
    if (best == NULL || w->deadline < best->deadline) best = w;
  for (int r = 0; r < g->size; r++) {
    const tli_Work *some[] = {g->sends[r], g->incoming[r].to};
    for (int i = 0; i < 2; i++)
      if (some[i] && (best == NULL || some[i]->deadline < best->deadline)) best = some[i];
  }
  return best;
}

static void hold(tli_Group *g, bool by_thread) {
  tli_mutex_lock(&g->engine);
  g->by_thread = by_thread;
}

/* A while of moving messages; what was asked for meanwhile rings the bell, too. */
static void attend_messages(tli_Group *g) {
  tli_Line *line = tli_line(g, g->rank);
  unsigned seen = atomic_load(&line->bell);
  atomic_fetch_add(&line->sleepers, 1);
  hold(g, true);
  bool moved = tli_messages_move(g);
  tli_mutex_unlock(&g->engine);
  int64_t began = tli_now_ns();
  if (!moved && !atomic_load(&g->closing)) tli_word_wait(&line->bell, seen, 20000000);
  atomic_fetch_sub(&line->sleepers, 1);
  hold(g, true);
  const tli_Work *urgent = most_urgent(g);
  tli_Wait wait = {.message = urgent, .work = urgent};
  if (urgent && !tli_wait_goes_on(g, &wait, tli_now_ns() - began >= 20000000)) tli_messages_fail(g);
  tli_mutex_unlock(&g->engine);
}

/* One turn; false if there was nothing to do. */
static bool run_once(tli_Group *g) {
  tli_Work *w = next_work(g);
  if (w) {
    hold(g, true);
    start(g, w);
    tli_mutex_unlock(&g->engine);
    return true;
  }
  if (atomic_load(&g->outstanding) == 0) return false;
  attend_messages(g);
  return true;
}

static void run(void *context) {
  tli_Group *g = context;
  tli_Line *line = tli_line(g, g->rank);
  tli_parallel_set_serial(true);
  while (!atomic_load(&g->closing)) {
    unsigned seen = atomic_load(&line->bell);
    if (run_once(g)) continue;
    atomic_fetch_add(&line->sleepers, 1);
    if (!atomic_load(&g->closing) && atomic_load(&g->outstanding) == 0)
      tli_word_wait(&line->bell, seen, 1000000000);
    atomic_fetch_sub(&line->sleepers, 1);
  }
  tli_fail(TL_EIO, "the process group was destroyed");
  tli_messages_fail(g);
  for (tli_Work *w; (w = next_work(g)) != NULL;) tli_work_end(w, false);
  atomic_store(&g->ended, 1);
  tli_word_wake(&g->ended);
}

static bool enqueue(tli_Group *g, tli_Work *w) {
  if (!g->has_thread) {
    if (!tli_thread_start(run, g))
      return tli_fail(TL_EMEM, "no thread to make calls of a process group");
    g->has_thread = true;
  }
  w->counted = true;
  w->next = NULL;
  atomic_fetch_add(&w->refs, 1);
  atomic_fetch_add(&g->outstanding, 1);
  tli_mutex_lock(&g->lock);
  *g->last = w;
  g->last = &w->next;
  tli_mutex_unlock(&g->lock);
  atomic_fetch_add(&tli_line(g, g->rank)->bell, 1);
  tli_word_wake(&tli_line(g, g->rank)->bell);
  return true;
}

tli_Work *tli_group_start(tli_Group *g, const tli_Call *call, bool async) {
  tli_Work *w = tli_work_new(g, call, g->timeout, g->detail);
  TL_TRY_NULL(w);
  w->group = g;
  if (w->kind < TLI_SEND) g->number++;
  w->status.number = g->number;
  if (async || atomic_load(&g->outstanding) > 0) {
    if (enqueue(g, w)) return w;
    tli_work_release(w);
    return NULL;
  }
  hold(g, false);
  start(g, w);
  if (w->kind >= TLI_SEND && !tli_work_done(w)) await_message(g, w);
  tli_mutex_unlock(&g->engine);
  return w;
}

void tli_group_leave(tli_Group *g) {
  if (g == NULL) return;
  atomic_store(&g->closing, true);
  if (g->has_thread) {
    while (atomic_load(&g->ended) == 0) {
      atomic_fetch_add(&tli_line(g, g->rank)->bell, 1);
      tli_word_wake(&tli_line(g, g->rank)->bell);
      tli_word_wait(&g->ended, 0, 10000000);
    }
  }
  atomic_store(&tli_line(g, g->rank)->left, true);
  for (int r = 0; r < g->size; r++) tli_bell(g, r);
  group_free(g);
}
