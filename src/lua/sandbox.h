/*
** sandbox.h - the parts of opening the library that deny functions to a state's scripts
** (tl_lua_open_with). Each function may raise an error if memory is exhausted.
*/
#ifndef TLI_SANDBOX_H
#define TLI_SANDBOX_H

#include <lua.h>

/* Keeps the flags for the functions below; the library is opened afterwards. */
void tli_set_denied(lua_State *L, unsigned flags);
/* Returns the state's flags; 0 if nothing is denied. */
unsigned tli_denied(lua_State *L);

/* Denies functions of the standard libraries to scripts and to the library's Lua files, whose
** environment is made afterwards. */
void tli_deny_standard(lua_State *L);
/* Denies further functions to scripts alone, after the environment was made. */
void tli_deny_scripts(lua_State *L);
/* Denies functions of the module table, which is on top of the stack. */
void tli_deny_module(lua_State *L);

#endif
