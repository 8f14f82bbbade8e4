/*
** scope.c - torch.scope(fn, ...) calls fn. When fn has returned or failed, all tensors that were
** made in the meantime are released, except those among fn's results or at any depth in tables
** among the results. Their memory is thus free at once, not only after the next garbage collection.
**
** A scope has a table, to which each new tensor of the scope's Lua thread is added, and also each
** new tensor of the coroutines that this thread resumes. The table keeps the tensors alive until
** the scope ends. The table of an inner scope has the outer scope's table at index 0.
*/
#include "lua/args/sparse.h"
#include "lua/modes/thread_modes.h"
#include "lua/tensor/value.h"

#define GUARD "torch.ScopeGuard"

/* A to-be-closed value that closes the scope if a coroutine is closed while the scope's function is
** suspended in it. User value 1 keeps the settings alive. */
typedef struct Guard {
  /* the settings of the thread that opened the scope (borrowed); NULL once the scope is closed */
  tli_Settings *of;
} Guard;

void tli_scope_note(lua_State *L, tli_State *S) {
  luaL_checkstack(L, 6, "scope");
  if (!tli_scope_find(L, S)) return;
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
}

/* Opens a scope, and puts its guard below the function and its arguments, as a to-be-closed
** variable. */
static void open_scope(lua_State *L, tli_State *S) {
  Guard *guard = lua_newuserdatauv(L, sizeof *guard, 1);
  guard->of = NULL;
  luaL_setmetatable(L, GUARD);
  tli_Settings *of = tli_push_settings(L, S);
  lua_setiuservalue(L, -2, 1);
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_newtable(L);
  tli_scope_push(L, S);
  guard->of = of;
}

/* Pops a value. If the value is a tensor or a table, adds it to the set of kept values at index
** `kept`. If it is a table that was not yet in the set, also appends it to the queue at index
** `queue`. A wrapped tensor counts as the table of its components. */
static void keep(lua_State *L, tli_State *S, int kept, int queue) {
  if (tli_is_wrapped(L, lua_gettop(L))) {
    lua_getiuservalue(L, -1, 1);
    lua_remove(L, -2);
  }
  bool table = lua_type(L, -1) == LUA_TTABLE;
  if (table || tli_to_box(L, S, -1)) {
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

/* Keeps the contents of all tables in the queue, and the contents of the tables in them. A loop
** replaces recursion, because tables may be nested deeper than the C stack allows. */
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

/* Releases the tensors in the scope's table on top of the stack, except those in the set at index
** `kept`. The enclosing scope gets the kept tensors. */
static void empty_scope(lua_State *L, tli_State *S, int kept) {
  int scope = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, scope);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, scope, i);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, kept) == LUA_TNIL) {
      lua_pop(L, 1);
      tli_release_box(L, lua_gettop(L));
      lua_pop(L, 1);
    } else {
      lua_pop(L, 1);
      if (S->scopes > 0) tli_scope_note(L, S);
      lua_pop(L, 1);
    }
  }
}

/* Closes the guard's scope. The values on the stack from index `first` on are results, whose
** tensors are kept. */
static void close_scope(lua_State *L, tli_State *S, Guard *guard, int first) {
  int top = lua_gettop(L), kept = top + 1, queue = top + 2;
  if (guard->of == NULL) return;
  luaL_checkstack(L, 20, "scope");
  lua_newtable(L);
  lua_newtable(L);
  for (int i = first; i <= top; i++) {
    lua_pushvalue(L, i);
    keep(L, S, kept, queue);
  }
  keep_nested(L, S, kept, queue);
  tli_Settings *of = guard->of;
  guard->of = NULL;
  if (tli_scope_pop(L, S, of)) empty_scope(L, S, kept);
  lua_settop(L, top);
}

static int guard_close(lua_State *L) {
  Guard *guard = luaL_checkudata(L, 1, GUARD);
  close_scope(L, tli_state(L), guard, lua_gettop(L) + 1);
  return 0;
}

/* Ends the scope after the scope's function has returned or failed. The guard is at index 1; above
** it are the function's results or the error. */
static int after(lua_State *L, int status, lua_KContext context) {
  (void)context;
  bool ok = status == LUA_OK || status == LUA_YIELD;
  close_scope(L, tli_state(L), lua_touserdata(L, 1), ok ? 2 : lua_gettop(L) + 1);
  return ok ? lua_gettop(L) - 1 : lua_error(L);
}

static int torch_scope(lua_State *L) {
  if (lua_type(L, 1) != LUA_TFUNCTION)
    return tli_error(L, "scope: expected a function, got %s", tli_describe(L, tli_state(L), 1));
  open_scope(L, tli_state(L));
  return after(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, after), 0);
}

void tli_open_scope(lua_State *L) {
  luaL_newmetatable(L, GUARD);
  tli_push_function(L, guard_close);
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
  tli_push_function(L, torch_scope);
  lua_setfield(L, -2, "scope");
}
