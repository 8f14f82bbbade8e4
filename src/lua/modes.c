/*
** modes.c - torch.no_grad and its like. Each sets a mode of the thread and
** puts it back when its scope ends: with a function, that runs in it, without
** one, `local _ <close> = torch.no_grad()`.
*/
#include <stdio.h>
#include <string.h>

#include "lua/args.h"
#include "lua/autograd.h"

#define SCOPE "torch.Scope"

typedef bool (*Setter)(bool enabled); /* returns what the mode was */

typedef struct Scope {
  Setter set; /* NULL once the mode was put back */
  bool previous;
} Scope;

static int scope_close(lua_State *L) {
  Scope *scope = luaL_checkudata(L, 1, SCOPE);
  Setter set = scope->set;
  scope->set = NULL;
  if (set) set(scope->previous);
  return 0;
}

/* All that the function returned lies above the scope. */
static int scope_end(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L) - 1;
}

static bool callable(lua_State *L, int index) {
  if (lua_type(L, index) == LUA_TFUNCTION) return true;
  if (luaL_getmetafield(L, index, "__call") == LUA_TNIL) return false;
  lua_pop(L, 1);
  return true;
}

/* The stack holds a function and its arguments, or nothing. */
static int enter(lua_State *L, const char *name, Setter set, bool enabled) {
  bool call = !lua_isnoneornil(L, 1);
  if (call && !callable(L, 1))
    return tli_error(L, "%s: expected a function or nothing, got %s", name,
                     tli_describe(L, tli_state(L), 1));
  if (!call) lua_settop(L, 0);
  Scope *scope = lua_newuserdatauv(L, sizeof *scope, 0);
  scope->set = NULL;
  luaL_setmetatable(L, SCOPE);
  lua_insert(L, 1);
  if (call) lua_toclose(L, 1);
  scope->previous = set(enabled);
  scope->set = set;
  if (!call) return 1;
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, scope_end);
  return scope_end(L, LUA_OK, 0);
}

/* Takes the boolean that comes first; `otherwise` if there may be none. */
static bool take_mode(lua_State *L, const char *name, bool needed, bool otherwise) {
  if (lua_type(L, 1) == LUA_TBOOLEAN) {
    otherwise = lua_toboolean(L, 1);
    lua_remove(L, 1);
  } else if (needed) {
    tli_error(L, "%s: expected true or false, got %s", name,
              tli_describe(L, tli_state(L), lua_gettop(L) ? 1 : 0));
  }
  return otherwise;
}

static int torch_no_grad(lua_State *L) { return enter(L, "no_grad", tli_set_grad_mode, false); }

static int torch_enable_grad(lua_State *L) {
  return enter(L, "enable_grad", tli_set_grad_mode, true);
}

static int torch_set_grad_enabled(lua_State *L) {
  bool mode = take_mode(L, "set_grad_enabled", true, true);
  return enter(L, "set_grad_enabled", tli_set_grad_mode, mode);
}

static int torch_inference_mode(lua_State *L) {
  bool mode = take_mode(L, "inference_mode", false, true);
  return enter(L, "inference_mode", tli_set_inference_mode, mode);
}

static int torch_is_grad_enabled(lua_State *L) {
  lua_pushboolean(L, tli_grad_mode());
  return 1;
}

static int torch_is_inference_mode_enabled(lua_State *L) {
  lua_pushboolean(L, tli_inference_mode());
  return 1;
}

/* ---- anomaly mode ---- */

/* "script.lua:12", where the user's code calls the operator. */
static char *where(void *context) {
  lua_Debug line;
  if (!tli_user_line(((tli_State *)context)->L, &line)) return NULL;
  char text[LUA_IDSIZE + 16];
  int length = snprintf(text, sizeof text, "%s:%d", line.short_src, line.currentline);
  char *copy = tli_alloc((size_t)length + 1);
  if (copy) memcpy(copy, text, (size_t)length + 1);
  return copy;
}

/* The state for which this thread's anomaly mode was turned on last. */
static _Thread_local tli_State *anomaly_state;

static bool set_anomaly(bool enabled) {
  bool previous = tli_anomaly();
  tli_set_anomaly(enabled ? where : NULL, anomaly_state);
  return previous;
}

static int autograd_detect_anomaly(lua_State *L) {
  anomaly_state = tli_state(L);
  return enter(L, "detect_anomaly", set_anomaly, true);
}

static int autograd_set_detect_anomaly(lua_State *L) {
  bool mode = take_mode(L, "set_detect_anomaly", true, true);
  anomaly_state = tli_state(L);
  return enter(L, "set_detect_anomaly", set_anomaly, mode);
}

static int autograd_is_anomaly_enabled(lua_State *L) {
  lua_pushboolean(L, tli_anomaly());
  return 1;
}

/* The state closes. */
static int anomaly_gc(lua_State *L) {
  if (anomaly_state == lua_touserdata(L, lua_upvalueindex(1))) set_anomaly(false);
  return 0;
}

static void close_anomaly_with_state(lua_State *L) {
  lua_newuserdatauv(L, 0, 0);
  lua_createtable(L, 0, 1);
  tli_push_function(L, anomaly_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  luaL_ref(L, LUA_REGISTRYINDEX);
}

/* ---- opening ---- */

static const luaL_Reg torch_functions[] = {
    {"no_grad", torch_no_grad},
    {"enable_grad", torch_enable_grad},
    {"set_grad_enabled", torch_set_grad_enabled},
    {"inference_mode", torch_inference_mode},
    {"is_grad_enabled", torch_is_grad_enabled},
    {"is_inference_mode_enabled", torch_is_inference_mode_enabled},
    {NULL, NULL},
};

static const luaL_Reg autograd_functions[] = {
    {"detect_anomaly", autograd_detect_anomaly},
    {"set_detect_anomaly", autograd_set_detect_anomaly},
    {"is_anomaly_enabled", autograd_is_anomaly_enabled},
    {NULL, NULL},
};

void tli_open_modes(lua_State *L) {
  luaL_newmetatable(L, SCOPE);
  lua_pushcfunction(L, scope_close);
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
  tli_set_functions(L, torch_functions);
  tli_set_module(L, "autograd", autograd_functions);
  close_anomaly_with_state(L);
}
