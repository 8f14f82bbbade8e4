/*
** interrupt.h - Ctrl-C as a Lua error.
*/
#ifndef TLI_INTERRUPT_H
#define TLI_INTERRUPT_H

#include <lua.h>
#include <stdbool.h>

/* lua_pcall during which SIGINT raises the Lua error "interrupted!", which the
** code may catch. The second SIGINT that finds no effect of the first reaches
** running coroutines, the third ends the process. */
int tli_interrupt_call(lua_State *L, int nargs, int nresults, int handler);

/* Whether SIGINT has come since the last such call began; what it had to close may be open. */
bool tli_interrupt_struck(void);

/* What tli_interrupt_end calls, and before that SIGTERM, while tli_interrupt_call runs: at the next
** Lua instruction, or when the code has ended. Then SIGTERM ends the process. Until this is set it is
** not caught. */
void tli_interrupt_at_end(void (*fn)(lua_State *L));
/* Calls that, once. */
void tli_interrupt_end(lua_State *L);

#endif
