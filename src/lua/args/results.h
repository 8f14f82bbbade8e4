/*
** results.h - returns the results of generated functions to Lua: in boxes, or by a copy to the
** tensor of the option `out`.
*/
#ifndef TLI_RESULTS_H
#define TLI_RESULTS_H

#include "lua/args/args.h"

/* Ends a call whose parameter i is `out`: releases the contents of `a`, writes the result `steals`
** to the tensor `out`, and returns that tensor to Lua. `steals` is NULL if the operator has
** failed. */
int tli_return_out(tli_Args *a, int i, tl_Tensor *steals);
/* Moves n results into the boxes on top of the stack. A missing result becomes nil; missing results
** at the end are left out. */
int tli_return_several(lua_State *L, tli_State *S, tli_Box **boxes, tl_Tensor **steals, int n);

#endif
