/*
** packed.h - what stands for a saved tensor while hooks pack it: they are
** given what a node saves and keep something else, from which they make the
** tensor again when the backward pass needs it.
*/
#ifndef TLI_PACKED_H
#define TLI_PACKED_H

#include "autograd/graph.h"

typedef struct tli_PackHooks {
  /* What stands for the tensor (borrowed), owned, goes to *packed. */
  bool (*pack)(void *context, tl_Tensor *tensor, void **packed);
  /* A new reference to a tensor of the same shape, dtype and device. */
  bool (*unpack)(void *packed, tl_Tensor **out);
  void (*release)(void *packed); /* in any thread */
} tli_PackHooks;

/* Per thread: what packs from now on; NULL: nobody. */
void tli_set_pack_hooks(const tli_PackHooks *hooks, void *context);
/* Whether somebody does. */
bool tli_packing(void);

/* Lets the tensor that was just saved be packed; drops it on failure. */
bool tli_pack(tli_Saved *s) TL_MUSTCHECK;
/* What tli_saved_get gives of something packed; the node may lose what it has
** saved meanwhile. */
bool tli_unpack(const tli_Saved *s, tli_Node *n, tl_Tensor **out) TL_MUSTCHECK;
void tli_packed_release(struct tli_Packed *p);

#endif
