/*
** grad_modes.c - torch.no_grad and similar functions. Each of them sets a mode of the calling Lua
** thread, and restores it when its scope ends. A function that is given as an argument runs in the
** scope. Without a function, the caller gets the scope and closes it: `local _ <close> =
** torch.no_grad()`.
**
** Scopes may be closed in any order. If a scope is closed while newer scopes are open, the newer
** ones will restore the values from before the closed scope, as if it had never been opened.
*/
#include <stdatomic.h>
#include <string.h>

#include "lua/args/args.h"
#include "lua/autograd/autograd.h"
#include "lua/modes/thread_modes.h"

#define SCOPE "torch.Scope"

/* A scope as a userdata. The userdata's user value 1 keeps the thread's settings alive. */
typedef tli_ModeScope Scope;

static void scope_link(Scope *scope, tli_Settings *of) {
  static _Atomic uint64_t last;
  scope->number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
  scope->of = of;
  scope->newer = NULL;
  scope->older = of->newest;
  if (scope->older) scope->older->newer = scope;
  of->newest = scope;
}

static void scope_unlink(Scope *scope) {
  if (scope->newer)
    scope->newer->older = scope->older;
  else
    scope->of->newest = scope->older;
  if (scope->older) scope->older->newer = scope->newer;
  scope->of = NULL;
}

/* Returns the entry in which the next newer scope that sets this mode keeps the mode's previous
** value; NULL if no newer scope sets the mode. */
static tli_Change *changed_since(const Scope *scope, tli_Mode mode) {
  for (Scope *s = scope->newer; s; s = s->newer)
    for (int i = 0; i < s->n; i++)
      if (s->previous[i].mode == mode) return &s->previous[i];
  return NULL;
}

void tli_modes_begin(lua_State *L, tli_Settings *of, Scope *scope, int n,
                     const tli_Change *changes) {
  scope_link(scope, of);
  scope->n = n;
  for (int i = 0; i < n; i++) scope->previous[i] = changes[i];
  tli_swap_modes(L, tli_state(L), of, n, scope->previous);
}

void tli_modes_end(lua_State *L, Scope *scope) {
  tli_Settings *of = scope->of;
  if (of == NULL) return;
  tli_Change back[TLI_MAX_CHANGES];
  int n = 0;
  for (int i = 0; i < scope->n; i++) {
    tli_Change *later = changed_since(scope, scope->previous[i].mode);
    if (later)
      later->value = scope->previous[i].value;
    else
      back[n++] = scope->previous[i];
  }
  scope_unlink(scope);
  if (n > 0) tli_swap_modes(L, tli_state(L), of, n, back);
}

static int scope_close(lua_State *L) {
  tli_modes_end(L, luaL_checkudata(L, 1, SCOPE));
  return 0;
}

/* Runs when the collector frees a scope that was never closed. The modes that the scope has set
** remain set. */
static int scope_gc(lua_State *L) {
  Scope *scope = luaL_checkudata(L, 1, SCOPE);
  if (scope->of) scope_unlink(scope);
  return 0;
}

/* Ends the scope in which a function has run, after the function has returned or failed. The
** function's results are above the scope on the stack. */
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

void tli_push_mode_scope(lua_State *L, int n, const tli_Change *changes) {
  tli_State *S = tli_state(L);
  Scope *scope = lua_newuserdatauv(L, sizeof *scope, 1);
  scope->of = NULL;
  luaL_setmetatable(L, SCOPE);
  tli_Settings *of = tli_push_settings(L, S);
  lua_setiuservalue(L, -2, 1);
  tli_modes_begin(L, of, scope, n, changes);
}

int tli_mode_scope(lua_State *L, const char *name, int n, const tli_Change *changes) {
  bool call = lua_gettop(L) > 0;
  /* nil is refused, since it usually comes from a misspelt name of a function */
  if (call && !callable(L, 1))
    return tli_error(L, "%s: expected a function or nothing, got %s", name,
                     tli_describe(L, tli_state(L), 1));
  tli_push_mode_scope(L, n, changes);
  if (!call) return 1;
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, scope_end);
  return scope_end(L, LUA_OK, 0);
}

void tli_change_modes(lua_State *L, int n, tli_Change *changes) {
  tli_State *S = tli_state(L);
  tli_swap_modes(L, S, tli_push_settings(L, S), n, changes);
  lua_pop(L, 1);
}

static int enter(lua_State *L, const char *name, tli_Mode mode, bool enabled) {
  return tli_mode_scope(L, name, 1, &(tli_Change){mode, enabled});
}

/* If the value at index 1 is a boolean, removes and returns it. For any other value returns
** `otherwise`, or raises an error if `needed` is true. */
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

static int torch_no_grad(lua_State *L) { return enter(L, "no_grad", TLI_MODE_GRAD, false); }

static int torch_enable_grad(lua_State *L) { return enter(L, "enable_grad", TLI_MODE_GRAD, true); }

static int torch_set_grad_enabled(lua_State *L) {
  bool mode = take_mode(L, "set_grad_enabled", true, true);
  return enter(L, "set_grad_enabled", TLI_MODE_GRAD, mode);
}

static int torch_inference_mode(lua_State *L) {
  bool mode = take_mode(L, "inference_mode", false, true);
  return enter(L, "inference_mode", TLI_MODE_INFERENCE, mode);
}

static int torch_is_grad_enabled(lua_State *L) {
  tli_only(L, 0, "is_grad_enabled");
  tli_enter(L, tli_state(L));
  lua_pushboolean(L, tli_grad_mode());
  return 1;
}

static int torch_is_inference_mode_enabled(lua_State *L) {
  tli_only(L, 0, "is_inference_mode_enabled");
  tli_enter(L, tli_state(L));
  lua_pushboolean(L, tli_inference_mode());
  return 1;
}

/* ---- the device of new tensors ---- */

int tli_default_device_scope(lua_State *L) {
  static const char name[] = "default_device";
  tl_Device device;
  if (!tli_to_device(L, 1, &device))
    return tli_error(L, "%s: device: expected a device such as \"meta\" or \"cuda:0\", got %s",
                     name, tli_describe(L, tli_state(L), lua_isnone(L, 1) ? 0 : 1));
  if (tli_backend_open(device) == NULL) return tli_raise_as(L, name);
  lua_remove(L, 1);
  int place = device.type * TL_MAX_DEVICES + device.index;
  return tli_mode_scope(L, name, 1, &(tli_Change){TLI_MODE_PLACE, place});
}

/* ---- all modes ---- */

#define MODES "torch.Modes"

/* A snapshot of all modes of the calling Lua thread. */
typedef struct Modes {
  int8_t mode[TLI_NMODES];
  uint64_t newest; /* number of the newest open scope; 0 if there is none */
  int scopes;      /* number of open torch.scope calls */
  tl_DType dtype;
  tl_Device device;
} Modes;

/* _modes() returns a snapshot of all modes of the thread, which _set_modes takes. */
static int torch_modes(lua_State *L) {
  tli_State *S = tli_state(L);
  Modes *m = lua_newuserdatauv(L, sizeof *m, 0);
  luaL_newmetatable(L, MODES);
  lua_setmetatable(L, -2);
  tli_Settings *of = tli_push_settings(L, S);
  lua_pop(L, 1);
  memcpy(m->mode, of->mode, sizeof m->mode);
  m->newest = of->newest ? of->newest->number : 0;
  m->scopes = of->scopes;
  m->dtype = S->default_dtype;
  m->device = S->default_device;
  return 1;
}

static void set_mode(lua_State *L, tli_State *S, tli_Settings *of, int mode, int value) {
  tli_Change change = {(tli_Mode)mode, value};
  if (of->mode[mode] != value) tli_swap_modes(L, S, of, 1, &change);
}

/* _set_modes(modes) restores the modes of a snapshot. The scopes that were opened after the
** snapshot end now, and closing them later has no effect. */
static int torch_set_modes(lua_State *L) {
  tli_State *S = tli_state(L);
  const Modes *m = luaL_checkudata(L, 1, MODES);
  tli_Settings *of = tli_push_settings(L, S);
  while (of->newest && of->newest->number > m->newest) tli_modes_end(L, of->newest);
  for (int k = 0; k < TLI_NMODES; k++) set_mode(L, S, of, k, m->mode[k]);
  while (of->scopes > m->scopes && tli_scope_pop(L, S, of)) lua_pop(L, 1);
  if (S->default_dtype != m->dtype) tli_set_state_dtype(L, S, m->dtype);
  if (!tli_same_device(S->default_device, m->device)) tli_set_state_device(L, S, m->device);
  return 0;
}

/* ---- anomaly mode ---- */

static int autograd_detect_anomaly(lua_State *L) {
  return enter(L, "detect_anomaly", TLI_MODE_ANOMALY, true);
}

static int autograd_set_detect_anomaly(lua_State *L) {
  bool mode = take_mode(L, "set_detect_anomaly", true, true);
  return enter(L, "set_detect_anomaly", TLI_MODE_ANOMALY, mode);
}

static int autograd_is_anomaly_enabled(lua_State *L) {
  tli_only(L, 0, "autograd.is_anomaly_enabled");
  tli_enter(L, tli_state(L));
  lua_pushboolean(L, tli_anomaly());
  return 1;
}

/* ---- opening ---- */

static const luaL_Reg torch_functions[] = {
    {"no_grad", torch_no_grad},
    {"enable_grad", torch_enable_grad},
    {"set_grad_enabled", torch_set_grad_enabled},
    {"inference_mode", torch_inference_mode},
    {"default_device", tli_default_device_scope},
    {"is_grad_enabled", torch_is_grad_enabled},
    {"is_inference_mode_enabled", torch_is_inference_mode_enabled},
    {"_modes", torch_modes},
    {"_set_modes", torch_set_modes},
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
  tli_push_function(L, scope_close);
  lua_setfield(L, -2, "__close");
  tli_push_function(L, scope_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  tli_set_functions(L, torch_functions);
  tli_set_module(L, "autograd", autograd_functions);
}
