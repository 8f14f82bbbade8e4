/*
** sparse.h - the binding's part of sparse tensors. A sparse tensor is a userdata without content;
** its user value is a Lua table with its component tensors, which lua/tlua/sparse reads. Operators
** that find one among their arguments, after they have refused it, call a handler in Lua.
*/
#ifndef TLI_SPARSE_VALUES_H
#define TLI_SPARSE_VALUES_H

#include "lua/args/args.h"

/* Returns whether the value at an index is a sparse tensor. */
bool tli_is_sparse(lua_State *L, int index);

/* Calls the handler with an operator's name and its arguments, the first n stack values, and
** returns the number of results; returns -1 if no argument, and no element of a list or a table of
** options, is a sparse tensor. It is called instead of raising an error, when nothing is owned. */
int tli_sparse_call(lua_State *L, const char *name, int n);

/* Pushes a sparse tensor whose user value, the table of components, is still missing. */
void tli_new_sparse(lua_State *L);

/* Pushes a gradient, which may be a sparse one. Takes over the reference, also if Lua raises an
** error. */
void tli_push_grad(lua_State *L, tl_Tensor *steals);

/* Returns a new reference to the gradient at an index: a tensor, or a sparse gradient made from a
** sparse tensor for `of`. Returns NULL with a message for any other value; `what` begins it. */
tl_Tensor *tli_to_grad(lua_State *L, int index, const tl_Tensor *of, const char *what) TL_MUSTCHECK;

void tli_open_sparse(lua_State *L);

#endif
