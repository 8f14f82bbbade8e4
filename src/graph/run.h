/*
** run.h - the structs of programs, which program.c makes and run.c runs.
*/
#ifndef TLI_RUN_H
#define TLI_RUN_H

#include "autograd/graph.h"
#include "core/kernel/sweep.h"
#include "core/platform/platform.h"
#include "graph/memory_plan.h"
#include "graph/program.h"

/* A position in a call's arguments where a run stores a tensor. */
typedef struct tli_RunSlot {
  tl_Tensor **place;
  int32_t value;
} tli_RunSlot;

/* A call with its own copy of the arguments; each run stores its tensors in this copy. */
typedef struct tli_RunStep {
  const tli_GraphCall *call;
  tli_CallArg *args;
  tli_RunSlot *slots;
  tl_Tensor **results;
  int32_t nslots;
  bool sweeps; /* whether the call is one of several elementwise calls that run in one sweep */
  bool placed; /* tli_graph_placed */
} tli_RunStep;

/* The state of one run of a program. */
typedef struct tli_RunContext {
  struct tli_RunContext *next;
  tli_Region region;
  tli_RunStep *steps;
  /* the tensor of each value (owned during a run, but constants and numbers are the program's) */
  tl_Tensor **values;
  bool *made;      /* for each output: whether the run has created the tensor */
  int64_t *sizes;  /* the sizes of the symbols in the last run */
  int loops;       /* the number of loops around the running call */
  int64_t repeats; /* how often the loops of this run may still repeat; -1 for no limit */
  tl_ProgramLimits limits;
  tl_Device device;
  int64_t stream; /* number of the device's stream on which the context runs */
  tli_RunPlan *plan;
  /* for the mark that begins a branch: the branch's plan, or NULL (borrowed) */
  tli_RunPlan **branches;
  tli_RunPlan *active;     /* the plan that records or serves blocks (borrowed) */
  tli_Generator generator; /* the generator from which the run draws random numbers */
  /* whether a run leaves its results to the caller instead of copying them. 0 and 1: it copies
  ** them; this is the number of runs for which the caller gave no tensors as outputs. 2: it leaves
  ** them to the caller. -1: it always copies them, because the caller has given tensors as outputs,
  ** or because the program trains or is not on the CPU. */
  int leaves;
  tli_Sweep *sweep; /* NULL if no elementwise calls follow one another */
  bool sweeping;    /* whether the sweep collects calls */
  /* tensors whose last use was in the sweep that is open (owned) */
  tl_Tensor **late;
  int32_t nlate;
} tli_RunContext;

struct tl_Program {
  tli_Graph *graph; /* owned */
  /* for each of the graph's numbers: its tensor (owned), or NULL if a hole computes the number */
  tl_Tensor **numbers;
  /* the results of calls, sorted by the time after which they are no longer used. The results for
  ** time t are dead[ndead[t]] to dead[ndead[t + 1] - 1]. Time 2 * i is after call i. Time 2 * i + 1
  ** is after the branches or the loop that end at call i. The last time is the end of the run. */
  int32_t *dead, *ndead;
  /* for each mark, the mark to which a run may jump (tli_branch_jumps); NULL without branches */
  int32_t *jumps;
  bool *patched;         /* for each of the graph's numbers: whether it depends on sizes */
  tl_Tensor **constants; /* the constants' tensors, or leaves that share memory with them (owned) */
  /* length of `constants`; less than the graph's number of constants if a schedule is added later,
  ** because its constants are added to the graph but not to this array */
  int32_t nconstants;
  bool has_state;
  tli_Mutex busy;          /* held during runs that change state; also guards the generator */
  tli_Generator generator; /* draws the random numbers of a program that trains */
  tli_Region region;
  /* the limits of a run: the iterations of its loops, and the seconds that it may take */
  _Atomic int64_t iterations;
  _Atomic double seconds;
  /* the context that the next run takes without a lock; NULL while a run uses it. Contexts for
  ** further threads and for devices other than the CPU are in the list `idle` */
  _Atomic(tli_RunContext *) spare;
  tli_Mutex lock; /* guards the list `idle` */
  tli_RunContext *idle;
  atomic_int contexts;
  _Atomic int64_t arena, live; /* memory figures of the context that ran last, in bytes */
};

void tli_context_free(tli_RunContext *c);

#endif
