/*
** calls.h - table entries for the calls of autograd, such as backward, that are not in the
** operators' table. With these entries, a tracer (core/observe/trace.h) sees the calls, and a
** program (src/graph) can repeat them.
*/
#ifndef TLI_AUTOGRAD_CALLS_H
#define TLI_AUTOGRAD_CALLS_H

#include "core/observe/trace.h"

/* backward(tensors, gradients, inputs, retain_graph, create_graph) adds gradients to .grad. */
extern const tli_Call tli_call_autograd_backward;
/* grad(outputs, inputs, gradients, retain_graph, create_graph, allow_unused, materialize) returns
** one gradient for each input; some gradients may be NULL. */
extern const tli_Call tli_call_autograd_grad;
/* grad_of(tensor) returns tensor.grad. */
extern const tli_Call tli_call_autograd_grad_of;
/* set_grad(tensor, gradient) sets tensor.grad; gradient may be NULL. */
extern const tli_Call tli_call_autograd_set_grad;
/* requires_grad_(tensor, on) sets tensor.requires_grad. */
extern const tli_Call tli_call_autograd_requires_grad_;
/* retain_grad(tensor) makes later backward passes store tensor.grad. */
extern const tli_Call tli_call_autograd_retain_grad;

extern const tli_Call *const tli_autograd_calls[];
extern const int tli_autograd_calls_count;

#endif
