/*
** fft.c - discrete Fourier transforms. The functions of torch.fft parse their arguments into Axes,
** convert the input's dtype and sizes, and call the operators that transform.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

/* ---- the operators that transform ---- */

/* The progress of a transform of several dimensions. An image is the part of a tensor that is
** transformed as a whole; images are numbered by the dimensions before the first transformed one.
** On the CPU, a few images at a time are transformed along all dimensions, so that they stay in the
** cache. */
typedef struct Images {
  int64_t count; /* number of images */
  int64_t some;  /* number of images that are transformed together */
  /* the group of images that is transformed now: number of the first one, and their count */
  int64_t first, n;
} Images;

/* The size of the images that each thread transforms together, in bytes. */
#define IMAGE_BYTES ((int64_t)1 << 18)

static Images images_of(const tl_Tensor *t, const int *dims, int64_t n) {
  int least = dims[0];
  for (int64_t i = 1; i < n; i++) least = dims[i] < least ? dims[i] : least;
  Images m = {.count = tli_along(t, least).outer};
  m.some = m.count;
  if (n > 1 && tli_device(t).type == TL_CPU) {
    int64_t bytes = t->numel / m.count * (int64_t)tl_dtype_size((tl_DType)t->dtype);
    m.some = IMAGE_BYTES * tl_get_num_threads() / bytes;
    if (m.some < 1) m.some = 1;
  }
  return m;
}

/* Advances to the next images. Returns false if there are none. */
static bool next_images(Images *m) {
  m->first += m->n;
  m->n = m->count - m->first < m->some ? m->count - m->first : m->some;
  return m->n > 0;
}

/* Transforms the current images along dimension d of `whole`, the input or the output. For a
** transform between real and complex numbers it is the real one, which has all n elements along d.
** `in` and `out` are the arrays of these images. */
static bool run(const Images *m, tlk_FftKind kind, const tl_Tensor *whole, int d, tlk_Array in,
                tlk_Array out, bool inverse, double scale) {
  tli_Along along = tli_along(whole, d);
  return TLI_RUN(tli_device(whole), fft, .kind = kind, .inverse = inverse, .out = out, .in = in,
                 .outer = along.outer / m->count * m->n, .n = along.n, .inner = along.inner,
                 .scale = scale);
}

/* Returns the part of t that contains the current images. t contains all images. */
static tlk_Array current(const Images *m, tl_Tensor *t) {
  tlk_Array a = tli_array(t);
  int64_t size = (int64_t)tl_dtype_size((tl_DType)t->dtype);
  if (m->first > 0) a.data = (char *)a.data + m->first * (t->numel / m->count) * size;
  return a;
}

/* Converts the listed dimensions of t, which may count from the end, to dimensions in `dims` that
** count from 0. */
static bool read_transformed(const char *op, const tl_Tensor *t, tl_Ints dim, int *dims) {
  for (int64_t i = 0; i < dim.n; i++)
    if ((dims[i] = tli_dim(op, dim.v[i], t->ndim)) < 0) return false;
  return true;
}

/* Transforms the dimensions one at a time. All transforms except the first work in place. */
tl_Tensor *tli_op_fft_c2c(tl_Tensor *self, tl_Ints dim, int64_t sign, double scale) {
  int dims[TL_MAX_DIMS];
  TL_TRY_NULL(read_transformed("fft", self, dim, dims));
  tl_Tensor *in = tli_contiguous_as(self, (tl_DType)self->dtype);
  tl_Tensor *out =
      in ? tli_empty((tl_DType)self->dtype, tli_device(self), in->ndim, in->sizes) : NULL;
  bool ok = out != NULL;
  if (ok && dim.n > 0 && in->numel > 0) {
    Images m = images_of(in, dims, dim.n);
    while (ok && next_images(&m))
      for (int64_t i = dim.n - 1; ok && i >= 0; i--) {
        bool first = i == dim.n - 1;
        ok = run(&m, TLK_FFT_COMPLEX, out, dims[i], current(&m, first ? in : out), current(&m, out),
                 sign > 0, first ? scale : 1);
      }
  }
  if (ok && dim.n == 0) ok = tli_copy(out, in);
  tli_release(in);
  if (!ok) tli_release_results(&out, 1);
  return out;
}

tl_Tensor *tli_op_fft_real(tl_Tensor *self, tl_Ints dim, int64_t sign, double scale) {
  tl_Tensor *wide = tli_op_to_dtype(self, tli_complex_dtype((tl_DType)self->dtype));
  tl_Tensor *result = wide ? tli_op_fft_c2c(wide, dim, sign, scale) : NULL;
  tli_release(wide);
  return result;
}

/* Moves dimension d = dims[n - 1] of self to the end, as the kernel requires. A transform between
** real and complex numbers halves this dimension. Changes the other dimensions in dims accordingly.
** Returns a contiguous tensor. */
static tl_Tensor *moved_last(tl_Tensor *self, int *dims, int64_t n) {
  int d = dims[n - 1], last = self->ndim - 1;
  tl_Tensor *moved = tli_op_transpose(self, d, last);
  tl_Tensor *in = moved ? tli_contiguous_as(moved, (tl_DType)self->dtype) : NULL;
  tli_release(moved);
  for (int64_t i = 0; i < n; i++) dims[i] = dims[i] == d ? last : dims[i] == last ? d : dims[i];
  return in;
}

static tl_Tensor *empty_resized(const tl_Tensor *t, tl_DType dtype, int64_t last) {
  int64_t sizes[TL_MAX_DIMS];
  memcpy(sizes, t->sizes, sizeof sizes);
  sizes[t->ndim - 1] = last;
  return tli_empty(dtype, tli_device(t), t->ndim, sizes);
}

tl_Tensor *tli_op_fft_r2c(tl_Tensor *self, tl_Ints dim, double scale) {
  int dims[TL_MAX_DIMS];
  TL_TRY_NULL(read_transformed("rfft", self, dim, dims));
  int64_t n = dim.n;
  int d = dims[n - 1], last = self->ndim - 1;
  tl_Tensor *in = moved_last(self, dims, n), *result = NULL;
  tl_Tensor *out =
      in ? empty_resized(in, tli_complex_dtype((tl_DType)in->dtype), in->sizes[last] / 2 + 1)
         : NULL;
  bool ok = out != NULL;
  if (ok && in->numel > 0) {
    Images m = images_of(out, dims, n);
    while (ok && next_images(&m)) {
      ok = run(&m, TLK_FFT_FROM_REAL, in, last, current(&m, in), current(&m, out), false, scale);
      for (int64_t i = n - 2; ok && i >= 0; i--)
        ok = run(&m, TLK_FFT_COMPLEX, out, dims[i], current(&m, out), current(&m, out), false, 1);
    }
  }
  if (ok) result = d == last ? tli_retain(out) : tli_op_transpose(out, d, last);
  tli_release(in);
  tli_release(out);
  return result;
}

/* Transforms the current images of `in` and writes the results, which are real, to `out`.
** Intermediate results are stored in `between`. */
static bool run_to_real(const Images *m, tl_Tensor *in, tl_Tensor *between, tl_Tensor *out,
                        const int *dims, int64_t n, double scale) {
  tlk_Array from = current(m, in);
  for (int64_t i = n - 2; i >= 0; i--) {
    TL_TRY(run(m, TLK_FFT_COMPLEX, in, dims[i], from, tli_array(between), true, 1));
    from = tli_array(between);
  }
  return run(m, TLK_FFT_TO_REAL, out, dims[n - 1], from, current(m, out), true, scale);
}

tl_Tensor *tli_op_fft_c2r(tl_Tensor *self, tl_Ints dim, int64_t size, double scale) {
  int dims[TL_MAX_DIMS];
  TL_TRY_NULL(read_transformed("irfft", self, dim, dims));
  int64_t n = dim.n;
  int d = dims[n - 1], last = self->ndim - 1;
  tl_Tensor *in = moved_last(self, dims, n), *between = NULL, *result = NULL;
  tl_Tensor *out = in ? empty_resized(in, tli_real_dtype((tl_DType)in->dtype), size) : NULL;
  bool ok = out != NULL;
  if (ok && in->numel > 0 && out->numel > 0) {
    Images m = images_of(in, dims, n);
    int64_t some = m.some < m.count ? m.some : m.count, numel = in->numel / m.count * some;
    between = n > 1 ? tli_empty((tl_DType)in->dtype, tli_device(in), 1, &numel) : NULL;
    ok = n == 1 || between;
    while (ok && next_images(&m)) ok = run_to_real(&m, in, between, out, dims, n, scale);
  }
  if (ok) result = d == last ? tli_retain(out) : tli_op_transpose(out, d, last);
  tli_release(in);
  tli_release(between);
  tli_release(out);
  return result;
}

/* ---- gradients ---- */

/* Multiplies by `factor` those elements of a half line that stand for two elements of the whole
** line. These are all elements except the one at 0 and, if n is even, the one at n / 2. */
static tl_Tensor *weigh_pairs(tl_Tensor *half, int64_t dim, int64_t n, double factor) {
  int d = tli_dim("rfft", dim, half->ndim);
  if (d < 0) return NULL;
  int64_t sizes[TL_MAX_DIMS];
  for (int k = 0; k < half->ndim; k++) sizes[k] = k == d ? half->sizes[k] : 1;
  tl_DType real = tli_real_dtype((tl_DType)half->dtype);
  tl_Tensor *weights =
      tlo_full((tl_Ints){half->ndim, sizes}, tli_float(factor), real, tli_device(half));
  bool ok = weights != NULL;
  for (int64_t k = 0; ok && k <= n / 2; k += n / 2 > 0 && n % 2 == 0 ? n / 2 : n) {
    tl_Tensor *one = tli_cut(weights, d, k, 1, 1);
    ok = one && tli_fill(one, tli_float(1));
    tli_release(one);
  }
  tl_Tensor *result = ok ? tlo_mul(half, weights) : NULL;
  tli_release(weights);
  return result;
}

tl_Tensor *tlo_fft_real_backward(tl_Tensor *grad, tl_Ints dim, int64_t sign, double scale) {
  tli_Chain c = {0};
  tl_Tensor *back = TLI_STEP(&c, tlo_fft_c2c(grad, dim, sign, scale));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_real(back)));
}

/* Computes the gradient of a real-to-complex transform: the real part of the inverse transform of
** the zero-padded gradient. A complex-to-real transform of the gradient gives the same result. It
** counts most elements twice, once for their conjugates, so these elements are halved first. */
tl_Tensor *tlo_fft_r2c_backward(tl_Tensor *grad, tl_Ints sizes, tl_Ints dim, double scale) {
  tli_Chain c = {0};
  int d = tli_dim("rfft", dim.v[dim.n - 1], grad->ndim);
  if (d < 0) return NULL;
  tl_Tensor *weighed = TLI_STEP(&c, weigh_pairs(grad, d, sizes.v[d], 0.5));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_fft_c2r(weighed, dim, sizes.v[d], scale)));
}

tl_Tensor *tlo_fft_c2r_backward(tl_Tensor *grad, tl_Ints dim, double scale) {
  tli_Chain c = {0};
  int d = tli_dim("irfft", dim.v[dim.n - 1], grad->ndim);
  if (d < 0) return NULL;
  tl_Tensor *half = TLI_STEP(&c, tlo_fft_r2c(grad, dim, scale));
  return tli_chain_end(&c, TLI_STEP(&c, weigh_pairs(half, d, grad->sizes[d], 2)));
}

/* ---- arguments ---- */

/* The dimensions to transform (each at most once) with their sizes, and the scale of the
** results. */
typedef struct Axes {
  const char *op;
  int64_t n;
  int64_t dim[TL_MAX_DIMS], size[TL_MAX_DIMS];
  double scale;
} Axes;

/* Sets *scale according to `norm`. `inverse` says whether the function is one of torch.fft's
** inverse transforms. `count` is the number of elements of a signal. */
static bool read_norm(const char *op, const char *norm, bool inverse, double count, double *scale) {
  if (norm == NULL) norm = "backward";
  if (strcmp(norm, "ortho") == 0)
    *scale = 1 / sqrt(count);
  else if (strcmp(norm, "backward") == 0)
    *scale = inverse ? 1 / count : 1;
  else if (strcmp(norm, "forward") == 0)
    *scale = inverse ? 1 : 1 / count;
  else
    return tli_fail(TL_EARG, "%s: norm: expected 'backward', 'ortho' or 'forward', got '%s'", op,
                    norm);
  return true;
}

static bool read_dims(Axes *a, const tl_Tensor *input, tl_Ints s, tl_Ints dim) {
  bool marked[TL_MAX_DIMS] = {false};
  if (dim.n > 0 && input->ndim == 0)
    return tli_fail(TL_ESHAPE, "%s: input: expected at least one dimension, got none", a->op);
  if (s.v && dim.v && s.n != dim.n)
    return tli_fail(TL_ESHAPE,
                    "%s: s: expected a size for each of the %lld dimensions in dim, got %lld",
                    a->op, (long long)dim.n, (long long)s.n);
  if (s.v && s.n > input->ndim)
    return tli_fail(TL_ESHAPE, "%s: s: got %lld sizes for a tensor of shape %s", a->op,
                    (long long)s.n, tli_sizes_str(input));
  a->n = dim.v ? dim.n : s.v ? s.n : input->ndim;
  for (int64_t i = 0; i < a->n; i++) {
    int d = dim.v ? tli_dim(a->op, dim.v[i], input->ndim) : (int)(input->ndim - a->n + i);
    if (d < 0) return false;
    if (marked[d])
      return tli_fail(TL_EARG, "%s: dim: dimension " TLI_POS " appears twice", a->op, (int64_t)d);
    marked[d] = true;
    a->dim[i] = d;
  }
  return true;
}

/* Parses the arguments into *a. With `half`, the last dimension of the input holds the first half
** of a Hermitian line. */
static bool read_axes(Axes *a, const char *op, const tl_Tensor *input, tl_Ints s, tl_Ints dim,
                      const char *norm, bool inverse, bool half) {
  *a = (Axes){.op = op};
  /* treats an empty list as absent, because in Lua an empty list looks like an empty table of
  ** options */
  if (s.n == 0) s = TLI_NOINTS;
  TL_TRY(read_dims(a, input, s, dim));
  double count = 1;
  for (int64_t i = 0; i < a->n; i++) {
    bool given = s.v && s.v[i] != -1;
    int64_t own = input->sizes[a->dim[i]];
    a->size[i] = given ? s.v[i] : half && i == a->n - 1 ? 2 * (own - 1) : own;
    if (a->size[i] < 1)
      return tli_fail(TL_ESHAPE,
                      "%s: expected a signal of at least 1 element along dimension " TLI_POS
                      ", got %lld",
                      op, a->dim[i], (long long)a->size[i]);
    count *= (double)a->size[i];
  }
  return read_norm(op, norm, inverse, count, &a->scale);
}

/* Converts the input to a dtype that can be transformed, which is complex if `complex` is set. */
static tl_Tensor *chain_numbers(tli_Chain *c, tl_Tensor *input, bool complex) {
  tl_DType dtype = tli_floating_dtype(input);
  if (tli_is_half(dtype)) dtype = TL_F32;
  return chain_to(c, input, complex ? tli_complex_dtype(dtype) : dtype);
}

/* Crops or zero-pads the dimensions of the signal to their sizes in `a`; with `half`, the last one
** to size / 2 + 1. */
static tl_Tensor *chain_resized(tli_Chain *c, tl_Tensor *t, const Axes *a, bool half) {
  if (c->failed) return NULL;
  int64_t pad[2 * TL_MAX_DIMS] = {0};
  bool change = false;
  for (int64_t i = 0; i < a->n; i++) {
    int64_t want = half && i == a->n - 1 ? a->size[i] / 2 + 1 : a->size[i];
    int64_t more = want - t->sizes[a->dim[i]];
    pad[2 * (t->ndim - 1 - a->dim[i]) + 1] = more;
    change = change || more != 0;
  }
  if (!change) return t;
  return TLI_STEP(c, tlo_constant_pad(t, (tl_Ints){2 * t->ndim, pad}, tli_int(0)));
}

/* ---- transforms ---- */

static tl_Tensor *c2c(const char *op, tl_Tensor *input, tl_Ints s, tl_Ints dim, const char *norm,
                      bool inverse) {
  Axes a;
  TL_TRY_NULL(read_axes(&a, op, input, s, dim, norm, inverse, false));
  tli_Chain c = {0};
  bool complex = tli_is_complex((tl_DType)input->dtype);
  tl_Tensor *t = chain_resized(&c, chain_numbers(&c, input, complex), &a, false);
  tl_Ints dims = {a.n, a.dim};
  int64_t sign = inverse ? 1 : -1;
  return tli_chain_end(&c, TLI_STEP(&c, complex ? tlo_fft_c2c(t, dims, sign, a.scale)
                                                : tlo_fft_real(t, dims, sign, a.scale)));
}

static bool check_some(const Axes *a) {
  return a->n > 0 || tli_fail(TL_ESHAPE, "%s: dim: expected at least one dimension", a->op);
}

/* Implements the functions of the rfft family. The last dimension is transformed first, then the
** others. The inverse transform of a real signal is the conjugate of its transform. */
static tl_Tensor *r2c(const char *op, tl_Tensor *input, tl_Ints s, tl_Ints dim, const char *norm,
                      bool inverse) {
  Axes a;
  TL_TRY_NULL(read_axes(&a, op, input, s, dim, norm, inverse, false) && check_some(&a));
  tli_Chain c = {0};
  tl_Tensor *t = chain_resized(&c, chain_numbers(&c, input, false), &a, false);
  t = TLI_STEP(&c, tlo_fft_r2c(t, (tl_Ints){a.n, a.dim}, a.scale));
  if (inverse) t = TLI_STEP(&c, tlo_conj(t));
  return tli_chain_end(&c, t);
}

/* Implements the functions of the irfft family. The last dimension is transformed after all
** others. The transform to a real signal is the inverse transform of the conjugate. */
static tl_Tensor *c2r(const char *op, tl_Tensor *input, tl_Ints s, tl_Ints dim, const char *norm,
                      bool inverse) {
  Axes a;
  TL_TRY_NULL(read_axes(&a, op, input, s, dim, norm, inverse, true) && check_some(&a));
  tli_Chain c = {0};
  tl_Tensor *t = chain_resized(&c, chain_numbers(&c, input, true), &a, true);
  if (!inverse) t = TLI_STEP(&c, tlo_conj(t));
  tl_Ints dims = {a.n, a.dim};
  return tli_chain_end(&c, TLI_STEP(&c, tlo_fft_c2r(t, dims, a.size[a.n - 1], a.scale)));
}

/* Defines the three functions of a transform: along one dimension, along two and along several. */
#define FORMS(name, function, inverse)                                                        \
  tl_Tensor *tlo_fft_##name(tl_Tensor *input, int64_t n, int64_t dim, const char *norm) {     \
    tl_Ints s = n == TLI_NOINT ? TLI_NOINTS : (tl_Ints){1, &n};                               \
    if (n != TLI_NOINT && n < 1)                                                              \
      return tli_fail_null(TL_EARG, "fft." #name ": n: expected at least 1, got %lld",        \
                           (long long)n);                                                     \
    return function("fft." #name, input, s, (tl_Ints){1, &dim}, norm, inverse);               \
  }                                                                                           \
  tl_Tensor *tlo_fft_##name##2(tl_Tensor * input, tl_Ints s, tl_Ints dim, const char *norm) { \
    return function("fft." #name "2", input, s, dim, norm, inverse);                          \
  }                                                                                           \
  tl_Tensor *tlo_fft_##name##n(tl_Tensor *input, tl_Ints s, tl_Ints dim, const char *norm) {  \
    return function("fft." #name "n", input, s, dim, norm, inverse);                          \
  }

FORMS(fft, c2c, false)
FORMS(ifft, c2c, true)
FORMS(rfft, r2c, false)
FORMS(irfft, c2r, true)
FORMS(hfft, c2r, false)
FORMS(ihfft, r2c, true)

/* ---- frequencies ---- */

/* Returns the frequencies of n samples that are a distance d apart: the nonnegative ones 0, 1, ...,
** followed by the negative ones up to -1, all divided by n * d. If `half` is set, returns only
** 0, 1, ..., n / 2, divided by n * d. */
static tl_Tensor *frequencies(const char *op, int64_t n, double d, tl_DType dtype, tl_Device device,
                              bool half) {
  if (n < 1)
    return tli_fail_null(TL_EARG, "%s: n: expected at least 1, got %lld", op, (long long)n);
  if (dtype == TL_NODTYPE) dtype = tli_default_dtype();
  if (!tli_is_float(dtype))
    return tli_fail_null(TL_EDTYPE, "%s: dtype: expected a floating type, got %s", op,
                         tl_dtype_name(dtype));
  tli_Chain c = {0};
  int64_t stop = half ? n / 2 + 1 : (n + 1) / 2;
  tl_Tensor *t = TLI_STEP(&c, tlo_arange(tli_int(0), tli_int(stop), tli_int(1), TL_I64, device));
  if (!half) {
    tl_Tensor *minus =
        TLI_STEP(&c, tlo_arange(tli_int(-(n / 2)), tli_int(0), tli_int(1), TL_I64, device));
    t = chain_cat(&c, t, minus, 0);
  }
  t = chain_to(&c, t, TL_F64);
  t = chain_to(&c, chain_with(&c, tlo_mul, t, 1 / ((double)n * d)), dtype);
  return tli_chain_end(&c, t);
}

tl_Tensor *tlo_fft_fftfreq(int64_t n, double d, tl_DType dtype, tl_Device device) {
  return frequencies("fft.fftfreq", n, d, dtype, device, false);
}

tl_Tensor *tlo_fft_rfftfreq(int64_t n, double d, tl_DType dtype, tl_Device device) {
  return frequencies("fft.rfftfreq", n, d, dtype, device, true);
}

/* Rolls each listed dimension by half of its size. Odd sizes are rounded up if `up` is true, and
** down otherwise. */
static tl_Tensor *shifted(const char *op, tl_Tensor *input, tl_Ints dim, bool up) {
  bool marked[TL_MAX_DIMS];
  int64_t dims[TL_MAX_DIMS], shifts[TL_MAX_DIMS], n = 0;
  TL_TRY_NULL(tli_mark_dims(op, dim, input->ndim, marked));
  for (int d = 0; d < input->ndim; d++)
    if (marked[d]) {
      dims[n] = d;
      shifts[n++] = (input->sizes[d] + (up ? 1 : 0)) / 2;
    }
  if (n == 0) return tlo_clone(input);
  return tlo_roll(input, (tl_Ints){n, shifts}, (tl_Ints){n, dims});
}

tl_Tensor *tlo_fft_fftshift(tl_Tensor *input, tl_Ints dim) {
  return shifted("fft.fftshift", input, dim, false);
}

tl_Tensor *tlo_fft_ifftshift(tl_Tensor *input, tl_Ints dim) {
  return shifted("fft.ifftshift", input, dim, true);
}
