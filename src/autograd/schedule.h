/*
** schedule.h - the plan of a backward pass, made before it starts: every node and leaf that the
** roots lead to, how many gradients each will receive, and which of them are needed.
*/
#ifndef TLI_SCHEDULE_H
#define TLI_SCHEDULE_H

#include "autograd/graph.h"
#include "core/memory/alloc.h"

/* A node or a leaf that the pass may reach; the roots keep it alive. */
typedef struct tli_Slot {
  tli_Node *node;   /* borrowed; NULL for a leaf */
  tl_Tensor *leaf;  /* borrowed; NULL for a node */
  int32_t uses;     /* gradients still to arrive */
  int32_t targets;  /* for a node: index of its first edge in tli_Plan.targets */
  int32_t captures; /* the first input whose gradient is wanted here, -1: none; see tli_Plan.next */
  bool seen;
  bool runs;          /* for a node: some of its edges lead to a wanted slot */
  bool wanted;        /* its gradient is needed */
  union {             /* owned; the sum so far */
    tl_Tensor *one;   /* for a leaf, and for a node with one output */
    tl_Tensor **many; /* for other nodes: one for each output; NULL until the first arrives */
  };
} tli_Slot;

/* The position of a node's or leaf's slot. */
typedef struct tli_Place {
  const void *key; /* the node or the leaf */
  int32_t slot;    /* its number + 1; 0 in an entry that is new */
} tli_Place;

#define MAP tli_places
#define MAP_ENTRY tli_Place
#define MAP_GET(n) tli_alloc(n)
#define MAP_PUT(p, n) tli_free(p, n)
#include "core/memory/address_map.h"

typedef struct tli_Plan {
  tli_Slot *slots;
  int32_t nslots, slot_room;
  int32_t *targets; /* for each edge of a node: the slot it leads to, -1: none */
  int32_t ntargets, target_room;
  int32_t *next; /* for each input: the next one with the same slot, -1: none */
  int ninputs;
  tli_places_Map places;
} tli_Plan;

/* Builds the plan. Each edge of `inputs` leads to a place whose gradient is wanted; without
** inputs, all gradients are wanted. Returns false if memory is exhausted. The plan has to be
** freed in either case. */
bool tli_plan_build(tli_Plan *p, const tli_Edge *roots, int nroots, const tli_Edge *inputs,
                    int ninputs) TL_MUSTCHECK;
/* Frees the plan and the gradients that are left. */
void tli_plan_free(tli_Plan *p);

/* Returns the slot's gradients, one for each output; NULL if none has arrived. */
static inline tl_Tensor **tli_slot_grads(tli_Slot *s) {
  return s->node && s->node->noutputs != 1 ? s->many : &s->one;
}
/* Makes room for the slot's gradients. */
bool tli_slot_open(tli_Slot *s) TL_MUSTCHECK;
/* Releases the slot's gradients. */
void tli_slot_clear(tli_Slot *s);

/* Returns the slot that an edge leads to, or -1 if the pass does not visit it. */
int32_t tli_plan_slot(const tli_Plan *p, const tli_Edge *edge);

#endif
