/*
** batched.c - runs operators on the stand-ins of vmap (batched.h), by calling a handler. The
** handler, a Lua function, gets the operator's signature and the unchanged arguments, and chooses
** the function to call.
*/
#include "lua/args/batched.h"

#include <string.h>

#include "lua/tensor/value.h"

static const char handler_key = 0, meta_key = 0, signatures_key = 0;

static bool is_stand_in(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &meta_key);
  bool is = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is;
}

bool tli_is_batched(lua_State *L, int index) {
  return tli_state(L)->batching > 0 && is_stand_in(L, index);
}

/* Returns whether a list or a table of options contains a stand-in of vmap. */
static bool holds_one(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  bool found = false;
  lua_pushnil(L);
  while (!found && lua_next(L, index)) {
    found = is_stand_in(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  if (found) lua_pop(L, 1);
  return found;
}

static bool any_batched(lua_State *L, int top) {
  for (int i = 1; i <= top; i++)
    if (is_stand_in(L, i) || holds_one(L, i)) return true;
  return false;
}

/* Pushes a signature as a table {name = "sum", pointwise = false, {name = "self", tensor = true,
** keyword = false, ...}, ...}. The table is made on the first call and kept. */
static void push_signature(lua_State *L, const tli_Signature *sig) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &signatures_key);
  if (lua_rawgetp(L, -1, sig) == LUA_TTABLE) {
    lua_remove(L, -2);
    return;
  }
  lua_pop(L, 1);
  lua_createtable(L, sig->nparams, 2);
  lua_pushstring(L, sig->name);
  lua_setfield(L, -2, "name");
  lua_pushboolean(L, sig->pointwise);
  lua_setfield(L, -2, "pointwise");
  for (int i = 0; i < sig->nparams; i++) {
    const tli_Param *p = &sig->params[i];
    lua_createtable(L, 0, 4);
    lua_pushstring(L, p->name);
    lua_setfield(L, -2, "name");
    lua_pushboolean(L, p->kind == TLI_A_TENSOR || p->kind == TLI_A_OPERAND);
    lua_setfield(L, -2, "tensor");
    lua_pushboolean(L, p->kind == TLI_A_DIM || p->kind == TLI_A_DIMS);
    lua_setfield(L, -2, "dim");
    lua_pushboolean(L, p->kind == TLI_A_DIMS);
    lua_setfield(L, -2, "dims");
    lua_pushboolean(L, p->flags & TLI_P_KEYWORD);
    lua_setfield(L, -2, "keyword");
    lua_pushboolean(L, p->flags & TLI_P_VARARG);
    lua_setfield(L, -2, "vararg");
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushvalue(L, -1);
  lua_rawsetp(L, -3, sig);
  lua_remove(L, -2);
}

/* Returns whether the last argument is a table of options with a field `out`. */
static bool has_out(lua_State *L, int top) {
  if (top == 0 || lua_type(L, top) != LUA_TTABLE) return false;
  lua_pushliteral(L, "out");
  bool has = lua_rawget(L, top) != LUA_TNIL;
  lua_pop(L, 1);
  return has;
}

static int refuse_shared(lua_State *L, const char *name) {
  return tli_error(L, "func.vmap: %s would write to a tensor that all examples share", name);
}

void tli_check_shared(lua_State *L, const char *name) {
  const tli_State *S = tli_state(L);
  if (S->batching > 0 && S->rules == 0) refuse_shared(L, name);
}

int tli_batched(lua_State *L, const tli_Signature *sig, lua_CFunction fn) {
  tli_State *S = tli_state(L);
  int top = lua_gettop(L), rules = S->rules;
  luaL_checkstack(L, top + 8, "batched arguments");
  if (!any_batched(L, top)) {
    size_t n = strlen(sig->name);
    bool writes = (n > 0 && sig->name[n - 1] == '_' && tli_to_box(L, S, 1)) || has_out(L, top);
    return writes && rules == 0 ? refuse_shared(L, sig->name) : -1;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &handler_key);
  tli_push_function(L, fn);
  push_signature(L, sig);
  for (int i = 1; i <= top; i++) lua_pushvalue(L, i);
  S->rules = rules + 1;
  int status = lua_pcall(L, top + 2, LUA_MULTRET, 0);
  S->rules = rules;
  return status == LUA_OK ? lua_gettop(L) - top : lua_error(L);
}

/* torch._batched_call(fn, ...) calls fn in protected mode and returns what pcall would return. The
** function must not yield, because batching would stay on if the suspended coroutine were never
** resumed. Afterwards, even after an error, the number of running calls of vmap is the same as
** before. */
static int batched_call(lua_State *L) {
  tli_State *S = tli_state(L);
  int before = S->batching;
  bool ok = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == LUA_OK;
  S->batching = before;
  lua_pushboolean(L, ok);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* torch._batching() returns the number of nested calls of vmap that are running.
** torch._batching(depth, handler, metatable) sets it, and stores the handler and the metatable of
** stand-ins if they are given. */
static int set_batching(lua_State *L) {
  tli_State *S = tli_state(L);
  if (lua_isnone(L, 1)) {
    lua_pushinteger(L, S->batching);
    return 1;
  }
  S->batching = (int)luaL_checkinteger(L, 1);
  S->rules = 0;
  if (lua_isnoneornil(L, 2)) return 0;
  lua_pushvalue(L, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &handler_key);
  lua_pushvalue(L, 3);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &meta_key);
  return 0;
}

void tli_open_batched(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"_batching", set_batching}, {"_batched_call", batched_call}, {NULL, NULL}};
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &signatures_key);
  tli_set_functions(L, functions);
}
