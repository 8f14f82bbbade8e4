/*
** pack_hooks.h - hooks that pack saved tensors. The hooks receive the tensor that a node saves,
** store something else instead, and recreate the tensor when the backward pass needs it.
*/
#ifndef TLI_PACK_HOOKS_H
#define TLI_PACK_HOOKS_H

#include "autograd/graph.h"

typedef struct tli_PackHooks {
  /* Stores in *packed a substitute for the tensor. The tensor is borrowed, the substitute is
  ** owned. */
  bool (*pack)(void *context, tl_Tensor *tensor, void **packed);
  /* Recreates the packed tensor: *out receives a new reference to a tensor of the original shape,
  ** dtype and device. */
  bool (*unpack)(void *packed, tl_Tensor **out);
  void (*release)(void *packed); /* Frees a packed value; may be called in any thread. */
} tli_PackHooks;

/* Sets the hooks that pack the tensors that this thread saves from now on; NULL removes the current
** hooks. */
void tli_set_pack_hooks(const tli_PackHooks *hooks, void *context);
/* Returns whether this thread has hooks that pack saved tensors. */
bool tli_packing(void);

/* Replaces the tensor that was just saved in s by a packed value. On failure, releases the
** tensor. */
bool tli_pack(tli_Saved *s) TL_MUSTCHECK;
/* Implements tli_saved_get for a packed tensor. The `unpack` hook may cause the node's saved
** tensors to be released meanwhile. */
bool tli_unpack(const tli_Saved *s, tli_Node *n, tl_Tensor **out) TL_MUSTCHECK;
void tli_packed_release(struct tli_Packed *p);

#endif
