/*
** interrupt.h - turns Ctrl-C into a Lua error while a chunk runs.
*/
#ifndef TLI_INTERRUPT_H
#define TLI_INTERRUPT_H

#include <lua.h>
#include <stdbool.h>

/* Calls a function as lua_pcall does. If SIGINT arrives meanwhile, the Lua error "interrupted!" is
** raised, which the code may catch. If the first SIGINT has no effect within a tenth of a second,
** running coroutines are stopped as well. A second one stops them at once, and a third ends the
** process. */
int tli_interrupt_call(lua_State *L, int nargs, int nresults, int handler);

/* Returns whether SIGINT has come since the last tli_interrupt_call began. If so, to-be-closed
** variables may still be open. */
bool tli_interrupt_struck(void);

/* Sets a cleanup function, which tli_interrupt_end calls. If SIGTERM arrives while
** tli_interrupt_call runs, the cleanup function is called at the next Lua instruction or when the
** code has ended; then the process ends. As long as no function is set, SIGTERM is not caught. */
void tli_interrupt_at_end(void (*fn)(lua_State *L));
/* Calls the cleanup function that tli_interrupt_at_end has set, unless it was called before. */
void tli_interrupt_end(lua_State *L);

#endif
