/*
** fusion.h - chains of elementwise kernels that a graph captures become one kernel each. What
** is put on a stream meanwhile waits (chain.c) until something else comes on that stream; then
** CUDA C is written for the chain (source.c), compiled, or found on disk (kernel.c), and put on
** the stream in its place. Where that cannot be, the calls go there one by one, as ever.
**
** The bits are those of the single kernels: each step computes by the same function of math.h
** and is rounded to its dtype, and each thread does the steps for its elements in order.
*/
#ifndef TLK_CUDA_FUSION_H
#define TLK_CUDA_FUSION_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/fusion/call.h"

/* An array, or a number, that steps of a chain work on. Two steps have one operand in common
** only if they mean the same elements in the same order; else they may not even overlap. */
typedef struct fusion_Operand {
  char *data; /* NULL: a number */
  int64_t number;
  tl_DType dtype;
  int64_t strides[FUSION_DIMS]; /* bytes */
  const char *low, *high;       /* the bytes of it, from the first to past the last */
  bool loaded;                  /* a step reads what was there before the chain */
  bool written;
  bool dead; /* it was freed after the last step that writes it */
} fusion_Operand;

typedef enum fusion_Kind {
  FUSION_POINTWISE,
  FUSION_FUSED, /* kernels of several outputs: SwiGLU, rotations */
  FUSION_COPY,
  FUSION_FILL,
  FUSION_DROPOUT
} fusion_Kind;

typedef struct fusion_Step {
  fusion_Kind kind;
  int kernel; /* tlk_Pointwise or tlk_Fused */
  tl_DType compute;
  int outputs, out[FUSION_OUTPUTS], inputs, in[FUSION_INPUTS]; /* operands */
  /* The numbers of a pointwise kernel; the bytes that fill; scale, limit of the words that keep
  ** an element, first block and state of dropout. */
  fusion_Number params[FUSION_PARAMS];
  tlk_Blame blame; /* of kernels that may find faults */
} fusion_Step;

/* A chain as a loop: dimension 0 is the innermost. */
typedef struct fusion_Plan {
  int64_t numel;
  int ndim, noperands, nsteps;
  int64_t sizes[FUSION_DIMS];
  fusion_Operand operands[FUSION_OPERANDS];
  fusion_Step steps[FUSION_STEPS];
} fusion_Plan;

/* ---- grouping.c: what goes together ---- */

/* Adds a call to a plan, which may be empty; false, with the plan as it was, where it does not
** fit: another shape, memory that overlaps otherwise, too many operands, random numbers that
** are the same at each replay. `call` is a tlk_pointwise, tlk_fused, tlk_copy, tlk_fill or
** tlk_dropout, by its kind. */
bool fusion_add(fusion_Plan *plan, fusion_Kind kind, const void *call);
/* Nobody will read these bytes any more unless they are written anew. */
void fusion_forget(fusion_Plan *plan, const char *data, int64_t bytes);
/* Whether a step reads what one before it has made and the kernel would write all the same. */
bool fusion_keeps(const fusion_Plan *plan);
/* Dimensions that lie one after the other for all operands become one. */
void fusion_merge(fusion_Plan *plan);

/* ---- source.c: CUDA C ---- */

enum { FUSION_SOURCE = 24 * 1024 };

/* Elements that a thread takes at a time. */
int fusion_width(const fusion_Plan *plan);
/* The source of a merged plan's kernel, fusion_chain; false where there is no room. */
bool fusion_write(const fusion_Plan *plan, char out[FUSION_SOURCE]);
/* The files that the source includes, by name; how many. */
int fusion_headers(const char *const **names, const char *const **texts);

/* ---- kernel.c: compiling and launching ---- */

/* Whether chains can be compiled and are wanted. */
bool fusion_possible(void);
/* Puts a merged plan's kernel on the stream; *done stays false where there is none. */
bool fusion_run(const tlk_Context *cx, const fusion_Plan *plan, bool *done);

/* ---- chain.c: what waits ---- */

/* Takes the call, if its stream captures and it may become part of a chain: else what waits is
** put on the stream first. False with a message. */
bool fusion_take(fusion_Kind kind, const void *call, bool *taken);
/* The same for gradients before an activation; those of a bias are left to be summed. */
bool fusion_take_activation(const struct tlk_activation_backward *call, bool *taken);
/* Puts what waits on the stream there. To be called before anything else is. */
bool fusion_settle(const tl_Stream *stream);
/* The same for all streams of a capture (cuda_capture), at its end; true if none has failed, now
** or before. */
bool fusion_settle_all(uint64_t capture);
/* A block of a device's memory was freed. */
void fusion_freed(int device, const void *data, int64_t bytes);

#endif
