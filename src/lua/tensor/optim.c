/*
** optim.c - collects the tensors for an optimizer's step from the optimizer's tables, and drops
** gradients. In Lua this would take as long as the whole step of a small model.
*/
#include "autograd/graph.h"
#include "core/observe/trace.h"
#include "lua/args/sparse.h"
#include "lua/tensor/value.h"
#include "lua/list_length.h"

/* Stack indices of _gather_step's arguments. */
enum { PARAMS = 1, STATES, OFFSET, NAMES, CLOCKS, TO_PARAMS, TO_STATES, TO_CLOCKS, ARGUMENTS };

static int refuse(lua_State *L, int index) {
  return tli_error(L, "_gather_step: argument %d: got %s", index,
                   tli_describe(L, tli_state(L), index));
}

/* Appends fields of the state on top of the stack to the list at `to`: the `count` fields listed at
** `names`. The list already contains the fields of n other states. Returns false if a field is
** missing. */
static bool copy_fields(lua_State *L, int names, lua_Integer count, int to, lua_Integer n) {
  int state = lua_gettop(L);
  for (lua_Integer k = 1; k <= count; k++) {
    lua_rawgeti(L, names, k);
    lua_gettable(L, state);
    if (!lua_toboolean(L, -1)) return false;
    lua_rawseti(L, to, n * count + k);
  }
  return true;
}

/* _gather_step(params, states, offset, names, clocks, to_params, to_states, to_clocks) collects, in
** to_params, the parameters that have a gradient. The state of parameter i is states[offset + i].
** The function collects the state's tensors, whose fields are listed in `names`, in to_states, and
** its step counts, whose fields are listed in `clocks`, in to_clocks. Returns the number of
** collected parameters, nil if a state or a field of a state is missing, or -1 if a parameter or a
** gradient is sparse. */
static int gather_step(lua_State *L) {
  tli_State *S = tli_state(L);
  lua_settop(L, ARGUMENTS - 1);
  for (int i = 1; i < ARGUMENTS; i++)
    if (lua_type(L, i) != (i == OFFSET ? LUA_TNUMBER : LUA_TTABLE)) return refuse(L, i);
  lua_Integer offset = lua_tointeger(L, OFFSET), count = tli_list_length(L, PARAMS);
  lua_Integer names = tli_list_length(L, NAMES), clocks = tli_list_length(L, CLOCKS);
  lua_Integer n = 0;
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, PARAMS, i);
    if (tli_is_sparse(L, -1)) {
      lua_pushinteger(L, -1);
      return 1;
    }
    const tl_Tensor *t = tli_to_tensor(L, S, -1);
    if (t == NULL) return refuse(L, PARAMS);
    if (t->autograd && t->autograd->grad) {
      if (tli_is_sparse_grad(t->autograd->grad)) {
        lua_pushinteger(L, -1);
        return 1;
      }
      if (lua_geti(L, STATES, offset + i) != LUA_TTABLE ||
          !copy_fields(L, NAMES, names, TO_STATES, n) ||
          !copy_fields(L, CLOCKS, clocks, TO_CLOCKS, n))
        return 0;
      lua_pop(L, 1);
      lua_rawseti(L, TO_PARAMS, ++n);
    } else {
      lua_pop(L, 1);
    }
  }
  lua_pushinteger(L, n);
  return 1;
}

/* _drop_grads(tensors) sets the field `grad` of each tensor in a list to nil. A tracer sees each of
** these assignments. */
static int drop_grads(lua_State *L) {
  const tli_State *S = tli_state(L);
  lua_settop(L, 1);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_Integer count = tli_list_length(L, 1);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, 1, i);
    tl_Tensor *t = tli_tracing() ? NULL : tli_to_tensor(L, S, 2);
    if (t == NULL) {
      lua_pushnil(L);
      lua_setfield(L, 2, "grad");
    } else if (!tli_grad_set(t, NULL)) {
      return tli_raise(L);
    }
    lua_settop(L, 1);
  }
  return 0;
}

void tli_open_optim(lua_State *L) {
  tli_set_functions(
      L,
      (const luaL_Reg[]){{"_gather_step", gather_step}, {"_drop_grads", drop_grads}, {NULL, NULL}});
}
