/*
** resample.c - images at another resolution. Interpolation goes one dimension
** at a time: every output element is the sum of a few input elements ("taps")
** of that dimension times weights that depend on its place alone.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

/* ---- resolution and channels ---- */

/* Sizes (B, sizes[1], ...) of a tensor whose first dimensions are B. */
static tl_Tensor *rearranged(tl_Tensor *self, const int64_t inner[6], const int64_t order[6],
                             int last, const int64_t *shape) {
  tli_Chain c = {0};
  tl_Tensor *apart = TLI_STEP(&c, tlo_reshape(self, (tl_Ints){last, inner}));
  tl_Tensor *turned = TLI_STEP(&c, tlo_permute(apart, (tl_Ints){last, order}));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_reshape(turned, (tl_Ints){self->ndim, shape})));
}

static bool check_shuffle(const char *op, const tl_Tensor *input, int64_t factor) {
  if (input->ndim < 3)
    return tli_fail(TL_ESHAPE, "%s: expected (..., C, H, W), got %s", op, tli_sizes_str(input));
  if (factor >= 1 && factor <= INT32_MAX) return true;
  return tli_fail(TL_EARG, "%s: expected a factor of at least 1, got %" PRId64, op, factor);
}

/* Fills shape with the sizes of input, returns how many images there are. */
static int64_t leading(const tl_Tensor *input, int64_t *shape) {
  int64_t n = 1;
  for (int d = 0; d < input->ndim; d++) shape[d] = input->sizes[d];
  for (int d = 0; d < input->ndim - 3; d++) n *= shape[d];
  return n;
}

tl_Tensor *tlo_pixel_shuffle(tl_Tensor *input, int64_t upscale_factor) {
  TL_TRY_NULL(check_shuffle("pixel_shuffle", input, upscale_factor));
  int64_t shape[TL_MAX_DIMS], r = upscale_factor;
  int64_t n = leading(input, shape), *s = shape + input->ndim - 3;
  if (s[0] % (r * r) != 0)
    return tli_fail_null(TL_ESHAPE,
                         "pixel_shuffle: expected a multiple of %" PRId64 " channels, got %" PRId64,
                         r * r, s[0]);
  s[0] /= r * r;
  const int64_t inner[6] = {n, s[0], r, r, s[1], s[2]};
  s[1] *= r;
  s[2] *= r;
  return rearranged(input, inner, (int64_t[]){0, 1, 4, 2, 5, 3}, 6, shape);
}

tl_Tensor *tlo_pixel_unshuffle(tl_Tensor *input, int64_t downscale_factor) {
  TL_TRY_NULL(check_shuffle("pixel_unshuffle", input, downscale_factor));
  int64_t shape[TL_MAX_DIMS], r = downscale_factor;
  int64_t n = leading(input, shape), *s = shape + input->ndim - 3;
  if (s[1] % r != 0 || s[2] % r != 0)
    return tli_fail_null(TL_ESHAPE,
                         "pixel_unshuffle: expected images with sizes that are "
                         "multiples of %" PRId64 ", got %s",
                         r, tli_sizes_str(input));
  s[1] /= r;
  s[2] /= r;
  const int64_t inner[6] = {n, s[0], s[1], r, s[2], r};
  s[0] *= r * r;
  return rearranged(input, inner, (int64_t[]){0, 1, 3, 5, 2, 4}, 6, shape);
}

tl_Tensor *tlo_channel_shuffle(tl_Tensor *input, int64_t groups) {
  if (input->ndim < 3)
    return tli_fail_null(TL_ESHAPE, "channel_shuffle: expected (N, C, ...), got %s",
                         tli_sizes_str(input));
  if (groups < 1 || input->sizes[1] % groups != 0)
    return tli_fail_null(TL_EARG,
                         "channel_shuffle: groups: expected a divisor of %" PRId64
                         " channels, got %" PRId64,
                         input->sizes[1], groups);
  int64_t rest = 1;
  for (int d = 2; d < input->ndim; d++) rest *= input->sizes[d];
  const int64_t inner[6] = {input->sizes[0], groups, input->sizes[1] / groups, rest};
  return rearranged(input, inner, (int64_t[6]){0, 2, 1, 3}, 4, input->sizes);
}

/* ---- one dimension at another resolution ---- */

typedef enum Mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, AREA } Mode;

enum { MOST_TAPS = 4 };

/* A dimension: `in` elements become `out`; one step of the output is `step` of
** the input. */
typedef struct Axis {
  int64_t in, out;
  double step;
  bool exact; /* step is in / out */
  bool align_corners;
} Axis;

static int64_t clip(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

/* In integers where it can be: floor(i * in / out) has no rounding then. */
static int64_t nearest(const Axis *a, int64_t i, bool centre) {
  double place = centre ? (double)i + 0.5 : (double)i;
  if (!a->exact) return clip((int64_t)floor(place * a->step), a->in);
  return clip((centre ? 2 * i + 1 : 2 * i) * a->in / (2 * a->out), a->in);
}

/* The weights of four neighbours, the second of which lies t before the place:
** Keys' cubic convolution with a = -3/4. */
static void cubic_weights(double t, double weights[4]) {
  const double a = -0.75;
  for (int k = 0; k < 4; k++) {
    double x = fabs(t - (k - 1));
    weights[k] = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((x - 5) * x + 8) * a * x - 4 * a;
  }
}

/* Output element i: the positions, from 0, of its taps, and their weights.
** Returns how many taps there are, the same for every i. */
static int taps_of(const Axis *a, Mode mode, int64_t i, int64_t at[MOST_TAPS],
                   double weights[MOST_TAPS]) {
  weights[0] = 1;
  if (mode == NEAREST || mode == NEAREST_EXACT) {
    at[0] = nearest(a, i, mode == NEAREST_EXACT);
    return 1;
  }
  double place = a->align_corners ? a->step * (double)i : a->step * ((double)i + 0.5) - 0.5;
  if (mode == LINEAR && place < 0) place = 0;
  int64_t first = (int64_t)floor(place);
  double t = place - (double)first;
  if (mode == LINEAR) {
    at[0] = clip(first, a->in);
    at[1] = clip(first + 1, a->in);
    weights[0] = 1 - t;
    weights[1] = t;
    return 2;
  }
  for (int k = 0; k < 4; k++) at[k] = clip(first - 1 + k, a->in);
  cubic_weights(t, weights);
  return 4;
}

/* Positions (out), from 1, and weights of tap k of all output elements; the
** weights have sizes that broadcast along dimension d. */
static bool tap_tensors(tli_Chain *c, tl_Tensor *self, int d, const Axis *a, Mode mode, int k,
                        tl_Tensor **positions, tl_Tensor **weights) {
  int64_t sizes[TL_MAX_DIMS];
  for (int e = d; e < self->ndim; e++) sizes[e - d] = e == d ? a->out : 1;
  tl_Tensor *at = TLI_STEP(c, tli_new("interpolate", (tl_Ints){1, sizes}, TL_I64, TLI_CPU));
  tl_Tensor *weight =
      TLI_STEP(c, tli_new("interpolate", (tl_Ints){self->ndim - d, sizes}, TL_F64, TLI_CPU));
  if (weight == NULL) return false;
  for (int64_t i = 0; i < a->out; i++) {
    int64_t places[MOST_TAPS];
    double shares[MOST_TAPS];
    taps_of(a, mode, i, places, shares);
    ((int64_t *)tli_data(at))[i] = places[k] + 1;
    ((double *)tli_data(weight))[i] = shares[k];
  }
  *positions = TLI_STEP(c, tlo_to_device(at, tli_device(self), TL_NODTYPE, false, false));
  *weights =
      TLI_STEP(c, tlo_to_device(weight, tli_device(self), (tl_DType)self->dtype, false, false));
  return !c->failed;
}

static tl_Tensor *resize_dim(tl_Tensor *self, int d, const Axis *a, Mode mode) {
  tli_Chain c = {0};
  tl_Tensor *sum = NULL;
  int ntaps = mode == LINEAR ? 2 : mode == CUBIC ? 4 : 1;
  for (int k = 0; k < ntaps; k++) {
    tl_Tensor *positions, *weights;
    if (!tap_tensors(&c, self, d, a, mode, k, &positions, &weights)) break;
    tl_Tensor *tap = TLI_STEP(&c, tlo_index_select(self, d, positions));
    if (ntaps == 1)
      sum = tap;
    else if (k == 0)
      sum = chain_mul(&c, tap, weights);
    else
      sum = TLI_STEP(&c, tlo_addcmul(sum, tap, weights, tli_int(1)));
  }
  return tli_chain_end(&c, sum);
}

/* ---- options ---- */

static bool find_mode(const char *name, int spatial, Mode *mode) {
  static const struct {
    const char *name;
    Mode mode;
    int spatial;
  } modes[] = {
      {"nearest", NEAREST, 0}, {"nearest-exact", NEAREST_EXACT, 0},
      {"area", AREA, 0},       {"linear", LINEAR, 1},
      {"bilinear", LINEAR, 2}, {"trilinear", LINEAR, 3},
      {"bicubic", CUBIC, 2},
  };
  for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
    if (strcmp(modes[k].name, name) != 0) continue;
    if (modes[k].spatial && modes[k].spatial != spatial)
      return tli_fail(TL_EARG, "interpolate: mode '%s' is for inputs of %d dimensions, got %d",
                      name, modes[k].spatial + 2, spatial + 2);
    *mode = modes[k].mode;
    return true;
  }
  return tli_fail(TL_EARG,
                  "interpolate: mode: expected 'nearest', 'nearest-exact', 'area', "
                  "'linear', 'bilinear', 'bicubic' or 'trilinear', got '%s'",
                  name);
}

static bool check_count(const char *what, int64_t n, int spatial) {
  if (n == 1 || n == spatial) return true;
  return tli_fail(TL_EARG, "interpolate: %s: expected 1 or %d numbers, got %" PRId64, what, spatial,
                  n);
}

static bool scaled_size(int64_t in, double scale, int64_t *out) {
  double size = floor((double)in * scale);
  if (!(scale > 0 && size < (double)INT32_MAX))
    return tli_fail(TL_EARG, "interpolate: scale_factor: expected a positive number, got %g",
                    scale);
  *out = (int64_t)size;
  return true;
}

/* Step of the input for one of the output. */
static double step_of(const Axis *a, bool has_scale, double scale) {
  if (a->align_corners) return a->out > 1 ? (double)(a->in - 1) / (double)(a->out - 1) : 0;
  return has_scale ? 1 / scale : (double)a->in / (double)a->out;
}

static bool find_axes(const tl_Tensor *input, tl_Ints size, tl_Floats scale, bool align_corners,
                      bool recompute, Axis *axes) {
  int spatial = input->ndim - 2;
  if ((size.v == NULL) == (scale.v == NULL))
    return tli_fail(TL_EARG, "interpolate: expected one of size and scale_factor");
  if (size.v && recompute)
    return tli_fail(TL_EARG, "interpolate: recompute_scale_factor needs scale_factor");
  TL_TRY(size.v ? check_count("size", size.n, spatial)
                : check_count("scale_factor", scale.n, spatial));
  for (int d = 0; d < spatial; d++) {
    Axis *a = &axes[d];
    *a = (Axis){.in = input->sizes[d + 2], .align_corners = align_corners};
    double factor = scale.v ? scale.v[scale.n == 1 ? 0 : d] : 0;
    if (size.v)
      a->out = size.v[size.n == 1 ? 0 : d];
    else
      TL_TRY(scaled_size(a->in, factor, &a->out));
    if (a->in < 1 || a->out < 1 || a->out > INT32_MAX)
      return tli_fail(TL_ESHAPE,
                      "interpolate: dimension " TLI_POS ": expected sizes of at least "
                      "1, got %" PRId64 " to become %" PRId64,
                      (int64_t)d + 2, a->in, a->out);
    a->exact = size.v != NULL || recompute;
    a->step = step_of(a, !a->exact, factor);
  }
  return true;
}

/* ---- all dimensions ---- */

static tl_Tensor *resize_by_area(tl_Tensor *input, const Axis *axes) {
  int64_t size[3];
  for (int d = 0; d < input->ndim - 2; d++) size[d] = axes[d].out;
  switch (input->ndim) {
  case 3: return tlo_adaptive_avg_pool1d(input, (tl_Ints){1, size});
  case 4: return tlo_adaptive_avg_pool2d(input, (tl_Ints){2, size});
  default: return tlo_adaptive_avg_pool3d(input, (tl_Ints){3, size});
  }
}

/* uint8 between two dimensions: rounded and cut off, as PyTorch's images are. */
static tl_Tensor *chain_bytes(tli_Chain *c, tl_Tensor *t) {
  tl_Tensor *above = chain_add(c, t, chain_number(c, 0.5));
  return chain_clamp(c, TLI_STEP(c, tlo_floor(above)), 0, UINT8_MAX);
}

/* The half types and uint8 are summed in float32, a dimension that keeps all
** its places is left alone. */
static tl_Tensor *resize(tl_Tensor *input, const Axis *axes, Mode mode) {
  tli_Chain c = {0};
  bool sums = mode != NEAREST && mode != NEAREST_EXACT, bytes = sums && input->dtype == TL_U8;
  bool half = bytes || (sums && tli_dtype_bytes[input->dtype] == 2);
  int n = input->ndim - 2;
  tl_Tensor *result = half ? TLI_STEP(&c, tlo_to_dtype(input, TL_F32)) : input;
  for (int k = 0; k < n; k++) {
    int d = bytes ? n - 1 - k : k; /* what is rounded goes by columns first */
    const Axis *a = &axes[d];
    if (a->in == a->out && (a->exact || a->align_corners)) continue;
    result = TLI_STEP(&c, resize_dim(result, d + 2, a, mode));
    if (bytes) result = chain_bytes(&c, result);
  }
  if (half) result = TLI_STEP(&c, tlo_to_dtype(result, (tl_DType)input->dtype));
  return tli_chain_end(&c, result);
}

tl_Tensor *tlo_interpolate(tl_Tensor *input, tl_Ints size, tl_Floats scale_factor, const char *mode,
                           bool align_corners, bool recompute_scale_factor) {
  Mode m = NEAREST;
  Axis axes[3];
  if (input->ndim < 3 || input->ndim > 5)
    return tli_fail_null(TL_ESHAPE,
                         "interpolate: expected (N, C, L), (N, C, H, W) or "
                         "(N, C, D, H, W), got %s",
                         tli_sizes_str(input));
  TL_TRY_NULL(find_mode(mode, input->ndim - 2, &m));
  bool smooth = m == LINEAR || m == CUBIC;
  if (align_corners && !smooth)
    return tli_fail_null(TL_EARG, "interpolate: align_corners has no meaning in mode '%s'", mode);
  if (smooth && !tli_is_float((tl_DType)input->dtype) && input->dtype != TL_U8)
    return tli_fail_null(TL_EDTYPE,
                         "interpolate: mode '%s' needs a floating or uint8 input, got %s", mode,
                         tl_dtype_name((tl_DType)input->dtype));
  TL_TRY_NULL(find_axes(input, size, scale_factor, align_corners, recompute_scale_factor, axes));
  return m == AREA ? resize_by_area(input, axes) : resize(input, axes, m);
}
