/*
** hooks.h - functions that are called with a gradient when it arrives.
**
** A leaf's hooks are in its autograd state. A result's hooks belong to the node that produced
** it: they run even if the tensor is freed, and stay with the node if an in-place operator
** gives the tensor another history.
*/
#ifndef TLI_HOOKS_H
#define TLI_HOOKS_H

#include "autograd/graph.h"

typedef struct tli_Hook {
  atomic_int refs; /* references to the struct; the context may be released earlier */
  int lists;       /* number of lists that contain it; the context stays while there are any */
  int calls;       /* number of running calls; the context stays while there are any */
  int output;      /* index of the node's output; 0 for a leaf */
  bool after;      /* for a leaf: called with the leaf after accumulation into .grad */
  bool retains;    /* added by tli_retain_grad; runs after the other hooks */
  tli_HookFn fn;   /* NULL once removed */
  void *context;   /* owned; freed by `release` */
  void (*release)(void *context);
} tli_Hook;

typedef struct tli_Hooks {
  int n;
  int capacity;
  tli_Hook *hooks[]; /* owned references */
} tli_Hooks;

/* Runs the hooks for one gradient; their results replace *grad. The list may change or be freed
** meanwhile; hooks that are added then are not called yet. The list may be NULL. `name` is for
** messages. */
bool tli_hooks_run(const tli_Hooks *hooks, const char *name, int output, tl_Tensor **grad)
    TL_MUSTCHECK;
/* Runs a leaf's hooks that wait for accumulation into .grad. */
bool tli_hooks_run_after(tl_Tensor *leaf) TL_MUSTCHECK;
/* Adds such a hook like tli_hook_add, to a leaf that requires a gradient. */
tli_Hook *tli_hook_add_after(tl_Tensor *leaf, tli_HookFn fn, void *context,
                             void (*release)(void *context)) TL_MUSTCHECK;
void tli_hooks_free(tli_Hooks *hooks); /* accepts NULL */

/* Call it after t's node has changed: moves the keeper of t's .grad to the new node. */
bool tli_keeper_follow(tl_Tensor *t) TL_MUSTCHECK;
/* Call it before t is freed or becomes a leaf. */
void tli_keeper_forget(tli_Autograd *a);

#endif
