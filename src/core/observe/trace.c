/*
** trace.c - implements trace.h: the tracer of the calling thread, and the functions that report
** calls to the tracer.
*/
#include "core/observe/trace.h"

static _Thread_local tli_Tracer *tracer;
static _Thread_local uint64_t number; /* the number of this thread's last trace */

bool tli_trace_start(tli_Tracer *t) {
  if (tracer) return tli_fail(TL_EARG, "export: the model is already being traced");
  tracer = t;
  t->depth = 0;
  static _Atomic uint64_t last;
  number = atomic_fetch_add(&last, 1) + 1;
  atomic_fetch_add(&tli_profiles, 1);
  return true;
}

void tli_trace_stop(tli_Tracer *t) {
  if (tracer != t) return;
  tracer = NULL;
  atomic_fetch_sub(&tli_profiles, 1);
}

bool tli_tracing(void) { return tracer != NULL; }

uint64_t tli_trace_number(void) { return tracer ? number : 0; }

tli_Traced tli_trace_begin(const tli_Call *call, const tli_CallArg *args) {
  tli_Tracer *t = tracer;
  if (t == NULL || t->depth > 0) return TLI_UNTRACED;
  if (!t->begin(t, call, args)) return TLI_TRACE_REFUSED;
  t->depth++;
  return TLI_TRACED;
}

bool tli_trace_end(const tli_Call *call, const tli_CallArg *args, bool ok,
                   tl_Tensor *const *results, int64_t n) {
  tli_Tracer *t = tracer;
  if (t == NULL) return ok;
  t->depth--;
  return ok && t->end(t, call, args, results, n);
}

bool tli_trace_read_slowly(const tl_Tensor *t) {
  return tracer == NULL || tracer->depth > 0 || tracer->read(tracer, t);
}
