/*
** complex.c - conversions between complex tensors and pairs of real numbers, and operators that
** return a real input unchanged.
*/
#include "ops/chain.h"

static bool is_complex(const tl_Tensor *t) { return tli_is_complex((tl_DType)t->dtype); }

/* ---- views ---- */

tl_Tensor *tli_op_view_as_real(tl_Tensor *self) {
  if (!is_complex(self))
    return tli_fail_null(TL_EDTYPE, "view_as_real: expected a complex tensor, got %s",
                         tl_dtype_name((tl_DType)self->dtype));
  TL_TRY_NULL(tli_check_ndim("view_as_real", self->ndim + 1));
  int64_t sizes[TL_MAX_DIMS], strides[TL_MAX_DIMS];
  for (int d = 0; d < self->ndim; d++) {
    sizes[d] = self->sizes[d];
    strides[d] = 2 * self->strides[d];
  }
  sizes[self->ndim] = 2;
  strides[self->ndim] = 1;
  return tli_alias_as(self, tli_real_dtype((tl_DType)self->dtype), self->ndim + 1, sizes, strides,
                      2 * self->offset);
}

/* Returns whether a tensor has float16, pairs of which are complex32. */
static bool is_half_pair(const tl_Tensor *t) {
  return TLI_HALF_COMPLEX != TL_NDTYPES && t->dtype == TL_F16;
}

static bool check_pairs(const tl_Tensor *self) {
  if (self->dtype != TL_F32 && self->dtype != TL_F64 && !is_half_pair(self))
    return tli_fail(TL_EDTYPE, "view_as_complex: expected float32, float64 or float16, got %s",
                    tl_dtype_name((tl_DType)self->dtype));
  int last = self->ndim - 1;
  if (last < 0 || self->sizes[last] != 2)
    return tli_fail(TL_ESHAPE, "view_as_complex: expected a last dimension of size 2, got shape %s",
                    tli_sizes_str(self));
  if (self->numel == 0) return true;
  bool even = self->strides[last] == 1 && self->offset % 2 == 0;
  for (int d = 0; d < last; d++) /* strides of dimensions with one element do not matter */
    even = even && (self->sizes[d] <= 1 || self->strides[d] % 2 == 0);
  if (even) return true;
  return tli_fail(TL_ESHAPE,
                  "view_as_complex: expected pairs in memory: stride 1 in the last dimension, even "
                  "strides in the others and an even offset, got strides %s, offset %lld",
                  tli_shape_str(self->ndim, self->strides), (long long)self->offset);
}

tl_Tensor *tli_op_view_as_complex(tl_Tensor *self) {
  TL_TRY_NULL(check_pairs(self));
  int64_t strides[TL_MAX_DIMS];
  for (int d = 0; d < self->ndim - 1; d++) strides[d] = self->strides[d] / 2;
  tl_DType dtype = is_half_pair(self) ? TLI_HALF_COMPLEX : tli_complex_dtype((tl_DType)self->dtype);
  return tli_alias_as(self, dtype, self->ndim - 1, self->sizes, strides, self->offset / 2);
}

/* Converts pairs of real numbers to complex numbers. Unlike in view_as_complex, the two numbers of
** a pair need not be adjacent in memory, because the gradient of view_as_real may have any
** strides. */
tl_Tensor *tlo_complex_of_pairs(tl_Tensor *self) {
  tli_Chain c = {0};
  tl_Tensor *pairs = TLI_STEP(&c, tlo_contiguous(self));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view_as_complex(pairs)));
}

static tl_Tensor *part(tl_Tensor *self, int64_t which) {
  tl_Tensor *pairs = tlo_view_as_real(self);
  tl_Tensor *result = pairs ? tlo_select(pairs, -1, which) : NULL;
  tli_release(pairs);
  return result;
}

tl_Tensor *tli_op_real(tl_Tensor *self) {
  return is_complex(self) ? part(self, 0) : tli_retain(self);
}

tl_Tensor *tli_op_imag(tl_Tensor *self) {
  if (is_complex(self)) return part(self, 1);
  return tli_fail_null(TL_EDTYPE, "imag: expected a complex tensor, got %s",
                       tl_dtype_name((tl_DType)self->dtype));
}

/* ---- conjugates ---- */

tl_Tensor *tli_op_conj(tl_Tensor *self) {
  return is_complex(self) ? tlo_conj_physical(self) : tli_retain(self);
}

tl_Tensor *tlo_resolve_conj(tl_Tensor *self) { return tli_retain(self); }

bool tlo_is_conj(tl_Tensor *self, bool *out) {
  (void)self;
  return *out = false, true;
}

bool tlo_is_neg(tl_Tensor *self, bool *out) { return tlo_is_conj(self, out); }

tl_Tensor *tlo_resolve_neg(tl_Tensor *self) { return tli_retain(self); }

/* ---- from parts ---- */

static bool check_parts(const char *op, const char *first, const char *second, const tl_Tensor *a,
                        const tl_Tensor *b) {
  if (a->dtype == b->dtype && (a->dtype == TL_F32 || a->dtype == TL_F64)) return true;
  return tli_fail(TL_EDTYPE,
                  "%s: %s, %s: expected float32 or float64 tensors of one dtype, got %s "
                  "and %s",
                  op, first, second, tl_dtype_name((tl_DType)a->dtype),
                  tl_dtype_name((tl_DType)b->dtype));
}

static tl_Tensor *of_parts(tl_Tensor *real, tl_Tensor *imag) {
  tli_Chain c = {0};
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
  TL_TRY_NULL(tli_broadcast_shape("complex", (tl_Tensor *[]){real, imag}, 2, &ndim, sizes));
  tl_Tensor *first = TLI_STEP(&c, tlo_expand(real, (tl_Ints){ndim, sizes}));
  tl_Tensor *second = TLI_STEP(&c, tlo_expand(imag, (tl_Ints){ndim, sizes}));
  tl_Tensor *pairs = TLI_STEP(&c, tlo_stack((tl_Tensors){2, (tl_Tensor *[]){first, second}}, -1));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_view_as_complex(pairs)));
}

tl_Tensor *tlo_complex(tl_Tensor *real, tl_Tensor *imag) {
  TL_TRY_NULL(check_parts("complex", "real", "imag", real, imag));
  return of_parts(real, imag);
}

tl_Tensor *tlo_polar(tl_Tensor *abs, tl_Tensor *angle) {
  TL_TRY_NULL(check_parts("polar", "abs", "angle", abs, angle));
  tli_Chain c = {0};
  tl_Tensor *cosine = TLI_STEP(&c, tlo_cos(angle)), *sine = TLI_STEP(&c, tlo_sin(angle));
  tl_Tensor *real = chain_mul(&c, abs, cosine), *imag = chain_mul(&c, abs, sine);
  return tli_chain_end(&c, TLI_STEP(&c, of_parts(real, imag)));
}

/* ---- gradients ---- */

/* Computes the gradient of angle. For complex numbers it is grad * i * self / |self|^2, and 0 at 0.
** For real numbers it is 0. */
tl_Tensor *tlo_angle_backward(tl_Tensor *grad, tl_Tensor *self) {
  tli_Chain c = {0};
  if (!is_complex(self)) return tlo_zeros_like(grad, TL_NODTYPE, TLI_NODEVICE, NULL);
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, self, 0);
  tl_Tensor *base = chain_where_then(&c, zero, tli_int(1), self);
  tl_Tensor *i = TLI_STEP(&c, tli_number(tli_complex(0, 1)));
  tl_Tensor *conjugate = TLI_STEP(&c, tlo_conj(base));
  tl_Tensor *slope = chain_div(&c, i, conjugate);
  tl_Tensor *product = chain_mul(&c, grad, slope);
  return tli_chain_end(&c, chain_where_then(&c, zero, tli_int(0), product));
}

/* Computes the gradient of sgn. For complex numbers it is (grad - real(grad * conj(result)) *
** result) / |self|, and 0 at 0. */
tl_Tensor *tlo_sgn_backward(tl_Tensor *grad, tl_Tensor *self, tl_Tensor *result) {
  if (!is_complex(self)) return tlo_zeros_like(grad, TL_NODTYPE, TLI_NODEVICE, NULL);
  tli_Chain c = {0};
  tl_Tensor *magnitude = TLI_STEP(&c, tlo_abs(self));
  tl_Tensor *zero = chain_with_int(&c, tlo_eq, magnitude, 0);
  tl_Tensor *divisor = chain_where_then(&c, zero, tli_int(1), magnitude);
  tl_Tensor *conjugate = TLI_STEP(&c, tlo_conj(result));
  tl_Tensor *along = chain_mul(&c, grad, conjugate);
  tl_Tensor *real = TLI_STEP(&c, tlo_real(along));
  tl_Tensor *rest = chain_sub(&c, grad, chain_mul(&c, real, result));
  return tli_chain_end(&c, chain_where_then(&c, zero, tli_int(0), chain_div(&c, rest, divisor)));
}
