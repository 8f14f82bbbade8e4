/*
** state.h - the binding's data for one Lua state: the tensor metatable, the default generators, the
** ledger of memory, and the references that must be released if an error skips the cleanup of a C
** function. The data are in a userdata in the registry, to which the first upvalue of each C
** function of the library points.
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
  /* number of tensors made since the last young step, which is a step of the collector that the
  ** pacer has started */
  int young_count;
  int64_t young_at; /* number of bytes of new tensors at which the next young step is due */
  int64_t full_at;  /* number of live bytes at which a full collection is due */
  bool due; /* whether a step or a full collection must run before the next tensor is made */
  bool wants_full;
  bool collecting;
} tli_Pacer;

typedef struct tli_PrintOptions {
  int precision;  /* number of digits after the decimal point */
  int threshold;  /* number of elements above which a tensor is summarised */
  int edgeitems;  /* number of elements that a summary shows at each end of a dimension */
  int linewidth;  /* width of a line in characters */
  int scientific; /* use of scientific notation: 0 never, 1 always, -1 if the numbers need it */
} tli_PrintOptions;

/* Flags in the value of TLI_MODE_AUTOCAST; both flags are larger than the number of any dtype. */
enum { TLI_CAST_OFF = 32, TLI_CAST_IDLE = 64 };

typedef enum tli_Mode {
  TLI_MODE_GRAD,
  TLI_MODE_INFERENCE,
  TLI_MODE_ANOMALY,
  /* slot of the hooks that pack saved tensors (saved_hooks.c); 0 if there are none */
  TLI_MODE_SAVED,
  TLI_MODE_PLACE,      /* device of new tensors: type * TL_MAX_DEVICES + index */
  TLI_MODE_CAST_CACHE, /* 1 if autocast keeps its casts, 0 if not */
  /* The first of the autocast modes, one per device type. The value is the cast dtype + 1. A scope
  ** that disables autocast adds TLI_CAST_OFF; set_autocast_dtype adds TLI_CAST_IDLE if autocast is
  ** off. */
  TLI_MODE_AUTOCAST,
  /* The first of the device modes, one per device type. The value is the number of the current
  ** device. */
  TLI_MODE_DEVICE = TLI_MODE_AUTOCAST + TL_NDEVICETYPES,
  /* The first of the stream modes, one per device. The value is the number of the current stream
  ** (devices/stream.c); 0 is the default stream. */
  TLI_MODE_STREAM = TLI_MODE_DEVICE + TL_NDEVICETYPES,
  TLI_NMODES = TLI_MODE_STREAM + TL_NDEVICETYPES * TL_MAX_DEVICES
} tli_Mode;

_Static_assert(TL_NDEVICETYPES *TL_MAX_DEVICES <= INT8_MAX + 1, "modes are of type int8_t");

/* The modes that a Lua thread has set; see modes/thread_modes.h. */
typedef struct tli_Settings {
  lua_State *thread; /* the thread (borrowed); NULL once the coroutine was collected */
  /* value of each mode, 0 or greater; -1 if the mode is inherited from the thread that resumed this
  ** one */
  int8_t mode[TLI_NMODES];
  bool linked;
  int scopes; /* number of open torch.scope calls */
  /* the newest open scope of modes (borrowed), see modes/grad_modes.c */
  struct tli_ModeScope *newest;
  struct tli_Settings *next; /* borrowed */
} tli_Settings;

typedef struct tli_State {
  /* a Lua thread (borrowed): in anomaly mode the last caller of the library, otherwise the main
  ** thread */
  lua_State *L;
  tli_Ledger *ledger; /* the ledger of this state's tensors (owned); NULL once the state closes */
  bool ready;         /* whether tli_state_open has finished */
  /* number that changes with every change of the modes; a C thread that has loaded the modes under
  ** another number must load them again */
  uint64_t stamp;
  tli_Settings main;    /* settings of the main thread */
  tli_Settings *others; /* settings of coroutines, the nearest first (borrowed) */
  int nset[TLI_NMODES]; /* for each mode: the number of settings in `others` that set this mode */
  bool placed;          /* whether any thread has ever set a current device or stream */
  bool autocast;        /* whether the running thread has autocast on for some device type */
  bool cast_cache;      /* whether autocast keeps its casts of parameters */
  /* for each device type: the tl_DType that autocast casts to; TL_NODTYPE if autocast is off */
  int8_t cast_to[TL_NDEVICETYPES];
  /* for each device type: the dtype chosen for casts, even while autocast is off; TL_NODTYPE means
  ** the default */
  int8_t cast_named[TL_NDEVICETYPES];
  bool casts; /* whether any thread has ever set autocast */
  /* casts of parameters (owned, autocast.c); NULL if there are none */
  struct tli_CastCache *cast_kept;
  /* hooks that pack saved tensors (owned, saved_hooks.c); NULL if none were ever set */
  struct tli_SavedHooks *saved_hooks;
  tl_DType default_dtype;
  tl_Device default_device; /* device of new tensors in threads that have not set TLI_MODE_PLACE */
  /* address of a flag that tells whether dropped callbacks wait to be released (borrowed); NULL if
  ** the state has no callbacks */
  const atomic_bool *dropping;
  tli_Pacer pacer;
  tli_Generator generator;              /* the default generator of the CPU */
  tli_Generator generators[TLI_FAMILY]; /* default generators of other devices */
  tli_PrintOptions print;
  /* worker threads of the state (owned reference); NULL if none were started */
  struct tli_Crew *crew;
  int64_t deadline; /* the time at which operators stop (limits.c); 0 means none */
  int scopes;       /* number of open torch.scope calls in all threads */
  /* number of calls of vmap that are running, each inside of the one before (batched.c) */
  int batching;
  /* number of calls of vmap's handler that are running, each inside of the one before; the handler
  ** computes an operator for a whole batch (batched.c) */
  int rules;
  /* number of Lua functions that an operator has called and that are running (saved_hooks.c) */
  int packing;
  /* References to tensors that no userdata owns yet, because Lua is still allocating the userdata.
  ** If the allocation raises an error, they stay here until the space is needed or the state
  ** closes. */
  int nparked;
  tl_Tensor *parked[TLI_MAX_PARKED];
} tli_State;

/* The userdata behind a tensor value. A userdata is recognized as a box by its size and its first
** word, because comparing metatables would take twice as long. */
typedef struct tli_Box {
  const tli_State *state; /* the state to which the box belongs (borrowed) */
  tl_Tensor *tensor;      /* the tensor (owned); NULL once released */
} tli_Box;

/* Numbers of the upvalues that all C functions of the library have. */
#define TLI_UP_STATE 1 /* number of the upvalue with the tli_State, a light userdata */
#define TLI_UP_META 2  /* number of the upvalue with the tensor metatable */

static inline __attribute__((always_inline)) tli_State *tli_state(lua_State *L) {
  return (tli_State *)lua_touserdata(L, lua_upvalueindex(TLI_UP_STATE));
}

/* The stamp of the modes that this C thread has loaded. */
extern _Thread_local uint64_t tli_loaded;
/* The Lua thread that runs an operator in this C thread; NULL if there is none. */
extern _Thread_local lua_State *tli_calling;
void tli_modes_load(lua_State *L, tli_State *S);
/* Loads the modes of the calling Lua thread into this C thread, if they are not loaded yet or have
** changed since. Must be called before an operator runs or a mode is read. */
static inline void tli_enter(lua_State *L, tli_State *S) {
  if (tli_loaded != S->stamp) tli_modes_load(L, S);
}

/* Creates the state when the library is opened; pushes nothing. */
tli_State *tli_state_open(lua_State *L);
/* Returns the state, for functions without the library's upvalues; NULL if the library is not open
** in this Lua state. */
tli_State *tli_state_find(lua_State *L);

/* Pushes the library's two upvalues, for closures of C functions. */
void tli_push_upvalues(lua_State *L);

/* Pushes a C function with the library's upvalues. */
void tli_push_function(lua_State *L, lua_CFunction fn);

/* Puts the functions of `list`, which ends with NULLs, into the table on top of the stack. */
void tli_set_functions(lua_State *L, const luaL_Reg *list);

/* Registers the userdata on top of the stack, so that the library itself finalizes it when the
** state closes. Lua does not finalize objects that a finalizer makes while the state closes. */
void tli_keep_for_closing(lua_State *L);
static inline void tli_note_owner(lua_State *L) {
  if (lua_gc(L, LUA_GCISRUNNING) < 0) tli_keep_for_closing(L); /* this code runs in a finalizer */
}

/* ---- tensors as values ---- */

/* Pushes an empty box and lets the collector work. The caller must not own anything yet, because
** the function may raise an error for lack of memory. */
tli_Box *tli_new_box(lua_State *L, tli_State *S);
static inline tli_Box *tli_push_box(lua_State *L) { return tli_new_box(L, tli_state(L)); }
/* Puts a tensor into a box and charges the tensor's bytes to the ledger. The box takes over the
** reference. Never raises an error. */
void tli_fill_box(tli_State *S, tli_Box *box, tl_Tensor *steals);
/* Pushes a tensor as a value. Takes over the reference, even if Lua raises an error. */
void tli_push_tensor(lua_State *L, tl_Tensor *steals);

/* Returns the box at a stack index, or NULL if the value there is no tensor. */
static inline tli_Box *tli_to_box(lua_State *L, const tli_State *S, int index) {
  tli_Box *box = (tli_Box *)lua_touserdata(L, index);
  bool ours = box && lua_rawlen(L, index) == sizeof *box && box->state == S;
  return ours ? box : NULL;
}
/* Returns the tensor at a stack index (borrowed); NULL if the value is no tensor, or a released
** one. */
static inline tl_Tensor *tli_to_tensor(lua_State *L, const tli_State *S, int index) {
  const tli_Box *box = tli_to_box(L, S, index);
  return box ? box->tensor : NULL;
}

/* Adds the box on top of the stack to the open torch.scope of the running thread, if there is
** one (scope.c). */
void tli_scope_note(lua_State *L, tli_State *S);

/* Releases the tensor that the box at a stack index holds. During a collection of the pacer
** (pacer.c) or a call of a pack hook (saved_hooks.c), an operator may still be reading the tensor.
** In that case the tensor is moved to a new box, which a later collection frees. */
void tli_release_box(lua_State *L, int index);

/* Pushes a userdata that owns a list of tensors, which is empty at first. */
tl_Tensors *tli_push_list(lua_State *L);
/* Replaces the userdata on the stack that owns a list of tensors by a Lua table of these
** tensors. */
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
/* Raises an error with a text of any length. The text still belongs to the caller. */
int tli_error_text(lua_State *L, const char *message);
/* Finds the user's line (short_src and currentline); returns false if there is no Lua code on
** the stack. Never raises an error. */
bool tli_user_line(lua_State *L, lua_Debug *line);

/* ---- threads (workers/worker.c) ---- */

/* Waits, for a limited time, until the worker threads have ended, and releases the state's
** reference to the crew. The caller must have told the threads to stop. */
void tli_crew_dismiss(struct tli_Crew *crew);

/* ---- memory (pacer.c) ---- */

/* Tells the pacer that a Lua value now keeps this tensor alive, so that the pacer counts it. */
void tli_pacer_note(tli_State *S, const tl_Tensor *tensor);
/* Runs the collection that is due. Called before a box is made, when no C function owns anything
** that an error would leak. */
void tli_pacer_work(lua_State *L, tli_State *S);
/* Requests a full collection before the next tensor is made. */
static inline void tli_pacer_want_full(tli_State *S) {
  S->pacer.due = S->pacer.wants_full = true;
  /* so high a count that the young step stays due until it has run */
  S->pacer.young_count = INT32_MAX / 2;
}
/* Releases Lua functions that the engine no longer needs (callback.c). Finalizers may call this
** function, which raises no error. */
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
