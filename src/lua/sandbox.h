/*
** sandbox.h - the parts of opening the library that deny functions to a state's scripts
** (tl_lua_open_with). Each function may raise an error if memory is exhausted.
*/
#ifndef TLI_SANDBOX_H
#define TLI_SANDBOX_H

#include <lua.h>

/* Stores the flags, which the functions below use. Must be called before the library is opened. */
void tli_set_denied(lua_State *L, unsigned flags);
/* Returns the state's flags; 0 if nothing is denied. */
unsigned tli_denied(lua_State *L);

/* Denies functions of the standard libraries. Must be called before the environment of the
** library's Lua files is made, so that these files cannot use the functions either. */
void tli_deny_standard(lua_State *L);
/* Denies to scripts further functions that the library's Lua files still need. Must be called after
** the environment was made. */
void tli_deny_scripts(lua_State *L);
/* Denies functions of the module table, which is on top of the stack. */
void tli_deny_module(lua_State *L);

#endif
