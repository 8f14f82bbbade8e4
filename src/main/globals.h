/*
** globals.h - the globals that this command adds to Lua's: torch, nn, optim and, in interactive
** use, help.
*/
#ifndef TLI_GLOBALS_H
#define TLI_GLOBALS_H

#include <lua.h>
#include <stdbool.h>

/* Makes `require "tlua"` work, and makes torch, nn and optim appear on first use; with `help`, also
** the function of this name. */
void tli_globals_open(lua_State *L, bool help);

/* Pushes a module, by the `require` from the program's start: the program may have replaced the
** global since. May raise an error. */
void tli_globals_require(lua_State *L, const char *module);

/* Defines the globals torch, nn and optim now, by loading their modules. May raise an error. */
void tli_globals_resolve(lua_State *L);

#endif
