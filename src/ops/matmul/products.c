/*
** products.c - further operators that are composed of matrix products, such as addbmm, cross, kron
** and cdist.
*/
#include <string.h>

#include "ops/chain.h"

/* ---- products plus a tensor ---- */

static bool check_ndims(const char *op, const tl_Tensor *a, int na, const tl_Tensor *b, int nb) {
  if (a->ndim == na && b->ndim == nb) return true;
  return tli_fail(TL_ESHAPE, "%s: expected tensors of %d and %d dimensions, got shapes %s and %s",
                  op, na, nb, tli_sizes_str(a), tli_sizes_str(b));
}

/* Computes the sum of a batch of products as a single product: the matrices of batch1 are joined
** side by side, and the matrices of batch2 are stacked below each other. */
tl_Tensor *tlo_addbmm(tl_Tensor *self, tl_Tensor *batch1, tl_Tensor *batch2, tl_Scalar beta,
                      tl_Scalar alpha) {
  TL_TRY_NULL(check_ndims("addbmm", batch1, 3, batch2, 3));
  if (batch1->sizes[0] != batch2->sizes[0] || batch1->sizes[2] != batch2->sizes[1])
    return tli_fail_null(TL_ESHAPE, "addbmm: batch or inner sizes differ: %s x %s",
                         tli_sizes_str(batch1), tli_sizes_str(batch2));
  int64_t k = batch1->sizes[0] * batch1->sizes[2];
  tl_Ints left = {2, (int64_t[]){batch1->sizes[1], k}};
  tl_Ints right = {2, (int64_t[]){k, batch2->sizes[2]}};
  tli_Chain c = {0};
  tl_Tensor *turned = TLI_STEP(&c, tlo_transpose(batch1, 0, 1));
  tl_Tensor *a = TLI_STEP(&c, tlo_reshape(turned, left));
  tl_Tensor *b = TLI_STEP(&c, tlo_reshape(batch2, right));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_addmm(self, a, b, beta, alpha)));
}

tl_Tensor *tlo_addmv(tl_Tensor *self, tl_Tensor *mat, tl_Tensor *vec, tl_Scalar beta,
                     tl_Scalar alpha) {
  TL_TRY_NULL(check_ndims("addmv", mat, 2, vec, 1));
  if (mat->sizes[1] != vec->sizes[0])
    return tli_fail_null(TL_ESHAPE, "addmv: inner sizes differ: %s x %s", tli_sizes_str(mat),
                         tli_sizes_str(vec));
  if (self->ndim > 1 || (self->numel != 1 && self->numel != mat->sizes[0]))
    return tli_fail_null(TL_ESHAPE,
                         "addmv: self of shape %s does not broadcast to a vector of %" PRId64,
                         tli_sizes_str(self), mat->sizes[0]);
  tli_Chain c = {0};
  if (self->ndim > 0) self = chain_unsqueeze(&c, self, 1);
  tl_Tensor *column = chain_unsqueeze(&c, vec, 1);
  tl_Tensor *sum = TLI_STEP(&c, tlo_addmm(self, mat, column, beta, alpha));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_select(sum, 1, 0)));
}

/* Adds an outer product to self. If beta is 0, the values of self are not read. */
tl_Tensor *tlo_addr(tl_Tensor *self, tl_Tensor *vec1, tl_Tensor *vec2, tl_Scalar beta,
                    tl_Scalar alpha) {
  TL_TRY_NULL(check_ndims("addr", vec1, 1, vec2, 1));
  int64_t sizes[2] = {vec1->sizes[0], vec2->sizes[0]};
  if (!tli_expandable(self->ndim, self->sizes, 2, sizes))
    return tli_fail_null(TL_ESHAPE, "addr: self of shape %s does not broadcast to the product's %s",
                         tli_sizes_str(self), tli_shape_str(2, sizes));
  if (self->dtype == TL_BOOL && vec1->dtype == TL_BOOL && vec2->dtype == TL_BOOL) {
    /* for bool operands, addition is "or" and multiplication is "and" */
    alpha = tli_bool(tli_to_double(alpha) != 0);
    beta = tli_bool(tli_to_double(beta) != 0);
  }
  tli_Chain c = {0};
  tl_Tensor *product = TLI_STEP(&c, tlo_outer(vec1, vec2));
  if (c.failed) return tli_chain_end(&c, NULL);
  tl_DType both = tli_dtype_promote((tl_DType)self->dtype, (tl_DType)product->dtype);
  if (tli_to_double(beta) == 0) {
    tl_Tensor *scaled = TLI_STEP(&c, tlo_scaled(product, alpha));
    return tli_chain_end(&c, chain_to(&c, scaled, both));
  }
  self = chain_to(&c, self, both);
  tl_Tensor *scaled = TLI_STEP(&c, tlo_scaled(self, beta));
  tl_Tensor *wide = TLI_STEP(&c, tlo_expand(scaled, (tl_Ints){2, sizes}));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_add(wide, product, alpha)));
}

/* ---- vectors ---- */

tl_Tensor *tlo_inner(tl_Tensor *self, tl_Tensor *other) {
  if (self->ndim == 0 || other->ndim == 0) return tlo_mul(self, other);
  int64_t last_self = self->ndim - 1, last_other = other->ndim - 1;
  if (self->sizes[last_self] != other->sizes[last_other])
    return tli_fail_null(TL_ESHAPE, "inner: last sizes differ: %s x %s", tli_sizes_str(self),
                         tli_sizes_str(other));
  return tlo_tensordot_dims(self, other, (tl_Ints){1, &last_self}, (tl_Ints){1, &last_other});
}

/* Returns dim, counted from the end. Without dim, finds the first dimension that has size 3 in both
** operands. */
static int cross_dim(const tl_Tensor *a, const tl_Tensor *b, int64_t dim) {
  int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  if (dim != TLI_NOINT) {
    int d = tli_dim("cross", dim, ndim);
    return d < 0 ? 0 : d - ndim;
  }
  for (int d = -ndim; d < 0; d++)
    if (d >= -a->ndim && d >= -b->ndim && a->sizes[a->ndim + d] == 3) return d;
  tli_fail(TL_ESHAPE, "cross: expected a dimension of size 3, got shapes %s and %s",
           tli_sizes_str(a), tli_sizes_str(b));
  return 0;
}

static tl_Tensor *chain_roll(tli_Chain *c, tl_Tensor *t, int64_t shift, int64_t dim) {
  return TLI_STEP(c, tlo_roll(t, (tl_Ints){1, &shift}, (tl_Ints){1, &dim}));
}

/* c_i = a_{i+1} b_{i+2} - a_{i+2} b_{i+1} */
tl_Tensor *tlo_cross(tl_Tensor *self, tl_Tensor *other, int64_t dim) {
  int d = cross_dim(self, other, dim);
  if (d == 0) return NULL;
  if (d < -self->ndim || d < -other->ndim || self->sizes[self->ndim + d] != 3 ||
      other->sizes[other->ndim + d] != 3)
    return tli_fail_null(TL_ESHAPE, "cross: expected vectors of 3, got shapes %s and %s",
                         tli_sizes_str(self), tli_sizes_str(other));
  tli_Chain c = {0};
  tl_Tensor *b2 = chain_roll(&c, other, -2, d), *a1 = chain_roll(&c, self, -1, d);
  tl_Tensor *forth = chain_mul(&c, a1, b2);
  tl_Tensor *b1 = chain_roll(&c, other, -1, d), *a2 = chain_roll(&c, self, -2, d);
  tl_Tensor *back = chain_mul(&c, a2, b1);
  return tli_chain_end(&c, chain_sub(&c, forth, back));
}

tl_Tensor *tlo_cross_linalg(tl_Tensor *input, tl_Tensor *other, int64_t dim) {
  if (input->ndim != other->ndim)
    return tli_fail_null(TL_ESHAPE,
                         "linalg.cross: expected as many dimensions in both, got shapes %s and %s",
                         tli_sizes_str(input), tli_sizes_str(other));
  return tlo_cross(input, other, dim);
}

tl_Tensor *tlo_matmul_linalg(tl_Tensor *input, tl_Tensor *other) {
  return tlo_matmul(input, other);
}

tl_Tensor *tlo_diagonal_linalg(tl_Tensor *A, int64_t offset, int64_t dim1, int64_t dim2) {
  return tlo_diagonal(A, offset, dim1, dim2);
}

tl_Tensor *tlo_vecdot(tl_Tensor *x, tl_Tensor *y, int64_t dim) {
  tli_Chain c = {0};
  tl_Tensor *products = chain_mul(&c, chain_conj(&c, x), y);
  if (c.failed) return tli_chain_end(&c, NULL);
  tl_Ints dims = {1, &dim};
  tl_Tensor *sum = TLI_STEP(&c, tlo_sum(products, dims, false, (tl_DType)products->dtype));
  return tli_chain_end(&c, sum);
}

/* Computes the Kronecker product. Both operands are viewed with added dimensions of size 1, so that
** the dimensions of self and other alternate in the product. Then each pair of dimensions is
** merged. */
tl_Tensor *tlo_kron(tl_Tensor *self, tl_Tensor *other) {
  int n = self->ndim > other->ndim ? self->ndim : other->ndim;
  TL_TRY_NULL(tli_check_ndim("kron", 2 * n));
  int64_t a[TL_MAX_DIMS], b[TL_MAX_DIMS], joined[TL_MAX_DIMS];
  for (int d = 0; d < n; d++) {
    int da = d - (n - self->ndim), db = d - (n - other->ndim);
    a[2 * d] = da < 0 ? 1 : self->sizes[da];
    b[2 * d + 1] = db < 0 ? 1 : other->sizes[db];
    a[2 * d + 1] = b[2 * d] = 1;
    joined[d] = a[2 * d] * b[2 * d + 1];
  }
  tli_Chain c = {0};
  tl_Tensor *blocks = TLI_STEP(&c, tlo_reshape(self, (tl_Ints){2 * n, a}));
  tl_Tensor *within = TLI_STEP(&c, tlo_reshape(other, (tl_Ints){2 * n, b}));
  tl_Tensor *products = chain_mul(&c, blocks, within);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_reshape(products, (tl_Ints){n, joined})));
}

/* ---- products over listed dimensions ---- */

/* Returns t as a matrix. The listed dimensions become the columns if `last` is set, and the rows
** otherwise. `kept` receives the sizes of all other dimensions. */
static tl_Tensor *as_matrix(tl_Tensor *t, tl_Ints dims, bool last, int64_t *kept, int *nkept) {
  bool marked[TL_MAX_DIMS] = {false};
  int64_t order[TL_MAX_DIMS], inner = 1, outer = 1;
  for (int64_t k = 0; k < dims.n; k++) {
    int64_t d = dims.v[k] < 0 ? dims.v[k] + t->ndim : dims.v[k];
    marked[d] = true;
    order[last ? t->ndim - dims.n + k : k] = d;
    inner *= t->sizes[d];
  }
  *nkept = 0;
  for (int d = 0; d < t->ndim; d++) {
    if (marked[d]) continue;
    order[last ? *nkept : dims.n + *nkept] = d;
    outer *= t->sizes[d];
    kept[(*nkept)++] = t->sizes[d];
  }
  int64_t sizes[2] = {last ? outer : inner, last ? inner : outer};
  tl_Tensor *permuted = tlo_permute(t, (tl_Ints){t->ndim, order});
  tl_Tensor *matrix = permuted ? tlo_reshape(permuted, (tl_Ints){2, sizes}) : NULL;
  tli_release(permuted);
  return matrix;
}

static bool check_listed(tl_Tensor *self, tl_Tensor *other, tl_Ints a, tl_Ints b) {
  if (a.n != b.n)
    return tli_fail(TL_EARG,
                    "tensordot: expected as many dimensions of self as of other, got %" PRId64
                    " and %" PRId64,
                    a.n, b.n);
  bool marked[TL_MAX_DIMS];
  if (a.n > 0)
    TL_TRY(tli_mark_dims("tensordot", a, self->ndim, marked) &&
           tli_mark_dims("tensordot", b, other->ndim, marked));
  TL_TRY(tli_check_ndim("tensordot", self->ndim + other->ndim - a.n - b.n));
  for (int64_t k = 0; k < a.n; k++) {
    int64_t da = a.v[k] < 0 ? a.v[k] + self->ndim : a.v[k];
    int64_t db = b.v[k] < 0 ? b.v[k] + other->ndim : b.v[k];
    if (self->ndim == 0 || other->ndim == 0 ||
        (self->sizes[da] != other->sizes[db] && self->sizes[da] != 1 && other->sizes[db] != 1))
      return tli_fail(TL_ESHAPE,
                      "tensordot: dimension " TLI_POS " of %s and " TLI_POS " of %s differ in size",
                      da, tli_sizes_str(self), db, tli_sizes_str(other));
  }
  return true;
}

/* Sums t over those dimensions in `dims` along which `other` is broadcast, that is, has size 1.
** `beside` lists the dimensions of `other` that are multiplied with `dims`. */
static tl_Tensor *sum_lone(tl_Tensor *t, tl_Ints dims, const tl_Tensor *other, tl_Ints beside) {
  int64_t lone[TL_MAX_DIMS], n = 0;
  for (int64_t k = 0; k < dims.n; k++) {
    int64_t d = dims.v[k] < 0 ? dims.v[k] + t->ndim : dims.v[k];
    int64_t e = beside.v[k] < 0 ? beside.v[k] + other->ndim : beside.v[k];
    if (t->sizes[d] != 1 && other->sizes[e] == 1) lone[n++] = d;
  }
  return n ? tlo_sum(t, (tl_Ints){n, lone}, true, (tl_DType)t->dtype) : tli_retain(t);
}

tl_Tensor *tlo_tensordot_dims(tl_Tensor *self, tl_Tensor *other, tl_Ints dims_self,
                              tl_Ints dims_other) {
  TL_TRY_NULL(check_listed(self, other, dims_self, dims_other));
  int64_t sizes[2 * TL_MAX_DIMS];
  int na = 0, nb = 0;
  tli_Chain c = {0};
  tl_Tensor *a = TLI_STEP(&c, sum_lone(self, dims_self, other, dims_other));
  tl_Tensor *b = TLI_STEP(&c, sum_lone(other, dims_other, self, dims_self));
  a = TLI_STEP(&c, as_matrix(a, dims_self, true, sizes, &na));
  b = TLI_STEP(&c, as_matrix(b, dims_other, false, sizes + na, &nb));
  tl_Tensor *product = TLI_STEP(&c, tlo_mm(a, b));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(product, (tl_Ints){na + nb, sizes})));
}

tl_Tensor *tlo_tensordot_pair(tl_Tensor *self, tl_Tensor *other, tl_Ints dims) {
  int64_t n = dims.n / 2;
  return tlo_tensordot_dims(self, other, (tl_Ints){n, dims.v}, (tl_Ints){n, dims.v + n});
}

tl_Tensor *tlo_tensordot(tl_Tensor *self, tl_Tensor *other, int64_t dims) {
  if (dims < 0 || dims > self->ndim || dims > other->ndim)
    return tli_fail_null(TL_EARG, "tensordot: expected 0 to %d dimensions, got %" PRId64,
                         self->ndim < other->ndim ? self->ndim : other->ndim, dims);
  int64_t a[TL_MAX_DIMS], b[TL_MAX_DIMS];
  for (int64_t k = 0; k < dims; k++) {
    a[k] = self->ndim - dims + k;
    b[k] = k;
  }
  return tlo_tensordot_dims(self, other, (tl_Ints){dims, a}, (tl_Ints){dims, b});
}

/* ---- distances ---- */

/* Returns |x|^2 for each row x: (..., rows, 1). */
static tl_Tensor *row_squares(tl_Tensor *x) {
  int64_t last = -1;
  tl_Tensor *square = tlo_mul(x, x);
  tl_Tensor *sum = square ? tlo_sum(square, (tl_Ints){1, &last}, true, TL_NODTYPE) : NULL;
  tli_release(square);
  return sum;
}

static bool is_recorded(const tl_Tensor *a, const tl_Tensor *b) {
  return tli_grad_mode() && (tli_requires_grad(a) || tli_requires_grad(b));
}

/* Returns x and two more columns, side by side. */
static tl_Tensor *with_columns(tli_Chain *c, tl_Tensor *x, tl_Tensor *first, tl_Tensor *second) {
  return TLI_STEP(c, tlo_cat((tl_Tensors){3, (tl_Tensor *[]){x, first, second}}, -1));
}

/* Computes the distances between the rows of a and of b. |a|^2 + |b|^2 - 2 ab is a single product,
** of rows (-2 a, |a|^2, 1) and (b, 1, |b|^2). It is clamped at 0, because rounding errors may make
** it negative. */
static tl_Tensor *euclidean_by_product(tl_Tensor *a, tl_Tensor *b) {
  tli_Chain c = {0};
  tl_Tensor *of_a = TLI_STEP(&c, row_squares(a));
  tl_Tensor *of_b = TLI_STEP(&c, row_squares(b));
  tl_Tensor *left = with_columns(&c, chain_with_int(&c, tlo_mul, a, -2), of_a,
                                 TLI_STEP(&c, tlo_ones_like(of_a, TL_NODTYPE, TLI_NODEVICE, NULL)));
  tl_Tensor *right =
      with_columns(&c, b, TLI_STEP(&c, tlo_ones_like(of_b, TL_NODTYPE, TLI_NODEVICE, NULL)), of_b);
  tl_Tensor *squares = chain_matmul(&c, left, chain_t(&c, right));
  if (!is_recorded(a, b)) {
    /* nothing else refers to `squares`, so the distances may replace them */
    tl_Tensor *zero = TLI_STEP(&c, tli_number(tli_int(0)));
    TLI_DO(&c, tlo_clamp_min_(squares, zero));
    TLI_DO(&c, tlo_sqrt_(squares));
    return tli_chain_end(&c, squares);
  }
  tl_Tensor *distances = chain_with_int(&c, tlo_clamp_min, squares, 0);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_root(distances)));
}

/* The largest number of differences that cdist keeps in memory on the CPU if no gradient is
** recorded. */
#define MOST_DIFFERENCES ((int64_t)1 << 18)

static tl_Tensor *norm_of_differences(tl_Tensor *a, tl_Tensor *b, double p) {
  int64_t last = -1;
  tl_Tensor *difference = tli_minus(a, b);
  tl_Tensor *result =
      difference ? tlo_p_norm(difference, tli_float(p), (tl_Ints){1, &last}, false) : NULL;
  tli_release(difference);
  return result;
}

/* Computes the distances between the rows of a (..., P, 1, M) and b (..., 1, R, M), of a few rows of
** a at a time, so that their differences stay in the cache. */
static tl_Tensor *norms_by_rows(tl_Tensor *a, tl_Tensor *b, double p) {
  int64_t rows = a->sizes[a->ndim - 3], others = b->sizes[b->ndim - 2];
  /* the sizes of the batches of a and of b, times M */
  int64_t of_a = rows ? a->numel / rows : 0, of_b = others ? b->numel / others : 0;
  int64_t row = (of_a > of_b ? of_a : of_b) * others;
  int64_t step = row < MOST_DIFFERENCES ? MOST_DIFFERENCES / (row ? row : 1) : 1;
  if (step >= rows) return norm_of_differences(a, b, p);
  tl_Tensors parts = tli_tensors_new((rows + step - 1) / step);
  bool ok = parts.v != NULL;
  int64_t n = 0;
  for (int64_t at = 0; ok && at < rows; at += step, n++) {
    tl_Tensor *part = tlo_narrow(a, -3, at, rows - at < step ? rows - at : step);
    parts.v[n] = part ? norm_of_differences(part, b, p) : NULL;
    ok = parts.v[n] != NULL;
    tli_release(part);
  }
  tl_Tensor *result = ok ? tlo_cat((tl_Tensors){n, parts.v}, -2) : NULL;
  tli_tensors_free(&parts);
  return result;
}

static bool check_cdist(tl_Tensor *a, tl_Tensor *b, double p, const char *mode) {
  static const char *const modes[] = {"use_mm_for_euclid_dist_if_necessary",
                                      "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"};
  bool known = false;
  for (int i = 0; i < 3; i++) known = known || strcmp(mode, modes[i]) == 0;
  if (!known)
    return tli_fail(TL_EARG, "cdist: compute_mode: expected \"%s\", \"%s\" or \"%s\", got \"%s\"",
                    modes[0], modes[1], modes[2], mode);
  if (!(p >= 0)) return tli_fail(TL_EARG, "cdist: expected p of at least 0, got %g", p);
  if (a->ndim < 2 || b->ndim < 2 || a->sizes[a->ndim - 1] != b->sizes[b->ndim - 1])
    return tli_fail(TL_ESHAPE, "cdist: expected rows of one length, got shapes %s and %s",
                    tli_sizes_str(a), tli_sizes_str(b));
  if (tli_is_float((tl_DType)a->dtype) && tli_is_float((tl_DType)b->dtype)) return true;
  return tli_fail(TL_EDTYPE, "cdist: expected floating tensors, got %s and %s",
                  tl_dtype_name((tl_DType)a->dtype), tl_dtype_name((tl_DType)b->dtype));
}

tl_Tensor *tlo_cdist(tl_Tensor *x1, tl_Tensor *x2, double p, const char *compute_mode) {
  TL_TRY_NULL(check_cdist(x1, x2, p, compute_mode));
  bool many = x1->sizes[x1->ndim - 2] > 25 || x2->sizes[x2->ndim - 2] > 25;
  bool always = strcmp(compute_mode, "use_mm_for_euclid_dist") == 0;
  bool never = strcmp(compute_mode, "donot_use_mm_for_euclid_dist") == 0;
  if (p == 2 && !never && (always || many)) return euclidean_by_product(x1, x2);
  tli_Chain c = {0};
  tl_Tensor *a = chain_unsqueeze(&c, x1, -2), *b = chain_unsqueeze(&c, x2, -3);
  if (tli_device(x1).type == TL_CPU && !is_recorded(x1, x2))
    return tli_chain_end(&c, TLI_STEP(&c, norms_by_rows(a, b, p)));
  return tli_chain_end(&c, TLI_STEP(&c, norm_of_differences(a, b, p)));
}

tl_Tensor *tlo_pdist(tl_Tensor *self, double p) {
  if (self->ndim != 2 || !tli_is_float((tl_DType)self->dtype))
    return tli_fail_null(TL_ESHAPE, "pdist: expected a floating matrix, got shape %s of %s",
                         tli_sizes_str(self), tl_dtype_name((tl_DType)self->dtype));
  if (!(p >= 0)) return tli_fail_null(TL_EARG, "pdist: expected p of at least 0, got %g", p);
  int64_t n = self->sizes[0];
  tli_Chain c = {0};
  tl_Tensor *pairs = TLI_STEP(&c, tlo_triu_indices(n, n, 1, TL_I64, tli_device(self)));
  tl_Tensor *rows[2];
  for (int i = 0; i < 2; i++) {
    tl_Tensor *at = TLI_STEP(&c, tli_pick(pairs, 0, i));
    rows[i] = TLI_STEP(&c, tlo_index_select(self, 0, at));
  }
  return tli_chain_end(&c, TLI_STEP(&c, norm_of_differences(rows[0], rows[1], p)));
}
