/*
** hooks.c - lists of hooks, and .grad of tensors that are not leaves. Invariant: the caller holds a
** reference to the hook that it calls, so a hook may remove itself and even free the list that
** contains it.
**
** A tensor and its node may be freed by two different threads, so a lock guards the hooks that both
** refer to. Lists are not locked, because adding a hook counts as writing to the tensor.
*/
#include "autograd/hooks.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "core/platform/platform.h"

/* ---- hooks ---- */

static tli_Hook *hook_retain(tli_Hook *h) {
  atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
  return h;
}

void tli_hook_release(tli_Hook *h) {
  if (h && tli_last_reference(&h->refs)) tli_free(h, sizeof *h);
}

/* Guards the fields of every hook and of every Weak below. */
static tli_Mutex guard = TLI_MUTEX_INIT;
TLI_FORK_SAFE(guard)

/* Adds `lists` and `calls`, which may be negative, to the hook's counters of these names, and
** removes the hook if `remove` is set. Releases the context when the hook can no longer be
** called. */
static void hook_change(tli_Hook *h, int lists, int calls, bool remove) {
  void (*release)(void *context) = NULL;
  tli_mutex_lock(&guard);
  h->lists += lists;
  h->calls += calls;
  if (remove || h->lists == 0) h->fn = NULL;
  if (h->fn == NULL && h->calls == 0) {
    release = h->release;
    h->release = NULL;
  }
  tli_mutex_unlock(&guard);
  if (release) release(h->context);
}

void tli_hook_remove(tli_Hook *h) { hook_change(h, 0, 0, true); }

/* ---- lists ---- */

static size_t list_bytes(int capacity) {
  return sizeof(tli_Hooks) + (size_t)capacity * sizeof(tli_Hook *);
}

static void unlist(tli_Hook *h) {
  hook_change(h, -1, 0, false);
  tli_hook_release(h);
}

/* Removes the list's entries for hooks that have been removed. */
static void list_tidy(tli_Hooks *list) {
  int kept = 0;
  for (int i = 0; i < list->n; i++) {
    tli_Hook *h = list->hooks[i];
    if (h->fn)
      list->hooks[kept++] = h;
    else
      unlist(h);
  }
  list->n = kept;
}

/* Appends a hook to the list, which may move in memory. */
static bool list_add(tli_Hooks **list, tli_Hook *h) {
  tli_Hooks *old = *list;
  if (old && old->n == old->capacity) list_tidy(old);
  if (old == NULL || old->n == old->capacity) {
    int capacity = old ? 2 * old->capacity : 2;
    tli_Hooks *new = tli_alloc(list_bytes(capacity));
    TL_TRY(new);
    new->n = 0;
    if (old) {
      memcpy(new, old, list_bytes(old->n));
      tli_free(old, list_bytes(old->capacity));
    }
    new->capacity = capacity;
    *list = new;
  }
  (*list)->hooks[(*list)->n++] = hook_retain(h);
  hook_change(h, 1, 0, false);
  return true;
}

int tli_leaf_hooks(tl_Tensor *leaf) {
  tli_Hooks *list = leaf->autograd ? leaf->autograd->hooks : NULL;
  if (list == NULL) return 0;
  list_tidy(list);
  return list->n;
}

bool tli_hooks_call_functions(const tli_Hooks *hooks) {
  if (hooks == NULL) return false;
  bool found = false;
  tli_mutex_lock(&guard);
  for (int i = 0; i < hooks->n; i++)
    found = found || (hooks->hooks[i]->fn && !hooks->hooks[i]->retains);
  tli_mutex_unlock(&guard);
  return found;
}

void tli_hooks_free(tli_Hooks *list) {
  if (list == NULL) return;
  for (int i = 0; i < list->n; i++) unlist(list->hooks[i]);
  tli_free(list, list_bytes(list->capacity));
}

/* ---- adding ---- */

static tli_Hook *hook_new(tli_HookFn fn, void *context, void (*release)(void *context)) {
  tli_Hook *h = tli_alloc(sizeof *h);
  if (h == NULL) {
    if (release) release(context);
    return NULL;
  }
  *h = (tli_Hook){.fn = fn, .context = context, .release = release};
  atomic_init(&h->refs, 1);
  return h;
}

/* Adds h to the list of t's node or of the leaf t. */
static bool attach(tl_Tensor *t, tli_Hook *h) {
  bool ok = true;
  tli_Node *node = tli_grad_fn(t, &ok);
  TL_TRY(ok);
  tli_Autograd *a = tli_autograd(t);
  TL_TRY(a);
  h->output = node ? a->output : 0;
  return list_add(node ? &node->hooks : &a->hooks, h);
}

tli_Hook *tli_hook_add(tl_Tensor *t, tli_HookFn fn, void *context, void (*release)(void *context)) {
  tli_Hook *h = hook_new(fn, context, release);
  TL_TRY_NULL(h);
  bool ok = tli_requires_grad(t);
  if (!ok)
    tli_fail(TL_EAUTOGRAD, "register_hook: the tensor requires no gradient, so none will arrive");
  if (ok && attach(t, h)) return h;
  tli_hook_remove(h);
  tli_hook_release(h);
  return NULL;
}

/* ---- running ---- */

/* Replaces the gradient by the result of a hook. Steals the result. */
static bool replace(const char *name, tl_Tensor **grad, tl_Tensor *with) {
  if (!tli_same_device(tli_device(with), tli_device(*grad))) {
    tli_fail(TL_EDEVICE, "%s: expected a hook to return a gradient on %s, got one on %s", name,
             tli_device_str(tli_device(*grad)), tli_device_str(tli_device(with)));
    tli_release(with);
    return false;
  }
  if (with->dtype != (*grad)->dtype || !tli_same_sizes(with, *grad)) {
    tli_fail(TL_ESHAPE,
             "%s: expected a hook to return a gradient of shape %s and dtype %s, got %s and %s",
             name, tli_sizes_str(*grad), tl_dtype_name((tl_DType)(*grad)->dtype),
             tli_sizes_str(with), tl_dtype_name((tl_DType)with->dtype));
    tli_release(with);
    return false;
  }
  tli_release(*grad);
  *grad = with;
  return true;
}

/* Calls a hook unless it has been removed; *out is its result or NULL. */
static bool call(tli_Hook *h, tl_Tensor *t, tl_Tensor **out) {
  tli_mutex_lock(&guard);
  tli_HookFn fn = h->fn;
  h->calls += fn != NULL;
  tli_mutex_unlock(&guard);
  *out = NULL;
  if (fn == NULL) return true;
  bool ok = fn(h->context, t, out);
  hook_change(h, 0, -1, false);
  return ok;
}

/* Returns an array of references to a list's hooks, since the list may change while the hooks run;
** NULL if memory is exhausted. */
static tli_Hook **take_all(const tli_Hooks *list) {
  tli_Hook **hooks = tli_alloc((size_t)list->n * sizeof *hooks);
  for (int i = 0; hooks && i < list->n; i++) hooks[i] = hook_retain(list->hooks[i]);
  return hooks;
}

static void release_all(tli_Hook **hooks, int n) {
  for (int i = 0; i < n; i++) tli_hook_release(hooks[i]);
  tli_free(hooks, (size_t)n * sizeof *hooks);
}

static bool call_all(tli_Hook *const *hooks, int n, bool retains, const char *name, int output,
                     tl_Tensor **grad) {
  for (int i = 0; i < n; i++) {
    tli_Hook *h = hooks[i];
    tl_Tensor *out;
    if (h->retains != retains || h->after || h->output != output) continue;
    TL_TRY(call(h, *grad, &out) && (out == NULL || replace(name, grad, out)));
  }
  return true;
}

bool tli_hooks_run(const tli_Hooks *list, const char *name, int output, tl_Tensor **grad) {
  if (list == NULL || list->n == 0) return true;
  int n = list->n;
  tli_Hook **hooks = take_all(list);
  TL_TRY(hooks);
  bool ok =
      call_all(hooks, n, false, name, output, grad) && call_all(hooks, n, true, name, output, grad);
  release_all(hooks, n);
  return ok;
}

bool tli_hooks_run_after(tl_Tensor *leaf) {
  const tli_Hooks *list = leaf->autograd ? leaf->autograd->hooks : NULL;
  if (list == NULL || list->n == 0) return true;
  int n = list->n;
  tli_Hook **hooks = take_all(list);
  TL_TRY(hooks);
  bool ok = true;
  for (int i = 0; ok && i < n; i++) {
    tl_Tensor *out = NULL; /* the result of such a hook is ignored */
    if (hooks[i]->after) ok = call(hooks[i], leaf, &out);
    tli_release(out);
  }
  release_all(hooks, n);
  return ok;
}

tli_Hook *tli_hook_add_after(tl_Tensor *leaf, tli_HookFn fn, void *context,
                             void (*release)(void *context)) {
  if (!(leaf->flags & TLI_REQUIRES_GRAD)) {
    if (release) release(context);
    return tli_fail_null(TL_EAUTOGRAD, "register_post_accumulate_grad_hook: expected a leaf that "
                                       "requires a gradient");
  }
  tli_Hook *h = tli_hook_add(leaf, fn, context, release);
  if (h) h->after = true;
  return h;
}

/* ---- retain_grad ---- */

/* A weak reference from a node to a tensor. The reference is cleared before the tensor is freed, so
** another thread's pass either finds it cleared or gets a reference to the tensor. */
typedef struct Weak {
  tl_Tensor *tensor; /* borrowed */
} Weak;

static void weak_free(void *context) { tli_free(context, sizeof(Weak)); }

/* Returns a new reference to the tensor, or NULL if the tensor was freed or another thread is
** freeing it. */
static tl_Tensor *weak_get(const Weak *w) {
  tli_mutex_lock(&guard);
  tl_Tensor *t = w->tensor;
  int refs = t ? atomic_load_explicit(&t->refs, memory_order_relaxed) : 0;
  while (refs > 0 && !atomic_compare_exchange_weak(&t->refs, &refs, refs + 1)) continue;
  tli_mutex_unlock(&guard);
  return refs > 0 ? t : NULL;
}

static bool keep_grad(void *context, tl_Tensor *grad, tl_Tensor **out) {
  (void)out;
  tl_Tensor *t = weak_get(context);
  if (t == NULL) return true;
  bool ok = tli_grad_accumulate(t, tli_retain(grad), tli_grad_mode());
  tli_release(t);
  return ok;
}

static bool add_keeper(tl_Tensor *t) {
  Weak *w = tli_alloc(sizeof *w);
  TL_TRY(w);
  w->tensor = t;
  tli_Hook *h = tli_hook_add(t, keep_grad, w, weak_free);
  TL_TRY(h);
  h->retains = true;
  t->flags |= TLI_WEAKLY_HELD;
  t->autograd->keeper = h;
  return true;
}

void tli_keeper_forget(tli_Autograd *a) {
  tli_Hook *h = a->keeper;
  a->keeper = NULL;
  if (h == NULL) return;
  tli_mutex_lock(&guard);
  /* if `release` is NULL, the hook's context has already been freed */
  if (h->release) ((Weak *)h->context)->tensor = NULL;
  tli_mutex_unlock(&guard);
  tli_hook_remove(h);
  tli_hook_release(h);
}

bool tli_keeper_follow(tl_Tensor *t) {
  tli_Autograd *a = t->autograd;
  if (a == NULL || a->keeper == NULL) return true;
  tli_keeper_forget(a);
  return a->node == NULL || add_keeper(t);
}

bool tli_retain_grad(tl_Tensor *t) {
  if (!tli_requires_grad(t))
    return tli_fail(TL_EAUTOGRAD, "retain_grad: the tensor requires no gradient");
  if (t->flags & TLI_REQUIRES_GRAD) return true;
  bool ok = true;
  /* updates the tensor's node, and moves an earlier hook that stores .grad to the new node */
  tli_grad_fn(t, &ok);
  if (!ok) return false;
  return t->autograd->keeper || add_keeper(t);
}
