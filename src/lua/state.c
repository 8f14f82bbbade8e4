/*
** state.c - the library's data in a Lua state, and boxes. Invariant: no C function owns anything
** while Lua may raise an error, since the error would skip the function's cleanup. In the meantime
** the state or a userdata owns each reference; references in the state are called "parked".
*/
#include "lua/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lua/list_length.h"
#include "lua/modes/thread_modes.h"

/* the address is a key of the registry, whose value is the tli_State */
static const char registry_key = 0;
/* the address is a key of the registry, whose value is a table with weak values: the userdata that
** finalizers have made */
static const char late_key = 0;

tli_State *tli_state_find(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key);
  tli_State *S = (tli_State *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return S;
}

static void drop_parked(tli_State *S) {
  while (S->nparked > 0) tli_release(S->parked[--S->nparked]);
}

void tli_keep_for_closing(lua_State *L) {
  luaL_checkstack(L, 3, "finalizer");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &late_key);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, lua_touserdata(L, -1));
  lua_pop(L, 1);
}

/* Calls the finalizers of objects that were made while the state closes, because Lua does not
** finalize such objects. */
static void finalize_late(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &late_key);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    luaL_callmeta(L, -1, "__gc");
    lua_settop(L, -3); /* leaves the key on the stack for lua_next */
  }
  lua_pop(L, 1);
}

/* Releases the library's data when the state closes. Finalizers of older objects may still call the
** library afterwards. The flag `due` makes such calls run tli_pacer_work, which refuses them. */
static int state_gc(lua_State *L) {
  tli_State *S = (tli_State *)lua_touserdata(L, 1);
  finalize_late(L);
  tli_crew_dismiss(S->crew);
  S->crew = NULL;
  drop_parked(S);
  tli_close_coroutines(S);
  S->pacer.due = true;
  tli_ledger_release(S->ledger);
  S->ledger = NULL;
  return 0;
}

void tli_refuse_closed(lua_State *L, tli_State *S) {
  if (S->ledger) return;
  drop_parked(S);
  tli_error(L, "the Lua state is closing: no tensors can be made any more");
}

/* Finalizes a box. While an operator runs Lua code, the operator may still be reading a tensor to
** which no Lua value refers. In that case the tensor is not released yet, and the box is marked to
** be finalized again later. */
static int box_gc(lua_State *L) {
  tli_Box *box = (tli_Box *)lua_touserdata(L, 1);
  /* a script has called the finalizer with another value, or uses the metatable for a table */
  if (box == NULL) return 0;
  tl_Tensor *tensor = box->tensor;
  if (tensor && box->state->packing > 0 && lua_getmetatable(L, 1)) {
    lua_setmetatable(L, 1);
    return 0;
  }
  box->tensor = NULL;
  tli_release(tensor);
  return 0;
}

void tli_release_box(lua_State *L, int index) {
  tli_State *S = tli_state(L);
  tli_Box *box = (tli_Box *)lua_touserdata(L, index);
  if (S->pacer.collecting) {
    tli_Box *heir = tli_push_box(L);
    heir->tensor = box->tensor;
    lua_pop(L, 1);
  } else {
    tli_release(box->tensor);
  }
  box->tensor = NULL;
  tli_tidy(L, S);
}

static int box_close(lua_State *L) {
  if (lua_isuserdata(L, 1)) tli_release_box(L, 1);
  return 0;
}

void tli_push_upvalues(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key);
  tli_State *S = (tli_State *)lua_touserdata(L, -1);
  lua_pushlightuserdata(L, S);
  lua_getiuservalue(L, -2, 1);
  lua_remove(L, -3);
}

void tli_push_function(lua_State *L, lua_CFunction fn) {
  tli_push_upvalues(L);
  lua_pushcclosure(L, fn, 2);
}

void tli_set_functions(lua_State *L, const luaL_Reg *list) {
  int table = lua_gettop(L);
  tli_push_upvalues(L);
  for (; list->name; list++) {
    lua_pushvalue(L, table + 1);
    lua_pushvalue(L, table + 2);
    lua_pushcclosure(L, list->func, 2);
    lua_setfield(L, table, list->name);
  }
  lua_settop(L, table);
}

/* Pushes a C function with the library's two upvalues. The second of them, the tensor metatable, is
** on top of the stack. */
static void push_method(lua_State *L, tli_State *S, lua_CFunction fn) {
  lua_pushlightuserdata(L, S);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, fn, 2);
}

static void make_late(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &late_key);
}

/* Creates the state on the first call, and again if an earlier call ended with an error. Pushes
** nothing. Each step may raise an error if memory is exhausted, so everything that the finalizer
** state_gc reads is initialized before the finalizer is set. */
tli_State *tli_state_open(lua_State *L) {
  tli_State *S = tli_state_find(L);
  if (S && S->ready) return S;
  make_late(L);
  S = (tli_State *)lua_newuserdatauv(L, sizeof *S, 1);
  memset(S, 0, sizeof *S);
  S->generator.family = S->generators;
  S->print = (tli_PrintOptions){4, 1000, 3, 80, -1};
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, state_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  S->ledger = tli_ledger_new();
  if (S->ledger == NULL) luaL_error(L, "tlua: not enough memory");
  lua_createtable(L, 0, 32); /* creates the table that becomes the tensor metatable */
  lua_pushcfunction(L, box_gc);
  lua_setfield(L, -2, "__gc");
  push_method(L, S, box_close);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "torch.Tensor");
  lua_setfield(L, -2, "__name");
  lua_setiuservalue(L, -2, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &registry_key);
  tli_open_coroutines(L, S);
  S->ready = true;
  return S;
}

/* ---- boxes ---- */

tli_Box *tli_new_box(lua_State *L, tli_State *S) {
  lua_State *calling = tli_calling;
  const char *op = tli_operator();
  if (S->pacer.due) tli_pacer_work(L, S);
  tli_Box *box = (tli_Box *)lua_newuserdatauv(L, sizeof *box, 0);
  *box = (tli_Box){S, NULL};
  lua_pushvalue(L, lua_upvalueindex(TLI_UP_META));
  lua_setmetatable(L, -2);
  tli_note_owner(L);
  if (S->scopes) tli_scope_note(L, S);
  /* loads the modes last, because finalizers may have run during the allocations above */
  tli_enter(L, S);
  tli_calling = calling;
  tli_set_operator(op);
  return box;
}

void tli_fill_box(tli_State *S, tli_Box *box, tl_Tensor *steals) {
  box->tensor = steals;
  tli_pacer_note(S, steals);
}

static void park(tli_State *S, tl_Tensor *steals) {
  if (S->nparked == TLI_MAX_PARKED) drop_parked(S);
  S->parked[S->nparked++] = steals;
}

void tli_push_tensor(lua_State *L, tl_Tensor *steals) {
  tli_State *S = tli_state(L);
  park(S, steals);
  tli_Box *box = tli_push_box(L);
  S->nparked--;
  tli_fill_box(S, box, steals);
}

/* Up to this value, Lua's own length of a table is used. A larger length may be wrong if the table
** has holes (list_length.h), so the elements are then counted. */
#define SURE_LENGTH ((lua_Unsigned)1 << 20)

int64_t tli_list_length(lua_State *L, int index) {
  lua_Unsigned n = lua_rawlen(L, index);
  if (n <= SURE_LENGTH || lua_type(L, index) != LUA_TTABLE || !lua_checkstack(L, 2))
    return (int64_t)n;
  index = lua_absindex(L, index);
  int64_t count = 0;
  for (bool more = true; more; lua_pop(L, 1)) {
    more = lua_rawgeti(L, index, count + 1) != LUA_TNIL;
    count += more;
  }
  return count;
}

static int list_gc(lua_State *L) {
  tli_tensors_free((tl_Tensors *)lua_touserdata(L, 1));
  return 0;
}

tl_Tensors *tli_push_list(lua_State *L) {
  tl_Tensors *list = (tl_Tensors *)lua_newuserdatauv(L, sizeof *list, 0);
  *list = (tl_Tensors){0, NULL};
  if (luaL_newmetatable(L, "torch.List")) {
    lua_pushcfunction(L, list_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  tli_note_owner(L);
  tli_enter(L, tli_state(L));
  return list;
}

int tli_finish_list(lua_State *L, tl_Tensors *list) {
  tli_State *S = tli_state(L);
  lua_createtable(L, (int)list->n, 0);
  for (int64_t i = 0; i < list->n; i++) {
    tli_Box *box = tli_push_box(L);
    tl_Tensor *t = list->v[i];
    list->v[i] = NULL;
    tli_fill_box(S, box, t);
    lua_rawseti(L, -2, i + 1);
  }
  tli_tensors_free(list);
  lua_remove(L, -2);
  return 1;
}

void tl_lua_push(lua_State *L, tl_Tensor *tensor) {
  tli_State *S = tli_state_find(L);
  if (S == NULL) luaL_error(L, "tlua is not open in this Lua state");
  if (tensor == NULL) luaL_error(L, "lua_push: expected a tensor, got NULL");
  park(S, tl_tensor_retain(tensor));
  if (S->pacer.due) tli_pacer_work(L, S);
  luaL_checkstack(L, 4, "tensor");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key);
  tli_Box *box = (tli_Box *)lua_newuserdatauv(L, sizeof *box, 0);
  *box = (tli_Box){S, NULL};
  lua_getiuservalue(L, -2, 1);
  lua_setmetatable(L, -2);
  lua_remove(L, -2);
  tli_note_owner(L);
  S->nparked--;
  tli_fill_box(S, box, tensor);
}

tl_Tensor *tl_lua_to(lua_State *L, int index) {
  tli_State *S = L ? tli_state_find(L) : NULL;
  /* rejects an index below the stack, which Lua would read without a check */
  if (index == 0 || (index > LUA_REGISTRYINDEX && S && index < -lua_gettop(L))) return NULL;
  return S && lua_type(L, index) == LUA_TUSERDATA ? tli_to_tensor(L, S, index) : NULL;
}
