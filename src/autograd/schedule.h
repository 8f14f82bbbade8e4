/*
** schedule.h - the plan of a backward pass, made before the pass starts: every node and leaf that
** the roots lead to and, for each of them, the number of gradients that will arrive and whether its
** own gradient is needed.
*/
#ifndef TLI_SCHEDULE_H
#define TLI_SCHEDULE_H

#include "autograd/graph.h"
#include "core/memory/alloc.h"

/* A node or a leaf that the backward pass may reach; the roots keep the node or leaf alive. */
typedef struct tli_Slot {
  tli_Node *node;  /* the node (borrowed); NULL for a leaf */
  tl_Tensor *leaf; /* the leaf (borrowed); NULL for a node */
  int32_t uses;    /* number of gradients that have not arrived yet */
  int32_t targets; /* for a node: index into tli_Plan.targets for its first edge */
  /* the first input whose gradient this slot provides, or -1; tli_Plan.next links to the others */
  int32_t captures;
  bool seen;
  bool runs;        /* for a node: whether some edge leads to a wanted slot */
  bool wanted;      /* whether the slot's gradient is needed */
  union {           /* the sum of the gradients that have arrived (owned) */
    tl_Tensor *one; /* the sum, for a leaf or a node with one output */
    /* for other nodes: a sum for each output, NULL until its first gradient arrives */
    tl_Tensor **many;
  };
} tli_Slot;

/* An entry of a hash table from nodes and leaves to the numbers of their slots. */
typedef struct tli_Place {
  const void *key; /* the address of the node or the leaf */
  int32_t slot;    /* the slot's number + 1; 0 in a new entry */
} tli_Place;

#define MAP tli_places
#define MAP_ENTRY tli_Place
#define MAP_GET(n) tli_alloc(n)
#define MAP_PUT(p, n) tli_free(p, n)
#include "core/memory/address_map.h"

typedef struct tli_Plan {
  tli_Slot *slots;
  int32_t nslots, slot_room;
  int32_t *targets; /* for each edge of each node: the number of the destination's slot, or -1 */
  int32_t ntargets, target_room;
  int32_t *next; /* for each input: the next input whose edge leads to the same slot, or -1 */
  int ninputs;
  tli_places_Map places;
} tli_Plan;

/* Builds the plan. The edges of `inputs` lead to the nodes and leaves whose gradients are wanted;
** if there are no inputs, all gradients are wanted. Returns false if memory is exhausted or the
** graph is too large. The caller frees the plan in either case. */
bool tli_plan_build(tli_Plan *p, const tli_Edge *roots, int nroots, const tli_Edge *inputs,
                    int ninputs) TL_MUSTCHECK;
/* Frees the plan and the gradients that it still holds. */
void tli_plan_free(tli_Plan *p);

/* Returns an array of the slot's gradients, one for each output; the array may be NULL if no
** gradient has arrived. */
static inline tl_Tensor **tli_slot_grads(tli_Slot *s) {
  return s->node && s->node->noutputs != 1 ? s->many : &s->one;
}
/* Makes room for the slot's gradients. */
bool tli_slot_open(tli_Slot *s) TL_MUSTCHECK;
/* Releases the slot's gradients. */
void tli_slot_clear(tli_Slot *s);

/* Returns the slot that an edge leads to, or -1 if the plan has none. An input has a slot even if
** the pass does not visit it; `seen` is then false. */
int32_t tli_plan_slot(const tli_Plan *p, const tli_Edge *edge);

#endif
