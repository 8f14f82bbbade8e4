/*
** inside.h - declarations shared by the files of src/dist: groups, their calls, and the transport,
** a table of functions by which a group's ranks communicate. There are four transports: shared
** memory (shm/), MPI (mpi/), NCCL (nccl/), and a transport that sends nothing and records the
** traffic (record.c).
*/
#ifndef TLI_DIST_INSIDE_H
#define TLI_DIST_INSIDE_H

#include "core/platform/platform.h"
#include "core/observe/profile.h"
#include "core/platform/share.h"
#include "dist/group.h"

/* The call that a rank is making, as it is described in messages. */
typedef struct tli_Status {
  /* number of the rank's current collective, counted from 1; 0 before the first call */
  int64_t number;
  int64_t pass; /* number of the rank's training pass */
  int8_t kind, dtype, active, ndim;
  int16_t peer;
  int64_t sizes[TL_MAX_DIMS];
  char site[96];
} tli_Status;

typedef struct tli_Part {
  char *data; /* the part's first byte, borrowed from a tensor of the call */
  int64_t bytes;
} tli_Part;

/* A tensor passed to a collective call or a message, and the tensor's copy on the device where the
** group runs calls (usually the host). */
typedef struct tli_Piece {
  tl_Tensor *target, *staged; /* owned */
  bool in, out;
} tli_Piece;

/* TLI_COMMON_FROM is the smallest size in bytes of a tensor in shared memory (tli_group_common). An
** all_reduce of such tensors needs an extra barrier, which is worth its time only for large
** tensors. TLI_COMMON_MOST is the largest size; it keeps offsets below 2^40. */
#define TLI_COMMON_FROM ((int64_t)256 << 10)
#define TLI_COMMON_MOST ((int64_t)1 << 39)

enum { TLI_PENDING, TLI_DONE, TLI_FAILED };
enum { TLI_MOST_EVENTS = 4 };

struct tli_Work {
  atomic_int refs;
  atomic_uint state;
  size_t bytes;     /* size in bytes of the block that contains this struct */
  tli_Group *group; /* the group (borrowed while the call is pending) */
  tli_Work *next;
  tli_Collective kind;
  tli_Reduction reduce;
  int root;
  int64_t tag, timeout;
  tl_DType dtype;
  uint64_t hash;
  tli_Status status;
  bool finished;
  /* invitation by which the group's thread adds to the caller's profile (owned); NULL if no profile
  ** is being recorded */
  tli_Invitation *invitation;
  int64_t begun; /* tli_now_ns */
  /* whether the call counts as outstanding: the group's thread runs it and holds a reference */
  bool counted;
  int nevents;
  struct tl_Event *events[TLI_MOST_EVENTS]; /* events that mark the copies to the host (owned) */
  tl_Device event_devices[TLI_MOST_EVENTS];
  struct tl_Event *end;   /* event that marks the end of the call on a device's stream (owned) */
  tl_Device device;       /* the device of the event `end` */
  struct tl_Stream *from; /* the stream of the device that was current when the call was made */
  /* the time at which the call fails if it has not ended; set when the call starts */
  int64_t deadline;
  bool head_done; /* for a message in shared memory: whether the header was sent */
  int64_t at;
  int source;
  tl_ErrorKind error;
  char message[1000];
  int npieces, nin, nout;
  tli_Piece *pieces; /* the call's tensors, inside the same block */
  tli_Part *in, *out;
};

/* The transport: how the ranks of a group communicate. The functions from `usable` to `fail` are
** called only by the thread that holds the lock tli_Group.engine. At its end the group's thread
** calls `fail` without the lock, when no other thread uses the group any more. */
typedef struct tli_Transport {
  const char *name;
  /* size in bytes of the transport's own group struct, which begins with a tli_Group */
  size_t bytes;
  int most;    /* the largest number of ranks */
  int64_t nap; /* nanoseconds to sleep between two polls of pending messages */
  /* Returns false with a message if the machine or the process lacks a requirement. The pointer is
  ** NULL if the transport is always available. */
  bool (*available)(void);
  /* Makes this rank a member of the group; every rank of the group calls it. The caller calls
  ** `leave` even if `join` fails, and `leave` releases everything that `join` has allocated. */
  bool (*join)(tli_Group *g, tli_Store *store, const char *name);
  /* Leaves the group when no call is pending, and notifies ranks that wait for this rank. */
  void (*leave)(tli_Group *g);
  /* Returns false with a message if the group has failed. */
  bool (*usable)(tli_Group *g);
  /* Publishes this rank's current call for error messages. `active` tells whether the rank waits
  ** for other ranks in that call. */
  void (*note)(tli_Group *g, const tli_Status *s, bool active);
  /* Runs a collective and returns when it is complete. */
  bool (*collective)(tli_Group *g, tli_Work *w);
  /* Begins a message. This function, or a later call of `collective`, `move` or `await`, ends the
  ** message by calling tli_work_end. */
  void (*post)(tli_Group *g, tli_Work *w);
  /* Makes progress on pending messages, and returns whether there was any progress. If `slept` is
  ** set, also checks for calls past their deadlines and for failed ranks. */
  bool (*move)(tli_Group *g, bool slept);
  /* Waits until a message has ended; returns false with a message if the group has failed. */
  bool (*await)(tli_Group *g, tli_Work *w);
  /* Ends all pending messages as failed, with the calling thread's current error. */
  void (*fail)(tli_Group *g);
  /* Publishes for all ranks why the group has failed. This function may be called while another
  ** thread runs a call. The pointer is NULL if a group has no other ranks. */
  void (*abort)(tli_Group *g, const char *why);
  /* Launches the call on a stream of the group's device. The event w->end marks the call's
  ** completion, and `move` polls that event. The pointer is NULL for transports that do not queue
  ** calls; these have `collective`, `post` and `await` instead. */
  bool (*launch)(tli_Group *g, tli_Work *w);
  /* Collects launches until the batch ends, then runs them together. The pointer is NULL if the
  ** transport runs calls one by one. */
  bool (*batch)(tli_Group *g, bool begins);
  /* Registers memory that will be sent often; if `add` is false, ends the registration. The pointer
  ** is NULL if the transport does not register memory. */
  bool (*buffer)(tli_Group *g, tl_Tensor *t, bool add);
  /* Implements tli_group_common for more than one rank. The caller does not hold the engine lock.
  ** The pointer is NULL if the transport has no shared memory. */
  bool (*common)(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out);
} tli_Transport;

extern const tli_Transport tli_transport_shm, tli_transport_mpi, tli_transport_nccl,
    tli_transport_record;

struct tli_Group {
  const tli_Transport *transport;
  int rank, size;
  int *ranks;       /* for each rank of the group, its number in the world (owned) */
  tl_Device device; /* the device on which calls run; tensors on other devices are copied to it */
  int64_t timeout;
  bool detail;
  int64_t number; /* number of collectives that have begun */
  int64_t pass;   /* number of the training pass, see tli_group_next_pass */
  /* the lock held by the thread that runs a call: a caller or the group's thread */
  tli_Mutex engine;
  bool by_thread; /* whether the group's thread holds the engine's lock */
  /* The number of callers that wait for the group's thread. While it is 0, the callers are
  ** computing, so the group's thread does not poll, which would take processor time from them. */
  atomic_int callers;
  /* guards the fields that callers and the group's thread share */
  tli_Mutex lock;
  tli_Work *first, **last; /* calls queued for the group's thread (guarded) */
  atomic_int outstanding;  /* number of calls passed to the group's thread that have not ended */
  bool has_thread;
  atomic_bool closing;
  atomic_uint ended;
  /* The group's thread sleeps on the word *wake_count, and *sleepers is the number of threads that
  ** are asleep on it. Both words are in this struct, or in shared memory, where other ranks can
  ** wake the thread. */
  atomic_uint *wake_count, *sleepers;
  atomic_uint own_wake_count, own_sleepers;
};

/* Describes a rank's call, such as "all_reduce number 3 of float32 [2] at a.lua:1" (status.c). */
void tli_status_text(const tli_Status *s, const tli_Group *g, char *out, size_t size);
/* Marks a call as ended. If `ok` is false, the call's error is the message of tl_error (work.c). */
void tli_work_end(tli_Work *w, bool ok);
/* Appends a call to a list (work.c). */
void tli_work_append(tli_Work **list, tli_Work *w);

#endif
