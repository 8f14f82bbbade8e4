/*
** host.c - tlua in a browser: one Lua state and one function, `evaluate`. The page's worker calls
** this function with the text that a person has typed. The page receives Lua's output line by line.
** */
#include <emscripten.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "tlua.h"

void evaluate(const char *text);

static lua_State *L;

/* Compiles a text as Lua's interactive mode does: first as an expression and, if that fails, as a
** statement. */
static int compile(const char *text) {
  lua_pushfstring(L, "return %s", text);
  int status = luaL_loadstring(L, lua_tostring(L, -1));
  lua_remove(L, -2);
  if (status == LUA_OK) return status;
  lua_pop(L, 1);
  return luaL_loadbuffer(L, text, strlen(text), "=page");
}

static void show(int count) {
  if (count == 0) return;
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  if (lua_pcall(L, count, 0, 0) != LUA_OK) puts(lua_tostring(L, -1));
}

/* Runs a chunk and prints its values, or the error. */
EMSCRIPTEN_KEEPALIVE void evaluate(const char *text) {
  int status = compile(text);
  if (status == LUA_OK) status = lua_pcall(L, 0, LUA_MULTRET, 0);
  if (status == LUA_OK)
    show(lua_gettop(L));
  else
    puts(luaL_tolstring(L, -1, NULL));
  lua_settop(L, 0);
  fflush(stdout);
}

int main(void) {
  L = luaL_newstate();
  if (L == NULL) return 1;
  luaL_openlibs(L);
  if (!tl_lua_open(L)) return 1;
  evaluate("nn, optim = torch.nn, torch.optim");
  evaluate("print('tlua ' .. torch._VERSION .. ', ' .. _VERSION)");
  return 0;
}
