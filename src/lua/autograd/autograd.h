/*
** autograd.h - declarations that the binding's files for gradients share.
*/
#ifndef TLI_LUA_AUTOGRAD_H
#define TLI_LUA_AUTOGRAD_H

#include "lua/state.h"

/* Each function below adds the Lua functions of one file to the table torch, which is on top of the
** stack, or to torch.autograd. */
void tli_open_modes(lua_State *L);    /* defined in modes/grad_modes.c */
void tli_open_autocast(lua_State *L); /* autocast.c */
void tli_open_nodes(lua_State *L);    /* node.c */
void tli_open_function(lua_State *L); /* function.c */
void tli_open_saved_hooks(lua_State *L);
void tli_open_tensor_history(lua_State *L);

int tli_tensor_backward(lua_State *L); /* the tensor method backward, defined in autograd.c */

/* Makes the hooks in slot number `mode` the hooks that pack this C thread's saved tensors
** (saved_hooks.c). */
void tli_saved_hooks_load(tli_State *S, int mode);
/* Releases all hooks that pack saved tensors, when the state closes. */
void tli_saved_hooks_close(tli_State *S);

/* Pushes a userdata that will own a node, and returns the address at which the caller stores the
** node. */
tli_Node **tli_push_node_box(lua_State *L);
/* Returns the gradient edge at a stack index, borrowed; NULL for other values. */
const struct tli_Edge *tli_to_edge(lua_State *L, int index);

/* Adds the functions of a list to the table torch[field], and creates the table if necessary. torch
** is on top of the stack. */
void tli_set_module(lua_State *L, const char *field, const luaL_Reg *list);
/* Makes the metatable of a class of userdata, with the list's functions as methods. */
void tli_open_class(lua_State *L, const char *name, const luaL_Reg *list);

#endif
