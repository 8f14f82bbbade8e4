/*
** results.h - how generated functions end: results into boxes, out= forms.
*/
#ifndef TLI_RESULTS_H
#define TLI_RESULTS_H

#include "lua/args/args.h"

/* The end of a call with out= as parameter i: releases what `a` holds,
** assigns `steals` (NULL: the operator failed) to it and returns it to Lua. */
int tli_return_out(tli_Args *a, int i, tl_Tensor *steals);
/* Moves n results into the boxes on top of the stack. Results that there are
** not become nil, or nothing at the end. */
int tli_return_several(lua_State *L, tli_State *S, tli_Box **boxes, tl_Tensor **steals, int n);

#endif
