/*
** interrupt.h - turns Ctrl-C into a Lua error while a chunk runs.
*/
#ifndef TLI_INTERRUPT_H
#define TLI_INTERRUPT_H

#include <lua.h>
#include <stdbool.h>

/* Calls a function as lua_pcall does, but SIGINT raises the Lua error "interrupted!", which the
** code may catch. A second SIGINT, if the first had no effect, also reaches running coroutines; the
** third ends the process. */
int tli_interrupt_call(lua_State *L, int nargs, int nresults, int handler);

/* Returns whether SIGINT has come since the last tli_interrupt_call began. To-be-closed values may
** still be open then. */
bool tli_interrupt_struck(void);

/* Sets the function that tli_interrupt_end calls. While tli_interrupt_call runs, SIGTERM also calls
** it, at the next Lua instruction or when the code has ended, and then ends the process. Until the
** function is set, SIGTERM is not caught. */
void tli_interrupt_at_end(void (*fn)(lua_State *L));
/* Calls the function that tli_interrupt_at_end has set, once. */
void tli_interrupt_end(lua_State *L);

#endif
