/*
** batched.h - torch.func.vmap's stand-ins for one example of a batch, as bindings see them: tables
** with a metatable of their own. While a mapped function runs, an operator that is given one calls
** the handler of lua/tlua/func/batched.lua in its own place.
*/
#ifndef TLI_BATCHED_H
#define TLI_BATCHED_H

#include "lua/args/args.h"

/* Whether the value at an index is one; false at once while no mapped function runs. */
bool tli_is_batched(lua_State *L, int index);

/* To be asked while one runs: if an argument is a stand-in, or a list or table of options with
** one, calls the handler with the operator, its signature and the arguments, and returns the number
** of results; else -1. Raises where a tensor that all examples share is written to. */
int tli_batched(lua_State *L, const tli_Signature *sig, lua_CFunction fn);

/* Raises where `name` is about to write to a tensor while a mapped function runs. */
void tli_check_shared(lua_State *L, const char *name);

void tli_open_batched(lua_State *L);

#endif
