/*
** callback.c - see callback.h. Invariant: the engine never calls Lua but from
** tli_callback_call, in which nothing can raise outside of protected mode.
*/
#include "lua/callback.h"

#include <stdatomic.h>

#include "core/platform.h"

/* Guards what every home says is guarded: no lock of a home's own, since one that
** another thread holds during a fork would stay locked in the child. */
static tli_Mutex guard = TLI_MUTEX_INIT;
TLI_FORK_SAFE(guard)

/* Of one Lua state; lives as long as the state or one of its anchors. */
typedef struct Home {
  atomic_int refs;
  bool open;             /* the state has not been closed; guarded */
  tli_Callback *dropped; /* owned list; guarded */
} Home;

struct tli_Callback {
  Home *home; /* owned */
  int ref;    /* in the registry */
  tli_Callback *next;
};

static const char home_key = 0, error_key = 0; /* their addresses */

static _Thread_local lua_State *running;
static _Thread_local bool caught; /* the value is in the registry */

/* ---- homes ---- */

static void home_release(Home *h) {
  if (!tli_last_reference(&h->refs)) return;
  tli_free(h, sizeof *h);
}

static void anchor_free(tli_Callback *a) {
  home_release(a->home);
  tli_free(a, sizeof *a);
}

/* Takes what was dropped; the state stays open or closes. */
static tli_Callback *take_dropped(Home *h, bool open) {
  tli_mutex_lock(&guard);
  tli_Callback *list = h->dropped;
  h->dropped = NULL;
  h->open = open;
  tli_mutex_unlock(&guard);
  return list;
}

static void forget(lua_State *L, tli_Callback *list) {
  while (list) {
    tli_Callback *a = list;
    list = a->next;
    luaL_unref(L, LUA_REGISTRYINDEX, a->ref);
    anchor_free(a);
  }
}

/* The state closes: anchors that are left know it from now on. */
static int home_gc(lua_State *L) {
  Home **box = lua_touserdata(L, 1);
  Home *h = *box;
  *box = NULL;
  if (h == NULL) return 0;
  forget(L, take_dropped(h, false));
  home_release(h);
  return 0;
}

void tli_open_callbacks(lua_State *L) {
  Home **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, home_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  Home *h = tli_alloc(sizeof *h);
  if (h == NULL) {
    tli_raise(L);
    return;
  }
  atomic_init(&h->refs, 1);
  h->open = true;
  h->dropped = NULL;
  *box = h;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &home_key);
  /* made now, so that storing an error later takes no memory */
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
}

/* Borrowed; NULL in a state that has none, or is closing. Raises nothing. */
static Home *home_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &home_key);
  Home **box = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return box ? *box : NULL;
}

/* ---- anchors ---- */

tli_Callback *tli_callback_new(lua_State *L) {
  Home *h = home_of(L);
  if (h == NULL) return tli_fail_null(TL_EARG, "the Lua state is closing");
  forget(L, take_dropped(h, true));
  int ref = luaL_ref(L, LUA_REGISTRYINDEX);
  tli_Callback *a = tli_alloc(sizeof *a);
  if (a == NULL) {
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    return NULL;
  }
  atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
  *a = (tli_Callback){h, ref, NULL};
  return a;
}

void tli_callback_drop(void *anchor) {
  tli_Callback *a = anchor;
  if (a == NULL) return;
  Home *h = a->home;
  tli_mutex_lock(&guard);
  bool open = h->open;
  if (open) {
    a->next = h->dropped;
    h->dropped = a;
  }
  tli_mutex_unlock(&guard);
  if (!open) anchor_free(a);
}

/* ---- calls ---- */

typedef struct Call {
  lua_CFunction run;
  void *argument;
} Call;

/* (value, call): gives `run` its upvalues. */
static int enter(lua_State *L) {
  const Call *call = lua_touserdata(L, 2);
  lua_settop(L, 1);
  tli_push_function(L, call->run);
  lua_insert(L, 1);
  lua_pushlightuserdata(L, call->argument);
  lua_call(L, 2, 0);
  return 0;
}

bool tli_callback_call(tli_Callback *a, lua_CFunction run, void *argument) {
  lua_State *L = running;
  if (L == NULL || home_of(L) != a->home)
    return tli_fail(TL_EARG, "a function of another Lua state belongs to this graph; run the "
                             "backward pass in the state that made it");
  if (!lua_checkstack(L, LUA_MINSTACK)) return tli_fail(TL_EMEM, "the Lua stack is full");
  Call call = {run, argument};
  lua_pushcfunction(L, enter);
  lua_rawgeti(L, LUA_REGISTRYINDEX, a->ref);
  lua_pushlightuserdata(L, &call);
  if (lua_pcall(L, 2, 0, 0) == LUA_OK) return true;
  const char *message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error object";
  tli_fail(TL_EARG, "%s", message);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
  caught = true;
  return false;
}

lua_State *tli_set_running(lua_State *L) {
  lua_State *previous = running;
  running = L;
  return previous;
}

int tli_raise_caught(lua_State *L) {
  if (!caught) return tli_raise(L);
  caught = false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &error_key);
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
  return lua_error(L);
}
