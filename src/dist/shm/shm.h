/*
** shm.h - declarations shared by the source files of src/dist/shm, which implement process groups
** in shared memory.
**
** Collectives consist of rounds. In a round each rank writes into its slot, increments its step to
** publish the slot, and waits for the ranks whose slots it then reads. Each rank has two slots and
** uses them in turn. Before a rank writes for round s, it waits until all ranks have published
** round s - 1; by then they have read the data of round s - 2.
**
** Messages between two ranks use a ring buffer for each direction (channel.c).
**
** A waiting rank sleeps on the wake counter of its own tli_ShmRank. A rank that publishes a round
** wakes the sleeping ranks.
*/
#ifndef TLI_DIST_SHM_H
#define TLI_DIST_SHM_H

#include "dist/inside.h"

/* The size in bytes of a slot for one round. Slots are large enough that ranks scheduled at
** different times seldom wait for one another, and small enough that the slots of a few ranks stay
** in the last-level cache. */
#define TLI_SLOT ((int64_t)2 << 20)
#define TLI_RING ((int64_t)128 << 10)

enum { TLI_STATUS_WORDS = sizeof(tli_Status) / sizeof(unsigned) };
_Static_assert(sizeof(tli_Status) % sizeof(unsigned) == 0, "a status consists of whole words");

/* The state of one rank, in shared memory. */
typedef struct tli_ShmRank {
  _Alignas(64) _Atomic uint64_t step; /* number of rounds that the rank has published */
  struct {
    uint64_t hash; /* hash of the call that this round belongs to */
    /* number of bytes of the largest part that the call moves, or the mark of a tensor in shared
    ** memory */
    int64_t most;
  } round[2];
  /* incremented by other ranks after a change that this rank may be waiting for, if it sleeps */
  _Alignas(64) atomic_uint wake_count;
  atomic_uint sleepers;
  /* version of `status`; odd while `status` is being written */
  _Alignas(64) atomic_uint version;
  atomic_uint status[TLI_STATUS_WORDS]; /* a tli_Status */
  atomic_bool left;
} tli_ShmRank;

typedef struct tli_Header {
  atomic_int joined;
  atomic_int broken; /* 0, or 1 while the reason of a failure is being written, or 2 afterwards */
  char why[900];
} tli_Header;

typedef struct tli_Ring { /* A ring buffer for the bytes that one rank sends to another. */
  _Alignas(64) _Atomic uint64_t written;
  _Alignas(64) _Atomic uint64_t read;
  _Alignas(64) char data[TLI_RING];
} tli_Ring;

typedef struct tli_MessageHead {
  int64_t bytes, tag;
  uint64_t hash; /* hash of the elements' dtype */
} tli_MessageHead;

/* A message that no call has received yet. */
typedef struct tli_Stash {
  struct tli_Stash *next;
  tli_MessageHead head;
  char *data; /* owned */
} tli_Stash;

/* The message that is arriving from one rank. */
typedef struct tli_Incoming {
  bool has_head;
  tli_MessageHead head;
  int64_t at;
  /* the call that receives the message (borrowed); NULL if no call has been posted for it */
  tli_Work *to;
  tli_Stash *stash; /* the stash for the message (owned), used if no call receives the message */
  tli_Stash *kept;  /* complete messages that no call has received (owned list, oldest first) */
} tli_Incoming;

typedef struct tli_Shm {
  tli_Group base;
  tli_Share share;
  tli_Header *header; /* the group's header in shared memory */
  tli_ShmRank *lines;
  tli_Ring *rings;
  char *slots;
  uint64_t step, hash;
  /* whether this rank's call was compared with the other ranks' calls of this round */
  bool checked;
  /* number of shared memories that tli_group_common has created; equal on all ranks */
  int64_t commons;
  /* messages in flight, in the order in which they began */
  tli_Work *posted, *sends[TLI_SHM_RANKS];
  tli_Incoming incoming[TLI_SHM_RANKS];
} tli_Shm;

static inline tli_Shm *tli_shm(tli_Group *g) { return (tli_Shm *)(void *)g; }
static inline tli_ShmRank *tli_shm_rank(const tli_Shm *g, int rank) { return &g->lines[rank]; }
static inline char *tli_slot(const tli_Shm *g, int rank, uint64_t step) {
  return g->slots + ((int64_t)rank * 2 + (int64_t)(step & 1)) * TLI_SLOT;
}
static inline tli_Ring *tli_ring(const tli_Shm *g, int from, int to) {
  return &g->rings[from * g->base.size + to];
}

/* ---- waiting (wait.c) ---- */

/* Wakes a rank; called after a change that the rank may be waiting for. */
void tli_shm_wake(tli_Shm *g, int rank);

typedef struct tli_Wait {
  uint64_t step;           /* the round to wait for; used if `message` is NULL */
  int who;                 /* the rank that must publish that round; -1 means all ranks */
  const tli_Work *message; /* the message to wait for; NULL to wait for a round instead */
  const tli_Work *work;    /* the waiting call, which gives the deadline and the name in errors */
} tli_Wait;

/* Waits for the round or message given by `wait`, and makes progress on messages meanwhile. Returns
** false with an error message if the group has failed or a deadline has passed. */
bool tli_await(tli_Shm *g, const tli_Wait *wait) TL_MUSTCHECK;
/* Returns whether to continue waiting. If `slept` is set, also checks that the other ranks are
** alive. */
bool tli_wait_goes_on(tli_Shm *g, const tli_Wait *wait, bool slept) TL_MUSTCHECK;
/* Publishes for all ranks the reason why the group has failed; only the first reason is kept.
** Returns false. */
bool tli_break(tli_Shm *g, const char *why);
/* Sets this call's error to the reason of the group's failure. Returns false. */
bool tli_broken(tli_Shm *g);
tli_Status tli_status_of(const tli_Shm *g, int rank);
void tli_status_set(tli_Shm *g, const tli_Status *s, bool active);

/* ---- shared memory of tensors (shared_tensors.c) ---- */

/* A part of this rank's tensor in shared memory, and the corresponding parts of the other ranks'
** tensors. */
typedef struct tli_CommonPart {
  /* a number that is equal for corresponding parts on different ranks; 0 for a part that is not in
  ** shared memory */
  int64_t mark;
  char *data;     /* address of the part of rank 0's tensor */
  int64_t stride; /* distance in bytes from one rank's part to the next */
} tli_CommonPart;

tli_CommonPart tli_common_find(const tli_Shm *g, tli_Part part);
bool tli_shm_common(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out) TL_MUSTCHECK;
void tli_commons_leave(const tli_Shm *g);

/* ---- calls ---- */

/* Runs a collective and returns when it is complete (collectives.c). */
bool tli_shm_collective(tli_Group *g, tli_Work *w) TL_MUSTCHECK;
/* Begins a message (channel.c). */
void tli_message_post(tli_Group *g, tli_Work *w);
/* Makes progress on messages; returns whether there was any progress. */
bool tli_messages_move(tli_Shm *g);
/* Ends all messages with this thread's error message. */
void tli_messages_fail(tli_Group *g);
void tli_messages_free(tli_Shm *g);
bool tli_messages_active(const tli_Shm *g);
/* Returns the message with the earliest deadline, or NULL. */
const tli_Work *tli_messages_urgent(const tli_Shm *g);

#endif
