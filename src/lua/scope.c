/*
** scope.c - torch.scope(fn, ...): calls fn and, when it ends or fails, releases
** every tensor value made meanwhile that it did not return, however deep in
** returned tables. For who wants memory back now rather than when the
** collector comes by.
**
** While a scope is open each new box is put into the scope's table, which
** keeps it alive; a table of an inner scope holds the outer one at index 0.
*/
#include "lua/value.h"

static const char scope_key = 0; /* its address: the innermost scope's table in the registry */

/* The box on top of the stack belongs to the open scope. */
void tli_scope_note(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &scope_key);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
}

static void open_scope(lua_State *L, tli_State *S) {
  lua_newtable(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &scope_key);
  lua_rawseti(L, -2, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &scope_key);
  S->scopes++;
}

/* Puts the value on top, if it is a tensor or a table not seen before, into
** the set at `kept` and, a table, at the end of the queue at `queue`; pops it. */
static void keep(lua_State *L, tli_State *S, int kept, int queue) {
  bool table = lua_type(L, -1) == LUA_TTABLE;
  if (table || tli_is_box(L, S, -1)) {
    lua_pushvalue(L, -1);
    if (lua_rawget(L, kept) == LUA_TNIL) {
      lua_pushvalue(L, -2);
      lua_pushboolean(L, 1);
      lua_rawset(L, kept);
      if (table) {
        lua_pushvalue(L, -2);
        lua_rawseti(L, queue, (lua_Integer)lua_rawlen(L, queue) + 1);
      }
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* The same for all that the queued tables hold; without recursion, since
** tables may be nested deeper than the C stack. */
static void keep_nested(lua_State *L, tli_State *S, int kept, int queue) {
  for (lua_Integer i = 1; lua_rawgeti(L, queue, i) == LUA_TTABLE; i++) {
    int table = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, table)) {
      keep(L, S, kept, queue);
      lua_pushvalue(L, -1);
      keep(L, S, kept, queue);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Closes the innermost scope; results from stack index `first` to the top
** survive and belong to the scope around it. */
static void close_scope(lua_State *L, tli_State *S, int first) {
  int top = lua_gettop(L), kept = top + 1, queue = top + 2;
  luaL_checkstack(L, 12, "scope");
  lua_newtable(L);
  lua_newtable(L);
  for (int i = first; i <= top; i++) {
    lua_pushvalue(L, i);
    keep(L, S, kept, queue);
  }
  keep_nested(L, S, kept, queue);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &scope_key);
  int scope = lua_gettop(L);
  lua_rawgeti(L, scope, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &scope_key);
  S->scopes--;
  lua_Integer n = (lua_Integer)lua_rawlen(L, scope);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, scope, i);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, kept) == LUA_TNIL) {
      tli_Box *box = (tli_Box *)lua_touserdata(L, -2);
      tl_Tensor *t = box->tensor;
      box->tensor = NULL;
      tli_release(t);
      lua_pop(L, 2);
    } else {
      lua_pop(L, 1);
      if (S->scopes > 0) tli_scope_note(L);
      lua_pop(L, 1);
    }
  }
  lua_settop(L, top);
}

static int after(lua_State *L, int status, lua_KContext context) {
  (void)context;
  bool ok = status == LUA_OK || status == LUA_YIELD;
  close_scope(L, tli_state(L), ok ? 1 : lua_gettop(L) + 1);
  return ok ? lua_gettop(L) : lua_error(L);
}

static int torch_scope(lua_State *L) {
  if (lua_type(L, 1) != LUA_TFUNCTION)
    return tli_error(L, "scope: expected a function, got %s", tli_describe(L, tli_state(L), 1));
  open_scope(L, tli_state(L));
  return after(L, lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, 0, after), 0);
}

void tli_open_scope(lua_State *L) {
  tli_push_function(L, torch_scope);
  lua_setfield(L, -2, "scope");
}
