/*
** branches.h - the calls that mark the branches of torch.cond in a graph's list of calls.
*/
#ifndef TLI_GRAPH_BRANCHES_H
#define TLI_GRAPH_BRANCHES_H

#include "graph/call_graph.h"

extern const tli_Call tli_call_cond_begin; /* cond_begin(pred) */
extern const tli_Call tli_call_cond_else;  /* cond_else(results) */
extern const tli_Call tli_call_cond_end;   /* cond_end(results) returns the results of a branch */

extern const tli_Call *const tli_branch_calls[];
extern const int tli_branch_calls_count;

/* Sets *out to an array in the region which has, for each cond_begin, the index of its cond_else,
** and for each cond_else, the index of its cond_end; to NULL if the graph has no branches. Fails
** unless the marks are properly nested. */
bool tli_branch_jumps(const tli_Graph *g, tli_Region *region, int32_t **out) TL_MUSTCHECK;

#endif
