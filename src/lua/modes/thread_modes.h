/*
** thread_modes.h - what each Lua thread has set for itself: modes (grad, inference,
** anomaly, autocast, the current devices and streams) and open torch.scope calls.
**
** A thread has the modes that it has set, and those that it has not set from
** the thread that resumed it, and so on up to the main thread. What a thread
** that is suspended or dead has set concerns nobody else. The engine reads
** thread-local variables of C; they are loaded from here when a call of the
** library finds that they hold another state's, another coroutine's or old
** values.
*/
#ifndef TLI_COROUTINE_H
#define TLI_COROUTINE_H

#include "lua/state.h"

/* Makes what is needed in a new state; pushes nothing. */
void tli_open_coroutines(lua_State *L, tli_State *S);
/* The state closes: nothing is set from now on. */
void tli_close_coroutines(tli_State *S);

/* The settings of the running thread, made if there are none. Pushes what keeps
** them alive (nil for the main thread's, which live as long as the state). */
tli_Settings *tli_push_settings(lua_State *L, tli_State *S);

/* A mode that is to be set, and to what: a value from 0, or -1 for that of whoever
** resumes the thread. */
typedef struct tli_Change {
  tli_Mode mode;
  int value;
} tli_Change;
#define TLI_MAX_CHANGES 2
/* Sets modes of a thread, and leaves in `changes` what they were. */
void tli_swap_modes(lua_State *L, tli_State *S, tli_Settings *of, int n, tli_Change *changes);

/* What a scope has set of a thread's modes. Scopes may end in any order (grad_modes.c). */
typedef struct tli_ModeScope {
  tli_Settings *of;                    /* borrowed; NULL once the modes were put back */
  uint64_t number;                     /* later ones have higher numbers */
  struct tli_ModeScope *older, *newer; /* open ones of the same settings; borrowed */
  int n;
  tli_Change previous[TLI_MAX_CHANGES];
} tli_ModeScope;
/* Sets modes of a thread until the end. */
void tli_modes_begin(lua_State *L, tli_Settings *of, tli_ModeScope *scope, int n,
                     const tli_Change *changes);
void tli_modes_end(lua_State *L, tli_ModeScope *scope);

/* A function of Lua that sets modes of the running thread while a function, the
** first one on the stack, runs with its arguments behind it; or, with an empty
** stack, while the scope that it returns is open (grad_modes.c). */
int tli_mode_scope(lua_State *L, const char *name, int n, const tli_Change *changes);
/* Pushes a scope, to be closed, in which modes of the running thread are set. */
void tli_push_mode_scope(lua_State *L, int n, const tli_Change *changes);
/* torch.default_device(device, function, ...): new tensors are made there meanwhile (grad_modes.c). */
int tli_default_device_scope(lua_State *L);
/* tli_swap_modes of the running thread. */
void tli_change_modes(lua_State *L, int n, tli_Change *changes);

/* The stream of a device that a mode names by its number (devices/device_module.c). */
tl_Stream *tli_stream_of(tl_Device device, int number);
void tli_set_state_dtype(lua_State *L, tli_State *S, tl_DType dtype);
void tli_set_state_device(lua_State *L, tli_State *S, tl_Device device);

/* Opens a torch.scope of the running thread, whose table is on top of the stack
** and is popped. */
void tli_scope_push(lua_State *L, tli_State *S);
/* Closes the innermost one of `of`: pushes its table. Nothing is pushed, and
** the result is false, if the thread is gone. */
bool tli_scope_pop(lua_State *L, tli_State *S, tli_Settings *of);
/* Pushes the table of the scope that the running thread's new tensors belong
** to; pushes nothing and returns false if there is none. */
bool tli_scope_find(lua_State *L, tli_State *S);

#endif
