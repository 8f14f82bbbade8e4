/*
** program_run.h - programs as values of Lua (program.c), and their runs (program_run.c).
*/
#ifndef TLI_LUA_PROGRAM_RUN_H
#define TLI_LUA_PROGRAM_RUN_H

#include <lauxlib.h>

#include "graph/program.h"

#define TLI_PROGRAM "torch.Program" /* name of the metatable of programs */

/* Returns the program at a stack index. Raises an error if there is none. */
tl_Program *tli_check_program(lua_State *L, int index);

/* Returns an array of the tensors in the list at a stack index. The array is in a userdata, which
** the function pushes. */
tl_Tensor **tli_push_tensors(lua_State *L, int index, int *n);

/* The Lua functions that run a program: the methods `run`, `run_into` and `run_single`, and the
** metamethod __call. */
int tli_program_run_list(lua_State *L);
int tli_program_run_into(lua_State *L);
int tli_program_run_single(lua_State *L);
int tli_program_call(lua_State *L);

#endif
