/*
** state.h - what the binding keeps for one Lua state: the tensor metatable,
** the default generator, the memory account and what is to be released when
** an error jumped over it. It lives in a userdata in the registry; C functions
** of the library reach it through their first upvalue.
*/
#ifndef TLI_STATE_H
#define TLI_STATE_H

#include <lauxlib.h>
#include <lua.h>

#if LUA_VERSION_NUM < 504
#error "tlua needs Lua 5.4 or 5.5: give its headers by LUA_INCDIR=folder"
#endif

#include "autograd/graph.h"
#include "core/random.h"
#include "ops/common.h"

#define TLI_MAX_PARKED 16

typedef struct tli_Pacer {
  int64_t young_bytes; /* new tensor bytes since the last young step */
  int young_count;     /* new tensors since then */
  int64_t young_at;    /* young bytes at which one is due */
  int64_t full_at;     /* live bytes at which a full collection is due */
  bool due;            /* a young step is */
  bool collecting;
} tli_Pacer;

typedef struct tli_PrintOptions {
  int precision;  /* digits after the point */
  int threshold;  /* more elements than this are summarised */
  int edgeitems;  /* at each end of a dimension then */
  int linewidth;  /* characters */
  int scientific; /* -1: as the numbers ask for it */
} tli_PrintOptions;

typedef struct tli_State {
  const void *metatable; /* of tensors, for comparison only */
  lua_State *L;          /* borrowed; which coroutine called the library last */
  tli_Ledger *ledger;    /* owned */
  tli_Pacer pacer;
  tli_Generator generator; /* the default one */
  tli_PrintOptions print;
  int scopes; /* open torch.scope calls */
  /* Owned while Lua allocates for them; what an out-of-memory error leaves
  ** here goes when the place is needed or the state closes. */
  int nparked;
  tl_Tensor *parked[TLI_MAX_PARKED];
} tli_State;

/* The userdata behind a tensor value. NULL once released. */
typedef struct tli_Box {
  tl_Tensor *tensor; /* owned */
} tli_Box;

/* Upvalues of every C function of the library. */
#define TLI_UP_STATE 1 /* light userdata: tli_State */
#define TLI_UP_META 2  /* the tensor metatable */

static inline tli_State *tli_state(lua_State *L) {
  return (tli_State *)lua_touserdata(L, lua_upvalueindex(TLI_UP_STATE));
}

/* The state's part of opening the library; pushes nothing. */
tli_State *tli_state_open(lua_State *L);
/* The same without upvalues: NULL if the library is not open in this state. */
tli_State *tli_state_find(lua_State *L);

/* Pushes a C function with the library's upvalues. */
void tli_push_function(lua_State *L, lua_CFunction fn);

/* A list {name, function} ended by NULLs into the table at the top. */
void tli_set_functions(lua_State *L, const luaL_Reg *list);

/* ---- tensors as values ---- */

/* Pushes an empty box and lets the collector work: may raise on lack of memory,
** so it comes before anything is owned. */
tli_Box *tli_new_box(lua_State *L, tli_State *S);
static inline tli_Box *tli_push_box(lua_State *L) { return tli_new_box(L, tli_state(L)); }
/* Fills it; the box takes the reference over (steals) and the bytes are
** accounted for. Never raises. */
void tli_fill_box(tli_State *S, tli_Box *box, tl_Tensor *steals);
/* Both: steals `tensor`, which the state keeps safe from a Lua error. */
void tli_push_tensor(lua_State *L, tl_Tensor *steals);

/* The tensor at an index, or NULL if there is none (or a released one);
** borrowed. */
static inline tl_Tensor *tli_to_tensor(lua_State *L, const tli_State *S, int index) {
  tli_Box *box = (tli_Box *)lua_touserdata(L, index);
  if (box == NULL || !lua_getmetatable(L, index)) return NULL;
  const void *metatable = lua_topointer(L, -1);
  lua_pop(L, 1);
  return metatable == S->metatable ? box->tensor : NULL;
}
/* Whether it is a tensor value at all, released or not. */
bool tli_is_box(lua_State *L, const tli_State *S, int index);

/* The box on top of the stack belongs to the open torch.scope (scope.c). */
void tli_scope_note(lua_State *L);

/* A userdata on the stack that owns a list, first an empty one. */
tl_Tensors *tli_push_list(lua_State *L);
/* Replaces it by a Lua table of its tensors. */
int tli_finish_list(lua_State *L, tl_Tensors *list);

/* ---- errors ---- */

/* Raises the engine's last failure at the user's line: the innermost Lua
** function that is not part of the library. Positions are counted from 1; the
** path of the active modules is added. Does not return. */
int tli_raise(lua_State *L);
/* The same, with the name in front unless the message begins with it. */
int tli_raise_as(lua_State *L, const char *name);
/* The same for a message of the binding itself. */
int tli_error(lua_State *L, const char *format, ...);
/* That line: short_src and currentline; false when no Lua code is on the
** stack. Never raises. */
bool tli_user_line(lua_State *L, lua_Debug *line);

/* ---- memory (pacer.c) ---- */

/* Accounts for a tensor that a Lua value has begun to keep alive. */
void tli_pacer_note(tli_State *S, const tl_Tensor *tensor);
/* Lets the collector do its share, which is `due` from time to time; before a
** box is made. Called with nothing owned outside of Lua. */
void tli_pacer_work(lua_State *L, tli_State *S);
/* A full collection and a trim, before an allocation is tried again. */
void tli_pacer_collect(lua_State *L, tli_State *S);

#endif
