/*
** nonzero.c - finds the indices of elements that are not zero.
*/
#include "ops/chain.h"

tl_Tensor *tli_op_nonzero(tl_Tensor *self, bool as_tuple) {
  (void)as_tuple; /* as_tuple only selects this overload, so its value is known */
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

/* Returns the columns of nonzero's result. A 0-d tensor counts as a vector of one element. */
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

tl_Tensor *tlo_nonzero_static(tl_Tensor *self, int64_t size, int64_t fill_value) {
  if (size < 0)
    return tli_fail_null(TL_EARG, "nonzero_static: size: expected at least 0, got %" PRId64, size);
  if (!tli_has_values(self))
    return tli_empty(TL_I64, tli_device(self), 2, (int64_t[]){size, self->ndim});
  tli_Chain c = {0};
  tl_Tensor *found = TLI_STEP(&c, tlo_nonzero(self, false));
  if (c.failed) return tli_chain_end(&c, NULL);
  int64_t rows = found->sizes[0] < size ? found->sizes[0] : size;
  tl_Tensor *first = chain_slice(&c, found, 0, 0, rows);
  tl_Tensor *rest = TLI_STEP(
      &c, tli_empty(TL_I64, tli_device(self), 2, (int64_t[]){size - rows, found->sizes[1]}));
  if (rest && rest->numel > 0) TLI_DO(&c, tli_fill(rest, tli_int(fill_value)));
  return tli_chain_end(&c, chain_cat(&c, first, rest, 0));
}
