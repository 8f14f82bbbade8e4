/*
** autograd.c - the Lua functions that compute gradients: backward and grad.
*/
#include "lua/autograd/autograd.h"

#include <string.h>

#include "autograd/calls.h"
#include "lua/args/sparse.h"
#include "lua/autograd/callback.h"
#include "lua/modes/thread_modes.h"
#include "lua/tensor/value.h"
#include "lua/list_length.h"

/* ---- backward passes ---- */

/* Allocates a list of n tensors that lives as long as `a`. If memory is exhausted, records the
** failure in `a`. */
static tl_Tensor **new_list(tli_Args *a, int64_t n) {
  tl_Tensor **v = tli_args_room(a, n ? n : 1);
  if (v) memset(v, 0, (size_t)n * sizeof *v);
  return v;
}

/* The tensors or gradient edges at which a backward pass begins, or with respect to which it
** computes gradients. All are borrowed. */
typedef struct Ends {
  int64_t n;
  tl_Tensor **tensors; /* the tensors; a NULL entry stands for an edge in `edges` */
  tli_Edge *edges;     /* the edges; NULL if all ends are tensors */
} Ends;

static bool has_edge(lua_State *L, int list) {
  lua_Integer n = tli_list_length(L, list);
  bool found = false;
  for (lua_Integer k = 1; k <= n && !found; k++) {
    lua_rawgeti(L, list, k);
    found = tli_to_edge(L, -1) != NULL;
    lua_pop(L, 1);
  }
  return found;
}

/* Reads entry k of the list of parameter i. The entry is on top of the stack. */
static void read_end(tli_Args *a, int i, Ends *ends, int64_t k) {
  lua_State *L = a->L;
  const tli_Edge *edge = tli_to_edge(L, -1);
  if (edge) {
    ends->edges[k] = *edge;
  } else if ((ends->tensors[k] = tli_to_tensor(L, a->S, lua_gettop(L))) == NULL) {
    tli_fail(TL_EARG, "%s: %s[%lld]: expected a Tensor or a gradient edge, got %s",
             a->signature->name, a->signature->params[i].name, (long long)k + 1,
             tli_describe(L, a->S, lua_gettop(L)));
    a->failed = true;
  }
}

/* Reads parameter i: a tensor, a gradient edge, or a list of them. */
static Ends read_ends(tli_Args *a, int i) {
  Ends none = {0, NULL, NULL}, ends = {1, NULL, NULL};
  if (!tli_args_given(a, i) || a->failed) return none;
  lua_State *L = a->L;
  bool list = lua_type(L, a->at[i]) == LUA_TTABLE;
  if (list && !has_edge(L, a->at[i])) {
    tl_Tensors tensors = tli_arg_tensors(a, i);
    return (Ends){tensors.n, tensors.v, NULL};
  }
  if (list) ends.n = tli_list_length(L, a->at[i]);
  if ((ends.tensors = new_list(a, ends.n)) == NULL) return none;
  if (!list && tli_to_edge(L, a->at[i]) == NULL) {
    ends.tensors[0] = tli_arg_tensor(a, i);
    return ends;
  }
  ends.edges = tli_args_room(a, ends.n * (int64_t)(sizeof *ends.edges / 8));
  if (ends.edges == NULL) return none;
  for (int64_t k = 0; k < ends.n && !a->failed; k++) {
    if (list)
      lua_rawgeti(L, a->at[i], k + 1);
    else
      lua_pushvalue(L, a->at[i]);
    read_end(a, i, &ends, k);
    lua_pop(L, 1);
  }
  return ends;
}

/* Reads parameter i, a list with n entries or, if n is 1, also a single tensor. An entry is a
** tensor (borrowed), or nil or false if there is no tensor. */
static tl_Tensor **tensors_or_none(tli_Args *a, int i, int64_t n) {
  if (!tli_args_given(a, i) || a->failed) return NULL;
  lua_State *L = a->L;
  tl_Tensor **v = new_list(a, n);
  if (v == NULL) return NULL;
  if (lua_type(L, a->at[i]) != LUA_TTABLE) {
    v[0] = tli_arg_tensor(a, i);
    if (n != 1) tli_args_fail(a, i, "a list with one gradient for each output");
    return v;
  }
  for (int64_t k = 0; k < n && !a->failed; k++) {
    lua_rawgeti(L, a->at[i], k + 1);
    if (lua_type(L, -1) == LUA_TUSERDATA) v[k] = tli_to_tensor(L, a->S, lua_gettop(L));
    if (v[k] == NULL && lua_toboolean(L, -1)) tli_args_fail(a, i, "a list of Tensors");
    lua_pop(L, 1);
  }
  if (tli_list_length(L, a->at[i]) > n)
    tli_args_fail(a, i, "a list with one gradient for each output");
  return v;
}

static void each_tensor(const tli_Backward *call, void (*fn)(tl_Tensor *t)) {
  for (int i = 0; i < call->nroots; i++)
    if (call->roots[i]) fn(call->roots[i]);
  for (int i = 0; i < call->nroots && call->grads; i++)
    if (call->grads[i]) fn(call->grads[i]);
  for (int i = 0; i < call->ninputs; i++)
    if (call->inputs[i]) fn(call->inputs[i]);
}

static void hold(tl_Tensor *t) { tli_retain(t); }

/* Runs a backward pass. Inference mode is off during the pass, and gradients are recorded if
** create_graph is set. Hooks run in these modes as well, whichever coroutine calls them. */
static bool run_in_modes(lua_State *L, tli_Settings *of, const tli_Backward *call) {
  const tli_Change modes[] = {{TLI_MODE_INFERENCE, false}, {TLI_MODE_GRAD, call->create_graph}};
  tli_ModeScope scope;
  tli_modes_begin(L, of, &scope, 2, modes);
  lua_State *outer = tli_set_running(L), *outer_call = tli_calling;
  tli_calling = L;
  bool ok = tli_backward(call);
  tli_calling = outer_call;
  tli_set_running(outer);
  tli_modes_end(L, &scope);
  return ok;
}

/* Runs a backward pass in a thread that is being traced. The trace records the whole pass as one
** call, not as the operators inside it. */
static bool run_traced(lua_State *L, tli_Settings *of, const tli_Backward *call) {
  if (call->root_edges || call->input_edges)
    return tli_fail(TL_EARG, "backward: torch.export_step records no gradient edges; give tensors");
  tl_Tensors roots = {call->nroots, (tl_Tensor **)call->roots},
             inputs = {call->ninputs, (tl_Tensor **)call->inputs},
             grads = {call->grads ? call->nroots : 0, (tl_Tensor **)call->grads};
  const tli_CallArg backward[] = {{.tensors = roots},
                                  {.tensors = grads},
                                  {.tensors = inputs},
                                  {.flag = call->retain_graph},
                                  {.flag = call->create_graph}};
  const tli_CallArg grad[] = {{.tensors = roots},           {.tensors = inputs},
                              {.tensors = grads},           {.flag = call->retain_graph},
                              {.flag = call->create_graph}, {.flag = call->allow_unused},
                              {.flag = call->materialize}};
  bool returns = call->results != NULL;
  const tli_Call *row = returns ? &tli_call_autograd_grad : &tli_call_autograd_backward;
  const tli_CallArg *args = returns ? grad : backward;
  tli_Traced traced = tli_trace_begin(row, args);
  if (traced == TLI_TRACE_REFUSED) return false;
  bool ok = run_in_modes(L, of, call);
  if (traced != TLI_TRACED) return ok;
  bool told = tli_trace_end(row, args, ok, call->results, returns ? call->ninputs : 0);
  if (ok && !told)
    for (int i = 0; returns && i < call->ninputs; i++) {
      tli_release(call->results[i]);
      call->results[i] = NULL;
    }
  return told;
}

/* Runs a backward pass. The function holds references to the tensors during the pass, because a
** hook may release them. */
static bool run(lua_State *L, tli_Settings *of, const tli_Backward *call) {
  each_tensor(call, hold);
  bool ok = tli_tracing() ? run_traced(L, of, call) : run_in_modes(L, of, call);
  each_tensor(call, tli_release);
  return ok;
}

static bool fits_int(const Ends *list) { return list->n <= INT32_MAX; }

/* ---- callbacks at the end of a pass ---- */

/* the address is a key of the registry, whose value is the list of queued functions */
static const char queue_key = 0;
/* the address is a key of the registry, whose value is the number of failed passes */
static const char failures_key = 0;

/* queue_callback(fn) registers fn, which is called once the running backward pass has succeeded. */
static int autograd_queue_callback(lua_State *L) {
  if (lua_type(L, 1) != LUA_TFUNCTION)
    return tli_error(L, "queue_callback: expected a function, got %s",
                     tli_describe(L, tli_state(L), 1));
  lua_settop(L, 1);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &queue_key) != LUA_TTABLE) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &queue_key);
    lua_replace(L, 2);
  }
  lua_pushvalue(L, 1);
  lua_rawseti(L, 2, tli_list_length(L, 2) + 1);
  return 0;
}

/* _pass() returns two values. The first is the number that identifies the running backward pass, or
** nil if none is running. The second is the number of passes that enclose the running pass. */
static int autograd_pass(lua_State *L) {
  int depth;
  uint64_t number = tli_pass(&depth);
  if (number)
    lua_pushinteger(L, (lua_Integer)number);
  else
    lua_pushnil(L);
  lua_pushinteger(L, depth);
  return 2;
}

/* _pass_visits(tensor) returns whether the running pass will call the tensor's hooks. */
static int autograd_pass_visits(lua_State *L) {
  bool answer;
  if (!tli_pass_visits(tli_check_tensor(L, 1, "autograd"), &answer)) return tli_raise(L);
  lua_pushboolean(L, answer);
  return 1;
}

/* _reaches_others(tensors, own) returns whether the tensors depend on a leaf that is not in the
** list `own`. */
static int autograd_reaches_others(lua_State *L) {
  static const tli_Param params[] = {{"tensors", TLI_A_TENSORS, TLI_P_ANY_DEVICE, 0},
                                     {"own", TLI_A_TENSORS, TLI_P_ANY_DEVICE, 0}};
  static const tli_Signature sig = {
      "autograd._reaches_others", "(tensors, own)", params, 2, false, true};
  tli_Args a;
  tli_args_begin(&a, L, &sig);
  tl_Tensors tensors = tli_arg_tensors(&a, 0), own = tli_arg_tensors(&a, 1);
  bool answer,
      ok = !a.failed && tli_reaches_others(tensors.v, (int)tensors.n, own.v, (int)own.n, &answer);
  tli_args_end(&a);
  if (!ok) return tli_raise(L);
  lua_pushboolean(L, answer);
  return 1;
}

/* _failures() returns the number of backward passes of this Lua state that have failed. A pass
** within another one is not counted. */
static int autograd_failures(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &failures_key);
  lua_pushinteger(L, lua_tointeger(L, -1));
  return 1;
}

static void count_failure(lua_State *L) {
  autograd_failures(L);
  lua_pushinteger(L, lua_tointeger(L, -1) + 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &failures_key);
  lua_pop(L, 2);
}

/* Ends a backward pass. If the pass has succeeded (`ok`), calls the queued functions, including
** functions that the called ones queue. Otherwise clears the queue. */
static void end_pass(lua_State *L, bool ok) {
  if (!ok) count_failure(L);
  while (lua_rawgetp(L, LUA_REGISTRYINDEX, &queue_key) == LUA_TTABLE) {
    int list = lua_gettop(L);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &queue_key);
    for (lua_Integer i = 1; ok && i <= tli_list_length(L, list); i++) {
      lua_rawgeti(L, list, i);
      lua_call(L, 0, 0);
    }
    lua_settop(L, list - 1);
  }
  lua_pop(L, 1);
}

/* Returns whether no backward pass is running, so that a pass that begins now is not nested. */
static bool outermost(void) { return tli_running() == NULL; }

/* _is_running() returns whether the caller runs inside a backward pass. */
static int autograd_is_running(lua_State *L) {
  lua_pushboolean(L, !outermost());
  return 1;
}

static int accumulate(tli_Args *a, tli_Settings *of, Ends roots, tl_Tensor *const *grads,
                      int first) {
  bool create = tli_arg_bool(a, first + 1, false);
  bool retain = tli_arg_bool(a, first, create);
  Ends inputs = read_ends(a, first + 2);
  if (tli_args_given(a, first + 2) && inputs.n == 0)
    tli_args_fail(a, first + 2, "a Tensor or a list with at least one");
  if (!fits_int(&roots) || !fits_int(&inputs)) tli_args_fail(a, 0, "fewer tensors");
  tli_Backward call = {.roots = roots.tensors,
                       .root_edges = roots.edges,
                       .grads = grads,
                       .nroots = (int)roots.n,
                       .retain_graph = retain,
                       .create_graph = create,
                       .inputs = inputs.tensors,
                       .input_edges = inputs.edges,
                       .ninputs = (int)inputs.n,
                       .accumulate = true};
  bool failed = a->failed, whole = outermost(), ok = !failed && run(a->L, of, &call);
  tli_args_end(a);
  if (failed) return tli_raise(a->L);
  if (whole) end_pass(a->L, ok);
  return ok ? 0 : tli_raise_caught(a->L);
}

/* The options that follow the gradients in the signatures of torch.autograd.backward and of the
** tensor method backward. */
#define BACKWARD_OPTIONS                                          \
  {"retain_graph", TLI_A_BOOL, TLI_P_OPTIONAL, 0},                \
      {"create_graph", TLI_A_BOOL, TLI_P_OPTIONAL, 0}, {          \
    "inputs", TLI_A_TENSORS, TLI_P_OPTIONAL | TLI_P_ANY_DEVICE, 0 \
  }
#define BACKWARD_USAGE "{retain_graph = create_graph, create_graph = false, inputs?})"

int tli_tensor_backward(lua_State *L) {
  static const tli_Param params[] = {{"self", TLI_A_TENSOR, 0, 0},
                                     {"gradient", TLI_A_TENSOR, TLI_P_OPTIONAL, 0},
                                     BACKWARD_OPTIONS};
  static const tli_Signature sig = {
      "backward", "x:backward(gradient?, " BACKWARD_USAGE, params, 5, false, true};
  tli_Args a;
  tli_args_begin(&a, L, &sig);
  tli_Settings *of = tli_push_settings(L, a.S);
  tl_Tensor *root = tli_arg_tensor(&a, 0);
  tl_Tensor *grad = tli_arg_tensor(&a, 1);
  return accumulate(&a, of, (Ends){1, &root, NULL}, &grad, 2);
}

static int autograd_backward(lua_State *L) {
  static const tli_Param params[] = {
      {"tensors", TLI_A_TENSORS, TLI_P_ANY_DEVICE, 0},
      {"grad_tensors", TLI_A_TENSORS, TLI_P_OPTIONAL | TLI_P_ANY_DEVICE, 0},
      BACKWARD_OPTIONS};
  static const tli_Signature sig = {
      "autograd.backward",
      "torch.autograd.backward(tensors, grad_tensors?, " BACKWARD_USAGE,
      params,
      5,
      false,
      true};
  tli_Args a;
  tli_args_begin(&a, L, &sig);
  tli_Settings *of = tli_push_settings(L, a.S);
  Ends roots = read_ends(&a, 0);
  tl_Tensor **grads = tensors_or_none(&a, 1, roots.n);
  return accumulate(&a, of, roots, grads, 2);
}

/* Moves the results to the boxes from index `first` on. Where a result is missing, nil replaces the
** box. */
static int push_results(lua_State *L, int first, tl_Tensor **results, int n) {
  tli_State *S = tli_state(L);
  for (int i = 0; i < n; i++) {
    if (results[i]) {
      tli_fill_box(S, lua_touserdata(L, first + i), results[i]);
    } else {
      lua_pushnil(L);
      lua_replace(L, first + i);
    }
  }
  lua_settop(L, first + n - 1);
  return n;
}

/* Replaces the boxes that hold sparse gradients, from index `first` on, by sparse tensors. */
static void push_sparse(lua_State *L, int first, int n) {
  for (int i = 0; i < n; i++) {
    tl_Tensor *t = tli_to_tensor(L, tli_state(L), first + i);
    if (t == NULL || !tli_is_sparse_grad(t)) continue;
    tli_push_grad(L, tli_retain(t));
    lua_replace(L, first + i);
  }
}

/* Pushes an empty box for each tensor in the argument of parameter i, and returns the number of
** boxes. */
static int push_boxes(tli_Args *a, int i) {
  bool list = tli_args_given(a, i) && lua_type(a->L, a->at[i]) == LUA_TTABLE;
  int64_t n = list ? tli_list_length(a->L, a->at[i]) : 1;
  /* limits a huge n to the range of int; luaL_checkstack refuses this count as well */
  int count = n < INT32_MAX / 2 ? (int)n : INT32_MAX / 2;
  luaL_checkstack(a->L, count, "autograd.grad: too many inputs");
  for (int k = 0; k < count; k++) tli_new_box(a->L, a->S);
  return count;
}

/* Selects example b of each gradient. Stores new references to the selected tensors in `out`. */
static bool select_examples(tl_Tensor *const *grads, int n, int64_t b, tl_Tensor **out) {
  for (int i = 0; i < n; i++) {
    out[i] = tlo_select(grads[i], 0, b);
    if (out[i]) continue;
    tli_release_results(out, i);
    return false;
  }
  return true;
}

/* Stacks the results of the n passes for each input i, rows[i * n] to rows[i * n + n - 1], into
** results[i]. Releases the rows. */
static bool stack_rows(tl_Tensor **rows, int ninputs, int64_t n, tl_Tensor **results) {
  bool ok = true;
  for (int i = 0; i < ninputs; i++) {
    tl_Tensor **of = rows + i * n;
    results[i] = ok && of[0] ? tlo_stack((tl_Tensors){n, of}, 0) : NULL;
    ok = ok && (of[0] == NULL || results[i]);
    for (int64_t b = 0; b < n; b++) tli_release(of[b]);
  }
  if (!ok) tli_release_results(results, ninputs);
  return ok;
}

static int64_t examples_of(const tli_Backward *call) {
  for (int i = 0; i < call->nroots; i++) {
    const tl_Tensor *grad = call->grads ? call->grads[i] : NULL;
    if (grad == NULL || grad->ndim == 0 || grad->sizes[0] == 0 ||
        grad->sizes[0] != call->grads[0]->sizes[0]) {
      tli_fail(TL_EARG, "autograd.grad: is_grads_batched: expected grad_outputs with the same "
                        "number of examples, at least one, in front of each output's shape");
      return -1;
    }
  }
  return call->nroots ? call->grads[0]->sizes[0] : -1;
}

/* Runs a backward pass for each example of the gradients. `rows` receives the results of all
** passes, and `seeds` the initial gradients of one pass. */
static bool run_batched(lua_State *L, tli_Settings *of, const tli_Backward *call, int64_t n,
                        tl_Tensor **rows, tl_Tensor **seeds) {
  int count = call->ninputs;
  tli_Backward one = *call;
  one.grads = seeds;
  bool ok = true;
  for (int64_t b = 0; ok && b < n; b++) {
    /* the results of the current example's pass, which the loop moves to `rows` */
    tl_Tensor **results = call->results;
    one.retain_graph = call->retain_graph || b + 1 < n;
    tli_set_grad_mode(call->create_graph);
    ok = select_examples(call->grads, call->nroots, b, seeds);
    if (!ok) break;
    ok = run(L, of, &one);
    tli_release_results(seeds, call->nroots);
    for (int i = 0; ok && i < count; i++) {
      rows[i * n + b] = results[i];
      results[i] = NULL;
    }
  }
  tli_set_grad_mode(call->create_graph);
  if (ok) return stack_rows(rows, count, n, call->results);
  for (int64_t i = 0; i < count * n; i++) tli_release(rows[i]);
  return false;
}

static bool run_examples(tli_Args *a, tli_Settings *of, const tli_Backward *call) {
  int64_t n = examples_of(call);
  TL_TRY(n > 0);
  tl_Tensor **rows = new_list(a, call->ninputs * n), **seeds = new_list(a, call->nroots);
  if (rows == NULL || seeds == NULL) return false;
  bool mode = tli_grad_mode();
  bool ok = run_batched(a->L, of, call, n, rows, seeds);
  tli_set_grad_mode(mode);
  return ok;
}

static int autograd_grad(lua_State *L) {
  static const tli_Param params[] = {
      {"outputs", TLI_A_TENSORS, TLI_P_ANY_DEVICE, 0},
      {"inputs", TLI_A_TENSORS, TLI_P_ANY_DEVICE, 0},
      {"grad_outputs", TLI_A_TENSORS, TLI_P_OPTIONAL | TLI_P_ANY_DEVICE, 0},
      {"retain_graph", TLI_A_BOOL, TLI_P_OPTIONAL, 0},
      {"create_graph", TLI_A_BOOL, TLI_P_OPTIONAL, 0},
      {"allow_unused", TLI_A_BOOL, TLI_P_OPTIONAL, 0},
      {"is_grads_batched", TLI_A_BOOL, TLI_P_OPTIONAL, 0},
      {"materialize_grads", TLI_A_BOOL, TLI_P_OPTIONAL, 0}};
  static const tli_Signature sig = {
      "autograd.grad",
      "torch.autograd.grad(outputs, inputs, {grad_outputs?, retain_graph = create_graph, "
      "create_graph = false, allow_unused = materialize_grads, is_grads_batched = false, "
      "materialize_grads = false})",
      params,
      8,
      false,
      true};
  tli_Args a;
  tli_args_begin(&a, L, &sig);
  tli_Settings *of = tli_push_settings(L, a.S);
  int first = lua_gettop(L) + 1, count = push_boxes(&a, 1);
  Ends roots = read_ends(&a, 0), inputs = read_ends(&a, 1);
  tl_Tensor **grads = tensors_or_none(&a, 2, roots.n);
  bool create = tli_arg_bool(&a, 4, false);
  bool retain = tli_arg_bool(&a, 3, create);
  bool materialize = tli_arg_bool(&a, 7, false), batched = tli_arg_bool(&a, 6, false);
  bool unused = tli_arg_bool(&a, 5, materialize);
  if (materialize && !unused) tli_args_fail(&a, 5, "true, or nothing, with materialize_grads");
  if (inputs.n != count || count == 0) tli_args_fail(&a, 1, "a Tensor or a list with at least one");
  if (!fits_int(&roots)) tli_args_fail(&a, 0, "fewer tensors");
  tl_Tensor **results = new_list(&a, count);
  tli_Backward call = {.roots = roots.tensors,
                       .root_edges = roots.edges,
                       .grads = grads,
                       .nroots = (int)roots.n,
                       .retain_graph = retain,
                       .create_graph = create,
                       .inputs = inputs.tensors,
                       .input_edges = inputs.edges,
                       .ninputs = count,
                       .allow_unused = unused,
                       .materialize = materialize,
                       .results = results};
  if (batched && tli_tracing()) tli_args_fail(&a, 6, "false while torch.export_step records");
  bool failed = a.failed, whole = outermost();
  bool ok = !failed && (batched ? run_examples(&a, of, &call) : run(L, of, &call));
  if (ok) push_results(L, first, results, count);
  tli_args_end(&a);
  int of_sparse = failed ? tli_sparse_call(L, "autograd.grad", a.top) : -1;
  if (of_sparse >= 0) return of_sparse;
  if (failed) return tli_raise(L);
  if (ok) push_sparse(L, first, count);
  if (whole) end_pass(L, ok);
  return ok ? count : tli_raise_caught(L);
}

/* ---- opening ---- */

void tli_set_module(lua_State *L, const char *field, const luaL_Reg *list) {
  if (lua_getfield(L, -1, field) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, field);
  }
  tli_set_functions(L, list);
  lua_pop(L, 1);
}

void tli_open_class(lua_State *L, const char *name, const luaL_Reg *list) {
  luaL_newmetatable(L, name);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  tli_set_functions(L, list);
  lua_pop(L, 1);
}

void tli_open_autograd(lua_State *L) {
  static const luaL_Reg functions[] = {{"backward", autograd_backward},
                                       {"grad", autograd_grad},
                                       {"queue_callback", autograd_queue_callback},
                                       {"_failures", autograd_failures},
                                       {"_is_running", autograd_is_running},
                                       {"_pass", autograd_pass},
                                       {"_pass_visits", autograd_pass_visits},
                                       {"_reaches_others", autograd_reaches_others},
                                       {NULL, NULL}};
  tli_open_callbacks(L);
  tli_set_module(L, "autograd", functions);
  tli_open_tensor_history(L);
  tli_open_modes(L);
  tli_open_autocast(L);
  tli_open_nodes(L);
  tli_open_function(L);
  tli_open_saved_hooks(L);
}
