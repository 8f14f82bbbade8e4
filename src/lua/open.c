/*
** open.c - opens the library in a Lua state: first the module table with the operators, then the
** part that is written in Lua. The Lua files are embedded: `require "tlua.<name>"` finds them by a
** searcher that this file adds to package.searchers. For hosts without Lua's package library, this
** file implements a `require` of its own.
**
** The Lua files use a separate environment, a copy of the standard libraries from the time when the
** library was opened. So a script that assigns to `type` or `table.insert` does not affect nn.
*/
#include <stdlib.h>
#include <string.h>

#include "lua/args/batched.h"
#include "lua/args/sparse.h"
#include "lua/embed.h"
#include "lua/sandbox.h"
#include "lua/tensor/value.h"

/* ---- the environment ---- */

/* the address is a key of the registry, whose value is the environment */
static const char environment_key = 0;

static const char *const functions[] = {
    "assert",  "collectgarbage", "error",        "getmetatable", "ipairs",   "load",   "next",
    "pairs",   "pcall",          "print",        "rawequal",     "rawget",   "rawlen", "rawset",
    "require", "select",         "setmetatable", "tonumber",     "tostring", "type",   "xpcall",
    NULL};

/* The standard libraries that the environment contains. The first NEEDED libraries must exist; the
** others may be missing. */
enum { NEEDED = 5 };
static const char *const libraries[] = {"_G", "string",    "table", "math",    "utf8", "io",
                                        "os", "coroutine", "debug", "package", NULL};

/* Pushes a global of the given type. Reads the global without metamethods, because a host's
** metamethods may raise an error for unknown names. If there is no such global, pushes the standard
** library that is registered under this name, or nil. */
static bool push_global(lua_State *L, const char *name, int type) {
  lua_pushglobaltable(L);
  lua_pushstring(L, name);
  if (lua_rawget(L, -2) != type) {
    lua_pop(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  lua_remove(L, -2);
  return lua_type(L, -1) == type;
}

/* Replaces the table on top of the stack by a copy. */
static void copy_table(lua_State *L) {
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, -3)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  lua_remove(L, -2);
}

void tli_open_environment(lua_State *L) {
  bool there = lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key) == LUA_TTABLE;
  lua_pop(L, 1);
  if (there) return;
  lua_newtable(L);
  for (const char *const *name = functions; *name; name++) {
    if (push_global(L, *name, LUA_TFUNCTION))
      lua_setfield(L, -2, *name);
    else
      lua_pop(L, 1);
  }
  for (int i = 0; libraries[i]; i++) {
    bool shared = i == 0 || strcmp(libraries[i], "package") == 0;
    if (push_global(L, libraries[i], LUA_TTABLE) && !shared) copy_table(L);
    lua_setfield(L, -2, libraries[i]);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &environment_key);
}

void tli_push_environment(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key); }

/* If standard libraries that the library needs are missing, raises an error that names them. */
static void check_environment(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key);
  lua_pushliteral(L, "");
  for (int i = 0; i < NEEDED; i++) {
    bool there = lua_getfield(L, -2, libraries[i]) == LUA_TTABLE;
    lua_pop(L, 1);
    if (there) continue;
    lua_pushfstring(L, "%s%s%s", lua_tostring(L, -1), lua_rawlen(L, -1) ? ", " : "",
                    i == 0 ? "base" : libraries[i]);
    lua_replace(L, -2);
  }
  if (lua_rawlen(L, -1) > 0) {
    /* removes the environment, so that the next attempt to open the library makes a new one */
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &environment_key);
    luaL_error(L,
               "tlua: this Lua state lacks standard libraries that are needed (%s): open them "
               "first, as luaL_openlibs does",
               lua_tostring(L, -1));
  }
  lua_pop(L, 2);
}

/* ---- the files ---- */

/* Returns the entry of a module, by binary search; NULL for other names. */
static const tli_Embedded *find_embedded(const char *module) {
  size_t low = 0, high = tli_embedded_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp(module, tli_embedded[middle].module);
    if (order == 0) return &tli_embedded[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

/* Loads an embedded file, and pushes the function that runs it. */
static void load_embedded(lua_State *L, const tli_Embedded *e) {
  char *text = (char *)malloc(e->size + 1);
  if (text == NULL) luaL_error(L, "%s: out of memory", e->module);
  tli_embedded_text(e, text);
  int status = luaL_loadbufferx(L, text, e->size, e->chunk, "t");
  free(text);
  if (status != LUA_OK) lua_error(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key);
  lua_setupvalue(L, -2, 1);
}

/* Loads the embedded module whose entry is upvalue 1. */
static int loader(lua_State *L) {
  const tli_Embedded *e = (const tli_Embedded *)lua_touserdata(L, lua_upvalueindex(1));
  load_embedded(L, e);
  lua_pushstring(L, e->module);
  lua_call(L, 1, 1);
  return 1;
}

/* Implements require for hosts without the package library: searches registry._LOADED, then the
** embedded modules. */
static int small_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, name) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  const tli_Embedded *e = find_embedded(name);
  if (e == NULL) return luaL_error(L, "module '%s' not found", name);
  load_embedded(L, e);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, name);
  return 1;
}

static void prepare(lua_State *L) {
  if (!push_global(L, "require", LUA_TFUNCTION)) {
    lua_pushcfunction(L, small_require);
    lua_setglobal(L, "require");
  }
  lua_pop(L, 1);
  tli_open_environment(L);
  check_environment(L);
}

/* Pushes a function that loads an embedded module; the searcher returns this function to
** `require`. */
static void push_loader(lua_State *L, const tli_Embedded *e) {
  lua_pushlightuserdata(L, (void *)e);
  lua_pushcclosure(L, loader, 1);
}

static int search(lua_State *L) {
  const tli_Embedded *e = find_embedded(luaL_checkstring(L, 1));
  if (e == NULL) return 0;
  push_loader(L, e);
  lua_pushliteral(L, ":tlua:");
  return 2;
}

/* Inserts the library's searcher into the list of searchers on top of the stack, after the searcher
** of package.preload and before the searchers for files. */
static void add_searcher(lua_State *L) {
  lua_Integer count = (lua_Integer)lua_rawlen(L, -1), at = count < 1 ? 1 : 2;
  bool there = lua_rawgeti(L, -1, at) == LUA_TFUNCTION && lua_tocfunction(L, -1) == search;
  lua_pop(L, 1);
  if (there) return;
  for (lua_Integer i = count; i >= at; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, search);
  lua_rawseti(L, -2, at);
}

/* Adds the modules to package.preload. If the host opens Lua's package library later, that library
** keeps these entries. */
static void fill_preload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (const tli_Embedded *e = tli_embedded; e->module; e++) {
    /* leaves out "tlua" itself, whose file may run only in run_init; open_module adds "tlua" to
    ** package.loaded */
    if (strcmp(e->module, "tlua") == 0) continue;
    push_loader(L, e);
    lua_setfield(L, -2, e->module);
  }
}

void tli_open_library(lua_State *L) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "package") == LUA_TTABLE &&
      lua_getfield(L, -1, "searchers") == LUA_TTABLE)
    add_searcher(L);
  else
    fill_preload(L);
  lua_settop(L, top);
}

/* Runs init.lua, which receives the module table and completes it. The argument is the module
** table. */
static int run_init(lua_State *L) {
  load_embedded(L, find_embedded("tlua"));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 0);
  return 0;
}

static bool is_embedded(const char *module) { return find_embedded(module) != NULL; }

/* _is_embedded(module) returns whether the library contains the module. */
static int torch_is_embedded(lua_State *L) {
  lua_pushboolean(L, is_embedded(luaL_checkstring(L, 1)));
  return 1;
}

/* Removes the library's modules from package.loaded. Needs no memory. */
static void unload(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING || !is_embedded(lua_tostring(L, -1))) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, -4);
  }
  lua_pop(L, 1);
}

/* Completes the module on top of the stack. After an error removes all modules again. So no program
** gets an incomplete module, and the next attempt to open the library starts from the beginning. */
static void complete(lua_State *L) {
  lua_pushcfunction(L, run_init);
  lua_pushvalue(L, -2);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  unload(L);
  lua_error(L);
}

/* the address is a key of the registry, whose value is the module table */
static const char module_key = 0;

/* Creates the module table and returns it. */
static int open_module(lua_State *L) {
  tli_deny_standard(L);
  prepare(L);
  tli_deny_scripts(L);
  tli_state_open(L);
  lua_createtable(L, 0, 1024);
  tli_open_tensor(L);
  tli_open_size(L);
  tli_open_batched(L);
  tli_open_sparse(L);
  tli_open_autograd(L);
  tli_open_system(L);
  tli_open_generators(L);
  tli_open_io(L);
  tli_open_constants(L);
  tli_open_torch_device(L);
  tli_open_complex(L);
  tli_open_devices(L);
  tli_open_settings(L);
  tli_open_dist(L);
  tli_open_call_site();
  tli_open_pacer();
  tli_open_scope(L);
  tli_open_socket(L);
  tli_open_notebook(L);
  tli_open_profile(L);
  tli_open_optim(L);
  tli_open_programs(L);
  tli_open_workers(L);
  tli_open_parcels(L);
  tli_open_library(L);
  lua_pushcfunction(L, torch_is_embedded);
  lua_setfield(L, -2, "_is_embedded");
  /* makes `require "tlua"` work already now, because init.lua may call it indirectly */
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "tlua");
  lua_pop(L, 1);
  tli_deny_module(L);
  complete(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &module_key);
  return 1;
}

/* Opens the library. Stops the collector meanwhile, because nearly all objects that are allocated
** here are permanent. */
int luaopen_tlua(lua_State *L) {
  luaL_checkversion(L);
  luaL_checkstack(L, LUA_MINSTACK, "tlua");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &module_key) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  bool running = lua_gc(L, LUA_GCISRUNNING) == 1;
  if (running) lua_gc(L, LUA_GCSTOP);
  lua_pushcfunction(L, open_module);
  int status = lua_pcall(L, 0, 1, 0);
  if (running) lua_gc(L, LUA_GCRESTART);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* Opens the library and sets the global `torch`. The argument is a set of flags, which tell which
** functions scripts must not use. */
static int open_global(lua_State *L) {
  unsigned flags = (unsigned)lua_tointeger(L, 1);
  if (flags & ~(unsigned)TL_SANDBOX)
    return luaL_error(L, "lua_open_with: expected flags of TL_SANDBOX, got %d", (int)flags);
  if (flags != tli_denied(L)) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key) != LUA_TNIL)
      return luaL_error(L, "lua_open_with: the library is open in this Lua state already, with "
                           "other flags");
    tli_set_denied(L, flags);
  }
  luaL_requiref(L, "tlua", luaopen_tlua, 0);
  lua_setglobal(L, "torch");
  return 0;
}

/* Opens the library for a function of tlua.h. `name` is the name of this function in error
** messages. */
static bool open_in(lua_State *L, unsigned denied, const char *name) {
  if (L == NULL) return tli_fail(TL_EARG, "%s: expected a Lua state, got NULL", name);
  if (!lua_checkstack(L, LUA_MINSTACK)) return tli_fail(TL_EMEM, "%s: no room on the stack", name);
  lua_pushcfunction(L, open_global);
  lua_pushinteger(L, (lua_Integer)denied);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return true;
  const char *message = lua_tostring(L, -1);
  tli_fail(TL_EINTERNAL, "%s", message ? message : "the library could not be opened");
  lua_pop(L, 1);
  return false;
}

bool tl_lua_open(lua_State *L) { return open_in(L, L ? tli_denied(L) : 0, "lua_open"); }

bool tl_lua_open_with(lua_State *L, unsigned denied) { return open_in(L, denied, "lua_open_with"); }
