/*
** mpi.h - groups whose ranks are processes that mpirun or srun has started, on one machine or many.
** MPI's functions are called through table.h, by a plugin that is loaded on first use.
**
** MPI makes no progress by itself: the thread that waits (the caller or the group's thread) polls
** its requests. One lock serialises all calls of MPI (MPI_THREAD_SERIALIZED).
**
** Every collective begins with an exchange of headers, so that ranks whose calls differ all get an
** error, instead of passing mismatched calls to MPI. Failures are published in the store, which a
** waiting rank reads now and then. A request that MPI has begun cannot be cancelled, so the tensors
** of a failed call are never released.
*/
#ifndef TLI_DIST_MPI_H
#define TLI_DIST_MPI_H

#include "dist/inside.h"
#include "dist/mpi/table.h"
#include "dist/failure_report.h"

typedef struct tli_MpiMessage tli_MpiMessage;

typedef struct tli_MpiGroup {
  tli_Group base;
  const tli_Mpi *mpi;
  tli_MpiComm *comm; /* owned */
  tli_FailureReport report;
  int next_tag; /* tag for the data of the next message */
  /* list of messages that have not ended, in the order in which they began (owned) */
  tli_MpiMessage *messages;
} tli_MpiGroup;

static inline tli_MpiGroup *tli_mpi_group(tli_Group *g) { return (tli_MpiGroup *)(void *)g; }

/* Returns the table of the MPI library that has started this process; loads its plugin on first use
** (find_mpi.c). Returns NULL with a message that names the missing part. *rank and *size refer to
** all processes that MPI has started. */
const tli_Mpi *tli_mpi_open(int *rank, int *size) TL_MUSTCHECK;
/* Returns whether MPI can be used; if it cannot, leaves a message. The function does not initialise
** MPI. */
bool tli_mpi_available(void);
/* The lock that serialises the calls of MPI by all threads and groups. */
extern tli_Mutex tli_mpi_lock;
/* Returns true if `code`, the result of a function of MPI, is 0; otherwise false with MPI's error
** text. The caller does not hold tli_mpi_lock. */
bool tli_mpi_ok(const tli_Mpi *mpi, int code) TL_MUSTCHECK;

/* ---- waiting (wait.c) ---- */

typedef struct tli_MpiPause {
  int turns;
  int64_t looked;
} tli_MpiPause;

/* Called between two tests of requests. Returns at once the first times, so that the caller polls,
** and sleeps later. Returns false with a message if the group has failed or the deadline of `w` has
** passed. */
bool tli_mpi_pause(tli_MpiGroup *m, tli_Work *w, tli_MpiPause *p) TL_MUSTCHECK;
/* Returns false with a message if the group has failed or the deadline of `w` has passed. */
bool tli_mpi_look(tli_MpiGroup *m, tli_Work *w) TL_MUSTCHECK;
/* Waits for n requests of the call w. After a failure, w and its tensors are never released,
** because MPI may still use them. */
bool tli_mpi_finish(tli_MpiGroup *m, tli_Work *w, tli_MpiRequest *q, int n) TL_MUSTCHECK;
/* Abandons a call. The call's memory is never freed, because MPI may still use it. */
void tli_mpi_abandon(tli_MpiGroup *m, tli_Work *w);

/* ---- calls ---- */

bool tli_mpi_collective(tli_Group *g, tli_Work *w) TL_MUSTCHECK; /* collectives.c */
void tli_mpi_post(tli_Group *g, tli_Work *w);                    /* messages.c */
bool tli_mpi_move(tli_Group *g, bool slept);
bool tli_mpi_await(tli_Group *g, tli_Work *w) TL_MUSTCHECK;
void tli_mpi_fail(tli_Group *g);

#endif
