/*
** chain.c - elementwise calls of a stream that captures wait here, with their plan, until
** something else comes on the stream: other kernels, copies, events, the end of the capture.
** All of these come through the plugin's table, where fusion_settle is called first.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/cuda/fusion/fusion.h"
#include "kernels/cuda/plugin.h"

/* A call as it came, for where it has to be made by itself. */
typedef struct Call {
  fusion_Kind kind;
  union {
    struct tlk_pointwise pointwise;
    struct tlk_copy copy;
    struct tlk_fill fill;
  };
} Call;

typedef struct Chain {
  struct Chain *next;
  const tl_Stream *stream;
  tlk_Context cx;
  bool broken; /* calls could not be put on the stream: the graph would lack them */
  fusion_Plan plan;
  Call calls[FUSION_STEPS];
} Chain;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Chain *chains;               /* owned; guarded; one for each stream that has had one */
static atomic_int waiting;          /* chains that have calls */
static _Thread_local bool settling; /* what is freed meanwhile was of no chain */

static Chain *chain_of(const tl_Stream *stream) {
  Chain *c = chains;
  while (c && c->stream != stream) c = c->next;
  return c;
}

/* ---- settling ---------------------------------------------------------------------------------- */

static bool run_call(Call *call, const tlk_Context *cx) {
  call->copy.cx = cx; /* all begin with it */
  return call->kind == FUSION_POINTWISE ? tlk_pointwise(&call->pointwise)
         : call->kind == FUSION_COPY    ? tlk_copy(&call->copy)
                                        : tlk_fill(&call->fill);
}

_Static_assert(offsetof(struct tlk_pointwise, cx) == offsetof(struct tlk_copy, cx), "");
_Static_assert(offsetof(struct tlk_fill, cx) == offsetof(struct tlk_copy, cx), "");

static bool run(Chain *c, int n) {
  bool done = false;
  fusion_merge(&c->plan);
  if (n > 1 && !fusion_run(&c->cx, &c->plan, &done)) return false;
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

bool fusion_settle_all(int device) {
  bool ok = true;
  pthread_mutex_lock(&lock);
  for (Chain *c = chains; c; c = c->next)
    if (c->stream->device == device) {
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

/* ---- taking -------------------------------------------------------------------------------------- */

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
  size_t bytes = kind == FUSION_POINTWISE ? sizeof kept->pointwise
                 : kind == FUSION_COPY    ? sizeof kept->copy
                                          : sizeof kept->fill;
  kept->kind = kind;
  memcpy(&kept->pointwise, call, bytes);
  if (c->plan.nsteps == 1) atomic_fetch_add(&waiting, 1);
}

/* One that does not fit what waits begins anew. */
static bool take(const tlk_Context *cx, fusion_Kind kind, const void *call, bool *taken) {
  Chain *c = chain_of(cx->stream);
  if (c == NULL) c = chain_new(cx);
  if (c == NULL) return false;
  *taken = fusion_add(&c->plan, kind, call);
  if (!*taken) {
    if (!settle(c)) return false;
    *taken = fusion_add(&c->plan, kind, call);
  }
  c->cx = *cx;
  if (*taken) keep(c, kind, call);
  return true;
}

bool fusion_take(fusion_Kind kind, const void *call, bool *taken) {
  const tlk_Context *cx = ((const struct tlk_copy *)call)->cx;
  *taken = false;
  if (cuda_capture(cx->stream) == 0) return true;
  if (cx->stream->shared || !fusion_possible()) return fusion_settle(cx->stream);
  pthread_mutex_lock(&lock);
  bool ok = take(cx, kind, call, taken);
  pthread_mutex_unlock(&lock);
  return ok;
}
