/*
** program.c - traces and programs (src/graph) as Lua values, for lua/tlua/export.lua.
*/
#include <string.h>

#include "graph/program.h"
#include "lua/args/args.h"
#include "lua/limits.h"
#include "lua/list_length.h"
#include "lua/program_run.h"
#include "lua/tensor/value.h"
#include "lua/autograd/autograd.h"

#define TRACE "torch.Trace"

/* ---- traces ---- */

static tli_Trace *check_trace(lua_State *L) {
  tli_Trace *t = *(tli_Trace **)luaL_checkudata(L, 1, TRACE);
  if (t == NULL) tli_error(L, "export: the trace has ended");
  return t;
}

/* _trace(step, live) returns a trace that records nothing yet. If `step` is true, the trace will
** also record backward passes; if `live` is true, runs of the trace's program will themselves be
** recorded by autograd. */
static int trace_new(lua_State *L) {
  tli_TraceKind kind = lua_toboolean(L, 1)   ? TLI_TRACE_STEP
                       : lua_toboolean(L, 2) ? TLI_TRACE_LIVE
                                             : TLI_TRACE_VALUES;
  tli_Trace **t = lua_newuserdatauv(L, sizeof *t, 0);
  *t = NULL;
  luaL_setmetatable(L, TRACE);
  tli_note_owner(L);
  *t = tli_trace_new(kind);
  return *t ? 1 : tli_raise(L);
}

/* trace:input(name, tensor) declares an input of the traced code. */
static int trace_input(lua_State *L) {
  tli_Trace *t = check_trace(L);
  return tli_trace_input(t, luaL_checkstring(L, 2), tli_check_tensor(L, 3, "export"))
             ? 0
             : tli_raise(L);
}

/* trace:name(name, tensor, changes) names a parameter or a buffer. `changes` tells whether the
** traced code may change the tensor. */
static int trace_name(lua_State *L) {
  tli_Trace *t = check_trace(L);
  bool ok = tli_trace_name(t, luaL_checkstring(L, 2), tli_check_tensor(L, 3, "export"),
                           lua_toboolean(L, 4));
  return ok ? 0 : tli_raise(L);
}

static int trace_record(lua_State *L) {
  return tli_trace_record(check_trace(L)) ? 0 : tli_raise(L);
}

/* trace:stop() ends tracing in this thread and discards the trace's graph. */
static int trace_stop(lua_State *L) {
  tli_Trace **t = luaL_checkudata(L, 1, TRACE);
  tli_trace_free(*t);
  *t = NULL;
  return 0;
}

static void push_program(lua_State *L, tl_Program **place, tli_Graph *steals) {
  *place = steals ? tli_program_new(steals) : NULL;
  tli_graph_release(steals);
  if (*place == NULL) tli_raise(L);
}

static tl_Program **new_program(lua_State *L) {
  tl_Program **p = lua_newuserdatauv(L, sizeof *p, 0);
  *p = NULL;
  luaL_setmetatable(L, TLI_PROGRAM);
  tli_note_owner(L);
  return p;
}

/* trace:branch(pred) begins the first branch of a cond. */
static int trace_branch(lua_State *L) {
  tli_Trace *t = check_trace(L);
  return tli_trace_branch(t, tli_check_tensor(L, 2, "cond")) ? 0 : tli_raise(L);
}

/* trace:otherwise(results) ends the first branch, and begins the second one. */
static int trace_otherwise(lua_State *L) {
  tli_Trace *t = check_trace(L);
  int n;
  tl_Tensor **list = tli_push_tensors(L, 2, &n);
  return tli_trace_otherwise(t, (tl_Tensors){n, list}) ? 0 : tli_raise(L);
}

/* Calls fn with the tensors in the list at index 2, and returns to Lua the list of tensors that fn
** has stored. */
static int trace_copies(lua_State *L, bool (*fn)(tli_Trace *t, tl_Tensors given, tl_Tensor **out)) {
  tli_Trace *t = check_trace(L);
  int n;
  tl_Tensors *results = tli_push_list(L);
  tl_Tensor **list = tli_push_tensors(L, 2, &n);
  *results = tli_tensors_new(n);
  bool ok = (results->v != NULL || n == 0) && fn(t, (tl_Tensors){n, list}, results->v);
  lua_pop(L, 1);
  return ok ? tli_finish_list(L, results) : tli_raise(L);
}

/* trace:join(results) ends the second branch. Returns a list of tensors that stand for the results
** of either branch. */
static int trace_join(lua_State *L) { return trace_copies(L, tli_trace_join); }

/* trace:loop(carried) begins a while_loop. Returns a list of tensors that stand for the carried
** tensors in each iteration and after the loop. */
static int trace_loop(lua_State *L) { return trace_copies(L, tli_trace_loop); }

/* trace:test(pred) marks the place at which the loop ends if pred is false. */
static int trace_test(lua_State *L) {
  tli_Trace *t = check_trace(L);
  return tli_trace_test(t, tli_check_tensor(L, 2, "while_loop")) ? 0 : tli_raise(L);
}

/* trace:again(results) ends an iteration. Its results are the carried tensors of the next
** iteration. */
static int trace_again(lua_State *L) {
  tli_Trace *t = check_trace(L);
  int n;
  tl_Tensor **list = tli_push_tensors(L, 2, &n);
  return tli_trace_again(t, (tl_Tensors){n, list}) ? 0 : tli_raise(L);
}

/* trace:finish(outputs, training, structure) ends the trace and returns its program. */
static int trace_finish(lua_State *L) {
  tli_Trace *t = check_trace(L);
  int n;
  bool training = lua_toboolean(L, 3);
  size_t size;
  const char *structure = luaL_checklstring(L, 4, &size);
  tl_Program **p = new_program(L);
  tl_Tensor **outputs = tli_push_tensors(L, 2, &n);
  tli_Graph *g = tli_trace_finish(t, outputs, n);
  if (g) {
    g->training = training;
    g->structure = tli_region_text(&g->region, structure, size);
    if (g->structure == NULL) {
      tli_graph_release(g);
      g = NULL;
    }
  }
  lua_pop(L, 1);
  if (g) (void)trace_stop(L); /* ends tracing in this thread, because the trace is finished */
  push_program(L, p, g);
  return 1;
}

/* ---- programs ---- */

/* Returns the graph of a new program. The graph may be changed, because no other code refers to it
** yet. */
static tli_Graph *own_graph(lua_State *L, int index) {
  return (tli_Graph *)tli_program_graph(tli_check_program(L, index));
}

static int program_same(lua_State *L) {
  return tli_graph_same(own_graph(L, 1), own_graph(L, 2)) ? 0 : tli_raise(L);
}

/* Reads the number of a symbol, counted from 1 in Lua, and returns its position. */
static int check_symbol(lua_State *L, int index, const tli_Graph *g) {
  lua_Integer symbol = luaL_checkinteger(L, index);
  if (symbol < 1 || symbol > g->nsymbols)
    tli_error(L, "program: expected the number of one of %d dynamic sizes, got %lld",
              (int)g->nsymbols, (long long)symbol);
  return (int)symbol - 1;
}

/* program:dynamic(input, dim, name) gives a dimension of an input a symbolic size, the symbol of
** this name, and returns the symbol's number. Inputs, dimensions and symbols are counted from 1. */
static int program_dynamic(lua_State *L) {
  tli_Graph *g = own_graph(L, 1);
  lua_Integer given = luaL_checkinteger(L, 2), of = luaL_checkinteger(L, 3);
  if (given < 1 || given > g->ninputs || of < 1 || of > g->inputs[given - 1].ndim)
    return tli_error(L, "program: there is no dimension %lld of an input %lld", (long long)of,
                     (long long)given);
  int input = (int)given - 1, dim = (int)of - 1;
  if (!tli_graph_dynamic(g, input, dim, luaL_checkstring(L, 4))) return tli_raise(L);
  lua_pushinteger(L, g->inputs[input].symbols[dim] + 1);
  return 1;
}

/* program:fit(symbol, size1, other1, size2, other2) finds which integers of the graph depend on a
** symbol, and how. It compares the graph with the programs other1 and other2, which were traced
** with the symbol's size set to size1 and size2. */
static int program_fit(lua_State *L) {
  tli_Graph *g = own_graph(L, 1);
  bool ok = tli_graph_fit(g, check_symbol(L, 2, g), luaL_checkinteger(L, 3), own_graph(L, 4),
                          luaL_checkinteger(L, 5), own_graph(L, 6));
  return ok ? 0 : tli_raise(L);
}

/* program:fits(symbol, size, other) checks the integers that the graph computes for this size of
** the symbol. Raises an error if they differ from the integers in `other`, a program that was
** traced with this size. */
static int program_fits(lua_State *L) {
  tli_Graph *g = own_graph(L, 1);
  int symbol = check_symbol(L, 2, g);
  int64_t size = luaL_checkinteger(L, 3);
  return tli_graph_fits(g, symbol, size, own_graph(L, 4)) ? 0 : tli_raise(L);
}

/* Reads the list of the sizes of all symbols at a stack index. The returned array is in a userdata,
** which the function pushes. */
static int64_t *push_sizes(lua_State *L, int index, const tli_Graph *g) {
  luaL_checktype(L, index, LUA_TTABLE);
  int64_t *sizes = lua_newuserdatauv(L, (size_t)(g->nsymbols + 1) * sizeof *sizes, 0);
  for (int s = 0; s < g->nsymbols; s++) {
    lua_rawgeti(L, index, s + 1);
    sizes[s] = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
  }
  return sizes;
}

/* program:fit_product(symbols, sizes, other) finds which integers of the graph depend on the
** product of two or three symbols. It compares the graph with the program `other`, which was traced
** with `sizes` as the sizes of all symbols. */
static int program_fit_product(lua_State *L) {
  tli_Graph *g = own_graph(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int n = (int)tli_list_length(L, 2);
  int32_t symbols[TLI_TERM_MOST];
  if (n < 2 || n > TLI_TERM_MOST) return tli_error(L, "export: expected two or three symbols");
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, 2, k + 1);
    symbols[k] = check_symbol(L, lua_gettop(L), g);
    lua_pop(L, 1);
  }
  const int64_t *sizes = push_sizes(L, 3, g);
  return tli_graph_fit_product(g, symbols, n, sizes, own_graph(L, 4)) ? 0 : tli_raise(L);
}

/* program:fits_all(sizes, other) checks the integers that the graph computes for these sizes of all
** symbols. Raises an error if they differ from the integers in `other`, a program that was traced
** with these sizes. */
static int program_fits_all(lua_State *L) {
  tli_Graph *g = own_graph(L, 1);
  const int64_t *sizes = push_sizes(L, 2, g);
  return tli_graph_fits_all(g, sizes, own_graph(L, 3)) ? 0 : tli_raise(L);
}

/* program:range(symbol, least, most, other) sets the sizes that a symbol may have. The range begins
** at `least` if `other` is true, or if `other` is a program that was traced with the size `least`
** and agrees with the graph. If that program does not agree, or `other` is nil, the range begins at
** least + 1. */
static int program_range(lua_State *L) {
  tli_Graph *g = own_graph(L, 1);
  int symbol = check_symbol(L, 2, g);
  int64_t least = luaL_checkinteger(L, 3);
  bool fits = lua_isboolean(L, 5) ||
              (!lua_isnil(L, 5) && tli_graph_fits(g, symbol, least, own_graph(L, 5)));
  g->symbols[symbol].least = fits ? least : least + 1;
  g->symbols[symbol].most = luaL_checkinteger(L, 4);
  return 0;
}

/* program:ready() returns a new program with the same graph, which must be complete. */
static int program_ready(lua_State *L) {
  tli_Graph *g = tli_graph_retain(own_graph(L, 1));
  lua_settop(L, 1);
  push_program(L, new_program(L), g);
  return 1;
}

/* program:set_limits(iterations, seconds) limits the runs of the program; 0 means no limit, and nil
** leaves a limit unchanged. */
static int program_set_limits(lua_State *L) {
  tl_Program *p = tli_check_program(L, 1);
  tl_ProgramLimits limits = tli_program_limits(p);
  limits.iterations = luaL_optinteger(L, 2, limits.iterations);
  limits.seconds = luaL_optnumber(L, 3, limits.seconds);
  return tl_program_set_limits(p, &limits) ? 0 : tli_raise(L);
}

/* program:limits() returns the limits of iterations and seconds. */
static int program_limits(lua_State *L) {
  tl_ProgramLimits limits = tli_program_limits(tli_check_program(L, 1));
  lua_pushinteger(L, limits.iterations);
  lua_pushnumber(L, limits.seconds);
  return 2;
}

/* program:inputs() returns {{name =, dtype =, shape = {sizes or names}}, ...}. */
static int program_inputs(lua_State *L) {
  const tli_Graph *g = own_graph(L, 1);
  lua_createtable(L, g->ninputs, 0);
  for (int32_t i = 0; i < g->ninputs; i++) {
    const tli_GraphInput *in = &g->inputs[i];
    lua_createtable(L, 0, 3);
    lua_pushstring(L, in->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, tl_dtype_name(in->dtype));
    lua_setfield(L, -2, "dtype");
    lua_createtable(L, in->ndim, 0);
    for (int d = 0; d < in->ndim; d++) {
      if (in->symbols[d] >= 0)
        lua_pushstring(L, g->symbols[in->symbols[d]].name);
      else
        lua_pushinteger(L, in->sizes[d]);
      lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, -2, "shape");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* program:constants() returns the program's constants as {{name, tensor}, ...}. */
static int program_constants(lua_State *L) {
  const tli_Graph *g = own_graph(L, 1);
  lua_createtable(L, g->nconstants, 0);
  for (int32_t i = 0; i < g->nconstants; i++) {
    lua_createtable(L, 2, 0);
    lua_pushstring(L, g->constants[i].name);
    lua_rawseti(L, -2, 1);
    tli_push_tensor(L, tli_retain(g->constants[i].tensor));
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- a program's calls as tables ---- */

static void push_number(lua_State *L, tl_Scalar s) {
  if (s.kind == TL_BOOLEAN)
    lua_pushboolean(L, s.i != 0);
  else if (s.kind == TL_INTEGER)
    lua_pushinteger(L, s.i);
  else
    lua_pushnumber(L, s.f);
}

/* Pushes the table that program:calls() returns for an integer that depends on symbolic sizes,
** {base =, factors = {...}, terms = {{factor =, symbols...}, ...}}, and returns true. Returns false
** for any other argument. */
static bool push_hole(lua_State *L, const tli_Graph *g, int32_t call, int32_t param,
                      int32_t element) {
  const tli_GraphHole *h = g->holes, *last = h + g->nholes;
  while (h < last && (h->call != call || h->param != param || h->element != element)) h++;
  if (h == last) return false;
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, h->base);
  lua_setfield(L, -2, "base");
  lua_createtable(L, g->nsymbols, 0);
  for (int32_t s = 0; s < g->nsymbols; s++) {
    lua_pushinteger(L, h->factors[s]);
    lua_rawseti(L, -2, s + 1);
  }
  lua_setfield(L, -2, "factors");
  lua_createtable(L, h->nterms, 0);
  for (int32_t i = 0; i < h->nterms; i++) {
    lua_createtable(L, h->terms[i].n, 1);
    for (int32_t k = 0; k < h->terms[i].n; k++) {
      lua_pushinteger(L, h->terms[i].symbols[k] + 1);
      lua_rawseti(L, -2, k + 1);
    }
    lua_pushinteger(L, h->terms[i].factor);
    lua_setfield(L, -2, "factor");
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "terms");
  return true;
}

/* Pushes the list of all values of a graph. Each is a table {kind =, index =}, with a field
** `number` if the value is a number. */
static void push_values(lua_State *L, const tli_Graph *g) {
  static const char *const kinds[] = {"input", "constant", "number", "result"};
  lua_createtable(L, g->nvalues, 0);
  for (int32_t v = 0; v < g->nvalues; v++) {
    const tli_GraphValue *value = &g->values[v];
    lua_createtable(L, 0, 3);
    lua_pushstring(L, kinds[value->kind]);
    lua_setfield(L, -2, "kind");
    lua_pushinteger(L, value->index + 1);
    lua_setfield(L, -2, "index");
    if (value->kind == TLI_VALUE_NUMBER) {
      if (!push_hole(L, g, -1, value->index, -1)) push_number(L, g->numbers[value->index]);
      lua_setfield(L, -2, "number");
    }
    lua_rawseti(L, -2, v + 1);
  }
}

/* Pushes an element of a list argument: an entry of the list at index `values`, or an integer as
** the printed program shows it, with positions counted from 1. */
static void push_element(lua_State *L, int values, const tli_Graph *g, int32_t call, int param,
                         int element, int kind, int64_t i) {
  bool counts = kind == TLI_CALL_DIM || kind == TLI_CALL_INDEX || kind == TLI_CALL_DIMS ||
                kind == TLI_CALL_DIM_LISTS || kind == TLI_CALL_INDICES;
  if (tli_kind_is_tensor(kind) || kind == TLI_CALL_TENSORS)
    lua_rawgeti(L, values, i + 1);
  else if (!push_hole(L, g, call, param, element))
    lua_pushinteger(L, counts && i >= 0 ? i + 1 : i);
}

/* Pushes an argument; nil if it was not given. */
static void push_argument(lua_State *L, int values, const tli_Graph *g, int32_t call, int param) {
  int kind = g->calls[call].call->params[param].kind;
  const tli_CallArg *arg = &g->calls[call].args[param];
  if (kind == TLI_CALL_TENSORS || tli_kind_is_ints(kind) || kind == TLI_CALL_FLOATS) {
    bool reals = kind == TLI_CALL_FLOATS;
    if (kind != TLI_CALL_TENSORS && (reals ? arg->reals.v == NULL : arg->ints.v == NULL)) {
      lua_pushnil(L);
      return;
    }
    lua_newtable(L);
    for (int64_t i = 0; i < (reals ? arg->reals.n : arg->ints.n); i++) {
      if (reals)
        lua_pushnumber(L, arg->reals.v[i]);
      else
        push_element(L, values, g, call, param, (int)i, kind, arg->ints.v[i]);
      lua_rawseti(L, -2, i + 1);
    }
  } else if (tli_kind_is_tensor(kind) ? arg->integer >= 0
                                      : tli_kind_is_int(kind) && arg->integer != TLI_NOINT)
    push_element(L, values, g, call, param, -1, kind, arg->integer);
  else if (kind == TLI_CALL_NUMBER && arg->number.kind != TL_NONE) {
    if (!push_hole(L, g, call, param, -1)) push_number(L, arg->number);
  } else if (kind == TLI_CALL_BOOL || kind == TLI_CALL_TRUE)
    lua_pushboolean(L, arg->flag);
  else if (kind == TLI_CALL_FLOAT && arg->real == arg->real)
    lua_pushnumber(L, arg->real);
  else if (kind == TLI_CALL_STRING && arg->text != NULL)
    lua_pushstring(L, arg->text);
  else if (kind == TLI_CALL_DTYPE && arg->dtype != TL_NODTYPE)
    lua_pushstring(L, tl_dtype_name(arg->dtype));
  else
    lua_pushnil(L);
}

/* Pushes the list of the values that have the given numbers. */
static void push_numbered(lua_State *L, int values, const int32_t *list, int32_t n) {
  lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    lua_rawgeti(L, values, list[i] + 1);
    lua_rawseti(L, -2, i + 1);
  }
}

/* program:calls() returns {calls = {{name =, args = {name = argument}, results = {values}}, ...},
** values =, outputs = {values}, symbols = {names}}. An argument that is a tensor is an entry of
** `values`. An integer that depends on sizes is a table {base =, factors =, terms =}: the sum of
** base, of each factor times the size of its symbol, and of each term's factor times the sizes of
** the term's symbols. */
static int program_calls(lua_State *L) {
  const tli_Graph *g = own_graph(L, 1);
  lua_createtable(L, 0, 4);
  push_values(L, g);
  int values = lua_gettop(L);
  lua_createtable(L, g->ncalls, 0);
  for (int32_t i = 0; i < g->ncalls; i++) {
    const tli_GraphCall *c = &g->calls[i];
    lua_createtable(L, 0, 3);
    lua_pushstring(L, c->call->name);
    lua_setfield(L, -2, "name");
    lua_newtable(L);
    for (int k = 0; k < c->call->nparams; k++) {
      push_argument(L, values, g, i, k);
      lua_setfield(L, -2, c->call->params[k].name);
    }
    lua_setfield(L, -2, "args");
    push_numbered(L, values, c->results, c->nresults);
    lua_setfield(L, -2, "results");
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, values - 1, "calls");
  push_numbered(L, values, g->outputs, g->noutputs);
  lua_setfield(L, values - 1, "outputs");
  lua_createtable(L, g->nsymbols, 0);
  for (int32_t s = 0; s < g->nsymbols; s++) {
    lua_pushstring(L, g->symbols[s].name);
    lua_rawseti(L, -2, s + 1);
  }
  lua_setfield(L, values - 1, "symbols");
  lua_setfield(L, values - 1, "values");
  return 1;
}

/* program:state() returns three values. The first is the text that describes how the outputs are
** nested, or "". The second is whether the model was in training mode when it was traced. The third
** is whether the program is a training step. */
static int program_state(lua_State *L) {
  const tli_Graph *g = own_graph(L, 1);
  lua_pushstring(L, g->structure ? g->structure : "");
  lua_pushboolean(L, g->training);
  lua_pushboolean(L, g->step);
  return 3;
}

/* program:memory() returns the size of a run's arena in bytes, and the largest number of bytes that
** are in use at the same time during a run. */
static int program_memory(lua_State *L) {
  tli_ProgramMemory memory = tli_program_memory(tli_check_program(L, 1));
  lua_pushinteger(L, memory.arena);
  lua_pushinteger(L, memory.live);
  return 2;
}

/* program:work() returns the number of elements that the traced calls read and wrote. */
static int program_work(lua_State *L) {
  lua_pushinteger(L, own_graph(L, 1)->work);
  return 1;
}

/* program:reads() returns whether the traced code has read the elements of a constant, on which the
** program then depends. */
static int program_reads(lua_State *L) {
  lua_pushboolean(L, own_graph(L, 1)->reads);
  return 1;
}

static int program_save(lua_State *L) {
  tl_Program *p = tli_check_program(L, 1);
  const tli_Generator *g = tli_generator_of(&tli_state(L)->generator, own_graph(L, 1)->device);
  return tli_program_save(p, g, luaL_checkstring(L, 2)) ? 0 : tli_raise(L);
}

/* program:share(from) makes the program use the state of the program `from` (tl_program_share). */
static int program_share(lua_State *L) {
  return tl_program_share(tli_check_program(L, 1), tli_check_program(L, 2)) ? 0 : tli_raise(L);
}

/* program:rates() returns {{call, {option, ...}}, ...}: for each call of an optimizer's step, the
** position of the call in the graph and its numeric options. */
static int program_rates(lua_State *L) {
  const tli_Graph *g = own_graph(L, 1);
  lua_newtable(L);
  lua_Integer n = 0;
  for (int32_t i = 0; i < g->ncalls; i++) {
    if (strcmp(g->calls[i].call->name, "_fused_step_") != 0) continue;
    tl_Floats options = g->calls[i].args[5].reals;
    lua_createtable(L, 2, 0);
    lua_pushinteger(L, i + 1);
    lua_rawseti(L, -2, 1);
    lua_createtable(L, (int)options.n, 0);
    for (int64_t k = 0; k < options.n; k++) {
      lua_pushnumber(L, options.v[k]);
      lua_rawseti(L, -2, k + 1);
    }
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* program:set_rate(call, element, value) changes a numeric option of an optimizer's step. */
static int program_set_rate(lua_State *L) {
  tl_Program *p = tli_check_program(L, 1);
  tli_GraphPlace at = {(int32_t)luaL_checkinteger(L, 2) - 1, 5,
                       (int32_t)luaL_checkinteger(L, 3) - 1};
  return tli_program_set_real(p, &at, luaL_checknumber(L, 4)) ? 0 : tli_raise(L);
}

/* _same_memory(a, b) returns the first position at which two lists of tensors differ in memory or
** dtype; 0 if there is none. */
static int same_memory(lua_State *L) {
  int n, m;
  tl_Tensor **a = tli_push_tensors(L, 1, &n), **b = tli_push_tensors(L, 2, &m);
  int i = 0;
  while (i < n && i < m && a[i]->dtype == b[i]->dtype && tli_data(a[i]) == tli_data(b[i])) i++;
  lua_pushinteger(L, i < n ? i + 1 : 0);
  return 1;
}

/* program:schedule(rates, places) sets numeric options of optimizers, such as the learning rate,
** that differ from step to step. Row s of `rates` has the values for step s. Column i has the
** values for places[i] = {call, element}: the position of a call of an optimizer in the program,
** and the position in that call's list of numeric options. */
static int program_schedule(lua_State *L) {
  tli_Graph *g = own_graph(L, 1);
  tl_Tensor *rates = tli_check_tensor(L, 2, "export_step");
  luaL_checktype(L, 3, LUA_TTABLE);
  int n = (int)tli_list_length(L, 3);
  tli_GraphPlace *places = lua_newuserdatauv(L, (size_t)n * sizeof *places + 1, 0);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 3, i + 1);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    places[i] =
        (tli_GraphPlace){(int32_t)lua_tointeger(L, -2) - 1, 5, (int32_t)lua_tointeger(L, -1) - 1};
    lua_pop(L, 3);
    if (!tli_graph_place_fits(g, &places[i]))
      return tli_error(L, "export_step: place %d of the schedule is no number of a step", i + 1);
  }
  bool fits =
      rates->dtype == TL_F64 && rates->ndim == 2 && rates->sizes[1] == n && tli_contiguous(rates);
  if (!fits) return tli_error(L, "export_step: expected float64 rates for %d places", n);
  return tli_graph_schedule(g, rates, places, n) ? 0 : tli_raise(L);
}

/* _program_load(path) reads a program from a file. */
static int program_load(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  tl_Program **p = new_program(L);
  push_program(L, p, tli_graph_load(path));
  return 1;
}

static tl_Device check_device(lua_State *L, int index) {
  tl_Device device;
  if (!tli_to_device(L, index, &device)) tli_error(L, "program: expected a device");
  return device;
}

/* program:device() returns the device on which the program runs. */
static int program_device(lua_State *L) { return tli_push_device(L, own_graph(L, 1)->device); }

/* program:to(device) returns a program with the same calls on another device. */
static int program_to(lua_State *L) {
  tl_Program *p = tli_check_program(L, 1);
  tl_Device device = check_device(L, 2);
  tl_Program **to = new_program(L);
  *to = tl_program_to(p, device);
  return *to ? 1 : tli_raise(L);
}

/* _program_parse(text, constants, device) returns the program that a text from program:describe()
** describes, for a device or, without `device`, for the CPU. `constants` is the list of the
** program's constants. */
static int program_parse(lua_State *L) {
  size_t size;
  int n;
  const char *text = luaL_checklstring(L, 1, &size);
  tl_Device device = lua_isnoneornil(L, 3) ? TLI_CPU : check_device(L, 3);
  tl_Program **p = new_program(L);
  tl_Tensor **constants = tli_push_tensors(L, 2, &n);
  tli_Graph *g = tli_graph_parse(text, size, constants, n, device);
  lua_pop(L, 1);
  push_program(L, p, g);
  return 1;
}

static int push_text(lua_State *L) {
  const tli_Text *text = lua_touserdata(L, 1);
  lua_pushlstring(L, text->data, text->size);
  return 1;
}

/* program:describe() returns the graph as JSON; the comment in src/graph/file.h describes its
** format. */
static int program_describe(lua_State *L) {
  tli_Text text = {0};
  bool ok = tli_graph_describe(own_graph(L, 1), &text);
  lua_pushcfunction(L, push_text);
  lua_pushlightuserdata(L, &text);
  int status = ok ? lua_pcall(L, 1, 1, 0) : LUA_OK;
  tli_text_free(&text);
  if (!ok) return tli_raise(L);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* _operator_parameters(name) returns the parameters of an operator, {{name =, kind =, optional =},
** ...}, and the number of its results, or -1 if the result is a list. Returns nil if programs
** cannot contain an operator of that name. */
static int operator_parameters(lua_State *L) {
  static const char *const kinds[] = {
#define X(kind, member) [TLI_CALL_##kind] = #kind,
      TLI_CALL_KINDS(X)
#undef X
  };
  const tli_Call *call = tli_call_find(luaL_checkstring(L, 1));
  if (call == NULL) return 0;
  lua_createtable(L, call->nparams, 0);
  for (int i = 0; i < call->nparams; i++) {
    lua_createtable(L, 0, 3);
    lua_pushstring(L, call->params[i].name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, kinds[call->params[i].kind]);
    lua_setfield(L, -2, "kind");
    lua_pushboolean(L, call->params[i].optional);
    lua_setfield(L, -2, "optional");
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushinteger(L, call->nresults);
  return 2;
}

static int program_text(lua_State *L) {
  tli_Text text = {0};
  tli_program_show(tli_check_program(L, 1), &text);
  bool failed = text.failed;
  lua_pushcfunction(L, push_text);
  lua_pushlightuserdata(L, &text);
  int status = failed ? LUA_OK : lua_pcall(L, 1, 1, 0);
  tli_text_free(&text);
  if (failed) return tli_raise(L);
  return status == LUA_OK ? 1 : lua_error(L);
}

static int program_gc(lua_State *L) {
  tl_Program **p = luaL_checkudata(L, 1, TLI_PROGRAM);
  tl_program_free(*p);
  *p = NULL;
  return 0;
}

/* _tracing() returns whether this thread is being traced. */
static int tracing(lua_State *L) {
  lua_pushboolean(L, tli_tracing());
  return 1;
}

void tli_open_programs(lua_State *L) {
  static const luaL_Reg trace[] = {{"__gc", trace_stop},     {"__close", trace_stop},
                                   {"stop", trace_stop},     {"input", trace_input},
                                   {"name", trace_name},     {"record", trace_record},
                                   {"branch", trace_branch}, {"otherwise", trace_otherwise},
                                   {"loop", trace_loop},     {"test", trace_test},
                                   {"again", trace_again},   {"join", trace_join},
                                   {"finish", trace_finish}, {NULL, NULL}};
  static const luaL_Reg program[] = {{"__gc", program_gc},
                                     {"__tostring", program_text},
                                     {"same", program_same},
                                     {"dynamic", program_dynamic},
                                     {"fit", program_fit},
                                     {"fits_all", program_fits_all},
                                     {"fit_product", program_fit_product},
                                     {"fits", program_fits},
                                     {"range", program_range},
                                     {"ready", program_ready},
                                     {"run", tli_program_run_list},
                                     {"run_into", tli_program_run_into},
                                     {"run_single", tli_program_run_single},
                                     {"__call", tli_program_call},
                                     {"inputs", program_inputs},
                                     {"constants", program_constants},
                                     {"state", program_state},
                                     {"memory", program_memory},
                                     {"device", program_device},
                                     {"to", program_to},
                                     {"set_limits", program_set_limits},
                                     {"limits", program_limits},
                                     {"save", program_save},
                                     {"share", program_share},
                                     {"rates", program_rates},
                                     {"describe", program_describe},
                                     {"work", program_work},
                                     {"reads", program_reads},
                                     {"schedule", program_schedule},
                                     {"set_rate", program_set_rate},
                                     {"calls", program_calls},
                                     {NULL, NULL}};
  static const luaL_Reg functions[] = {{"_trace", trace_new},
                                       {"_program_load", program_load},
                                       {"_tracing", tracing},
                                       {"_same_memory", same_memory},
                                       {"_program_parse", program_parse},
                                       {"_operator_parameters", operator_parameters},
                                       {NULL, NULL}};
  tli_open_class(L, TRACE, trace);
  tli_open_class(L, TLI_PROGRAM, program);
  tli_set_functions(L, functions);
  tli_open_guards(L);
}
