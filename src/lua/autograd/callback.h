/*
** callback.h - Lua functions that the engine holds on to: hooks and derivatives
** written in Lua. The engine may let go of one in any thread and after its
** state was closed; so what it lets go of is only marked, and Lua forgets it at
** the next occasion.
*/
#ifndef TLI_CALLBACK_H
#define TLI_CALLBACK_H

#include "lua/state.h"

typedef struct tli_Callback tli_Callback;

/* Makes what callbacks need in a state; pushes nothing. */
void tli_open_callbacks(lua_State *L);

/* Pops a value and keeps it. NULL with a message on lack of memory, which may
** also raise, with nothing owned. */
tli_Callback *tli_callback_new(lua_State *L);
/* The value at an index is a tensor that the callback hangs on, or a result of
** the node that it hangs on. Where only such values hold that, Lua's collector
** may find the function to be garbage together with them. */
void tli_callback_hangs_on(lua_State *L, tli_Callback *callback, const tli_Node *node, int value);
/* From any thread. A tli_Callback, as hooks give their context back. */
void tli_callback_drop(void *callback);

/* Around a full collection: see callback.c. Raise nothing. */
void tli_callbacks_loosen(lua_State *L, tli_State *S);
void tli_callbacks_fasten(lua_State *L);

/* Runs `run` in protected mode, in the Lua state that this thread is running
** in: with upvalues of the library, the value at index 1 and `argument` as
** light userdata at index 2. A Lua error gives false, and tli_raise_caught
** raises the same value. */
bool tli_callback_call(tli_Callback *callback, lua_CFunction run, void *argument) TL_MUSTCHECK;

/* The same from a Lua thread at hand, in the midst of an operator. */
bool tli_callback_call_in(lua_State *L, tli_Callback *callback, lua_CFunction run, void *argument)
    TL_MUSTCHECK;
/* Pushes what is kept. */
void tli_callback_push(lua_State *L, const tli_Callback *callback);
/* Whether the engine's last failure is the error of one of these. */
bool tli_caught(void);

/* The Lua state that this thread calls the engine from, for callbacks; returns
** the previous one, to be set again before anything is raised. */
lua_State *tli_set_running(lua_State *L);

lua_State *tli_running(void); /* NULL: none */

/* Raises the error that a function of these has raised, else the engine's. */
int tli_raise_caught(lua_State *L);

#endif
