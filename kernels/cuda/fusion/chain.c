/*
** chain.c - the pending chain of each capturing stream. A chain collects elementwise calls,
** together with a plan for them, until something else happens on the stream: another kernel, a
** copy, an event, or the end of the capture. All of these pass through the plugin's tables, whose
** functions first call fusion_settle to launch the chain.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

/* A copy of the arguments of a pending call. It is needed if the call is launched on its own
** instead of in the chain. */
typedef struct Call {
  fusion_Kind kind;
  union {
    struct tlk_pointwise pointwise;
    struct tlk_fused fused;
    struct tlk_copy copy;
    struct tlk_fill fill;
    struct tlk_dropout dropout;
  };
} Call;

typedef struct Chain {
  struct Chain *next;
  const tl_Stream *stream;
  uint64_t capture; /* number of the capture that the calls belong to */
  tlk_Context cx;
  /* becomes true if launching a call fails; the captured graph then lacks the call and is
  ** useless */
  bool broken;
  fusion_Plan plan;
  Call calls[FUSION_STEPS];
} Chain;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* linked list of chains, one for each stream that ever had one (owned); guarded by the lock */
static Chain *chains;
static atomic_int waiting; /* number of chains that are not empty */
/* whether this thread is launching a chain. Memory that is freed meanwhile belongs to no pending
** chain, so fusion_freed does nothing then. */
static _Thread_local bool settling;

static Chain *chain_of(const tl_Stream *stream) {
  Chain *c = chains;
  while (c && c->stream != stream) c = c->next;
  return c;
}

/* ---- launching a chain ----------------------------------------------------------------------- */

static bool run_call(Call *call, const tlk_Context *cx) {
  call->copy.cx = cx; /* each struct of a call begins with the context */
  switch (call->kind) {
  case FUSION_POINTWISE: return tlk_pointwise(&call->pointwise);
  case FUSION_FUSED: return tlk_fused(&call->fused);
  case FUSION_COPY: return tlk_copy(&call->copy);
  case FUSION_FILL: return tlk_fill(&call->fill);
  case FUSION_DROPOUT: return tlk_dropout(&call->dropout);
  }
  return false;
}

_Static_assert(offsetof(struct tlk_pointwise, cx) == offsetof(struct tlk_copy, cx), "");
_Static_assert(offsetof(struct tlk_fused, cx) == offsetof(struct tlk_copy, cx), "");
_Static_assert(offsetof(struct tlk_fill, cx) == offsetof(struct tlk_copy, cx), "");
_Static_assert(offsetof(struct tlk_dropout, cx) == offsetof(struct tlk_copy, cx), "");

static size_t bytes_of(fusion_Kind kind) {
  switch (kind) {
  case FUSION_POINTWISE: return sizeof(struct tlk_pointwise);
  case FUSION_FUSED: return sizeof(struct tlk_fused);
  case FUSION_COPY: return sizeof(struct tlk_copy);
  case FUSION_FILL: return sizeof(struct tlk_fill);
  case FUSION_DROPOUT: return sizeof(struct tlk_dropout);
  }
  return 0;
}

static bool run(Chain *c, int n) {
  bool done = false;
  fusion_merge(&c->plan);
  if (n > 1 && !fusion_run(&c->cx, &c->plan, &done)) return false;
  if (n > 1) (void)cuda_counted(CUDA_FUSION_KERNELS, done);
  for (int i = 0; !done && i < n; i++)
    if (!run_call(&c->calls[i], &c->cx)) return false;
  return true;
}

static bool settle(Chain *c) {
  int n = c->plan.nsteps;
  if (n == 0) return true;
  settling = true;
  bool ok = run(c, n);
  settling = false;
  c->broken = c->broken || !ok;
  memset(&c->plan, 0, sizeof c->plan);
  atomic_fetch_sub(&waiting, 1);
  return ok;
}

bool fusion_settle(const tl_Stream *stream) {
  if (atomic_load_explicit(&waiting, memory_order_relaxed) == 0) return true;
  pthread_mutex_lock(&lock);
  Chain *c = chain_of(stream);
  bool ok = c == NULL || settle(c);
  pthread_mutex_unlock(&lock);
  return ok;
}

bool fusion_settle_all(uint64_t capture) {
  bool ok = true;
  pthread_mutex_lock(&lock);
  for (Chain *c = chains; c; c = c->next)
    if (c->capture == capture) {
      if (settle(c) && c->broken)
        cuda_fail(TL_EDEVICE, "the graph lacks kernels that could not be put on their stream");
      ok = ok && !c->broken;
      c->broken = false;
    }
  pthread_mutex_unlock(&lock);
  return ok;
}

void fusion_freed(int device, const void *data, int64_t bytes) {
  if (settling || atomic_load_explicit(&waiting, memory_order_relaxed) == 0) return;
  pthread_mutex_lock(&lock);
  for (Chain *c = chains; c; c = c->next)
    if (c->stream->device == device) fusion_forget(&c->plan, data, bytes);
  pthread_mutex_unlock(&lock);
}

/* ---- collecting calls ------------------------------------------------------------------------ */

static Chain *chain_new(const tlk_Context *cx) {
  Chain *c = cuda_host->alloc(sizeof *c);
  if (c == NULL) return NULL;
  memset(c, 0, sizeof *c);
  c->next = chains;
  c->stream = cx->stream;
  return chains = c;
}

static void keep(Chain *c, fusion_Kind kind, const void *call) {
  Call *kept = &c->calls[c->plan.nsteps - 1];
  kept->kind = kind;
  memcpy(&kept->pointwise, call, bytes_of(kind));
  if (c->plan.nsteps == 1) atomic_fetch_add(&waiting, 1);
}

/* Adds a call to the stream's chain. *taken becomes false if the call does not fit into the
** chain. */
static bool take(const tlk_Context *cx, uint64_t capture, fusion_Kind kind, const void *call,
                 bool *taken) {
  pthread_mutex_lock(&lock);
  Chain *c = chain_of(cx->stream);
  if (c == NULL) c = chain_new(cx);
  *taken = c && fusion_add(&c->plan, kind, call);
  if (*taken) {
    c->cx = *cx;
    c->capture = capture;
    keep(c, kind, call);
  }
  pthread_mutex_unlock(&lock);
  return c != NULL;
}

/* Adds a call to the stream's pending chain if the call fits. Otherwise launches the chain, and
** begins a new chain with the call. */
bool fusion_take(fusion_Kind kind, const void *call, bool *taken) {
  const tlk_Context *cx = ((const struct tlk_copy *)call)->cx;
  uint64_t capture = cuda_capture(cx->stream);
  *taken = false;
  if (capture == 0) return fusion_settle(cx->stream);
  if (cx->stream->shared || !fusion_possible()) return fusion_settle(cx->stream);
  if (!take(cx, capture, kind, call, taken)) return false;
  if (*taken) return true;
  return fusion_settle(cx->stream) && take(cx, capture, kind, call, taken) &&
         (*taken || fusion_settle(cx->stream));
}

/* Returns the elementwise kernel that computes the gradient of an activation. */
static struct tlk_pointwise gradient_of(const struct tlk_activation_backward *call) {
  static const tlk_Pointwise kernels[] = {[TLK_ACTIVATION_RELU] = TLK_threshold_backward,
                                          [TLK_ACTIVATION_GELU] = TLK_gelu_backward,
                                          [TLK_ACTIVATION_GELU_TANH] = TLK_gelu_tanh_backward};
  const tlk_Array *arrays[] = {&call->grad_in, &call->grad_out, &call->saved};
  struct tlk_pointwise step = {.cx = call->cx, .kernel = kernels[call->activation]};
  tl_DType dtype = call->grad_in.dtype;
  int64_t n = call->rows * call->n, bytes = dtype == TL_F64 ? 8 : dtype == TL_F32 ? 4 : 2;
  step.compute = dtype == TL_F64 ? TL_F64 : TL_F32;
  step.it = (tli_Iter){.nargs = 3, .ndim = 1, .numel = n, .sizes = {n}};
  for (int k = 0; k < 3; k++)
    step.it.args[k] = (tli_IterArg){.data = arrays[k]->data, .dtype = dtype, .strides = {bytes}};
  return step;
}

bool fusion_take_activation(const struct tlk_activation_backward *call, bool *taken) {
  *taken = false;
  if (call->activation == TLK_ACTIVATION_NONE) return fusion_settle(call->cx->stream);
  struct tlk_pointwise step = gradient_of(call);
  return fusion_take(FUSION_POINTWISE, &step, taken);
}

/* ---- pending results ------------------------------------------------------------------------ */

/* Adds a call to a plan if it fits, and returns whether it did. */
static bool joins(fusion_Plan *plan, int kernel, const void *call) {
  switch (kernel) {
  case TLK_KERNEL_pointwise:
  case TLK_KERNEL_fused:
  case TLK_KERNEL_copy:
  case TLK_KERNEL_fill:
  case TLK_KERNEL_dropout: return fusion_add(plan, (fusion_Kind)kernel, call);
  case TLK_KERNEL_activation_backward: {
    const struct tlk_activation_backward *backward = call;
    if (backward->activation == TLK_ACTIVATION_NONE) return false;
    struct tlk_pointwise step = gradient_of(backward);
    return fusion_add(plan, FUSION_POINTWISE, &step);
  }
  default: return false;
  }
}

static bool would_store(const Chain *c, int kernel, const void *call) {
  fusion_Plan plan = c->plan;
  bool launches = !joins(&plan, kernel, call);
  /* the gradient of an activation does not join: the kernel that sums the bias's gradient launches
  ** the chain first */
  if (kernel == TLK_KERNEL_activation_backward)
    launches = launches || ((const struct tlk_activation_backward *)call)->grad_bias.data;
  return launches && fusion_keeps(&plan);
}

bool fusion_pending(const tl_Stream *stream, int kernel, const void *call) {
  if (atomic_load_explicit(&waiting, memory_order_relaxed) == 0) return false;
  uint64_t capture = cuda_capture(stream);
  bool found = false;
  pthread_mutex_lock(&lock);
  for (const Chain *c = chains; c && !found; c = c->next) {
    if (kernel < 0)
      found = c->capture == capture && c->plan.nsteps > 0;
    else
      found = c->stream == stream && would_store(c, kernel, call);
  }
  pthread_mutex_unlock(&lock);
  return found;
}
