/*
** mpi.h - groups whose ranks are processes that mpirun or srun has started, on one machine or
** many: what their files know of one another. MPI itself is behind table.h, in a plugin that
** is opened when it is first asked for.
**
** MPI makes no progress by itself: whoever waits, the caller or the thread of a group, asks it
** again and again. All calls of MPI are made under one lock (MPI_THREAD_SERIALIZED).
**
** A call begins with a round in which all ranks tell what they are about to do, so that
** calls which differ fail on all of them instead of confusing MPI. Failures are told by the
** store, which who waits asks now and then. What MPI has begun cannot be taken back: the
** tensors of a call that has failed are never released.
*/
#ifndef TLI_DIST_MPI_H
#define TLI_DIST_MPI_H

#include "dist/inside.h"
#include "dist/mpi/table.h"
#include "dist/telling.h"

typedef struct tli_MpiMessage tli_MpiMessage;

typedef struct tli_MpiGroup {
  tli_Group base;
  const tli_Mpi *mpi;
  tli_MpiComm *comm; /* owned */
  tli_Telling tell;
  int next_tag;             /* of messages' bytes */
  tli_MpiMessage *messages; /* owned list, in their order */
} tli_MpiGroup;

static inline tli_MpiGroup *tli_mpi_group(tli_Group *g) { return (tli_MpiGroup *)(void *)g; }

/* The table of the MPI that has started this process, which is opened on first use (open.c).
** NULL with a message that says what is missing. rank and size: of all its processes. */
const tli_Mpi *tli_mpi_open(int *rank, int *size) TL_MUSTCHECK;
/* False with a message where there is none; begins nothing. */
bool tli_mpi_available(void);
/* What may stand between calls of MPI, of all threads and groups. */
extern tli_Mutex tli_mpi_lock;
/* True if code is 0, else false with MPI's words. */
bool tli_mpi_ok(const tli_Mpi *mpi, int code) TL_MUSTCHECK;

/* ---- waiting (wait.c) ---- */

typedef struct tli_MpiPause {
  int turns;
  int64_t looked;
} tli_MpiPause;

/* Between two looks at requests; longer and longer. False with a message when waiting for
** `w` is in vain. */
bool tli_mpi_pause(tli_MpiGroup *m, tli_Work *w, tli_MpiPause *p) TL_MUSTCHECK;
/* Looks for failures and the end of w's time. */
bool tli_mpi_look(tli_MpiGroup *m, tli_Work *w) TL_MUSTCHECK;
/* Waits for n requests. If it fails, w and its tensors stay for good. */
bool tli_mpi_finish(tli_MpiGroup *m, tli_Work *w, tli_MpiRequest *q, int n) TL_MUSTCHECK;
/* A call that is left as it is. */
void tli_mpi_abandon(tli_MpiGroup *m, tli_Work *w);

/* ---- calls ---- */

bool tli_mpi_collective(tli_Group *g, tli_Work *w) TL_MUSTCHECK; /* collectives.c */
void tli_mpi_post(tli_Group *g, tli_Work *w);                    /* messages.c */
bool tli_mpi_move(tli_Group *g, bool slept);
bool tli_mpi_await(tli_Group *g, tli_Work *w) TL_MUSTCHECK;
void tli_mpi_fail(tli_Group *g);

#endif
