/*
** wait.c - waiting for other ranks. Waiting ends early when the timeout passes, when a rank has
** ended or reported a failure, or when the user presses Ctrl-C.
*/
#include <stdio.h>
#include <string.h>

#include "core/platform/parallel.h"
#include "dist/shm/shm.h"

/* The number of times that a rank polls before it sleeps. A sleeping rank wakes every SLICE
** nanoseconds to check whether all ranks are alive. */
#define TURNS 2000
#define SLICE INT64_C(20000000)

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

void tli_shm_wake(tli_Shm *g, int rank) {
  tli_ShmRank *state = tli_shm_rank(g, rank);
  if (atomic_load(&state->sleepers) == 0) return;
  atomic_fetch_add(&state->wake_count, 1);
  tli_word_wake(&state->wake_count);
}

/* ---- the status of a rank -------------------------------------------------------------- */

/* Publishes a status while other ranks may be reading it. Before the words are stored, the version
** is made odd. The words are stored with release order, so a rank that loads a new word with
** acquire order also sees the odd version, and knows that the status is incomplete. */
void tli_status_set(tli_Shm *g, const tli_Status *s, bool active) {
  tli_ShmRank *state = tli_shm_rank(g, g->base.rank);
  tli_Status now = *s;
  now.active = active;
  unsigned words[TLI_STATUS_WORDS];
  memcpy(words, &now, sizeof words);
  atomic_fetch_add(&state->version, 1);
  for (int i = 0; i < TLI_STATUS_WORDS; i++)
    atomic_store_explicit(&state->status[i], words[i], memory_order_release);
  atomic_fetch_add(&state->version, 1);
}

tli_Status tli_status_of(const tli_Shm *g, int rank) {
  tli_ShmRank *state = tli_shm_rank(g, rank);
  tli_Status s;
  for (int i = 0; i < 1000; i++) {
    unsigned before = atomic_load(&state->version);
    unsigned words[TLI_STATUS_WORDS];
    for (int k = 0; k < TLI_STATUS_WORDS; k++)
      words[k] = atomic_load_explicit(&state->status[k], memory_order_acquire);
    memcpy(&s, words, sizeof s);
    if (before % 2 == 0 && atomic_load(&state->version) == before) break;
  }
  s.site[sizeof s.site - 1] = '\0';
  bool sound = s.kind >= 0 && s.kind < TLI_NCOLLECTIVES && s.dtype >= -1 && s.dtype < TL_NDTYPES &&
               s.ndim >= 0 && s.ndim <= TL_MAX_DIMS && s.peer < g->base.size;
  return sound ? s : (tli_Status){.dtype = -1};
}

/* ---- failures of a group --------------------------------------------------------------- */

bool tli_break(tli_Shm *g, const char *why) {
  int none = 0;
  if (!atomic_compare_exchange_strong(&g->header->broken, &none, 1)) return false;
  snprintf(g->header->why, sizeof g->header->why, "%s", why);
  atomic_store(&g->header->broken, 2);
  for (int r = 0; r < g->base.size; r++) {
    atomic_fetch_add(&tli_shm_rank(g, r)->wake_count, 1);
    tli_word_wake(&tli_shm_rank(g, r)->wake_count);
  }
  return false;
}

bool tli_broken(tli_Shm *g) {
  for (int i = 0; i < 1000 && atomic_load(&g->header->broken) == 1; i++) {
    atomic_uint none = 0;
    tli_word_wait(&none, 0, 1000000);
  }
  char why[sizeof g->header->why];
  memcpy(why, g->header->why, sizeof why);
  why[sizeof why - 1] = '\0';
  return tli_fail(TL_EIO, "%s", why);
}

/* ---- the ranks that are waited for -------------------------------------------------------- */

static bool lacks(const tli_Shm *g, const tli_Wait *w, int rank) {
  if (rank == g->base.rank) return false;
  if (w->message)
    return w->message->root == rank || (w->message->root < 0 && w->message->kind == TLI_RECV);
  return (w->who < 0 || w->who == rank) &&
         atomic_load_explicit(&tli_shm_rank(g, rank)->step, memory_order_acquire) < w->step;
}

static bool over(const tli_Shm *g, const tli_Wait *w) {
  if (w->message)
    return atomic_load_explicit(&w->message->state, memory_order_acquire) != TLI_PENDING;
  if (w->who >= 0) return !lacks(g, w, w->who);
  for (int r = 0; r < g->base.size; r++)
    if (lacks(g, w, r)) return false;
  return true;
}

/* Writes the ranks for which this rank waits to `out`, as "rank 2" or "ranks 0 and 3". */
static void list_lacking(const tli_Shm *g, const tli_Wait *w, char *out, size_t size) {
  int n = 0, written = 0;
  for (int r = 0; r < g->base.size; r++) n += lacks(g, w, r);
  int at = snprintf(out, size, n == 1 ? "rank" : "ranks");
  for (int r = 0; r < g->base.size && at < (int)size - 16; r++) {
    if (!lacks(g, w, r)) continue;
    at += snprintf(out + at, size - (size_t)at, "%s%d",
                   written == 0       ? " "
                   : written == n - 1 ? " and "
                                      : ", ",
                   g->base.ranks[r]);
    written++;
  }
}

/* Writes the current call of each rank to `out`. */
static void list_all(const tli_Shm *g, const tli_Wait *w, char *out, size_t size) {
  int at = 0;
  out[0] = '\0';
  for (int r = 0; r < g->base.size && at < (int)size - 200; r++) {
    char text[240];
    tli_Status s = tli_status_of(g, r);
    tli_status_text(&s, &g->base, text, sizeof text);
    const char *does = s.active                             ? "waits in"
                       : s.number == 0 && s.kind < TLI_SEND ? "has made no call yet"
                                                            : "is elsewhere; its last call was";
    bool none = !s.active && s.number == 0 && s.kind < TLI_SEND;
    at += snprintf(out + at, size - (size_t)at, "; rank %d%s %s%s%s", g->base.ranks[r],
                   lacks(g, w, r) ? " (missing)" : "", does, none ? "" : " ", none ? "" : text);
  }
}

static bool late(tli_Shm *g, const tli_Wait *w) {
  char who[160], all[640], why[900];
  list_lacking(g, w, who, sizeof who);
  list_all(g, w, all, sizeof all);
  snprintf(why, sizeof why, "%s: %s did not arrive within %.3g s%s",
           tli_collective_names[w->work->kind], who, (double)w->work->timeout / 1e9, all);
  tli_break(g, why);
  return tli_broken(g);
}

/* Returns a rank that has ended although this rank waits for it, or -1 if there is none. */
static int find_dead(const tli_Shm *g, const tli_Wait *w) {
  for (int r = 0; r < g->base.size; r++)
    if (lacks(g, w, r) &&
        (atomic_load(&tli_shm_rank(g, r)->left) || !tli_share_claimed(&g->share, r)))
      return r;
  return -1;
}

static bool dead(tli_Shm *g, const tli_Wait *w, int rank) {
  char text[240], why[600];
  tli_status_text(&w->work->status, &g->base, text, sizeof text);
  snprintf(why, sizeof why, "rank %d has %s and is missing in %s (on rank %d)", g->base.ranks[rank],
           atomic_load(&tli_shm_rank(g, rank)->left) ? "left its process group" : "ended", text,
           g->base.ranks[g->base.rank]);
  tli_break(g, why);
  return tli_broken(g);
}

bool tli_wait_goes_on(tli_Shm *g, const tli_Wait *w, bool slept) {
  if (atomic_load(&g->header->broken)) return tli_broken(g);
  if (atomic_load(&g->base.closing)) return tli_fail(TL_EIO, "the process group was destroyed");
  if (!slept) return true;
  if (!g->base.by_thread && !tli_go_on()) {
    char why[80];
    snprintf(why, sizeof why, "rank %d was interrupted", g->base.ranks[g->base.rank]);
    tli_break(g, why);
    return false;
  }
  int rank = find_dead(g, w);
  /* receives the messages that the rank sent before it ended, which may complete the wait */
  while (rank >= 0 && tli_messages_move(g)) continue;
  if (rank >= 0 && !over(g, w)) return dead(g, w, rank);
  return tli_now_ns() < w->work->deadline || over(g, w) || late(g, w);
}

/* Returns whether this rank may poll. Polling occupies a processor. It must not take that processor
** from other ranks, nor from this rank's caller while the caller computes. */
static bool may_look(tli_Shm *g) {
  int computing = g->base.by_thread && atomic_load(&g->base.callers) == 0 ? 2 : 1;
  return g->base.size * computing <= tli_processors();
}

bool tli_await(tli_Shm *g, const tli_Wait *w) {
  tli_ShmRank *state = tli_shm_rank(g, g->base.rank);
  bool messages = w->message || tli_messages_active(g);
  for (int turns = may_look(g) ? TURNS : 1; turns > 0; turns--) {
    if (over(g, w)) return true;
    if (messages && tli_messages_move(g)) turns = TURNS;
    relax();
  }
  for (int64_t began = tli_now_ns();;) {
    unsigned seen = atomic_load(&state->wake_count);
    atomic_fetch_add(&state->sleepers, 1);
    bool moved = messages && tli_messages_move(g), done = over(g, w);
    if (!moved && !done && !atomic_load(&g->header->broken) && !atomic_load(&g->base.closing))
      tli_word_wait(&state->wake_count, seen, SLICE);
    atomic_fetch_sub(&state->sleepers, 1);
    if (done || over(g, w)) return true;
    int64_t now = tli_now_ns();
    bool slept = now - began >= SLICE || now >= w->work->deadline;
    if (slept) began = now;
    TL_TRY(tli_wait_goes_on(g, w, slept));
  }
}
