/*
** masked.c - reads and writes the elements at which a mask is true.
*/
#include "ops/common.h"

static bool check_mask(const char *op, const tl_Tensor *mask) {
  if (mask->dtype == TL_BOOL) return true;
  return tli_fail(TL_EDTYPE, "%s: mask: expected bool, got %s", op,
                  tl_dtype_name((tl_DType)mask->dtype));
}

/* Returns the fill value as a 0-d tensor of self's dtype. A fill value that is a number stays on
** the CPU. */
static tl_Tensor *fill_value(const tl_Tensor *self, tl_Tensor *mask, tl_Tensor *value) {
  TL_TRY_NULL(check_mask("masked_fill", mask));
  if (value->ndim != 0)
    return tli_fail_null(TL_ESHAPE,
                         "masked_fill: value: expected a number or a tensor of no "
                         "dimensions, got %s",
                         tli_sizes_str(value));
  TL_TRY_NULL(tli_check_complex_values("masked_fill", value, (tl_DType)self->dtype));
  if (value->flags & TLI_NUMBER)
    return tli_scalar_tensor(tli_number_of(value), (tl_DType)self->dtype, TLI_CPU);
  return tlo_to_dtype(value, (tl_DType)self->dtype);
}

tl_Tensor *tlo_masked_fill(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *value) {
  tl_Tensor *one = fill_value(self, mask, value);
  tl_Tensor *result = one ? tlo_masked_fill_kernel(self, mask, one) : NULL;
  tli_release(one);
  return result;
}

bool tlo_masked_fill_(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *value) {
  tl_Tensor *one = fill_value(self, mask, value);
  bool ok = one && tlo_masked_fill_kernel_(self, mask, one);
  tli_release(one);
  return ok;
}

/* Broadcasts `mask` to a shape and returns the positions of its true elements, counted in row-major
** order. */
static tl_Tensor *true_positions(const char *op, tl_Tensor *mask, int ndim, const int64_t *sizes) {
  TL_TRY_NULL(check_mask(op, mask));
  tl_Tensor *t[3] = {NULL}, *result = NULL;
  int64_t numel = tli_numel(ndim, sizes, 1);
  if ((t[0] = tlo_expand(mask, (tl_Ints){ndim, sizes})) &&
      (t[1] = tlo_reshape(t[0], (tl_Ints){1, &numel})) && (t[2] = tlo_nonzero(t[1], false)))
    result = tlo_select(t[2], 1, 0);
  tli_release_results(t, 3);
  return result;
}

tl_Tensor *tlo_masked_select(tl_Tensor *self, tl_Tensor *mask) {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_broadcast_shape("masked_select", (tl_Tensor *[]){self, mask}, 2, &ndim, sizes));
  tl_Tensor *at = true_positions("masked_select", mask, ndim, sizes);
  tl_Tensor *wide = at ? tlo_expand(self, (tl_Ints){ndim, sizes}) : NULL;
  tl_Tensor *result = wide ? tlo_take(wide, at) : NULL;
  tli_release(at);
  tli_release(wide);
  return result;
}

/* Returns uninitialised positions for a mask on the meta device. The elements of the mask are
** unknown, so the number of positions is the largest number that the mask could select. */
static tl_Tensor *guessed_positions(const tl_Tensor *self, const tl_Tensor *source) {
  int64_t n = self->numel < source->numel ? self->numel : source->numel;
  return tli_empty(TL_I64, tli_device(self), 1, &n);
}

static bool scatter_masked(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *source) {
  if (!tli_expandable(mask->ndim, mask->sizes, self->ndim, self->sizes))
    return tli_fail(TL_ESHAPE,
                    "masked_scatter: mask: expected a shape that broadcasts to %s, got %s",
                    tli_sizes_str(self), tli_sizes_str(mask));
  if (source->dtype != self->dtype)
    return tli_fail(TL_EDTYPE, "masked_scatter: source: expected self's dtype %s, got %s",
                    tl_dtype_name((tl_DType)self->dtype), tl_dtype_name((tl_DType)source->dtype));
  tl_Tensor *t[3] = {tli_has_values(mask)
                         ? true_positions("masked_scatter", mask, self->ndim, self->sizes)
                         : guessed_positions(self, source)};
  bool ok = t[0] != NULL;
  if (ok && source->numel < t[0]->numel)
    ok = tli_fail(TL_ESHAPE,
                  "masked_scatter: source: expected at least %" PRId64
                  " elements, as many as mask has true ones, got %s",
                  t[0]->numel, tli_sizes_str(source));
  ok = ok && (t[1] = tlo_reshape(source, (tl_Ints){1, &source->numel})) &&
       (t[2] = tlo_narrow(t[1], 0, 0, t[0]->numel)) && tlo_put_(self, t[0], t[2], false);
  tli_release_results(t, 3);
  return ok;
}

bool tlo_masked_scatter_(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *source) {
  return scatter_masked(self, mask, source);
}

tl_Tensor *tlo_masked_scatter(tl_Tensor *self, tl_Tensor *mask, tl_Tensor *source) {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_broadcast_shape("masked_scatter", (tl_Tensor *[]){self, mask}, 2, &ndim, sizes));
  tl_Tensor *wide = tlo_expand(self, (tl_Ints){ndim, sizes});
  tl_Tensor *result = wide ? tlo_clone(wide) : NULL;
  if (result && !scatter_masked(result, mask, source)) {
    tli_release(result);
    result = NULL;
  }
  tli_release(wide);
  return result;
}
