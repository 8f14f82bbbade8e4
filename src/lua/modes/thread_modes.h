/*
** thread_modes.h - the settings of each Lua thread: modes (grad, inference, anomaly, autocast,
** current devices and streams) and open torch.scope calls.
**
** A thread inherits the modes that it has not set from the thread that resumed it, and so on up to
** the main thread. Settings of suspended or dead threads affect no other thread. The engine reads
** thread-local variables of C. If these variables are outdated, or belong to another Lua state or
** coroutine, a call of the library first loads them from the settings.
*/
#ifndef TLI_COROUTINE_H
#define TLI_COROUTINE_H

#include "lua/state.h"

/* Creates the tables in which a new state keeps the settings of its threads. Pushes nothing. */
void tli_open_coroutines(lua_State *L, tli_State *S);
/* Marks the settings as closed when the state closes. From then on no mode can be set. */
void tli_close_coroutines(tli_State *S);

/* Lets each C thread load the modes again in its next call of the library. */
void tli_modes_outdated(tli_State *S);

/* Returns the settings of the running thread, and creates them if necessary. Pushes a value that
** keeps the settings alive; nil for the main thread, whose settings live as long as the state. */
tli_Settings *tli_push_settings(lua_State *L, tli_State *S);

/* A change of one mode. The new value is 0 or greater; -1 means that the thread inherits the
** mode. */
typedef struct tli_Change {
  tli_Mode mode;
  int value;
} tli_Change;
#define TLI_MAX_CHANGES 2
/* Sets modes of a thread and stores the previous values in `changes`. */
void tli_swap_modes(lua_State *L, tli_State *S, tli_Settings *of, int n, tli_Change *changes);

/* The modes that a scope has set in a thread. Scopes may end in any order (grad_modes.c). */
typedef struct tli_ModeScope {
  /* the settings in which the scope has set modes (borrowed); NULL once the modes were restored */
  tli_Settings *of;
  uint64_t number; /* number of the scope; newer scopes have higher numbers */
  /* neighbours in the list of open scopes of the same settings (borrowed) */
  struct tli_ModeScope *older, *newer;
  int n;
  tli_Change previous[TLI_MAX_CHANGES];
} tli_ModeScope;
/* Sets modes of a thread until tli_modes_end is called. */
void tli_modes_begin(lua_State *L, tli_Settings *of, tli_ModeScope *scope, int n,
                     const tli_Change *changes);
void tli_modes_end(lua_State *L, tli_ModeScope *scope);

/* Implements a Lua function that sets modes of the running thread (grad_modes.c). If a function is
** at stack index 1, calls it with the arguments above it, and the modes last until it returns. If
** the stack is empty, returns a scope, and the modes last while the scope is open. */
int tli_mode_scope(lua_State *L, const char *name, int n, const tli_Change *changes);
/* Pushes a to-be-closed scope in which modes of the running thread are set. */
void tli_push_mode_scope(lua_State *L, int n, const tli_Change *changes);
/* Implements torch.default_device(device, function, ...), which calls the function (grad_modes.c).
** Until the function returns, new tensors are made on that device. */
int tli_default_device_scope(lua_State *L);
/* Sets modes of the running thread, and stores the previous values in `changes`. */
void tli_change_modes(lua_State *L, int n, tli_Change *changes);

/* Returns a device's stream, given the number by which a mode represents the stream
** (devices/stream.c). */
tl_Stream *tli_stream_of(tl_Device device, int number);
void tli_set_state_dtype(lua_State *L, tli_State *S, tl_DType dtype);
void tli_set_state_device(lua_State *L, tli_State *S, tl_Device device);

/* Opens a torch.scope in the running thread, and pops its table from the stack. */
void tli_scope_push(lua_State *L, tli_State *S);
/* Closes the innermost torch.scope of the thread that has the settings `of`, and pushes the scope's
** table. If the thread was collected, pushes nothing and returns false. */
bool tli_scope_pop(lua_State *L, tli_State *S, tli_Settings *of);
/* Pushes the table of the scope that receives the running thread's new tensors; pushes nothing
** and returns false if there is none. */
bool tli_scope_find(lua_State *L, tli_State *S);

#endif
