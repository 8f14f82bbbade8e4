/*
** binding.c - functions that several files of the binding use to check arguments and to return
** errors.
*/
#include "binding.h"

int fail(lua_State *L, Server *s, const char *message, const char *detail) {
  luaL_pushfail(L);
  if (detail)
    lua_pushfstring(L, "%s: %s", message, detail);
  else
    lua_pushstring(L, message);
  if (s) server_release(s);
  return 2;
}

Queue *check_queue(lua_State *L, Server *s, int index) {
  lua_Integer i = luaL_checkinteger(L, index);
  if (i < 0 || i >= s->nqueues) luaL_error(L, "serve: there is no queue %d", (int)i);
  return s->queues[i];
}

int check_status(lua_State *L, int index) {
  lua_Integer status = luaL_checkinteger(L, index);
  if (status < 200 || status > 599)
    luaL_error(L, "serve: status: expected 200 to 599, got %I", (LUAI_UACINT)status);
  return (int)status;
}
