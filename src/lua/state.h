/*
** state.h - the binding's data for one Lua state: the tensor metatable, the default generator,
** the account of memory and the references that are released after an error has jumped over
** their owner. They are in a userdata in the registry; C functions of the library reach it
** through their first upvalue.
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
  int young_count;  /* tensors made since the last step */
  int64_t young_at; /* bytes of new tensors at which a young step is due */
  int64_t full_at;  /* live bytes at which a full collection is due */
  bool due;         /* a young step is due, or a full collection is wanted */
  bool wants_full;
  bool collecting;
} tli_Pacer;

typedef struct tli_PrintOptions {
  int precision;  /* number of digits after the point */
  int threshold;  /* a tensor with more elements is summarised */
  int edgeitems;  /* elements that a summary shows at each end of a dimension */
  int linewidth;  /* in characters */
  int scientific; /* -1: chosen by the numbers */
} tli_PrintOptions;

enum { TLI_CAST_OFF = 32, TLI_CAST_IDLE = 64 }; /* above all dtypes; see TLI_MODE_AUTOCAST */

typedef enum tli_Mode {
  TLI_MODE_GRAD,
  TLI_MODE_INFERENCE,
  TLI_MODE_ANOMALY,
  TLI_MODE_SAVED,      /* slot of the hooks that pack saved tensors (saved_hooks.c); 0: none */
  TLI_MODE_PLACE,      /* device of new tensors: type * TL_MAX_DEVICES + index */
  TLI_MODE_CAST_CACHE, /* whether autocast keeps its casts; 0: off */
  /* For each device type: the dtype + 1 that autocast casts to, plus TLI_CAST_OFF within a scope
  ** that disables it, or plus TLI_CAST_IDLE if set_autocast_dtype has named it while it is off. */
  TLI_MODE_AUTOCAST,
  /* For each device type: the index of the current device. */
  TLI_MODE_DEVICE = TLI_MODE_AUTOCAST + TL_NDEVICETYPES,
  /* For each device: the number of the current stream (devices/device_module.c); 0: the default
  ** stream. */
  TLI_MODE_STREAM = TLI_MODE_DEVICE + TL_NDEVICETYPES,
  TLI_NMODES = TLI_MODE_STREAM + TL_NDEVICETYPES * TL_MAX_DEVICES
} tli_Mode;

_Static_assert(TL_NDEVICETYPES *TL_MAX_DEVICES <= INT8_MAX + 1, "modes are of type int8_t");

/* The modes that a Lua thread has set; see modes/thread_modes.h. */
typedef struct tli_Settings {
  lua_State *thread;       /* borrowed; NULL once the coroutine is gone */
  int8_t mode[TLI_NMODES]; /* values from 0; -1: inherited from the thread that resumed this one */
  bool linked;
  int scopes; /* number of open torch.scope calls */
  /* borrowed; list of the open scopes of modes, see modes/grad_modes.c */
  struct tli_ModeScope *newest;
  struct tli_Settings *next; /* borrowed */
} tli_Settings;

typedef struct tli_State {
  /* borrowed; in anomaly mode the thread that called last, otherwise the main thread */
  lua_State *L;
  tli_Ledger *ledger;   /* owned; NULL once the state closes */
  bool ready;           /* tli_state_open has finished */
  uint64_t stamp;       /* stamp of the modes that a call must find in this C thread */
  tli_Settings main;    /* settings of the main thread */
  tli_Settings *others; /* borrowed; settings of coroutines, the nearest first */
  int nset[TLI_NMODES]; /* for each mode, the number of `others` that have set it */
  bool placed;          /* whether a current device or stream was ever set */
  bool autocast;        /* whether the running thread has autocast on for any device type */
  bool cast_cache;      /* whether autocast keeps casts of parameters */
  /* for each device type the tl_DType to cast to; TL_NODTYPE: off */
  int8_t cast_to[TL_NDEVICETYPES];
  /* the dtype to cast to while autocast is on; TL_NODTYPE: the default dtype */
  int8_t cast_named[TL_NDEVICETYPES];
  bool casts;                         /* whether any thread has ever set autocast */
  struct tli_CastCache *cast_kept;    /* owned; NULL: empty (autocast.c) */
  struct tli_SavedHooks *saved_hooks; /* owned; NULL: no hooks were ever set (saved_hooks.c) */
  tl_DType default_dtype;
  tl_Device default_device; /* device of new tensors unless a thread has set TLI_MODE_PLACE */
  /* borrowed; whether callbacks can be released; NULL: there are none */
  const atomic_bool *dropping;
  tli_Pacer pacer;
  tli_Generator generator;              /* the default generator of the CPU */
  tli_Generator generators[TLI_FAMILY]; /* default generators of other devices */
  tli_PrintOptions print;
  struct tli_Crew *crew; /* owned reference; worker threads of the state; NULL: none yet */
  int scopes;            /* number of open torch.scope calls in all threads */
  int batching;          /* nesting depth of vmap's functions (batched.c) */
  int rules;             /* nesting depth of calls of vmap's handler (batched.c) */
  int packing; /* number of running functions that an operator has called (saved_hooks.c) */
  /* Tensors are kept here while Lua allocates their values. An out-of-memory error leaves them
  ** here; they are released when the slot is needed or the state closes. */
  int nparked;
  tl_Tensor *parked[TLI_MAX_PARKED];
} tli_State;

/* The userdata behind a tensor value. It is recognized by its size and its first word, which
** takes half the time of a comparison of metatables. */
typedef struct tli_Box {
  const tli_State *state; /* borrowed; the state that it belongs to */
  tl_Tensor *tensor;      /* owned; NULL once released */
} tli_Box;

/* Upvalues of all C functions of the library. */
#define TLI_UP_STATE 1 /* light userdata: tli_State */
#define TLI_UP_META 2  /* the tensor metatable */

static inline tli_State *tli_state(lua_State *L) {
  return (tli_State *)lua_touserdata(L, lua_upvalueindex(TLI_UP_STATE));
}

/* Call this before an operator runs or a mode is read: it gives this C thread the modes of the
** calling Lua thread. */
extern _Thread_local uint64_t tli_loaded; /* stamp of the modes that this C thread has */
void tli_modes_load(lua_State *L, tli_State *S);
/* The Lua thread whose operator runs in this C thread; NULL: none. */
extern _Thread_local lua_State *tli_calling;
static inline void tli_enter(lua_State *L, tli_State *S) {
  if (tli_loaded != S->stamp) tli_modes_load(L, S);
}

/* Creates the state when the library is opened; pushes nothing. */
tli_State *tli_state_open(lua_State *L);
/* Finds the state without upvalues; NULL if the library is not open in this Lua state. */
tli_State *tli_state_find(lua_State *L);

/* Pushes the library's two upvalues, for closures of C functions. */
void tli_push_upvalues(lua_State *L);

/* Pushes a C function with the library's upvalues. */
void tli_push_function(lua_State *L, lua_CFunction fn);

/* Puts the functions of `list`, which ends with NULLs, into the table on top of the stack. */
void tli_set_functions(lua_State *L, const luaL_Reg *list);

/* Call this after making a userdata with a finalizer of this library, which is on top of the
** stack: Lua does not finalize objects that another finalizer makes while the state closes, so
** this library does. */
void tli_keep_for_closing(lua_State *L);
static inline void tli_note_owner(lua_State *L) {
  if (lua_gc(L, LUA_GCISRUNNING) < 0) tli_keep_for_closing(L); /* inside a finalizer */
}

/* ---- tensors as values ---- */

/* Pushes an empty box and lets the collector work. It may raise an error on lack of memory, so
** call it before you own anything. */
tli_Box *tli_new_box(lua_State *L, tli_State *S);
static inline tli_Box *tli_push_box(lua_State *L) { return tli_new_box(L, tli_state(L)); }
/* Puts a tensor into a box, which takes over the reference, and accounts for its bytes. Never
** raises an error. */
void tli_fill_box(tli_State *S, tli_Box *box, tl_Tensor *steals);
/* Pushes a new box with the tensor, whose reference it takes over, even if Lua raises an error. */
void tli_push_tensor(lua_State *L, tl_Tensor *steals);

/* Returns the box at an index, or NULL if there is no tensor value. */
static inline tli_Box *tli_to_box(lua_State *L, const tli_State *S, int index) {
  tli_Box *box = (tli_Box *)lua_touserdata(L, index);
  bool ours = box && lua_rawlen(L, index) == sizeof *box && box->state == S;
  return ours ? box : NULL;
}
/* Returns the tensor at an index, borrowed; NULL if there is none or it was released. */
static inline tl_Tensor *tli_to_tensor(lua_State *L, const tli_State *S, int index) {
  const tli_Box *box = tli_to_box(L, S, index);
  return box ? box->tensor : NULL;
}

/* Adds the box on top of the stack to the open torch.scope of the running thread, if there is
** one (scope.c). */
void tli_scope_note(lua_State *L, tli_State *S);

/* Releases the tensor of the box at an index. While a collection runs inside an operator, this
** is left to the collector, because the operator may be reading the tensor. */
void tli_release_box(lua_State *L, int index);

/* Pushes a userdata that owns a list of tensors, which is empty at first. */
tl_Tensors *tli_push_list(lua_State *L);
/* Replaces the userdata of a list by a Lua table of its tensors. */
int tli_finish_list(lua_State *L, tl_Tensors *list);

/* ---- errors ---- */

/* Raises the engine's last failure at the user's line: the innermost Lua function outside of
** the library. Positions in the message are counted from 1, and the path of the active modules
** is added. Does not return. */
int tli_raise(lua_State *L);
/* Raises the engine's last failure as tli_raise does, with `name` in front of the message unless
** the message begins with it. */
int tli_raise_as(lua_State *L, const char *name);
/* Raises an error with a message of the binding. */
int tli_error(lua_State *L, const char *format, ...);
/* Raises an error with a text of any length, which stays the caller's. */
int tli_error_text(lua_State *L, const char *message);
/* Finds the user's line (short_src and currentline); returns false if there is no Lua code on
** the stack. Never raises an error. */
bool tli_user_line(lua_State *L, lua_Debug *line);

/* ---- threads (workers/worker.c) ---- */

/* Waits, but not forever, for worker threads of the state that were told to stop, and releases
** the crew. */
void tli_crew_dismiss(struct tli_Crew *crew);

/* ---- memory (pacer.c) ---- */

/* Accounts for a tensor that a Lua value now keeps alive. */
void tli_pacer_note(tli_State *S, const tl_Tensor *tensor);
/* Runs a step of the collector if one is `due`; called before a box is made, when nothing is
** owned outside of Lua. */
void tli_pacer_work(lua_State *L, tli_State *S);
/* Requests a full collection before the next tensor is made. */
static inline void tli_pacer_want_full(tli_State *S) {
  S->pacer.due = S->pacer.wants_full = true;
  S->pacer.young_count = INT32_MAX / 2; /* so that the step stays due */
}
/* Lets Lua release functions that the engine no longer needs (callback.c). It may be called in
** finalizers and raises no error. */
void tli_callbacks_tidy(lua_State *L);
static inline void tli_tidy(lua_State *L, const tli_State *S) {
  if (S->dropping && atomic_load_explicit(S->dropping, memory_order_relaxed)) tli_callbacks_tidy(L);
}
/* Raises an error if the state is closing. */
void tli_refuse_closed(lua_State *L, tli_State *S);
/* Lets devices request a collection when their memory is exhausted. */
void tli_open_pacer(void);
/* Runs a full collection and trims caches, before an allocation is tried again. */
void tli_pacer_collect(lua_State *L, tli_State *S);

#endif
