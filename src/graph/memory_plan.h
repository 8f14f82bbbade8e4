/*
** memory_plan.h - plans the memory of a program's runs. The plan records every block that the first
** run requests and returns. The same operators on the same sizes request the same blocks in the
** same order, so later runs get blocks from one arena, at offsets that the plan computed from the
** blocks' lifetimes. Such a run takes no memory from the system, and its operators need not know
** about the plan.
*/
#ifndef TLI_GRAPH_PLAN_H
#define TLI_GRAPH_PLAN_H

#include "core/memory/alloc.h"

typedef struct tli_RunPlan tli_RunPlan;

tli_RunPlan *tli_run_plan_new(void) TL_MUSTCHECK;
void tli_run_plan_free(tli_RunPlan *p); /* Frees a plan. Accepts NULL. */

/* Begin and end a run in one thread. In between, the plan either records blocks or serves them. The
** run must return all blocks before its end. */
void tli_run_plan_begin(tli_RunPlan *p);
/* The run takes another way than the recorded one: the allocator serves all its further blocks. */
void tli_run_plan_diverge(tli_RunPlan *p);
void tli_run_plan_end(tli_RunPlan *p);
/* Pause and resume the plan during a run, for work whose blocks outlive the run. */
void tli_run_plan_pause(tli_RunPlan *p);
void tli_run_plan_resume(tli_RunPlan *p);
/* Forgets the plan, because the next run will request other blocks. */
void tli_run_plan_forget(tli_RunPlan *p);

/* tli_run_plan_arena returns the size of the arena in bytes. tli_run_plan_live returns the largest
** number of bytes that were in use at once in the planned run. Both are 0 before a plan exists. */
int64_t tli_run_plan_arena(const tli_RunPlan *p);
int64_t tli_run_plan_live(const tli_RunPlan *p);

#endif
