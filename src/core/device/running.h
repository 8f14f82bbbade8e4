/*
** running.h - the operator that the calling thread runs: its name, the argument that it is busy
** with and the line of the script that called it, for messages and for faults that a device
** reports later.
*/
#ifndef TLI_RUNNING_H
#define TLI_RUNNING_H

#include <stdatomic.h>

#include "core/kernel/kernel.h"

/* The operator that the calling thread is in, for messages; a static string. */
void tli_set_operator(const char *op);
const char *tli_operator(void);
/* Code that an operator in the calling thread has called, a finalizer or what packs saved
** tensors, runs between a call with true and one with what that has returned. The operator
** goes on with what it has read of its tensors, so meanwhile none of them may get other
** memory, sizes or strides: tli_may_reshape then fails in the name of `op`. */
bool tli_set_amid(bool amid);
bool tli_may_reshape(const char *op) TL_MUSTCHECK;
/* Where the running call was made, "script.lua:12", a string that stays for good;
** set by the binding, NULL without one. */
extern const char *(*_Atomic tli_call_site)(void);
/* Says that the running call waits for a device; set by the binding, NULL without one. */
extern void (*_Atomic tli_warn_wait)(tl_Device device);
/* While an operator calls others: a fault in what those are given is one in this
** argument, a static string, of the running operator. NULL: no longer. Returns what
** was set before. */
const char *tli_set_blamed(const char *argument);
/* The CPU reports a fault at once, when operator and site are known anyway. */
tlk_Blame tli_blame_late(const char *op, const char *argument);
static inline tlk_Blame tli_blame(tl_Device device, const char *op, const char *argument) {
  return device.type == TL_CPU ? (tlk_Blame){op, argument, NULL} : tli_blame_late(op, argument);
}
/* Records the failure that a fault is; returns false. */
bool tli_fault_fail(const tlk_Fault *fault);

#endif
