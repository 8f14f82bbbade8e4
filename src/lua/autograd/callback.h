/*
** callback.h - Lua functions that the engine refers to: hooks, and derivatives written in Lua. The
** engine may drop a callback in any thread, even after the state was closed. Dropping only marks
** the callback; the state releases the function later.
*/
#ifndef TLI_CALLBACK_H
#define TLI_CALLBACK_H

#include "lua/state.h"

typedef struct tli_Callback tli_Callback;

/* Prepares a state for callbacks; pushes nothing. */
void tli_open_callbacks(lua_State *L);

/* Pops a value and makes a callback with that value. If memory is exhausted, either returns NULL
** with a message, or raises a Lua error. In both cases there is no callback. */
tli_Callback *tli_callback_new(lua_State *L);
/* Attaches the callback to the value at a stack index, which is a tensor or a result of `node`. If
** only values in Lua hold the tensor or node, Lua's collector can collect the function together
** with them. */
void tli_callback_hangs_on(lua_State *L, tli_Callback *callback, const tli_Node *node, int value);
/* Drops a callback, in any thread. The parameter is a tli_Callback, which hooks pass as their
** context. */
void tli_callback_drop(void *callback);

/* These functions are called around a full collection of garbage. tli_callbacks_loosen, before it,
** lets Lua collect functions that refer to the tensors to which they are attached.
** tli_callbacks_fasten, after it, protects the functions that were not collected from collection
** again (callback.c). Neither function raises an error. */
void tli_callbacks_loosen(lua_State *L, tli_State *S);
void tli_callbacks_fasten(lua_State *L);

/* Calls `run` in protected mode, in the Lua state that tli_running returns. `run` has the library's
** upvalues and gets the callback's value at index 1 and `argument`, a light userdata, at index 2.
** Returns false after a Lua error; tli_raise_caught raises the error again. */
bool tli_callback_call(tli_Callback *callback, lua_CFunction run, void *argument) TL_MUSTCHECK;

/* Calls `run` like tli_callback_call, but in the Lua thread L, from inside a running operator. */
bool tli_callback_call_in(lua_State *L, tli_Callback *callback, lua_CFunction run, void *argument)
    TL_MUSTCHECK;
/* Pushes the callback's value. */
void tli_callback_push(lua_State *L, const tli_Callback *callback);
/* Returns whether the engine's last failure is a Lua error of a callback. */
bool tli_caught(void);

/* Sets the Lua state from which this thread calls the engine, for callbacks. Returns the previous
** state, which must be restored before any error is raised. */
lua_State *tli_set_running(lua_State *L);

/* Returns the Lua state that calls the engine in this thread; NULL if there is none. */
lua_State *tli_running(void);

/* Raises the Lua error of a callback again; if no callback failed, raises the engine's failure. */
int tli_raise_caught(lua_State *L);

#endif
