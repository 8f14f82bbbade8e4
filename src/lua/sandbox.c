/*
** sandbox.c - denies functions to the scripts of a state (tl_lua_open_with). A denied function is
** replaced, in Lua's standard libraries or in the module table, by a function that raises an error.
** This happens while the library is opened, before its Lua files run, so a script cannot make these
** files call the original functions either. Functions that could run for longer than any limit
** without executing a Lua instruction are replaced as well.
*/
#include "lua/sandbox.h"

#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "lua/limits.h"
#include "lua/state.h"
#include "lua/tensor/value.h"
#include "tlua.h"

/* A function that scripts may not call if the state's flags contain one of `flags`. */
typedef struct Denied {
  /* the standard library or the module of torch that has the function; NULL for torch itself */
  const char *library;
  const char *name;
  unsigned flags;
} Denied;

enum { ANY = TL_SANDBOX };

/* If anything is denied, so are the functions by which a script could reach denied functions.
** Bytecode and packed values can access arbitrary memory, and the debug library the variables of
** other functions. A worker would have its own state without denials. */
static const Denied standard[] = {{"_G", "dofile", TL_DENY_FILES},
                                  {"_G", "loadfile", TL_DENY_FILES},
                                  {"io", "open", TL_DENY_FILES},
                                  {"io", "lines", TL_DENY_FILES},
                                  {"io", "input", TL_DENY_FILES},
                                  {"io", "output", TL_DENY_FILES},
                                  {"io", "read", TL_DENY_FILES},
                                  {"io", "close", TL_DENY_FILES},
                                  {"io", "tmpfile", TL_DENY_FILES},
                                  {"io", "popen", TL_DENY_PROCESSES},
                                  {"os", "remove", TL_DENY_FILES},
                                  {"os", "rename", TL_DENY_FILES},
                                  {"os", "tmpname", TL_DENY_FILES},
                                  {"os", "execute", TL_DENY_PROCESSES},
                                  {"os", "exit", TL_DENY_PROCESSES},
                                  {"os", "setlocale", TL_DENY_PROCESSES},
                                  {"package", "loadlib", TL_DENY_LIBRARIES},
                                  {"package", "searchpath", TL_DENY_FILES},
                                  {NULL, NULL, 0}};

static const Denied module[] = {{NULL, "_program_load", TL_DENY_FILES},
                                {NULL, "_connect", TL_DENY_NETWORK},
                                {NULL, "_connect_tls", TL_DENY_NETWORK},
                                {NULL, "_listen", TL_DENY_NETWORK},
                                {"_kernel", "socket", TL_DENY_NETWORK},
                                {"_kernel", "finish", TL_DENY_NETWORK},
                                {"_kernel", "poll", TL_DENY_PROCESSES},
                                {"_kernel", "read", TL_DENY_FILES | TL_DENY_PROCESSES},
                                {"_kernel", "put", TL_DENY_FILES | TL_DENY_PROCESSES},
                                {"_kernel", "capture", TL_DENY_PROCESSES},
                                {"_kernel", "release", TL_DENY_PROCESSES},
                                {"_kernel", "interrupt", TL_DENY_PROCESSES},
                                {NULL, "set_memory_limit", TL_DENY_PROCESSES},
                                {NULL, "set_num_threads", TL_DENY_PROCESSES},
                                {NULL, "_pack", ANY},
                                {NULL, "_unpack", ANY},
                                {NULL, "_keep", ANY},
                                {"io", "map", TL_DENY_FILES},
                                {"io", "replace", TL_DENY_FILES},
                                {"io", "folder", TL_DENY_FILES},
                                {"io", "make_folder", TL_DENY_FILES},
                                {"workers", "start", ANY},
                                {"distributed", "_store", TL_DENY_NETWORK},
                                {"distributed", "_join", TL_DENY_NETWORK},
                                {"distributed", "_mpi", TL_DENY_NETWORK | TL_DENY_LIBRARIES},
                                {"distributed", "_private_read", TL_DENY_FILES},
                                {"distributed", "_private_write", TL_DENY_FILES},
                                {NULL, NULL, 0}};

static const char *action(unsigned flags) {
  if (flags == ANY) return "start threads or exchange functions with them";
  if (flags & TL_DENY_FILES) return "use files";
  if (flags & TL_DENY_NETWORK) return "use the network";
  if (flags & TL_DENY_LIBRARIES) return "load libraries";
  return "start processes or change this one";
}

/* Raises the error of a denied function: upvalue 1 is the function's name, upvalue 2 the kind of
** action that is denied. */
static int refuse(lua_State *L) {
  lua_pushfstring(L, "%s: this Lua state may not %s (tl_lua_open_with)",
                  lua_tostring(L, lua_upvalueindex(1)), lua_tostring(L, lua_upvalueindex(2)));
  return tli_state_find(L) ? tli_error_text(L, lua_tostring(L, -1)) : lua_error(L);
}

/* Replaces a function in the table on top of the stack by one that raises an error, if the table
** has the function. */
static void deny(lua_State *L, const char *prefix, const char *name, unsigned flags) {
  if (lua_getfield(L, -1, name) == LUA_TFUNCTION) {
    lua_pushfstring(L, "%s%s", prefix, name);
    lua_pushstring(L, action(flags));
    lua_pushcclosure(L, refuse, 2);
    lua_setfield(L, -3, name);
  }
  lua_pop(L, 1);
}

/* Implements load without bytecode: calls the original function, upvalue 1, with the mode "t". */
static int load_text(lua_State *L) {
  bool has_environment = lua_gettop(L) >= 4;
  lua_settop(L, has_environment ? 4 : 3);
  lua_pushliteral(L, "t");
  lua_replace(L, 3);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* ---- functions that could run forever ---- */

/* Returns the largest number of elements that table.move, table.sort and similar functions may
** process. A table may claim to have 2^62 elements, and no hook runs while these functions process
** them. The limit is larger if scripts are trusted. */
static lua_Integer most_elements(lua_State *L) { return tli_denied(L) ? 10000000 : 100000000; }

/* Calls the original function, upvalue 1, with all arguments. If it is a C function without
** upvalues, as Lua's own functions are, it runs in place of the running function. So its errors
** name the same function and line as without this replacement, and it may yield. */
static int run_original(lua_State *L) {
  lua_CFunction original = lua_tocfunction(L, lua_upvalueindex(1));
  if (original && lua_getupvalue(L, lua_upvalueindex(1), 1) == NULL) return original(L);
  if (original) lua_pop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static int call_original(lua_State *L) {
  tli_limits_spend(L, 1);
  return run_original(L);
}

/* Raises an error for too many elements. Upvalue 2 is the name of the replaced function, as in the
** functions below. */
static int too_many(lua_State *L) {
  return luaL_error(L, "table.%s: expected at most %I elements in a state of %s",
                    lua_tostring(L, lua_upvalueindex(2)), (LUAI_UACINT)most_elements(L),
                    tli_denied(L) ? "tl_lua_open_with" : "tl_set_limits");
}

/* Implements functions of `table` that take a list, and refuses lists that are too long. If scripts
** are not trusted, also refuses lists with the metamethod __len, which could return another length
** later. */
static int bounded_list(lua_State *L) {
  if (lua_type(L, 1) == LUA_TTABLE) {
    if (lua_rawlen(L, 1) > (lua_Unsigned)most_elements(L)) return too_many(L);
    if (!tli_denied(L)) {
      if (luaL_len(L, 1) > most_elements(L)) return too_many(L);
    } else if (luaL_getmetafield(L, 1, "__len") != LUA_TNIL)
      return luaL_error(L,
                        "table.%s: expected a table without __len in a state of "
                        "tl_lua_open_with",
                        lua_tostring(L, lua_upvalueindex(2)));
  }
  return call_original(L);
}

/* Compares two values with the function in upvalue 1, or with < if it is nil. Checks the limits at
** each comparison, since comparing long strings takes long. */
static int compare(lua_State *L) {
  tli_limits_spend(L, 1);
  lua_settop(L, 2);
  if (lua_isnil(L, lua_upvalueindex(1))) {
    lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
    return 1;
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}

/* Implements table.sort. Compares by a function that checks the limits. Only a comparison written
** in Lua is used directly, since its instructions are counted anyway. */
static int bounded_sort(lua_State *L) {
  if (!lua_isnone(L, 1) && (lua_isnoneornil(L, 2) || lua_iscfunction(L, 2))) {
    lua_settop(L, 2);
    lua_pushcclosure(L, compare, 1);
  }
  return bounded_list(L);
}

static int bounded_move(lua_State *L) {
  lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);
  lua_Unsigned most = (lua_Unsigned)most_elements(L);
  if (last >= first && (lua_Unsigned)last - (lua_Unsigned)first >= most) return too_many(L);
  return call_original(L);
}

/* Implements string.rep. Returns "" at once for empty strings, because the original loops over
** their repetitions and no hook could end the loop. */
static int bounded_rep(lua_State *L) {
  size_t size, between = 0;
  luaL_checklstring(L, 1, &size);
  luaL_optlstring(L, 3, "", &between);
  if (size == 0 && between == 0) {
    luaL_checkinteger(L, 2);
    lua_pushliteral(L, "");
    return 1;
  }
  return call_original(L);
}

/* Implements coroutine.create, and counts some instructions for each new coroutine. The hook of a
** coroutine runs only after a number of instructions, so without this count a script could run many
** short coroutines without reaching its limit. */
static int bounded_coroutine(lua_State *L) {
  tli_limits_spend(L, TLI_LIMITS_STEP);
  if (lua_type(L, 1) == LUA_TFUNCTION) {
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, tli_limits_body, 1);
    lua_replace(L, 1);
  }
  return call_original(L);
}

/* Resumes a coroutine. The coroutine yields when the state's instructions or seconds are used up,
** and then the error is raised here. */
static int bounded_resume(lua_State *L) {
  int n = call_original(L);
  tli_limits_spend(L, 0);
  return n;
}

/* Runs the function that the original coroutine.wrap has returned, upvalue 2, in place of the
** running function. Upvalue 1 is the coroutine, as in that function. */
static int resume_wrapped(lua_State *L) {
  tli_limits_spend(L, 1);
  int n = lua_tocfunction(L, lua_upvalueindex(2))(L);
  tli_limits_spend(L, 0);
  return n;
}

static int bounded_wrap(lua_State *L) {
  bounded_coroutine(L);
  const char *name = lua_iscfunction(L, -1) ? lua_getupvalue(L, -1, 1) : NULL;
  if (name && lua_isthread(L, -1)) {
    lua_insert(L, -2);
    lua_pushcclosure(L, resume_wrapped, 2);
  } else {
    if (name) lua_pop(L, 1);
    lua_pushcclosure(L, bounded_resume, 1);
  }
  return 1;
}

/* Calls the message handler in upvalue 1, except for errors of the hook. Lua would run their
** handler while hooks are disabled, so that nothing could end it. */
static int handle(lua_State *L) {
  if (tli_limits_used_up(L)) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

static int bounded_xpcall(lua_State *L) {
  if (lua_type(L, 2) == LUA_TFUNCTION) {
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, handle, 1);
    lua_replace(L, 2);
  }
  return run_original(L);
}

/* Implements setmetatable without finalizers. Lua runs finalizers without hooks, so an endless loop
** in a finalizer would never end. If upvalue 2 is true, a metatable with a finalizer is an error;
** otherwise the finalizer is ignored. */
static int set_unfinalized(lua_State *L) {
  if (lua_type(L, 2) != LUA_TTABLE) return call_original(L);
  lua_settop(L, 2);
  lua_pushliteral(L, "__gc");
  if (lua_rawget(L, 2) == LUA_TNIL) {
    lua_pop(L, 1);
    return call_original(L);
  }
  if (lua_toboolean(L, lua_upvalueindex(2)))
    return luaL_error(L, "setmetatable: this Lua state may not use finalizers (tl_lua_open_with)");
  /* hides __gc during the call, the only time when Lua looks for it */
  lua_pushliteral(L, "__gc");
  lua_pushnil(L);
  lua_rawset(L, 2);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  int status = lua_pcall(L, 2, 1, 0);
  lua_pushliteral(L, "__gc");
  lua_pushvalue(L, 3);
  lua_rawset(L, 2);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* Calls the finalizer in upvalue 1 with all arguments in a new coroutine. Lua disables hooks in the
** thread that collects garbage, but not in a coroutine that this thread resumes. */
static int finalize(lua_State *L) {
  int n = lua_gettop(L);
  lua_State *thread = lua_newthread(L);
  lua_insert(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushcclosure(L, tli_limits_body, 1);
  lua_insert(L, 2);
  if (!lua_checkstack(thread, n + 1)) return luaL_error(L, "not enough memory");
  lua_xmove(L, thread, n + 1);
  int status = lua_resume(thread, L, n, &n);
  if (status == LUA_YIELD) return 0;
  if (status != LUA_OK) n = 1;
  luaL_checkstack(L, n, "too many results");
  lua_xmove(thread, L, n);
  return status == LUA_OK ? n : lua_error(L);
}

/* Implements setmetatable so that the state's limits also end finalizers that are Lua functions. */
static int set_finalized(lua_State *L) {
  if (lua_type(L, 2) == LUA_TTABLE) {
    lua_settop(L, 2);
    lua_pushliteral(L, "__gc");
    lua_pushvalue(L, 3);
    if (lua_rawget(L, 2) == LUA_TFUNCTION && !lua_iscfunction(L, -1)) {
      lua_pushcclosure(L, finalize, 1);
      lua_rawset(L, 2);
    }
    lua_settop(L, 2);
  }
  return call_original(L);
}

static const struct Bounded {
  const char *library, *name;
  lua_CFunction function;
} bounded[] = {{"table", "insert", bounded_list},
               {"table", "remove", bounded_list},
               {"table", "sort", bounded_sort},
               {"table", "concat", bounded_list},
               {"table", "unpack", call_original},
               {"table", "move", bounded_move},
               {"string", "rep", bounded_rep},
               {"string", "reverse", call_original},
               {"string", "upper", call_original},
               {"string", "lower", call_original},
               {"string", "format", call_original},
               {"coroutine", "create", bounded_coroutine},
               {"coroutine", "wrap", bounded_wrap},
               {"coroutine", "resume", bounded_resume},
               {"_G", "xpcall", bounded_xpcall},
               {"_G", "collectgarbage", call_original},
               {NULL, NULL, NULL}};

/* Replaces a function in the table that is below the top of the stack. The upvalues of the new
** function are the original function and the value on top, which is popped. */
static void wrap(lua_State *L, const char *name, lua_CFunction function) {
  if (lua_getfield(L, -2, name) == LUA_TFUNCTION) {
    lua_insert(L, -2);
    lua_pushcclosure(L, function, 2);
    lua_setfield(L, -2, name);
  } else {
    lua_pop(L, 2);
  }
}

/* Implements getmetatable, which for a userdata returns the field __metatable or else the
** metatable's name. With the metatable itself a script could remove finalizers or replace the
** methods that keep objects consistent. */
static int get_metatable(lua_State *L) {
  if (lua_type(L, 1) != LUA_TUSERDATA) return call_original(L);
  if (luaL_getmetafield(L, 1, "__metatable") == LUA_TNIL &&
      luaL_getmetafield(L, 1, "__name") == LUA_TNIL)
    lua_pushnil(L);
  return 1;
}

/* Removes the searchers that look for files, that is, all but the first one, which is that of
** package.preload. The library adds its own searcher later. */
static void remove_searchers(lua_State *L) {
  if (lua_getfield(L, -1, "searchers") == LUA_TTABLE)
    for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i > 1; i--) {
      lua_pushnil(L);
      lua_rawseti(L, -2, i);
    }
  lua_pop(L, 1);
}

/* Removes all functions of the debug library except debug.traceback. */
static void empty_debug(lua_State *L) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "traceback") == 0) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, -4);
  }
}

/* Pushes the value of a loaded module. Returns false if it is not a table. */
static bool push_loaded(lua_State *L, const char *name) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool there = lua_getfield(L, -1, name) == LUA_TTABLE;
  lua_remove(L, -2);
  return there;
}

/* Pushes the copy of Lua's standard library `name` that tlua's own Lua files use. Returns false if
** there is no such copy. */
static bool push_copied(lua_State *L, const char *name) {
  tli_push_environment(L);
  if (strcmp(name, "_G") == 0) return lua_istable(L, -1);
  return lua_istable(L, -1) && lua_getfield(L, -1, name) == LUA_TTABLE;
}

/* Replaces the functions of the standard libraries that a limit could not end. push(L, name) pushes
** a library, and returns false if there is none. */
static void bound_standard(lua_State *L, bool (*push)(lua_State *L, const char *name),
                           lua_CFunction set_metatable) {
  int top = lua_gettop(L);
  for (const struct Bounded *b = bounded; b->name; b++) {
    if (push(L, b->library)) {
      lua_pushstring(L, b->name);
      wrap(L, b->name, b->function);
    }
    lua_settop(L, top);
  }
  if (push(L, "string")) tli_bound_patterns(L);
  lua_settop(L, top);
  if (push(L, "_G")) {
    lua_pushboolean(L, false);
    wrap(L, "setmetatable", set_metatable);
  }
  lua_settop(L, top);
}

/* the address is a key of the registry, whose value tells whether the functions were replaced */
static const char bounded_key = 0;

int tli_bound_functions(lua_State *L) {
  if (tli_denied(L) || lua_rawgetp(L, LUA_REGISTRYINDEX, &bounded_key) != LUA_TNIL) return 0;
  bound_standard(L, push_loaded, set_finalized);
  bound_standard(L, push_copied, set_finalized);
  lua_pushboolean(L, true);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &bounded_key);
  return 0;
}

/* the address is a key of the registry, whose value is the set of flags */
static const char denied_key = 0;

void tli_set_denied(lua_State *L, unsigned flags) {
  lua_pushinteger(L, (lua_Integer)flags);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &denied_key);
}

unsigned tli_denied(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &denied_key);
  unsigned flags = (unsigned)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return flags;
}

void tli_deny_standard(lua_State *L) {
  unsigned flags = tli_denied(L);
  int top = lua_gettop(L);
  if (flags == 0) return;
  for (const Denied *d = standard; d->name; d++) {
    if ((d->flags & flags) == 0) continue;
    const char *prefix = strcmp(d->library, "_G") == 0 ? "" : lua_pushfstring(L, "%s.", d->library);
    if (push_loaded(L, d->library)) deny(L, prefix, d->name, d->flags);
    lua_settop(L, top);
  }
  /* denies methods of files as well, because scripts can still reach the host's own streams, such
  ** as io.stdin */
  if ((flags & TL_DENY_FILES) && luaL_getmetatable(L, LUA_FILEHANDLE) == LUA_TTABLE &&
      lua_getfield(L, -1, "__index") == LUA_TTABLE) {
    deny(L, "file:", "read", TL_DENY_FILES);
    deny(L, "file:", "lines", TL_DENY_FILES);
    deny(L, "file:", "close", TL_DENY_FILES);
  }
  lua_settop(L, top);
  bound_standard(L, push_loaded, set_unfinalized);
  if (push_loaded(L, "_G") && lua_getfield(L, -1, "load") == LUA_TFUNCTION) {
    lua_pushcclosure(L, load_text, 1);
    lua_setfield(L, -2, "load");
  }
  lua_settop(L, top);
  if ((flags & (TL_DENY_FILES | TL_DENY_LIBRARIES)) && push_loaded(L, "package"))
    remove_searchers(L);
  lua_settop(L, top);
}

void tli_deny_scripts(lua_State *L) {
  unsigned flags = tli_denied(L);
  int top = lua_gettop(L);
  if (flags == 0) return;
  if (push_loaded(L, "debug")) empty_debug(L);
  lua_settop(L, top);
  if (push_loaded(L, "_G")) {
    lua_pushboolean(L, true);
    wrap(L, "setmetatable", set_unfinalized);
    lua_pushnil(L);
    wrap(L, "getmetatable", get_metatable);
  }
  lua_settop(L, top);
  if ((flags & TL_DENY_PROCESSES) && push_loaded(L, "os"))
    deny(L, "os.", "getenv", TL_DENY_PROCESSES);
  lua_settop(L, top);
}

void tli_deny_module(lua_State *L) {
  unsigned flags = tli_denied(L);
  int table = lua_gettop(L);
  if (flags == 0) return;
  tli_state_find(L)->ledger->clean = true;
  for (const Denied *d = module; d->name; d++) {
    if ((d->flags & flags) == 0) continue;
    const char *prefix = d->library ? lua_pushfstring(L, "torch.%s.", d->library) : "torch.";
    lua_pushvalue(L, table);
    if (d->library) lua_getfield(L, -1, d->library);
    deny(L, prefix, d->name, d->flags);
    lua_settop(L, table);
  }
  if ((flags & TL_DENY_FILES) == 0) return;
  if (luaL_getmetatable(L, "torch.Program") == LUA_TTABLE)
    deny(L, "program:", "save", TL_DENY_FILES);
  lua_settop(L, table);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "_no_files"); /* tells packages.lua not to search for files */
}
