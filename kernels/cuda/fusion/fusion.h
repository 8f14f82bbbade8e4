/*
** fusion.h - fuses each chain of elementwise kernels into one kernel while a graph is captured.
** Elementwise calls on a capturing stream stay pending (chain.c) until other work is queued on that
** stream. Then CUDA C is generated for the chain (source.c), compiled or loaded from disk
** (kernel_cache.c), and launched. If that is impossible, the calls are launched one by one.
**
** The results have the same bits as without fusion: each step calls the same function of math.h and
** rounds the result to the step's dtype, and each thread runs the steps in order for each of its
** elements.
*/
#ifndef TLK_CUDA_FUSION_H
#define TLK_CUDA_FUSION_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/fusion/call.h"

/* An array or a number that the steps of a chain read or write. Two steps share an operand only if
** they use the same elements in the same order. Different operands must not overlap. */
typedef struct fusion_Operand {
  char *data; /* address of the array; NULL for a number */
  int64_t number;
  tl_DType dtype;
  int64_t strides[FUSION_DIMS]; /* strides in bytes */
  const char *low, *high;       /* first byte, and one past the last byte */
  bool loaded;                  /* whether a step reads values that were stored before the chain */
  bool written;
  /* whether the memory is freed after the last step that writes to it, so that nothing needs to be
  ** stored */
  bool dead;
} fusion_Operand;

typedef enum fusion_Kind {
  FUSION_POINTWISE = TLK_KERNEL_pointwise,
  FUSION_FUSED = TLK_KERNEL_fused, /* kernels with several outputs, such as SwiGLU and rotations */
  FUSION_COPY = TLK_KERNEL_copy,
  FUSION_FILL = TLK_KERNEL_fill,
  FUSION_DROPOUT = TLK_KERNEL_dropout
} fusion_Kind;

typedef struct fusion_Step {
  fusion_Kind kind;
  int kernel; /* number of a tlk_Pointwise or a tlk_Fused */
  tl_DType compute;
  /* number of outputs and of inputs, and for each its index in the plan's operands */
  int outputs, out[FUSION_OUTPUTS], inputs, in[FUSION_INPUTS];
  /* Numeric parameters of the step. A pointwise kernel has its own parameters. fill has the bytes
  ** that it writes. dropout has the scale, the limit below which a random word keeps an element,
  ** the first block, and the generator's state. */
  fusion_Number params[FUSION_PARAMS];
  /* for kernels that may find faults: the call that the error message names */
  tlk_FaultSource source;
} fusion_Step;

/* The loop that computes a chain of elementwise calls; dimension 0 is the innermost. */
typedef struct fusion_Plan {
  int64_t numel;
  int ndim, noperands, nsteps;
  int64_t sizes[FUSION_DIMS];
  fusion_Operand operands[FUSION_OPERANDS];
  fusion_Step steps[FUSION_STEPS];
} fusion_Plan;

/* ---- grouping.c: which calls share a loop ---- */

/* Adds a call to a plan, which may be empty. Returns false and leaves the plan unchanged if the
** call does not fit. A call does not fit if its shape differs; if its memory overlaps the plan's
** memory and is not the same elements in the same order; if there are too many operands; if an
** operand is complex; or if its random numbers are the same at each replay. `kind` tells the struct
** of `call`: tlk_pointwise, tlk_fused, tlk_copy, tlk_fill or tlk_dropout. */
bool fusion_add(fusion_Plan *plan, fusion_Kind kind, const void *call);
/* Tells a plan that no one will read the values in these bytes after the chain. */
void fusion_forget(fusion_Plan *plan, const char *data, int64_t bytes);
/* Returns whether a step reads an earlier step's result in memory that has not been freed. If so,
** the kernel would have to store this result, too, instead of only keeping it in a register. */
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
/* Lists the names and texts of the files that the source includes, and returns their number. */
int fusion_headers(const char *const **names, const char *const **texts);

/* ---- kernel_cache.c: compiling and launching ---- */

/* Returns whether chains can be compiled and the user has not turned fusion off. */
bool fusion_possible(void);
/* Launches the kernel of a merged plan; *done stays false if there is no kernel. */
bool fusion_run(const tlk_Context *cx, const fusion_Plan *plan, bool *done);

/* ---- chain.c: pending calls ---- */

/* Adds a call to its stream's pending chain if the stream is capturing and the call fits. If the
** call does not fit, launches the pending chain first. Returns false with a message on failure. */
bool fusion_take(fusion_Kind kind, const void *call, bool *taken);
/* Adds the gradient of an activation to the chain as fusion_take does. The caller still has to sum
** the gradient of the bias. */
bool fusion_take_activation(const struct tlk_activation_backward *call, bool *taken);
/* Launches the stream's pending chain. Every other function that queues work calls this function
** first. */
bool fusion_settle(const tl_Stream *stream);
/* Returns whether the call would launch the stream's chain while memory that fusion_keeps asks for
** has not been freed. With -1 as `kernel`, returns whether the stream's capture has any pending
** chain (see `pending` in api.h). */
bool fusion_pending(const tl_Stream *stream, int kernel, const void *call);
/* Launches all pending chains of a capture at the end of the capture (see cuda_capture). Returns
** whether every chain of the capture was launched. */
bool fusion_settle_all(uint64_t capture);
/* Records that a block of a device's memory was freed. */
void fusion_freed(int device, const void *data, int64_t bytes);

#endif
