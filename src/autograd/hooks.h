/*
** hooks.h - functions that are called with a gradient when it arrives.
**
** A leaf's hooks are in its autograd state. A result's hooks belong to the node that produced the
** result. These hooks run even if the result is freed, and stay with the node if an in-place
** operator gives the result another history.
*/
#ifndef TLI_HOOKS_H
#define TLI_HOOKS_H

#include "autograd/graph.h"

typedef struct tli_Hook {
  atomic_int refs; /* number of references to this struct, which may outlive the hook's context */
  int lists; /* number of lists that contain the hook; when it becomes 0, the hook is removed */
  /* number of running calls of the hook; a removed hook's context is freed when it is 0 */
  int calls;
  int output;   /* index of the node's output that the hook belongs to; 0 for a leaf */
  bool after;   /* for a leaf: whether fn receives the leaf itself, after accumulation into .grad */
  bool retains; /* whether tli_retain_grad added the hook; such hooks run after all others */
  tli_HookFn fn; /* the function to call; NULL once the hook is removed */
  void *context; /* argument of fn (owned), freed by `release` */
  void (*release)(void *context);
} tli_Hook;

typedef struct tli_Hooks {
  int n;
  int capacity;
  tli_Hook *hooks[]; /* the hooks, as owned references */
} tli_Hooks;

/* Runs the hooks for one gradient. If a hook returns a result, the result replaces *grad. `hooks`
** may be NULL. Hooks may change or free the list during the run. Hooks added during the run are
** first called for the next gradient. `name` is for messages. */
bool tli_hooks_run(const tli_Hooks *hooks, const char *name, int output, tl_Tensor **grad)
    TL_MUSTCHECK;
/* Runs those hooks of a leaf that wait until the leaf's gradient is in .grad. */
bool tli_hooks_run_after(tl_Tensor *leaf) TL_MUSTCHECK;
/* Adds a hook to a leaf that requires a gradient, as tli_hook_add does. The hook runs once the
** leaf's gradient is in .grad. */
tli_Hook *tli_hook_add_after(tl_Tensor *leaf, tli_HookFn fn, void *context,
                             void (*release)(void *context)) TL_MUSTCHECK;
/* Returns the number of hooks on the gradient of a leaf, without those that have been removed. */
int tli_leaf_hooks(tl_Tensor *leaf);
/* Returns whether a list has hooks other than those of tli_retain_grad and those that have been
** removed. Accepts NULL. */
bool tli_hooks_call_functions(const tli_Hooks *hooks);
void tli_hooks_free(tli_Hooks *hooks); /* Frees a list of hooks. Accepts NULL. */

/* Moves the hook that stores t's .grad to t's new node. Must be called after t's node has
** changed. */
bool tli_keeper_follow(tl_Tensor *t) TL_MUSTCHECK;
/* Removes the hook that stores .grad. Must be called before the tensor is freed or becomes a
** leaf. */
void tli_keeper_forget(tli_Autograd *a);

#endif
