/*
** group.c - joining and leaving groups whose ranks communicate by MPI, and the function table of
** that transport.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/mpi/mpi.h"

static bool check_numbers(const tli_Group *g, int rank, int size) {
  if (g->ranks[g->rank] != rank)
    return tli_fail(TL_EARG, "mpi: rank: this process is %d of %d, got %d", rank, size,
                    g->ranks[g->rank]);
  for (int r = 0; r < g->size; r++)
    if (g->ranks[r] < 0 || g->ranks[r] >= size)
      return tli_fail(TL_EARG, "mpi: rank: expected 0 to %d, got %d", size - 1, g->ranks[r]);
  return true;
}

/* Computes a tag from a group's name, so that groups that are created at the same time have
** different tags. */
static int tag_of(const char *name) {
  unsigned hash = 0x811c9dc5u;
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x01000193u;
  return (int)(hash % 30000u);
}

static void give_up(tli_Group *g) { tli_mpi_group(g)->mpi->give_up(); }

static bool join(tli_Group *g, tli_Store *store, const char *name) {
  tli_MpiGroup *m = tli_mpi_group(g);
  int rank, size;
  const tli_Mpi *mpi = tli_mpi_open(&rank, &size);
  TL_TRY(mpi);
  TL_TRY(check_numbers(g, rank, size));
  TL_TRY(tli_report_open(g, &m->report, store, name) && tli_report_join(g, &m->report));
  tli_mutex_lock(&tli_mpi_lock);
  m->mpi = mpi;
  m->report.ended = give_up;
  int code = mpi->comm(g->size, g->ranks, tag_of(name), &m->comm);
  tli_mutex_unlock(&tli_mpi_lock);
  return tli_mpi_ok(mpi, code);
}

static void leave(tli_Group *g) {
  tli_MpiGroup *m = tli_mpi_group(g);
  if (m->comm && !m->report.broken) {
    tli_mutex_lock(&tli_mpi_lock);
    m->mpi->comm_free(m->comm);
    tli_mutex_unlock(&tli_mpi_lock);
  }
  tli_report_close(&m->report);
}

static bool usable(tli_Group *g) {
  const tli_FailureReport *t = &tli_mpi_group(g)->report;
  return !t->broken || tli_report_failed(t);
}

static void note(tli_Group *g, const tli_Status *s, bool active) {
  tli_mpi_group(g)->report.status = *s;
  tli_mpi_group(g)->report.status.active = active;
}

static void abort_group(tli_Group *g, const char *why) {
  tli_report_abort(&tli_mpi_group(g)->report, why);
}

const tli_Transport tli_transport_mpi = {
    .name = "mpi",
    .bytes = sizeof(tli_MpiGroup),
    .most = TLI_MOST_RANKS,
    .nap = 100000,
    .available = tli_mpi_available,
    .join = join,
    .leave = leave,
    .usable = usable,
    .note = note,
    .collective = tli_mpi_collective,
    .post = tli_mpi_post,
    .move = tli_mpi_move,
    .await = tli_mpi_await,
    .fail = tli_mpi_fail,
    .abort = abort_group,
};
