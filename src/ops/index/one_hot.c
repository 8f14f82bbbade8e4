/*
** one_hot.c - converts labels to rows with a single 1.
*/
#include "ops/chain.h"

static bool largest_label(tl_Tensor *self, int64_t *largest) {
  *largest = 0;
  if (self->numel == 0)
    return tli_fail(TL_EARG, "one_hot: num_classes is needed for a tensor without elements");
  tl_Tensor *most = tlo_amax(self, TLI_NOINTS, false);
  bool ok = most && tli_read(most, TL_I64, largest);
  tli_release(most);
  return ok;
}

tl_Tensor *tlo_one_hot(tl_Tensor *self, int64_t num_classes) {
  if (tli_dtype_category((tl_DType)self->dtype) != TLI_INT)
    return tli_fail_null(TL_EDTYPE, "one_hot: expected classes as integers, got %s",
                         tl_dtype_name((tl_DType)self->dtype));
  if (num_classes == -1) TL_TRY_NULL(largest_label(self, &num_classes));
  if (num_classes < 1)
    return tli_fail_null(TL_EARG, "one_hot: num_classes: expected at least 1, got %" PRId64,
                         num_classes);
  int64_t sizes[TL_MAX_DIMS + 1];
  for (int d = 0; d < self->ndim; d++) sizes[d] = self->sizes[d];
  sizes[self->ndim] = num_classes;
  tli_Chain c = {0};
  tl_Tensor *out = TLI_STEP(&c, tli_empty(TL_I64, tli_device(self), self->ndim + 1, sizes));
  if (c.failed || !tli_fill(out, tli_int(0))) c.failed = true;
  tl_Tensor *at = chain_unsqueeze(&c, self, -1);
  const char *outer = tli_set_fault_argument("self");
  if (!c.failed && !tli_op_scatter_value_(out, -1, at, tli_int(1)))
    c.failed = !tli_fail_about("one_hot: self");
  tli_set_fault_argument(outer);
  return tli_chain_end(&c, out);
}
