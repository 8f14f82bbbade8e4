/*
** running.h - the operator that the calling thread runs: its name, the argument being processed,
** and the line of the script that called the operator. Messages contain these data, and so do the
** messages of faults that a device reports later.
*/
#ifndef TLI_RUNNING_H
#define TLI_RUNNING_H

#include <stdatomic.h>

#include "core/kernel/kernel.h"

/* Sets the name of the operator that the calling thread runs, for messages; `op` is a static
** string. */
void tli_set_operator(const char *op);
const char *tli_operator(void);
/* A finalizer, or a hook that packs saved tensors, may run in the middle of an operator. The code
** that runs the finalizer or the hook first calls tli_set_inside_operator(true), and afterwards
** calls it again with the value that the first call returned. The interrupted operator continues
** with sizes that it has read before. So until the second call no tensor may change its memory,
** sizes or strides, and tli_may_reshape fails with a message that names `op`. */
bool tli_set_inside_operator(bool inside);
bool tli_may_reshape(const char *op) TL_MUSTCHECK;
/* A function that returns the line of the script that made the running call, as a static string
** such as "script.lua:12". The binding sets this pointer; NULL means that lines are unknown. */
extern const char *(*_Atomic tli_call_site)(void);
/* A function that shows a warning about the running call. The binding sets this pointer; it may be
** NULL. */
extern void (*_Atomic tli_warn)(const char *text);
/* Passes a warning about the running call to the host's logger; without a logger, to tli_warn. */
void tli_warning(const char *text);
/* Passes a line of text to the host's logger. Returns false if the host has set no logger. */
bool tli_log_line(const char *text);
/* Sets the name (a static string) of the argument to which a device attributes faults in the data,
** until the name is set to NULL. An operator that calls other operators uses this function, so that
** a message names its own argument. (On the CPU the inner operator fails at once, and the caller
** changes the message by tli_fail_about.) Returns the previous name. */
const char *tli_set_fault_argument(const char *argument);
/* Returns the source of a fault. The CPU reports a fault immediately, while operator and script
** line are known; a device reports a fault later, so it needs this copy of both. */
tlk_FaultSource tli_fault_source_late(const char *op, const char *argument);
static inline tlk_FaultSource tli_fault_source(tl_Device device, const char *op,
                                               const char *argument) {
  return device.type == TL_CPU ? (tlk_FaultSource){op, argument, NULL}
                               : tli_fault_source_late(op, argument);
}
/* Makes the running call fail with the message of a fault. Returns false. */
bool tli_fault_fail(const tlk_Fault *fault);

#endif
