/*
** rebase.c - gives a tensor the geometry, the memory and the history of another tensor, usually
** of a view of itself.
*/
#include "autograd/hooks.h"
#include "core/device/backend.h"
#include "core/device/running.h"

static bool refused(const char *op, const tl_Tensor *self, const tl_Tensor *view) {
  bool leaf =
      (self->flags & TLI_REQUIRES_GRAD) || (self->base && self->base->flags & TLI_REQUIRES_GRAD);
  if (tli_grad_mode() && leaf)
    return !tli_fail(
        TL_EAUTOGRAD,
        "%s: a leaf that requires a gradient cannot be changed in place while gradients "
        "are recorded; do it under torch.no_grad, or on a view",
        op);
  bool history = self->autograd && self->autograd->node;
  if (history && !(view->autograd && view->autograd->node))
    return !tli_fail(TL_EAUTOGRAD,
                     "%s: self has a history of gradients, which has its old shape; record the "
                     "change, or use detach()",
                     op);
  return false;
}

/* Makes the node of `view` the node of `self`. */
static bool take_history(tl_Tensor *self, tl_Tensor *view) {
  if (view->autograd == NULL || view->autograd->node == NULL) return true;
  tli_Autograd *a = tli_autograd(self);
  TL_TRY(a);
  tli_Node *old = a->node;
  a->node = tli_node_retain(view->autograd->node);
  a->output = view->autograd->output;
  a->view_version = view->autograd->view_version;
  if (self->base == NULL) a->history++;
  tli_node_release(old);
  return tli_keeper_follow(self);
}

bool tli_rebase(const char *op, tl_Tensor *self, tl_Tensor *view) {
  if (view == self) return true;
  TL_TRY(tli_may_reshape(op));
  if (refused(op, self, view) || !take_history(self, view)) return false;
  if (self->storage != view->storage) {
    tli_storage_release(self->storage);
    self->storage = tli_storage_retain(view->storage);
    tl_Tensor *base = self->base;
    self->base = view->base ? tli_retain(view->base) : NULL;
    tli_release(base);
  }
  self->offset = view->offset;
  tli_set_geometry(self, view->ndim, view->sizes, view->strides);
  tli_bump(self, op);
  return true;
}
