/*
** open.c - opens the library in a Lua state: the module table with the
** operators, then the part that is written in Lua. The Lua files are embedded;
** they are found by `require "tlua.<name>"` through package.preload, or through
** a `require` of our own in hosts that left Lua's package library out.
*/
#include <string.h>

#include "lua/embed.h"
#include "lua/value.h"

/* Loads an embedded file; the module's function is then on the stack. */
static void load_embedded(lua_State *L, const tli_Embedded *e) {
  if (luaL_loadbufferx(L, e->data, e->size, e->chunk, "t") != LUA_OK) lua_error(L);
}

/* The loader of one module: upvalue 1 is its entry. */
static int loader(lua_State *L) {
  const tli_Embedded *e = (const tli_Embedded *)lua_touserdata(L, lua_upvalueindex(1));
  load_embedded(L, e);
  lua_pushstring(L, e->module);
  lua_call(L, 1, 1);
  return 1;
}

/* require for hosts without package: looks in registry._LOADED, then here. */
static int small_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, name) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  for (const tli_Embedded *e = tli_embedded; e->module; e++) {
    if (strcmp(e->module, name) != 0) continue;
    load_embedded(L, e);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, name);
    return 1;
  }
  return luaL_error(L, "module '%s' not found", name);
}

void tli_open_library(lua_State *L) {
  if (lua_getglobal(L, "require") == LUA_TNIL) {
    lua_pushcfunction(L, small_require);
    lua_setglobal(L, "require");
  }
  lua_pop(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const tli_Embedded *e = tli_embedded; e->module; e++) {
    if (strcmp(e->module, "tlua") == 0) continue; /* init.lua: called below */
    lua_pushlightuserdata(L, (void *)e);
    lua_pushcclosure(L, loader, 1);
    lua_setfield(L, -2, e->module);
  }
  lua_pop(L, 1);
}

/* init.lua gets the module table and completes it. */
static void run_init(lua_State *L) {
  for (const tli_Embedded *e = tli_embedded; e->module; e++) {
    if (strcmp(e->module, "tlua") != 0) continue;
    load_embedded(L, e);
    lua_pushvalue(L, -2);
    lua_call(L, 1, 0);
    return;
  }
}

static const char module_key = 0; /* its address: the module table in the registry */

int luaopen_tlua(lua_State *L) {
  luaL_checkversion(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &module_key) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  tli_state_open(L);
  lua_createtable(L, 0, 512);
  tli_open_tensor(L);
  tli_open_autograd(L);
  tli_open_system(L);
  tli_open_io(L);
  tli_open_scope(L);
  tli_open_library(L);
  /* init.lua may require "tlua" indirectly */
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "tlua");
  lua_pop(L, 1);
  run_init(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &module_key);
  return 1;
}

static int open_global(lua_State *L) {
  luaL_requiref(L, "tlua", luaopen_tlua, 0);
  lua_setglobal(L, "torch");
  return 0;
}

bool tl_lua_open(lua_State *L) {
  lua_pushcfunction(L, open_global);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return true;
  const char *message = lua_tostring(L, -1);
  tli_fail(TL_EINTERNAL, "%s", message ? message : "the library could not be opened");
  lua_pop(L, 1);
  return false;
}
