/*
** callback.c - implements callback.h. Invariant: the engine calls these functions only through
** tli_callback_call and tli_callback_call_in, which run in protected mode.
**
** The functions are in a table of the registry, because Lua does not know which graphs need them,
** nor when a graph is freed. A function that refers to the tensor to which it is attached would
** therefore never be collected. To prevent that, before each full collection the pacer "loosens"
** every callback whose tensor (or node) is held only by Lua values. This means that during the
** collection the registry does not refer to the function, and an ephemeron table lets these values
** keep it alive. The engine runs no code during the collection that could create another reference
** to the tensor.
*/
#include "core/observe/trace.h"
#include "lua/autograd/callback.h"

#include <stdatomic.h>
#include <string.h>

#include "autograd/graph.h"
#include "core/platform/platform.h"

#define MOST_VALUES 8
#define LEAST_LIMIT 1000

/* Protects the fields of every Home that are marked "guarded". One lock serves all Homes, so that
** it can be released after a fork: a lock that another thread holds during a fork stays locked in
** the child. */
static tli_Mutex guard = TLI_MUTEX_INIT;
TLI_FORK_SAFE(guard)

/* The callbacks of one Lua state; a Home lives as long as the state or one of its callbacks
** exists. */
typedef struct Home {
  atomic_int refs;
  bool open; /* whether the state is open (guarded) */
  /* list of callbacks that were dropped and are not yet freed (borrowed, guarded) */
  tli_Callback *dropped;
  atomic_bool dropping; /* whether the list `dropped` has entries; read without the lock */
  /* Only the state's own thread uses the fields below. */
  tli_Callback *all;   /* list of all callbacks (owned) */
  tli_Callback *spare; /* memory for the next callback (owned) */
  /* n is the number of callbacks; when it reaches `limit`, a full collection is requested, which
  ** finds cycles */
  int64_t n, limit;
  /* number of callbacks that were loosened in the last full collection, and so could have been
  ** freed, but were still in use */
  int64_t stayed;
  /* whether the watcher exists: an object whose finalizer runs in each cycle of the collector */
  bool watching;
} Home;

struct tli_Callback {
  Home *home; /* owned */
  /* whether tli_callback_drop was called, so that the engine no longer calls the function */
  atomic_bool dropped;
  bool loose;
  int nvalues;
  /* the node to which the callback is attached, borrowed until the callback is dropped; NULL for a
  ** leaf */
  const tli_Node *node;
  tli_Callback *next, **link;
  tli_Callback *next_dropped;
};

/* Keys of the registry, and their values. home_key: the Home. error_key: the last error.
** functions_key: a table from each callback to its function. values_key: a table with weak values,
** from callback + i to the value i that holds the callback's tensor or node. loose_key: a table
** with weak keys, from each such value to a table of callbacks and their functions, while callbacks
** are loosened. */
static const char home_key = 0, error_key = 0, functions_key = 0, values_key = 0, loose_key = 0;

_Static_assert(sizeof(tli_Callback) >= MOST_VALUES, "addresses inside of it are keys");

static _Thread_local lua_State *running;
/* number of the engine's failure that a Lua error caused; the registry has the error value */
static _Thread_local uint64_t caught;

/* ---- homes ---- */

static void home_release(Home *h) {
  if (!tli_last_reference(&h->refs)) return;
  tli_free(h, sizeof *h);
}

static void callback_free(tli_Callback *a) {
  home_release(a->home);
  tli_free(a, sizeof *a);
}

static void unlink_callback(tli_Callback *a) {
  *a->link = a->next;
  if (a->next) a->next->link = a->link;
  a->home->n--;
}

/* Empties the list `dropped` and returns the callbacks that were in it. If `open` is false, the Lua
** state is being closed. */
static tli_Callback *take_dropped(Home *h, bool open) {
  tli_mutex_lock(&guard);
  tli_Callback *list = h->dropped;
  h->dropped = NULL;
  h->open = open;
  atomic_store_explicit(&h->dropping, false, memory_order_relaxed);
  tli_mutex_unlock(&guard);
  return list;
}

/* Removes a callback's function from the registry, and also the values to which the callback is
** attached. */
static void forget_function(lua_State *L, tli_Callback *a) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
  lua_pushnil(L);
  lua_rawsetp(L, -2, a);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &values_key);
  for (int i = 0; i < a->nvalues; i++) {
    lua_pushnil(L);
    lua_rawsetp(L, -2, (char *)a + i);
  }
  lua_pop(L, 2);
}

static void forget(lua_State *L, tli_Callback *list) {
  while (list) {
    tli_Callback *a = list;
    list = a->next_dropped;
    forget_function(L, a);
    unlink_callback(a);
    callback_free(a);
  }
}

/* Runs when the state closes, and marks its Home as closed. Callbacks that still exist are freed
** when they are dropped. */
static int home_gc(lua_State *L) {
  Home **box = lua_touserdata(L, 1);
  Home *h = *box;
  *box = NULL;
  if (h == NULL) return 0;
  tli_state(L)->dropping = NULL;
  forget(L, take_dropped(h, false));
  if (h->spare) tli_free(h->spare, sizeof *h->spare);
  home_release(h);
  return 0;
}

static void weak_table(lua_State *L, const char *mode) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

void tli_open_callbacks(lua_State *L) {
  Home **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  lua_createtable(L, 0, 1);
  tli_push_function(L, home_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  Home *h = tli_alloc(sizeof *h);
  if (h == NULL) {
    tli_raise(L);
    return;
  }
  memset(h, 0, sizeof *h);
  atomic_init(&h->refs, 1);
  h->open = true;
  atomic_init(&h->dropping, false);
  h->limit = LEAST_LIMIT;
  *box = h;
  tli_state_find(L)->dropping = &h->dropping;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &home_key);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &functions_key);
  weak_table(L, "v");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &values_key);
  /* creates the entry now, so that a later assignment to it needs no memory */
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &loose_key);
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
}

/* Returns the state's Home, borrowed; NULL if there is none or the state is closing. Raises no
** error. */
static Home *home_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &home_key);
  Home **box = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return box ? *box : NULL;
}

void tli_callbacks_tidy(lua_State *L) {
  Home *h = lua_checkstack(L, 4) ? home_of(L) : NULL;
  if (h) forget(L, take_dropped(h, true));
}

/* ---- callbacks ---- */

static void watch(lua_State *L);

tli_Callback *tli_callback_new(lua_State *L) {
  luaL_checkstack(L, 8, "callback");
  Home *h = home_of(L);
  if (h == NULL) return tli_fail_null(TL_EARG, "the Lua state is closing");
  tli_callbacks_tidy(L);
  if (!h->watching) watch(L);
  h->watching = true;
  if (h->spare == NULL) h->spare = tli_alloc(sizeof *h->spare);
  TL_TRY_NULL(h->spare);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
  lua_insert(L, -2);
  lua_rawsetp(L, -2, h->spare);
  lua_pop(L, 1);
  tli_Callback *a = h->spare;
  h->spare = NULL;
  *a = (tli_Callback){.home = h, .next = h->all, .link = &h->all};
  atomic_init(&a->dropped, false);
  atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
  if (a->next) a->next->link = &a->next;
  h->all = a;
  if (++h->n >= h->limit) tli_pacer_want_full(tli_state(L));
  return a;
}

void tli_callback_hangs_on(lua_State *L, tli_Callback *a, const tli_Node *node, int value) {
  /* a callback that is attached to so many values is never loosened, and its values need not be
  ** known */
  if (a->nvalues == MOST_VALUES) return;
  lua_pushvalue(L, value);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &values_key);
  lua_insert(L, -2);
  lua_rawsetp(L, -2, (char *)a + a->nvalues);
  lua_pop(L, 1);
  a->node = node;
  a->nvalues++;
}

void tli_callback_drop(void *callback) {
  tli_Callback *a = callback;
  if (a == NULL) return;
  Home *h = a->home;
  tli_mutex_lock(&guard);
  bool open = h->open;
  if (open) {
    atomic_store_explicit(&a->dropped, true, memory_order_release);
    atomic_store_explicit(&h->dropping, true, memory_order_relaxed);
    a->next_dropped = h->dropped;
    h->dropped = a;
  }
  tli_mutex_unlock(&guard);
  if (!open) callback_free(a);
}

/* ---- loosening ---- */

/* Returns whether the value on top of the stack is the only owner of its tensor. If the callback is
** attached to a node, the tensor must also be a result of that node. */
static bool holds(lua_State *L, const tli_State *S, const tli_Callback *a) {
  const tl_Tensor *t = lua_type(L, -1) == LUA_TUSERDATA ? tli_to_tensor(L, S, lua_gettop(L)) : NULL;
  if (t == NULL || !tli_unique(t)) return false;
  return a->node == NULL || (t->autograd && t->autograd->node == a->node);
}

/* Returns whether the callback's tensor or node is held only by the callback's values. The table at
** values_key is on top of the stack. */
static bool held_by_values(lua_State *L, const tli_State *S, const tli_Callback *a) {
  int holders = 0;
  if (atomic_load_explicit(&a->dropped, memory_order_acquire)) return false;
  for (int i = 0; i < a->nvalues; i++) {
    lua_rawgetp(L, -1, (const char *)a + i);
    holders += holds(L, S, a);
    lua_pop(L, 1);
  }
  if (a->node == NULL) return holders > 0;
  return holders > 0 && atomic_load_explicit(&a->node->refs, memory_order_acquire) == holders;
}

/* Adds the callback's function to the table `loose`, in the entry of the value on top of the stack.
** That value then keeps the function alive. */
static void give(lua_State *L, const tli_Callback *a, int functions, int loose) {
  lua_pushvalue(L, -1);
  if (lua_rawget(L, loose) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, loose);
  }
  lua_rawgetp(L, functions, a);
  lua_rawsetp(L, -2, a);
  lua_pop(L, 1);
}

static int64_t count_loosenable(lua_State *L, const tli_State *S, const Home *h) {
  int64_t n = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &values_key);
  for (const tli_Callback *a = h->all; a; a = a->next) n += held_by_values(L, S, a);
  lua_pop(L, 1);
  return n;
}

/* Loosens the callbacks of the state: moves each function from the registry to the values that hold
** the callback's tensor, so that a collection can free function and tensor together. The argument
** is the state as a light userdata. */
static int loosen(lua_State *L) {
  const tli_State *S = lua_touserdata(L, 1);
  Home *h = home_of(L);
  luaL_checkstack(L, 12, "callbacks");
  int top = lua_gettop(L), functions = top + 1, loose = top + 2;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
  weak_table(L, "k");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &values_key);
  for (tli_Callback *a = h->all; a; a = a->next) {
    a->loose = false;
    if (!held_by_values(L, S, a)) continue;
    for (int i = 0; i < a->nvalues; i++) {
      lua_rawgetp(L, -1, (char *)a + i);
      if (holds(L, S, a)) give(L, a, functions, loose);
      lua_pop(L, 1);
    }
    a->loose = true;
  }
  /* from here on nothing raises an error, since the tables already have the keys */
  for (tli_Callback *a = h->all; a; a = a->next) {
    if (!a->loose) continue;
    lua_pushboolean(L, false);
    lua_rawsetp(L, functions, a);
  }
  lua_pushvalue(L, loose);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &loose_key);
  return 0;
}

void tli_callbacks_loosen(lua_State *L, tli_State *S) {
  const Home *h = lua_checkstack(L, LUA_MINSTACK) ? home_of(L) : NULL;
  if (h == NULL || h->n == 0) return;
  lua_pushcfunction(L, loosen);
  lua_pushlightuserdata(L, S);
  /* if memory is exhausted, the callbacks stay as they are */
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* Moves a callback's function from one of its values back to the registry. A callback that has no
** value any more was dropped, or will soon be dropped. */
static void fasten(lua_State *L, tli_Callback *a, int functions, int loose, int values) {
  a->loose = false;
  for (int i = 0; i < a->nvalues; i++) {
    lua_rawgetp(L, values, (char *)a + i);
    if (!lua_isnil(L, -1) && lua_rawget(L, loose) == LUA_TTABLE &&
        lua_rawgetp(L, -1, a) == LUA_TFUNCTION) {
      lua_rawsetp(L, functions, a);
      lua_settop(L, values);
      return;
    }
    lua_settop(L, values);
  }
}

void tli_callbacks_fasten(lua_State *L) {
  Home *h = home_of(L);
  if (h == NULL || h->n == 0) return;
  int top = lua_gettop(L), functions = top + 1, loose = top + 2, values = top + 3;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &loose_key) == LUA_TTABLE) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &values_key);
    h->stayed = 0;
    for (tli_Callback *a = h->all; a; a = a->next) {
      if (!a->loose || atomic_load_explicit(&a->dropped, memory_order_acquire)) continue;
      fasten(L, a, functions, loose, values);
      h->stayed++;
    }
    lua_pushboolean(L, false);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &loose_key);
  }
  lua_settop(L, top);
  h->limit = 2 * h->n > LEAST_LIMIT ? 2 * h->n : LEAST_LIMIT;
}

/* Runs when the watcher is collected, which happens in each cycle of the collector, and keeps it
** for the next cycle. This needs no memory, so the watcher outlives a shortage. Requests a full
** collection if the number of callbacks that a collection could free now is more than 1.5 times the
** number that survived the last full collection. */
static int watcher_gc(lua_State *L) {
  tli_State *S = tli_state(L);
  const Home *h = home_of(L);
  if (h == NULL) return 0;
  if (lua_getmetatable(L, 1)) lua_setmetatable(L, 1); /* marks the object for its finalizer again */
  tli_tidy(L, S);
  int64_t most = h->stayed + h->stayed / 2;
  if (!S->pacer.collecting && h->n > most && count_loosenable(L, S, h) > most)
    tli_pacer_want_full(S);
  return 0;
}

static void watch(lua_State *L) {
  lua_newuserdatauv(L, 0, 0);
  if (luaL_newmetatable(L, "torch.Watcher")) {
    tli_push_function(L, watcher_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

/* ---- calls ---- */

typedef struct Call {
  lua_CFunction run;
  void *argument;
} Call;

/* Calls the function `run` of a Call, and gives it the library's upvalues. The arguments are
** (value, call). */
static int enter(lua_State *L) {
  const Call *call = lua_touserdata(L, 2);
  lua_settop(L, 1);
  tli_push_function(L, call->run);
  lua_insert(L, 1);
  lua_pushlightuserdata(L, call->argument);
  lua_call(L, 2, 0);
  return 0;
}

void tli_callback_push(lua_State *L, const tli_Callback *a) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
  lua_rawgetp(L, -1, a);
  lua_remove(L, -2);
}

bool tli_callback_call(tli_Callback *a, lua_CFunction run, void *argument) {
  if (tli_tracing())
    return tli_fail(TL_EARG, "the backward pass calls a function in Lua, such as a hook, the "
                             "backward of a torch.autograd.Function or the function of "
                             "torch.utils.checkpoint, which a program cannot repeat");
  return tli_callback_call_in(running, a, run, argument);
}

bool tli_callback_call_in(lua_State *L, tli_Callback *a, lua_CFunction run, void *argument) {
  if (L == NULL || home_of(L) != a->home)
    return tli_fail(TL_EARG, "a function of another Lua state belongs to this graph; run the "
                             "backward pass in the state that made it");
  if (!lua_checkstack(L, LUA_MINSTACK)) return tli_fail(TL_EMEM, "the Lua stack is full");
  Call call = {run, argument};
  lua_State *calling = tli_calling;
  lua_pushcfunction(L, enter);
  tli_callback_push(L, a);
  lua_pushlightuserdata(L, &call);
  int status = lua_pcall(L, 2, 0, 0);
  /* restores tli_calling, which the callback may have left changed after it caught an error */
  tli_calling = calling;
  /* loads the modes again, because the callback may have run coroutines with other modes */
  tli_enter(L, tli_state_find(L));
  if (status == LUA_OK) return true;
  const char *message = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error object";
  tli_fail(TL_EARG, "%s", message);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
  caught = tli_error_number();
  return false;
}

lua_State *tli_running(void) { return running; }

lua_State *tli_set_running(lua_State *L) {
  lua_State *previous = running;
  running = L;
  return previous;
}

bool tli_caught(void) { return caught != 0 && caught == tli_error_number(); }

int tli_raise_caught(lua_State *L) {
  if (!tli_caught()) return tli_raise(L);
  caught = 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &error_key);
  lua_pushboolean(L, false);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
  return lua_error(L);
}
