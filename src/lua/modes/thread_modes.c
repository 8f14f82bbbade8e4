/*
** thread_modes.c - implements thread_modes.h.
**
** The settings of a coroutine are a userdata, which an ephemeron table keeps alive as long as the
** coroutine. In turn, the settings keep the coroutine alive until they are finalized. So the
** coroutine of any settings in the list can be inspected.
**
** Lua does not say which thread resumed a coroutine. But a thread that has resumed a coroutine is
** inside a C function that refers to the coroutine: coroutine.resume has the coroutine as an
** argument, a function of coroutine.wrap has it as an upvalue. So the chain from the main thread to
** the running thread can be followed. If a program resumes coroutines by other functions, the chain
** may end early. Then the nearest thread is taken to be the one that called the library last, among
** the threads that are running or waiting.
*/
#include "lua/modes/thread_modes.h"

#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "core/platform/parallel.h"
#include "lua/modes/autocast.h"
#include "lua/autograd/autograd.h"
#include "lua/tensor/value.h"

#define SETTINGS "torch.Settings"
#define USER_THREAD 1
#define USER_SCOPE 2
/* the largest number of threads in a chain; it exceeds Lua's own limit of nested coroutines */
#define MOST_NESTED 256

/* The addresses of the following variables are keys of the registry. */
static const char by_thread_key = 0; /* a table from threads to settings, with weak keys */
/* a table from addresses of settings to their userdata, with weak values */
static const char by_address_key = 0;
static const char scope_key = 0; /* the table of the main thread's innermost scope */
/* the thread S->L, which this entry keeps alive; false if that is the main thread */
static const char caller_key = 0;

/* a stamp that matches no thread, so that every call loads the modes again */
#define NEVER UINT64_MAX

_Thread_local uint64_t tli_loaded;
_Thread_local lua_State *tli_calling;
/* the state whose modes are loaded in this C thread; only compared, never dereferenced */
static _Thread_local const tli_State *loaded_from;
/* whether the loaded modes included current devices or streams */
static _Thread_local bool placed;

/* ---- settings of threads ---- */

static bool empty(const tli_Settings *s) {
  for (int k = 0; k < TLI_NMODES; k++)
    if (s->mode[k] >= 0) return false;
  return s->scopes == 0;
}

/* Returns whether any thread has turned autocast on or has an open autocast scope. */
static bool casting(const tli_State *S) {
  for (int k = TLI_MODE_AUTOCAST; k < (int)TLI_MODE_AUTOCAST + (int)TL_NDEVICETYPES; k++)
    if ((S->main.mode[k] >= 0 && S->main.mode[k] < TLI_CAST_IDLE) || S->nset[k] > 0) return true;
  return false;
}

/* Called after a change of any mode: makes each C thread load the modes again in its next call of
** the library. In anomaly mode, or if a coroutine has settings, every call loads the modes. */
static void restamp(tli_State *S) {
  static _Atomic uint64_t last;
  bool each_call = S->others != NULL || S->main.mode[TLI_MODE_ANOMALY] == 1;
  S->stamp = each_call ? NEVER : atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void tli_modes_outdated(tli_State *S) { restamp(S); }

static void unlink_settings(tli_State *S, tli_Settings *s) {
  for (tli_Settings **at = &S->others; *at; at = &(*at)->next) {
    if (*at != s) continue;
    *at = s->next;
    s->linked = false;
    return;
  }
}

/* Moves the settings to the front of the list, because the thread to which they belong is the
** latest caller of the library. */
static void link_settings(tli_State *S, tli_Settings *s) {
  if (S->others == s) return;
  if (s->linked) unlink_settings(S, s);
  s->next = S->others;
  s->linked = true;
  S->others = s;
}

/* Called after a change of the settings of a thread. A coroutine's settings are in the list as long
** as they set any mode or have an open scope. */
static void changed(tli_State *S, tli_Settings *s) {
  if (s != &S->main && empty(s) == s->linked) {
    if (s->linked)
      unlink_settings(S, s);
    else
      link_settings(S, s);
  }
  if (S->cast_kept && !casting(S)) tli_autocast_forget(S);
  restamp(S);
}

/* Runs when the coroutine of the settings is collected. */
static int settings_gc(lua_State *L) {
  tli_Settings *s = luaL_checkudata(L, 1, SETTINGS);
  tli_State *S = tli_state(L);
  for (int k = 0; k < TLI_NMODES; k++) {
    S->nset[k] -= s->mode[k] >= 0;
    s->mode[k] = -1;
  }
  S->scopes -= s->scopes;
  s->scopes = 0;
  s->thread = NULL;
  changed(S, s);
  return 0;
}

static void init(tli_Settings *s, lua_State *thread) {
  *s = (tli_Settings){.thread = thread};
  memset(s->mode, -1, sizeof s->mode);
}

static void make_settings(lua_State *L) {
  tli_Settings *s = lua_newuserdatauv(L, sizeof *s, 2);
  init(s, L);
  lua_pushthread(L);
  lua_setiuservalue(L, -2, USER_THREAD);
  luaL_setmetatable(L, SETTINGS);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &by_address_key);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, s);
  lua_pop(L, 1);
}

tli_Settings *tli_push_settings(lua_State *L, tli_State *S) {
  luaL_checkstack(L, 6, "modes");
  if (L == S->main.thread) {
    lua_pushnil(L);
    return &S->main;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &by_thread_key);
  lua_pushthread(L);
  lua_rawget(L, -2);
  const tli_Settings *s = lua_touserdata(L, -1);
  /* the settings were finalized, but another finalizer has made their thread reachable again */
  if (s == NULL || s->thread == NULL) {
    lua_pop(L, 1);
    make_settings(L);
    lua_pushthread(L);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_remove(L, -2);
  return lua_touserdata(L, -1);
}

/* Returns the settings of the thread L; NULL if it has set no mode and has no open scope. */
static tli_Settings *find(const lua_State *L, tli_State *S) {
  if (L == S->main.thread) return &S->main;
  for (tli_Settings *s = S->others; s; s = s->next)
    if (s->thread == L) return s;
  return NULL;
}

/* Returns whether a thread is running, or is waiting for a thread that it has resumed. */
static bool active(lua_State *thread) {
  lua_Debug frame;
  return lua_status(thread) == LUA_OK && lua_getstack(thread, 0, &frame);
}

/* Pops the value on top of the thread's stack. If that value is another thread, and active, returns
** it; otherwise returns NULL. */
static lua_State *pop_active(lua_State *thread) {
  lua_State *other = lua_tothread(thread, -1);
  lua_pop(thread, 1);
  return other && other != thread && active(other) ? other : NULL;
}

/* Returns the thread that `thread` has resumed and is waiting for; NULL if it cannot be found. */
static lua_State *resumed_by(lua_State *thread) {
  lua_Debug frame;
  lua_State *other = NULL;
  if (!lua_checkstack(thread, 2) || !lua_getstack(thread, 0, &frame)) return NULL;
  lua_getinfo(thread, "f", &frame);
  if (lua_getupvalue(thread, -1, 1)) other = pop_active(thread);
  lua_pop(thread, 1);
  for (int i = 1; other == NULL && lua_getlocal(thread, &frame, i); i++) other = pop_active(thread);
  return other;
}

/* Orders the list of settings by how near their threads are to L. The threads that wait for L move
** to the front, and the thread that has resumed L comes first. */
static void order_by_nearness(const lua_State *L, tli_State *S) {
  lua_State *thread = S->main.thread;
  for (int depth = 0; thread && thread != L && depth < MOST_NESTED; depth++) {
    tli_Settings *s = find(thread, S);
    if (s && s != &S->main) link_settings(S, s);
    thread = resumed_by(thread);
  }
}

/* ---- modes ---- */

static int mode_of(const lua_State *L, const tli_State *S, const tli_Settings *own, int k) {
  if (own && own->mode[k] >= 0) return own->mode[k];
  if (L != S->main.thread && S->nset[k] > 0)
    for (const tli_Settings *s = S->others; s; s = s->next)
      if (s->mode[k] >= 0 && active(s->thread)) return s->mode[k];
  return S->main.mode[k];
}

/* Returns the line of the user's code that has called the operator, such as "script.lua:12 (in
** module Sequential.1)". */
static char *where(void *context) {
  lua_State *L = ((tli_State *)context)->L;
  lua_Debug line;
  if (!tli_user_line(L, &line)) return NULL;
  char text[LUA_IDSIZE + 256], path[200];
  tli_module_path(L, path, sizeof path);
  int length = snprintf(text, sizeof text, *path ? "%s:%d (in module %s)" : "%s:%d%s",
                        line.short_src, line.currentline, path);
  char *copy = tli_alloc((size_t)length + 1);
  if (copy) memcpy(copy, text, (size_t)length + 1);
  return copy;
}

/* Stores the calling thread in S->L and keeps that thread alive. If `matters` is false, so that no
** code needs the thread, stores the main thread instead. */
static void set_caller(lua_State *L, tli_State *S, bool matters) {
  lua_State *caller = matters ? L : S->main.thread;
  if (S->L == caller || !lua_checkstack(L, 1)) return;
  if (matters)
    lua_pushthread(L);
  else
    lua_pushboolean(L, false);
  /* this assignment needs no memory, since the key exists */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &caller_key);
  S->L = caller;
}

/* Sets this C thread's current devices and streams to those that the Lua thread L has. */
static void load_places(const lua_State *L, const tli_State *S, const tli_Settings *own) {
  for (int type = TL_CPU + 1; type < TL_NDEVICETYPES; type++) {
    int count = tli_backend((tl_Device){(int8_t)type, 0}) ? tli_device_count(type) : 0;
    int current = mode_of(L, S, own, TLI_MODE_DEVICE + type);
    tli_set_current_device(type, current > 0 ? current : 0);
    for (int i = 0; i < count && i < TL_MAX_DEVICES; i++) {
      tl_Device device = {(int8_t)type, (int8_t)i};
      int number = mode_of(L, S, own, TLI_MODE_STREAM + type * TL_MAX_DEVICES + i);
      tli_set_stream(device, tli_stream_of(device, number));
    }
  }
  placed = S->placed;
}

/* Loads the autocast settings of the Lua thread L into the state. */
static void load_casts(const lua_State *L, tli_State *S, const tli_Settings *own) {
  S->autocast = false;
  for (int type = 0; type < TL_NDEVICETYPES; type++) {
    int to = mode_of(L, S, own, TLI_MODE_AUTOCAST + type);
    bool on = to > 0 && to < TLI_CAST_OFF;
    S->cast_named[type] = (int8_t)(to > 0 ? to % TLI_CAST_OFF - 1 : TL_NODTYPE);
    S->cast_to[type] = on ? S->cast_named[type] : TL_NODTYPE;
    if (on) S->autocast = true;
  }
  S->cast_cache = mode_of(L, S, own, TLI_MODE_CAST_CACHE) != 0;
}

/* Returns the device on which the Lua thread L creates tensors if a call names no device. */
static tl_Device place_of(const lua_State *L, const tli_State *S, const tli_Settings *own) {
  int place = mode_of(L, S, own, TLI_MODE_PLACE);
  if (place < 0) return S->default_device;
  return (tl_Device){(int8_t)(place / TL_MAX_DEVICES), (int8_t)(place % TL_MAX_DEVICES)};
}

void tli_modes_load(lua_State *L, tli_State *S) {
  tli_Settings *own = find(L, S);
  if (S->others) order_by_nearness(L, S);
  if (own && own != &S->main) link_settings(S, own);
  bool anomaly = mode_of(L, S, own, TLI_MODE_ANOMALY) == 1;
  set_caller(L, S, anomaly);
  tli_set_anomaly(anomaly ? where : NULL, S);
  tli_saved_hooks_load(S, mode_of(L, S, own, TLI_MODE_SAVED));
  tli_set_grad_mode(mode_of(L, S, own, TLI_MODE_GRAD) != 0);
  tli_set_inference_mode(mode_of(L, S, own, TLI_MODE_INFERENCE) == 1);
  tli_set_default_dtype(S->default_dtype);
  tli_set_default_device(place_of(L, S, own));
  tli_set_ledger(S->ledger);
  tli_set_deadline(S->deadline);
  if (S->casts) load_casts(L, S, own);
  if (S->placed || placed) load_places(L, S, own);
  tli_loaded = S->stamp == NEVER ? 0 : S->stamp;
  loaded_from = S;
}

static int swap_mode(tli_State *S, tli_Settings *of, tli_Mode mode, int value) {
  int previous = of->mode[mode];
  if (of != &S->main) S->nset[mode] += (value >= 0) - (previous >= 0);
  of->mode[mode] = (int8_t)value;
  if (mode >= TLI_MODE_DEVICE)
    S->placed = true;
  else if (mode >= TLI_MODE_CAST_CACHE)
    S->casts = true;
  return previous;
}

void tli_swap_modes(lua_State *L, tli_State *S, tli_Settings *of, int n, tli_Change *changes) {
  if (of->thread == NULL) return; /* does nothing if the coroutine was collected */
  for (int i = 0; i < n; i++)
    changes[i].value = swap_mode(S, of, changes[i].mode, changes[i].value);
  changed(S, of);
  tli_modes_load(L, S);
}

void tli_set_state_dtype(lua_State *L, tli_State *S, tl_DType dtype) {
  S->default_dtype = dtype;
  restamp(S);
  tli_modes_load(L, S);
}

void tli_set_state_device(lua_State *L, tli_State *S, tl_Device device) {
  S->default_device = device;
  restamp(S);
  tli_modes_load(L, S);
}

/* ---- scopes ---- */

/* Pushes the userdata that holds a coroutine's settings, or nil if that userdata is being
** collected. */
static int push_userdata(lua_State *L, tli_Settings *s) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &by_address_key);
  int type = lua_rawgetp(L, -1, s);
  lua_remove(L, -2);
  return type;
}

/* Pushes the table of the innermost scope, or nil. */
static void get_scope(lua_State *L, tli_State *S, tli_Settings *s) {
  if (s == &S->main) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &scope_key);
  } else if (push_userdata(L, s) == LUA_TUSERDATA) {
    lua_getiuservalue(L, -1, USER_SCOPE);
    lua_remove(L, -2);
  }
}

/* Pops a table or nil, and makes it the table of the innermost scope. */
static void set_scope(lua_State *L, tli_State *S, tli_Settings *s) {
  if (s == &S->main) {
    lua_rawsetp(L, LUA_REGISTRYINDEX, &scope_key);
    return;
  }
  if (push_userdata(L, s) == LUA_TUSERDATA) {
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, USER_SCOPE);
  } else {
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void count_scope(tli_State *S, tli_Settings *s, int n) {
  s->scopes += n;
  S->scopes += n;
  changed(S, s);
}

void tli_scope_push(lua_State *L, tli_State *S) {
  tli_Settings *s = tli_push_settings(L, S);
  lua_insert(L, -2); /* the reference on the stack keeps the settings alive in the meantime */
  get_scope(L, S, s);
  lua_rawseti(L, -2, 0);
  set_scope(L, S, s);
  lua_pop(L, 1);
  count_scope(S, s, 1);
}

bool tli_scope_pop(lua_State *L, tli_State *S, tli_Settings *of) {
  if (of->scopes == 0) return false;
  get_scope(L, S, of);
  if (!lua_istable(L, -1)) {
    lua_pop(L, 1);
    return false;
  }
  lua_rawgeti(L, -1, 0);
  set_scope(L, S, of);
  count_scope(S, of, -1);
  return true;
}

bool tli_scope_find(lua_State *L, tli_State *S) {
  tli_Settings *s = find(L, S);
  if (s == NULL || s->scopes == 0) {
    order_by_nearness(L, S);
    s = L == S->main.thread ? NULL : S->others;
    while (s && !(s->scopes > 0 && active(s->thread))) s = s->next;
    if (s == NULL) s = &S->main;
  }
  if (s->scopes == 0) return false;
  get_scope(L, S, s);
  if (lua_istable(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

/* ---- opening and closing ---- */

static void weak_table(lua_State *L, const char *mode, const void *key) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void tli_open_coroutines(lua_State *L, tli_State *S) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  S->L = lua_tothread(L, -1);
  lua_pop(L, 1);
  init(&S->main, S->L);
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &caller_key);
  weak_table(L, "k", &by_thread_key);
  weak_table(L, "v", &by_address_key);
  luaL_newmetatable(L, SETTINGS);
  tli_push_function(L, settings_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  S->default_dtype = TL_F32;
  S->default_device = TLI_CPU;
  restamp(S);
}

void tli_close_coroutines(tli_State *S) {
  init(&S->main, S->main.thread);
  S->others = NULL;
  memset(S->nset, 0, sizeof S->nset);
  S->scopes = 0;
  S->placed = false;
  S->casts = S->autocast = false;
  tli_autocast_forget(S);
  tli_saved_hooks_close(S);
  S->default_dtype = TL_F32;
  S->default_device = TLI_CPU;
  restamp(S);
  if (loaded_from != S) return;
  if (placed) load_places(S->main.thread, S, &S->main);
  loaded_from = NULL;
  tli_loaded = 0;
  tli_set_anomaly(NULL, NULL);
  tli_saved_hooks_load(S, 0);
  tli_set_grad_mode(true);
  tli_set_inference_mode(false);
  tli_set_default_dtype(TL_F32);
  tli_set_default_device(TLI_CPU);
  tli_set_ledger(NULL);
  tli_set_deadline(0);
}
