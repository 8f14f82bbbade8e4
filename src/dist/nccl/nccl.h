/*
** nccl.h - groups whose ranks have a GPU each: what their files know of one another. NCCL itself is
** behind tl_CommApi (core/device/api.h), which the GPUs' plugin has.
**
** The caller puts a call on the group's stream, behind what the current stream has been given so
** far, and does not wait for it; whoever waits for the Work has the then current stream
** wait for its end. The group's thread looks on: it sees what has ended, what NCCL reports,
** what other ranks tell by the store, and which call is late, since NCCL waits for ever.
*/
#ifndef TLI_DIST_NCCL_H
#define TLI_DIST_NCCL_H

#include "core/device/backend.h"
#include "dist/telling.h"

/* Memory that NCCL was told of. */
typedef struct tli_NcclBuffer {
  tl_Tensor *tensor; /* owned */
  void *handle;      /* NULL: it makes no use of it */
} tli_NcclBuffer;

typedef struct tli_Nccl {
  tli_Group base;
  tli_Telling tell;
  const tl_CommApi *api;
  tl_Comm *comm;     /* owned */
  tl_Stream *stream; /* of all its calls */
  tl_Tensor *one;    /* owned: an element, for barriers */
  tl_CommStep *steps;
  int nsteps, room;
  int batches;      /* that are open */
  tli_Work *held;   /* borrowed: of the batch */
  tli_Work *flying; /* borrowed: launched, in their order */
  int64_t looked;   /* when the store was last asked */
  tli_NcclBuffer *buffers;
  int nbuffers, buffer_room;
} tli_Nccl;

static inline tli_Nccl *tli_nccl(tli_Group *g) { return (tli_Nccl *)(void *)g; }

/* The steps of a call, behind those that are there (steps.c). */
bool tli_nccl_plan(tli_Nccl *n, const tli_Work *w) TL_MUSTCHECK;

#endif
