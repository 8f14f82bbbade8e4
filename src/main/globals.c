/*
** globals.c - defines torch, nn and optim as globals without loading the library until a program
** uses one of them.
**
** The table of globals has an __index metamethod that assigns each of these globals on first use.
** If a program gives that table another metatable, the globals that were not used before are
** missing; `require "tlua"` still works.
*/
#include "main/globals.h"

#include <lauxlib.h>
#include <string.h>

#include "lua/embed.h"
#include "main/embedded_source.h"
#include "tlua.h"

typedef struct Global {
  const char *name;
  const char *module;
  const char *field; /* name of the module's field; NULL means the module itself */
  bool for_people;   /* whether the global is defined only in interactive use */
} Global;

static const Global globals[] = {
    {"torch", "tlua", NULL, false},    {"nn", "tlua", "nn", false},
    {"optim", "tlua", "optim", false}, {"help", "tlua.repl", "help", true},
    {NULL, NULL, NULL, false},
};

static const Global *find(const char *name) {
  const Global *global = globals;
  while (global->name && strcmp(global->name, name) != 0) global++;
  return global->name ? global : NULL;
}

/* The address of this variable is a key of the registry. Its value is the function `require` from
** the start of the program. */
static const char require_key = 0;

static void require(lua_State *L, const char *module) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &require_key);
  lua_pushstring(L, module);
  lua_call(L, 1, 1);
}

void tli_globals_require(lua_State *L, const char *module) {
  require(L, "tlua"); /* this call also lets `require` find the library's other modules */
  lua_pop(L, 1);
  require(L, module);
}

/* Pushes the value of a global, and assigns the value in the table of globals, which is at
** `index`. */
static void resolve(lua_State *L, int index, const Global *global) {
  tli_globals_require(L, global->module);
  if (global->field) {
    lua_getfield(L, -1, global->field);
    lua_remove(L, -2);
  }
  lua_pushstring(L, global->name);
  lua_pushvalue(L, -2);
  lua_rawset(L, index);
}

/* Defines a global on first use. Lua calls it as __index(globals, key). */
static int index_globals(lua_State *L) {
  bool for_people = lua_toboolean(L, lua_upvalueindex(1));
  if (lua_type(L, 2) != LUA_TSTRING || !lua_istable(L, 1)) return 0;
  const Global *global = find(lua_tostring(L, 2));
  if (global == NULL || (global->for_people && !for_people)) return 0;
  resolve(L, 1, global);
  return 1;
}

/* Opens the library; from then on `require` finds the library's modules. The arguments are (name,
** path). */
static int open_library(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushnil(L);
  lua_setmetatable(L, -2);
  lua_settop(L, 2);
  return luaopen_tlua(L);
}

/* Lua calls this function as __index(package.preload, module). For "torch7" and names that begin
** with "tlua.", it opens the library, which adds searchers. Since it returns nothing, `require`
** goes on to these searchers, which find the module. */
static int index_preload(lua_State *L) {
  const char *module = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strncmp(module, "tlua.", 5) != 0 && strcmp(module, "torch7") != 0) return 0;
  require(L, "tlua");
  return 0;
}

static void fill_preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open_library);
  lua_setfield(L, -2, "tlua");
  lua_pushcfunction(L, tli_source_open);
  lua_setfield(L, -2, "tlua.repl.source");
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, index_preload);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

void tli_globals_open(lua_State *L, bool help) {
  fill_preload(L);
  tli_open_environment(L);
  lua_getglobal(L, "require");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &require_key);

  lua_pushglobaltable(L);
  lua_createtable(L, 0, 1);
  lua_pushboolean(L, help);
  lua_pushcclosure(L, index_globals, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

void tli_globals_resolve(lua_State *L) {
  lua_pushglobaltable(L);
  int index = lua_gettop(L);
  for (const Global *global = globals; global->name; global++) {
    lua_pushstring(L, global->name);
    if (lua_rawget(L, index) == LUA_TNIL) resolve(L, index, global);
    lua_settop(L, index);
  }
  lua_pop(L, 1);
}
