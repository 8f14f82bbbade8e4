/*
** stored.c - passes calls to Lua if an operator has refused a dtype of TL_STORED_DTYPES.
*/
#include "lua/args/stored.h"

#include "lua/tensor/value.h"

int tli_stored_call(lua_State *L, const char *name, int n) {
#ifdef TLI_INFER /* the profile "infer" lacks these dtypes, so no operator refuses one */
  (void)name, (void)n;
  return tli_raise(L);
#else
  luaL_checkstack(L, n + 8, "arguments");
  int top = lua_gettop(L);
  tli_push_environment(L);
  lua_getfield(L, -1, "require");
  lua_pushliteral(L, "tlua.stored");
  lua_call(L, 1, 1);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  lua_pushstring(L, name);
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_call(L, n + 1, LUA_MULTRET);
  return lua_gettop(L) - top;
#endif
}
