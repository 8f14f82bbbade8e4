/*
** guards.c - the checks of torch.compile (lua/tlua/compile): a key of a call's arguments and modes,
** and whether the state of Lua that a program depends on is what it was.
*/
#include <string.h>

#include "autograd/graph.h"
#include "core/observe/trace.h"
#include "lua/args/args.h"
#include "lua/tensor/value.h"

/* ---- keys of calls ---- */

static void add_bytes(luaL_Buffer *b, const void *bytes, size_t size) {
  luaL_addlstring(b, bytes, size);
}

static void add_tensor(luaL_Buffer *b, const tl_Tensor *t) {
  tl_Device on = tli_device(t);
  char head[] = {'T',
                 (char)t->dtype,
                 (char)on.type,
                 (char)on.index,
                 (char)t->ndim,
                 tli_requires_grad(t),
                 (char)(t->flags & (TLI_PARAMETER | TLI_INFERENCE | TLI_CONTIGUOUS))};
  add_bytes(b, head, sizeof head);
  add_bytes(b, t->sizes, (size_t)t->ndim * sizeof *t->sizes);
  add_bytes(b, t->strides, (size_t)t->ndim * sizeof *t->strides);
}

/* Adds the argument at a stack index; returns false if a key cannot stand for it. */
static bool add_argument(lua_State *L, const tli_State *S, luaL_Buffer *b, int index) {
  char kind = (char)lua_type(L, index);
  size_t size;
  const tl_Tensor *t;
  switch (lua_type(L, index)) {
  case LUA_TNIL: break;
  case LUA_TBOOLEAN: kind = lua_toboolean(L, index) ? 't' : 'f'; break;
  case LUA_TNUMBER:
    if (lua_isinteger(L, index)) {
      lua_Integer i = lua_tointeger(L, index);
      luaL_addchar(b, 'i');
      add_bytes(b, &i, sizeof i);
    } else {
      lua_Number x = lua_tonumber(L, index);
      luaL_addchar(b, 'd');
      add_bytes(b, &x, sizeof x);
    }
    return true;
  case LUA_TSTRING: {
    const char *text = lua_tolstring(L, index, &size);
    luaL_addchar(b, 's');
    add_bytes(b, &size, sizeof size);
    add_bytes(b, text, size);
    return true;
  }
  case LUA_TUSERDATA:
    t = tli_to_tensor(L, S, index);
    if (t == NULL || (t->flags & TLI_SPARSE)) return false;
    add_tensor(b, t);
    return true;
  default: return false;
  }
  luaL_addchar(b, kind);
  return true;
}

/* _call_key(...) returns a string that calls have in common if their arguments have the same types,
** tensors the same dtype, device, sizes, strides and requires_grad, other arguments the same values,
** and the thread the same modes; and whether gradients are recorded. Returns nil and the reason if
** there is no such key. */
static int call_key(lua_State *L) {
  int n = lua_gettop(L);
  tli_State *S = tli_state(L);
  tli_enter(L, S);
  bool dual = tli_set_dual_level(false);
  tli_set_dual_level(dual);
  const char *why = S->rules > 0    ? "vmap is running"
                    : S->casts      ? "autocast is enabled"
                    : tli_tracing() ? "the call is being recorded"
                    : dual          ? "a level of forward-mode derivatives is open"
                                    : NULL;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  tl_Device on = tli_default_device();
  char modes[] = {tli_grad_mode(), tli_inference_mode(), (char)tli_default_dtype(), (char)on.type,
                  (char)on.index};
  add_bytes(&b, modes, sizeof modes);
  for (int i = 1; i <= n && why == NULL; i++)
    if (!add_argument(L, S, &b, i)) why = "an argument is neither a tensor nor plain data";
  luaL_pushresult(&b);
  if (why == NULL) {
    lua_pushboolean(L, tli_grad_mode());
  } else {
    lua_pushnil(L);
    lua_pushstring(L, why);
  }
  return 2;
}

/* ---- state ---- */

/* Returns whether the two values on top of the stack are the same: equal numbers must have one type
** and one sign. Pops both. */
static bool same_values(lua_State *L) {
  bool same = lua_rawequal(L, -1, -2);
  if (same && lua_type(L, -1) == LUA_TNUMBER) {
    lua_Number a = lua_tonumber(L, -1), b = lua_tonumber(L, -2);
    same = lua_isinteger(L, -1) == lua_isinteger(L, -2) && memcmp(&a, &b, sizeof a) == 0;
  }
  lua_pop(L, 2);
  return same;
}

/* Returns whether a table has the `count` fields of a copy, both on top of the stack. */
static bool same_fields(lua_State *L, lua_Integer count) {
  int table = lua_gettop(L) - 1, copy = table + 1;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pushvalue(L, -2);
    lua_rawget(L, copy);
    if (--count < 0 || !same_values(L)) {
      lua_settop(L, copy);
      return false;
    }
  }
  return count == 0;
}

/* Tables are given as {table, copy, number of fields, metatable or false, ...}. */
static bool tables_hold(lua_State *L, int list, int64_t i) {
  for (int k = 0; k < 4; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  if (!lua_getmetatable(L, -4)) lua_pushboolean(L, 0);
  bool ok = lua_rawequal(L, -1, -2);
  lua_Integer count = lua_tointeger(L, -3);
  lua_pop(L, 3);
  ok = ok && same_fields(L, count);
  lua_pop(L, 2);
  return ok;
}

/* Variables are given as {function, number of the upvalue, value, ...}. */
static bool upvalues_hold(lua_State *L, int list, int64_t i) {
  for (int k = 0; k < 3; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  if (!lua_getupvalue(L, -3, (int)lua_tointeger(L, -2))) lua_pushnil(L);
  bool ok = same_values(L);
  lua_pop(L, 2);
  return ok;
}

/* Fields of tables are given as {table, key, value, ...}. */
static bool globals_hold(lua_State *L, int list, int64_t i) {
  for (int k = 0; k < 3; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  lua_pushvalue(L, -2);
  lua_rawget(L, -4);
  bool ok = same_values(L);
  lua_pop(L, 2);
  return ok;
}

/* Tensors are given as {tensor, an alias that was made of it, requires_grad, version or false, ...}. */
static bool tensors_hold(lua_State *L, int list, int64_t i) {
  for (int k = 0; k < 4; k++) lua_rawgeti(L, list, (lua_Integer)(i + k));
  const tli_State *S = tli_state(L);
  const tl_Tensor *t = tli_to_tensor(L, S, -4), *alias = tli_to_tensor(L, S, -3);
  bool ok = t && alias && t->storage == alias->storage && t->offset == alias->offset &&
            t->dtype == alias->dtype && tli_same_sizes(t, alias) &&
            tli_requires_grad(t) == lua_toboolean(L, -2) &&
            (!lua_isinteger(L, -1) || lua_tointeger(L, -1) == (lua_Integer)tli_version(t));
  for (int d = 0; ok && d < t->ndim; d++) ok = t->strides[d] == alias->strides[d];
  lua_pop(L, 4);
  return ok;
}

/* _state_differs(tables, upvalues, globals, tensors) returns the number of a list whose state is not
** what it was, and the position there; nothing if all is as it was. */
static int state_differs(lua_State *L) {
  static const struct {
    bool (*holds)(lua_State *L, int list, int64_t i);
    int step;
  } lists[] = {{tables_hold, 4}, {upvalues_hold, 3}, {globals_hold, 3}, {tensors_hold, 4}};
  lua_settop(L, 4);
  for (int l = 1; l <= 4; l++) {
    luaL_checktype(L, l, LUA_TTABLE);
    lua_getfield(L, l, "n"); /* values may be nil, so the list has no length of its own */
    int64_t n = lua_tointeger(L, -1);
    lua_pop(L, 1);
    for (int64_t i = 1; i <= n; i += lists[l - 1].step) {
      if (lists[l - 1].holds(L, l, i)) continue;
      lua_pushinteger(L, l);
      lua_pushinteger(L, (lua_Integer)i);
      return 2;
    }
  }
  return 0;
}

void tli_open_guards(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"_call_key", call_key}, {"_state_differs", state_differs}, {NULL, NULL}};
  tli_set_functions(L, functions);
}
