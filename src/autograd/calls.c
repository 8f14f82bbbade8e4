/*
** calls.c - implements calls.h.
*/
#include "autograd/calls.h"

#include <string.h>

#include "autograd/graph.h"
#include "core/memory/alloc.h"

static bool fits(tl_Tensors list) {
  return list.n <= INT32_MAX || tli_fail(TL_EARG, "backward: too many tensors");
}

/* Returns whether all tensors of the list are present; otherwise fails with a message. */
static bool complete(const char *op, tl_Tensors list) {
  for (int64_t i = 0; i < list.n; i++)
    if (list.v[i] == NULL) return tli_fail(TL_EARG, "%s: expected a tensor, got none", op);
  return true;
}

/* Fails unless the list has a gradient for each root or is empty. */
static bool read_gradients(const char *op, tl_Tensors roots, tl_Tensors grads) {
  return grads.n == 0 || grads.n == roots.n ||
         tli_fail(TL_EARG, "%s: expected a gradient for each of %" PRId64 " tensors, got %" PRId64,
                  op, roots.n, grads.n);
}

/* Runs a backward pass. Unless create_graph is set, no graph of the gradients is recorded. The
** functions of the Lua binding treat create_graph in the same way. */
static bool run_pass(const tli_Backward *call) {
  bool before = tli_set_grad_mode(call->create_graph);
  bool ok = tli_backward(call);
  tli_set_grad_mode(before);
  return ok;
}

static bool run_backward(const tli_CallArg *a, tl_Tensors *out) {
  (void)out;
  tl_Tensors roots = a[0].tensors, grads = a[1].tensors, inputs = a[2].tensors;
  TL_TRY(fits(roots) && fits(inputs) && complete("backward", roots) &&
         complete("backward", inputs) && read_gradients("backward", roots, grads));
  return run_pass(&(tli_Backward){.roots = roots.v,
                                  .grads = grads.n > 0 ? grads.v : NULL,
                                  .nroots = (int)roots.n,
                                  .retain_graph = a[3].flag,
                                  .create_graph = a[4].flag,
                                  .inputs = inputs.v,
                                  .ninputs = (int)inputs.n,
                                  .accumulate = true});
}

static bool run_grad(const tli_CallArg *a, tl_Tensors *out) {
  tl_Tensors roots = a[0].tensors, inputs = a[1].tensors, grads = a[2].tensors;
  TL_TRY(fits(roots) && fits(inputs) && complete("grad", roots) && complete("grad", inputs) &&
         read_gradients("grad", roots, grads));
  if (inputs.n != out->n || inputs.n == 0)
    return tli_fail(TL_EARG, "grad: expected a result for each of %" PRId64 " inputs", inputs.n);
  return run_pass(&(tli_Backward){.roots = roots.v,
                                  .grads = grads.n > 0 ? grads.v : NULL,
                                  .nroots = (int)roots.n,
                                  .retain_graph = a[3].flag,
                                  .create_graph = a[4].flag,
                                  .inputs = inputs.v,
                                  .ninputs = (int)inputs.n,
                                  .allow_unused = a[5].flag,
                                  .materialize = a[6].flag,
                                  .results = out->v});
}

static bool run_grad_of(const tli_CallArg *a, tl_Tensors *out) {
  const tli_Autograd *state = a[0].tensor->autograd;
  if (state == NULL || state->grad == NULL)
    return tli_fail(TL_EARG, "grad: expected a tensor with a gradient");
  out->v[0] = tli_retain(state->grad);
  return true;
}

static bool run_set_grad(const tli_CallArg *a, tl_Tensors *out) {
  (void)out;
  return tli_grad_set(a[0].tensor, a[1].tensor);
}

static bool run_requires_grad(const tli_CallArg *a, tl_Tensors *out) {
  (void)out;
  return tli_set_requires_grad(a[0].tensor, a[1].flag);
}

static bool run_retain_grad(const tli_CallArg *a, tl_Tensors *out) {
  (void)out;
  return tli_retain_grad(a[0].tensor);
}

#define TENSORS(name) \
  { name, TLI_CALL_TENSORS, false }
#define FLAG(name) \
  { name, TLI_CALL_BOOL, false }

static const tli_CallParam backward_params[] = {TENSORS("tensors"), TENSORS("gradients"),
                                                TENSORS("inputs"), FLAG("retain_graph"),
                                                FLAG("create_graph")};
const tli_Call tli_call_autograd_backward = {"autograd_backward", backward_params, 5, 0, 0,
                                             run_backward};

static const tli_CallParam grad_params[] = {
    TENSORS("outputs"),   TENSORS("inputs"),    TENSORS("gradients"),     FLAG("retain_graph"),
    FLAG("create_graph"), FLAG("allow_unused"), FLAG("materialize_grads")};
const tli_Call tli_call_autograd_grad = {"autograd_grad", grad_params, 7, -1, 0, run_grad};

static const tli_CallParam of_params[] = {{"tensor", TLI_CALL_TENSOR, false}};
const tli_Call tli_call_autograd_grad_of = {"autograd_grad_of", of_params, 1, 1, 0, run_grad_of};

static const tli_CallParam set_params[] = {{"tensor", TLI_CALL_TENSOR, false},
                                           {"gradient", TLI_CALL_TENSOR, true}};
const tli_Call tli_call_autograd_set_grad = {"autograd_set_grad", set_params, 2, 0, 0,
                                             run_set_grad};

static const tli_CallParam require_params[] = {{"tensor", TLI_CALL_TENSOR, false}, FLAG("on")};
const tli_Call tli_call_autograd_requires_grad_ = {
    "autograd_requires_grad_", require_params, 2, 0, 0, run_requires_grad};

const tli_Call tli_call_autograd_retain_grad = {"autograd_retain_grad", of_params, 1, 0, 0,
                                                run_retain_grad};

const tli_Call *const tli_autograd_calls[] = {
    &tli_call_autograd_backward, &tli_call_autograd_grad,           &tli_call_autograd_grad_of,
    &tli_call_autograd_set_grad, &tli_call_autograd_requires_grad_, &tli_call_autograd_retain_grad};
const int tli_autograd_calls_count = sizeof tli_autograd_calls / sizeof *tli_autograd_calls;
