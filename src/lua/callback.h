/*
** callback.h - Lua values that the engine holds on to: hooks and derivatives
** written in Lua. The engine may let go of one in any thread and after its
** state was closed; so what it lets go of waits in the state's home, and Lua
** forgets it at the next call of the library that anchors something.
*/
#ifndef TLI_CALLBACK_H
#define TLI_CALLBACK_H

#include "lua/state.h"

typedef struct tli_Callback tli_Callback;

/* Makes what anchors need in a state; pushes nothing. */
void tli_open_callbacks(lua_State *L);

/* Pops a value and keeps it. NULL with a message on lack of memory, which may
** also raise, with nothing owned. */
tli_Callback *tli_callback_new(lua_State *L);
/* From any thread. A tli_Callback, as hooks give their context back. */
void tli_callback_drop(void *anchor);

/* Runs `run` in protected mode, in the Lua state that this thread is running
** in: with upvalues of the library, the value at index 1 and `argument` as
** light userdata at index 2. A Lua error gives false, and tli_raise_caught
** raises the same value. */
bool tli_callback_call(tli_Callback *anchor, lua_CFunction run, void *argument) TL_MUSTCHECK;

/* The Lua state that this thread calls the engine from, for anchors; returns
** the previous one, to be set again before anything is raised. */
lua_State *tli_set_running(lua_State *L);

/* Raises the error that an anchored function has raised, else the engine's. */
int tli_raise_caught(lua_State *L);

#endif
