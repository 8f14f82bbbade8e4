/*
** interrupt.h - Ctrl-C as a Lua error.
*/
#ifndef TLI_INTERRUPT_H
#define TLI_INTERRUPT_H

#include <lua.h>

/* lua_pcall during which SIGINT raises the Lua error "interrupted!", which the
** code may catch. The second SIGINT that finds no effect of the first reaches
** running coroutines, the third ends the process. */
int tli_interrupt_call(lua_State *L, int nargs, int nresults, int handler);

#endif
