/*
** inplace.c - in-place changes and views.
**
** A view v of x shares x's memory, so a recorded change of v changes x. x's new node copies x's
** gradient, passes the slice that v covers to the operator's node, and writes the resulting
** gradient to the slice. v's history is then as_strided of x; it is created only when it is needed.
**
** Invariants: A base is never a view. A view's `node` is valid only as long as its base's `history`
** equals `view_version`.
*/
#include "autograd/hooks.h"
#include "ops.h"

/* ---- views ---- */

static unsigned history_of(const tl_Tensor *base) {
  return base->autograd ? base->autograd->history : 0;
}

static bool stale(const tl_Tensor *view) {
  unsigned known = view->autograd ? view->autograd->view_version : 0;
  return known != history_of(view->base);
}

bool tli_view_requires_grad(const tl_Tensor *view) {
  return stale(view) && view->base->autograd->node != NULL;
}

bool tli_view_of(tl_Tensor *view, tl_Tensor *of) {
  if (view == of || view->base || view->storage != of->storage) return true;
  if (view->dtype != of->dtype || !tli_is_inexact((tl_DType)view->dtype)) return true;
  if (tli_inference_mode()) return true;
  tl_Tensor *base = of->base ? of->base : of;
  unsigned history = history_of(base);
  if (history) {
    tli_Autograd *a = tli_autograd(view);
    TL_TRY(a);
    a->view_version = history;
  }
  view->base = tli_retain(base);
  return true;
}

/* Replaces the view's history, which is outdated, by a history computed from that of its base. */
static bool rebuild(tl_Tensor *view) {
  tl_Tensor *base = view->base;
  tli_Autograd *a = tli_autograd(view);
  TL_TRY(a);
  tli_Node *node = NULL;
  if (base->autograd->node) {
    bool grad = tli_set_grad_mode(true), inference = tli_set_inference_mode(false);
    tl_Tensor *again = tlo_as_strided(base, (tl_Ints){view->ndim, view->sizes},
                                      (tl_Ints){view->ndim, view->strides}, view->offset);
    tli_set_grad_mode(grad);
    tli_set_inference_mode(inference);
    TL_TRY(again);
    node = again->autograd->node;
    again->autograd->node = NULL;
    tli_release(again);
  }
  tli_node_release(a->node);
  a->node = node;
  a->output = 0;
  a->view_version = history_of(base);
  return tli_keeper_follow(view);
}

tli_Node *tli_grad_fn(tl_Tensor *t, bool *ok) {
  if (t->base && stale(t) && !rebuild(t)) {
    *ok = false;
    return NULL;
  }
  return t->autograd ? t->autograd->node : NULL;
}

/* ---- the node of a base that was changed through a view ---- */

typedef struct Geometry {
  int ndim;
  int64_t offset;
  int64_t sizes[TL_MAX_DIMS];
  int64_t strides[TL_MAX_DIMS];
} Geometry;

typedef struct CopySlices {
  tli_Node node;
  /* the node of the operator that has changed the view (owned). This CopySlices node has the same
  ** edges as that node, except the first */
  tli_Node *op;
  tl_DType dtype;
  tl_Device device;
  Geometry base, view;
} CopySlices;

static void geometry_of(const tl_Tensor *t, Geometry *g) {
  g->ndim = t->ndim;
  g->offset = t->offset;
  for (int d = 0; d < t->ndim; d++) {
    g->sizes[d] = t->sizes[d];
    g->strides[d] = t->strides[d];
  }
}

/* Returns the offset just past the last element. */
static int64_t end_of(const Geometry *g) {
  int64_t end = g->offset + 1;
  for (int d = 0; d < g->ndim; d++) {
    if (g->sizes[d] == 0) return g->offset;
    end += (g->sizes[d] - 1) * g->strides[d];
  }
  return end;
}

/* Returns a tensor in new memory with the base's strides. The memory has room for the view's
** elements as well; the caller adds *shift to the view's offset. */
static tl_Tensor *like_base(const CopySlices *c, int64_t *shift) {
  const Geometry *b = &c->base, *v = &c->view;
  int64_t begin = v->offset < b->offset ? v->offset : b->offset;
  int64_t end = end_of(v) > end_of(b) ? end_of(v) : end_of(b);
  int64_t room = end - begin;
  *shift = -begin;
  tl_Tensor *memory = tli_empty(c->dtype, c->device, 1, &room);
  TL_TRY_NULL(memory);
  tl_Tensor *t = NULL;
  bool filled = room == tli_numel(b->ndim, b->sizes, 1) || tlo_fill_(memory, tli_int(0));
  if (filled) t = tli_alias(memory, b->ndim, b->sizes, b->strides, b->offset - begin);
  tli_release(memory);
  return t;
}

/* `slice` is the view's part of the base's gradient, which is the gradient of the view's new value.
** Runs the operator's node on a copy of it. If the base needs a gradient, then overwrites `slice`
** with the gradient of the view's previous value. */
static bool through_slice(CopySlices *c, tl_Tensor *slice, tl_Tensor **out) {
  if (!tli_node_usable(c->op)) return false;
  tl_Tensor *grad = tlo_clone(slice);
  TL_TRY(grad);
  bool ok = c->op->type->apply(c->op, &grad, out);
  tli_release(grad);
  TL_TRY(ok);
  tl_Tensor *before = out[0];
  out[0] = NULL;
  if (tli_node_wants(&c->node, 0))
    ok = before ? tlo_copy_(slice, before, false) : tlo_fill_(slice, tli_int(0));
  tli_release(before);
  return ok;
}

static bool apply_copy_slices(tli_Node *node, tl_Tensor *const *grads, tl_Tensor **out) {
  CopySlices *c = (CopySlices *)node;
  int64_t shift;
  tl_Tensor *whole = like_base(c, &shift);
  TL_TRY(whole);
  tl_Tensor *slice = NULL;
  bool ok = tlo_copy_(whole, grads[0], false);
  if (ok)
    slice = tlo_as_strided(whole, (tl_Ints){c->view.ndim, c->view.sizes},
                           (tl_Ints){c->view.ndim, c->view.strides}, c->view.offset + shift);
  ok = slice && through_slice(c, slice, out);
  tli_release(slice);
  if (ok && tli_node_wants(node, 0)) {
    out[0] = whole;
    return true;
  }
  tli_release(whole);
  for (int i = 0; i < node->ninputs && !ok; i++) {
    tli_release(out[i]);
    out[i] = NULL;
  }
  return ok;
}

/* Releases the tensors that the operator's node has saved, unless another graph uses that node as
** well. For example, the graph of a gradient uses the node if the operator has saved its own
** result. */
static void drop_copy_slices(tli_Node *node) {
  tli_Node *op = ((CopySlices *)node)->op;
  bool only = atomic_load_explicit(&op->refs, memory_order_acquire) == 1;
  /* an operator without `drop` has nothing to release, so this node may run again */
  if (op->type->drop == NULL) node->dropped = false;
  if (!only || op->dropped || op->type->drop == NULL) return;
  op->dropped = true;
  op->type->drop(op);
}

static void free_copy_slices(tli_Node *node) { tli_node_release(((CopySlices *)node)->op); }

static const tli_NodeType copy_slices = {"copy_slices", apply_copy_slices, drop_copy_slices,
                                         true,          free_copy_slices,  NULL};

const tli_NodeType *tli_node_type(const tli_Node *n) {
  return n->type == &copy_slices ? ((const CopySlices *)n)->op->type : n->type;
}

/* Returns a node for the base's history that represents the in-place change of `view` by `op`. */
static tli_Node *copy_slices_new(tl_Tensor *base, const tl_Tensor *view, tli_Node *op) {
  tli_Node *n = tli_node_new(&copy_slices, sizeof(CopySlices), op->ninputs, 1);
  TL_TRY_NULL(n);
  CopySlices *c = (CopySlices *)n;
  c->op = tli_node_retain(op);
  c->dtype = (tl_DType)base->dtype;
  c->device = tli_device(base);
  geometry_of(base, &c->base);
  geometry_of(view, &c->view);
  tli_info_of(base, &n->infos[0]);
  for (int i = 1; i < op->ninputs; i++) {
    const tli_Edge *from = &op->edges[i];
    n->edges[i].output = from->output;
    if (from->node) n->edges[i].node = tli_node_retain(from->node);
    if (from->leaf) n->edges[i].leaf = tli_retain(from->leaf);
  }
  if (tli_node_connect(n, 0, base)) return n;
  tli_node_release(n);
  return NULL;
}

/* ---- in-place operators ---- */

static bool fail_leaf(const char *op, const char *what) {
  return tli_fail(TL_EAUTOGRAD,
                  "%s: %s that requires a gradient cannot be changed in place while gradients are "
                  "recorded; do it under torch.no_grad, or on a copy",
                  op, what);
}

static bool fail_overlap(const char *op, const char *what, const tl_Tensor *t) {
  return tli_fail(TL_EARG,
                  "%s: several elements of %s of shape %s and strides %s share memory; "
                  "clone() it before changing it in place",
                  op, what, tli_sizes_str(t), tli_shape_str(t->ndim, t->strides));
}

static bool check_modes(const char *op, const tl_Tensor *self) {
  const tl_Tensor *base = self->base;
  if ((self->flags & TLI_INFERENCE) && !tli_inference_mode())
    return tli_fail(TL_EAUTOGRAD,
                    "%s: a tensor made in inference mode cannot be changed in place outside of it; "
                    "clone it",
                    op);
  if (!tli_grad_mode()) return true;
  if (self->flags & TLI_REQUIRES_GRAD) return fail_leaf(op, "a leaf");
  if (base == NULL) return true;
  if (base->flags & TLI_REQUIRES_GRAD) return fail_leaf(op, "a view of a leaf");
  if (!tli_contiguous(base) && tli_overlaps_itself(base))
    return fail_overlap(op, "the base of a view,", base);
  /* a view that was taken while gradients were recorded has a node if its base has one */
  if (base->autograd && base->autograd->node && !stale(self) &&
      (self->autograd == NULL || self->autograd->node == NULL))
    return tli_fail(TL_EAUTOGRAD,
                    "%s: a view that was taken under torch.no_grad from a result with a grad_fn "
                    "cannot be changed in place while gradients are recorded; take the view again, "
                    "or change it under torch.no_grad",
                    op);
  return true;
}

bool tli_inplace_check(const char *op, const tl_Tensor *self) {
  if (!tli_contiguous(self) && tli_overlaps_itself(self)) return fail_overlap(op, "a tensor", self);
  return check_modes(op, self);
}

bool tli_inplace_check_fill(const char *op, const tl_Tensor *self) {
  bool recorded = tli_grad_mode() && tli_requires_grad(self);
  return recorded ? tli_inplace_check(op, self) : check_modes(op, self);
}

static bool set_history(tl_Tensor *t, tli_Node *node, int output) {
  tli_Autograd *a = tli_autograd(t);
  TL_TRY(a);
  tli_Node *old = a->node;
  a->node = tli_node_retain(node);
  a->output = output;
  a->history++;
  tli_node_release(old);
  return tli_keeper_follow(t);
}

static bool set_history_of_base(tl_Tensor *view, tli_Node *op) {
  tli_Node *node = copy_slices_new(view->base, view, op);
  TL_TRY(node);
  bool ok = set_history(view->base, node, 0);
  tli_node_release(node);
  /* from now on the view's node is outdated, since the base has a new history */
  if (view->autograd) {
    tli_node_release(view->autograd->node);
    view->autograd->node = NULL;
  }
  return ok;
}

bool tli_inplace_done(const char *op, tl_Tensor *self, tli_Node *node) {
  tli_bump(self, op);
  return node == NULL || tli_inplace_result(op, self, node, 0);
}

bool tli_inplace_result(const char *op, tl_Tensor *self, tli_Node *node, int k) {
  if (!tli_is_inexact((tl_DType)self->dtype)) return true;
  tli_info_of(self, &node->infos[k]);
  if (self->base == NULL) return set_history(self, node, k);
  if (node->noutputs != 1)
    return tli_fail(TL_EAUTOGRAD,
                    "%s: a view that was changed in place must be the only result, got %d results",
                    op, node->noutputs);
  return set_history_of_base(self, node);
}
