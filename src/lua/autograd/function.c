/*
** function.c - autograd nodes whose derivative is a Lua function, for
** lua/tlua/autograd/Function.lua.
*/
#include <stdio.h>
#include <string.h>

#include "lua/autograd/callback.h"
#include "lua/autograd/autograd.h"
#include "lua/tensor/value.h"

typedef struct LuaNode {
  tli_Node node;
  /* the node's type; each node has a type of its own, because the type contains the node's name */
  tli_NodeType type;
  /* the function's name and the node's, such as "Twice" and "TwiceBackward" */
  char name[64], title[64 + 8];
  tli_Callback *backward; /* owned */
  int nsaved;
  tli_Saved saved[];
} LuaNode;

/* ---- the derivative ---- */

typedef struct BackwardCall {
  LuaNode *node;
  tl_Tensor *const *grads; /* borrowed */
  tl_Tensor **out;
} BackwardCall;

/* Pushes a table of the saved tensors. An entry is nil if no tensor was given for it. */
static void push_saved(lua_State *L, LuaNode *n) {
  tli_State *S = tli_state(L);
  lua_createtable(L, n->nsaved, 0);
  for (int i = 0; i < n->nsaved; i++) {
    tli_Box *box = tli_push_box(L);
    tl_Tensor *t;
    if (!tli_saved_get(&n->saved[i], &n->node, &t)) tli_raise(L);
    if (t) {
      tli_fill_box(S, box, t);
    } else {
      lua_pop(L, 1);
      lua_pushnil(L);
    }
    lua_rawseti(L, -2, i + 1);
  }
}

static void take_gradient(lua_State *L, const BackwardCall *call, int index, int i) {
  if (lua_isnil(L, index)) return;
  const tli_Node *n = &call->node->node;
  tli_State *S = tli_state(L);
  tl_Tensor *t = lua_type(L, index) == LUA_TUSERDATA ? tli_to_tensor(L, S, index) : NULL;
  if (t == NULL)
    tli_error(L, "%s: backward: expected a Tensor or nil for argument %d, got %s", call->node->name,
              i + 1, tli_describe(L, S, index));
  if (i >= n->ninputs)
    tli_error(L, "%s: backward: expected %d gradients, one for each argument of forward, got more",
              call->node->name, n->ninputs);
  if (tli_node_wants(n, i)) call->out[i] = tli_retain(t);
}

/* Calls function(saved, gradients...). The arguments are (function, call). */
static int call_backward(lua_State *L) {
  BackwardCall *call = lua_touserdata(L, 2);
  tli_State *S = tli_state(L);
  int ngrads = call->node->node.noutputs;
  lua_settop(L, 1);
  luaL_checkstack(L, ngrads + 8, call->node->name);
  push_saved(L, call->node);
  for (int k = 0; k < ngrads; k++) {
    if (call->grads[k] == NULL) {
      lua_pushnil(L);
      continue;
    }
    tli_Box *box = tli_push_box(L);
    tli_fill_box(S, box, tli_retain(call->grads[k]));
  }
  lua_call(L, ngrads + 1, LUA_MULTRET);
  int n = lua_gettop(L);
  for (int i = 0; i < n; i++) take_gradient(L, call, i + 1, i);
  return 0;
}

static bool apply(tli_Node *node, tl_Tensor *const *grads, tl_Tensor **out) {
  LuaNode *n = (LuaNode *)node;
  BackwardCall call = {n, grads, out};
  if (tli_callback_call(n->backward, call_backward, &call)) return true;
  for (int i = 0; i < node->ninputs; i++) {
    tli_release(out[i]);
    out[i] = NULL;
  }
  return false;
}

static void drop(tli_Node *node) {
  LuaNode *n = (LuaNode *)node;
  for (int i = 0; i < n->nsaved; i++) tli_saved_drop(&n->saved[i]);
  tli_callback_drop(n->backward);
  n->backward = NULL;
}

/* ---- recording ---- */

/* Returns the tensor in field i of the table, borrowed; NULL if the field has no tensor. */
static tl_Tensor *tensor_in(lua_State *L, int table, lua_Integer i) {
  lua_rawgeti(L, table, i);
  tl_Tensor *t =
      lua_type(L, -1) == LUA_TUSERDATA ? tli_to_tensor(L, tli_state(L), lua_gettop(L)) : NULL;
  lua_pop(L, 1);
  return t;
}

/* The largest accepted field n. No call has that many values, and the size in bytes of n values
** cannot overflow. */
#define COUNT_MAX 1000000

/* Returns field n of the table; may raise an error. */
static int count_in(lua_State *L, int table, const char *name) {
  int whole;
  lua_getfield(L, table, "n");
  lua_Integer n = lua_tointegerx(L, -1, &whole);
  if (!whole || n < 0 || n > COUNT_MAX)
    tli_error(L, "record: %s: expected a field n, a count of values, got %s", name,
              tli_describe(L, tli_state(L), lua_gettop(L)));
  lua_pop(L, 1);
  return (int)n;
}

/* Returns whether the node's result must be an alias of t instead of t itself. This is so if t is a
** view, has a history, or is an input, because t must keep its own history. */
static bool needs_alias(lua_State *L, const tl_Tensor *t, int inputs, int n) {
  if (t->base || tli_requires_grad(t)) return true;
  for (int i = 1; i <= n; i++)
    if (tensor_in(L, inputs, i) == t) return true;
  return false;
}

enum { NAME = 1, INPUTS, OUTPUTS, CONSTANT, SAVED, BACKWARD, MATERIALIZE, DIRTY };

/* Returns whether output k is an input that forward has changed in place. */
static bool is_dirty(lua_State *L, int k) {
  lua_rawgeti(L, DIRTY, k + 1);
  bool dirty = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return dirty;
}

/* Increments the version of each output that is an input changed in place. Must be called before
** any tensor is saved. May raise an error. */
static void bump_dirty(lua_State *L, const LuaNode *n) {
  for (int k = 0; k < n->node.noutputs; k++) {
    tl_Tensor *t = is_dirty(L, k) ? tensor_in(L, OUTPUTS, k + 1) : NULL;
    if (t == NULL) continue;
    if (!tli_inplace_check(n->name, t)) tli_raise(L);
    if (t->base && tensor_in(L, INPUTS, 1) != t)
      tli_error(L, "%s: mark_dirty: a view must be the first argument of forward", n->name);
    tli_bump(t, "a Function");
  }
}

static bool save_all(lua_State *L, LuaNode *n) {
  for (int i = 0; i < n->nsaved; i++) {
    tl_Tensor *t = tensor_in(L, SAVED, i + 1);
    int result = 0;
    for (int k = 1; t && k <= n->node.noutputs && !result; k++)
      if (tensor_in(L, OUTPUTS, k) == t) result = k;
    if (result)
      TL_TRY(tli_save_result(&n->saved[i], t, result - 1));
    else
      TL_TRY(tli_save(&n->saved[i], t));
  }
  return true;
}

/* Saves the tensors of a call. Hooks that pack saved tensors run in L. */
static bool save_called(lua_State *L, LuaNode *n) {
  lua_State *outer = tli_calling;
  tli_calling = L;
  bool ok = save_all(L, n);
  tli_calling = outer;
  return ok;
}

/* Makes output k a result of the node. If the output cannot become a result, an alias replaces it
** in the table. The function may raise an error. */
static void take_output(lua_State *L, LuaNode *n, int k) {
  tl_Tensor *t = tensor_in(L, OUTPUTS, k + 1);
  if (t == NULL) return;
  if (is_dirty(L, k)) {
    if (!tli_inplace_result(n->name, t, &n->node, k)) tli_raise(L);
  } else if (needs_alias(L, t, INPUTS, n->node.ninputs)) {
    tli_Box *box = tli_push_box(L);
    /* reads the tensor again, because a finalizer may have released it while the box was made */
    t = tensor_in(L, OUTPUTS, k + 1);
    t = t ? tli_detached(t) : tli_fail_null(TL_EARG, "%s: a result was released", n->name);
    if (t == NULL) tli_raise(L);
    tli_fill_box(tli_state(L), box, t);
    lua_rawseti(L, OUTPUTS, k + 1);
  }
  lua_rawgeti(L, CONSTANT, k + 1);
  bool constant = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (constant)
    tli_info_of(t, &n->node.infos[k]);
  else if (!is_dirty(L, k) && !tli_node_output(&n->node, k, t))
    tli_raise(L);
  if (t->autograd == NULL || t->autograd->node != &n->node) return;
  lua_rawgeti(L, OUTPUTS, k + 1);
  tli_callback_hangs_on(L, n->backward, &n->node, lua_gettop(L));
  lua_pop(L, 1);
}

/* Makes a node that only `box` owns. May raise an error. */
static LuaNode *new_node(lua_State *L, tli_Node **box) {
  static const tli_NodeType incomplete = {"function", apply, drop, true, NULL, NULL};
  int ninputs = count_in(L, INPUTS, "inputs"), noutputs = count_in(L, OUTPUTS, "outputs");
  int nsaved = count_in(L, SAVED, "saved");
  size_t bytes = sizeof(LuaNode) + (size_t)nsaved * sizeof(tli_Saved);
  *box = tli_node_new(&incomplete, bytes, ninputs, noutputs);
  if (*box == NULL) tli_raise(L);
  LuaNode *n = (LuaNode *)*box;
  snprintf(n->name, sizeof n->name, "%s", lua_tostring(L, NAME));
  const char *dot = strrchr(n->name, '.');
  snprintf(n->title, sizeof n->title, "%sBackward", dot ? dot + 1 : n->name);
  n->type = (tli_NodeType){n->name, apply, drop, lua_toboolean(L, MATERIALIZE), NULL, n->title};
  n->node.type = &n->type;
  n->nsaved = nsaved;
  return n;
}

/* record(name, inputs, outputs, constant, saved, backward, materialize, dirty?)
**
** Records that `outputs` were computed from `inputs`. Both are tables with a field n and may
** contain any values. History is recorded from the inputs that require a gradient to the
** floating-point outputs, except outputs k for which constant[k] is true. dirty[k] says that output
** k is an input that was changed in place. `saved`, also a table with n, is passed to
** backward(saved, gradients...), which returns a gradient or nil for each input. */
static int autograd_record(lua_State *L) {
  static const char *const tables[] = {"record: inputs", "record: outputs", "record: constant",
                                       "record: saved"};
  tli_check_type(L, NAME, LUA_TSTRING, "record: name");
  for (int i = INPUTS; i <= SAVED; i++) tli_check_type(L, i, LUA_TTABLE, tables[i - INPUTS]);
  tli_check_type(L, BACKWARD, LUA_TFUNCTION, "record: backward");
  lua_settop(L, DIRTY);
  if (lua_isnil(L, DIRTY)) {
    lua_newtable(L);
    lua_replace(L, DIRTY);
  }
  tli_check_type(L, DIRTY, LUA_TTABLE, "record: dirty");
  tli_enter(L, tli_state(L));
  tli_Node **box = tli_push_node_box(L);
  LuaNode *n = new_node(L, box);
  lua_pushvalue(L, BACKWARD);
  n->backward = tli_callback_new(L);
  if (n->backward == NULL) return tli_raise_as(L, lua_tostring(L, NAME));
  for (int i = 0; i < n->node.ninputs; i++)
    if (!tli_node_connect(&n->node, i, tensor_in(L, INPUTS, i + 1)))
      return tli_raise_as(L, lua_tostring(L, NAME));
  bump_dirty(L, n);
  if (!save_called(L, n)) return tli_raise_as(L, lua_tostring(L, NAME));
  for (int k = 0; k < n->node.noutputs; k++) take_output(L, n, k);
  /* releases the function's own reference now, instead of leaving it to the collector; the results
  ** own the node */
  *box = NULL;
  tli_node_release(&n->node);
  return 0;
}

void tli_open_function(lua_State *L) {
  static const luaL_Reg functions[] = {{"record", autograd_record}, {NULL, NULL}};
  tli_set_module(L, "autograd", functions);
}
