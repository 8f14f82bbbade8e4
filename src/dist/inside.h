/*
** inside.h - what the files of a group in shared memory know of one another.
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
#ifndef TLI_DIST_INSIDE_H
#define TLI_DIST_INSIDE_H

#include "core/platform.h"
#include "core/share.h"
#include "dist/group.h"

#define TLI_SLOT ((int64_t)256 << 10) /* bytes, for one round */
#define TLI_RING ((int64_t)128 << 10)

/* What a rank is about, for messages. */
typedef struct tli_Status {
  int64_t number; /* of its collective, from 1; 0: none yet */
  int8_t kind, dtype, active, ndim;
  int16_t peer;
  int64_t sizes[TL_MAX_DIMS];
  char site[96];
} tli_Status;

/* One rank's, in shared memory. */
typedef struct tli_Line {
  _Alignas(64) _Atomic uint64_t step; /* rounds that it has published */
  struct {
    uint64_t hash; /* of the call that the round belongs to */
    int64_t most;  /* the largest part that it moves, bytes */
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

typedef struct tli_Part {
  char *data; /* borrowed of a piece */
  int64_t bytes;
} tli_Part;

/* A tensor of a call, and what stands for it on the host. */
typedef struct tli_Piece {
  tl_Tensor *target, *host; /* owned */
  bool in, out;
} tli_Piece;

enum { TLI_PENDING, TLI_DONE, TLI_FAILED };
enum { TLI_MOST_EVENTS = 4 };

struct tli_Work {
  atomic_int refs;
  atomic_uint state;
  size_t bytes;     /* of this block */
  tli_Group *group; /* borrowed, while it is pending */
  tli_Work *next;
  tli_Collective kind;
  tli_Reduction reduce;
  int root;
  int64_t tag, timeout;
  tl_DType dtype;
  uint64_t hash;
  tli_Status status;
  bool finished;
  bool counted; /* the thread makes it, and has a reference */
  int nevents;
  struct tl_Event *events[TLI_MOST_EVENTS]; /* owned: copies to the host */
  tl_Device event_devices[TLI_MOST_EVENTS];
  int64_t deadline; /* once it runs */
  bool head_done;   /* a message's */
  int64_t at;
  int source;
  tl_ErrorKind error;
  char message[1000];
  int npieces, nin, nout;
  tli_Piece *pieces; /* in the block */
  tli_Part *in, *out;
};

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

struct tli_Group {
  tli_Share share;
  tli_Header *header; /* in shared memory */
  tli_Line *lines;
  tli_Ring *rings;
  char *slots;
  int rank, size;
  int ranks[TLI_MOST_RANKS];
  int64_t timeout;
  bool detail;
  int64_t number; /* collectives so far */
  /* of whoever makes a call, the caller or the thread, who holds this */
  tli_Mutex engine;
  bool by_thread; /* the thread holds it */
  uint64_t step, hash;
  bool checked;                             /* the others' calls of this step */
  tli_Work *posted, *sends[TLI_MOST_RANKS]; /* messages under way, in their order */
  tli_Incoming incoming[TLI_MOST_RANKS];
  /* of both */
  tli_Mutex lock;
  tli_Work *first, **last; /* guarded: for the thread */
  atomic_int outstanding;  /* what the thread has not ended yet */
  bool has_thread;
  atomic_bool closing;
  atomic_uint ended;
};

static inline tli_Line *tli_line(const tli_Group *g, int rank) { return &g->lines[rank]; }
static inline char *tli_slot(const tli_Group *g, int rank, uint64_t step) {
  return g->slots + ((int64_t)rank * 2 + (int64_t)(step & 1)) * TLI_SLOT;
}
static inline tli_Ring *tli_ring(const tli_Group *g, int from, int to) {
  return &g->rings[from * g->size + to];
}

/* ---- waiting (wait.c) ---- */

/* Something has changed that may interest a rank. */
void tli_bell(tli_Group *g, int rank);

typedef struct tli_Wait {
  uint64_t step;           /* of a round: the others' ... */
  int who;                 /* ... of one rank, or -1: of all */
  const tli_Work *message; /* or: until this one has ended */
  const tli_Work *work;    /* what for: its deadline, its name */
} tli_Wait;

/* Waits, and moves messages meanwhile. False with a message when it is in vain. */
bool tli_await(tli_Group *g, const tli_Wait *wait) TL_MUSTCHECK;
/* Whether there is a reason to wait on; `slept`: looks also whether the others live. */
bool tli_wait_goes_on(tli_Group *g, const tli_Wait *wait, bool slept) TL_MUSTCHECK;
/* Records why the group is of no use any more, for all; false. The first reason counts. */
bool tli_break(tli_Group *g, const char *why);
/* The same as a failure of this call, after tli_fail. */
bool tli_broken(tli_Group *g);
/* "all_reduce number 3 of float32 [2] at a.lua:1", what a rank is about. */
void tli_status_text(const tli_Status *s, const tli_Group *g, char *out, size_t size);
tli_Status tli_status_of(const tli_Group *g, int rank);
void tli_status_set(tli_Group *g, const tli_Status *s, bool active);

/* ---- calls ---- */

/* A collective, to its end (collectives.c). */
bool tli_collective_run(tli_Group *g, tli_Work *w) TL_MUSTCHECK;
/* Begins a message (channel.c). */
void tli_message_post(tli_Group *g, tli_Work *w);
/* Moves what can be moved; whether there was something. */
bool tli_messages_move(tli_Group *g);
/* Ends all with this failure. */
void tli_messages_fail(tli_Group *g);
void tli_messages_free(tli_Group *g);
bool tli_messages_active(const tli_Group *g);
/* A call has ended; tl_error if not well (work.c). */
void tli_work_end(tli_Work *w, bool ok);

#endif
