/*
** matmul.c - products of matrices and vectors. The kernel reads matrices in place, including
** transposed ones. A matrix is copied only if neither its rows nor its columns are contiguous.
*/
#include "ops/matmul/matmul.h"

#include <string.h>

#include "ops/chain.h"

/* ---- operands of the kernel ---- */

typedef struct Matrix {
  tl_Tensor *t; /* owned */
  bool trans;
  /* distances in elements: `ld` (leading dimension) between rows, `step` between matrices */
  int64_t ld, step;
} Matrix;

/* Returns whether BLAS accepts a leading dimension. Rows must not overlap, and the value must fit
** in an int. */
static bool usable(int64_t ld, int64_t length) { return ld >= length && ld < INT32_MAX; }

/* Describes the matrices in the last two dimensions of m->t without a copy. Returns false if a copy
** is necessary. */
static bool as_it_lies(Matrix *m) {
  const tl_Tensor *t = m->t;
  int r = t->ndim - 2, c = t->ndim - 1;
  int64_t rows = t->sizes[r], cols = t->sizes[c];
  int64_t by_row = t->strides[r], by_col = t->strides[c];
  int64_t wide = cols > 0 ? cols : 1, high = rows > 0 ? rows : 1;
  m->step = t->ndim > 2 ? t->strides[0] : 0;
  m->trans = false;
  if ((by_col == 1 || cols <= 1) && (rows <= 1 || usable(by_row, wide))) {
    m->ld = rows <= 1 ? wide : by_row;
    return true;
  }
  m->trans = true;
  if ((by_row == 1 || rows <= 1) && (cols <= 1 || usable(by_col, high))) {
    m->ld = cols <= 1 ? high : by_col;
    return true;
  }
  return false;
}

static bool matrix_of(Matrix *m, tl_Tensor *t) {
  m->t = tli_retain(t);
  if (as_it_lies(m)) return true;
  tli_release(m->t);
  m->t = tli_contiguous_as(t, (tl_DType)t->dtype);
  if (m->t == NULL) return false;
  if (!tli_contiguous(t)) return as_it_lies(m);
  /* the matrix is contiguous but too large for BLAS's ints; the kernel reports this error */
  m->trans = false;
  m->ld = t->sizes[t->ndim - 1];
  return true;
}

bool tli_product(tli_Product *p, tl_Tensor *out, tl_Tensor *a, tl_Tensor *b, tl_Scalar alpha,
                 tl_Scalar beta) {
  Matrix ma = {.t = NULL}, mb = {.t = NULL};
  bool ok = matrix_of(&ma, a) && matrix_of(&mb, b);
  *p = (tli_Product){.a = ma.t, .b = mb.t};
  if (!ok) return false;
  int r = out->ndim - 2, c = out->ndim - 1;
  int64_t m = out->sizes[r], n = out->sizes[c];
  p->gemm = (tlk_Gemm){.dtype = (tl_DType)out->dtype,
                       .trans_a = ma.trans,
                       .trans_b = mb.trans,
                       .m = m,
                       .n = n,
                       .k = a->sizes[c],
                       .alpha = alpha,
                       .beta = beta,
                       .a = tli_data(ma.t),
                       .b = tli_data(mb.t),
                       .c = tli_data(out),
                       .lda = ma.ld,
                       .ldb = mb.ld,
                       .ldc = n,
                       .batch = r > 0 ? out->sizes[0] : 1,
                       .stride_a = ma.step,
                       .stride_b = mb.step,
                       .stride_c = m * n};
  return true;
}

void tli_product_end(tli_Product *p) {
  tli_release(p->a);
  tli_release(p->b);
}

/* ---- complex products as one real product ----
**
** The CPU's kernel multiplies complex numbers. Other devices multiply real matrices, in which a
** complex (m, k) is a real matrix (m, 2k), the result (m, n) is a real matrix (m, 2n), and each
** element re + im i of b becomes the block ((re, im), (-im, re)), as in
** kernels/cpu/matmul/tiled.c. */

/* Returns a complex t as row-major real numbers. Real and imaginary parts alternate along the last
** dimension, whose size doubles. */
static tl_Tensor *pairs_of(tl_Tensor *t) {
  tl_Tensor *dense = tli_contiguous_as(t, (tl_DType)t->dtype);
  tl_Tensor *pairs = dense ? tli_op_view_as_real(dense) : NULL;
  tli_release(dense);
  if (pairs == NULL) return NULL;
  int64_t sizes[TL_MAX_DIMS];
  int last = t->ndim - 1;
  memcpy(sizes, t->sizes, (size_t)t->ndim * sizeof *sizes);
  sizes[last] *= 2;
  tl_Tensor *merged = tli_op_view(pairs, (tl_Ints){t->ndim, sizes});
  tli_release(pairs);
  return merged;
}

/* Returns the complex b (..., k, n) as a real matrix (..., 2k, 2n) of 2 x 2 blocks. */
static tl_Tensor *blocks_of(tl_Tensor *b) {
  tli_Chain c = {0};
  tl_Tensor *re = TLI_STEP(&c, tlo_real(b)), *im = TLI_STEP(&c, tlo_imag(b));
  tl_Tensor *minus = chain_neg(&c, im);
  tl_Tensor *upper = TLI_STEP(&c, tlo_stack((tl_Tensors){2, (tl_Tensor *[]){re, im}}, -1));
  tl_Tensor *lower = TLI_STEP(&c, tlo_stack((tl_Tensors){2, (tl_Tensor *[]){minus, re}}, -1));
  tl_Tensor *both = TLI_STEP(&c, tlo_stack((tl_Tensors){2, (tl_Tensor *[]){upper, lower}}, -3));
  int64_t sizes[TL_MAX_DIMS];
  int r = b->ndim - 2;
  memcpy(sizes, b->sizes, (size_t)b->ndim * sizeof *sizes);
  sizes[r] *= 2;
  sizes[r + 1] *= 2;
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(both, (tl_Ints){b->ndim, sizes})));
}

static bool multiply(tl_Tensor *out, tl_Tensor *a, tl_Tensor *b, tl_Scalar alpha, tl_Scalar beta);

/* Multiplies t, which has no history, by a complex number in place. */
static bool scale(tl_Tensor *t, tl_Scalar factor) {
  tl_Tensor *number = tli_number(factor);
  bool ok = number && tlo_mul_(t, number);
  tli_release(number);
  return ok;
}

/* Returns whether the device's kernel multiplies complex numbers of out's dtype and takes these
** factors. The kernel takes only real factors. */
static bool has_complex_kernel(const tl_Tensor *out, tl_Scalar alpha, tl_Scalar beta) {
#ifdef TLI_RUNTIME
  (void)out, (void)alpha, (void)beta;
  /* never uses the complex kernel, so that the library that is built for one program stays small */
  return false;
#else
  return tli_device(out).type == TL_CPU && (out->dtype == TL_C64 || out->dtype == TL_C128) &&
         alpha.kind != TL_COMPLEX && beta.kind != TL_COMPLEX;
#endif
}

static bool multiply_complex(tl_Tensor *out, tl_Tensor *a, tl_Tensor *b, tl_Scalar alpha,
                             tl_Scalar beta) {
  bool mode = tli_set_grad_mode(false);
  bool turned = alpha.kind == TL_COMPLEX;
  bool ok = beta.kind != TL_COMPLEX || scale(out, beta);
  tl_Tensor *left = pairs_of(a), *right = blocks_of(b), *into = tli_op_view_as_real(out);
  tl_Tensor *fresh = ok && turned ? tli_empty_like(out, (tl_DType)out->dtype) : NULL;
  tl_Tensor *plain = fresh ? pairs_of(fresh) : into ? pairs_of(out) : NULL;
  ok = ok && left && right && plain && (fresh != NULL) == turned &&
       multiply(plain, left, right, turned ? tli_int(1) : alpha,
                turned                    ? tli_int(0)
                : beta.kind == TL_COMPLEX ? tli_int(1)
                                          : beta);
  if (ok && turned) {
    ok = scale(fresh, alpha);
    if (ok && tli_to_bool(beta))
      ok = (beta.kind == TL_COMPLEX || scale(out, beta)) && tlo_add_(out, fresh, tli_int(1));
    else if (ok)
      ok = tli_copy(out, fresh);
  }
  tli_release_results((tl_Tensor *[]){left, right, into, fresh, plain}, 5);
  tli_set_grad_mode(mode);
  return ok;
}

static bool multiply(tl_Tensor *out, tl_Tensor *a, tl_Tensor *b, tl_Scalar alpha, tl_Scalar beta) {
  if (out->numel == 0) return true;
  bool complex = tli_is_complex((tl_DType)out->dtype);
  if (complex && !has_complex_kernel(out, alpha, beta))
    return multiply_complex(out, a, b, alpha, beta);
  tli_Product p;
  bool ok =
      tli_product(&p, out, a, b, alpha, beta) && TLI_RUN(tli_device(out), gemm, .gemm = p.gemm);
  tli_product_end(&p);
  return ok;
}

/* ---- checks ---- */

static bool check_dtypes(const char *op, const tl_Tensor *a, const tl_Tensor *b) {
  if (a->dtype != b->dtype)
    return tli_fail(TL_EDTYPE, "%s: expected tensors of one dtype, got %s and %s", op,
                    tl_dtype_name((tl_DType)a->dtype), tl_dtype_name((tl_DType)b->dtype));
  if (a->dtype == TL_BOOL) return tli_fail(TL_EDTYPE, "%s: not defined for bool tensors", op);
  return tli_same_device_all(op, (tl_Tensor *[]){(tl_Tensor *)a, (tl_Tensor *)b}, 2);
}

/* Checks that two tensors have `ndim` dimensions and equal inner sizes. */
static bool check_product(const char *op, const tl_Tensor *a, const tl_Tensor *b, int ndim) {
  if (a->ndim != ndim || b->ndim != ndim)
    return tli_fail(TL_ESHAPE, "%s: expected tensors of %d dimensions, got shapes %s and %s", op,
                    ndim, tli_sizes_str(a), tli_sizes_str(b));
  if (a->sizes[ndim - 1] != b->sizes[ndim - 2])
    return tli_fail(TL_ESHAPE, "%s: inner sizes differ: %s x %s", op, tli_sizes_str(a),
                    tli_sizes_str(b));
  if (ndim == 3 && a->sizes[0] != b->sizes[0])
    return tli_fail(TL_ESHAPE, "%s: batch sizes differ: %s x %s", op, tli_sizes_str(a),
                    tli_sizes_str(b));
  return check_dtypes(op, a, b);
}

static tl_Tensor *product(tl_Tensor *a, tl_Tensor *b) {
  int64_t sizes[3];
  int n = a->ndim;
  for (int d = 0; d < n - 1; d++) sizes[d] = a->sizes[d];
  sizes[n - 1] = b->sizes[n - 1];
  tl_Tensor *out = tli_empty((tl_DType)a->dtype, tli_device(a), n, sizes);
  if (out && !multiply(out, a, b, tli_int(1), tli_int(0))) {
    tli_release(out);
    return NULL;
  }
  return out;
}

tl_Tensor *tli_op_mm(tl_Tensor *self, tl_Tensor *mat2) {
  TL_TRY_NULL(check_product("mm", self, mat2, 2));
  return product(self, mat2);
}

tl_Tensor *tli_op_bmm(tl_Tensor *self, tl_Tensor *mat2) {
  TL_TRY_NULL(check_product("bmm", self, mat2, 3));
  return product(self, mat2);
}

/* ---- products plus a tensor ---- */

/* Computes beta * self + alpha * a @ b. If beta is 0, self is not read, so NaN in self has no
** effect. */
static tl_Tensor *add_product(const char *op, tl_Tensor *self, tl_Tensor *a, tl_Tensor *b,
                              tl_Scalar beta, tl_Scalar alpha) {
  TL_TRY_NULL(check_product(op, a, b, a->ndim == 3 ? 3 : 2));
  TL_TRY_NULL(check_dtypes(op, self, a));
  TL_TRY_NULL(tli_check_complex_number(op, beta, (tl_DType)self->dtype) &&
              tli_check_complex_number(op, alpha, (tl_DType)self->dtype));
  alpha = tli_fitting(alpha, a);
  beta = tli_fitting(beta, a);
  int64_t sizes[3];
  int n = a->ndim;
  for (int d = 0; d < n - 1; d++) sizes[d] = a->sizes[d];
  sizes[n - 1] = b->sizes[n - 1];
  if (!tli_expandable(self->ndim, self->sizes, n, sizes))
    return tli_fail_null(TL_ESHAPE, "%s: self of shape %s does not broadcast to the product's %s",
                         op, tli_sizes_str(self), tli_shape_str(n, sizes));
  tl_Tensor *out = tli_empty((tl_DType)a->dtype, tli_device(a), n, sizes);
  bool ok = out != NULL;
  if (ok && tli_to_bool(beta)) {
    tl_Tensor *wide = tli_op_expand(self, (tl_Ints){n, sizes});
    ok = wide && tli_copy(out, wide);
    tli_release(wide);
  }
  if (ok && multiply(out, a, b, alpha, beta)) return out;
  tli_release(out);
  return NULL;
}

tl_Tensor *tli_op_addmm(tl_Tensor *self, tl_Tensor *mat1, tl_Tensor *mat2, tl_Scalar beta,
                        tl_Scalar alpha) {
  if (mat1->ndim != 2)
    return tli_fail_null(TL_ESHAPE, "addmm: expected matrices, got shapes %s and %s",
                         tli_sizes_str(mat1), tli_sizes_str(mat2));
  return add_product("addmm", self, mat1, mat2, beta, alpha);
}

tl_Tensor *tli_op_baddbmm(tl_Tensor *self, tl_Tensor *batch1, tl_Tensor *batch2, tl_Scalar beta,
                          tl_Scalar alpha) {
  if (batch1->ndim != 3)
    return tli_fail_null(TL_ESHAPE, "baddbmm: expected batches of matrices, got shapes %s and %s",
                         tli_sizes_str(batch1), tli_sizes_str(batch2));
  return add_product("baddbmm", self, batch1, batch2, beta, alpha);
}

/* Returns whether beta * self + alpha * a @ b can be computed in the memory of self: the product
** has the layout of self, and its factors lie elsewhere. */
static bool fits_in_self(const tl_Tensor *self, const tl_Tensor *a, const tl_Tensor *b, int ndim) {
  if (self->ndim != ndim || a->ndim != ndim || b->ndim != ndim || !tli_contiguous(self))
    return false;
  int r = ndim - 2, c = ndim - 1;
  return self->dtype == a->dtype && a->dtype == b->dtype && a->dtype != TL_BOOL &&
         !tli_is_complex((tl_DType)a->dtype) && a->sizes[c] == b->sizes[r] &&
         self->sizes[r] == a->sizes[r] && self->sizes[c] == b->sizes[c] &&
         (r == 0 || (self->sizes[0] == a->sizes[0] && a->sizes[0] == b->sizes[0])) &&
         self->storage != a->storage && self->storage != b->storage &&
         tli_same_device(tli_device(self), tli_device(a)) &&
         tli_same_device(tli_device(a), tli_device(b));
}

static bool add_product_to_self(const char *op, tl_Tensor *self, tl_Tensor *a, tl_Tensor *b,
                                tl_Scalar beta, tl_Scalar alpha) {
  TL_TRY(tli_check_complex_number(op, beta, (tl_DType)self->dtype) &&
         tli_check_complex_number(op, alpha, (tl_DType)self->dtype));
  return multiply(self, a, b, tli_fitting(alpha, a), tli_fitting(beta, a));
}

bool tli_op_addmm_(tl_Tensor *self, tl_Tensor *mat1, tl_Tensor *mat2, tl_Scalar beta,
                   tl_Scalar alpha) {
  if (fits_in_self(self, mat1, mat2, 2))
    return add_product_to_self("addmm", self, mat1, mat2, beta, alpha);
  return tli_write_back("addmm_", self, tli_op_addmm(self, mat1, mat2, beta, alpha));
}

bool tli_op_baddbmm_(tl_Tensor *self, tl_Tensor *batch1, tl_Tensor *batch2, tl_Scalar beta,
                     tl_Scalar alpha) {
  if (fits_in_self(self, batch1, batch2, 3))
    return add_product_to_self("baddbmm", self, batch1, batch2, beta, alpha);
  return tli_write_back("baddbmm_", self, tli_op_baddbmm(self, batch1, batch2, beta, alpha));
}

/* ---- vectors ---- */

static bool check_vectors(const char *op, const tl_Tensor *a, int na, const tl_Tensor *b, int nb) {
  if (a->ndim == na && b->ndim == nb) return true;
  return tli_fail(TL_ESHAPE, "%s: expected a %s and a vector, got shapes %s and %s", op,
                  na == 2 ? "matrix" : "vector", tli_sizes_str(a), tli_sizes_str(b));
}

static tl_Tensor *mv(const char *op, tl_Tensor *self, tl_Tensor *vec) {
  if (self->sizes[1] != vec->sizes[0])
    return tli_fail_null(TL_ESHAPE, "%s: inner sizes differ: %s x %s", op, tli_sizes_str(self),
                         tli_sizes_str(vec));
  tli_Chain c = {0};
  tl_Tensor *column = chain_unsqueeze(&c, vec, 1);
  tl_Tensor *product = TLI_STEP(&c, tlo_mm(self, column));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_select(product, 1, 0)));
}

tl_Tensor *tlo_mv(tl_Tensor *self, tl_Tensor *vec) {
  TL_TRY_NULL(check_vectors("mv", self, 2, vec, 1));
  return mv("mv", self, vec);
}

static tl_Tensor *dot(const char *op, tl_Tensor *self, tl_Tensor *other) {
  if (self->sizes[0] != other->sizes[0])
    return tli_fail_null(TL_ESHAPE, "%s: lengths differ: %s x %s", op, tli_sizes_str(self),
                         tli_sizes_str(other));
  tli_Chain c = {0};
  tl_Tensor *row = chain_unsqueeze(&c, self, 0), *column = chain_unsqueeze(&c, other, 1);
  tl_Tensor *product = TLI_STEP(&c, tlo_mm(row, column));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(product, (tl_Ints){0, (int64_t[]){0}})));
}

tl_Tensor *tlo_dot(tl_Tensor *self, tl_Tensor *other) {
  TL_TRY_NULL(check_vectors("dot", self, 1, other, 1));
  return dot("dot", self, other);
}

tl_Tensor *tlo_outer(tl_Tensor *self, tl_Tensor *vec2) {
  TL_TRY_NULL(check_vectors("outer", self, 1, vec2, 1));
  tl_Tensor *column = tlo_unsqueeze(self, 1);
  tl_Tensor *result = column ? tlo_mul(column, vec2) : NULL;
  tli_release(column);
  return result;
}

/* ---- any number of dimensions ---- */

/* Multiplies (..., k) by (k, m). All leading dimensions are flattened into rows, so this is one
** product. */
static tl_Tensor *fold_rows(tl_Tensor *self, tl_Tensor *other) {
  int64_t sizes[TL_MAX_DIMS];
  int n = self->ndim;
  int64_t rows = 1, k = self->sizes[n - 1];
  for (int d = 0; d < n - 1; d++) rows *= sizes[d] = self->sizes[d];
  sizes[n - 1] = other->sizes[1];
  tli_Chain c = {0};
  tl_Tensor *matrix = TLI_STEP(&c, tlo_reshape(self, (tl_Ints){2, (int64_t[]){rows, k}}));
  tl_Tensor *product = TLI_STEP(&c, tlo_mm(matrix, other));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(product, (tl_Ints){n, sizes})));
}

/* Broadcasts the batch dimensions of a and b. Sets *n to the number of batch dimensions, and *count
** to the product of their sizes. */
static bool batch_shape(tl_Tensor *a, tl_Tensor *b, int *n, int64_t *sizes, int64_t *count) {
  int na = a->ndim - 2, nb = b->ndim - 2;
  *n = na > nb ? na : nb;
  *count = 1;
  for (int d = 0; d < *n; d++) {
    int64_t sa = d < *n - na ? 1 : a->sizes[d - (*n - na)];
    int64_t sb = d < *n - nb ? 1 : b->sizes[d - (*n - nb)];
    if (sa != sb && sa != 1 && sb != 1)
      return tli_fail(TL_ESHAPE, "matmul: batch sizes do not broadcast: %s x %s", tli_sizes_str(a),
                      tli_sizes_str(b));
    sizes[d] = sa == 1 ? sb : sa;
    *count *= sizes[d];
  }
  return true;
}

/* Broadcasts t to the batch dimensions and flattens them to one dimension. */
static tl_Tensor *as_batch(tl_Tensor *t, int n, int64_t *sizes, int64_t count) {
  int64_t rows = sizes[n] = t->sizes[t->ndim - 2];
  int64_t cols = sizes[n + 1] = t->sizes[t->ndim - 1];
  tl_Tensor *wide = tlo_expand(t, (tl_Ints){n + 2, sizes});
  tl_Tensor *flat = wide ? tlo_reshape(wide, (tl_Ints){3, (int64_t[]){count, rows, cols}}) : NULL;
  tli_release(wide);
  return flat;
}

static tl_Tensor *batched(tl_Tensor *self, tl_Tensor *other) {
  int n;
  int64_t sizes[TL_MAX_DIMS + 2], count;
  TL_TRY_NULL(batch_shape(self, other, &n, sizes, &count));
  tli_Chain c = {0};
  tl_Tensor *a = TLI_STEP(&c, as_batch(self, n, sizes, count));
  tl_Tensor *b = TLI_STEP(&c, as_batch(other, n, sizes, count));
  tl_Tensor *product = TLI_STEP(&c, tlo_bmm(a, b));
  sizes[n] = self->sizes[self->ndim - 2];
  sizes[n + 1] = other->sizes[other->ndim - 1];
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view(product, (tl_Ints){n + 2, sizes})));
}

/* Returns whether t is a single matrix: all batch dimensions have size 1, and there are at most
** `ndim` dimensions. */
static bool only_matrix(const tl_Tensor *t, int ndim) {
  for (int d = 0; d < t->ndim - 2; d++)
    if (t->sizes[d] != 1) return false;
  return t->ndim <= ndim;
}

static tl_Tensor *matrices(tl_Tensor *self, tl_Tensor *other) {
  if (self->ndim == 2 && other->ndim == 2) return tlo_mm(self, other);
  if (!only_matrix(other, self->ndim)) return batched(self, other);
  int64_t *last = &other->sizes[other->ndim - 2];
  tl_Tensor *matrix = other->ndim == 2 ? tli_retain(other) : tlo_view(other, (tl_Ints){2, last});
  tl_Tensor *result = matrix ? fold_rows(self, matrix) : NULL;
  tli_release(matrix);
  return result;
}

/* Multiplies a vector and a tensor. The vector becomes a matrix of one row if it is on the left,
** and of one column if it is on the right. The added dimension is removed from the result. */
static tl_Tensor *with_vector(tl_Tensor *self, tl_Tensor *other) {
  bool row = self->ndim == 1;
  uint64_t count = tli_node_count();
  tli_Chain c = {0};
  tl_Tensor *matrix = row ? chain_unsqueeze(&c, self, 0) : chain_unsqueeze(&c, other, 1);
  tl_Tensor *product = TLI_STEP(&c, row ? matrices(matrix, other) : matrices(self, matrix));
  tl_Tensor *result = tli_chain_end(&c, TLI_STEP(&c, tlo_select(product, row ? -2 : -1, 0)));
  const char *title = self->ndim + other->ndim > 3 ? "UnsafeView" : row ? "Squeeze" : "Mv";
  tli_entitle(result, title, count); /* gives the autograd node the name that PyTorch uses */
  return result;
}

tl_Tensor *tlo_matmul(tl_Tensor *self, tl_Tensor *other) {
  if (self->ndim == 0 || other->ndim == 0)
    return tli_fail_null(TL_ESHAPE,
                         "matmul: expected tensors of at least 1 dimension, got shapes %s and %s",
                         tli_sizes_str(self), tli_sizes_str(other));
  int64_t inner = other->sizes[other->ndim > 1 ? other->ndim - 2 : 0];
  if (self->sizes[self->ndim - 1] != inner)
    return tli_fail_null(TL_ESHAPE, "matmul: inner sizes differ: %s x %s", tli_sizes_str(self),
                         tli_sizes_str(other));
  TL_TRY_NULL(check_dtypes("matmul", self, other));
  if (self->ndim == 1 && other->ndim == 1) return dot("matmul", self, other);
  if (self->ndim == 1 || other->ndim == 1) return with_vector(self, other);
  uint64_t count = tli_node_count();
  tl_Tensor *result = matrices(self, other);
  /* gives the autograd node the name that PyTorch uses */
  if (self->ndim > 2 || other->ndim > 2) tli_entitle(result, "UnsafeView", count);
  return result;
}
