/*
** batched.h - the binding's part of torch.func.vmap. A stand-in represents one example of a batch;
** it is a table with its own metatable. While a mapped function runs, an operator with a stand-in
** as argument calls the handler of lua/tlua/func/batched.lua instead of running itself.
*/
#ifndef TLI_BATCHED_H
#define TLI_BATCHED_H

#include "lua/args/args.h"

/* Returns whether the value at a stack index is a stand-in of vmap. Returns false at once if no
** mapped function is running. */
bool tli_is_batched(lua_State *L, int index);

/* If an argument, an element of a list or an option is a stand-in, calls the handler with the
** operator, its signature and the arguments, and returns the number of results. Otherwise returns
** -1. Raises an error if the operator would write to a tensor that all examples of the batch
** share. */
int tli_batched(lua_State *L, const tli_Signature *sig, lua_CFunction fn);

/* Raises an error if a function mapped by vmap is running, because the operator `name` would then
** write to a tensor that all examples share. */
void tli_check_shared(lua_State *L, const char *name);

void tli_open_batched(lua_State *L);

#endif
