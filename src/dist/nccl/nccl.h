/*
** nccl.h - groups whose ranks have a GPU each. NCCL is called through tl_CommApi
** (core/device/api.h), which the GPU's plugin implements.
**
** The caller queues a call on the group's stream and does not wait. The call starts after the work
** that is already queued on the current stream. Waiting for the call (tli_work_wait) makes the
** stream that is current at that time wait for the call's end. The group's thread monitors the
** calls. It notices calls that have ended, errors of NCCL, failures that other ranks publish in the
** store, and calls that are late, since NCCL itself waits forever.
*/
#ifndef TLI_DIST_NCCL_H
#define TLI_DIST_NCCL_H

#include "core/device/backend.h"
#include "dist/failure_report.h"

/* Memory that is registered with NCCL, so that NCCL sends it without copies. */
typedef struct tli_NcclBuffer {
  tl_Tensor *tensor; /* owned */
  void *handle;      /* NCCL's handle; NULL if NCCL does not use the buffer */
} tli_NcclBuffer;

typedef struct tli_Nccl {
  tli_Group base;
  tli_FailureReport report;
  const tl_CommApi *api;
  tl_Comm *comm;     /* owned */
  tl_Stream *stream; /* the stream on which all calls of the group run */
  tl_Tensor *one;    /* a tensor with one element, for barriers (owned) */
  tl_CommStep *steps;
  int nsteps, room;
  int batches;         /* number of open batches */
  tli_Work *held;      /* calls of the open batch (borrowed) */
  tli_Work *in_flight; /* launched calls, in the order of their launches (borrowed) */
  int64_t looked;      /* time of the last read of the store */
  tli_NcclBuffer *buffers;
  int nbuffers, buffer_room;
} tli_Nccl;

static inline tli_Nccl *tli_nccl(tli_Group *g) { return (tli_Nccl *)(void *)g; }

/* Translates the call `w` into steps, which are operations of NCCL, and appends the steps to the
** group's list (steps.c). */
bool tli_nccl_plan(tli_Nccl *n, const tli_Work *w) TL_MUSTCHECK;

#endif
