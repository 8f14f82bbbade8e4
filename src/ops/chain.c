/*
** chain.c - implements chain.h. The array in a chain has room for the results of most formulas. A
** formula with a loop may have more steps, so a full array is moved to the heap.
*/
#include "ops/chain.h"

#include <string.h>

struct tli_ChainBlock {
  tli_ChainBlock *next;
  tl_Tensor *v[TLI_CHAIN_SLOTS];
};

/* Moves the tensors in the full array v to a block on the heap. */
static bool make_room(tli_Chain *c) {
  tli_ChainBlock *block = tli_alloc(sizeof *block);
  TL_TRY(block);
  memcpy(block->v, c->v, sizeof block->v);
  block->next = c->full;
  c->full = block;
  c->n = 0;
  return true;
}

tl_Tensor *tli_keep(tli_Chain *c, tl_Tensor *steals) {
  if (steals && c->n == TLI_CHAIN_SLOTS && !make_room(c)) {
    tli_release(steals);
    steals = NULL;
  }
  if (steals)
    c->v[c->n++] = steals;
  else
    c->failed = true;
  return steals;
}

tl_Tensor *tli_chain_end(tli_Chain *c, tl_Tensor *result) {
  if (c->failed) result = NULL;
  if (result) tli_retain(result);
  tli_release_results(c->v, c->n);
  c->n = 0;
  while (c->full) {
    tli_ChainBlock *block = c->full;
    c->full = block->next;
    tli_release_results(block->v, TLI_CHAIN_SLOTS);
    tli_free(block, sizeof *block);
  }
  return result;
}

bool tli_chain_end_all(tli_Chain *c, tl_Tensor **out, int n) {
  bool ok = !c->failed;
  for (int i = 0; i < n; i++) out[i] = ok && out[i] ? tli_retain(out[i]) : NULL;
  tli_chain_end(c, NULL);
  return ok;
}
