/*
** run.c - runs a program: checks the inputs, makes the graph's calls in their order, and releases
** each value after its last use.
**
** In a program that trains, gradients are recorded during the same calls as in the trace. The
** leaves are tensors that share the memory of the program's parameters. Backward passes are
** recorded as calls of the operators in autograd/calls.h. A lock keeps runs that change the
** program's state from running at the same time.
*/
#include <string.h>

#include "autograd/graph.h"
#include "calls.h"
#include "core/device/capture.h"
#include "core/device/transfer.h"
#include "core/platform/parallel.h"
#include "core/platform/platform.h"
#include "graph/branches.h"
#include "graph/run.h"
#include "ops/common.h"

/* ---- contexts ---- */

void tli_context_free(tli_RunContext *c) {
  if (c == NULL) return;
#ifndef TLI_RUNTIME
  tli_sweep_free(c->sweep);
#endif
  tli_run_plan_free(c->plan);
  tli_region_free(&c->region);
  tli_free(c, sizeof *c);
}

static int32_t count_slots(const tli_GraphCall *c) {
  int64_t n = 0;
  for (int k = 0; k < c->call->nparams; k++) {
    if (tli_kind_is_tensor(c->call->params[k].kind)) n++;
    if (c->call->params[k].kind == TLI_CALL_TENSORS) n += c->args[k].ints.n;
  }
  return (int32_t)n;
}

static bool copy_ints(tli_RunContext *c, tli_CallArg *arg) {
  int64_t *v = tli_region_get(&c->region, arg->ints.n, sizeof *v);
  if (v == NULL) return false;
  memcpy(v, arg->ints.v, (size_t)arg->ints.n * sizeof *v);
  arg->ints.v = v;
  return true;
}

/* Creates a slot for each tensor in an argument. */
static bool make_arg(tli_RunContext *c, tli_RunStep *s, int kind, const tli_CallArg *from,
                     tli_CallArg *arg) {
  *arg = *from;
  if (kind == TLI_CALL_GENERATOR) {
    arg->generator = &c->generator;
  } else if (kind == TLI_CALL_DEVICE && from->device.type >= 0) {
    arg->device = c->device;
  } else if (tli_kind_is_tensor(kind)) {
    arg->tensor = NULL;
    s->slots[s->nslots++] = (tli_RunSlot){&arg->tensor, (int32_t)from->integer};
  } else if (kind == TLI_CALL_TENSORS) {
    tl_Tensor **v = tli_region_get(&c->region, from->ints.n, sizeof *v);
    if (v == NULL) return false;
    arg->tensors = (tl_Tensors){from->ints.n, v};
    for (int64_t i = 0; i < from->ints.n; i++)
      s->slots[s->nslots++] = (tli_RunSlot){&v[i], (int32_t)from->ints.v[i]};
  } else if (tli_kind_is_ints(kind) && from->ints.v) {
    return copy_ints(c, arg);
  } else if (kind == TLI_CALL_FLOATS && from->reals.v) {
    double *v = tli_region_get(&c->region, from->reals.n, sizeof *v);
    if (v == NULL) return false;
    memcpy(v, from->reals.v, (size_t)from->reals.n * sizeof *v);
    arg->reals.v = v;
  }
  return true;
}

static bool make_step(const tl_Program *p, tli_RunContext *c, int32_t i) {
  tli_RunStep *s = &c->steps[i];
  s->call = &p->graph->calls[i];
  s->placed = tli_graph_placed(p->graph, s->call);
  const tli_Call *call = s->call->call;
  s->args = tli_region_get(&c->region, call->nparams, sizeof *s->args);
  s->slots = tli_region_get(&c->region, count_slots(s->call), sizeof *s->slots);
  s->results = tli_region_get(&c->region, s->call->nresults, sizeof *s->results);
  if (s->args == NULL || s->slots == NULL || s->results == NULL) return false;
  for (int k = 0; k < call->nparams; k++)
    TL_TRY(make_arg(c, s, call->params[k].kind, &s->call->args[k], &s->args[k]));
  return true;
}

/* Returns whether a program runs on another device than the CPU. */
static bool on_other_device(const tli_Graph *g) {
#ifdef TLI_RUNTIME
  (void)g;
  return false;
#else
  return g->device.type != TL_CPU;
#endif
}

/* ---- sweeps ---- */

#ifdef TLI_RUNTIME
static bool make_sweeps(const tl_Program *p, tli_RunContext *c) {
  (void)p, (void)c;
  return true;
}
static bool end_sweep(tli_RunContext *c, bool ok) {
  (void)c;
  return ok;
}
static bool enter_sweep(tli_RunContext *c, const tli_RunStep *s) {
  (void)c, (void)s;
  return true;
}
static bool is_late(tli_RunContext *c, tl_Tensor *t) {
  (void)c, (void)t;
  return false;
}
#else
/* Returns whether the caller holds the only reference to the tensor, and the tensor the only
** reference to its memory. */
static bool is_sole(const tl_Tensor *t) {
  return atomic_load_explicit(&t->refs, memory_order_acquire) == 1 &&
         atomic_load_explicit(&t->storage->refs, memory_order_acquire) == 1;
}

static bool is_among(const tli_Call *call, const tli_Call *const *calls, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (calls[i] == call) return true;
  return false;
}

/* Returns whether a call runs no kernel at all, so that it may run between elementwise calls of one
** sweep. */
static bool only_views(const tli_Call *call) {
  static const tli_Call *const calls[] = {
      &tli_call_view,      &tli_call_t,       &tli_call_transpose, &tli_call_permute,
      &tli_call_unsqueeze, &tli_call_squeeze, &tli_call_expand,    &tli_call_detach};
  return is_among(call, calls, sizeof calls / sizeof *calls);
}

/* Returns whether a call runs elementwise kernels and nothing else. A call that changes a tensor in
** place while gradients are recorded may also copy the tensor first. The operators in the list are
** compositions of elementwise operators. */
static bool is_elementwise(const tli_GraphCall *c) {
  static const tli_Call *const calls[] = {&tli_call_gelu, &tli_call_div, &tli_call_rsub,
                                          &tli_call_clamp, &tli_call_where};
  if (c->records && c->call->flags & TLI_CALL_WRITES) return false;
  return c->call->flags & TLI_CALL_ELEMENTWISE ||
         is_among(c->call, calls, sizeof calls / sizeof *calls);
}

/* Marks consecutive elementwise calls, and the views between them, so that they run in one
** sweep. */
static bool make_sweeps(const tl_Program *p, tli_RunContext *c) {
  int32_t n = p->graph->ncalls;
  for (int32_t i = 0, end; i < n; i = end + 1) {
    int32_t count = 0;
    for (end = i; end < n; end++) {
      const tli_GraphCall *call = c->steps[end].call;
      if (is_elementwise(call))
        count++;
      else if (!only_views(call->call))
        break;
    }
    for (int32_t k = i; count > 1 && k < end; k++) c->steps[k].sweeps = true;
    if (count < 2 || c->sweep || on_other_device(p->graph)) continue;
    c->sweep = tli_sweep_new();
    c->late = tli_region_get(&c->region, p->graph->nvalues, sizeof *c->late);
    if (c->sweep == NULL || c->late == NULL) return false;
  }
  return true;
}

/* Runs the calls that the sweep has collected, unless `ok` is false because the program has failed.
** Then releases the tensors that these calls used. So every run releases them at the same call, on
** which the plan of the memory relies. */
static bool end_sweep(tli_RunContext *c, bool ok) {
  if (!c->sweeping) return ok;
  c->sweeping = false;
  if (ok)
    ok = tli_sweep_end(c->sweep);
  else
    tli_sweep_cancel(c->sweep);
  while (c->nlate > 0) tli_release(c->late[--c->nlate]);
  return ok;
}

/* Begins a sweep before a call that belongs to one, and ends the sweep before any other call. In a
** loop, calls run one by one. */
static bool enter_sweep(tli_RunContext *c, const tli_RunStep *s) {
  bool sweeps = s->sweeps && c->sweep && c->loops == 0;
  if (!sweeps) return end_sweep(c, true);
  if (!c->sweeping) tli_sweep_begin(c->sweep);
  c->sweeping = true;
  return true;
}

/* Returns whether a tensor must live until the current sweep has ended. If so, takes over the
** reference. */
static bool is_late(tli_RunContext *c, tl_Tensor *t) {
  if (!c->sweeping || t == NULL) return false;
  if (is_sole(t) && tli_sweep_forget(tli_data(t))) return false;
  c->late[c->nlate++] = t;
  return true;
}
#endif

/* Returns the number of the calling thread's current stream on the program's device. */
static int64_t stream_of(const tli_Graph *g) {
  return tli_backend(g->device)->device->stream_id(tli_stream(g->device));
}

/* The seed with which PyTorch's default generator begins; a program's own generator begins with it,
** too. */
#define DEFAULT_SEED 67280421310721

static tli_RunContext *context_new(const tl_Program *p) {
  const tli_Graph *g = p->graph;
  tli_RunContext *c = tli_alloc(sizeof *c);
  if (c == NULL) return NULL;
  memset(c, 0, sizeof *c);
  c->steps = tli_region_get(&c->region, g->ncalls, sizeof *c->steps);
  c->values = tli_region_get(&c->region, g->nvalues, sizeof(tl_Tensor *));
  c->made = tli_region_get(&c->region, g->noutputs, sizeof *c->made);
  c->sizes = tli_region_get(&c->region, g->nsymbols, sizeof *c->sizes);
  c->branches = tli_region_get(&c->region, p->jumps ? g->ncalls : 0, sizeof(tli_RunPlan *));
  c->plan = tli_run_plan_new();
  c->device = g->device;
  tli_generator_seed(&c->generator, DEFAULT_SEED);
  bool ok = c->steps && c->values && c->made && c->sizes && c->branches && c->plan;
  if (ok && on_other_device(g)) {
    c->stream = stream_of(g);
    ok = tli_run_plan_on(c->plan, g->device);
  }
  for (int32_t i = 0; ok && i < g->ncalls; i++) ok = make_step(p, c, i);
  ok = ok && make_sweeps(p, c);
  for (int32_t s = 0; ok && s < g->nsymbols; s++) c->sizes[s] = g->symbols[s].example;
  if (ok) return c;
  tli_context_free(c);
  return NULL;
}

/* Returns a context that no other run uses. On a device a context is used on one stream only. So
** the next run, which uses the same memory, is queued after the last run. */
static tli_RunContext *take_context(tl_Program *p) {
  tli_RunContext *spare = atomic_exchange_explicit(&p->spare, NULL, memory_order_acquire);
  if (spare) return spare;
  tli_mutex_lock(&p->lock);
  tli_RunContext **at = &p->idle;
  while (on_other_device(p->graph) && *at && (*at)->stream != stream_of(p->graph))
    at = &(*at)->next;
  tli_RunContext *c = *at;
  if (c) *at = c->next;
  tli_mutex_unlock(&p->lock);
  if (c) return c;
  c = context_new(p);
  if (c) atomic_fetch_add_explicit(&p->contexts, 1, memory_order_relaxed);
  return c;
}

static void put_context(tl_Program *p, tli_RunContext *c) {
  int64_t arena = tli_run_plan_arena(c->plan);
  if (arena > 0) {
    atomic_store_explicit(&p->arena, arena, memory_order_relaxed);
    atomic_store_explicit(&p->live, tli_run_plan_live(c->plan), memory_order_relaxed);
  }
  tli_RunContext *none = NULL;
  if (!on_other_device(p->graph) &&
      atomic_compare_exchange_strong_explicit(&p->spare, &none, c, memory_order_release,
                                              memory_order_relaxed))
    return;
  tli_mutex_lock(&p->lock);
  c->next = p->idle;
  p->idle = c;
  tli_mutex_unlock(&p->lock);
}

tli_ProgramMemory tli_program_memory(tl_Program *p) {
  return (tli_ProgramMemory){p->arena, p->live, p->contexts};
}

/* ---- dynamic sizes ---- */

/* Computes the integers that depend on sizes, and writes them into the arguments. */
static bool fill_holes(const tl_Program *p, tli_RunContext *c, const int64_t *sizes) {
  const tli_Graph *g = p->graph;
  for (int32_t i = 0; i < g->nholes; i++) {
    const tli_GraphHole *h = &g->holes[i];
    int64_t value;
    TL_TRY(tli_graph_hole_value(g, h, sizes, &value));
    /* this hole is one of the graph's numbers, which put_numbers handles */
    if (h->call < 0) continue;
    tli_CallArg *arg = &c->steps[h->call].args[h->param];
    if (h->element >= 0)
      ((int64_t *)arg->ints.v)[h->element] = value;
    else if (c->steps[h->call].call->call->params[h->param].kind == TLI_CALL_NUMBER)
      arg->number = tli_int(value);
    else
      arg->integer = value;
  }
  return true;
}

/* Creates tensors for the graph's numbers that depend on sizes. */
static bool put_numbers(const tl_Program *p, tli_RunContext *c) {
  const tli_Graph *g = p->graph;
  for (int32_t v = 0; v < g->nvalues; v++)
    if (g->values[v].kind == TLI_VALUE_NUMBER) c->values[v] = p->numbers[g->values[v].index];
  for (int32_t i = 0; i < g->nholes; i++) {
    int64_t value;
    if (g->holes[i].call >= 0) continue;
    TL_TRY(tli_graph_hole_value(g, &g->holes[i], c->sizes, &value));
    for (int32_t v = 0; v < g->nvalues; v++)
      if (g->values[v].kind == TLI_VALUE_NUMBER && g->values[v].index == g->holes[i].param &&
          c->values[v] == NULL && (c->values[v] = tli_number(tli_int(value))) == NULL)
        return false;
  }
  return true;
}

/* ---- runs ---- */

/* Returns an alias of a row-major input, so that the caller does not see changes to the tensor
** itself; returns a row-major copy of any other input. A program whose results have gradients uses
** the input itself. */
static tl_Tensor *plain_input(const tli_Graph *g, tl_Tensor *t) {
  if (tli_graph_live(g)) return tli_retain(t);
  if (on_other_device(g) && tli_device(t).type == TL_CPU) return tli_moved(t, g->device, false);
  if (tli_contiguous(t)) return tli_detached(t);
  tl_Tensor *alias = tli_detached(t);
  tl_Tensor *plain = alias ? tli_contiguous_as(alias, (tl_DType)t->dtype) : NULL;
  tli_release(alias);
  return plain;
}

static bool put_values(const tl_Program *p, tli_RunContext *c, tl_Tensor *const *inputs) {
  const tli_Graph *g = p->graph;
  for (int32_t v = 0; v < g->nvalues; v++)
    if (g->values[v].kind == TLI_VALUE_CONSTANT) c->values[v] = p->constants[g->values[v].index];
  TL_TRY(put_numbers(p, c));
  for (int32_t i = 0; i < g->ninputs; i++) {
    tl_Tensor *t = plain_input(g, inputs[i]);
    if (t == NULL) return false;
    c->values[g->inputs[i].value] = t;
  }
  return true;
}

/* Writes a call's tensors into the slots of its arguments. */
static bool put_tensors(tli_RunContext *c, tli_RunStep *s) {
  for (int32_t i = 0; i < s->nslots; i++) {
    int32_t value = s->slots[i].value;
    *s->slots[i].place = value < 0 ? NULL : c->values[value];
    if (value >= 0 && c->values[value] == NULL)
      return tli_fail(TL_EARG, "%s: an argument is a result that was not computed",
                      s->call->call->name);
  }
  return true;
}

/* Makes the call `s`, and stores its results as those of the call `to`. The two differ if `s` is a
** mark at the end of a branch or a loop. */
static bool run_call(tli_RunContext *c, tli_RunStep *s, tli_RunStep *to) {
  TL_TRY(put_tensors(c, s));
  for (int32_t r = 0; r < to->call->nresults; r++) to->results[r] = NULL;
  tli_set_grad_mode(s->call->records);
  tli_CallArg *place = s->placed ? &s->args[3] : NULL;
  if (place) place->integer += s->args[0].tensor->offset;
  bool ok = s->call->call->run(s->args, &(tl_Tensors){to->call->nresults, to->results});
  if (place) place->integer -= s->args[0].tensor->offset;
  for (int32_t r = 0; !ok && r < to->call->nresults; r++) tli_release(to->results[r]);
  return ok;
}

/* Stores the results of a call as values. In a loop, they replace the results of the last
** iteration. */
static void put_results(tli_RunContext *c, const tli_RunStep *to) {
  for (int32_t r = 0; r < to->call->nresults; r++) {
    tl_Tensor **place = &c->values[to->call->results[r]];
    tli_release(*place);
    *place = to->results[r];
  }
}

/* Releases the values whose last use was at time `time`. */
static void release_dead(const tl_Program *p, tli_RunContext *c, int64_t time) {
  for (int32_t i = p->ndead[time]; i < p->ndead[time + 1]; i++) {
    tl_Tensor **place = &c->values[p->dead[i]];
    if (!is_late(c, *place)) tli_release(*place);
    *place = NULL;
  }
}

/* Reads the condition that is the argument of call i. */
static bool read_condition(const tl_Program *p, tli_RunContext *c, int32_t i, bool *out) {
  tli_RunStep *s = &c->steps[i];
  TL_TRY(put_tensors(c, s));
  const tl_Tensor *pred = s->args[0].tensor;
  if (pred == NULL || pred->numel != 1)
    return tli_fail(TL_ESHAPE, "%s: pred: expected a tensor of one element, got %s",
                    s->call->call->name, pred ? tli_sizes_str(pred) : "none");
  tl_Scalar value;
  if (!on_other_device(p->graph))
    value = tli_load(tli_data(pred), pred->dtype);
  else if (!tli_read_scalar(pred, &value))
    return false;
  *out = value.kind == TL_FLOATING ? value.f != 0 : value.i != 0;
  release_dead(p, c, 2 * (int64_t)i);
  return true;
}

/* ---- branches and loops ---- */

/* Begins a branch at mark i with the plan of its own. In a loop no plan is active (begin_loop). */
static bool enter_branch(tli_RunContext *c, int32_t i) {
  if (c->loops > 0) return true;
  if (c->branches[i] == NULL) {
    tli_run_plan_pause(c->active);
    c->branches[i] = tli_run_plan_add(c->plan);
    tli_run_plan_resume(c->active);
  }
  if (c->branches[i] == NULL) return false;
  tli_run_plan_enter(c->branches[i], c->active);
  c->active = c->branches[i];
  return true;
}

/* Reads a condition and begins the first branch if it is true; otherwise goes to the second branch
** and begins that. */
static bool choose_branch(const tl_Program *p, tli_RunContext *c, int32_t *i) {
  bool first = false;
  TL_TRY(read_condition(p, c, *i, &first));
  if (!first) *i = p->jumps[*i];
  return enter_branch(c, *i);
}

/* Ends the branch whose end is the mark *i. Copies of the branch's results are allocated by the
** plan around the branch, because they outlive the branch. */
static bool leave_branch(const tl_Program *p, tli_RunContext *c, int32_t *i) {
  tli_RunStep *s = &c->steps[*i];
  int32_t from = *i, end = s->call->call == &tli_call_cond_else ? p->jumps[from] : from;
  if (c->loops == 0) tli_run_plan_resume(tli_run_plan_outer(c->active));
  TL_TRY(run_call(c, s, &c->steps[end]));
  put_results(c, &c->steps[end]);
  if (c->loops == 0) tli_run_plan_resume(c->active);
  release_dead(p, c, 2 * (int64_t)from);
  if (c->loops == 0) c->active = tli_run_plan_leave(c->active);
  if (from != end) release_dead(p, c, 2 * (int64_t)end);
  release_dead(p, c, 2 * (int64_t)end + 1);
  *i = end;
  return true;
}

/* Begins a loop. The plan does not serve the blocks of loops, since the number of iterations
** differs from run to run. Values from outside that the loop uses are released after the loop. */
static bool begin_loop(const tl_Program *p, tli_RunContext *c, int32_t i) {
  if (c->loops++ == 0) tli_run_plan_pause(c->active);
  TL_TRY(run_call(c, &c->steps[i], &c->steps[i]));
  put_results(c, &c->steps[i]);
  if (c->loops == 1) tli_run_plan_resume(c->active);
  release_dead(p, c, 2 * (int64_t)i);
  if (c->loops == 1) tli_run_plan_pause(c->active);
  return true;
}

/* Continues after the loop if its condition is false. */
static bool test_loop(const tl_Program *p, tli_RunContext *c, int32_t *i) {
  bool again = false;
  TL_TRY(read_condition(p, c, *i, &again));
  if (again) return true;
  *i = p->jumps[*i];
  if (--c->loops == 0) tli_run_plan_resume(c->active);
  release_dead(p, c, 2 * (int64_t)*i + 1);
  return true;
}

/* Returns to the beginning of a loop with new values of the carried tensors. */
static bool repeat_loop(const tl_Program *p, tli_RunContext *c, int32_t *i) {
  int32_t end = *i;
  if (c->repeats == 0)
    return tli_fail(TL_EARG,
                    "program: its loops expected to end within %" PRId64
                    " iterations, the limit of a run (tl_program_set_limits, program:set_limits)",
                    c->limits.iterations);
  if (c->repeats > 0) c->repeats--;
  *i = p->jumps[end];
  TL_TRY(run_call(c, &c->steps[end], &c->steps[*i]));
  release_dead(p, c, 2 * (int64_t)end);
  put_results(c, &c->steps[*i]);
  return true;
}

/* Makes the call *i. If this call marks the begin or the end of a branch or a loop, sets *i to the
** call at which the run continues. */
static bool make_call(const tl_Program *p, tli_RunContext *c, int32_t *i) {
  const tli_Call *call = c->steps[*i].call->call;
  TL_TRY(enter_sweep(c, &c->steps[*i]));
  if (call == &tli_call_cond_begin) return choose_branch(p, c, i);
  if (call == &tli_call_cond_else || call == &tli_call_cond_end) return leave_branch(p, c, i);
  if (call == &tli_call_loop_begin) return begin_loop(p, c, *i);
  if (call == &tli_call_loop_test) return test_loop(p, c, i);
  if (call == &tli_call_loop_end) return repeat_loop(p, c, i);
  TL_TRY(run_call(c, &c->steps[*i], &c->steps[*i]));
  put_results(c, &c->steps[*i]);
  release_dead(p, c, 2 * (int64_t)*i);
  return true;
}

static bool make_calls(const tl_Program *p, tli_RunContext *c) {
  bool ok = true;
  c->loops = 0;
  for (int32_t i = 0; ok && i < p->graph->ncalls; i++) ok = tli_go_on() && make_call(p, c, &i);
  return end_sweep(c, ok);
}

static void drop_values(const tl_Program *p, tli_RunContext *c) {
  const tli_Graph *g = p->graph;
  for (int32_t v = 0; v < g->nvalues; v++) {
    tli_ValueKind kind = g->values[v].kind;
    bool owned = kind == TLI_VALUE_RESULT || kind == TLI_VALUE_INPUT ||
                 (kind == TLI_VALUE_NUMBER && p->patched[g->values[v].index]);
    if (owned) tli_release(c->values[v]);
    c->values[v] = NULL;
  }
}

/* Writes the scheduled numbers of the current step, such as its learning rate, into the
** arguments. */
static bool put_schedule(const tl_Program *p, tli_RunContext *c) {
  const tli_Graph *g = p->graph;
  const tli_GraphSchedule *s = &g->schedule;
  if (s->count < 0) return true;
  const tl_Tensor *rates = g->constants[s->rates].tensor;
  int64_t step = *(const int64_t *)tli_data(g->constants[s->count].tensor);
  if (step < 0 || step >= rates->sizes[0])
    return tli_fail(TL_EARG,
                    "program: expected one of the %" PRId64
                    " steps that the schedule was exported for, got step %" PRId64,
                    rates->sizes[0], step + 1);
  const double *row = (const double *)tli_data(rates) + step * s->nplaces;
  for (int32_t i = 0; i < s->nplaces; i++) {
    const tli_GraphPlace *at = &s->places[i];
    ((double *)c->steps[at->call].args[at->param].reals.v)[at->element] = row[i];
  }
  return true;
}

static void count_step(const tl_Program *p) {
  int32_t count = p->graph->schedule.count;
  if (count >= 0) ++*(int64_t *)tli_data(p->graph->constants[count].tensor);
}

/* Releases the gradients of the leaves, which a step has computed. */
static void drop_gradients(const tl_Program *p) {
  const tli_Graph *g = p->graph;
  for (int32_t i = 0; i < g->nconstants; i++) {
    tli_Autograd *state = g->constants[i].leaf ? p->constants[i]->autograd : NULL;
    if (state == NULL) continue;
    tli_release(state->grad);
    state->grad = NULL;
  }
}

/* Returns whether a result may be given away without a copy: it must be the only user of its
** memory, and that memory must not belong to the plan. The recorded run does not return such
** results, so the plan leaves their memory to the allocator. */
static bool may_give(const tli_RunContext *c, const tl_Tensor *t) {
#ifdef TLI_RUNTIME
  (void)c, (void)t;
  return false;
#else
  return t->autograd == NULL && t->base == NULL && tli_contiguous(t) && is_sole(t) &&
         t->numel * tli_dtype_bytes[t->dtype] == t->storage->bytes &&
         !tli_run_plan_owns(c->plan, t) && !tli_run_plan_owns(c->plan, t->storage) &&
         !tli_run_plan_owns(c->plan, t->storage->data);
#endif
}

/* Gives an output to the caller. If *out is NULL, stores the result or a copy of the result there;
** otherwise copies the result to the tensor *out. */
static bool hand_over(const tli_Graph *g, tli_RunContext *c, int32_t i, tl_Tensor **out) {
  tli_GraphValue of = g->values[g->outputs[i]];
  tl_Tensor *value = c->values[g->outputs[i]];
  if (value == NULL) return tli_fail(TL_EARG, "program: output %d was not computed", i + 1);
  if (tli_graph_live(g) && *out == NULL) return (*out = tli_retain(value)) != NULL;
  if (*out == NULL && of.kind == TLI_VALUE_RESULT && c->leaves > 1 && may_give(c, value)) {
    atomic_store_explicit(&value->storage->version, 0, memory_order_relaxed);
    return (*out = tli_retain(value)) != NULL;
  }
  if (*out == NULL) return (*out = tli_clone_for("program", value)) != NULL;
  if ((*out)->dtype != value->dtype || !tli_same_sizes(*out, value))
    return tli_fail(TL_ESHAPE, "program: output %d of %d: expected %s of sizes %s, got %s %s",
                    i + 1, (int)g->noutputs, tl_dtype_name((tl_DType)value->dtype),
                    tli_sizes_str(value), tl_dtype_name((tl_DType)(*out)->dtype),
                    tli_sizes_str(*out));
  TL_TRY(tli_copy(*out, value));
  tli_bump(*out, "program");
  return true;
}

/* Determines whether this run gives its results to the caller without copying them. If the previous
** run did otherwise, the plan of the memory must be recorded again, because the results are then
** allocated elsewhere. */
static void note_outputs(const tl_Program *p, tli_RunContext *c, tl_Tensor *const *outputs) {
/* a library that is built for one program always copies the results, which takes less code */
#ifdef TLI_RUNTIME
  (void)p, (void)outputs;
  c->leaves = 0;
#else
  bool given = on_other_device(p->graph) || p->graph->step;
  for (int32_t i = 0; i < p->graph->noutputs; i++) given = given || outputs[i] != NULL;
  bool gave = c->leaves > 1;
  if (given) c->leaves = -1;
  if (c->leaves >= 0 && !gave) c->leaves++;
  if (gave != (c->leaves > 1)) tli_run_plan_forget(c->plan);
#endif
}

static bool may_share_memory(const tl_Tensor *a, const tl_Tensor *b) {
  const char *x = a->storage->data, *y = b->storage->data;
  return x < y + b->storage->bytes && y < x + a->storage->bytes;
}

/* Fails if two outputs are the same tensor, or if elements of one output share memory, because
** values would then be overwritten. */
static bool outputs_fit(const tli_Graph *g, tl_Tensor *const *outputs) {
#ifndef TLI_RUNTIME
  for (int32_t i = 0; i < g->noutputs; i++) {
    bool fits = outputs[i] == NULL || !tli_overlaps_itself(outputs[i]);
    for (int32_t k = 0; k < i && fits; k++) fits = outputs[i] == NULL || outputs[i] != outputs[k];
    if (!fits)
      return tli_fail(TL_EARG, "program: output %d of %d: expected a tensor with memory of its own",
                      i + 1, (int)g->noutputs);
  }
#else
  (void)g, (void)outputs;
#endif
  return true;
}

/* Copies results that would be overwritten when an output is written. This can happen because the
** caller may give the same tensor as an input and as an output, and because a program may return an
** input. */
static bool save_results(const tli_Graph *g, tli_RunContext *c, tl_Tensor *const *outputs) {
  for (int32_t i = 0; i < g->noutputs; i++) {
    tl_Tensor **value = &c->values[g->outputs[i]];
    tli_ValueKind kind = g->values[g->outputs[i]].kind;
    if (*value == NULL || (kind != TLI_VALUE_RESULT && kind != TLI_VALUE_INPUT)) continue;
    for (int32_t k = 0; k <= i; k++) {
      if (outputs[k] == NULL || !may_share_memory(*value, outputs[k])) continue;
      tl_Tensor *copy = tli_clone_for("program", *value);
      if (copy == NULL) return false;
      /* resumes the plan, because it must get back the blocks that it has served */
      if (!tli_graph_live(g)) tli_run_plan_resume(c->plan);
      tli_release(*value);
      if (!tli_graph_live(g)) tli_run_plan_pause(c->plan);
      *value = copy;
    }
  }
  return true;
}

/* Gives all outputs to the caller. After a failure, outputs that were NULL are NULL again. */
static bool hand_over_all(const tl_Program *p, tli_RunContext *c, tl_Tensor **outputs) {
  const tli_Graph *g = p->graph;
  bool ok = save_results(g, c, outputs);
  for (int32_t i = 0; i < g->noutputs; i++) c->made[i] = outputs[i] == NULL;
  for (int32_t i = 0; ok && i < g->noutputs; i++) ok = hand_over(g, c, i, &outputs[i]);
  for (int32_t i = 0; !ok && i < g->noutputs; i++) {
    if (!c->made[i]) continue;
    tli_release(outputs[i]);
    outputs[i] = NULL;
  }
  return ok;
}

static bool run(tl_Program *p, tli_RunContext *c, tl_Tensor *const *inputs, tl_Tensor **outputs) {
  const tli_Graph *g = p->graph;
  tl_DType dtype = tli_default_dtype();
  tl_Device device = tli_default_device();
  tli_set_default_dtype(g->dtype);
  tli_set_default_device(g->device);
  /* a captured graph keeps the memory that it uses, so the plan must not serve it */
  if (on_other_device(g)) tli_run_plan_mute(c->plan, tli_capture_number(g->device) != 0);
  bool recording = tli_set_grad_mode(false);
  c->active = c->plan;
  note_outputs(p, c, outputs);
  /* if gradients are recorded, their graph and much of its memory outlive the run */
  if (!tli_graph_live(g)) tli_run_plan_begin(c->plan);
  bool ok = put_values(p, c, inputs) && put_schedule(p, c);
  if (ok) ok = make_calls(p, c);
  tli_set_grad_mode(false);
  if (!tli_graph_live(g)) tli_run_plan_pause(c->plan);
  if (ok) ok = hand_over_all(p, c, outputs);
  if (!tli_graph_live(g)) tli_run_plan_resume(c->plan);
  drop_gradients(p);
  drop_values(p, c);
  if (!tli_graph_live(g)) tli_run_plan_end(c->plan);
  tli_set_grad_mode(recording);
  if (ok) count_step(p);
  if (!ok) tli_run_plan_forget(c->plan);
  tli_set_default_dtype(dtype);
  tli_set_default_device(device);
  return ok;
}

/* Runs the program in a context, after setting the arguments that depend on sizes. */
static bool run_with_sizes(tl_Program *p, tli_RunContext *c, const int64_t *sizes,
                           tl_Tensor *const *inputs, tl_Tensor **outputs) {
  size_t bytes = (size_t)p->graph->nsymbols * sizeof *sizes;
  if (bytes > 0 && memcmp(c->sizes, sizes, bytes) != 0) {
    TL_TRY(fill_holes(p, c, sizes));
    memcpy(c->sizes, sizes, bytes);
    tli_run_plan_forget(c->plan);
  }
  return run(p, c, inputs, outputs);
}

/* Sets a generator to the seed and the position of another generator. */
static void follow(tli_Generator *g, const tli_Generator *from) {
  g->seed = from->seed;
  g->offset = from->offset;
}

/* Runs the program within its limits. `most` is a further limit on the number of iterations, or
** NULL. */
static bool run_within_limits(tl_Program *p, tli_RunContext *c, int64_t *most, const int64_t *sizes,
                              tl_Tensor *const *inputs, tl_Tensor **outputs) {
  c->limits = tli_program_limits(p);
  c->repeats = c->limits.iterations > 0 ? c->limits.iterations : -1;
  if (most && (c->repeats < 0 || *most < c->repeats)) c->repeats = *most;
  int64_t before = tli_deadline(), repeats = c->repeats;
  double ns = c->limits.seconds * 1e9;
  int64_t now = ns > 0 ? tli_now_ns() : 0, end = ns < 4e18 ? now + (int64_t)ns : INT64_MAX;
  bool sooner = ns > 0 && (before == 0 || end < before);
  if (sooner) tli_set_deadline(end);
  bool ok = run_with_sizes(p, c, sizes, inputs, outputs);
  tli_set_deadline(before);
  if (most) *most -= repeats - c->repeats;
  if (!ok && sooner && tl_error_kind() == TL_EINTERRUPT && tli_now_ns() >= end)
    return tli_fail(TL_EINTERRUPT,
                    "program: expected a run of at most %g seconds (tl_program_set_limits, "
                    "program:set_limits)",
                    c->limits.seconds);
  return ok;
}

bool tli_program_run(tl_Program *p, tli_Generator *generator, int64_t *most,
                     tl_Tensor *const *inputs, int ninputs, tl_Tensor **outputs, int noutputs) {
  if (p == NULL) return tli_fail(TL_EARG, "program: expected a program, got NULL");
  const tli_Graph *g = p->graph;
  int64_t sizes[TLI_SYMBOLS_MOST];
  if (ninputs != g->ninputs || noutputs != g->noutputs)
    return tli_fail(TL_EARG, "program: expected %d inputs and %d outputs, got %d and %d",
                    (int)g->ninputs, (int)g->noutputs, ninputs, noutputs);
  if ((ninputs > 0 && inputs == NULL) || (noutputs > 0 && outputs == NULL))
    return tli_fail(TL_EARG, "program: expected lists of inputs and outputs, got NULL");
  if (g->nsymbols > TLI_SYMBOLS_MOST)
    return tli_fail(TL_EARG, "program: expected at most %d dynamic sizes, got %d", TLI_SYMBOLS_MOST,
                    (int)g->nsymbols);
  for (int32_t s = 0; s < g->nsymbols; s++) sizes[s] = -1;
  for (int i = 0; i < ninputs; i++)
    TL_TRY(tli_graph_check_input(g, &g->inputs[i], inputs[i], sizes));
  TL_TRY(outputs_fit(g, outputs));
  for (int32_t s = 0; s < g->nsymbols; s++)
    /* no input has this size, so the example's size is used */
    if (sizes[s] < 0) sizes[s] = g->symbols[s].example;
  if (p->has_state) tli_mutex_lock(&p->busy);
  tli_RunContext *c = take_context(p);
  bool ok = c != NULL;
  if (generator == NULL && g->step) generator = &p->generator;
  /* a device that was seeded separately has a generator of its own */
  if (generator) generator = tli_generator_of(generator, g->device);
  if (ok && generator) follow(&c->generator, generator);
  ok = ok && run_within_limits(p, c, most, sizes, inputs, outputs);
  /* after a failure the generator keeps its position, so that the caller may make the calls in
  ** another way with the same random numbers */
  if (ok && generator) follow(generator, &c->generator);
  if (c) put_context(p, c);
  if (p->has_state) tli_mutex_unlock(&p->busy);
  return ok;
}

bool tl_program_run(tl_Program *p, tl_Tensor *const *inputs, int ninputs, tl_Tensor **outputs,
                    int noutputs) {
  if (p && p->graph->step)
    return tli_fail(TL_EARG, "program: it is a training step; tl_program_step runs it");
  return tli_program_run(p, NULL, NULL, inputs, ninputs, outputs, noutputs);
}

bool tl_program_step(tl_Program *p, tl_Tensor *const *inputs, int ninputs, tl_Tensor **outputs,
                     int noutputs) {
  if (p && !p->graph->step)
    return tli_fail(TL_EARG, "program: it is no training step; tl_program_run runs it");
  return tli_program_run(p, NULL, NULL, inputs, ninputs, outputs, noutputs);
}
