/*
** mode.c - the recording modes of a thread: grad mode and anomaly mode. Inference mode, which
** marks tensors when they are made, is in core (core/tensor/tensor.h). Invariant: in inference
** mode nothing is recorded, whatever grad mode says.
*/
#include "autograd/graph.h"

static _Thread_local bool grad_off; /* false in a new thread, so that it records */
static _Thread_local tli_WhereFn anomaly_where;
static _Thread_local void *anomaly_context;

bool tli_grad_mode(void) { return !grad_off && !tli_inference_mode(); }

bool tli_set_grad_mode(bool enabled) {
  bool previous = !grad_off;
  grad_off = !enabled;
  return previous;
}

bool tli_recording(tl_Tensor *const *inputs, int64_t n) {
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
