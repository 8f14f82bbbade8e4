/*
** sparse.h - the binding's part of wrapped tensors: sparse, masked and nested ones. A wrapped
** tensor is a userdata without content; its user value is a Lua table with its component tensors,
** which the code in lua/tlua/sparse, masked or nested uses. Each kind has a metatable and a
** handler. When an operator has refused its arguments and one of them is a wrapped tensor, the
** handler of that kind, a Lua function, is called with the arguments.
*/
#ifndef TLI_SPARSE_VALUES_H
#define TLI_SPARSE_VALUES_H

#include "lua/args/args.h"

/* Returns whether the value at a stack index is a sparse tensor. */
bool tli_is_sparse(lua_State *L, int index);

/* Returns whether the value at a stack index is a wrapped tensor of any kind. */
bool tli_is_wrapped(lua_State *L, int index);

/* Calls the handler with an operator's name and its arguments, the first n stack values, and
** returns the number of results; returns -1 if there is no wrapped tensor among the arguments, in a
** list or in a table of options. Must be called before the operator's error is raised, when the
** caller owns nothing. */
int tli_sparse_call(lua_State *L, const char *name, int n);

/* Pushes a sparse tensor whose user value, the table of components, is still missing. */
void tli_new_sparse(lua_State *L);

/* Pushes a gradient, which may be a sparse one. Takes over the reference, even if Lua raises an
** error. */
void tli_push_grad(lua_State *L, tl_Tensor *steals);

/* Returns a new reference to the gradient at a stack index, which is a dense tensor or a sparse
** tensor whose rows fit `of`. For any other value fails with a message that begins with `what`, and
** returns NULL. */
tl_Tensor *tli_to_grad(lua_State *L, int index, const tl_Tensor *of, const char *what) TL_MUSTCHECK;

void tli_open_sparse(lua_State *L);

#endif
