/*
** schedule.h - what a backward pass will visit, found before it starts: every
** node and leaf that the roots lead to, how many gradients each will be sent,
** and which of them matter.
*/
#ifndef TLI_SCHEDULE_H
#define TLI_SCHEDULE_H

#include "autograd/graph.h"
#include "core/memory/alloc.h"

/* A node or a leaf that the pass may reach. What it refers to is kept alive by
** the roots. */
typedef struct tli_Slot {
  tli_Node *node;   /* borrowed; NULL for a leaf */
  tl_Tensor *leaf;  /* borrowed; NULL for a node */
  int32_t uses;     /* gradients still to come */
  int32_t targets;  /* of a node: the first of its edges in tli_Plan.targets */
  int32_t captures; /* the first input wanted here, -1: none; see tli_Plan.next */
  bool seen;
  bool runs;          /* of a node: some of its edges lead to a wanted slot */
  bool wanted;        /* its gradient is of use */
  union {             /* owned; what has come so far */
    tl_Tensor *one;   /* of a leaf, and of a node with one output */
    tl_Tensor **many; /* of other nodes: one per output; NULL until the first comes */
  };
} tli_Slot;

/* Where the slot of a node or leaf is. */
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
  int32_t *targets; /* per edge of a node: the slot it leads to, -1: nowhere */
  int32_t ntargets, target_room;
  int32_t *next; /* per input: the next one with the same slot, -1: none */
  int ninputs;
  tli_places_Map places;
} tli_Plan;

/* Finds everything. An edge of `inputs` leads to the place whose gradient is
** wanted; with none, all that can be reached is. False on lack of memory; to
** be freed in either case. */
bool tli_plan_build(tli_Plan *p, const tli_Edge *roots, int nroots, const tli_Edge *inputs,
                    int ninputs) TL_MUSTCHECK;
/* Frees it with the gradients that were left. */
void tli_plan_free(tli_Plan *p);

/* The slot's gradients, one per output; NULL if none has come. */
static inline tl_Tensor **tli_slot_grads(tli_Slot *s) {
  return s->node && s->node->noutputs != 1 ? s->many : &s->one;
}
/* Makes room for them. */
bool tli_slot_open(tli_Slot *s) TL_MUSTCHECK;
/* Releases them. */
void tli_slot_clear(tli_Slot *s);

/* The slot that an edge leads to, -1 if the pass does not visit it. */
int32_t tli_plan_slot(const tli_Plan *p, const tli_Edge *edge);

#endif
