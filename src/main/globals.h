/*
** globals.h - defines the globals that this command adds to Lua's globals: torch, nn, optim and, in
** interactive use, help.
*/
#ifndef TLI_GLOBALS_H
#define TLI_GLOBALS_H

#include <lua.h>
#include <stdbool.h>

/* Makes `require "tlua"` work. The globals torch, nn and optim are then defined on first use, and
** so is the global function `help` if the argument `help` is true. */
void tli_globals_open(lua_State *L, bool help);

/* Loads a module and pushes it. Uses the `require` from the program's start, because the program
** may have replaced the global. May raise an error. */
void tli_globals_require(lua_State *L, const char *module);

/* Defines the globals torch, nn and optim now, by loading their modules. May raise an error. */
void tli_globals_resolve(lua_State *L);

#endif
