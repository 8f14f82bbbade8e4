/*
** gradient.c - numerical derivatives of sampled functions. Two neighbouring samples define a slope.
** The estimate at a sample is the mean of the slopes on its two sides. The weight of each slope is
** the distance to the neighbour on the other side, so the estimate is exact for parabolas.
*/
#include "ops/chain.h"

static tl_Tensor *chain_piece(tli_Chain *c, tl_Tensor *t, int d, int64_t first, int64_t n) {
  return TLI_STEP(c, tlo_slice(t, d, first, first + n, 1));
}

/* Returns the differences between neighbouring elements: the next element minus each element. */
static tl_Tensor *chain_steps(tli_Chain *c, tl_Tensor *t, int d) {
  int64_t n = t->sizes[d] - 1;
  tl_Tensor *before = chain_piece(c, t, d, 0, n);
  return chain_sub(c, chain_piece(c, t, d, 1, n), before);
}

/* Returns the estimate at the first or last sample. For order 1 it is the adjacent slope, for order
** 2 the slope of the parabola through the three outermost samples. */
static tl_Tensor *chain_end_slope(tli_Chain *c, tl_Tensor *slopes, tl_Tensor *gaps, int d,
                                  bool first, int64_t order) {
  int64_t n = slopes->sizes[d], at = first ? 0 : n - 1, next = first ? 1 : n - 2;
  tl_Tensor *slope = chain_piece(c, slopes, d, at, 1);
  if (order == 1) return slope;
  tl_Tensor *bend = chain_sub(c, slope, chain_piece(c, slopes, d, next, 1));
  if (gaps == NULL) return chain_add(c, slope, chain_scale(c, bend, 0.5));
  tl_Tensor *gap = chain_piece(c, gaps, d, at, 1);
  tl_Tensor *both = chain_add(c, gap, chain_piece(c, gaps, d, next, 1));
  return chain_add(c, slope, chain_mul(c, bend, chain_div(c, gap, both)));
}

static tl_Tensor *chain_middle(tli_Chain *c, tl_Tensor *f, tl_Tensor *slopes, tl_Tensor *gaps,
                               int d) {
  int64_t n = f->sizes[d] - 2;
  if (gaps == NULL) {
    tl_Tensor *before = chain_piece(c, f, d, 0, n);
    return chain_scale(c, chain_sub(c, chain_piece(c, f, d, 2, n), before), 0.5);
  }
  tl_Tensor *left = chain_piece(c, gaps, d, 0, n), *right = chain_piece(c, gaps, d, 1, n);
  tl_Tensor *a = chain_mul(c, chain_piece(c, slopes, d, 0, n), right);
  tl_Tensor *b = chain_mul(c, chain_piece(c, slopes, d, 1, n), left);
  tl_Tensor *sum = chain_add(c, a, b);
  return chain_div(c, sum, chain_add(c, left, right));
}

/* Differentiates f along d. `gaps` has the distances between neighbouring samples and broadcasts
** with f; if it is NULL, all distances are `gap`. */
static tl_Tensor *derivative(tl_Tensor *f, int d, tl_Tensor *gaps, double gap, int64_t order) {
  tli_Chain c = {0};
  tl_Tensor *slopes = chain_steps(&c, f, d);
  if (gaps) slopes = chain_div(&c, slopes, gaps);
  if (c.failed) return tli_chain_end(&c, NULL);
  tl_Tensor *parts[3] = {chain_end_slope(&c, slopes, gaps, d, true, order),
                         chain_middle(&c, f, slopes, gaps, d),
                         chain_end_slope(&c, slopes, gaps, d, false, order)};
  tl_Tensor *result = TLI_STEP(&c, tlo_cat((tl_Tensors){3, parts}, d));
  if (gap != 1) result = chain_scale(&c, result, 1 / gap);
  return tli_chain_end(&c, result);
}

/* Returns the distances between neighbouring coordinates, in a shape that broadcasts with f along
** d. */
static tl_Tensor *gaps_of(tl_Tensor *coordinates, const tl_Tensor *f, int d) {
  if (coordinates->ndim != 1 || coordinates->sizes[0] != f->sizes[d])
    return tli_fail_null(TL_ESHAPE,
                         "gradient: spacing: expected [%" PRId64
                         "] coordinates for dimension " TLI_POS ", got %s",
                         f->sizes[d], (int64_t)d, tli_sizes_str(coordinates));
  int64_t line[TL_MAX_DIMS];
  for (int k = 0; k < f->ndim; k++) line[k] = k == d ? f->sizes[d] - 1 : 1;
  tli_Chain c = {0};
  tl_Tensor *steps = chain_steps(&c, coordinates, 0);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_reshape(steps, (tl_Ints){f->ndim, line})));
}

/* Reads the dimensions in the given order. Returns their number, or -1 with a message. */
static int read_dims(const tl_Tensor *self, tl_Ints dim, int64_t order, int *dims) {
  bool marked[TL_MAX_DIMS];
  if (order != 1 && order != 2) {
    tli_fail(TL_EARG, "gradient: edge_order: expected 1 or 2, got %" PRId64, order);
    return -1;
  }
  if (!tli_mark_dims("gradient", dim, self->ndim, marked)) return -1;
  int n = dim.n > 0 ? (int)dim.n : self->ndim;
  for (int i = 0; i < n; i++) {
    int64_t d = dim.n > 0 ? dim.v[i] : i;
    dims[i] = (int)(d < 0 ? d + self->ndim : d);
    if (self->sizes[dims[i]] > order) continue;
    tli_fail(TL_ESHAPE,
             "gradient: self: expected at least %" PRId64 " elements in dimension " TLI_POS
             ", got %s",
             order + 1, (int64_t)dims[i], tli_sizes_str(self));
    return -1;
  }
  return n;
}

static bool check_count(int64_t got, int want) {
  if (got == want) return true;
  return tli_fail(TL_EARG,
                  "gradient: spacing: expected one for each of %d dimensions, got %" PRId64, want,
                  got);
}

bool tlo_gradient(tl_Tensor *self, tl_Floats spacing, tl_Ints dim, int64_t edge_order,
                  tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int dims[TL_MAX_DIMS], n = read_dims(self, dim, edge_order, dims);
  TL_TRY(n >= 0);
  /* whether the spacing is the same for all dimensions */
  bool one = spacing.v == NULL || spacing.n == 1;
  TL_TRY(one || check_count(spacing.n, n));
  tl_Tensor *f = tli_floating(self);
  tl_Tensors list = tli_tensors_new(n);
  bool ok = f && list.v;
  for (int i = 0; ok && i < n; i++) {
    double gap = spacing.v == NULL ? 1 : spacing.v[one ? 0 : i];
    ok = (list.v[i] = derivative(f, dims[i], NULL, gap, edge_order)) != NULL;
  }
  tli_release(f);
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}

bool tlo_gradient_coordinates(tl_Tensor *self, tl_Tensors spacing, tl_Ints dim, int64_t edge_order,
                              tl_Tensors *out) {
  *out = (tl_Tensors){0, NULL};
  int dims[TL_MAX_DIMS], n = read_dims(self, dim, edge_order, dims);
  TL_TRY(n >= 0);
  TL_TRY(check_count(spacing.n, n));
  tl_Tensor *f = tli_floating(self);
  tl_Tensors list = tli_tensors_new(n);
  bool ok = f && list.v;
  for (int i = 0; ok && i < n; i++) {
    tl_Tensor *gaps = gaps_of(spacing.v[i], f, dims[i]);
    list.v[i] = gaps ? derivative(f, dims[i], gaps, 1, edge_order) : NULL;
    ok = list.v[i] != NULL;
    tli_release(gaps);
  }
  tli_release(f);
  if (!ok) tli_tensors_free(&list);
  *out = list;
  return ok;
}
