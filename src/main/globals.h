/*
** globals.h - the globals of a program that this command runs.
*/
#ifndef TLI_GLOBALS_H
#define TLI_GLOBALS_H

#include <lua.h>
#include <stdbool.h>

/* Makes `require "tlua"` work and torch, nn and optim appear when they are
** first used; with `help` the function of this name, too. */
void tli_globals_open(lua_State *L, bool help);

/* Pushes a module, as the `require` of the start does: the program may have
** replaced it since. May raise an error. */
void tli_globals_require(lua_State *L, const char *module);

/* Fetches them all now. May raise an error. */
void tli_globals_resolve(lua_State *L);

#endif
