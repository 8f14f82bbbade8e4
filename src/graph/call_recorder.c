/*
** call_recorder.c - records the operators that a thread calls as a graph.
**
** A tensor is recognized by its address, so the trace holds a reference to every tensor that it has
** seen until the trace ends. The recorder finds effects that an operator does not report by looking
** at storages. A tensor that shares its storage with a known tensor is a view of that tensor. A
** storage whose version has changed without a recorded write was written to by code that a graph
** cannot repeat.
**
** A training step is recorded with its backward passes, as calls of autograd/calls.h. A gradient is
** recorded when the traced code uses it: if an unknown tensor is the gradient of a known tensor,
** the recorder adds a call that reads that gradient. A program begins without gradients, so it is
** an error if the traced code reads a gradient that an earlier step has left. The code may add to
** such a gradient, as the step of a GAN's generator does with the discriminator's gradients.
*/
#include <stdio.h>
#include <string.h>

#include "autograd/calls.h"
#include "autograd/graph.h"
#include "calls.h"
#include "core/memory/alloc.h"
#include "graph/geometry.h"
#include "graph/recorder.h"
#include "ops/common.h"

/* ---- tensors ---- */

static bool keep(tli_Trace *t, tl_Tensor *tensor) {
  if (!tli_region_grow(&t->region, (void **)&t->kept, t->nkept, sizeof *t->kept)) return false;
  t->kept[t->nkept++] = tli_retain(tensor);
  return true;
}

static tli_TraceMemory *memory_of(const tli_Trace *t, const tl_Tensor *tensor) {
  int32_t i = tli_addresses_find(&t->memories_at, tensor->storage);
  return i < 0 ? NULL : &t->memories[i];
}

/* Adds a tensor's storage to the list `memories`, unless it is in the list already. The tensor must
** be in `kept`. */
static bool note_memory(tli_Trace *t, tl_Tensor *tensor, tli_ValueKind kind) {
  if (memory_of(t, tensor)) return true;
  if (!tli_region_grow(&t->region, (void **)&t->memories, t->nmemories, sizeof *t->memories))
    return false;
  t->memories[t->nmemories] =
      (tli_TraceMemory){kind, tensor, tli_version(tensor), -1, false, false};
  return tli_addresses_put(&t->region, &t->memories_at, tensor->storage, t->nmemories++);
}

/* If a branch is being recorded, stores the value that a tensor had before this change. */
static bool note_change(tli_Trace *t, tl_Tensor *tensor) {
  if (t->nbranches == 0) return true;
  if (!tli_region_grow(&t->region, (void **)&t->changes, t->nchanges, sizeof *t->changes))
    return false;
  t->changes[t->nchanges++] = (tli_TraceChange){tensor, tli_addresses_find(&t->values, tensor)};
  return true;
}

bool tli_trace_note(tli_Trace *t, tl_Tensor *tensor, int32_t value, tli_ValueKind kind) {
  return value >= 0 && keep(t, tensor) && note_memory(t, tensor, kind) && note_change(t, tensor) &&
         tli_addresses_put(&t->region, &t->values, tensor, value);
}

/* Records a call of an operator that takes one tensor and lists of integers. */
static int32_t add_view(tli_Trace *t, const tli_Call *call, int32_t of, const tl_Ints *lists,
                        int n) {
  tli_GraphCall *made = tli_graph_call(t->graph, call, 1);
  if (made == NULL) return -1;
  made->records = (t->step || t->live) && tli_grad_mode();
  made->args[0].integer = of;
  for (int i = 0; i < n; i++) {
    made->args[i + 1].ints = lists[i];
    if (!tli_graph_keep(t->graph, TLI_CALL_INTS, &made->args[i + 1])) return -1;
  }
  return made->results[0];
}

/* Returns the position in a storage from which the offsets of views are counted. It is the first
** element of an input or a constant (tli_graph_placed), because these may begin anywhere in their
** storages when the program runs. Otherwise it is 0. */
static int64_t start_of(const tli_Trace *t, const tl_Tensor *tensor) {
  const tli_TraceMemory *memory = memory_of(t, tensor);
  return memory && memory->kind != TLI_VALUE_RESULT ? memory->first->offset : 0;
}

/* Records that a tensor is a view of another value with the same storage. */
static int32_t alias(tli_Trace *t, const tl_Tensor *tensor, const tl_Tensor *base, int32_t value) {
  if (tensor->dtype != base->dtype) {
    tli_fail(TL_EARG, "export: a tensor shares memory with another one of a different dtype");
    return -1;
  }
  bool cut = (base->flags & TLI_REQUIRES_GRAD) && !(tensor->flags & TLI_REQUIRES_GRAD);
  /* x.data and x:detach() need a recorded call, because a leaf may be changed through them */
  if ((t->step || t->live) && cut) {
    value = add_view(t, &tli_call_detach, value, NULL, 0);
    if (value < 0 || tli_same_geometry(tensor, base)) return value;
  }
  const tl_Ints geometry[] = {{tensor->ndim, tensor->sizes}, {tensor->ndim, tensor->strides}};
  int32_t made = add_view(t, &tli_call_as_strided, value, geometry, 2);
  if (made >= 0)
    t->graph->calls[t->graph->ncalls - 1].args[3].integer = tensor->offset - start_of(t, tensor);
  return made;
}

static bool on_device(tl_Device a, tl_Device b) { return a.type == b.type && a.index == b.index; }

/* Checks that an input or a constant is on the program's device. The first input or constant
** determines that device. A number on the CPU may be an operand on any device. */
static bool place_tensor(tli_Trace *t, const char *name, const tl_Tensor *tensor) {
  tl_Device on = tli_device(tensor);
  if (on.type == TL_CPU && tensor->ndim == 0) return true;
  if (!t->placed && on.type != TL_META) t->graph->device = on;
  t->placed = true;
  return on_device(on, t->graph->device) ||
         tli_fail(TL_EDEVICE, "export: %s: expected a tensor on %s, as the others, got one on %s",
                  name, tli_device_str(t->graph->device), tli_device_str(on));
}

/* Records a constant. The graph stores the tensor row-major. If the original's dimensions have
** another order in memory, a recorded permutation restores that order. */
static int32_t constant(tli_Trace *t, const char *name, tl_Tensor *tensor) {
  if (!place_tensor(t, name, tensor)) return -1;
  if (t->live && tli_contiguous(tensor)) return tli_graph_constant(t->graph, name, tensor);
  if (t->live && tli_requires_grad(tensor)) {
    tli_fail(TL_EARG, "export: %s: expected a row-major parameter (x:contiguous())", name);
    return -1;
  }
  int64_t order[TL_MAX_DIMS], back[TL_MAX_DIMS];
  bool turned = !tli_contiguous(tensor) && tli_dense(tensor);
  /* while `depth` is larger, the operators that are called here are not recorded */
  t->tracer.depth++;
  tl_Tensor *plain = tli_detached(tensor), *row_major = NULL;
  if (turned) tli_sort_dims(tensor, order, back);
  if (plain && turned) {
    tl_Tensor *other = tlo_permute(plain, (tl_Ints){tensor->ndim, order});
    tli_release(plain);
    plain = other;
  }
  if (plain) row_major = tli_contiguous_as(plain, (tl_DType)tensor->dtype);
  t->tracer.depth--;
  int32_t value = row_major ? tli_graph_constant(t->graph, name, row_major) : -1;
  tli_release(plain);
  tli_release(row_major);
  if (value < 0 || !turned) return value;
  return add_view(t, &tli_call_permute, value, &(tl_Ints){tensor->ndim, back}, 1);
}

static int32_t known(tli_Trace *t, tl_Tensor *tensor);

/* ---- gradients ---- */

static tl_Tensor *gradient_of(const tl_Tensor *t) { return t->autograd ? t->autograd->grad : NULL; }

static bool is_fresh(const tli_Trace *t, const tl_Tensor *tensor) {
  return tli_addresses_find(&t->fresh, tensor) >= 0;
}

/* Fails if the tensor's gradient is from an earlier step, that is, was not computed in this
** trace. */
static bool no_old_gradient(const tli_Trace *t, const tl_Tensor *tensor) {
  if (gradient_of(tensor) == NULL || is_fresh(t, tensor)) return true;
  int32_t named = tli_addresses_find(&t->named_at, tensor);
  return tli_fail(TL_EARG,
                  "export_step: %s has a gradient of an earlier step; begin the step with "
                  "zero_grad(), without set_to_none = false, which keeps the gradient",
                  named >= 0 ? t->named[named].name : "a tensor");
}

/* If `tensor` is the gradient of a known tensor, records a read of that gradient and returns the
** gradient's value. Returns -1 after a failure, or -2 if `tensor` is not a gradient. */
static int32_t as_gradient(tli_Trace *t, const tl_Tensor *tensor) {
  for (int32_t i = 0; t->step && i < t->nkept; i++) {
    tl_Tensor *owner = t->kept[i];
    if (owner == tensor || gradient_of(owner) != tensor) continue;
    if (!no_old_gradient(t, owner)) return -1;
    int32_t of = known(t, owner);
    tli_GraphCall *made = of < 0 ? NULL : tli_graph_call(t->graph, &tli_call_autograd_grad_of, 1);
    if (made == NULL) return -1;
    made->args[0].integer = of;
    t->takes = true;
    return made->results[0];
  }
  return -2;
}

/* Stores, before a backward pass, which tensors have gradients of earlier steps. */
static bool before_backward(tli_Trace *t) {
  t->old = tli_region_get(&t->region, t->nkept + 1, sizeof *t->old);
  if (t->old == NULL) return false;
  t->nold = t->nkept;
  for (int32_t i = 0; i < t->nkept; i++)
    t->old[i] = gradient_of(t->kept[i]) && !is_fresh(t, t->kept[i]);
  return true;
}

/* Marks the gradients that a backward pass has computed as gradients of this trace, and accepts
** their new versions, since the pass may have changed them in place. Gradients of earlier steps are
** not marked, although the pass has added to them; t->added becomes the first of their tensors. */
static bool after_backward(tli_Trace *t) {
  for (int32_t i = 0; i < t->nkept; i++) {
    tl_Tensor *grad = gradient_of(t->kept[i]);
    if (grad == NULL) continue;
    if (i < t->nold && t->old[i]) {
      if (t->added == NULL) t->added = t->kept[i];
      continue;
    }
    TL_TRY(tli_addresses_put(&t->region, &t->fresh, t->kept[i], 1));
    tli_TraceMemory *memory = memory_of(t, grad);
    if (memory && memory->kind == TLI_VALUE_RESULT) memory->version = tli_version(grad);
  }
  return true;
}

/* Records the value of a tensor that shares its storage with tensors that were used before. If a
** view has elements outside the graph's copy of a constant, the view becomes another constant. */
static int32_t view_value(tli_Trace *t, tl_Tensor *tensor) {
  tl_Tensor *base = memory_of(t, tensor)->first;
  int32_t of = known(t, base);
  if (of < 0) return -1;
  const tli_TraceMemory *memory = memory_of(t, tensor);
  bool has = memory->kind != TLI_VALUE_CONSTANT || memory->changes ||
             (!memory->copied && tli_is_within(tensor, base));
  if (has || tli_same_geometry(tensor, base)) return alias(t, tensor, base, of);
  char name[32];
  snprintf(name, sizeof name, "constant_%d", ++t->unnamed);
  return constant(t, name, tensor);
}

/* Returns the number of the value that stands for a tensor that is used for the first time. */
static int32_t first_use(tli_Trace *t, tl_Tensor *tensor) {
  const tli_TraceMemory *memory = memory_of(t, tensor);
  if (memory && memory->first != tensor) {
    if ((t->step || t->live) && (tensor->flags & TLI_REQUIRES_GRAD)) {
      tli_fail(TL_EARG, "export: a parameter shares memory with another tensor");
      return -1;
    }
    int32_t value = view_value(t, tensor);
    return tli_trace_note(t, tensor, value, TLI_VALUE_RESULT) ? value : -1;
  }
  if (t->live && tli_requires_grad(tensor) && !(tensor->flags & TLI_REQUIRES_GRAD)) {
    tli_fail(TL_EARG, "export: a tensor with a gradient was made by something that is no operator, "
                      "or outside of the recorded code");
    return -1;
  }
  int32_t gradient = as_gradient(t, tensor);
  if (gradient != -2) return tli_trace_note(t, tensor, gradient, TLI_VALUE_RESULT) ? gradient : -1;
  int32_t named = tli_addresses_find(&t->named_at, tensor);
  char text[32];
  const char *name = named >= 0 ? t->named[named].name : text;
  const char *form = tensor->flags & TLI_REQUIRES_GRAD ? "parameter_%d" : "constant_%d";
  if (named < 0) snprintf(text, sizeof text, form, ++t->unnamed);
  int32_t at = t->graph->nconstants, value = constant(t, name, tensor);
  if (!tli_trace_note(t, tensor, value, TLI_VALUE_CONSTANT)) return -1;
  tli_GraphConstant *made = &t->graph->constants[at];
  tli_TraceMemory *own = memory_of(t, tensor);
  own->constant = at;
  own->copied = made->tensor->storage != tensor->storage || t->graph->values[value].index != at;
  made->leaf = t->step && (tensor->flags & TLI_REQUIRES_GRAD) != 0;
  if (!made->leaf || !own->copied) return value;
  tli_fail(TL_EARG, "export_step: %s: expected a row-major parameter (x:contiguous())", name);
  return -1;
}

static int32_t known(tli_Trace *t, tl_Tensor *tensor) {
  int32_t value = tli_addresses_find(&t->values, tensor);
  const tli_TraceMemory *memory = memory_of(t, tensor);
  if (memory && memory->version != tli_version(tensor)) {
    const char *writer = tensor->storage->writer;
    tli_fail(TL_EARG, "export: a tensor was changed by %s, which a program cannot repeat",
             writer ? writer : "something");
    return -1;
  }
  if (value == TLI_TRACE_LOCAL) {
    tli_fail(TL_EARG, "cond: a tensor that a branch has made is used outside of the branch; the "
                      "branch must return it");
    return -1;
  }
  return value >= 0 ? value : first_use(t, tensor);
}

int32_t tli_trace_value(tli_Trace *t, tl_Tensor *tensor, bool *ok) {
  if (tensor == NULL) return -1;
  int32_t value = tensor->flags & TLI_NUMBER
                      ? tli_graph_number(t->graph, tli_load(tli_data(tensor), tensor->dtype))
                      : known(t, tensor);
  if (value < 0) *ok = false;
  return value;
}

/* ---- calls ---- */

static bool refuse(const tli_Call *call, const char *why) {
  return tli_fail(TL_EARG, "%s: %s, so torch.export cannot record it", call->name, why);
}

static bool computed(const tli_Trace *t, const tl_Tensor *tensor) {
  const tli_TraceMemory *memory = tensor ? memory_of(t, tensor) : NULL;
  return memory && memory->kind != TLI_VALUE_CONSTANT;
}

/* Refuses calls where the sizes of a result depend on the values of tensors. */
static bool check_sizes(const tli_Call *call, const tli_CallArg *args) {
  static const char why[] = "the sizes of its result depend on values";
  if (call->flags & TLI_CALL_SIZES) return refuse(call, why);
  if (call == &tli_call_index) {
    for (int64_t i = 0; i < args[1].tensors.n; i++) {
      const tl_Tensor *at = args[1].tensors.v[i];
      if (at && at->dtype == TL_BOOL) return refuse(call, why);
    }
  }
  if (call == &tli_call_one_hot && args[1].integer < 0)
    return refuse(call, "without num_classes the sizes of its result depend on values");
  return true;
}

/* Checks that a call may change a storage. Only the storage of a result, or of a named constant
** that the program keeps as state, may be changed. */
static bool may_change(const tli_Trace *t, const tli_Call *call, const tli_TraceMemory *memory) {
  if (memory && memory->kind == TLI_VALUE_RESULT) return true;
  if (memory && memory->kind == TLI_VALUE_INPUT)
    return refuse(call, "it changes an input (write to a copy, x:clone())");
  int32_t named = memory ? tli_addresses_find(&t->named_at, memory->first) : -1;
  if (named >= 0 && t->named[named].changes) return true;
  if (named >= 0)
    return tli_fail(TL_EARG,
                    "%s: it changes the parameter %s, so torch.export cannot record it; "
                    "torch.export_step records training",
                    call->name, t->named[named].name);
  return tli_fail(TL_EARG,
                  "%s: it changes a tensor that is a constant of the program, so torch.export "
                  "cannot record it (write to a copy, x:clone()%s)",
                  call->name,
                  t->step ? ", or name it in the option `state`"
                          : ", or register it as a buffer of the model");
}

/* The operators that change other tensors than just their first argument, and the parameters that
** they change. */
static const struct {
  const tli_Call *call;
  uint64_t params; /* bit i is set if parameter i is changed */
} writers[] = {{&tli_call__fused_step_, 1 << 0 | 1 << 2 | 1 << 3 | 1 << 8},
               {&tli_call__amp_foreach_non_finite_check_and_unscale_, 1 << 0 | 1 << 1},
               {&tli_call__amp_update_scale_, 1 << 0 | 1 << 1}};

static uint64_t written_params(const tli_Call *call) {
  for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
    if (writers[i].call == call) return writers[i].params;
  return call->flags & TLI_CALL_WRITES ? 1 : 0;
}

/* Calls fn with each tensor that a call changes, as determined by written_params. */
static bool each_written(tli_Trace *t, const tli_Call *call, const tli_CallArg *args,
                         bool (*fn)(tli_Trace *t, const tli_Call *call, tl_Tensor *tensor)) {
  uint64_t params = written_params(call);
  for (int i = 0; params >> i != 0 && i < call->nparams; i++) {
    if (!(params >> i & 1)) continue;
    bool list = call->params[i].kind == TLI_CALL_TENSORS;
    for (int64_t k = 0; list && k < args[i].tensors.n; k++)
      TL_TRY(fn(t, call, args[i].tensors.v[k]));
    if (!list && args[i].tensor) TL_TRY(fn(t, call, args[i].tensor));
  }
  return true;
}

/* Checks a tensor that a call writes to. If the tensor is a gradient that the trace does not know
** yet, the gradient is recorded first. */
static bool check_written(tli_Trace *t, const tli_Call *call, tl_Tensor *written) {
  if (memory_of(t, written) == NULL && t->step && known(t, written) < 0) return false;
  return may_change(t, call, memory_of(t, written));
}

/* Marks a changed constant as part of the program's state. */
static bool note_state(const tli_Trace *t, const tli_Call *call, const tli_TraceMemory *memory) {
  TL_TRY(may_change(t, call, memory));
  if (memory->kind != TLI_VALUE_CONSTANT) return true;
  const char *name = t->named[tli_addresses_find(&t->named_at, memory->first)].name;
  if (memory->constant < 0 || memory->copied)
    return tli_fail(TL_EARG,
                    "%s: it changes %s, so torch.export cannot record it unless %s is a row-major "
                    "tensor with memory of its own",
                    call->name, name, name);
  t->graph->constants[memory->constant].state = true;
  return true;
}

static bool note_written(tli_Trace *t, const tli_Call *call, tl_Tensor *written) {
  return note_state(t, call, memory_of(t, written));
}

bool tli_trace_values(tli_Trace *t, tl_Tensors given, tli_CallArg *out) {
  bool ok = true;
  int64_t *list = tli_region_get(&t->graph->region, given.n, sizeof *list);
  if (list == NULL) return false;
  for (int64_t i = 0; ok && i < given.n; i++) list[i] = tli_trace_value(t, given.v[i], &ok);
  out->ints = (tl_Ints){given.n, list};
  return ok;
}

/* Returns the device that argument i of a call stands for. If the device is not given, the call
** uses the device of its first tensor, as zeros_like does, or the default device if it takes no
** tensor. */
static tl_Device device_of(const tli_Call *call, int i, const tli_CallArg *args) {
  if (args[i].device.type >= 0) return args[i].device;
  bool takes = call->params[0].kind == TLI_CALL_TENSOR && args[0].tensor;
  return takes ? tli_device(args[0].tensor) : tli_default_device();
}

/* Converts an argument to the graph's form. */
static bool read_arg(tli_Trace *t, const tli_Call *call, int i, const tli_CallArg *given,
                     tli_CallArg *out) {
  bool ok = true;
  int kind = call->params[i].kind;
  *out = *given;
  if (tli_kind_is_tensor(kind)) {
    out->integer = tli_trace_value(t, given->tensor, &ok);
    return ok;
  }
  if (kind == TLI_CALL_TENSORS) return tli_trace_values(t, given->tensors, out);
  if (kind == TLI_CALL_GENERATOR) {
    bool own = given->generator && given->generator->family == NULL;
    out->generator = NULL; /* not stored, because each run has its own generator */
    return !own || refuse(call, "it uses a generator of its own");
  }
  if (call == &tli_call_as_strided && i == 3 && given->integer != TLI_NOINT) {
    const tl_Tensor *self = given[-3].tensor;
    bool is_view = t->graph->values[out[-3].integer].kind == TLI_VALUE_RESULT;
    if (is_view && memory_of(t, self)->kind != TLI_VALUE_RESULT)
      return refuse(call, "it takes a place in the memory of another tensor");
    out->integer -= start_of(t, self);
  }
  if (kind == TLI_CALL_DEVICE) {
    if (!on_device(device_of(call, i, given - i), t->graph->device))
      return refuse(call, "it uses another device than the model's tensors");
  }
  return tli_graph_keep(t->graph, (tli_CallKind)kind, out);
}

static bool begin_value(const tli_Trace *t, const tli_Call *call, const tli_CallArg *args) {
  for (int i = 0; (call->flags & TLI_CALL_READS) && i < call->nparams; i++)
    if (tli_kind_is_tensor(call->params[i].kind) && computed(t, args[i].tensor))
      return refuse(call, "it returns a value that is known only when the program runs");
  return true;
}

/* Returns whether a call is not recorded. A program omits calls that only matter for gradients if
** it records none, and calls that copy a constant from the CPU to the program's device, since the
** copy itself becomes the constant. */
static bool left_out(const tli_Trace *t, const tli_Call *call, const tli_CallArg *args) {
  bool moves =
      call == &tli_call_to || call == &tli_call_to_device || call == &tli_call_to_device_only;
  if (moves && t->graph->device.type != TL_CPU && tli_device(args[0].tensor).type == TL_CPU)
    return !computed(t, args[0].tensor);
  return !t->step && !t->live &&
         (call == &tli_call_autograd_requires_grad_ || call == &tli_call_autograd_retain_grad);
}

/* Refuses uses of gradients that a program cannot repeat. */
static bool begin_gradients(tli_Trace *t, const tli_Call *call, const tli_CallArg *args) {
  bool pass = call == &tli_call_autograd_backward || call == &tli_call_autograd_grad;
  if (!t->step && (pass || call == &tli_call_autograd_set_grad))
    return tli_fail(TL_EARG, "%s: torch.export records no gradients; torch.export_step does",
                    pass ? "backward" : "grad");
  if (call == &tli_call__fused_step_ && args[1].tensors.n == 0) {
    for (int64_t i = 0; i < args[0].tensors.n; i++)
      TL_TRY(no_old_gradient(t, args[0].tensors.v[i]));
    t->takes = true;
  }
  if (t->live &&
      (call == &tli_call_autograd_requires_grad_ || call == &tli_call_autograd_retain_grad))
    return refuse(call, "it changes whether a tensor has a gradient");
  if (call == &tli_call_autograd_requires_grad_ &&
      tli_addresses_find(&t->named_at, args[0].tensor) >= 0)
    return tli_fail(TL_EARG, "requires_grad_: %s must not change during a step",
                    t->named[tli_addresses_find(&t->named_at, args[0].tensor)].name);
  return true;
}

/* Clears the option `sparse` of an embedding. The optimizers of a program take dense gradients;
** steps with them have the same results. */
static void with_dense_gradient(const tli_Call *call, tli_CallArg *args) {
  for (int i = 0; i < call->nparams; i++)
    if (strcmp(call->params[i].name, "sparse") == 0) args[i].flag = false;
}

static bool begin(tli_Tracer *tracer, const tli_Call *call, const tli_CallArg *args) {
  tli_Trace *t = (tli_Trace *)tracer;
  if (call->flags & TLI_CALL_VALUE) return begin_value(t, call, args);
  if (call->run == NULL) return refuse(call, "it is not an operator of programs");
  if (left_out(t, call, args)) return true;
  TL_TRY(begin_gradients(t, call, args) && check_sizes(call, args));
  TL_TRY(each_written(t, call, args, check_written));
  t->pending = tli_region_get(&t->graph->region, call->nparams, sizeof *t->pending);
  if (t->pending == NULL) return false;
  for (int i = 0; i < call->nparams; i++) TL_TRY(read_arg(t, call, i, &args[i], &t->pending[i]));
  if (!t->live && (call == &tli_call_embedding || call == &tli_call_embedding_bag))
    with_dense_gradient(call, t->pending);
  return call != &tli_call_autograd_backward || before_backward(t);
}

/* After a call that was allowed to write to an argument's storage, stores the storage's new
** version. */
static bool note_version(tli_Trace *t, const tli_Call *call, tl_Tensor *tensor) {
  tli_TraceMemory *memory = tensor ? memory_of(t, tensor) : NULL;
  if (memory == NULL || memory->version == tli_version(tensor)) return true;
  TL_TRY(note_state(t, call, memory));
  memory->version = tli_version(tensor);
  return true;
}

static bool note_versions(tli_Trace *t, const tli_Call *call, const tli_CallArg *args) {
  for (int i = 0; i < call->nparams; i++) {
    if (tli_kind_is_tensor(call->params[i].kind)) TL_TRY(note_version(t, call, args[i].tensor));
    if (call->params[i].kind != TLI_CALL_TENSORS) continue;
    for (int64_t k = 0; k < args[i].tensors.n; k++)
      TL_TRY(note_version(t, call, args[i].tensors.v[k]));
  }
  return true;
}

/* Adds the elements of a call's arguments and results to the graph's work. */
static void add_work(tli_Trace *t, const tli_Call *call, const tli_CallArg *args,
                     tl_Tensor *const *results, int64_t n) {
  int64_t work = 1;
  for (int i = 0; i < call->nparams; i++) {
    if (tli_kind_is_tensor(call->params[i].kind) && args[i].tensor) work += args[i].tensor->numel;
    if (call->params[i].kind != TLI_CALL_TENSORS) continue;
    for (int64_t k = 0; k < args[i].tensors.n; k++)
      if (args[i].tensors.v[k]) work += args[i].tensors.v[k]->numel;
  }
  for (int64_t i = 0; i < n; i++)
    if (results[i]) work += results[i]->numel;
  t->graph->work += work;
}

static bool end(tli_Tracer *tracer, const tli_Call *call, const tli_CallArg *args,
                tl_Tensor *const *results, int64_t n) {
  tli_Trace *t = (tli_Trace *)tracer;
  if (call->flags & TLI_CALL_VALUE) return true;
  if (left_out(t, call, args)) return true;
  add_work(t, call, args, results, n);
  TL_TRY(note_versions(t, call, args) && each_written(t, call, args, note_written));
  tli_GraphCall *made = tli_graph_call(t->graph, call, (int32_t)n);
  if (made == NULL) return false;
  made->args = t->pending;
  made->records = (t->step || t->live) && tli_grad_mode();
  if (call == &tli_call_autograd_set_grad)
    return tli_addresses_put(&t->region, &t->fresh, args[0].tensor, 1);
  if (call == &tli_call_autograd_backward) return after_backward(t);
  for (int64_t i = 0; i < n; i++)
    if (results[i]) TL_TRY(tli_trace_note(t, results[i], made->results[i], TLI_VALUE_RESULT));
  bool list = call->nparams > 0 && call->params[0].kind == TLI_CALL_TENSORS;
  if ((call->flags & TLI_CALL_WRITES) && !list)
    return note_memory(t, args[0].tensor, TLI_VALUE_RESULT);
  return true;
}

static bool read(tli_Tracer *tracer, const tl_Tensor *tensor) {
  const tli_TraceMemory *memory = memory_of((tli_Trace *)tracer, tensor);
  if (memory && memory->changes)
    return tli_fail(TL_EARG,
                    "expected no use of the values of a parameter, a buffer or a state that a run "
                    "of the program may change: a program records operators, and would repeat the "
                    "values of the example");
  if (!computed((tli_Trace *)tracer, tensor)) {
    ((tli_Trace *)tracer)->graph->reads = true;
    return true;
  }
  return tli_fail(TL_EARG,
                  "expected no use of a tensor's values, which are known only when the program "
                  "runs: torch.export records operators, not branches and loops on data");
}

/* ---- the interface ---- */

tli_Trace *tli_trace_new(tli_TraceKind kind) {
  tli_Trace *t = tli_alloc(sizeof *t);
  if (t == NULL) return NULL;
  memset(t, 0, sizeof *t);
  t->tracer = (tli_Tracer){begin, end, read, 0};
  t->step = kind == TLI_TRACE_STEP;
  t->live = kind == TLI_TRACE_LIVE;
  t->graph = tli_graph_new();
  if (t->graph) {
    t->graph->dtype = tli_default_dtype();
    t->graph->step = t->step;
    t->graph->live = t->live;
    return t;
  }
  tli_free(t, sizeof *t);
  return NULL;
}

bool tli_trace_input(tli_Trace *t, const char *name, tl_Tensor *tensor) {
  tli_GraphInput in = {.name = name, .dtype = (tl_DType)tensor->dtype, .ndim = tensor->ndim};
  TL_TRY(place_tensor(t, name, tensor));
  for (int d = 0; d < in.ndim; d++) {
    in.sizes[d] = tensor->sizes[d];
    in.symbols[d] = -1;
  }
  return tli_trace_note(t, tensor, tli_graph_input(t->graph, &in), TLI_VALUE_INPUT);
}

bool tli_trace_name(tli_Trace *t, const char *name, tl_Tensor *tensor, bool changes) {
  if (tli_addresses_find(&t->values, tensor) >= 0 || tli_addresses_find(&t->named_at, tensor) >= 0)
    return true;
  TL_TRY(place_tensor(t, name, tensor));
  if (!tli_region_grow(&t->region, (void **)&t->named, t->nnamed, sizeof *t->named)) return false;
  name = tli_region_text(&t->region, name, strlen(name));
  if (name == NULL || !keep(t, tensor)) return false;
  t->named[t->nnamed] = (tli_TraceName){name, tensor, changes};
  if (!tli_addresses_put(&t->region, &t->named_at, tensor, t->nnamed++) ||
      !note_memory(t, tensor, TLI_VALUE_CONSTANT))
    return false;
  tli_TraceMemory *memory = memory_of(t, tensor);
  if (memory && changes) memory->changes = true;
  return true;
}

bool tli_trace_record(tli_Trace *t) { return tli_trace_start(&t->tracer); }

static bool add_outputs(tli_Trace *t, tl_Tensor *const *outputs, int n) {
  for (int i = 0; i < n; i++) {
    int32_t value = known(t, outputs[i]);
    if (value < 0 || !tli_graph_output(t->graph, value)) return false;
  }
  return true;
}

tli_Graph *tli_trace_finish(tli_Trace *t, tl_Tensor *const *outputs, int n) {
  tli_trace_stop(&t->tracer);
  if (!add_outputs(t, outputs, n)) return NULL;
  /* The traced code has added to gradients of earlier steps and has read no gradient. So an
  ** optimizer outside of the program needs these gradients, but a program would drop them. */
  if (t->added && !t->takes && !no_old_gradient(t, t->added)) return NULL;
  tli_Graph *g = t->graph;
  t->graph = NULL;
  return g;
}

void tli_trace_free(tli_Trace *t) {
  if (t == NULL) return;
  tli_trace_stop(&t->tracer);
  for (int32_t i = 0; i < t->nkept; i++) tli_release(t->kept[i]);
  tli_graph_release(t->graph);
  tli_region_free(&t->region);
  tli_free(t, sizeof *t);
}
