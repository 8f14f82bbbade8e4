/*
** memory_plan.h - plans the memory of a program's runs. The plan records every block that the first
** run requests and returns. The same operators on the same sizes request the same blocks in the
** same order, so later runs get blocks from one arena, at offsets that the plan computed from the
** blocks' lifetimes. These later runs take no memory from the system. Operators need not know about
** the plan, because it intercepts the calls of the allocator.
*/
#ifndef TLI_GRAPH_PLAN_H
#define TLI_GRAPH_PLAN_H

#include "core/memory/alloc.h"

typedef struct tli_RunPlan tli_RunPlan;

tli_RunPlan *tli_run_plan_new(void) TL_MUSTCHECK;
/* Adds to a run's plan a second plan with an arena of its own, for a device's memory. */
bool tli_run_plan_on(tli_RunPlan *p, tl_Device device) TL_MUSTCHECK;
/* Adds the plan of one branch to a run's plan, which owns the new plan. */
tli_RunPlan *tli_run_plan_add(tli_RunPlan *p) TL_MUSTCHECK;
/* Frees a run's plan and the plans that were added to it. Accepts NULL. */
void tli_run_plan_free(tli_RunPlan *p);

/* These functions begin and end a run in the calling thread. In between, the plan either records
** blocks or serves them. The run must return all blocks before it ends. */
void tli_run_plan_begin(tli_RunPlan *p);
/* If `mute` is true, the device's allocator serves the device's memory in the runs that begin from
** now on; otherwise the plan does. */
void tli_run_plan_mute(tli_RunPlan *p, bool mute);
void tli_run_plan_end(tli_RunPlan *p);
/* These functions begin and end a branch, whose blocks its own plan records or serves.
** tli_run_plan_leave returns the plan `outer`, which is active again. Blocks that are in use after
** the branch may be returned to any plan of the run. */
void tli_run_plan_enter(tli_RunPlan *branch, tli_RunPlan *outer);
tli_RunPlan *tli_run_plan_leave(tli_RunPlan *branch);
/* Returns the plan that surrounds a branch that has begun. */
tli_RunPlan *tli_run_plan_outer(const tli_RunPlan *branch);
/* These functions pause and resume the plan during a run. Code that allocates blocks which outlive
** the run pauses the plan. */
void tli_run_plan_pause(tli_RunPlan *p);
void tli_run_plan_resume(tli_RunPlan *p);
/* Returns whether an address is in the memory that a run's plan serves. */
bool tli_run_plan_owns(const tli_RunPlan *p, const void *address);
/* Discards a run's plan and the plans of its branches, because the next run will request other
** blocks. */
void tli_run_plan_forget(tli_RunPlan *p);

/* tli_run_plan_arena returns the size of the arenas in bytes. tli_run_plan_live returns the largest
** number of bytes that were in use at once in the planned runs; a branch counts as if it ran when
** the largest number of bytes around it are in use. Both are 0 before a plan exists. */
int64_t tli_run_plan_arena(const tli_RunPlan *p);
int64_t tli_run_plan_live(tli_RunPlan *p);

#endif
