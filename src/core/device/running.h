/*
** running.h - the operator that the calling thread runs: its name, the argument being processed,
** and the line of the script that called it, for messages and for faults that a device reports
** later.
*/
#ifndef TLI_RUNNING_H
#define TLI_RUNNING_H

#include <stdatomic.h>

#include "core/kernel/kernel.h"

/* The operator that the calling thread runs, for messages; a static string. */
void tli_set_operator(const char *op);
const char *tli_operator(void);
/* A finalizer, or a hook that packs saved tensors, may run while an operator runs in the
** calling thread. Such code runs between a call with true and a call with that call's result.
** The operator continues with sizes that it has already read, so meanwhile no tensor may get
** other memory, sizes or strides: tli_may_reshape then fails, naming `op`. */
bool tli_set_inside_operator(bool inside);
bool tli_may_reshape(const char *op) TL_MUSTCHECK;
/* Returns where the running call was made, as "script.lua:12", a static string; set by the
** binding, or NULL. */
extern const char *(*_Atomic tli_call_site)(void);
/* Reports that the running call waits for a device; set by the binding, or NULL. */
extern void (*_Atomic tli_warn_wait)(tl_Device device);
/* Used by an operator that calls other operators: faults in their data are reported for this
** argument, a static string, of the running operator, until it is set to NULL. Returns the
** previous value. */
const char *tli_set_fault_argument(const char *argument);
/* The CPU reports a fault immediately, while operator and site are known; a device reports it
** later and needs a copy of them. */
tlk_FaultSource tli_fault_source_late(const char *op, const char *argument);
static inline tlk_FaultSource tli_fault_source(tl_Device device, const char *op,
                                               const char *argument) {
  return device.type == TL_CPU ? (tlk_FaultSource){op, argument, NULL}
                               : tli_fault_source_late(op, argument);
}
/* Records a fault as the failure of the call; returns false. */
bool tli_fault_fail(const tlk_Fault *fault);

#endif
