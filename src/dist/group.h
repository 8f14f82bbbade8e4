/*
** group.h - process groups: ranks that work on the same things at the same time. They
** are of one machine and have memory in common, or of several and have MPI, or have a GPU each
** and NCCL; a rank is a process or, with shared memory, also an interpreter on a thread of one.
**
** Every rank makes the same calls in the same order. A call that does not come back in time,
** a rank that has ended, calls that differ: all are failures on all ranks, and the group is
** of no use from then on.
*/
#ifndef TLI_GROUP_H
#define TLI_GROUP_H

#include "core/tensor/tensor.h"
#include "dist/reduce.h"
#include "dist/store.h"

#define TLI_MOST_RANKS 4096
#define TLI_SHM_RANKS 128 /* of one machine */

/* X(name, text). SEND and RECV, the last ones, are between two ranks; the others are of all. */
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

/* Joins as rank `rank` of `size`, once all are there, by way of a store in which no other
** group has this name. `backend`: "shm", "mpi", "nccl" (by
** the calling thread's current CUDA device) or "record". ranks[i]: how messages call rank i.
** `timeout`, nanoseconds, is for joining and for each call. `detail`: shapes, too, must be
** the same on all ranks. */
tli_Group *tli_group_join(const char *backend, tli_Store *store, const char *name, int rank,
                          int size, const int *ranks, int64_t timeout, bool detail) TL_MUSTCHECK;
/* Whether there is a back end of this name, and this process has what it needs: "mpi" a library and
** one who has started it, "nccl" a GPU and the library. */
bool tli_group_available(const char *backend);
/* This process's number among those that mpirun or srun has started, how many they are, and
** the name of its machine. */
bool tli_mpi_rank(int *rank, int *size, char host[256]) TL_MUSTCHECK;
/* Gives the text of number 0 to all of them. */
bool tli_mpi_share(char *text, int bytes) TL_MUSTCHECK;

/* Ends a group on all its ranks, which get the reason: for a rank that fails between calls, while
** others wait for it. The first reason counts. */
void tli_group_abort(tli_Group *g, const char *why);
/* What is not done yet fails, here and, once it is waited for, on the others. NULL is fine. */
void tli_group_leave(tli_Group *g);
/* Nanoseconds for calls that are made from now on. */
void tli_group_set_timeout(tli_Group *g, int64_t timeout);
int tli_group_rank(const tli_Group *g);
int tli_group_size(const tli_Group *g);

/* What a rank of a group that only records would have sent, in calls of one kind. */
typedef struct tli_Traffic {
  int64_t calls, bytes;   /* bytes: of the larger of what goes in and comes out */
  int64_t messages, sent; /* to other ranks, sent in bytes */
} tli_Traffic;
/* False, without a message, for other groups. */
bool tli_group_traffic(const tli_Group *g, tli_Collective kind, tli_Traffic *out);

/* A call. Tensors of all devices and of any strides; all of one dtype, those of different
** ranks too. By kind, with N ranks:
**
**   BARRIER         nothing
**   BROADCAST       out: 1, of which the root's goes to all
**   ALL_REDUCE      out: 1, each replaced by the reduction of all
**   REDUCE          out: 1, the root's is replaced
**   ALL_GATHER      in: 1; out: N, the i-th as large as rank i's `in`
**   GATHER          in: 1; out: N on the root, none elsewhere
**   SCATTER         in: N on the root, none elsewhere; out: 1
**   REDUCE_SCATTER  in: N of one size; out: 1
**   ALL_TO_ALL      in: N, the i-th for rank i; out: N, the i-th from rank i
**   SEND            in: 1, to `root`
**   RECV            out: 1, from `root`, or from anybody where that is -1
**
** SENDs and RECVs between two ranks meet by `tag`, those of one tag in their order. */
typedef struct tli_Call {
  tli_Collective kind;
  tli_Reduction reduce;
  int root;
  int64_t tag;
  tl_Tensors in, out; /* borrowed */
  const char *site;   /* "script.lua:12", for good; NULL: unknown */
  int64_t timeout;    /* nanoseconds; 0: the group's */
} tli_Call;

/* Makes a call: NULL if it is a wrong one. With `async` a thread of the group's makes it while
** the caller goes on; the tensors must stay as they are until it was waited for. Else it
** has been made, well or not, as tli_work_wait tells. */
tli_Work *tli_group_start(tli_Group *g, const tli_Call *call, bool async) TL_MUSTCHECK;
/* Messages begun between the two calls go as one where the wire can do that, so that neither
** side waits for the order of the other's. Nests. */
bool tli_group_batch(tli_Group *g, bool begins) TL_MUSTCHECK;
/* The collectives that follow are of another pass of training than those before: ranks of which
** one has left a pass that the others have not make different calls. */
void tli_group_next_pass(tli_Group *g);
/* Tells that a tensor's memory is sent often, or no longer (`add` false): NCCL then works on it in
** place. The group keeps it until then. Nothing for other groups. */
bool tli_group_buffer(tli_Group *g, tl_Tensor *t, bool add) TL_MUSTCHECK;
/* A tensor of n zeros on the CPU, in memory that the group's ranks have in common: an all_reduce of
** such tensors, or of parts of them, is made without copies. *out is NULL where there is no such
** memory, or n is too small for it or too large. A collective: every rank calls it with the same arguments, or
** all get NULL. */
bool tli_group_common(tli_Group *g, tl_DType dtype, int64_t n, tl_Tensor **out) TL_MUSTCHECK;
/* Waits for the end of a call, for so many nanoseconds (0: without limit), and puts results
** where they belong: those of devices in the order of their current streams, for which it does
** not wait where the device makes the call. */
bool tli_work_wait(tli_Work *w, int64_t timeout) TL_MUSTCHECK;
tli_Collective tli_work_kind(const tli_Work *w);
/* Whether it has ended. */
bool tli_work_done(const tli_Work *w);
/* What went wrong, "" if nothing has. */
const char *tli_work_error(const tli_Work *w);
/* Of a RECV that has ended: whose message it was. */
int tli_work_source(const tli_Work *w);
void tli_work_release(tli_Work *w); /* NULL is fine */

#endif
