/*
** running.h - the operator that the calling thread runs: its name, the argument being processed,
** and the line of the script that called it, for messages and for faults that a device reports
** later.
*/
#ifndef TLI_RUNNING_H
#define TLI_RUNNING_H

#include <stdatomic.h>

#include "core/kernel/kernel.h"

/* Sets the name of the operator that the calling thread runs, a static string; messages contain
** it. */
void tli_set_operator(const char *op);
const char *tli_operator(void);
/* A finalizer, or a hook that packs saved tensors, may run in the middle of an operator. Its caller
** passes true before it and the call's result after it. The interrupted operator continues with
** sizes that it has read before, so until then no tensor may change its memory, sizes or strides:
** tli_may_reshape fails, naming `op`. */
bool tli_set_inside_operator(bool inside);
bool tli_may_reshape(const char *op) TL_MUSTCHECK;
/* Returns where the running call was made, as "script.lua:12", a static string; set by the
** binding, or NULL. */
extern const char *(*_Atomic tli_call_site)(void);
/* Shows a warning about the running call; set by the binding, or NULL. */
extern void (*_Atomic tli_warn)(const char *text);
/* Sets the argument, a static string, for which faults in the data are reported until it is set to
** NULL. An operator that calls other operators uses it. Returns the previous argument. */
const char *tli_set_fault_argument(const char *argument);
/* Returns where a fault comes from. The CPU reports a fault immediately, while operator and script
** line are known; a device reports it later and needs a copy of both. */
tlk_FaultSource tli_fault_source_late(const char *op, const char *argument);
static inline tlk_FaultSource tli_fault_source(tl_Device device, const char *op,
                                               const char *argument) {
  return device.type == TL_CPU ? (tlk_FaultSource){op, argument, NULL}
                               : tli_fault_source_late(op, argument);
}
/* Records a fault as the failure of the call; returns false. */
bool tli_fault_fail(const tlk_Fault *fault);

#endif
