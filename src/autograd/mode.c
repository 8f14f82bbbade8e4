/*
** mode.c - the recording modes of a thread: grad mode and anomaly mode. Inference mode, which marks
** tensors when they are made, is in src/core (core/tensor/tensor.h). Invariant: in inference mode
** nothing is recorded, even if grad mode is on.
*/
#include "autograd/graph.h"

/* stored negated, because thread-local variables begin as false and new threads must record */
static _Thread_local bool grad_off;
static _Thread_local tli_WhereFn anomaly_where;
static _Thread_local void *anomaly_context;

bool tli_grad_mode(void) { return !grad_off && !tli_inference_mode(); }

bool tli_set_grad_mode(bool enabled) {
  bool previous = !grad_off;
  grad_off = !enabled;
  return previous;
}

static _Thread_local bool dual_level, tangent_pass;

bool tli_set_dual_level(bool open) {
  bool previous = dual_level;
  dual_level = open;
  return previous;
}

bool tli_set_tangent_pass(bool on) {
  bool previous = tangent_pass;
  tangent_pass = on;
  return previous;
}

bool tli_tangent_pass(void) { return tangent_pass; }

bool tli_tangents_only(void) { return dual_level && grad_off && !tli_inference_mode(); }

bool tli_make_dual(tl_Tensor *t) {
  tli_Autograd *a = tli_autograd(t);
  TL_TRY(a);
  a->dual = true;
  return true;
}

bool tli_recording(tl_Tensor *const *inputs, int64_t n) {
  if (tli_tangents_only()) {
    for (int64_t i = 0; i < n; i++)
      if (tli_is_dual(inputs[i])) return true;
    return false;
  }
  if (!tli_grad_mode()) return false;
  for (int64_t i = 0; i < n; i++)
    if (tli_requires_grad(inputs[i])) return true;
  return false;
}

void tli_set_anomaly(tli_WhereFn where, void *context) {
  anomaly_where = where;
  anomaly_context = context;
}

bool tli_anomaly(void) { return anomaly_where != NULL; }

char *tli_anomaly_where(void) { return anomaly_where ? anomaly_where(anomaly_context) : NULL; }
