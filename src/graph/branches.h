/*
** branches.h - the marks: calls in a graph that delimit the branches of torch.cond and the loops of
** torch.while_loop.
*/
#ifndef TLI_GRAPH_BRANCHES_H
#define TLI_GRAPH_BRANCHES_H

#include "graph/call_graph.h"

extern const tli_Call tli_call_cond_begin; /* cond_begin(pred) begins the first branch */
/* cond_else(results) ends the first branch and begins the second */
extern const tli_Call tli_call_cond_else;
/* cond_end(results) returns copies of the results of the branch that has run */
extern const tli_Call tli_call_cond_end;

extern const tli_Call tli_call_loop_begin; /* loop_begin(carried) returns copies of its arguments */
extern const tli_Call tli_call_loop_test;  /* loop_test(pred) leaves the loop if pred is false */
extern const tli_Call tli_call_loop_end;   /* loop_end(carried) begins the next iteration */

extern const tli_Call *const tli_branch_calls[];
extern const int tli_branch_calls_count;

/* Sets *out to an array in the region, or to NULL if the graph has no marks. For each cond_begin
** the array has the index of its cond_else, for each cond_else and loop_test the index of its end,
** and for each loop_end the index of its loop_begin. Fails if the marks are not properly nested or
** are nested more than TLI_NESTED_MOST deep. */
enum { TLI_NESTED_MOST = 256 };
bool tli_branch_jumps(const tli_Graph *g, tli_Region *region, int32_t **out) TL_MUSTCHECK;

#endif
