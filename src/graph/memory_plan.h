/*
** memory_plan.h - the memory of a run. The first run tells the plan of every block that it takes and
** returns; since the same operators on the same sizes ask for the same blocks in the same order,
** later runs get them at places in one arena that were found from the blocks' lifetimes. So a run
** takes no memory from the system, and its operators need not know.
*/
#ifndef TLI_GRAPH_PLAN_H
#define TLI_GRAPH_PLAN_H

#include "core/memory/alloc.h"

typedef struct tli_RunPlan tli_RunPlan;

tli_RunPlan *tli_run_plan_new(void) TL_MUSTCHECK;
void tli_run_plan_free(tli_RunPlan *p); /* accepts NULL */

/* Around a run in one thread: its blocks are planned, or served by the plan. All must have been
** returned before the end. */
void tli_run_plan_begin(tli_RunPlan *p);
void tli_run_plan_end(tli_RunPlan *p);
/* Within a run, around work whose blocks outlive it. */
void tli_run_plan_pause(tli_RunPlan *p);
void tli_run_plan_resume(tli_RunPlan *p);
/* Forgets the plan, for a run that will ask for other blocks. */
void tli_run_plan_forget(tli_RunPlan *p);

/* The bytes of the arena, and the most bytes that were in use at once in the planned run; 0 before
** there is a plan. */
int64_t tli_run_plan_arena(const tli_RunPlan *p);
int64_t tli_run_plan_live(const tli_RunPlan *p);

#endif
