/*
** inplace_views.c - operators that change the shape or the memory of self. Self takes its new sizes
** and strides from a view. While history is recorded, self also takes over the history of the view,
** so the derivative is that of the view.
*/
#include "ops/common.h"

/* Gives self the geometry of the view, and for set_ the memory of the source. No data is changed.
** Increments self's version nevertheless, so that a node that has saved self notices the change of
** its shape. */
static bool take(const char *op, tl_Tensor *self, tl_Tensor *steals) {
  TL_TRY(steals);
  bool ok = tli_rebase(op, self, steals);
  tli_release(steals);
  return ok;
}

bool tlo_squeeze_(tl_Tensor *self, tl_Ints dim) {
  return take("squeeze_", self, tlo_squeeze(self, dim));
}
bool tlo_unsqueeze_(tl_Tensor *self, int64_t dim) {
  return take("unsqueeze_", self, tlo_unsqueeze(self, dim));
}
bool tlo_transpose_(tl_Tensor *self, int64_t dim0, int64_t dim1) {
  return take("transpose_", self, tlo_transpose(self, dim0, dim1));
}
bool tlo_swapaxes_(tl_Tensor *self, int64_t axis0, int64_t axis1) {
  return take("swapaxes_", self, tlo_transpose(self, axis0, axis1));
}
bool tlo_swapdims_(tl_Tensor *self, int64_t dim0, int64_t dim1) {
  return take("swapdims_", self, tlo_transpose(self, dim0, dim1));
}
bool tlo_t_(tl_Tensor *self) { return take("t_", self, tlo_t(self)); }
bool tlo_as_strided_(tl_Tensor *self, tl_Ints size, tl_Ints stride, int64_t storage_offset) {
  return take("as_strided_", self, tlo_as_strided(self, size, stride, storage_offset));
}

bool tlo_set_(tl_Tensor *self, tl_Tensor *source, int64_t storage_offset, tl_Ints size,
              tl_Ints stride) {
  if (tli_requires_grad(self) || tli_requires_grad(source))
    return tli_fail(TL_EAUTOGRAD, "set_: %s requires a gradient; use detach()",
                    tli_requires_grad(self) ? "self" : "source");
  if (self->dtype != source->dtype)
    return tli_fail(TL_EDTYPE, "set_: source: expected %s, as self, got %s",
                    tl_dtype_name((tl_DType)self->dtype), tl_dtype_name((tl_DType)source->dtype));
  tl_Tensor *view = NULL;
  if (size.v == NULL && stride.v == NULL && storage_offset == TLI_NOINT) {
    view = tli_retain(source);
  } else {
    tl_Ints sizes = size.v ? size : (tl_Ints){source->ndim, source->sizes};
    int64_t row_major[TL_MAX_DIMS];
    int64_t step = 1;
    for (int64_t d = sizes.n - 1; d >= 0 && sizes.n <= TL_MAX_DIMS; d--) {
      row_major[d] = step;
      step *= sizes.v[d] > 1 ? sizes.v[d] : 1;
    }
    view = tlo_as_strided(source, sizes, stride.v ? stride : (tl_Ints){sizes.n, row_major},
                          storage_offset);
  }
  return take("set_", self, view);
}

bool tlo_resize_as_(tl_Tensor *self, tl_Tensor *the_template) {
  return tlo_resize_(self, (tl_Ints){the_template->ndim, the_template->sizes});
}
