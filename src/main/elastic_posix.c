/*
** elastic_posix.c - implements elastic.h. Keys in the store: "elastic/ready" is set once the store
** can be used, and "elastic/round" is the number of the last closed round. Each round has the keys
** "came", "nodes", "failed", "done" and "seen", and one key for the heartbeat of each launcher.
*/
#include "main/elastic.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/platform.h"
#include "core/platform/share.h"

#define SECOND INT64_C(1000000000)
/* time in ns to wait for more launchers once the minimum has joined */
#define LAST_CALL SECOND
#define LOOK (SECOND / 5) /* time in ns between two reads of the store */
/* time in ns without heartbeat after which a launcher counts as dead */
#define SILENCE (3 * SECOND)
/* time in ns that other launchers have to see that all ranks are done */
#define FAREWELL (2 * SECOND)

static void nap(void) {
  atomic_uint none = 0;
  tli_word_wait(&none, 0, SECOND / 50);
}

static void key_of(char key[100], int64_t round, const char *what, int node) {
  int n = snprintf(key, 100, "elastic/%lld/%s", (long long)round, what);
  if (node >= 0) snprintf(key + n, 100 - (size_t)n, "/%d", node);
}

/* Adds an amount to a counter of a round in the store. Returns the new value, or -1 if the store
** has ended. */
static int64_t add(tli_Elastic *e, int64_t round, const char *what, int node, int64_t amount) {
  char key[100];
  int64_t sum;
  key_of(key, round, what, node);
  return e->store && tli_store_add(e->store, key, amount, &sum) ? sum : -1;
}

/* ---- the store ------------------------------------------------------------------------ */

static void drop(tli_Elastic *e) {
  tli_store_close(e->store);
  e->store = NULL;
  tli_store_server_stop(e->server);
  e->server = NULL;
}

/* Starts a server for a new store, and stores the number of the last round that this launcher knows
** of. */
static bool begin_to_serve(tli_Elastic *e) {
  int64_t sum;
  e->server = tli_store_serve(e->host, e->port, e->secret);
  TL_TRY(e->server);
  e->store = tli_store_connect(e->host, e->port, e->secret, SECOND);
  TL_TRY(e->store && tli_store_add(e->store, "elastic/round", e->round, &sum));
  return tli_store_set(e->store, "elastic/ready", "1", 1);
}

static bool connect_to(tli_Elastic *e) {
  if (begin_to_serve(e)) return true;
  drop(e);
  e->store = tli_store_connect(e->host, e->port, e->secret, SECOND / 4);
  if (e->store && tli_store_wait(e->store, "elastic/ready", SECOND)) return true;
  drop(e);
  return false;
}

static bool find_store(tli_Elastic *e, int64_t deadline) {
  while (e->store == NULL && !connect_to(e)) {
    /* returns false if another program uses the port */
    if (tl_error_kind() == TL_EARG) return false;
    if (tli_now_ns() >= deadline)
      return tli_fail(TL_EIO, "--rdzv: no launcher at %s:%d within %.3g s", e->host, e->port,
                      (double)e->timeout / 1e9);
    nap();
  }
  return true;
}

/* ---- a round -------------------------------------------------------------------------- */

/* Closes a round. The launcher that joined first calls this function. Waits until all launchers
** have joined or no further one joins for a while. Returns the number of launchers; -1 if the store
** has ended. */
static int64_t close_round(tli_Elastic *e, int64_t round, int64_t deadline) {
  int64_t came = 1, since = tli_now_ns();
  for (;;) {
    int64_t now = tli_now_ns(), n = add(e, round, "came", -1, 0);
    if (n < 0) return -1;
    if (n > came) {
      came = n;
      since = now;
    }
    if (came >= e->most || (came >= e->least && now - since >= LAST_CALL)) break;
    if (now >= deadline) return came;
    nap();
  }
  came = came < e->most ? came : e->most;
  add(e, round, "nodes", -1, came);
  int64_t sum, before = 0;
  if (!tli_store_add(e->store, "elastic/round", 0, &before)) return -1;
  return tli_store_add(e->store, "elastic/round", round - before, &sum) ? came : -1;
}

/* Joins a round. Sets this launcher's number in the round, counted from 1, and the number of
** launchers in the round. A launcher that comes too late gets a number that is larger than the
** number of launchers. */
static bool try_round(tli_Elastic *e, int64_t round, int64_t deadline, int64_t *number,
                      int64_t *nodes) {
  *number = add(e, round, "came", -1, 1);
  if (*number < 0) return false;
  if (*number == 1) {
    *nodes = close_round(e, round, deadline);
    return *nodes >= 0;
  }
  for (;;) {
    *nodes = add(e, round, "nodes", -1, 0);
    if (*nodes != 0) return *nodes > 0;
    if (tli_now_ns() >= deadline) return true;
    nap();
  }
}

static bool too_few(const tli_Elastic *e, int64_t came) {
  return tli_fail(TL_EIO, "--nnodes: expected at least %d launchers within %.3g s, got %lld",
                  e->least, (double)e->timeout / 1e9, (long long)(came > 0 ? came : 1));
}

bool tli_elastic_meet(tli_Elastic *e) {
  int64_t deadline = tli_now_ns() + e->timeout;
  for (;;) {
    int64_t last, number, nodes;
    TL_TRY(find_store(e, deadline));
    if (!tli_store_add(e->store, "elastic/round", 0, &last) ||
        !try_round(e, last + 1, deadline, &number, &nodes)) {
      drop(e);
      continue;
    }
    if (nodes < e->least) return too_few(e, nodes);
    e->round = last + 1;
    /* the round was already closed, so this launcher joins the next one */
    if (number > nodes) continue;
    e->node = (int)number - 1;
    e->nodes = (int)nodes;
    e->looked = 0;
    for (int i = 0; i < e->nodes; i++) e->beat[i] = e->heard[i] = 0;
    return true;
  }
}

/* ---- while ranks run ------------------------------------------------------------------ */

/* Sends this launcher's heartbeat. Returns false if another launcher has sent no heartbeat for a
** while, or if the store has ended. */
static bool all_live(tli_Elastic *e, int64_t now) {
  if (add(e, e->round, "beat", e->node, 1) < 0) return false;
  for (int i = 0; i < e->nodes; i++) {
    int64_t beat = add(e, e->round, "beat", i, 0);
    if (beat < 0) return false;
    if (beat != e->beat[i] || e->heard[i] == 0) {
      e->beat[i] = beat;
      e->heard[i] = now;
    }
    if (now - e->heard[i] > SILENCE) return false;
  }
  return true;
}

static tli_ElasticState look(tli_Elastic *e, bool ours_done) {
  int64_t now = tli_now_ns();
  if (now - e->looked < LOOK) return TLI_ELASTIC_ON;
  e->looked = now;
  if (add(e, e->round, "failed", -1, 0) != 0) return TLI_ELASTIC_FAILED;
  if (!all_live(e, now)) return TLI_ELASTIC_FAILED;
  /* whether a new launcher may start another round: not once some launchers are done, because their
  ** ranks do not restart */
  bool may_grow = !ours_done && e->nodes < e->most && add(e, e->round, "done", -1, 0) == 0;
  return may_grow && add(e, e->round + 1, "came", -1, 0) > 0 ? TLI_ELASTIC_GROWS : TLI_ELASTIC_ON;
}

tli_ElasticState tli_elastic_look(tli_Elastic *e) {
  tli_ElasticState state = look(e, false);
  if (state == TLI_ELASTIC_FAILED) tli_elastic_fail(e);
  return state;
}

void tli_elastic_fail(tli_Elastic *e) {
  if (add(e, e->round, "failed", -1, 1) < 0) drop(e);
}

tli_ElasticState tli_elastic_finish(tli_Elastic *e) {
  int64_t done = add(e, e->round, "done", -1, 1);
  while (done >= 0 && done < e->nodes) {
    tli_ElasticState state = look(e, true);
    if (state == TLI_ELASTIC_FAILED) {
      tli_elastic_fail(e);
      return state;
    }
    nap();
    done = add(e, e->round, "done", -1, 0);
  }
  /* the launcher that serves the store ends last; a launcher that cannot reach the store assumes
  ** that all ranks are done */
  add(e, e->round, "seen", -1, 1);
  int64_t deadline = tli_now_ns() + FAREWELL;
  while (e->server && tli_now_ns() < deadline && add(e, e->round, "seen", -1, 0) < e->nodes) nap();
  return TLI_ELASTIC_ON;
}

void tli_elastic_close(tli_Elastic *e) { drop(e); }
