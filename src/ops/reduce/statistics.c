/*
** statistics.c - several reductions at once, covariance, and counting, which
** adds ones where searches or positions say.
*/
#include <math.h>

#include "ops/common.h"

/* ---- two results ---- */

/* The end of an operator with two results: both, or neither. */
static bool both(tl_Tensor **out) {
  if (out[0] && out[1]) return true;
  tli_release_results(out, 2);
  return false;
}

bool tlo_std_mean(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool unbiased, bool keepdim,
                  tl_Tensor **out) {
  out[0] = tlo_std(self, dim, correction, unbiased, keepdim);
  out[1] = out[0] ? tlo_mean(self, dim, keepdim, TL_NODTYPE) : NULL;
  return both(out);
}

bool tlo_var_mean(tl_Tensor *self, tl_Ints dim, tl_Scalar correction, bool unbiased, bool keepdim,
                  tl_Tensor **out) {
  out[0] = tlo_var(self, dim, correction, unbiased, keepdim);
  out[1] = out[0] ? tlo_mean(self, dim, keepdim, TL_NODTYPE) : NULL;
  return both(out);
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
  out[0] = tlo_amin(self, dims, keepdim);
  out[1] = out[0] ? tlo_amax(self, dims, keepdim) : NULL;
  return both(out);
}

tl_Tensor *tlo_trace(tl_Tensor *self) {
  if (self->ndim != 2)
    return tli_fail_null(TL_ESHAPE, "trace: expected a matrix, got shape %s", tli_sizes_str(self));
  tl_Tensor *diagonal = tlo_diagonal(self, 0, 0, 1);
  tl_Tensor *result = diagonal ? tlo_sum(diagonal, TLI_NOINTS, false, TL_NODTYPE) : NULL;
  tli_release(diagonal);
  return result;
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

/* How often an observation counts in all; NULL without message: once each. */
static tl_Tensor *joint_weights(tl_Tensor *fweights, tl_Tensor *aweights, tl_DType dtype) {
  if (fweights && aweights) return tlo_mul(fweights, aweights);
  return fweights ? tlo_to_dtype(fweights, dtype) : tli_retain(aweights);
}

static bool number_of(tl_Tensor *t, double *out) { return tli_read(t, TL_F64, out); }

/* sum(w) and what a weighted sum of products is divided by, as NumPy has it:
** sum(w) - correction * sum(w * aweights) / sum(w). Owned by the caller. */
typedef struct Weighing {
  tl_Tensor *w, *total, *divisor; /* w NULL: every observation counts once */
} Weighing;

static bool weigh(Weighing *s, tl_Tensor *fweights, tl_Tensor *aweights, double correction,
                  tl_DType dtype) {
  tl_Tensor *t[5] = {NULL};
  bool ok = false;
  TLI_SLOT(s->w, joint_weights(fweights, aweights, dtype));
  TLI_SLOT(s->total, tlo_sum(s->w, TLI_NOINTS, false, TL_NODTYPE));
  double total;
  if (!number_of(s->total, &total)) goto done;
  if (total == 0) {
    tli_fail(TL_EARG, "cov: the weights sum to 0");
    goto done;
  }
  TLI_SLOT(t[0], aweights ? tlo_mul(s->w, aweights) : tli_retain(s->w));
  TLI_SLOT(t[1], tlo_sum(t[0], TLI_NOINTS, false, TL_NODTYPE));
  TLI_SLOT(t[2], tlo_true_divide(t[1], s->total));
  TLI_SLOT(t[3], tlo_scaled(t[2], tli_float(correction)));
  TLI_SLOT(t[4], tli_minus(s->total, t[3]));
  TLI_SLOT(s->divisor, tli_with_number(tlo_clamp_min, t[4], tli_int(0)));
  ok = true;
done:
  tli_release_results(t, 5);
  return ok;
}

static bool weigh_evenly(Weighing *s, int64_t n, double correction) {
  double freedom = (double)n - correction;
  s->total = tli_number(tli_float((double)n));
  s->divisor = tli_number(tli_float(freedom > 0 ? freedom : 0));
  return s->total && s->divisor;
}

/* x (variables, observations) */
static tl_Tensor *covariance(tl_Tensor *x, const Weighing *s) {
  int64_t dim = 1;
  tl_Tensor *t[8] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], s->w ? tlo_mul(x, s->w) : tli_retain(x));
  TLI_SLOT(t[1], tlo_sum(t[0], (tl_Ints){1, &dim}, true, TL_NODTYPE));
  TLI_SLOT(t[2], tlo_true_divide(t[1], s->total));
  TLI_SLOT(t[3], tli_minus(x, t[2]));
  TLI_SLOT(t[4], s->w ? tlo_mul(t[3], s->w) : tli_retain(t[3]));
  TLI_SLOT(t[5], tlo_t(t[4]));
  TLI_SLOT(t[6], tlo_mm(t[3], t[5]));
  TLI_SLOT(t[7], tlo_true_divide(t[6], s->divisor));
  result = tlo_squeeze(t[7], TLI_NOINTS);
done:
  tli_release_results(t, 8);
  return result;
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
  Weighing s = {.w = NULL};
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tli_floating(self));
  TLI_SLOT(t[1], tlo_atleast_2d(t[0]));
  if (fweights || aweights ? weigh(&s, fweights, aweights, correction, (tl_DType)t[0]->dtype)
                           : weigh_evenly(&s, n, correction))
    result = covariance(t[1], &s);
done:
  tli_release_results(t, 2);
  tli_release_results((tl_Tensor *[]){s.w, s.total, s.divisor}, 3);
  return result;
}

tl_Tensor *tlo_corrcoef(tl_Tensor *self) {
  tl_Tensor *t[7] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_cov(self, tli_int(1), NULL, NULL));
  if (t[0]->ndim == 0) {
    result = tlo_true_divide(t[0], t[0]);
    goto done;
  }
  TLI_SLOT(t[1], tlo_diagonal(t[0], 0, 0, 1));
  TLI_SLOT(t[2], tlo_sqrt(t[1]));
  TLI_SLOT(t[3], tlo_unsqueeze(t[2], 1));
  TLI_SLOT(t[4], tlo_true_divide(t[0], t[3]));
  TLI_SLOT(t[5], tlo_true_divide(t[4], t[2]));
  TLI_SLOT(t[6], tli_with_number(tlo_clamp_max, t[5], tli_int(1)));
  result = tli_with_number(tlo_clamp_min, t[6], tli_int(-1));
done:
  tli_release_results(t, 7);
  return result;
}

/* ---- counting ---- */

/* n zeros with src (NULL: ones) added at positions from 1. */
static tl_Tensor *add_up(tl_Tensor *positions, tl_Tensor *src, int64_t n, tl_DType dtype) {
  tl_Tensor *t[3] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_zeros((tl_Ints){1, &n}, dtype, tli_device(positions)));
  TLI_SLOT(t[1], src ? tlo_to_dtype(src, dtype) : tlo_ones_like(positions, dtype, TLI_NODEVICE));
  TLI_SLOT(t[2], tlo_to_dtype(positions, TL_I64));
  result = tlo_scatter_add(t[0], 0, t[2], t[1]);
done:
  tli_release_results(t, 3);
  return result;
}

static bool ends_of(tl_Tensor *self, double *low, double *high) {
  tl_Tensor *t[2] = {NULL};
  bool ok = false;
  TLI_SLOT(t[0], tlo_amin(self, TLI_NOINTS, false));
  TLI_SLOT(t[1], tlo_amax(self, TLI_NOINTS, false));
  ok = number_of(t[0], low) && number_of(t[1], high);
done:
  tli_release_results(t, 2);
  return ok;
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

/* [low, high] as asked for, or that of the elements, never empty: `beside` is
** what a single value gets on both sides. */
static bool settle_range(const char *op, tl_Tensor *self, double beside, double *low,
                         double *high) {
  if (*low == *high && self->numel > 0) TL_TRY(ends_of(self, low, high));
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
  if (bins > 0 && bins < INT64_MAX) return true; /* there is one edge more */
  return tli_fail(TL_EARG, "%s: expected at least 1 bin and less than 2^63 - 1, got %" PRId64, op,
                  bins);
}

/* The elements within [low, high] and, where given, their weights. */
static bool within(tl_Tensor *self, tl_Tensor *weight, double low, double high, tl_Tensor **out) {
  tl_Tensor *t[3] = {NULL};
  out[0] = out[1] = NULL;
  bool ok = false;
  TLI_SLOT(t[0], tli_with_number(tlo_ge, self, tli_float(low)));
  TLI_SLOT(t[1], tli_with_number(tlo_le, self, tli_float(high)));
  TLI_SLOT(t[2], tlo_logical_and(t[0], t[1]));
  TLI_SLOT(out[0], tlo_masked_select(self, t[2]));
  if (weight) TLI_SLOT(out[1], tlo_masked_select(weight, t[2]));
  ok = true;
done:
  tli_release_results(t, 3);
  return ok;
}

/* The part of [edges[i], edges[i + 1]) that each element lies in, from 1; the
** last part has its upper edge. */
static tl_Tensor *parts_of(tl_Tensor *elements, tl_Tensor *edges) {
  tl_Tensor *t[2] = {NULL};
  tl_Tensor *result = NULL;
  TLI_SLOT(t[0], tlo_searchsorted(edges, elements, false, true, NULL, NULL));
  TLI_SLOT(t[1], tli_with_number(tli_minus, t[0], tli_int(1)));
  result = tli_with_number(tlo_clamp_max, t[1], tli_int(edges->sizes[0] - 1));
done:
  tli_release_results(t, 2);
  return result;
}

static tl_Tensor *count_parts(tl_Tensor *self, tl_Tensor *weight, tl_Tensor *edges, double low,
                              double high) {
  tl_Tensor *t[3] = {NULL};
  tl_Tensor *result = NULL;
  if (!within(self, weight, low, high, t)) goto done;
  TLI_SLOT(t[2], parts_of(t[0], edges));
  result = add_up(t[2], t[1], edges->sizes[0] - 1, (tl_DType)self->dtype);
done:
  tli_release_results(t, 3);
  return result;
}

/* A number as elements of that dtype hold it. */
static double rounded(tl_DType dtype, double value) {
  double held; /* as wide as any dtype */
  tli_store(&held, dtype, tli_float(value));
  return tli_to_double(tli_load(&held, dtype));
}

/* (element - low) * bins / (high - low), rounded down, each step in self's
** dtype; what equals the upper end counts to the last part. */
tl_Tensor *tlo_histc(tl_Tensor *self, int64_t bins, tl_Scalar min, tl_Scalar max) {
  TL_TRY_NULL(check_counted("histc", self, bins));
  tl_DType dtype = (tl_DType)self->dtype;
  double low = tli_to_double(min), high = tli_to_double(max);
  TL_TRY_NULL(settle_range("histc", self, 1, &low, &high));
  low = rounded(dtype, low);
  high = rounded(dtype, high);
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *t[6] = {NULL}, *found[2] = {NULL};
  tl_Tensor *result = NULL;
  if (!within(self, NULL, low, high, found)) goto done;
  TLI_SLOT(t[0], tli_with_number(tli_minus, found[0], tli_float(low)));
  TLI_SLOT(t[1], tli_with_number(tlo_mul, t[0], tli_float((double)bins)));
  TLI_SLOT(t[2], tli_with_number(tlo_true_divide, t[1], tli_float(rounded(dtype, high - low))));
  TLI_SLOT(t[3], tlo_to_dtype(t[2], TL_I64));
  TLI_SLOT(t[4], tli_with_number(tli_plus, t[3], tli_int(1)));
  TLI_SLOT(t[5], tli_with_number(tlo_clamp_max, t[4], tli_int(bins)));
  result = add_up(t[5], NULL, bins, dtype);
done:
  tli_release_results(t, 6);
  tli_release(found[0]);
  tli_set_grad_mode(mode);
  return result;
}

/* Divided so that the integral over the parts is 1. Steals hist. */
static tl_Tensor *as_density(tl_Tensor *hist, tl_Tensor *edges) {
  tl_Tensor *t[3] = {NULL};
  tl_Tensor *result = NULL;
  if (hist == NULL) return NULL;
  TLI_SLOT(t[0], tlo_diff(edges, 1, 0, NULL, NULL));
  TLI_SLOT(t[1], tlo_sum(hist, TLI_NOINTS, false, TL_NODTYPE));
  TLI_SLOT(t[2], tlo_mul(t[0], t[1]));
  result = tlo_true_divide(hist, t[2]);
done:
  tli_release_results(t, 3);
  tli_release(hist);
  return result;
}

/* Steals edges; NULL is passed on. */
static bool histogram(tl_Tensor *self, tl_Tensor *edges, tl_Tensor *weight, bool density,
                      tl_Tensor **out) {
  out[1] = edges;
  double low = 0, high = 0;
  bool ok = edges && ends_of(edges, &low, &high);
  if (ok && weight && !tli_same_sizes(self, weight))
    ok = tli_fail(TL_ESHAPE, "histogram: expected weights of shape %s, got %s", tli_sizes_str(self),
                  tli_sizes_str(weight));
  if (ok) out[0] = count_parts(self, weight, edges, low, high);
  if (ok && density) out[0] = as_density(out[0], edges);
  return both(out);
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
