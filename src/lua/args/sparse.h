/*
** sparse.h - the binding's part of wrapped tensors: sparse, masked and nested ones. A wrapped
** tensor is a userdata without content; its user value is a Lua table with its component tensors,
** which lua/tlua/sparse, masked or nested reads. Each kind has a metatable and a handler. When an operator
** has refused its arguments and one of them is wrapped, its handler in Lua is called with the
** arguments.
*/
#ifndef TLI_SPARSE_VALUES_H
#define TLI_SPARSE_VALUES_H

#include "lua/args/args.h"

/* Returns whether the value at an index is a sparse tensor. */
bool tli_is_sparse(lua_State *L, int index);

/* Returns whether the value at an index is a wrapped tensor of any kind. */
bool tli_is_wrapped(lua_State *L, int index);

/* Calls the handler with an operator's name and its arguments, the first n stack values, and
** returns the number of results; returns -1 if no argument, and no element of a list or a table of
** options, is a wrapped tensor. Called before an error would be raised, when the caller owns
** nothing. */
int tli_sparse_call(lua_State *L, const char *name, int n);

/* Pushes a sparse tensor whose user value, the table of components, is still missing. */
void tli_new_sparse(lua_State *L);

/* Pushes a gradient, which may be a sparse one. Takes over the reference, even if Lua raises an
** error. */
void tli_push_grad(lua_State *L, tl_Tensor *steals);

/* Returns a new reference to the gradient at an index, which is a dense tensor or a sparse tensor
** whose rows fit `of`. For any other value fails with a message that begins with `what`, and
** returns NULL. */
tl_Tensor *tli_to_grad(lua_State *L, int index, const tl_Tensor *of, const char *what) TL_MUSTCHECK;

void tli_open_sparse(lua_State *L);

#endif
