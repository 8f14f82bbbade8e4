/*
** recorder.h - the trace of a thread, which call_recorder.c and branch_recorder.c share.
*/
#ifndef TLI_GRAPH_RECORDER_H
#define TLI_GRAPH_RECORDER_H

#include "core/observe/trace.h"
#include "graph/addresses.h"
#include "graph/call_graph.h"

/* The storage of an input, a constant or a result. */
typedef struct tli_TraceMemory {
  tli_ValueKind kind;
  tl_Tensor *first; /* the first tensor seen with this storage (borrowed from `kept`) */
  unsigned version; /* the storage's version after the last recorded call */
  int32_t constant; /* the constant's index in the graph; -1 before its first use */
  bool copied;      /* whether the graph's constant is a copy or a permutation of `first` */
  bool changes;     /* whether runs of the program may change the values */
} tli_TraceMemory;

typedef struct tli_TraceName {
  const char *name;
  tl_Tensor *tensor; /* the constant's tensor (borrowed from `kept`) */
  bool changes;      /* whether the traced code may change the tensor */
} tli_TraceName;

/* A tensor that has become known in a branch, and the number of the value for which it stood before
** (-1 for none). */
typedef struct tli_TraceChange {
  tl_Tensor *tensor; /* the tensor (borrowed from `kept`) */
  int32_t value;
} tli_TraceChange;

/* The lengths of `changes` and `memories` when a branch began, so that later entries can be told
** from earlier ones. */
typedef struct tli_TraceBranch {
  int32_t changes, memories;
} tli_TraceBranch;

/* stands in place of a value's number for a tensor that was made in a branch that has ended */
enum { TLI_TRACE_LOCAL = -2 };

struct tli_Trace {
  tli_Tracer tracer;
  tli_Graph *graph; /* the graph that is being recorded (owned); NULL once the trace is finished */
  tli_Region region;
  tli_Addresses values;   /* maps tensors to values */
  tli_Addresses named_at; /* maps tensors to indices in `named` */
  tli_Addresses memories_at;
  /* tensors whose .grad was set or cleared during this trace, so it is not from an earlier step */
  tli_Addresses fresh;
  bool step;        /* whether backward passes are recorded */
  bool live;        /* whether each run records gradients */
  bool placed;      /* whether the program's device has been determined */
  tl_Tensor **kept; /* owned */
  tli_TraceMemory *memories;
  tli_TraceName *named;
  int32_t nkept, nmemories, nnamed, unnamed;
  /* whether each of the first `nold` tensors in `kept` has a gradient of an earlier step */
  bool *old;
  int32_t nold;
  /* a tensor to whose gradient of an earlier step a pass may have added; NULL if there is none */
  const tl_Tensor *added;
  bool takes; /* whether the traced code has read a gradient */
  tli_TraceChange *changes;
  tli_TraceBranch *branches; /* branches that have not ended, the innermost last */
  int32_t nchanges, nbranches;
  /* arguments of the running call, in the form in which the graph stores them */
  tli_CallArg *pending;
};

/* Stores that a tensor stands for the graph's value with the given number. */
bool tli_trace_note(tli_Trace *t, tl_Tensor *tensor, int32_t value, tli_ValueKind kind)
    TL_MUSTCHECK;
/* Returns the number of an argument's value; -1 for an absent tensor. Sets *ok to false after a
** failure. */
int32_t tli_trace_value(tli_Trace *t, tl_Tensor *tensor, bool *ok);
/* Sets out->ints to the numbers of the values of several arguments. */
bool tli_trace_values(tli_Trace *t, tl_Tensors given, tli_CallArg *out) TL_MUSTCHECK;

#endif
