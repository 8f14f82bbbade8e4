/*
** complex.c - implements complex.h. Sums are computed on a real tensor that has the real and
** imaginary parts as an additional dimension.
*/
#include "ops/reduce/complex.h"

#include "ops/chain.h"

/* ---- sums ---- */

/* Converts t to a complex dtype and returns its real and imaginary parts as a real tensor. Records
** nothing. */
static tl_Tensor *parts_of(tl_Tensor *t, tl_DType dtype) {
  tl_Tensor *wide = t->dtype == dtype ? tli_retain(t) : tli_op_to_dtype(t, dtype);
  tl_Tensor *parts = wide ? tli_op_view_as_real(wide) : NULL;
  tli_release(wide);
  return parts;
}

/* Converts a real tensor, whose last dimension has the real and imaginary parts, to a complex
** tensor. Returns NULL for NULL. */
static tl_Tensor *of_parts(tl_Tensor *steals) {
  tl_Tensor *dense = steals ? tli_contiguous_as(steals, (tl_DType)steals->dtype) : NULL;
  tl_Tensor *result = dense ? tli_op_view_as_complex(dense) : NULL;
  tli_release(steals);
  tli_release(dense);
  return result;
}

tl_Tensor *tli_complex_sum(const char *op, tl_Tensor *self, tl_Ints dim, bool keepdim,
                           tl_DType result) {
  bool marked[TL_MAX_DIMS];
  int64_t dims[TL_MAX_DIMS], n = 0;
  TL_TRY_NULL(tli_mark_dims(op, dim, self->ndim, marked));
  for (int d = 0; d < self->ndim; d++)
    if (marked[d]) dims[n++] = d;
  if (n == 0) return tli_op_to_dtype(self, result);
  tl_Tensor *parts = parts_of(self, result);
  tl_Tensor *sum = parts ? tli_op_sum(parts, (tl_Ints){n, dims}, keepdim, TL_NODTYPE) : NULL;
  tli_release(parts);
  return of_parts(sum);
}

tl_Tensor *tli_complex_cumsum(const char *op, tl_Tensor *self, int64_t dim, tl_DType result) {
  int d = tli_dim(op, dim, self->ndim);
  if (d < 0) return NULL;
  if (self->ndim == 0) return tli_op_to_dtype(self, result);
  tli_Chain c = {0};
  tl_Tensor *parts = TLI_STEP(&c, parts_of(self, result));
  return of_parts(tli_chain_end(&c, TLI_STEP(&c, tli_op_cumsum(parts, d, TL_NODTYPE))));
}

/* ---- products ---- */

/* Computes the product along dimension d in passes: each pass multiplies the first half of the
** elements by the second half, until one element is left. */
static tl_Tensor *halved(tli_Chain *c, tl_Tensor *t, int d) {
  while (!c->failed && t && t->sizes[d] > 1) {
    int64_t n = t->sizes[d], half = n / 2;
    tl_Tensor *first = chain_slice(c, t, d, 0, half),
              *second = chain_slice(c, t, d, half, 2 * half);
    tl_Tensor *products = chain_mul(c, first, second);
    t = n % 2 ? chain_cat(c, products, chain_slice(c, t, d, 2 * half, n), d) : products;
  }
  return t;
}

static tl_Tensor *prod(tl_Tensor *self, int64_t dim, int d, bool keepdim, tl_DType result) {
  tli_Chain c = {0};
  bool all = dim == TLI_NOINT;
  tl_Tensor *wide = TLI_STEP(&c, tlo_to_dtype(self, result));
  if (all) wide = TLI_STEP(&c, tlo_reshape(wide, (tl_Ints){1, (int64_t[]){self->numel}}));
  if (self->ndim == 0 && !all) return tli_chain_end(&c, wide);
  if (wide && wide->sizes[d] == 0) {
    int64_t sizes[TL_MAX_DIMS];
    for (int k = 0; k < wide->ndim; k++) sizes[k] = k == d ? 1 : wide->sizes[k];
    wide = TLI_STEP(&c, tlo_ones((tl_Ints){wide->ndim, sizes}, result, tli_device(self)));
  }
  tl_Tensor *product = halved(&c, wide, d);
  int64_t ones[TL_MAX_DIMS];
  for (int k = 0; k < TL_MAX_DIMS; k++) ones[k] = 1;
  if (all)
    product = TLI_STEP(&c, tlo_reshape(product, (tl_Ints){keepdim ? self->ndim : 0, ones}));
  else if (!keepdim)
    product = TLI_STEP(&c, tlo_select(product, d, 0));
  return tli_chain_end(&c, product);
}

tl_Tensor *tli_complex_prod(const char *op, tl_Tensor *self, int64_t dim, bool keepdim,
                            tl_DType result) {
  int d = dim == TLI_NOINT ? 0 : tli_dim(op, dim, self->ndim);
  if (d < 0) return NULL;
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *product = prod(self, dim, d, keepdim, result);
  tli_set_grad_mode(mode);
  return product;
}

/* Computes running products. Each pass multiplies every element by the element that is `reach`
** positions before it. This doubles the number of factors in each element. */
static tl_Tensor *cumprod(tl_Tensor *self, int d, tl_DType result) {
  tli_Chain c = {0};
  tl_Tensor *t = TLI_STEP(&c, tlo_to_dtype(self, result));
  int64_t n = self->ndim ? self->sizes[d] : 1;
  for (int64_t reach = 1; !c.failed && reach < n; reach *= 2) {
    tl_Tensor *head = chain_slice(&c, t, d, 0, reach), *rest = chain_slice(&c, t, d, reach, n);
    tl_Tensor *before = chain_slice(&c, t, d, 0, n - reach);
    t = chain_cat(&c, head, chain_mul(&c, rest, before), d);
  }
  return tli_chain_end(&c, t);
}

tl_Tensor *tli_complex_cumprod(const char *op, tl_Tensor *self, int64_t dim, tl_DType result) {
  int d = tli_dim(op, dim, self->ndim);
  if (d < 0) return NULL;
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *products = cumprod(self, d, result);
  tli_set_grad_mode(mode);
  return products;
}

/* Computes running values of log(sum(exp)). As in cumprod, each pass doubles the number of
** terms. */
static tl_Tensor *logcumsumexp(tl_Tensor *self, int d) {
  tli_Chain c = {0};
  tl_Tensor *t = TLI_STEP(&c, tlo_clone(self));
  int64_t n = self->ndim ? self->sizes[d] : 1;
  for (int64_t reach = 1; !c.failed && reach < n; reach *= 2) {
    tl_Tensor *head = chain_slice(&c, t, d, 0, reach), *rest = chain_slice(&c, t, d, reach, n);
    tl_Tensor *before = chain_slice(&c, t, d, 0, n - reach);
    tl_Tensor *sums = TLI_STEP(&c, tlo_logaddexp(rest, before));
    t = chain_cat(&c, head, sums, d);
  }
  return tli_chain_end(&c, t);
}

tl_Tensor *tli_complex_logcumsumexp(tl_Tensor *self, int64_t dim) {
  int d = tli_dim("logcumsumexp", dim, self->ndim);
  if (d < 0) return NULL;
  bool mode = tli_set_grad_mode(false);
  tl_Tensor *sums = logcumsumexp(self, d);
  tli_set_grad_mode(mode);
  return sums;
}
