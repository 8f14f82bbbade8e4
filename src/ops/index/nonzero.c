/*
** nonzero.c - the indices of elements that are not zero.
*/
#include "ops/common.h"

tl_Tensor *tli_op_nonzero(tl_Tensor *self, bool as_tuple) {
  (void)as_tuple; /* false in this form */
  int64_t count = 0;
  tl_Tensor *in = tli_contiguous_as(self, (tl_DType)self->dtype);
  bool ok = in && tli_count_true(in, &count);
  tl_Tensor *out = NULL;
  if (ok) out = tli_empty(TL_I64, tli_device(self), 2, (int64_t[]){count, self->ndim});
  if (out && out->numel > 0 && !tli_true_positions(in, out, in->ndim, in->sizes)) {
    tli_release(out);
    out = NULL;
  }
  tli_release(in);
  return out;
}

/* The columns of nonzero; a tensor without dimensions counts as one of one. */
bool tlo_nonzero_tuple(tl_Tensor *self, bool as_tuple, tl_Tensors *out) {
  (void)as_tuple;
  *out = (tl_Tensors){0, NULL};
  tl_Tensor *shaped = self->ndim ? tli_retain(self) : tlo_unsqueeze(self, 0);
  tl_Tensor *rows = shaped ? tlo_nonzero(shaped, false) : NULL;
  bool ok = rows && tlo_unbind(rows, 1, out);
  tli_release(shaped);
  tli_release(rows);
  return ok;
}
