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
#include "core/device/backend.h"
#include "core/device/generator.h"
#include "ops/common.h"

#define TLI_MAX_PARKED 16

typedef struct tli_Pacer {
  int young_count;  /* new tensors since then */
  int64_t young_at; /* young bytes at which one is due */
  int64_t full_at;  /* live bytes at which a full collection is due */
  bool due;         /* a young step is, or a full collection is wanted */
  bool wants_full;
  bool collecting;
} tli_Pacer;

typedef struct tli_PrintOptions {
  int precision;  /* digits after the point */
  int threshold;  /* more elements than this are summarised */
  int edgeitems;  /* at each end of a dimension then */
  int linewidth;  /* characters */
  int scientific; /* -1: as the numbers ask for it */
} tli_PrintOptions;

typedef enum tli_Mode {
  TLI_MODE_GRAD,
  TLI_MODE_INFERENCE,
  TLI_MODE_ANOMALY,
  TLI_MODE_SAVED,      /* hooks that pack saved tensors: their slot, see saved_hooks.c; 0: none */
  TLI_MODE_PLACE,      /* the device of new tensors, type * TL_MAX_DEVICES + index */
  TLI_MODE_CAST_CACHE, /* of autocast: 0: off */
  /* Of each kind of device: what autocast casts to, its dtype + 1; 0: off. */
  TLI_MODE_AUTOCAST,
  /* Of each kind: the number of the current device. */
  TLI_MODE_DEVICE = TLI_MODE_AUTOCAST + TL_NDEVICETYPES,
  /* Of each device: the current stream's number (devices/device_module.c), 0 the default one. */
  TLI_MODE_STREAM = TLI_MODE_DEVICE + TL_NDEVICETYPES,
  TLI_NMODES = TLI_MODE_STREAM + TL_NDEVICETYPES * TL_MAX_DEVICES
} tli_Mode;

_Static_assert(TL_NDEVICETYPES *TL_MAX_DEVICES <= INT8_MAX + 1, "modes are of type int8_t");

/* What a Lua thread has set for itself, see modes/thread_modes.h. */
typedef struct tli_Settings {
  lua_State *thread;       /* borrowed; NULL once the coroutine is gone */
  int8_t mode[TLI_NMODES]; /* from 0; -1: as in the thread that has resumed this one */
  bool linked;
  int scopes;                   /* open torch.scope calls */
  struct tli_ModeScope *newest; /* borrowed; open scopes of modes, see modes/grad_modes.c */
  struct tli_Settings *next;    /* borrowed */
} tli_Settings;

typedef struct tli_State {
  lua_State *L;         /* borrowed; in anomaly mode who called last, else the main thread */
  tli_Ledger *ledger;   /* owned; NULL once the state closes */
  bool ready;           /* tli_state_open has come to its end */
  uint64_t stamp;       /* of the modes that a call must find in this C thread */
  tli_Settings main;    /* of the main thread */
  tli_Settings *others; /* borrowed; of coroutines that have set something, the nearest first */
  int nset[TLI_NMODES]; /* of those, how many have set the mode */
  bool placed;          /* a current device or stream was ever set */
  bool autocast;        /* in the running thread autocast is on, for a kind of device at least */
  bool cast_cache;      /* ... and casts of parameters are kept */
  int8_t cast_to[TL_NDEVICETYPES];    /* what it casts to, tl_DType; TL_NODTYPE: off */
  bool casts;                         /* autocast was ever set */
  struct tli_CastCache *cast_kept;    /* owned; NULL: nothing is kept (autocast.c) */
  struct tli_SavedHooks *saved_hooks; /* owned; NULL: there never were any (saved_hooks.c) */
  tl_DType default_dtype;
  tl_Device default_device;    /* where no thread has set TLI_MODE_PLACE */
  const atomic_bool *dropping; /* borrowed; whether callbacks wait to be forgotten; NULL: none */
  tli_Pacer pacer;
  tli_Generator generator;              /* the default one */
  tli_Generator generators[TLI_FAMILY]; /* the devices' */
  tli_PrintOptions print;
  struct tli_Crew *crew; /* owned reference; the threads that work for the state; NULL: none yet */
  int scopes;            /* open torch.scope calls, of all threads */
  int batching;          /* vmap's functions that run, one inside the other (batched.c) */
  int rules;             /* calls of its handler, one inside the other */
  int packing;           /* functions that run in the midst of an operator (saved_hooks.c) */
  /* Owned while Lua allocates for them; what an out-of-memory error leaves
  ** here goes when the place is needed or the state closes. */
  int nparked;
  tl_Tensor *parked[TLI_MAX_PARKED];
} tli_State;

/* The userdata behind a tensor value. Its size and its first word tell it from
** others, which takes half of the time of a look at the metatable. */
typedef struct tli_Box {
  const tli_State *state; /* borrowed; whose it is */
  tl_Tensor *tensor;      /* owned; NULL once released */
} tli_Box;

/* Upvalues of every C function of the library. */
#define TLI_UP_STATE 1 /* light userdata: tli_State */
#define TLI_UP_META 2  /* the tensor metatable */

static inline tli_State *tli_state(lua_State *L) {
  return (tli_State *)lua_touserdata(L, lua_upvalueindex(TLI_UP_STATE));
}

/* To be called before an operator runs, or a mode is read: the modes of the
** calling Lua thread are then those of this C thread. */
extern _Thread_local uint64_t tli_loaded; /* the stamp of what this C thread has */
void tli_modes_load(lua_State *L, tli_State *S);
/* The Lua thread whose operator runs in this C thread; NULL: none's. */
extern _Thread_local lua_State *tli_calling;
static inline void tli_enter(lua_State *L, tli_State *S) {
  if (tli_loaded != S->stamp) tli_modes_load(L, S);
}

/* The state's part of opening the library; pushes nothing. */
tli_State *tli_state_open(lua_State *L);
/* The same without upvalues: NULL if the library is not open in this state. */
tli_State *tli_state_find(lua_State *L);

/* Pushes a C function with the library's upvalues. */
void tli_push_function(lua_State *L, lua_CFunction fn);

/* A list {name, function} ended by NULLs into the table at the top. */
void tli_set_functions(lua_State *L, const luaL_Reg *list);

/* After a userdata with a finalizer of ours was made, which is on top of the
** stack: Lua never finalizes what another finalizer makes while the state
** closes, so this library will. */
void tli_keep_for_closing(lua_State *L);
static inline void tli_note_owner(lua_State *L) {
  if (lua_gc(L, LUA_GCISRUNNING) < 0) tli_keep_for_closing(L); /* in a finalizer */
}

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

/* The box at an index, or NULL if no tensor value is there. */
static inline tli_Box *tli_to_box(lua_State *L, const tli_State *S, int index) {
  tli_Box *box = (tli_Box *)lua_touserdata(L, index);
  bool ours = box && lua_rawlen(L, index) == sizeof *box && box->state == S;
  return ours ? box : NULL;
}
/* The tensor at an index, or NULL if there is none (or a released one);
** borrowed. */
static inline tl_Tensor *tli_to_tensor(lua_State *L, const tli_State *S, int index) {
  const tli_Box *box = tli_to_box(L, S, index);
  return box ? box->tensor : NULL;
}

/* The box on top of the stack belongs to the torch.scope that is open in the
** running thread, if there is one (scope.c). */
void tli_scope_note(lua_State *L, tli_State *S);

/* Releases what the box at an index holds: while a collection runs in the midst
** of an operator, by the collector, since the operator may be reading it. */
void tli_release_box(lua_State *L, int index);

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
/* The same for a text of any length, which the caller keeps. */
int tli_error_text(lua_State *L, const char *message);
/* That line: short_src and currentline; false when no Lua code is on the
** stack. Never raises. */
bool tli_user_line(lua_State *L, lua_Debug *line);

/* ---- threads (workers/worker.c) ---- */

/* Waits for threads that work for the state and have been told to stop, though
** not for ever. Drops the crew. */
void tli_crew_dismiss(struct tli_Crew *crew);

/* ---- memory (pacer.c) ---- */

/* Accounts for a tensor that a Lua value has begun to keep alive. */
void tli_pacer_note(tli_State *S, const tl_Tensor *tensor);
/* Lets the collector do its share, which is `due` from time to time; before a
** box is made. Called with nothing owned outside of Lua. */
void tli_pacer_work(lua_State *L, tli_State *S);
/* Has a full collection made before the next tensor. */
static inline void tli_pacer_want_full(tli_State *S) {
  S->pacer.due = S->pacer.wants_full = true;
  S->pacer.young_count = INT32_MAX / 2; /* it stays due */
}
/* Lets Lua forget functions that the engine needs no more (callback.c). From
** finalizers too; raises nothing. */
void tli_callbacks_tidy(lua_State *L);
static inline void tli_tidy(lua_State *L, const tli_State *S) {
  if (S->dropping && atomic_load_explicit(S->dropping, memory_order_relaxed)) tli_callbacks_tidy(L);
}
/* Raises once the state closes. */
void tli_refuse_closed(lua_State *L, tli_State *S);
/* Lets devices that have no memory left ask for a collection. */
void tli_open_pacer(void);
/* A full collection and a trim, before an allocation is tried again. */
void tli_pacer_collect(lua_State *L, tli_State *S);

#endif
