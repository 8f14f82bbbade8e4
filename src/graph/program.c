/*
** program.c - creates programs from graphs, and changes limits, seeds, schedules, devices and
** shared state of programs. It also describes the inputs and outputs of programs.
*/
#include <string.h>

#include "autograd/graph.h"
#include "core/device/transfer.h"
#include "graph/branches.h"
#include "graph/run.h"
#include "ops/common.h"

/* The default limit of a run's iterations. */
#define ITERATIONS 100000000

/* Scratch space for finding the time of each value's last use. A region is a loop or the two
** branches of a cond, and is named by the index of the call at its end; -1 is the whole program. */
typedef struct Uses {
  int32_t *last;   /* for each value: the time of the last use found so far; -1 for none */
  int32_t *made;   /* for each value: the region in which it is made */
  int32_t *within; /* for each call: the region in which it takes its arguments */
  int32_t *around; /* for the call at a region's end: the region that surrounds this region */
} Uses;

/* Returns the region in which a call makes its results. */
static int32_t region_of_results(const tli_Graph *g, const int32_t *ends, const Uses *u,
                                 int32_t i) {
  if (g->calls[i].call == &tli_call_loop_begin) return ends[i];
  return g->calls[i].call == &tli_call_cond_end ? u->around[i] : u->within[i];
}

/* Finds the region of each call. For each mark that begins a region, `ends` has the call at its
** end. */
static void find_regions(const tl_Program *p, int32_t *ends, Uses *u) {
  const tli_Graph *g = p->graph;
  int32_t now = -1;
  for (int32_t i = 0; p->jumps && i < g->ncalls; i++) {
    if (g->calls[i].call == &tli_call_cond_begin) ends[i] = p->jumps[p->jumps[i]];
    if (g->calls[i].call == &tli_call_loop_end) ends[p->jumps[i]] = i;
  }
  for (int32_t i = 0; i < g->ncalls; i++) {
    const tli_Call *call = g->calls[i].call;
    u->within[i] = now;
    if (p->jumps && (call == &tli_call_cond_begin || call == &tli_call_loop_begin)) {
      u->around[ends[i]] = now;
      now = ends[i];
    } else if (p->jumps && (call == &tli_call_cond_end || call == &tli_call_loop_end)) {
      now = u->around[i];
    }
    int32_t made = region_of_results(g, ends, u, i);
    for (int32_t r = 0; r < g->calls[i].nresults; r++) {
      u->made[g->calls[i].results[r]] = made;
      u->last[g->calls[i].results[r]] = 2 * i;
    }
  }
}

/* Returns whether region `inner` is region `outer` or lies inside it. */
static bool contains(const Uses *u, int32_t outer, int32_t inner) {
  while (inner >= 0 && inner != outer) inner = u->around[inner];
  return inner == outer;
}

/* Updates the time of a value's last use for a use by a call. A value from outside of a loop or a
** cond is released only after the whole loop or cond: a loop needs the value again, and both
** branches must return the same blocks. */
static bool use(const Uses *u, const tli_Graph *g, int64_t value, int32_t call) {
  if (value < 0 || g->values[value].kind != TLI_VALUE_RESULT) return true;
  bool carried = g->calls[g->values[value].index].call == &tli_call_loop_begin;
  int32_t made = u->made[value], at = u->within[call], time = 2 * call;
  if (carried && !contains(u, made, at)) made = u->around[made];
  if (!contains(u, made, at))
    return tli_fail(TL_EARG, "program: a value of a branch or a loop is used outside of it");
  for (; at != made; at = u->around[at]) time = 2 * at + 1;
  if (time > u->last[value]) u->last[value] = time;
  return true;
}

static bool find_last_uses(const tli_Graph *g, const Uses *u) {
  for (int32_t i = 0; i < g->ncalls; i++) {
    const tli_GraphCall *c = &g->calls[i];
    for (int k = 0; k < c->call->nparams; k++) {
      if (tli_kind_is_tensor(c->call->params[k].kind)) TL_TRY(use(u, g, c->args[k].integer, i));
      if (c->call->params[k].kind != TLI_CALL_TENSORS) continue;
      for (int64_t e = 0; e < c->args[k].ints.n; e++) TL_TRY(use(u, g, c->args[k].ints.v[e], i));
    }
  }
  for (int32_t i = 0; i < g->noutputs; i++) u->last[g->outputs[i]] = 2 * g->ncalls;
  return true;
}

/* Sorts the results of calls by the time of their last use. */
static bool find_dead(tl_Program *p) {
  const tli_Graph *g = p->graph;
  tli_Region scratch = {0};
  int32_t *ends = tli_region_get(&scratch, g->ncalls, sizeof *ends);
  Uses u = {tli_region_get(&scratch, g->nvalues, sizeof(int32_t)),
            tli_region_get(&scratch, g->nvalues, sizeof(int32_t)),
            tli_region_get(&scratch, g->ncalls, sizeof(int32_t)),
            tli_region_get(&scratch, g->ncalls, sizeof(int32_t))};
  int64_t times = 2 * (int64_t)g->ncalls + 1;
  p->dead = tli_region_get(&p->region, g->nvalues, sizeof *p->dead);
  p->ndead = tli_region_get(&p->region, times + 2, sizeof *p->ndead);
  bool ok = ends && u.last && u.made && u.within && u.around && p->dead && p->ndead;
  if (ok) { /* counts the values that each time releases, then sorts the values by these counts */
    for (int32_t v = 0; v < g->nvalues; v++) u.made[v] = u.last[v] = -1;
    find_regions(p, ends, &u);
    ok = find_last_uses(g, &u);
    for (int32_t v = 0; v < g->nvalues; v++)
      if (g->values[v].kind == TLI_VALUE_RESULT) p->ndead[u.last[v] + 2]++;
    for (int64_t t = 2; t < times + 2; t++) p->ndead[t] += p->ndead[t - 1];
    for (int32_t v = 0; v < g->nvalues; v++)
      if (g->values[v].kind == TLI_VALUE_RESULT) p->dead[p->ndead[u.last[v] + 1]++] = v;
  }
  tli_region_free(&scratch);
  return ok;
}

static bool make_numbers(tl_Program *p) {
  const tli_Graph *g = p->graph;
  for (int32_t i = 0; i < g->nholes; i++)
    if (g->holes[i].call < 0) p->patched[g->holes[i].param] = true;
  for (int32_t i = 0; i < g->nnumbers; i++)
    if (!p->patched[i] && (p->numbers[i] = tli_number(g->numbers[i])) == NULL) return false;
  return true;
}

/* Returns the tensor that runs use as a constant. The autograd state of a leaf is created now, so
** that the first run requests the same memory as later runs. */
static tl_Tensor *make_constant(tl_Tensor *values, bool leaf) {
  if (!leaf) return tli_retain(values);
  tl_Tensor *made = tli_detached(values);
  if (made && tli_require_grad(made) && tli_autograd(made)) return made;
  tli_release(made);
  return NULL;
}

static bool make_constants(tl_Program *p) {
  const tli_Graph *g = p->graph;
  for (int32_t i = 0; i < g->nconstants; i++)
    if (!(p->constants[i] = make_constant(g->constants[i].tensor, g->constants[i].leaf)))
      return false;
  return true;
}

tl_Program *tli_program_new(tli_Graph *g) {
  tl_Program *p = tli_alloc(sizeof *p);
  if (p == NULL) return NULL;
  memset(p, 0, sizeof *p);
  tli_mutex_init(&p->lock);
  tli_mutex_init(&p->busy);
  p->graph = tli_graph_retain(g);
  p->numbers = tli_region_get(&p->region, g->nnumbers, sizeof *p->numbers);
  p->patched = tli_region_get(&p->region, g->nnumbers, sizeof *p->patched);
  p->constants = tli_region_get(&p->region, g->nconstants, sizeof *p->constants);
  p->nconstants = g->nconstants;
  p->has_state = tli_graph_has_state(g);
  p->generator.seed = g->seed;
  p->generator.offset = g->offset;
  p->iterations = ITERATIONS;
  if (p->numbers && p->patched && p->constants && make_numbers(p) && make_constants(p) &&
      tli_branch_jumps(g, &p->region, &p->jumps) && find_dead(p))
    return p;
  tl_program_free(p);
  return NULL;
}

const tli_Graph *tli_program_graph(const tl_Program *p) { return p->graph; }

tl_Program *tl_program_load(const char *path) {
  if (path == NULL) return tli_fail_null(TL_EARG, "export.load: expected a path, got NULL");
  tli_Graph *g = tli_graph_load(path);
  tl_Program *p = g ? tli_program_new(g) : NULL;
  tli_graph_release(g);
  return p;
}

static void keep_bytes(void *data, void *context) {
  (void)data;
  (void)context;
}

tl_Program *tl_program_read(const void *bytes, size_t size) {
  if (bytes == NULL) return tli_fail_null(TL_EARG, "export.load: expected bytes, got NULL");
  tli_Graph *g = tli_graph_read((void *)bytes, size, keep_bytes, NULL);
  tl_Program *p = g ? tli_program_new(g) : NULL;
  tli_graph_release(g);
  return p;
}

void tl_program_free(tl_Program *p) {
  if (p == NULL) return;
  tli_context_free(p->spare);
  while (p->idle) {
    tli_RunContext *c = p->idle;
    p->idle = c->next;
    tli_context_free(c);
  }
  for (int32_t i = 0; p->numbers && i < p->graph->nnumbers; i++) tli_release(p->numbers[i]);
  for (int32_t i = 0; p->constants && i < p->nconstants; i++) tli_release(p->constants[i]);
  tli_graph_release(p->graph);
  tli_region_free(&p->region);
  tli_mutex_destroy(&p->lock);
  tli_mutex_destroy(&p->busy);
  tli_free(p, sizeof *p);
}

/* ---- settings ---- */

bool tl_program_set_limits(tl_Program *p, const tl_ProgramLimits *limits) {
  if (p == NULL || limits == NULL)
    return tli_fail(TL_EARG, "program: expected a program and limits, got NULL");
  if (limits->iterations < 0 || !(limits->seconds >= 0))
    return tli_fail(TL_EARG,
                    "program: expected limits of at least 0, got %" PRId64
                    " iterations and %g seconds",
                    limits->iterations, limits->seconds);
  p->iterations = limits->iterations;
  p->seconds = limits->seconds;
  return true;
}

tl_ProgramLimits tli_program_limits(tl_Program *p) {
  return (tl_ProgramLimits){p->iterations, p->seconds};
}

bool tl_program_seed(tl_Program *p, uint64_t seed) {
  if (p == NULL) return tli_fail(TL_EARG, "program: expected a program, got NULL");
  tli_mutex_lock(&p->busy);
  tli_generator_seed(&p->generator, seed);
  tli_mutex_unlock(&p->busy);
  return true;
}

bool tl_program_save(tl_Program *p, const char *path) { return tli_program_save(p, NULL, path); }

bool tli_program_save(tl_Program *p, const tli_Generator *generator, const char *path) {
  if (p == NULL || path == NULL)
    return tli_fail(TL_EARG, "program: expected a program and a path, got NULL");
  if (tli_graph_live(p->graph))
    return tli_fail(TL_EARG, "program: save: its results have gradients, which need the tensors of "
                             "the script; torch.export makes a program that can be saved");
  tli_mutex_lock(&p->busy);
  const tli_Generator *from = generator ? generator : &p->generator;
  p->graph->seed = from->seed;
  p->graph->offset = from->offset;
  bool ok = tli_graph_save(p->graph, path);
  tli_mutex_unlock(&p->busy);
  return ok;
}

#ifndef TLI_RUNTIME
bool tli_program_set_real(tl_Program *p, const tli_GraphPlace *at, double value) {
  if (!tli_graph_place_fits(p->graph, at))
    return tli_fail(TL_EARG, "program: expected the place of a real number in a list");
  tli_mutex_lock(&p->busy);
  tli_mutex_lock(&p->lock);
  ((double *)p->graph->calls[at->call].args[at->param].reals.v)[at->element] = value;
  /* runs of programs with state hold the lock `busy`, so none of them uses this context now */
  tli_RunContext *spare = p->spare;
  if (spare) ((double *)spare->steps[at->call].args[at->param].reals.v)[at->element] = value;
  for (tli_RunContext *c = p->idle; c; c = c->next)
    ((double *)c->steps[at->call].args[at->param].reals.v)[at->element] = value;
  tli_mutex_unlock(&p->lock);
  tli_mutex_unlock(&p->busy);
  return true;
}
#endif

#ifndef TLI_RUNTIME
/* Copies the constants of a graph to a device, except the numbers of a schedule, which stay on the
** CPU. */
static bool move_constants(const tli_Graph *g, tl_Device device, tl_Tensor **moved) {
  for (int32_t i = 0; i < g->nconstants; i++) {
    bool host = g->schedule.count >= 0 && (i == g->schedule.count || i == g->schedule.rates);
    moved[i] = tli_moved(g->constants[i].tensor, host ? TLI_CPU : device, false);
    if (moved[i] == g->constants[i].tensor) {
      /* a copy on the same device would share the original's memory, so the constant is cloned */
      tli_release(moved[i]);
      moved[i] = tli_clone_for("program", g->constants[i].tensor);
    }
    if (moved[i] == NULL) return false;
  }
  return true;
}

tl_Program *tl_program_to(tl_Program *p, tl_Device device) {
  if (p == NULL) return tli_fail_null(TL_EARG, "program: expected a program, got NULL");
  if (device.type == TL_CPU && device.index != 0)
    return tli_fail_null(TL_EDEVICE, "program: expected device cpu, got cpu:%d", device.index);
  if (device.type < 0 || device.type == TL_META || tli_backend_open(device) == NULL)
    return device.type >= 0 && device.type != TL_META
               ? NULL
               : tli_fail_null(TL_EDEVICE, "program: expected a device that computes");
  tli_mutex_lock(&p->busy);
  const tli_Graph *g = p->graph;
  tl_Tensors moved = tli_tensors_new(g->nconstants);
  tli_Text text = {0};
  p->graph->seed = p->generator.seed;
  p->graph->offset = p->generator.offset;
  bool ok = (moved.v || g->nconstants == 0) && move_constants(g, device, moved.v) &&
            tli_graph_describe(g, &text);
  tli_Graph *to =
      ok ? tli_graph_parse(text.data, text.size, moved.v, (int)g->nconstants, device) : NULL;
  tl_Program *made = to ? tli_program_new(to) : NULL;
  tl_ProgramLimits limits = tli_program_limits(p);
  if (made && !tl_program_set_limits(made, &limits)) {
    tl_program_free(made);
    made = NULL;
  }
  tli_mutex_unlock(&p->busy);
  tli_graph_release(to);
  tli_text_free(&text);
  tli_tensors_free(&moved);
  return made;
}
#endif

/* Checks that constant `i` can share the memory of a constant of another program. */
static bool can_share(const tl_Program *p, int32_t i, const tl_Tensor *of) {
  const tl_Tensor *to = p->graph->constants[i].tensor;
  const char *name = p->graph->constants[i].name;
  tl_Device a = tli_device(to), b = tli_device(of);
  if (a.type != b.type || a.index != b.index)
    return tli_fail(TL_EDEVICE, "program: %s: expected programs on one device", name);
  if (to->dtype == of->dtype && tli_same_sizes(to, of)) return true;
  return tli_fail(TL_ESHAPE,
                  "program: %s: expected %s of sizes %s, as the other program has, got %s "
                  "%s",
                  name, tl_dtype_name((tl_DType)of->dtype), tli_sizes_str(of),
                  tl_dtype_name((tl_DType)to->dtype), tli_sizes_str(to));
}

/* Returns the state of another program that has the same name as constant `i`; NULL if that program
** has none. Each program with a schedule counts its own steps. */
static tl_Tensor *state_for(const tl_Program *p, int32_t i, const tl_Program *from) {
  if (i == p->graph->schedule.count) return NULL;
  for (int32_t k = 0; k < from->graph->nconstants; k++) {
    const tli_GraphConstant *of = &from->graph->constants[k];
    if (of->state && strcmp(of->name, p->graph->constants[i].name) == 0) return of->tensor;
  }
  return NULL;
}

bool tl_program_share(tl_Program *p, tl_Program *from) {
  if (p == NULL || from == NULL)
    return tli_fail(TL_EARG, "program: expected two programs, got NULL");
  int32_t shared = 0;
  for (int32_t i = 0; i < p->graph->nconstants; i++) {
    const tl_Tensor *of = state_for(p, i, from);
    if (of) TL_TRY(can_share(p, i, of));
    shared += of != NULL;
  }
  if (shared == 0)
    return tli_fail(TL_EARG, "program: expected programs with state of the same names");
  for (int32_t i = 0; i < p->graph->nconstants; i++) {
    tli_GraphConstant *to = &p->graph->constants[i];
    tl_Tensor *of = state_for(p, i, from), *made = of ? make_constant(of, to->leaf) : NULL;
    if (of == NULL) continue;
    if (made == NULL) return false;
    tli_retain(of);
    tli_release(to->tensor);
    tli_release(p->constants[i]);
    to->tensor = of;
    p->constants[i] = made;
  }
  return true;
}

/* ---- inputs and outputs ---- */

int tl_program_inputs(const tl_Program *p) { return p ? p->graph->ninputs : 0; }

int tl_program_outputs(const tl_Program *p) { return p ? p->graph->noutputs : 0; }

bool tl_program_input(const tl_Program *p, int i, tl_ProgramInput *out) {
  if (p == NULL || out == NULL)
    return tli_fail(TL_EARG, "program: expected a program and a place, got NULL");
  if (i < 0 || i >= p->graph->ninputs)
    return tli_fail(TL_EARG, "program: expected an input from 0 to %d, got %d",
                    (int)p->graph->ninputs - 1, i);
  const tli_GraphInput *in = &p->graph->inputs[i];
  *out = (tl_ProgramInput){.name = in->name, .dtype = in->dtype, .ndim = in->ndim};
  for (int d = 0; d < in->ndim; d++) out->sizes[d] = in->symbols[d] >= 0 ? -1 : in->sizes[d];
  return true;
}
