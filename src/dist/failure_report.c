/*
** failure_report.c - implements failure_report.h. The store has keys for the status of each rank
** and for the reason of a failure.
*/
#include "dist/failure_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* nanoseconds that the other ranks have to report their status */
#define ANSWER INT64_C(1000000000)
/* the time in nanoseconds for which this rank tries to reach the store */
#define ABORT INT64_C(5000000000)
/* nanoseconds that this rank waits for messages in flight after the store has ended */
#define ALONE INT64_C(1000000000)

bool tli_report_open(tli_Group *g, tli_FailureReport *t, tli_Store *store, const char *name) {
  t->status.dtype = -1;
  snprintf(t->name, sizeof t->name, "%s", name);
  t->store = tli_store_connect_again(store, g->timeout);
  return t->store != NULL;
}

void tli_report_close(tli_FailureReport *t) {
  tli_store_close(t->store);
  t->store = NULL;
}

void tli_report_key(const tli_FailureReport *t, char key[300], const char *what, int rank) {
  if (rank < 0)
    snprintf(key, 300, "%s/%s", t->name, what);
  else
    snprintf(key, 300, "%s/%s/%d", t->name, what, rank);
}

/* ---- meeting ------------------------------------------------------------------------- */

/* Reads from the store which ranks have joined, and sets an error that names the ranks that have
** not. Returns false. */
static bool absent(tli_Group *g, tli_FailureReport *t) {
  char list[300] = "", key[300], why[500];
  int at = 0, n = 0;
  snprintf(why, sizeof why, "%s", tl_error());
  for (int r = 0; r < g->size && at < (int)sizeof list - 16; r++) {
    bool there;
    tli_report_key(t, key, "here", r);
    TL_TRY(tli_store_check(t->store, key, &there));
    if (!there)
      at += snprintf(list + at, sizeof list - (size_t)at, "%s%d", n++ ? ", " : "", g->ranks[r]);
  }
  if (n == 0) return tli_fail(TL_EIO, "%s", why);
  return tli_fail(TL_EIO, "of %d ranks these did not join within %.3g s: %s", g->size,
                  (double)g->timeout / 1e9, list);
}

/* Waits until all ranks have joined. The ranks meet in the store, because waiting there has a
** timeout, unlike joining in MPI or NCCL. */
bool tli_report_join(tli_Group *g, tli_FailureReport *t) {
  char key[300];
  int64_t came;
  tli_report_key(t, key, "here", g->rank);
  TL_TRY(tli_store_set(t->store, key, "1", 1));
  tli_report_key(t, key, "joined", -1);
  TL_TRY(tli_store_add(t->store, key, 1, &came));
  tli_report_key(t, key, "all", -1);
  if (came == g->size) TL_TRY(tli_store_set(t->store, key, "1", 1));
  return tli_store_wait(t->store, key, g->timeout) || absent(g, t);
}

/* ---- failures of a group --------------------------------------------------------------- */

bool tli_report_failed(const tli_FailureReport *t) { return tli_fail(TL_EIO, "%s", t->why); }

bool tli_report_end(tli_Group *g, tli_FailureReport *t, const char *why) {
  bool first = !t->broken;
  t->broken = true;
  if (why != t->why) snprintf(t->why, sizeof t->why, "%s", why);
  if (first && t->ended) t->ended(g);
  return tli_report_failed(t);
}

/* Handles a store that cannot be reached. Rank 0 runs the store. When rank 0 ends, the store may
** end before the last data that rank 0 has sent arrives. So the group fails only after a delay, in
** which this data can arrive. */
static bool without_store(tli_Group *g, tli_FailureReport *t) {
  int64_t now = tli_now_ns();
  if (t->store_lost_at == 0) t->store_lost_at = now;
  if (now - t->store_lost_at >= ALONE) return tli_report_end(g, t, tl_error());
  tli_error_clear();
  return true;
}

/* Makes the group fail on this rank if another rank has published a reason for a failure. */
static bool read_why(tli_Group *g, tli_FailureReport *t, int64_t timeout) {
  char key[300];
  bool there;
  tli_report_key(t, key, "why", -1);
  if (!tli_store_check(t->store, key, &there))
    return timeout == 0 ? without_store(g, t) : tli_report_end(g, t, tl_error());
  if (!there && timeout == 0) return true;
  char *why = tli_store_get(t->store, key, NULL, timeout);
  if (why == NULL) return tli_report_end(g, t, tl_error());
  tli_report_end(g, t, why);
  free(why);
  return false;
}

bool tli_report_publish(tli_Group *g, tli_FailureReport *t, const char *why) {
  char key[300];
  int64_t came;
  tli_report_key(t, key, "breaks", -1);
  if (!tli_store_add(t->store, key, 1, &came)) return tli_report_end(g, t, why);
  if (came > 1) return read_why(g, t, 3000000000);
  tli_report_key(t, key, "why", -1);
  if (!tli_store_set(t->store, key, why, strlen(why))) tli_error_clear();
  return tli_report_end(g, t, why);
}

void tli_report_abort(const tli_FailureReport *t, const char *why) {
  char key[300];
  int64_t came;
  tli_Store *store = tli_store_connect_again(t->store, ABORT);
  if (store == NULL) return;
  tli_report_key(t, key, "breaks", -1);
  bool first = tli_store_add(store, key, 1, &came) && came == 1;
  tli_report_key(t, key, "why", -1);
  if (first && !tli_store_set(store, key, why, strlen(why))) tli_error_clear();
  tli_store_close(store);
}

/* Publishes the call that this rank waits for, if another rank has asked for it or if `asked` is
** set. Publishes it at most once. */
static bool answer(tli_Group *g, tli_FailureReport *t, bool asked) {
  char key[300], text[240];
  if (t->answered) return true;
  tli_report_key(t, key, "asked", -1);
  if (!asked && !tli_store_check(t->store, key, &asked)) return without_store(g, t);
  if (!asked) return true;
  t->answered = true;
  tli_status_text(&t->status, g, text, sizeof text);
  tli_report_key(t, key, "about", g->rank);
  return tli_store_set(t->store, key, text, strlen(text)) || tli_report_end(g, t, tl_error());
}

bool tli_report_check(tli_Group *g, tli_FailureReport *t) {
  return read_why(g, t, 0) && answer(g, t, false);
}

/* Writes the ranks' status texts to `all`, and to `who` a list of the ranks that do not answer. */
static void collect(tli_Group *g, tli_FailureReport *t, char *who, size_t room, char *all,
                    size_t size) {
  int64_t deadline = tli_now_ns() + ANSWER;
  int n = 0, at = 0, filled = 0;
  all[0] = who[0] = '\0';
  for (int r = 0; r < g->size && filled < (int)size - 300; r++) {
    char key[300];
    int64_t left = deadline - tli_now_ns();
    tli_report_key(t, key, "about", r);
    char *text = tli_store_get(t->store, key, NULL, left > 0 ? left : 0);
    if (text == NULL && at < (int)room - 16)
      at += snprintf(who + at, room - (size_t)at, "%s%d", n++ ? ", " : "", g->ranks[r]);
    filled += snprintf(all + filled, size - (size_t)filled, "; rank %d %s%s", g->ranks[r],
                       text ? "waits in " : "(missing) is elsewhere", text ? text : "");
    free(text);
  }
  tli_error_clear();
}

bool tli_report_timeout(tli_Group *g, tli_FailureReport *t, tli_Collective kind, int64_t timeout) {
  char key[300], who[200], all[900], why[1300];
  int64_t came;
  tli_report_key(t, key, "breaks", -1);
  if (!tli_store_add(t->store, key, 1, &came)) return tli_report_end(g, t, tl_error());
  tli_report_key(t, key, "asked", -1);
  if (came > 1) return answer(g, t, true) && read_why(g, t, 10 * ANSWER);
  if (!tli_store_set(t->store, key, "1", 1) || !answer(g, t, true))
    return tli_report_end(g, t, tl_error());
  collect(g, t, who, sizeof who, all, sizeof all);
  snprintf(why, sizeof why, "%s: %s%s did not arrive within %.3g s%s", tli_collective_names[kind],
           who[0] == '\0'     ? "what is waited for"
           : strchr(who, ',') ? "ranks "
                              : "rank ",
           who, (double)timeout / 1e9, all);
  tli_report_key(t, key, "why", -1);
  if (!tli_store_set(t->store, key, why, strlen(why))) tli_error_clear();
  return tli_report_end(g, t, why);
}
