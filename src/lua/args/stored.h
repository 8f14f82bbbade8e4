/*
** stored.h - the Lua binding's support for the dtypes of TL_STORED_DTYPES (tlua.h). An operator
** that does not take these dtypes refuses them when it reads its arguments. The call is then passed
** to lua/tlua/stored.lua, which computes some operators in other dtypes.
*/
#ifndef TLI_STORED_H
#define TLI_STORED_H

#include "lua/args/args.h"

/* Calls the Lua function for an operator whose arguments were refused, with the operator's name and
** its arguments, the first n stack values. Returns the number of results. Raises an error if the
** operator is not implemented for the dtype. */
int tli_stored_call(lua_State *L, const char *name, int n);

#endif
