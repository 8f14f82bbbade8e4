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
/* Lets a run's plan serve a device's memory as well, in an arena of its own. */
bool tli_run_plan_on(tli_RunPlan *p, tl_Device device) TL_MUSTCHECK;
/* Adds the plan of one branch to a run's plan, which owns the new plan. */
tli_RunPlan *tli_run_plan_add(tli_RunPlan *p) TL_MUSTCHECK;
void tli_run_plan_free(tli_RunPlan *p); /* Frees a plan and those added to it. Accepts NULL. */

/* Begin and end a run in one thread. In between, the plan either records blocks or serves them. The
** run must return all blocks before its end. */
void tli_run_plan_begin(tli_RunPlan *p);
/* Leaves the device's memory to its allocator in the runs that begin from now on, or does not. */
void tli_run_plan_mute(tli_RunPlan *p, bool mute);
void tli_run_plan_end(tli_RunPlan *p);
/* Begin and end a branch, whose blocks its own plan records or serves. tli_run_plan_leave returns
** the plan `outer`, which then goes on. Blocks that are in use after the branch may be returned to
** any plan of the run. */
void tli_run_plan_enter(tli_RunPlan *branch, tli_RunPlan *outer);
tli_RunPlan *tli_run_plan_leave(tli_RunPlan *branch);
tli_RunPlan *tli_run_plan_outer(const tli_RunPlan *branch); /* the plan around an entered branch */
/* Pause and resume the plan during a run, for work whose blocks outlive the run. */
void tli_run_plan_pause(tli_RunPlan *p);
void tli_run_plan_resume(tli_RunPlan *p);
/* Returns whether an address is in the memory that a run's plan serves. */
bool tli_run_plan_owns(const tli_RunPlan *p, const void *address);
/* Forgets a run's plan and those of its branches, because the next run will request other blocks. */
void tli_run_plan_forget(tli_RunPlan *p);

/* tli_run_plan_arena returns the size of the arenas in bytes. tli_run_plan_live returns the largest
** number of bytes that were in use at once in the planned runs; a branch counts as if it ran when
** most blocks around it are in use. Both are 0 before a plan exists. */
int64_t tli_run_plan_arena(const tli_RunPlan *p);
int64_t tli_run_plan_live(tli_RunPlan *p);

#endif
