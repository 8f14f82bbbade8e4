/*
** group.h - process groups: ranks that compute together. The ranks share the memory of one machine,
** or use MPI on one or more machines, or have a GPU each and use NCCL. A rank is a process or, with
** shared memory, also a thread with an interpreter of its own.
**
** Every rank makes the same calls in the same order. A call fails on all ranks if it does not
** return in time, if a rank has ended, or if the ranks' calls differ. After a failure the group
** cannot be used any more.
*/
#ifndef TLI_GROUP_H
#define TLI_GROUP_H

#include "core/tensor/tensor.h"
#include "dist/reduce.h"
#include "dist/store.h"

#define TLI_MOST_RANKS 4096
#define TLI_SHM_RANKS 128 /* the largest number of ranks on one machine */

/* The collectives and messages, as X(name, text). SEND and RECV involve two ranks. The others,
** which come before SEND, involve all ranks. Transports and work.c switch over this list without a
** default case, so that the compiler names the code that must be extended for a new collective. */
#define TLI_COLLECTIVES(X)            \
  X(BARRIER, "barrier")               \
  X(BROADCAST, "broadcast")           \
  X(ALL_REDUCE, "all_reduce")         \
  X(REDUCE, "reduce")                 \
  X(ALL_GATHER, "all_gather")         \
  X(GATHER, "gather")                 \
  X(SCATTER, "scatter")               \
  X(REDUCE_SCATTER, "reduce_scatter") \
  X(ALL_TO_ALL, "all_to_all")         \
  X(SEND, "send")                     \
  X(RECV, "recv")

typedef enum tli_Collective {
#define X(name, text) TLI_##name,
  TLI_COLLECTIVES(X)
#undef X
      TLI_NCOLLECTIVES
} tli_Collective;

extern const char *const tli_collective_names[TLI_NCOLLECTIVES];

typedef struct tli_Group tli_Group;
typedef struct tli_Work tli_Work;

/* Joins a group as rank `rank` of `size`; returns when all ranks have joined. The ranks find each
** other through a store in which no other group has the same name. `backend` is "shm", "mpi",
** "nccl" (with the calling thread's current CUDA device) or "record". ranks[i] is rank i's name in
** messages. `timeout`, in nanoseconds, applies to joining and to each call. If `detail` is set, the
** shapes must also be equal on all ranks. */
tli_Group *tli_group_join(const char *backend, tli_Store *store, const char *name, int rank,
                          int size, const int *ranks, int64_t timeout, bool detail) TL_MUSTCHECK;
/* Returns whether this process can use the back end with this name. "mpi" requires a library and a
** launcher that started the process; "nccl" requires a GPU and the library. */
bool tli_group_available(const char *backend);
/* Returns this process's rank among the processes that mpirun or srun has started, the number of
** those processes, and the name of this machine. */
bool tli_mpi_rank(int *rank, int *size, char host[256]) TL_MUSTCHECK;
/* Copies the text of process 0 to all processes that mpirun or srun has started. */
bool tli_mpi_share(char *text, int bytes) TL_MUSTCHECK;

/* Makes a group fail on all its ranks, and publishes the reason. A rank that fails between calls
** uses this function, because other ranks may be waiting for it. Only the first reason is kept. */
void tli_group_abort(tli_Group *g, const char *why);
/* Leaves the group. Pending calls fail on this rank and on the ranks that wait for this rank.
** Accepts NULL. */
void tli_group_leave(tli_Group *g);
/* Sets the timeout, in nanoseconds, of future calls. */
void tli_group_set_timeout(tli_Group *g, int64_t timeout);
int tli_group_rank(const tli_Group *g);
int tli_group_size(const tli_Group *g);

/* The recorded traffic of one rank, for one kind of calls. */
typedef struct tli_Traffic {
  /* number of calls, and for each call the larger of its inputs' and its outputs' bytes, summed
  ** up */
  int64_t calls, bytes;
  /* number of messages to other ranks, and number of bytes in these messages */
  int64_t messages, sent;
} tli_Traffic;
/* Reads the traffic of this rank; returns false, without a message, if the group does not record
** traffic. */
bool tli_group_traffic(const tli_Group *g, tli_Collective kind, tli_Traffic *out);

/* A call. Tensors may be on any device and have any strides; all tensors of a call have the same
** dtype on all ranks. The kind determines the number of tensors (N is the number of ranks):
**
**   BARRIER         no tensors
**   BROADCAST       out: 1; the root's is copied to all
**   ALL_REDUCE      out: 1, each replaced by the reduction of all
**   REDUCE          out: 1, the root's is replaced
**   ALL_GATHER      in: 1; out: N, the i-th as large as rank i's `in`
**   GATHER          in: 1; out: N on the root, none elsewhere
**   SCATTER         in: N on the root, none elsewhere; out: 1
**   REDUCE_SCATTER  in: N of one size; out: 1
**   ALL_TO_ALL      in: N, the i-th for rank i; out: N, the i-th from rank i
**   SEND            in: 1, to `root`
**   RECV            out: 1, from `root`, or from any rank if that is -1
**
** A RECV receives the SEND with the same `tag` from the same rank. Calls with equal tags match in
** the order in which they are made. */
typedef struct tli_Call {
  tli_Collective kind;
  tli_Reduction reduce;
  int root;
  int64_t tag;
  tl_Tensors in, out; /* borrowed */
  /* line of the script that makes the call, "script.lua:12" (static); NULL if unknown */
  const char *site;
  int64_t timeout; /* timeout in nanoseconds; 0 means the group's timeout */
} tli_Call;

/* Starts a call; returns NULL with a message if its arguments are wrong. With NCCL, the device runs
** the call. Otherwise a thread of the group runs the call if `async` is set or earlier calls are
** pending; if not, the call has ended on return. In each case tli_work_wait waits for the end and
** tells whether the call succeeded. The tensors must not change before it has returned. */
tli_Work *tli_group_start(tli_Group *g, const tli_Call *call, bool async) TL_MUSTCHECK;
/* Begins a batch, or ends it if `begins` is false. The messages that begin within a batch are sent
** together if the transport supports that, so their order may differ between ranks. Batches can be
** nested. */
bool tli_group_batch(tli_Group *g, bool begins) TL_MUSTCHECK;
/* Begins the next training pass. Two calls that ranks make in different passes are different calls,
** which is an error. */
void tli_group_next_pass(tli_Group *g);
/* Registers a tensor's memory that will be sent often, so that NCCL sends it without a copy. If
** `add` is false, ends the registration. The group keeps a registered tensor alive. With other back
** ends, the function does nothing. */
bool tli_group_buffer(tli_Group *g, tl_Tensor *t, bool add) TL_MUSTCHECK;
/* Creates a tensor of n zeros on the CPU in memory that the group's ranks share. An all_reduce of
** such tensors, or of parts of them, needs no copies. *out is NULL if no shared memory is
** available, or if n is too small or too large. This is a collective: every rank calls it with the
** same arguments, and either all ranks get a tensor or all get NULL. */
bool tli_group_common(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out) TL_MUSTCHECK;
/* Waits up to `timeout` nanoseconds (0: no limit) for the end of a call, and stores its results.
** Later work on the devices' current streams sees the results. If the device runs the call, the
** host does not wait. */
bool tli_work_wait(tli_Work *w, int64_t timeout) TL_MUSTCHECK;
tli_Collective tli_work_kind(const tli_Work *w);
/* Returns whether the call has ended, successfully or not. */
bool tli_work_done(const tli_Work *w);
/* Returns the error message of the call, or "". */
const char *tli_work_error(const tli_Work *w);
/* Returns the rank that sent the message of a finished RECV. */
int tli_work_source(const tli_Work *w);
void tli_work_release(tli_Work *w); /* Releases a call. Accepts NULL. */

#endif
