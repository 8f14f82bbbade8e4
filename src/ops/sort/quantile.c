/*
** quantile.c - quantiles. self is sorted; each q determines a rank, and the two elements next to
** that rank are interpolated. Quantiles are differentiable because sorting and gathering are.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

typedef enum Way { LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT } Way;

static bool way_of(const char *op, const char *name, Way *way) {
  static const char *const names[] = {"linear", "lower", "higher", "nearest", "midpoint"};
  for (int i = 0; i <= MIDPOINT; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    *way = (Way)i;
    return true;
  }
  return tli_fail(TL_EARG,
                  "%s: interpolation: expected 'linear', 'lower', 'higher', 'nearest' or "
                  "'midpoint', got '%s'",
                  op, name);
}

static bool check(const char *op, const tl_Tensor *self, tl_Tensor *q) {
  tl_DType dtype = (tl_DType)self->dtype;
  if (dtype != TL_F32 && dtype != TL_F64)
    return tli_fail(TL_EDTYPE, "%s: expected float32 or float64, got %s", op, tl_dtype_name(dtype));
  if (q->ndim > 1 || q->dtype != self->dtype)
    return tli_fail(TL_EARG,
                    "%s: q: expected a number or numbers of one dimension in %s, got %s %s", op,
                    tl_dtype_name(dtype), tl_dtype_name((tl_DType)q->dtype), tli_sizes_str(q));
  if (self->numel == 0)
    return tli_fail(TL_ESHAPE, "%s: expected at least one element, got %s", op,
                    tli_sizes_str(self));
  return tli_check_range(op, "q", q, 0, 1);
}

/* Returns the rows whose elements are ranked: (..., n). Without dim, self is flattened to one
** row. */
static tl_Tensor *chain_rows(tli_Chain *c, tl_Tensor *self, int64_t dim) {
  if (dim == TLI_NOINT) return TLI_STEP(c, tlo_reshape(self, (tl_Ints){1, &self->numel}));
  if (self->ndim < 2) return TLI_STEP(c, tlo_reshape(self, (tl_Ints){1, &self->numel}));
  return TLI_STEP(c, tlo_transpose(self, dim, -1));
}

/* Returns, for each row and each q, the rank (from 0) that corresponds to q: (..., nq). */
static tl_Tensor *chain_ranks(tli_Chain *c, tl_Tensor *sorted, tl_Tensor *q, bool skip_nan) {
  int64_t last = -1, n = sorted->sizes[sorted->ndim - 1];
  tl_Tensor *nan = TLI_STEP(c, tlo_isnan(sorted));
  if (skip_nan) {
    tl_Tensor *valid = TLI_STEP(c, tlo_logical_not(nan));
    tl_Tensor *count = TLI_STEP(c, tlo_sum(valid, (tl_Ints){1, &last}, true, TL_NODTYPE));
    tl_Tensor *number = TLI_STEP(c, tlo_to_dtype(count, (tl_DType)sorted->dtype));
    tl_Tensor *span = chain_sub(c, number, chain_number(c, 1));
    tl_Tensor *ranks = chain_mul(c, q, span);
    /* a row that contains only NaN would otherwise get negative ranks */
    return chain_with(c, tlo_clamp_min, ranks, 0);
  }
  tl_Tensor *ranks = chain_scale(c, q, (double)(n - 1));
  /* for a row that contains NaN, the rank is that of the last element: sorting puts NaN last */
  tl_Tensor *bad = TLI_STEP(c, tlo_any(nan, (tl_Ints){1, &last}, true));
  tl_Tensor *end = chain_number(c, (double)(n - 1));
  return TLI_STEP(c, tlo_where(bad, end, ranks));
}

/* Returns the elements of `sorted` at the given ranks, which must be whole numbers. */
static tl_Tensor *chain_at(tli_Chain *c, tl_Tensor *sorted, tl_Tensor *ranks) {
  tl_Tensor *whole = TLI_STEP(c, tlo_to_dtype(ranks, TL_I64));
  tl_Tensor *position = TLI_STEP(c, tli_with_number(tli_plus, whole, tli_int(1)));
  return TLI_STEP(c, tlo_gather(sorted, -1, position));
}

static tl_Tensor *chain_join(tli_Chain *c, tl_Tensor *sorted, tl_Tensor *ranks, Way way) {
  tl_Tensor *below = TLI_STEP(c, tlo_floor(ranks)), *above = TLI_STEP(c, tlo_ceil(ranks));
  if (way == LOWER) return chain_at(c, sorted, below);
  if (way == HIGHER) return chain_at(c, sorted, above);
  if (way == NEAREST) return chain_at(c, sorted, TLI_STEP(c, tlo_round(ranks, 0)));
  tl_Tensor *weight = way == MIDPOINT ? chain_number(c, 0.5) : chain_sub(c, ranks, below);
  tl_Tensor *low = chain_at(c, sorted, below), *high = chain_at(c, sorted, above);
  return TLI_STEP(c, tlo_lerp(low, high, weight));
}

/* Converts (..., nq) to the shape of the result. The dimension of q comes first, or is removed if q
** is a number. */
static tl_Tensor *chain_shape(tli_Chain *c, tl_Tensor *found, const tl_Tensor *self,
                              const tl_Tensor *q, int64_t dim, bool keepdim) {
  int64_t sizes[TL_MAX_DIMS], n = 0;
  if (c->failed) return NULL;
  if (q->ndim == 1) {
    found = TLI_STEP(
        c, tlo_movedim(found, (tl_Ints){1, (int64_t[]){-1}}, (tl_Ints){1, (int64_t[]){0}}));
    sizes[n++] = q->numel;
  } else {
    found = TLI_STEP(c, tlo_select(found, -1, 0));
  }
  if (dim == TLI_NOINT || self->ndim < 2) {
    for (int d = 0; keepdim && d < self->ndim; d++) sizes[n++] = 1;
    return TLI_STEP(c, tlo_reshape(found, (tl_Ints){n, sizes}));
  }
  /* moves the row dimension, which was exchanged with the last one, back to dim */
  if (keepdim || dim != self->ndim - 1) found = chain_unsqueeze(c, found, -1);
  if (dim != self->ndim - 1) {
    found = TLI_STEP(c, tlo_transpose(found, n + dim, -1));
    if (!keepdim) found = TLI_STEP(c, tlo_select(found, n + dim, 0));
  }
  return found;
}

static tl_Tensor *quantile(const char *op, tl_Tensor *self, tl_Tensor *q, int64_t dim, bool keepdim,
                           const char *interpolation, bool skip_nan) {
  Way way = LINEAR;
  TL_TRY_NULL(way_of(op, interpolation, &way));
  TL_TRY_NULL(check(op, self, q));
  if (dim != TLI_NOINT && (dim = tli_dim(op, dim, self->ndim)) < 0) return NULL;
  if (dim != TLI_NOINT && self->ndim > 0 && self->sizes[dim] == 0)
    return tli_fail_null(TL_ESHAPE, "%s: expected at least one element along dim, got %s", op,
                         tli_sizes_str(self));
  tli_Chain c = {0};
  tl_Tensor *out[2] = {NULL};
  tl_Tensor *rows = chain_rows(&c, self, dim);
  if (!c.failed && tlo_sort(rows, -1, false, true, out)) {
    tli_keep(&c, out[0]);
    tli_keep(&c, out[1]);
  } else {
    c.failed = true;
  }
  if (c.failed) return tli_chain_end(&c, NULL);
  tl_Tensor *list = TLI_STEP(&c, tlo_reshape(q, (tl_Ints){1, (int64_t[]){q->numel}}));
  /* with any other interpolation, the result is a step function of q, so q gets no gradient */
  if (way != LINEAR) list = TLI_STEP(&c, tlo_detach(list));
  tl_Tensor *values = TLI_STEP(&c, tlo_detach(out[0]));
  tl_Tensor *ranks = c.failed ? NULL : chain_ranks(&c, values, list, skip_nan);
  int64_t sizes[TL_MAX_DIMS];
  memcpy(sizes, out[0]->sizes, sizeof sizes);
  sizes[out[0]->ndim - 1] = q->numel;
  ranks = TLI_STEP(&c, tlo_expand(ranks, (tl_Ints){out[0]->ndim, sizes}));
  tl_Tensor *found = c.failed ? NULL : chain_join(&c, out[0], ranks, way);
  return tli_chain_end(&c, chain_shape(&c, found, self, q, dim, keepdim));
}

static tl_Tensor *quantile_of(const char *op, tl_Tensor *self, double q, int64_t dim, bool keepdim,
                              const char *interpolation, bool skip_nan) {
  if (!(q >= 0 && q <= 1)) /* only numbers are checked here; a tensor q is checked on its device */
    return tli_fail_null(TL_EARG, "%s: q: expected a number from 0 to 1, got %g", op, q);
  tl_DType dtype = tli_floating_dtype(self);
  tl_Tensor *number = tli_scalar_tensor(tli_float(q), dtype, tli_device(self));
  tl_Tensor *result =
      number ? quantile(op, self, number, dim, keepdim, interpolation, skip_nan) : NULL;
  tli_release(number);
  return result;
}

tl_Tensor *tlo_quantile(tl_Tensor *self, double q, int64_t dim, bool keepdim,
                        const char *interpolation) {
  return quantile_of("quantile", self, q, dim, keepdim, interpolation, false);
}

tl_Tensor *tlo_quantile_several(tl_Tensor *self, tl_Tensor *q, int64_t dim, bool keepdim,
                                const char *interpolation) {
  return quantile("quantile", self, q, dim, keepdim, interpolation, false);
}

tl_Tensor *tlo_nanquantile(tl_Tensor *self, double q, int64_t dim, bool keepdim,
                           const char *interpolation) {
  return quantile_of("nanquantile", self, q, dim, keepdim, interpolation, true);
}

tl_Tensor *tlo_nanquantile_several(tl_Tensor *self, tl_Tensor *q, int64_t dim, bool keepdim,
                                   const char *interpolation) {
  return quantile("nanquantile", self, q, dim, keepdim, interpolation, true);
}
