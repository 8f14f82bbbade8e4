/*
** lua_host.c - a minimal program that runs a Lua script. If the build machine has Lua's library but
** no `lua5.4` command, this program runs the generators.
*/
#include <stdbool.h>
#include <stdio.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  if (L == NULL || argc < 2) return 1;
  luaL_openlibs(L);
  lua_createtable(L, argc, 0);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1); /* the script's name becomes arg[0], as with the command `lua` */
  }
  lua_setglobal(L, "arg");
  bool ok = luaL_loadfile(L, argv[1]) == LUA_OK && lua_pcall(L, 0, 0, 0) == LUA_OK;
  if (!ok) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);
  return ok ? 0 : 1;
}
