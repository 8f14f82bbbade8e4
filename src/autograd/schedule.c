/*
** schedule.c - a depth-first walk over the graph with a stack of its own. Invariant: slots are
** referred to by number, because the array may move during the walk.
*/
#include "autograd/schedule.h"

#include <string.h>

#include "core/memory/alloc.h"

/* ---- arrays ---- */

/* Makes room for more than n elements. */
static bool grow(void **data, int32_t *room, int32_t n, size_t element) {
  if (n < *room) return true;
  int32_t more = *room ? 2 * *room : 64;
  if (*room > INT32_MAX / 2) return tli_fail(TL_EMEM, "backward: the graph is too large");
  void *new = tli_alloc((size_t)more * element);
  TL_TRY(new);
  if (*room) memcpy(new, *data, (size_t)n * element);
  if (*room) tli_free(*data, (size_t)*room * element);
  *data = new;
  *room = more;
  return true;
}

#define GROW(array, room, n) grow((void **)&(array), &(room), n, sizeof *(array))

/* ---- slots of nodes and leaves ---- */

static const void *key_of(const tli_Edge *edge) {
  return edge->node ? (const void *)edge->node : (const void *)edge->leaf;
}

/* Returns the slot of an edge's destination and creates it if necessary; -1 if there is no
** destination, -2 on failure. */
static int32_t slot_for(tli_Plan *p, const tli_Edge *edge) {
  const void *key = key_of(edge);
  if (key == NULL) return -1;
  tli_Place *place = tli_places_add(&p->places, key);
  if (place == NULL) return -2;
  if (place->slot > 0) return place->slot - 1;
  if (!GROW(p->slots, p->slot_room, p->nslots)) return -2;
  p->slots[p->nslots] = (tli_Slot){.node = edge->node, .leaf = edge->leaf, .captures = -1};
  place->slot = ++p->nslots;
  return place->slot - 1;
}

int32_t tli_plan_slot(const tli_Plan *p, const tli_Edge *edge) {
  const tli_Place *place = tli_places_find(&p->places, key_of(edge));
  return place ? place->slot - 1 : -1;
}

/* ---- the traversal ---- */

typedef struct Frame {
  int32_t slot;
  int32_t edge; /* the edge that the walk follows next */
} Frame;

typedef struct Walk {
  tli_Plan *plan;
  bool all; /* whether the gradients of all nodes and leaves are wanted */
  Frame *stack;
  int32_t depth, room;
} Walk;

/* Returns whether the pass ends at the node instead of following its edges. */
static bool ends_at(const tli_Node *node) { return node->cut && !tli_tangent_pass(); }

/* Visits a slot for the first time. If it stands for a node, puts it on the stack, so that `step`
** follows the node's edges. */
static bool enter(Walk *w, int32_t at) {
  tli_Plan *p = w->plan;
  tli_Slot *s = &p->slots[at];
  s->seen = true;
  s->wanted = w->all || s->captures >= 0;
  if (s->node == NULL) return true;
  s->runs = w->all && !ends_at(s->node);
  s->targets = p->ntargets;
  for (int i = 0; i < s->node->ninputs; i++) {
    TL_TRY(GROW(p->targets, p->target_room, p->ntargets));
    p->targets[p->ntargets++] = -1;
  }
  TL_TRY(GROW(w->stack, w->room, w->depth));
  w->stack[w->depth++] = (Frame){at, 0};
  return true;
}

static void want(tli_Plan *p, int32_t from, int32_t to) {
  if (!p->slots[to].wanted) return;
  p->slots[from].runs = true;
  p->slots[from].wanted = true;
}

/* Does one step: follows an edge of the topmost node, or leaves that node. A slot is wanted if one
** of its edges leads to a wanted slot. That is known only after the walk has left the destination
** of the edge. So `wanted` is passed back along an edge at two moments: when the edge leads to a
** slot that was left before, and when the walk leaves the destination. */
static bool step(Walk *w) {
  tli_Plan *p = w->plan;
  Frame *top = &w->stack[w->depth - 1];
  const tli_Node *node = p->slots[top->slot].node;
  if (top->edge == node->ninputs || ends_at(node)) {
    w->depth--;
    if (w->depth > 0) want(p, w->stack[w->depth - 1].slot, top->slot);
    return true;
  }
  int32_t from = top->slot, i = top->edge++;
  int32_t to = slot_for(p, &node->edges[i]);
  if (to == -1) return true;
  TL_TRY(to >= 0);
  p->targets[p->slots[from].targets + i] = to;
  p->slots[to].uses++;
  if (!p->slots[to].seen) TL_TRY(enter(w, to));
  want(p, from, to);
  return true;
}

static bool walk_from(Walk *w, const tli_Edge *root) {
  int32_t at = slot_for(w->plan, root);
  TL_TRY(at >= 0);
  w->plan->slots[at].uses++;
  if (w->plan->slots[at].seen) return true;
  TL_TRY(enter(w, at));
  while (w->depth > 0) TL_TRY(step(w));
  return true;
}

static bool mark_inputs(tli_Plan *p, const tli_Edge *inputs, int ninputs) {
  if (ninputs == 0) return true;
  p->next = tli_alloc((size_t)ninputs * sizeof *p->next);
  TL_TRY(p->next);
  p->ninputs = ninputs;
  for (int i = ninputs - 1; i >= 0; i--) {
    int32_t at = slot_for(p, &inputs[i]);
    TL_TRY(at >= 0);
    p->next[i] = p->slots[at].captures;
    p->slots[at].captures = i;
  }
  return true;
}

bool tli_plan_build(tli_Plan *p, const tli_Edge *roots, int nroots, const tli_Edge *inputs,
                    int ninputs) {
  *p = (tli_Plan){.slots = NULL};
  TL_TRY(mark_inputs(p, inputs, ninputs));
  Walk w = {.plan = p, .all = ninputs == 0};
  bool ok = true;
  for (int i = 0; i < nroots && ok; i++) ok = walk_from(&w, &roots[i]);
  if (w.room) tli_free(w.stack, (size_t)w.room * sizeof *w.stack);
  return ok;
}

/* ---- slots ---- */

bool tli_slot_open(tli_Slot *s) {
  if (tli_slot_grads(s)) return true;
  size_t bytes = (size_t)s->node->noutputs * sizeof *s->many;
  s->many = tli_alloc(bytes);
  TL_TRY(s->many);
  memset(s->many, 0, bytes);
  return true;
}

void tli_slot_clear(tli_Slot *s) {
  if (s->node == NULL || s->node->noutputs == 1) {
    tl_Tensor *t = s->one;
    s->one = NULL;
    tli_release(t);
  } else if (s->many) {
    for (int k = 0; k < s->node->noutputs; k++) tli_release(s->many[k]);
    tli_free(s->many, (size_t)s->node->noutputs * sizeof *s->many);
    s->many = NULL;
  }
}

void tli_plan_free(tli_Plan *p) {
  for (int32_t s = 0; s < p->nslots; s++) tli_slot_clear(&p->slots[s]);
  if (p->slot_room) tli_free(p->slots, (size_t)p->slot_room * sizeof *p->slots);
  if (p->target_room) tli_free(p->targets, (size_t)p->target_room * sizeof *p->targets);
  if (p->ninputs) tli_free(p->next, (size_t)p->ninputs * sizeof *p->next);
  tli_places_clear(&p->places);
}
