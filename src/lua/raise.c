/*
** raise.c - the only place where a failure of the engine becomes a Lua error. The message begins
** with the user's line: the current line of the innermost Lua function on the stack that does not
** belong to a chunk of the library ("=tlua:..."). If a module within another module is being
** called, the path and the class of the innermost one follow.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lua/autograd/callback.h"
#include "lua/tensor/value.h"

static bool of_library(const lua_Debug *ar) { return strncmp(ar->source, "=tlua:", 6) == 0; }

bool tli_user_line(lua_State *L, lua_Debug *line) {
  for (int level = 0; lua_getstack(L, level, line); level++) {
    lua_getinfo(L, "Sl", line);
    if (line->currentline > 0 && !of_library(line)) return true;
  }
  return false;
}

/* Pushes "file:line: ", or "" if there is no Lua code on the stack. */
static void push_where(lua_State *L) {
  lua_Debug line;
  if (tli_user_line(L, &line))
    lua_pushfstring(L, "%s:%d: ", line.short_src, line.currentline);
  else
    lua_pushliteral(L, "");
}

/* Returns whether the value on top of the stack is a module that has fields. */
static bool is_module(lua_State *L) {
  if (!lua_istable(L, -1)) return false;
  lua_pushliteral(L, "_fields");
  bool found = lua_rawget(L, -2) == LUA_TTABLE;
  lua_pop(L, 1);
  return found;
}

/* Pushes the path by which a module contains another: the module at stack index `parent`, its
** descendant at `child`. The path passes through at most `depth` modules between the two, such as a
** ModuleList, which is not called itself. If there is no such path, pushes nothing and returns
** false. */
static bool push_child_name(lua_State *L, int parent, int child, int depth) {
  if (!lua_checkstack(L, 8)) return false;
  lua_pushnil(L);
  while (lua_next(L, parent)) {
    bool found = lua_rawequal(L, -1, child);
    lua_pop(L, 1);
    if (found && (lua_type(L, -1) == LUA_TSTRING || lua_isinteger(L, -1))) {
      lua_pushvalue(L, -1);
      /* converts a copy of the key, because lua_next needs the key unchanged */
      lua_tostring(L, -1);
      lua_remove(L, -2);
      return true;
    }
  }
  if (depth == 0) return false;
  lua_pushnil(L);
  while (lua_next(L, parent)) {
    int key = lua_gettop(L) - 1;
    bool named = lua_type(L, key) == LUA_TSTRING || lua_isinteger(L, key);
    if (named && is_module(L) && push_child_name(L, key + 1, child, depth - 1)) {
      lua_pushvalue(L, key);
      lua_pushfstring(L, "%s.%s", lua_tostring(L, -1), lua_tostring(L, key + 2));
      lua_replace(L, key);
      lua_settop(L, key);
      return true;
    }
    lua_settop(L, key);
  }
  return false;
}

/* Pushes " (Conv2d)" for a module at a stack index, or "" if its class has no name. */
static void push_class(lua_State *L, int module) {
  const char *name = NULL;
  if (luaL_getmetafield(L, module, "__name") == LUA_TSTRING) name = lua_tostring(L, -1);
  const char *dot = name ? strrchr(name, '.') : NULL;
  if (name)
    lua_pushfstring(L, " (%s)", dot ? dot + 1 : name);
  else
    lua_pushliteral(L, "");
}

/* Pushes the path from the outermost running module to the innermost, followed by the innermost
** module's class; "" if fewer than two modules are running. Module.__call keeps the module as its
** first local, `self`, in the chunk "=tlua:nn/modules/Module.lua". */
static void push_module_path(lua_State *L) {
  lua_Debug ar;
  int base = lua_gettop(L);
  for (int level = 1; lua_getstack(L, level, &ar) && lua_gettop(L) < base + 16; level++) {
    lua_getinfo(L, "S", &ar);
    if (strcmp(ar.source, "=tlua:nn/modules/Module.lua") != 0) continue;
    const char *name = lua_getlocal(L, &ar, 1);
    if (name == NULL) continue;
    bool module = strcmp(name, "self") == 0 && lua_istable(L, -1);
    if (!module || (lua_gettop(L) > base + 1 && lua_rawequal(L, -1, -2))) lua_pop(L, 1);
  }
  /* the running modules are now on the stack, the innermost at the lowest index */
  int n = lua_gettop(L) - base;
  lua_pushliteral(L, "");
  for (int i = n; i > 1; i--) {
    int path = lua_gettop(L);
    if (!push_child_name(L, base + i, base + i - 1, 2)) lua_pushliteral(L, "?");
    lua_pushfstring(L, "%s%s%s", lua_tostring(L, path), i == n ? "" : ".", lua_tostring(L, -1));
    lua_replace(L, path);
    lua_settop(L, path);
  }
  if (n > 1) {
    int path = lua_gettop(L);
    push_class(L, base + 1);
    lua_pushfstring(L, "%s%s", lua_tostring(L, path), lua_tostring(L, -1));
  }
  lua_copy(L, -1, base + 1);
  lua_settop(L, base + 1);
}

/* Writes the path of the running modules, or "". The arguments are (buffer, size). */
static int write_module_path(lua_State *L) {
  char *text = lua_touserdata(L, 1);
  size_t size = (size_t)lua_tointeger(L, 2);
  push_module_path(L);
  snprintf(text, size, "%s", lua_tostring(L, -1));
  return 0;
}

void tli_module_path(lua_State *L, char *text, size_t size) {
  *text = '\0';
  if (!lua_checkstack(L, LUA_MINSTACK)) return;
  lua_pushcfunction(L, write_module_path);
  lua_pushlightuserdata(L, text);
  lua_pushinteger(L, (lua_Integer)size);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* Raises an error with the message "file:line: path (Class): message". The path and the class are
** left out outside of modules and in the outermost one. */
static int raise(lua_State *L, const char *message) {
  tli_calling = NULL; /* marks that no operator runs any more, because the error ends it */
  luaL_checkstack(L, 40, "error");
  int base = lua_gettop(L);
  push_where(L);
  push_module_path(L);
  if (lua_rawlen(L, -1) > 0) lua_pushliteral(L, ": ");
  lua_pushstring(L, message);
  lua_concat(L, lua_gettop(L) - base);
  return lua_error(L);
}

/* Raises, unchanged, the error of a Lua function that the engine has called. */
static int raise_again(lua_State *L) {
  tli_calling = NULL;
  return tli_raise_caught(L);
}

int tli_raise(lua_State *L) {
  if (tli_caught()) return raise_again(L);
  char message[1200];
  tli_error_translate(tli_error_raw(), 1, message, sizeof message);
  return raise(L, message);
}

/* Returns whether a message begins with the name of a function. The message may use a shorter name:
** "norm" for "linalg.norm", and "add" for "add_". */
static bool names(const char *message, const char *name) {
  const char *last = strrchr(name, '.');
  size_t n = strlen(name);
  if (last && strncmp(message, name, n) == 0 && message[n] == ':') return true;
  if (last) name = last + 1;
  n = strlen(name);
  if (n > 1 && name[n - 1] == '_') n--;
  if (strncmp(message, name, n) != 0) return false;
  return message[n] == ':' || (message[n] == '_' && message[n + 1] == ':');
}

/* Removes the name of an inner operator at the beginning of a message, such as "addmm: " in an
** error of linear, which calls addmm. If the message begins with the name of an argument, returns
** the message unchanged. */
static const char *without_inner(const char *message, const tli_Signature *sig) {
  size_t n = tli_error_head(message);
  char name[64];
  if (n == 0 || n > sizeof name) return message;
  memcpy(name, message, n - 2);
  name[n - 2] = '\0';
  return tli_find_param(sig, name) >= 0 ? message : message + n;
}

static int raise_as(lua_State *L, const char *name, const tli_Signature *sig) {
  if (tli_caught()) return raise_again(L);
  char message[1200], named[1300];
  tli_error_translate(tli_error_raw(), 1, message, sizeof message);
  if (names(message, name) || tl_error_kind() == TL_EINTERRUPT) return raise(L, message);
  bool whole = sig == NULL || tli_error_late();
  snprintf(named, sizeof named, "%s: %s", name, whole ? message : without_inner(message, sig));
  return raise(L, named);
}

int tli_raise_as(lua_State *L, const char *name) { return raise_as(L, name, NULL); }
int tli_raise_call(lua_State *L, const tli_Signature *sig) { return raise_as(L, sig->name, sig); }

int tli_error(lua_State *L, const char *format, ...) {
  char message[1200];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return raise(L, message);
}

int tli_error_text(lua_State *L, const char *message) { return raise(L, message); }

void tli_check_type(lua_State *L, int index, int type, const char *what) {
  if (lua_type(L, index) != type)
    tli_error(L, "%s: expected a %s, got %s", what, lua_typename(L, type),
              tli_describe(L, tli_state(L), index));
}
