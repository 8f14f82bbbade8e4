/*
** shm.h - what the files of a group in shared memory know of one another.
**
** Collectives are made of rounds. In a round each rank writes into its slot, publishes that by
** counting its step up, waits for those whose slots it reads, and reads. There are two
** slots for each rank, used in turn; who is about to write for round s first waits until all
** have published s - 1, and thus have read what s - 2 has left there.
**
** Messages between two ranks go through a ring for each direction (channel.c).
**
** Who waits sleeps on its own line's bell; whoever publishes rings it.
*/
#ifndef TLI_DIST_SHM_H
#define TLI_DIST_SHM_H

#include "dist/inside.h"

/* Bytes for one round: so large that ranks which do not run at the same time seldom wait
** for one another, so small that all slots of a few ranks stay in the last cache. */
#define TLI_SLOT ((int64_t)2 << 20)
#define TLI_RING ((int64_t)128 << 10)

/* One rank's, in shared memory. */
typedef struct tli_Line {
  _Alignas(64) _Atomic uint64_t step; /* rounds that it has published */
  struct {
    uint64_t hash; /* of the call that the round belongs to */
    int64_t most;  /* the largest part that it moves, bytes; or the mark of common memory */
  } round[2];
  _Alignas(64) atomic_uint bell; /* counts what might interest it */
  atomic_uint sleepers;
  _Alignas(64) atomic_uint version; /* of the status; odd while it is written */
  tli_Status status;
  atomic_bool left;
} tli_Line;

typedef struct tli_Header {
  atomic_int joined;
  atomic_int broken; /* 1: being said why, 2: said */
  char why[900];
} tli_Header;

typedef struct tli_Ring { /* bytes from one rank to another */
  _Alignas(64) _Atomic uint64_t written;
  _Alignas(64) _Atomic uint64_t read;
  _Alignas(64) char data[TLI_RING];
} tli_Ring;

typedef struct tli_MessageHead {
  int64_t bytes, tag;
  uint64_t hash; /* of the dtype */
} tli_MessageHead;

/* A message that nobody has asked for yet. */
typedef struct tli_Stash {
  struct tli_Stash *next;
  tli_MessageHead head;
  char *data; /* owned */
} tli_Stash;

/* What comes from one rank. */
typedef struct tli_Incoming {
  bool has_head;
  tli_MessageHead head;
  int64_t at;
  tli_Work *to;     /* borrowed; where it goes, or */
  tli_Stash *stash; /* owned: here */
  tli_Stash *kept;  /* owned list, the oldest first */
} tli_Incoming;

typedef struct tli_Shm {
  tli_Group base;
  tli_Share share;
  tli_Header *header; /* in shared memory */
  tli_Line *lines;
  tli_Ring *rings;
  char *slots;
  uint64_t step, hash;
  bool checked;    /* the others' calls of this step */
  int64_t commons; /* how often it has made common memory, as on all ranks */
  tli_Work *posted, *sends[TLI_SHM_RANKS]; /* messages under way, in their order */
  tli_Incoming incoming[TLI_SHM_RANKS];
} tli_Shm;

static inline tli_Shm *tli_shm(tli_Group *g) { return (tli_Shm *)(void *)g; }
static inline tli_Line *tli_line(const tli_Shm *g, int rank) { return &g->lines[rank]; }
static inline char *tli_slot(const tli_Shm *g, int rank, uint64_t step) {
  return g->slots + ((int64_t)rank * 2 + (int64_t)(step & 1)) * TLI_SLOT;
}
static inline tli_Ring *tli_ring(const tli_Shm *g, int from, int to) {
  return &g->rings[from * g->base.size + to];
}

/* ---- waiting (wait.c) ---- */

/* Something has changed that may interest a rank. */
void tli_bell(tli_Shm *g, int rank);

typedef struct tli_Wait {
  uint64_t step;           /* of a round: the others' ... */
  int who;                 /* ... of one rank, or -1: of all */
  const tli_Work *message; /* or: until this one has ended */
  const tli_Work *work;    /* what for: its deadline, its name */
} tli_Wait;

/* Waits, and moves messages meanwhile. False with a message when it is in vain. */
bool tli_await(tli_Shm *g, const tli_Wait *wait) TL_MUSTCHECK;
/* Whether there is a reason to wait on; `slept`: looks also whether the others live. */
bool tli_wait_goes_on(tli_Shm *g, const tli_Wait *wait, bool slept) TL_MUSTCHECK;
/* Records why the group is of no use any more, for all; false. The first reason counts. */
bool tli_break(tli_Shm *g, const char *why);
/* The same as a failure of this call, after tli_fail. */
bool tli_broken(tli_Shm *g);
tli_Status tli_status_of(const tli_Shm *g, int rank);
void tli_status_set(tli_Shm *g, const tli_Status *s, bool active);

/* ---- memory in common (common.c) ---- */

/* A part of this rank's tensor in common memory, and those of the others. */
typedef struct tli_CommonPart {
  int64_t
      mark;   /* where it lies: those of all ranks that have the same belong together; 0: nowhere */
  char *data; /* of rank 0 */
  int64_t stride; /* bytes from one rank's to the next one's */
} tli_CommonPart;

tli_CommonPart tli_common_find(const tli_Shm *g, tli_Part part);
bool tli_shm_common(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out) TL_MUSTCHECK;
void tli_commons_leave(const tli_Shm *g);

/* ---- calls ---- */

/* A collective, to its end (collectives.c). */
bool tli_shm_collective(tli_Group *g, tli_Work *w) TL_MUSTCHECK;
/* Begins a message (channel.c). */
void tli_message_post(tli_Group *g, tli_Work *w);
/* Moves what can be moved; whether there was something. */
bool tli_messages_move(tli_Shm *g);
/* Ends all with this failure. */
void tli_messages_fail(tli_Group *g);
void tli_messages_free(tli_Shm *g);
bool tli_messages_active(const tli_Shm *g);
/* The message whose time is over first, or NULL. */
const tli_Work *tli_messages_urgent(const tli_Shm *g);

#endif
