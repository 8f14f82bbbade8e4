/*
** branches.h - the calls that mark the branches of torch.cond, and the loops of torch.while_loop.
*/
#ifndef TLI_GRAPH_BRANCHES_H
#define TLI_GRAPH_BRANCHES_H

#include "graph/call_graph.h"

extern const tli_Call tli_call_cond_begin; /* cond_begin(pred) */
extern const tli_Call tli_call_cond_else;  /* cond_else(results) */
extern const tli_Call tli_call_cond_end;   /* cond_end(results) returns the results of a branch */

extern const tli_Call tli_call_loop_begin; /* loop_begin(carried) returns copies */
extern const tli_Call tli_call_loop_test;  /* loop_test(pred) */
extern const tli_Call tli_call_loop_end;   /* loop_end(carried) */

extern const tli_Call *const tli_branch_calls[];
extern const int tli_branch_calls_count;

/* Sets *out to an array in the region which has, for each cond_begin, the index of its cond_else,
** for each cond_else and each loop_test, the index of its end, and for each loop_end, the index of its
** loop_begin; to NULL if the graph has no marks. Fails unless the marks are properly nested, at most
** TLI_NESTED_MOST deep. */
enum { TLI_NESTED_MOST = 256 };
bool tli_branch_jumps(const tli_Graph *g, tli_Region *region, int32_t **out) TL_MUSTCHECK;

#endif
