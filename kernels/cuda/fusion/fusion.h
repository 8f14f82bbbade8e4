/*
** fusion.h - fuses chains of elementwise kernels into one kernel each while a graph is
** captured. Calls on a capturing stream stay pending (chain.c) until something else is queued
** on that stream. Then CUDA C is generated for the chain (source.c), compiled or loaded from
** disk (kernel_cache.c), and launched. If that is impossible, the calls are launched one by one.
**
** The results have the same bits as without fusion: each step computes by the same function of
** math.h and is rounded to its dtype, and each thread runs the steps for its elements in order.
*/
#ifndef TLK_CUDA_FUSION_H
#define TLK_CUDA_FUSION_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/fusion/call.h"

/* An array or a number that steps of a chain work on. Two steps share an operand only if they use
** the same elements in the same order; operands that are not shared must not overlap. */
typedef struct fusion_Operand {
  char *data; /* address of the array; NULL for a number */
  int64_t number;
  tl_DType dtype;
  int64_t strides[FUSION_DIMS]; /* strides in bytes */
  const char *low, *high;       /* address of the first byte, and of the end of the last byte */
  bool loaded;                  /* whether a step reads values from before the chain */
  bool written;
  bool dead; /* whether the memory is freed after the last step that writes it */
} fusion_Operand;

typedef enum fusion_Kind {
  FUSION_POINTWISE = TLK_KERNEL_pointwise,
  FUSION_FUSED = TLK_KERNEL_fused, /* kernels with several outputs: SwiGLU, rotations */
  FUSION_COPY = TLK_KERNEL_copy,
  FUSION_FILL = TLK_KERNEL_fill,
  FUSION_DROPOUT = TLK_KERNEL_dropout
} fusion_Kind;

typedef struct fusion_Step {
  fusion_Kind kind;
  int kernel; /* a tlk_Pointwise or a tlk_Fused */
  tl_DType compute;
  int outputs, out[FUSION_OUTPUTS], inputs, in[FUSION_INPUTS]; /* numbers and indices of operands */
  /* Numeric parameters: those of a pointwise kernel; the bytes that fill writes; for dropout the
  ** scale, the limit below which words keep an element, the first block and the generator's
  ** state. */
  fusion_Number params[FUSION_PARAMS];
  tlk_FaultSource source; /* the call that a message names, for kernels that may find faults */
} fusion_Step;

/* A chain as one loop; dimension 0 is the innermost. */
typedef struct fusion_Plan {
  int64_t numel;
  int ndim, noperands, nsteps;
  int64_t sizes[FUSION_DIMS];
  fusion_Operand operands[FUSION_OPERANDS];
  fusion_Step steps[FUSION_STEPS];
} fusion_Plan;

/* ---- grouping.c: what goes together ---- */

/* Adds a call to a plan, which may be empty. Returns false and leaves the plan unchanged if the
** call does not fit: its shape differs, its memory overlaps the plan's memory without being the
** same elements in the same order, there are too many operands, or its random numbers are equal at
** each replay. `call` is a tlk_pointwise, tlk_fused, tlk_copy, tlk_fill or tlk_dropout, as `kind`
** says. */
bool fusion_add(fusion_Plan *plan, fusion_Kind kind, const void *call);
/* Tells a plan that the values in these bytes are not read after the chain. */
void fusion_forget(fusion_Plan *plan, const char *data, int64_t bytes);
/* Returns whether some step reads an earlier step's result that the kernel would still have to
** store. */
bool fusion_keeps(const fusion_Plan *plan);
/* Merges dimensions that are contiguous for all operands. */
void fusion_merge(fusion_Plan *plan);

/* ---- source.c: generating CUDA C ---- */

enum { FUSION_SOURCE = 24 * 1024 };

/* Returns the number of elements that a thread processes at a time. */
int fusion_width(const fusion_Plan *plan);
/* Writes the source of a merged plan's kernel, named fusion_chain; returns false if `out` is
** too small. */
bool fusion_write(const fusion_Plan *plan, char out[FUSION_SOURCE]);
/* Lists the names and texts of the files that the source includes; returns their number. */
int fusion_headers(const char *const **names, const char *const **texts);

/* ---- kernel_cache.c: compiling and launching ---- */

/* Returns whether chains can be compiled and the user has not turned that off. */
bool fusion_possible(void);
/* Launches a merged plan's kernel; *done stays false if there is none. */
bool fusion_run(const tlk_Context *cx, const fusion_Plan *plan, bool *done);

/* ---- chain.c: pending calls ---- */

/* Adds a call to its stream's pending chain, if the stream captures and the call fits. Otherwise
** launches the pending chain first. Returns false with a message on failure. */
bool fusion_take(fusion_Kind kind, const void *call, bool *taken);
/* Adds the gradient of an activation to the chain as fusion_take adds a call; the caller still has
** to sum the bias's gradient. */
bool fusion_take_activation(const struct tlk_activation_backward *call, bool *taken);
/* Launches the stream's pending chain. Every other function that queues work calls it first. */
bool fusion_settle(const tl_Stream *stream);
/* Returns whether a call would launch a chain that stores results which may be garbage (`pending` in
** api.h). */
bool fusion_pending(const tl_Stream *stream, int kernel, const void *call);
/* Launches all pending chains of a capture (cuda_capture) at the capture's end. Returns true if no
** chain of the capture has failed. */
bool fusion_settle_all(uint64_t capture);
/* Notes that a block of a device's memory was freed. */
void fusion_freed(int device, const void *data, int64_t bytes);

#endif
