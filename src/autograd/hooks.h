/*
** hooks.h - functions called with a gradient as it arrives.
**
** A leaf's hooks lie in its autograd state. A result's lie with the node that
** made it: they run even when the tensor itself is gone, and stay there when
** an in-place operator gives the tensor another history.
*/
#ifndef TLI_HOOKS_H
#define TLI_HOOKS_H

#include "autograd/graph.h"

typedef struct tli_Hook {
  atomic_int refs; /* of the struct; the context may go earlier */
  int lists;       /* that it is in; the context stays while there are any */
  int calls;       /* now running; the same */
  int output;      /* of the node; 0 for a leaf */
  bool after;      /* of a leaf: runs when .grad has been added to, with the leaf */
  bool retains;    /* runs after the others: what tli_retain_grad has added */
  tli_HookFn fn;   /* NULL once removed */
  void *context;   /* owned, by way of `release` */
  void (*release)(void *context);
} tli_Hook;

typedef struct tli_Hooks {
  int n;
  int capacity;
  tli_Hook *hooks[]; /* owned references */
} tli_Hooks;

/* Runs the hooks for one gradient; *grad is replaced by what they return. The
** list may change or go meanwhile: what is added then is not called yet. It may
** be NULL. `name` is for messages. */
bool tli_hooks_run(const tli_Hooks *hooks, const char *name, int output, tl_Tensor **grad)
    TL_MUSTCHECK;
/* Those of a leaf that wait for its .grad. */
bool tli_hooks_run_after(tl_Tensor *leaf) TL_MUSTCHECK;
/* Adds one of these, as tli_hook_add does; for a leaf that requires a gradient. */
tli_Hook *tli_hook_add_after(tl_Tensor *leaf, tli_HookFn fn, void *context,
                             void (*release)(void *context)) TL_MUSTCHECK;
void tli_hooks_free(tli_Hooks *hooks); /* NULL is fine */

/* After t's node has changed: what keeps t's .grad goes over to the new one. */
bool tli_keeper_follow(tl_Tensor *t) TL_MUSTCHECK;
/* Before t goes or becomes a leaf. */
void tli_keeper_forget(tli_Autograd *a);

#endif
