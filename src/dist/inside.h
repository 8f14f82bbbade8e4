/*
** inside.h - what the files of src/dist know of one another: groups, their calls, and the
** table of functions by which a group's ranks reach one another, its wire. There are
** four: shared memory (shm/), MPI (mpi/), NCCL (nccl/), and one that only writes down
** what would be sent (record.c).
*/
#ifndef TLI_DIST_INSIDE_H
#define TLI_DIST_INSIDE_H

#include "core/platform/platform.h"
#include "core/observe/profile.h"
#include "core/platform/share.h"
#include "dist/group.h"

/* What a rank is about, for messages. */
typedef struct tli_Status {
  int64_t number; /* of its collective, from 1; 0: none yet */
  int64_t pass;   /* of training, in which it is */
  int8_t kind, dtype, active, ndim;
  int16_t peer;
  int64_t sizes[TL_MAX_DIMS];
  char site[96];
} tli_Status;

typedef struct tli_Part {
  char *data; /* borrowed of a piece */
  int64_t bytes;
} tli_Part;

/* A tensor of a call, and what stands for it where the group's calls are made: on the host
** mostly. */
typedef struct tli_Piece {
  tl_Tensor *target, *near; /* owned */
  bool in, out;
} tli_Piece;

/* From so many bytes on an all_reduce in common memory is worth one more wait for all; and the
** most, so that an offset is below 2^40. */
#define TLI_COMMON_FROM ((int64_t)256 << 10)
#define TLI_COMMON_MOST ((int64_t)1 << 39)

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
  tli_Invitation *invitation; /* owned; into the caller's profile; NULL */
  int64_t begun;              /* tli_now_ns */
  bool counted;               /* the thread makes it, and has a reference */
  int nevents;
  struct tl_Event *events[TLI_MOST_EVENTS]; /* owned: copies to the host */
  tl_Device event_devices[TLI_MOST_EVENTS];
  struct tl_Event *end;   /* owned: on the stream of a call that is launched */
  tl_Device device;       /* whose */
  struct tl_Stream *from; /* whose stream was current then */
  int64_t deadline;       /* once it runs */
  bool head_done;         /* a message's, in shared memory */
  int64_t at;
  int source;
  tl_ErrorKind error;
  char message[1000];
  int npieces, nin, nout;
  tli_Piece *pieces; /* in the block */
  tli_Part *in, *out;
};

/* How the ranks of a group reach one another. Of a group, one thread at a time is in
** `usable` to `fail`: whoever holds its engine. */
typedef struct tli_Wire {
  const char *name;
  size_t bytes; /* of a group, which begins with a tli_Group */
  int most;     /* ranks */
  int64_t nap;  /* nanoseconds to sleep between two looks at messages under way */
  /* False with a message where the machine or the process lacks what it needs; NULL: has it. */
  bool (*available)(void);
  /* Meets all others. What it has made when it fails is released by `leave`. */
  bool (*join)(tli_Group *g, tli_Store *store, const char *name);
  /* Nothing is under way any more; others that wait for this rank get to know. */
  void (*leave)(tli_Group *g);
  /* False with a message when the group has failed. */
  bool (*usable)(tli_Group *g);
  /* What this rank is about, and whether it waits in it. */
  void (*note)(tli_Group *g, const tli_Status *s, bool active);
  /* Makes a collective, to its end. */
  bool (*collective)(tli_Group *g, tli_Work *w);
  /* Begins a message, which ends by tli_work_end in one of the next two. */
  void (*post)(tli_Group *g, tli_Work *w);
  /* Moves what can be moved; whether there was something. With `slept`, looks also for late
  ** calls and failed ranks. */
  bool (*move)(tli_Group *g, bool slept);
  /* Until a message has ended; false with a message when the group has failed. */
  bool (*await)(tli_Group *g, tli_Work *w);
  /* Ends all messages with the failure of this thread. */
  void (*fail)(tli_Group *g);
  /* Tells all ranks why the group is of no use any more, also while another thread makes a
  ** call. NULL: there are no other ranks. */
  void (*abort)(tli_Group *g, const char *why);
  /* Of wires whose calls are put on a stream of the group's device; NULL for others, and then
  ** collective, post and await are. The caller launches, w->end is reached when it is made,
  ** and `move` looks for that. */
  bool (*launch)(tli_Group *g, tli_Work *w);
  /* Holds launches back until the end, when they go as one. NULL: they go one by one. */
  bool (*batch)(tli_Group *g, bool begins);
  /* Memory that is often sent, for as long as `add`; NULL: of no use. */
  bool (*buffer)(tli_Group *g, tl_Tensor *t, bool add);
  /* See tli_group_common, for more than one rank; NULL: has no such memory. No engine is held. */
  bool (*common)(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out);
} tli_Wire;

extern const tli_Wire tli_wire_shm, tli_wire_mpi, tli_wire_nccl, tli_wire_record;

struct tli_Group {
  const tli_Wire *wire;
  int rank, size;
  int *ranks;       /* owned: the world's numbers */
  tl_Device device; /* where its calls are made; tensors from elsewhere go through it */
  int64_t timeout;
  bool detail;
  int64_t number; /* collectives so far */
  int64_t pass;   /* see tli_group_next_pass */
  /* of whoever makes a call, the caller or the thread, who holds this */
  tli_Mutex engine;
  bool by_thread; /* the thread holds it */
  /* Callers that wait for what the thread makes: else they compute, and it is to let them. */
  atomic_int callers;
  /* of both */
  tli_Mutex lock;
  tli_Work *first, **last; /* guarded: for the thread */
  atomic_int outstanding;  /* what the thread has not ended yet */
  bool has_thread;
  atomic_bool closing;
  atomic_uint ended;
  /* what the thread sleeps on, and how many do: here, or where others can ring */
  atomic_uint *bell, *sleepers;
  atomic_uint own_bell, own_sleepers;
};

/* "all_reduce number 3 of float32 [2] at a.lua:1", what a rank is about (status.c). */
void tli_status_text(const tli_Status *s, const tli_Group *g, char *out, size_t size);
/* A call has ended; tl_error if not well (work.c). */
void tli_work_end(tli_Work *w, bool ok);
/* Puts it last (work.c). */
void tli_work_append(tli_Work **list, tli_Work *w);

#endif
