/*
** wait.c - waiting for MPI requests. Waiting ends early at a timeout, or when another rank reports
** a failure in the store.
*/
#include <stdio.h>

#include "core/platform/parallel.h"
#include "dist/mpi/mpi.h"

#define LOOK INT64_C(50000000) /* nanoseconds between two reads of the store */

static void sleep_for(int64_t ns) {
  atomic_uint none = 0;
  tli_word_wait(&none, 0, ns);
}

/* ---- waiting ------------------------------------------------------------------------- */

bool tli_mpi_look(tli_MpiGroup *m, tli_Work *w) {
  tli_Group *g = &m->base;
  if (m->report.broken) return tli_report_failed(&m->report);
  if (atomic_load(&g->closing)) return tli_fail(TL_EIO, "the process group was destroyed");
  if (!g->by_thread && !tli_go_on()) {
    char why[80], text[200];
    tl_ErrorKind kind = tl_error_kind();
    snprintf(text, sizeof text, "%s", tl_error());
    snprintf(why, sizeof why, "rank %d was interrupted", g->ranks[g->rank]);
    tli_report_publish(g, &m->report, why);
    return tli_fail(kind, "%s", text);
  }
  if (!tli_report_check(g, &m->report)) return false;
  return tli_now_ns() < w->deadline || tli_report_timeout(g, &m->report, w->kind, w->timeout);
}

bool tli_mpi_pause(tli_MpiGroup *m, tli_Work *w, tli_MpiPause *p) {
  int free_turns = m->base.size <= tli_processors() ? 1000 : 1;
  if (p->turns++ < free_turns) return true;
  sleep_for(p->turns < free_turns + 50 ? 10000 : 100000);
  int64_t now = tli_now_ns();
  if (p->looked == 0) p->looked = now;
  bool over = atomic_load(&m->base.closing) || now >= w->deadline;
  if (!over && now - p->looked < LOOK) return true;
  p->looked = now;
  return tli_mpi_look(m, w);
}

void tli_mpi_abandon(tli_MpiGroup *m, tli_Work *w) {
  m->mpi->give_up();
  if (!m->report.broken) tli_report_end(&m->base, &m->report, tl_error());
  atomic_fetch_add(&w->refs, 1);
}

bool tli_mpi_finish(tli_MpiGroup *m, tli_Work *w, tli_MpiRequest *q, int n) {
  tli_MpiPause pause = {0};
  for (int i = 0; i < n;) {
    bool done;
    tli_mutex_lock(&tli_mpi_lock);
    int code = m->mpi->test(&q[i], &done, NULL);
    tli_mutex_unlock(&tli_mpi_lock);
    bool ok = tli_mpi_ok(m->mpi, code);
    if (ok && done) {
      i++;
      continue;
    }
    if (m->messages) tli_mpi_move(&m->base, false);
    if (ok && tli_mpi_pause(m, w, &pause)) continue;
    tli_mpi_abandon(m, w);
    return false;
  }
  return true;
}
