/*
** sparse_grads.c - sparse gradients of leaves, which consist of some rows of a gradient and the
** rows' positions.
**
** A sparse gradient is a tensor with the leaf's shape and the flag TLI_SPARSE; the tensor's
** autograd state holds the rows. All elements of the tensor itself share one zero in memory, so
** code that does not know the flag reads zeros. The engine gives sparse gradients only to leaves
** and their hooks; all other nodes get dense gradients. Operations on the rows are never recorded.
*/
#include <string.h>

#include "autograd/grads.h"
#include "core/memory/alloc.h"
#include "ops.h"

typedef struct Rows {
  tli_Autograd state; /* first member: the tensor's autograd state */
  tl_Tensor *indices; /* owned */
  tl_Tensor *values;  /* owned */
  bool coalesced;
} Rows;

static const Rows *rows_of(const tl_Tensor *t) { return (const Rows *)t->autograd; }

static tl_Tensor *rows_free(tli_Autograd *a) {
  Rows *rows = (Rows *)a;
  tl_Tensor *grad = a->grad;
  tli_release(rows->indices);
  tli_release(rows->values);
  tli_free(rows, sizeof *rows);
  return grad;
}

tl_Tensor *tli_sparse_grad(tl_Tensor *indices, tl_Tensor *values, bool coalesced, int ndim,
                           const int64_t *sizes) {
  tl_Tensor *t = tli_empty((tl_DType)values->dtype, tli_device(values), 0, NULL);
  Rows *rows = t && tlo_fill_(t, tli_int(0)) ? tli_alloc(sizeof *rows) : NULL;
  if (rows == NULL) {
    tli_release(t);
    return NULL;
  }
  memset(rows, 0, sizeof *rows);
  rows->state.head.free = rows_free;
  rows->indices = tli_retain(indices);
  rows->values = tli_retain(values);
  rows->coalesced = coalesced;
  int64_t strides[TL_MAX_DIMS] = {0};
  tli_set_geometry(t, ndim, sizes, strides);
  t->flags = (uint8_t)((t->flags & ~TLI_CONTIGUOUS) | TLI_SPARSE);
  t->autograd = &rows->state;
  return t;
}

tl_Tensor *tli_sparse_grad_rows(const tl_Tensor *grad, tl_Tensor **indices, bool *coalesced) {
  const Rows *rows = rows_of(grad);
  *indices = rows->indices;
  *coalesced = rows->coalesced;
  return rows->values;
}

/* Adds a sparse gradient to a dense tensor in place. */
static bool add_rows(tl_Tensor *to, const tl_Tensor *grad) {
  const Rows *rows = rows_of(grad);
  if (rows->values->numel == 0) return true;
  tl_Tensor *at = tlo_reshape(rows->indices, (tl_Ints){1, &rows->indices->numel});
  bool ok = at && tlo_index_add_(to, 0, at, rows->values, tli_int(1));
  tli_release(at);
  return ok;
}

tl_Tensor *tli_sparse_grad_dense(const tl_Tensor *grad) {
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *dense = tli_empty((tl_DType)grad->dtype, tli_device(grad), grad->ndim, grad->sizes);
  if (dense && !(tlo_fill_(dense, tli_int(0)) && add_rows(dense, grad))) {
    tli_release(dense);
    dense = NULL;
  }
  tli_set_grad_mode(mode);
  return dense;
}

static tl_Tensor *joined(const tl_Tensor *a, const tl_Tensor *b) {
  const Rows *x = rows_of(a), *y = rows_of(b);
  tl_Tensor *both[2] = {x->indices, y->indices};
  tl_Tensor *indices = tlo_cat((tl_Tensors){2, both}, 1);
  both[0] = x->values;
  both[1] = y->values;
  tl_Tensor *values = indices ? tlo_cat((tl_Tensors){2, both}, 0) : NULL;
  tl_Tensor *sum = values ? tli_sparse_grad(indices, values, false, a->ndim, a->sizes) : NULL;
  tli_release(indices);
  tli_release(values);
  return sum;
}

tl_Tensor *tli_sparse_grad_sum(tl_Tensor *a, tl_Tensor *b, bool in_place) {
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *sum = NULL;
  if (tli_is_sparse_grad(a) && tli_is_sparse_grad(b)) {
    sum = joined(a, b);
  } else if (tli_is_sparse_grad(a)) {
    tl_Tensor *dense = tli_sparse_grad_dense(a);
    sum = dense ? tlo_add(dense, b, tli_int(1)) : NULL;
    tli_release(dense);
  } else {
    sum = in_place ? tli_retain(a) : tlo_clone(a);
    if (sum && !add_rows(sum, b)) {
      tli_release(sum);
      sum = NULL;
    }
    if (sum && in_place) tli_bump(sum, "backward");
  }
  tli_set_grad_mode(mode);
  return sum;
}

bool tli_sparse_grad_settle(tl_Tensor *grad) {
  Rows *rows = (Rows *)grad->autograd;
  const tl_Tensor *v = rows->values;
  int refs = atomic_load_explicit(&v->storage->refs, memory_order_acquire);
  bool base = v->base && tli_unique(v->base);
  bool sole = tli_unique(v) && refs == (base ? 2 : 1) && tli_contiguous(v);
  if (!sole) {
    bool mode = tli_set_grad_mode(false);
    tl_Tensor *copy = tli_empty((tl_DType)v->dtype, tli_device(v), v->ndim, v->sizes);
    bool ok = copy && tlo_copy_(copy, rows->values, false);
    tli_set_grad_mode(mode);
    if (!ok) {
      tli_release(copy);
      return false;
    }
    tli_release(rows->values);
    rows->values = copy;
  }
  tli_charge(rows->values);
  tli_charge(rows->indices);
  return true;
}
