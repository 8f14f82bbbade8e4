/*
** statistics.c - several reductions at once, covariance, and counts. Counts are sums of ones at
** computed positions.
*/
#include <math.h>

#include "ops/chain.h"

/* ---- two results ---- */

bool tlo_std_mean(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool unbiased, bool keepdim,
                  tl_Tensor **out) {
  tli_Chain c = {0};
  out[0] = TLI_STEP(&c, tlo_std(self, dim, correction, unbiased, keepdim));
  out[1] = TLI_STEP(&c, tlo_mean(self, dim, keepdim, TL_NODTYPE));
  return tli_chain_end_all(&c, out, 2);
}

bool tlo_var_mean(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool unbiased, bool keepdim,
                  tl_Tensor **out) {
  tli_Chain c = {0};
  out[0] = TLI_STEP(&c, tlo_var(self, dim, correction, unbiased, keepdim));
  out[1] = TLI_STEP(&c, tlo_mean(self, dim, keepdim, TL_NODTYPE));
  return tli_chain_end_all(&c, out, 2);
}

bool tlo_std_mean_unbiased(tl_Tensor *self, bool unbiased, tl_Tensor **out) {
  return tlo_std_mean(self, TLI_NOINTS, tli_int(1), unbiased, false, out);
}

bool tlo_std_mean_dim(tl_Tensor *self, tl_Ints dim, bool unbiased, bool keepdim, tl_Tensor **out) {
  return tlo_std_mean(self, dim, tli_int(1), unbiased, keepdim, out);
}

bool tlo_var_mean_unbiased(tl_Tensor *self, bool unbiased, tl_Tensor **out) {
  return tlo_var_mean(self, TLI_NOINTS, tli_int(1), unbiased, false, out);
}

bool tlo_var_mean_dim(tl_Tensor *self, tl_Ints dim, bool unbiased, bool keepdim, tl_Tensor **out) {
  return tlo_var_mean(self, dim, tli_int(1), unbiased, keepdim, out);
}

bool tlo_aminmax(tl_Tensor *self, int64_t dim, bool keepdim, tl_Tensor **out) {
  tl_Ints dims = dim == TLI_NOINT ? TLI_NOINTS : (tl_Ints){1, &dim};
  tli_Chain c = {0};
  out[0] = TLI_STEP(&c, tlo_amin(self, dims, keepdim));
  out[1] = TLI_STEP(&c, tlo_amax(self, dims, keepdim));
  return tli_chain_end_all(&c, out, 2);
}

tl_Tensor *tlo_trace(tl_Tensor *self) {
  if (self->ndim != 2)
    return tli_fail_null(TL_ESHAPE, "trace: expected a matrix, got shape %s", tli_sizes_str(self));
  tli_Chain c = {0};
  tl_Tensor *diagonal = TLI_STEP(&c, tlo_diagonal(self, 0, 0, 1));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_sum(diagonal, TLI_NOINTS, false, TL_NODTYPE)));
}

/* ---- covariance ---- */

static bool no_negative(const char *name, tl_Tensor *w) {
  double least;
  TL_TRY(tli_smallest(w, &least));
  return !(least < 0) ||
         tli_fail(TL_EARG, "cov: %s: expected no negative weights, got %g", name, least);
}

static bool check_weights(const char *name, tl_Tensor *w, int64_t n, bool whole) {
  if (w == NULL) return true;
  if (w->ndim > 1 || w->numel != n)
    return tli_fail(TL_ESHAPE, "cov: %s: expected %" PRId64 " weights, got shape %s", name, n,
                    tli_sizes_str(w));
  if (tli_is_float((tl_DType)w->dtype) == !whole) return no_negative(name, w);
  return tli_fail(TL_EDTYPE, "cov: %s: expected %s, got %s", name, whole ? "integers" : "floats",
                  tl_dtype_name((tl_DType)w->dtype));
}

/* Returns the weight of each observation, the product of fweights and aweights. Returns NULL,
** without an error, if neither is given. */
static tl_Tensor *joint_weights(tl_Tensor *fweights, tl_Tensor *aweights, tl_DType dtype) {
  if (fweights && aweights) return tlo_mul(fweights, aweights);
  return fweights ? tlo_to_dtype(fweights, dtype) : tli_retain(aweights);
}

static bool number_of(tl_Tensor *t, double *out) { return tli_read(t, TL_F64, out); }

/* The weights w of the observations, their sum, and the divisor of a weighted sum of products. As
** in NumPy, the divisor is sum(w) - correction * sum(w * aweights) / sum(w). The tensors belong to
** a chain. */
typedef struct Weighing {
  /* w is NULL if no weights are given; each observation then has weight 1 */
  tl_Tensor *w, *total, *divisor;
} Weighing;

static Weighing weighed(tli_Chain *c, tl_Tensor *fweights, tl_Tensor *aweights, double correction,
                        const tl_Tensor *x) {
  Weighing s;
  double total = 1;
  s.w = TLI_STEP(c, joint_weights(fweights, aweights, tli_real_dtype((tl_DType)x->dtype)));
  s.total = TLI_STEP(c, tlo_sum(s.w, TLI_NOINTS, false, TL_NODTYPE));
  if (tli_has_values(x)) TLI_DO(c, number_of(s.total, &total));
  TLI_DO(c, total != 0 || tli_fail(TL_EARG, "cov: the weights sum to 0"));
  tl_Tensor *lost = aweights ? chain_mul(c, s.w, aweights) : s.w;
  tl_Tensor *sum = TLI_STEP(c, tlo_sum(lost, TLI_NOINTS, false, TL_NODTYPE));
  tl_Tensor *mean = chain_scale(c, chain_div(c, sum, s.total), correction);
  s.divisor = chain_with_int(c, tlo_clamp_min, chain_sub(c, s.total, mean), 0);
  return s;
}

static Weighing weighed_evenly(tli_Chain *c, int64_t n, double correction) {
  double freedom = (double)n - correction;
  return (Weighing){.total = chain_number(c, (double)n),
                    .divisor = chain_number(c, freedom > 0 ? freedom : 0)};
}

/* Computes the covariance matrix of x (variables, observations). */
static tl_Tensor *chain_covariance(tli_Chain *c, tl_Tensor *x, const Weighing *s) {
  tl_Tensor *sum = chain_sum(c, s->w ? chain_mul(c, x, s->w) : x, 1, true);
  tl_Tensor *centred = chain_sub(c, x, chain_div(c, sum, s->total));
  tl_Tensor *counted = s->w ? chain_mul(c, centred, s->w) : centred;
  tl_Tensor *products = chain_matmul(c, centred, chain_h(c, counted));
  tl_Tensor *cov = chain_div(c, products, s->divisor);
  return TLI_STEP(c, tlo_squeeze(cov, TLI_NOINTS));
}

tl_Tensor *tlo_cov(tl_Tensor *self, tl_Scalar correction_, tl_Tensor *fweights,
                   tl_Tensor *aweights) {
  if (self->ndim > 2 || self->dtype == TL_BOOL)
    return tli_fail_null(TL_ESHAPE,
                         "cov: expected at most 2 dimensions of numbers, got shape %s of %s",
                         tli_sizes_str(self), tl_dtype_name((tl_DType)self->dtype));
  int64_t n = self->ndim == 0 ? 1 : self->sizes[self->ndim - 1];
  TL_TRY_NULL(check_weights("fweights", fweights, n, true) &&
              check_weights("aweights", aweights, n, false));
  double correction = tli_to_double(correction_);
  tli_Chain c = {0};
  tl_Tensor *floating = TLI_STEP(&c, tli_floating(self));
  tl_Tensor *x = TLI_STEP(&c, tlo_atleast_2d(floating));
  if (c.failed) return tli_chain_end(&c, NULL);
  Weighing s = fweights || aweights ? weighed(&c, fweights, aweights, correction, x)
                                    : weighed_evenly(&c, n, correction);
  return tli_chain_end(&c, chain_covariance(&c, x, &s));
}

static tl_Tensor *chain_within_one(tli_Chain *c, tl_Tensor *t) {
  t = chain_with_int(c, tlo_clamp_max, t, 1);
  return chain_with_int(c, tlo_clamp_min, t, -1);
}

tl_Tensor *tlo_corrcoef(tl_Tensor *self) {
  tli_Chain c = {0};
  tl_Tensor *cov = TLI_STEP(&c, tlo_cov(self, tli_int(1), NULL, NULL));
  if (cov && cov->ndim == 0) return tli_chain_end(&c, chain_div(&c, cov, cov));
  tl_Tensor *variances = TLI_STEP(&c, tlo_diagonal(cov, 0, 0, 1));
  variances = TLI_STEP(&c, tlo_real(variances)); /* the imaginary part of a variance is 0 */
  tl_Tensor *deviations = TLI_STEP(&c, tlo_sqrt(variances));
  tl_Tensor *of_rows = chain_div(&c, cov, chain_unsqueeze(&c, deviations, 1));
  tl_Tensor *result = chain_div(&c, of_rows, deviations);
  if (c.failed || !tli_is_complex((tl_DType)result->dtype))
    return tli_chain_end(&c, chain_within_one(&c, result));
  tl_Tensor *re = TLI_STEP(&c, tlo_real(result)), *im = TLI_STEP(&c, tlo_imag(result));
  re = chain_within_one(&c, re);
  im = chain_within_one(&c, im);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_complex(re, im)));
}

/* ---- counting ---- */

/* Returns n sums. src[i] is added to sum number positions[i], counted from 1. If src is NULL, 1 is
** added instead. */
static tl_Tensor *add_up(tl_Tensor *positions, tl_Tensor *src, int64_t n, tl_DType dtype) {
  tli_Chain c = {0};
  tl_Tensor *zeros = TLI_STEP(&c, tlo_zeros((tl_Ints){1, &n}, dtype, tli_device(positions)));
  tl_Tensor *added = src ? chain_to(&c, src, dtype)
                         : TLI_STEP(&c, tlo_ones_like(positions, dtype, TLI_NODEVICE, NULL));
  tl_Tensor *at = chain_to(&c, positions, TL_I64);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_scatter_add(zeros, 0, at, added)));
}

static bool ends_of(tl_Tensor *self, double *low, double *high) {
  tli_Chain c = {0};
  tl_Tensor *least = TLI_STEP(&c, tlo_amin(self, TLI_NOINTS, false));
  tl_Tensor *most = TLI_STEP(&c, tlo_amax(self, TLI_NOINTS, false));
  TLI_DO(&c, number_of(least, low) && number_of(most, high));
  return tli_chain_end_all(&c, NULL, 0);
}

tl_Tensor *tlo_bincount(tl_Tensor *self, tl_Tensor *weights, int64_t minlength) {
  if (self->ndim != 1 || tli_dtype_category((tl_DType)self->dtype) != TLI_INT)
    return tli_fail_null(TL_EARG, "bincount: expected a vector of integers, got shape %s of %s",
                         tli_sizes_str(self), tl_dtype_name((tl_DType)self->dtype));
  if (weights && !tli_same_sizes(self, weights))
    return tli_fail_null(TL_ESHAPE, "bincount: expected weights of shape %s, got %s",
                         tli_sizes_str(self), tli_sizes_str(weights));
  if (minlength < 0)
    return tli_fail_null(TL_EARG, "bincount: minlength: expected at least 0, got %" PRId64,
                         minlength);
  double low = 1, high = 0;
  if (self->numel > 0) TL_TRY_NULL(ends_of(self, &low, &high));
  if (low < 1)
    return tli_fail_null(TL_EINDEX, "bincount: expected positions of at least 1, got %g", low);
  int64_t n = (int64_t)high > minlength ? (int64_t)high : minlength;
  tl_DType dtype = weights == NULL ? TL_I64 : weights->dtype == TL_F32 ? TL_F32 : TL_F64;
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *result = add_up(self, weights, n, dtype);
  tli_set_grad_mode(mode);
  return result;
}

/* Determines the range [low, high] of a histogram. This is the requested range or, if that is
** empty, the range of the elements. If low and high are still equal, both are moved outwards by
** `beside`. If the tensor has no elements, high becomes low + 1 instead. */
static bool settle_range(const char *op, tl_Tensor *self, double beside, double *low,
                         double *high) {
  if (*low == *high && self->numel > 0 && tli_has_values(self)) TL_TRY(ends_of(self, low, high));
  if (*low == *high) {
    *low -= self->numel > 0 ? beside : 0;
    *high += self->numel > 0 ? beside : 1;
  }
  if (isfinite(*low) && isfinite(*high) && *low < *high) return true;
  return tli_fail(TL_EARG, "%s: expected a finite range with min <= max, got %g to %g", op, *low,
                  *high);
}

static bool check_counted(const char *op, tl_Tensor *self, int64_t bins) {
  if (!tli_is_float((tl_DType)self->dtype))
    return tli_fail(TL_EDTYPE, "%s: expected a floating tensor, got %s", op,
                    tl_dtype_name((tl_DType)self->dtype));
  /* INT64_MAX bins are too many, because there is one more edge than bins */
  if (bins > 0 && bins < INT64_MAX) return true;
  return tli_fail(TL_EARG, "%s: expected at least 1 bin and less than 2^63 - 1, got %" PRId64, op,
                  bins);
}

/* Returns a mask of the elements that are in [low, high]. */
static tl_Tensor *chain_inside(tli_Chain *c, tl_Tensor *self, double low, double high) {
  tl_Tensor *above = chain_with(c, tlo_ge, self, low), *below = chain_with(c, tlo_le, self, high);
  return TLI_STEP(c, tlo_logical_and(above, below));
}

/* Returns the bin of each element, counted from 1. Bin i is [edges[i], edges[i + 1]); the last bin
** includes its upper edge. */
static tl_Tensor *parts_of(tl_Tensor *elements, tl_Tensor *edges) {
  tli_Chain c = {0};
  tl_Tensor *behind = TLI_STEP(&c, tlo_searchsorted(edges, elements, false, true, NULL, NULL));
  tl_Tensor *part = chain_with_int(&c, tli_minus, behind, 1);
  return tli_chain_end(&c, chain_with_int(&c, tlo_clamp_max, part, edges->sizes[0] - 1));
}

static tl_Tensor *count_parts(tl_Tensor *self, tl_Tensor *weight, tl_Tensor *edges, double low,
                              double high) {
  int64_t n = edges->sizes[0] - 1;
  if (!tli_has_values(self)) return tli_empty((tl_DType)self->dtype, tli_device(self), 1, &n);
  tli_Chain c = {0};
  tl_Tensor *inside = chain_inside(&c, self, low, high);
  tl_Tensor *elements = TLI_STEP(&c, tlo_masked_select(self, inside));
  if (weight) weight = TLI_STEP(&c, tlo_masked_select(weight, inside));
  tl_Tensor *parts = TLI_STEP(&c, parts_of(elements, edges));
  return tli_chain_end(&c, TLI_STEP(&c, add_up(parts, weight, n, (tl_DType)self->dtype)));
}

/* Returns the number rounded to a dtype. */
static double rounded(tl_DType dtype, double value) {
  double held; /* large enough for an element of any dtype */
  tli_store(&held, dtype, tli_float(value));
  return tli_to_double(tli_load(&held, dtype));
}

/* Counts the elements in bins. An element's bin is (element - low) * bins / (high - low), rounded
** down; each step is computed in self's dtype. Elements equal to `high` belong to the last bin. */
tl_Tensor *tlo_histc(tl_Tensor *self, int64_t bins, tl_Scalar min, tl_Scalar max) {
  TL_TRY_NULL(check_counted("histc", self, bins));
  tl_DType dtype = (tl_DType)self->dtype;
  double low = tli_to_double(min), high = tli_to_double(max);
  TL_TRY_NULL(settle_range("histc", self, 1, &low, &high));
  if (!tli_has_values(self)) return tli_empty(dtype, tli_device(self), 1, &bins);
  low = rounded(dtype, low);
  high = rounded(dtype, high);
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *inside = chain_inside(&c, self, low, high);
  tl_Tensor *elements = TLI_STEP(&c, tlo_masked_select(self, inside));
  tl_Tensor *place = chain_with(&c, tli_minus, elements, low);
  place = chain_with(&c, tlo_mul, place, (double)bins);
  place = chain_with(&c, tlo_true_divide, place, rounded(dtype, high - low));
  tl_Tensor *part = chain_with_int(&c, tli_plus, chain_to(&c, place, TL_I64), 1);
  part = chain_with_int(&c, tlo_clamp_max, part, bins);
  tl_Tensor *result = tli_chain_end(&c, TLI_STEP(&c, add_up(part, NULL, bins, dtype)));
  tli_set_grad_mode(mode);
  return result;
}

/* Scales the counts so that their integral over the bins is 1. */
static tl_Tensor *as_density(tl_Tensor *hist, tl_Tensor *edges) {
  tli_Chain c = {0};
  tl_Tensor *widths = TLI_STEP(&c, tlo_diff(edges, 1, 0, NULL, NULL));
  tl_Tensor *sum = TLI_STEP(&c, tlo_sum(hist, TLI_NOINTS, false, TL_NODTYPE));
  return tli_chain_end(&c, chain_div(&c, hist, chain_mul(&c, widths, sum)));
}

/* Computes a histogram: out[0] receives the counts, out[1] the edges. Steals edges; fails if edges
** is NULL. */
static bool histogram(tl_Tensor *self, tl_Tensor *edges, tl_Tensor *weight, bool density,
                      tl_Tensor **out) {
  double low = 0, high = 0;
  tli_Chain c = {0};
  out[1] = tli_keep(&c, edges);
  if (tli_has_values(self)) TLI_DO(&c, ends_of(edges, &low, &high));
  if (weight && !tli_same_sizes(self, weight))
    TLI_DO(&c, tli_fail(TL_ESHAPE, "histogram: expected weights of shape %s, got %s",
                        tli_sizes_str(self), tli_sizes_str(weight)));
  out[0] = TLI_STEP(&c, count_parts(self, weight, edges, low, high));
  if (density) out[0] = TLI_STEP(&c, as_density(out[0], edges));
  return tli_chain_end_all(&c, out, 2);
}

bool tlo_histogram(tl_Tensor *self, int64_t bins, tl_Floats range, tl_Tensor *weight, bool density,
                   tl_Tensor **out) {
  out[0] = out[1] = NULL;
  TL_TRY(check_counted("histogram", self, bins));
  if (range.v && range.n != 2)
    return tli_fail(TL_EARG, "histogram: range: expected 2 numbers, got %" PRId64, range.n);
  double low = range.v ? range.v[0] : 0, high = range.v ? range.v[1] : 0;
  TL_TRY(settle_range("histogram", self, 0.5, &low, &high));
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *edges = tlo_linspace(tli_float(low), tli_float(high), bins + 1, (tl_DType)self->dtype,
                                  tli_device(self));
  bool ok = histogram(self, edges, weight, density, out);
  tli_set_grad_mode(mode);
  return ok;
}

bool tlo_histogram_edges(tl_Tensor *self, tl_Tensor *bins, tl_Tensor *weight, bool density,
                         tl_Tensor **out) {
  out[0] = out[1] = NULL;
  TL_TRY(check_counted("histogram", self, bins->numel - 1));
  if (bins->ndim != 1 || bins->dtype != self->dtype)
    return tli_fail(TL_EARG, "histogram: bins: expected a vector of %s, got shape %s of %s",
                    tl_dtype_name((tl_DType)self->dtype), tli_sizes_str(bins),
                    tl_dtype_name((tl_DType)bins->dtype));
  bool mode = tli_set_grad_mode(false);
  bool ok = histogram(self, tlo_clone(bins), weight, density, out);
  tli_set_grad_mode(mode);
  return ok;
}
