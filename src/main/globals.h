/*
** globals.h - the globals that this command adds to Lua's: torch, nn, optim and, in interactive
** use, help.
*/
#ifndef TLI_GLOBALS_H
#define TLI_GLOBALS_H

#include <lua.h>
#include <stdbool.h>

/* Makes `require "tlua"` work, and lets the globals torch, nn and optim be defined on first use; if
** `help` is true, also the global function `help`. */
void tli_globals_open(lua_State *L, bool help);

/* Loads a module and pushes it. Uses the `require` from the program's start, because the program
** may have replaced the global. May raise an error. */
void tli_globals_require(lua_State *L, const char *module);

/* Defines the globals torch, nn and optim now, by loading their modules. May raise an error. */
void tli_globals_resolve(lua_State *L);

#endif
