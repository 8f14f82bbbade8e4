/*
** pack_hooks.c - implements pack_hooks.h. An unpacked tensor has values, but no history. Its
** tli_Packed keeps the history, which is restored if a graph of the gradient is being recorded.
*/
#include "autograd/pack_hooks.h"

#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"

struct tli_Packed {
  atomic_int refs;
  const tli_PackHooks *hooks; /* static */
  void *value;                /* the packed value (owned), freed by the hooks */
  tli_Edge from;              /* for an input: the edge of its gradient (owned) */
  tli_Info info;
};

static _Thread_local struct {
  const tli_PackHooks *hooks;
  void *context;
} now;

void tli_set_pack_hooks(const tli_PackHooks *hooks, void *context) {
  now.hooks = hooks;
  now.context = context;
}

bool tli_packing(void) { return now.hooks != NULL; }

void tli_packed_release(struct tli_Packed *p) {
  if (p == NULL || !tli_last_reference(&p->refs)) return;
  if (p->hooks) p->hooks->release(p->value);
  tli_node_release(p->from.node);
  tli_release(p->from.leaf);
  tli_free(p, sizeof *p);
}

static struct tli_Packed *packed_new(const tl_Tensor *t, bool result) {
  struct tli_Packed *p = tli_alloc(sizeof *p);
  TL_TRY_NULL(p);
  memset(p, 0, sizeof *p);
  atomic_init(&p->refs, 1);
  tli_info_of(t, &p->info);
  if (result) return p;
  if (t->autograd && t->autograd->node) {
    p->from.node = tli_node_retain(t->autograd->node);
    p->from.output = t->autograd->output;
  } else if (t->flags & TLI_REQUIRES_GRAD) {
    p->from.leaf = tli_retain((tl_Tensor *)t);
  }
  return p;
}

bool tli_pack(tli_Saved *s) {
  tl_Tensor *t = s->tensor;
  s->tensor = NULL;
  struct tli_Packed *p = packed_new(t, s->result >= 0);
  unsigned version = tli_version(t);
  const tli_PackHooks *hooks = now.hooks;
  bool ok = p && hooks->pack(now.context, t, &p->value);
  if (ok) p->hooks = hooks;
  if (ok && tli_version(t) != version)
    ok = tli_fail(TL_EAUTOGRAD, "saved_tensors_hooks: pack has changed its argument in place; let "
                                "it return something else");
  tli_release(t);
  if (ok)
    s->packed = p;
  else
    tli_packed_release(p);
  return ok;
}

/* ---- unpacking ---- */

/* The derivative of a tensor that stands for a saved leaf: passes the tensor's gradient on to that
** leaf. */
static bool hand_on(tli_Node *node, tl_Tensor *const *grads, tl_Tensor **out) {
  (void)node;
  out[0] = tli_retain(grads[0]);
  return true;
}

static const tli_NodeType alias_of_leaf = {"alias", hand_on, NULL, true, NULL, NULL};

/* Gives the unpacked tensor t the history of the tensor that was packed. Steals t. */
static tl_Tensor *with_history(const struct tli_Packed *p, int result, tli_Node *n, tl_Tensor *t) {
  if (p->from.leaf == t) return t;
  tl_Tensor *made = tli_detached(t);
  tli_release(t);
  TL_TRY_NULL(made);
  bool ok = true;
  if (result >= 0) {
    ok = tli_node_output(n, result, made);
  } else if (p->from.node) {
    tli_Autograd *a = tli_autograd(made);
    ok = a != NULL;
    if (ok) a->node = tli_node_retain(p->from.node);
    if (ok) a->output = p->from.output;
  } else if (p->from.leaf) {
    tli_Node *alias = tli_node_new(&alias_of_leaf, sizeof *alias, 1, 1);
    ok = alias && tli_node_connect(alias, 0, p->from.leaf) && tli_node_output(alias, 0, made);
    tli_node_release(alias);
  }
  if (ok) return made;
  tli_release(made);
  return NULL;
}

static bool fits(const struct tli_Packed *p, const tli_Node *n, tl_Tensor *t) {
  const tli_Info *info = &p->info;
  bool sizes = t->ndim == info->ndim;
  for (int d = 0; sizes && d < info->ndim; d++) sizes = t->sizes[d] == info->sizes[d];
  if (sizes && t->dtype == info->dtype && tli_same_device(tli_device(t), info->device)) return true;
  char got[160], device[32];
  snprintf(got, sizeof got, "%s %s on %s", tl_dtype_name((tl_DType)t->dtype), tli_sizes_str(t),
           tli_device_str(tli_device(t)));
  snprintf(device, sizeof device, "%s", tli_device_str(info->device));
  return tli_fail(TL_ESHAPE,
                  "%s: saved_tensors_hooks: expected unpack to return a Tensor as the one that was "
                  "packed, %s %s on %s, got %s",
                  tli_node_name(n), tl_dtype_name((tl_DType)info->dtype),
                  tli_shape_str(info->ndim, info->sizes), device, got);
}

bool tli_unpack(const tli_Saved *s, tli_Node *n, tl_Tensor **out) {
  struct tli_Packed *p = s->packed;
  int result = s->result;
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
  tl_Tensor *t = NULL;
  bool ok = p->hooks->unpack(p->value, &t);
  if (ok && !fits(p, n, t)) {
    tli_release(t);
    ok = false;
  }
  if (ok) *out = tli_grad_mode() ? with_history(p, result, n, t) : t;
  tli_packed_release(p);
  return ok && *out != NULL;
}
