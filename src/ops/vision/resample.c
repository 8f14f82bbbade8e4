/*
** resample.c - resizing images. Interpolation processes one dimension at a time. Each output
** element is a weighted sum of a few input elements ("taps") of that dimension. The weights depend
** only on the position of the output element.
*/
#include <math.h>
#include <string.h>

#include "core/kernel/elementary.h"
#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* ---- resampling one dimension ---- */

/* Modes of interpolation. In the last three modes the filter becomes wider as the step grows, so no
** input element is skipped. */
typedef enum Mode {
  NEAREST,
  NEAREST_EXACT,
  LINEAR,
  CUBIC,
  AREA,
  LINEAR_ANTIALIAS,
  CUBIC_ANTIALIAS,
  LANCZOS,
} Mode;

enum { MOST_TAPS = 4 };

/* Describes how a dimension is resampled: from `in` to `out` elements. Neighbouring output elements
** are `step` input elements apart. */
typedef struct Axis {
  int64_t in, out;
  double step;
  bool exact; /* whether `step` is exactly in / out */
  bool align_corners;
} Axis;

static int64_t clip(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

/* Returns the index of the nearest input element. It is computed in float32 as in PyTorch, so that
** rounding errors lead to the same element. Longer dimensions than float32 can count are computed
** in float64. */
static int64_t nearest(const Axis *a, int64_t i, bool centre) {
  double place = centre ? (double)i + 0.5 : (double)i;
  if (a->in > 1 << 23 || a->out > 1 << 23) return clip((int64_t)floor(place * a->step), a->in);
  float step = a->exact ? (float)a->in / (float)a->out : (float)a->step;
  return clip((int64_t)floorf((float)place * step), a->in);
}

/* Computes the weights of four neighbours by Keys' cubic convolution with a = -3/4. The position
** lies at distance t behind the second neighbour. */
static void cubic_weights(double t, double weights[4]) {
  const double a = -0.75;
  for (int k = 0; k < 4; k++) {
    double x = fabs(t - (k - 1));
    weights[k] = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((x - 5) * x + 8) * a * x - 4 * a;
  }
}

/* Computes the taps of output element i in a mode without antialiasing: taps_in(mode) positions,
** counted from 0, and their weights. */
static void taps_of(const Axis *a, Mode mode, int64_t i, int64_t at[MOST_TAPS],
                    double weights[MOST_TAPS]) {
  weights[0] = 1;
  if (mode == NEAREST || mode == NEAREST_EXACT) {
    at[0] = nearest(a, i, mode == NEAREST_EXACT);
    return;
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
    return;
  }
  for (int k = 0; k < 4; k++) at[k] = clip(first - 1 + k, a->in);
  cubic_weights(t, weights);
}

/* ---- antialiasing ---- */

/* Each function returns the weight of an element at distance x. The functions are a triangle, Keys'
** cubic with a = -1/2, and a sinc in a Lanczos window. Each of them is 0 beyond its radius. */
static double triangle(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

static double keys(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x >= 2) return 0;
  return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : (((x - 5) * x + 8) * x - 4) * a;
}

static double sinc(double x) {
  const double pi = 3.14159265358979323846;
  return x == 0 ? 1 : tli_sin(pi * x) / (pi * x);
}

static double lanczos(double x) { return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }

typedef struct Filter {
  double (*weight)(double x);
  double radius;
} Filter;

/* Returns the filter of a mode, or NULL for a mode without antialiasing. */
static const Filter *filter_of(Mode mode) {
  static const Filter filters[] = {{triangle, 1}, {keys, 2}, {lanczos, 3}};
  return mode >= LINEAR_ANTIALIAS ? &filters[mode - LINEAR_ANTIALIAS] : NULL;
}

/* Returns the number of taps of output element i, and sets *first to the position of the first tap.
** If a step is longer than one input element, the filter becomes wider, and its radius counts steps
** instead of elements. */
static int64_t filter_span(const Axis *a, const Filter *f, int64_t i, int64_t *first) {
  double centre = a->step * ((double)i + 0.5), reach = f->radius * fmax(a->step, 1);
  double begin = centre - reach + 0.5, end = centre + reach + 0.5;
  *first = begin > 0 ? (int64_t)begin : 0;
  return (end < (double)a->in ? (int64_t)end : a->in) - *first;
}

/* Computes the weights of the n taps of output element i. The sum of the weights is 1. */
static void filter_weights(const Axis *a, const Filter *f, int64_t i, int64_t first, int64_t n,
                           double *weights) {
  double centre = a->step * ((double)i + 0.5), narrow = 1 / fmax(a->step, 1), total = 0;
  for (int64_t k = 0; k < n; k++)
    total += weights[k] = f->weight(((double)(first + k) - centre + 0.5) * narrow);
  for (int64_t k = 0; k < n; k++) weights[k] /= total;
}

/* ---- sums of taps ---- */

/* The kernel's tables, in one block of memory. Each of the `terms` taps has an entry in `weights`,
** and in `at` the position of the input element that it reads. Element i has the taps from first[i]
** up to, but not including, first[i + 1]. */
typedef struct Sums {
  int64_t n, terms;
  int32_t *first, *at;
  double *weights; /* owned */
} Sums;

static size_t sums_bytes(int64_t n, int64_t terms) {
  return (size_t)terms * (sizeof(double) + sizeof(int32_t)) + (size_t)(n + 1) * sizeof(int32_t);
}

static bool sums_new(Sums *s, int64_t n, int64_t terms) {
  if (terms > INT32_MAX)
    return tli_fail(TL_ESHAPE, "interpolate: expected sizes of less than 2^29, got %" PRId64, n);
  *s = (Sums){.n = n, .terms = terms, .weights = tli_alloc(sums_bytes(n, terms))};
  if (s->weights == NULL) return false;
  s->at = (int32_t *)(void *)(s->weights + terms);
  s->first = s->at + terms;
  return true;
}

static void sums_free(Sums *s) { tli_free(s->weights, sums_bytes(s->n, s->terms)); }

/* Returns the number of taps of each output element, or 0 if the elements have different numbers of
** taps. */
static int taps_in(Mode mode) {
  if (filter_of(mode)) return 0;
  return mode == LINEAR ? 2 : mode == CUBIC ? 4 : 1;
}

static bool filter_sums(const Axis *a, const Filter *f, Sums *s) {
  int64_t terms = 0, first;
  for (int64_t i = 0; i < a->out; i++) terms += filter_span(a, f, i, &first);
  TL_TRY(sums_new(s, a->out, terms));
  int64_t t = 0;
  for (int64_t i = 0; i < a->out; i++) {
    s->first[i] = (int32_t)t;
    int64_t n = filter_span(a, f, i, &first);
    filter_weights(a, f, i, first, n, s->weights + t);
    for (int64_t k = 0; k < n; k++) s->at[t + k] = (int32_t)(first + k);
    t += n;
  }
  s->first[a->out] = (int32_t)t;
  return true;
}

static bool forward_sums(const Axis *a, Mode mode, Sums *s) {
  const Filter *filter = filter_of(mode);
  if (filter) return filter_sums(a, filter, s);
  int taps = taps_in(mode);
  TL_TRY(sums_new(s, a->out, a->out * taps));
  for (int64_t i = 0; i < a->out; i++) {
    int64_t places[MOST_TAPS];
    taps_of(a, mode, i, places, s->weights + i * taps);
    for (int k = 0; k < taps; k++) s->at[i * taps + k] = (int32_t)places[k];
    s->first[i] = (int32_t)(i * taps);
  }
  s->first[a->out] = (int32_t)(a->out * taps);
  return true;
}

/* Computes the transposed tables. They list, for each input element, the output elements that have
** this input element as a tap. */
static bool backward_sums(const Axis *a, Mode mode, Sums *s) {
  Sums f = {0};
  TL_TRY(forward_sums(a, mode, &f));
  bool ok = sums_new(s, a->in, f.terms);
  if (ok) {
    memset(s->first, 0, (size_t)(a->in + 1) * sizeof *s->first);
    for (int64_t t = 0; t < f.terms; t++) s->first[f.at[t] + 1]++;
    for (int64_t i = 0; i < a->in; i++) s->first[i + 1] += s->first[i];
    for (int64_t i = 0; i < a->out; i++)
      for (int32_t t = f.first[i]; t < f.first[i + 1]; t++) {
        /* each new entry increments first[k], which in the end equals the original first[k + 1] */
        int32_t to = s->first[f.at[t]]++;
        s->at[to] = (int32_t)i;
        s->weights[to] = f.weights[t];
      }
    memmove(s->first + 1, s->first, (size_t)a->in * sizeof *s->first);
    s->first[0] = 0;
  }
  sums_free(&f);
  return ok;
}

static Axis axis_of(int64_t in, int64_t out, double step, bool exact, bool align_corners) {
  return (Axis){in, out, step, exact, align_corners};
}

/* Copies the tables to the memory of a device. *block receives the tensor that owns this memory.
** For the CPU nothing is copied. */
static bool sums_on(tl_Device device, const Sums *s, Sums *there, tl_Tensor **block) {
  *there = *s;
  *block = NULL;
  if (device.type == TL_CPU) return true;
  int64_t bytes = (int64_t)sums_bytes(s->n, s->terms);
  *block = tli_upload(TL_U8, device, 1, &bytes, s->weights);
  if (*block == NULL) return false;
  there->weights = tli_data(*block);
  there->at = (int32_t *)(void *)(there->weights + s->terms);
  there->first = there->at + s->terms;
  return true;
}

static tl_Tensor *run_sums(tl_Tensor *self, int64_t dim, const Sums *sums, int64_t terms) {
  Sums there, *s = &there;
  tl_Tensor *block;
  TL_TRY_NULL(sums_on(tli_device(self), sums, s, &block));
  int64_t sizes[TL_MAX_DIMS];
  memcpy(sizes, self->sizes, (size_t)self->ndim * sizeof *sizes);
  sizes[dim] = s->n;
  tl_Tensor *in = tli_contiguous_as(self, (tl_DType)self->dtype);
  tl_Tensor *out =
      in ? tli_empty((tl_DType)self->dtype, tli_device(self), self->ndim, sizes) : NULL;
  tlk_Resample r = {.outer = 1,
                    .in = self->sizes[dim],
                    .out = s->n,
                    .inner = 1,
                    .terms = terms,
                    .first = s->first,
                    .at = s->at,
                    .weights = s->weights};
  for (int d = 0; d < self->ndim; d++)
    if (d != dim) *(d < dim ? &r.outer : &r.inner) *= sizes[d];
  bool ok = out && (out->numel == 0 || TLI_RUN(tli_device(self), resample, .resample = r,
                                               .out = tli_array(out), .in = tli_array(in)));
  tli_release(block);
  tli_release(in);
  if (ok) return out;
  tli_release(out);
  return NULL;
}

/* Resamples dimension `dim` of self to size[dim]. self is float32, float64 or, in a mode with
** antialiasing, uint8. */
tl_Tensor *tli_op_resample(tl_Tensor *self, int64_t dim, tl_Ints size, int64_t mode, double step,
                           bool exact, bool align_corners) {
  Axis a = axis_of(self->sizes[dim], size.v[dim], step, exact, align_corners);
  Sums s = {0};
  TL_TRY_NULL(forward_sums(&a, (Mode)mode, &s));
  tl_Tensor *result = run_sums(self, dim, &s, taps_in((Mode)mode));
  sums_free(&s);
  return result;
}

/* Computes the transpose of the linear map tli_op_resample: from the resampled size back to
** size[dim]. */
tl_Tensor *tli_op_resample_spread(tl_Tensor *self, int64_t dim, tl_Ints size, int64_t mode,
                                  double step, bool exact, bool align_corners) {
  Axis a = axis_of(size.v[dim], self->sizes[dim], step, exact, align_corners);
  Sums s = {0};
  TL_TRY_NULL(backward_sums(&a, (Mode)mode, &s));
  tl_Tensor *result = run_sums(self, dim, &s, 0);
  sums_free(&s);
  return result;
}

/* Resamples along d by selecting the nearest elements. Nothing is summed, so all dtypes are
** supported. */
static tl_Tensor *take_nearest(tl_Tensor *self, int d, const Axis *a, Mode mode) {
  tli_Chain c = {0};
  tl_Tensor *at = TLI_STEP(&c, tli_new("interpolate", (tl_Ints){1, &a->out}, TL_I64, TLI_CPU));
  if (at)
    for (int64_t i = 0; i < a->out; i++)
      ((int64_t *)tli_data(at))[i] = nearest(a, i, mode == NEAREST_EXACT) + 1;
  tl_Tensor *there =
      TLI_STEP(&c, tlo_to_device(at, tli_device(self), TL_NODTYPE, false, false, NULL));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_index_select(self, d, there)));
}

static tl_Tensor *resize_dim(tl_Tensor *self, int d, const Axis *a, Mode mode) {
  if (self->dtype != TL_F32 && self->dtype != TL_F64 && !filter_of(mode))
    return take_nearest(self, d, a, mode);
  int64_t sizes[TL_MAX_DIMS];
  memcpy(sizes, self->sizes, (size_t)self->ndim * sizeof *sizes);
  sizes[d] = a->out;
  return tlo_resample(self, d, (tl_Ints){self->ndim, sizes}, (int64_t)mode, a->step, a->exact,
                      a->align_corners);
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
      {"bicubic", CUBIC, 2},   {"lanczos", LANCZOS, 2},
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
                  "'linear', 'bilinear', 'bicubic', 'trilinear' or 'lanczos', got '%s'",
                  name);
}

/* Replaces *mode by its variant with antialiasing. */
static bool antialias_mode(const char *name, int spatial, bool antialias, Mode *mode) {
  if (*mode == LANCZOS && !antialias)
    return tli_fail(TL_EARG, "interpolate: mode 'lanczos' needs antialias");
  if (!antialias || *mode == LANCZOS) return true;
  if (spatial != 2 || (*mode != LINEAR && *mode != CUBIC))
    return tli_fail(TL_EARG,
                    "interpolate: antialias: expected mode 'bilinear', 'bicubic' or 'lanczos', "
                    "got '%s'",
                    name);
  *mode = *mode == LINEAR ? LINEAR_ANTIALIAS : CUBIC_ANTIALIAS;
  return true;
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

/* Returns the step: the distance between neighbouring output elements, measured in input
** elements. */
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

/* Rounds and clamps the values of uint8 images. As in PyTorch, this happens after each dimension is
** resampled. */
static tl_Tensor *chain_bytes(tli_Chain *c, tl_Tensor *t) {
  tl_Tensor *above = chain_add(c, t, chain_number(c, 0.5));
  return chain_clamp(c, TLI_STEP(c, tlo_floor(above)), 0, UINT8_MAX);
}

/* Returns whether the last dimension is resampled first. This is cheaper if the other dimensions
** grow, because the last dimension then has fewer rows. uint8 images, which are rounded after each
** dimension, always begin with the last dimension. */
static bool last_first(const Axis *axes, int n) {
  double growth = 1;
  for (int d = 0; d < n - 1; d++) growth *= (double)axes[d].out / (double)axes[d].in;
  return growth > 1;
}

/* Resizes images. Half types and uint8 are summed in float32, except that the CPU has integer sums
** for antialiased uint8. A dimension in which all positions stay the same is skipped. */
static tl_Tensor *resize(tl_Tensor *input, const Axis *axes, Mode mode) {
  tli_Chain c = {0};
  bool sums = mode != NEAREST && mode != NEAREST_EXACT, bytes = sums && input->dtype == TL_U8;
  bool integers = bytes && filter_of(mode) && tli_device(input).type != TL_CUDA;
  bool half = (bytes && !integers) || (sums && tli_dtype_bytes[input->dtype] == 2);
  int n = input->ndim - 2;
  bool backwards = bytes || last_first(axes, n);
  tl_Tensor *result = half ? TLI_STEP(&c, tlo_to_dtype(input, TL_F32)) : input;
  for (int k = 0; k < n; k++) {
    int d = backwards ? n - 1 - k : k;
    const Axis *a = &axes[d];
    if (a->in == a->out && (a->exact || a->align_corners)) continue;
    result = TLI_STEP(&c, resize_dim(result, d + 2, a, mode));
    if (bytes && !integers) result = chain_bytes(&c, result);
  }
  if (half) result = TLI_STEP(&c, tlo_to_dtype(result, (tl_DType)input->dtype));
  return tli_chain_end(&c, result);
}

/* Returns the name that PyTorch gives to the autograd node. */
static const char *title_of(Mode mode, int spatial) {
  switch (mode) {
  case NEAREST:
    return (const char *[]){"UpsampleNearest1D", "UpsampleNearest2D",
                            "UpsampleNearest3D"}[spatial - 1];
  case NEAREST_EXACT:
    return (const char *[]){"UpsampleNearestExact1D", "UpsampleNearestExact2D",
                            "UpsampleNearestExact3D"}[spatial - 1];
  case LINEAR:
    return (const char *[]){"UpsampleLinear1D", "UpsampleBilinear2D",
                            "UpsampleTrilinear3D"}[spatial - 1];
  case AREA:
    return (const char *[]){"Squeeze", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D"}[spatial - 1];
  case LINEAR_ANTIALIAS: return "UpsampleBilinear2DAa";
  case CUBIC_ANTIALIAS: return "UpsampleBicubic2DAa";
  case LANCZOS: return "UpsampleLanczos2DAa";
  default: return "UpsampleBicubic2D";
  }
}

tl_Tensor *tlo_interpolate(tl_Tensor *input, tl_Ints size, tl_Floats scale_factor, const char *mode,
                           bool align_corners, bool recompute_scale_factor, bool antialias) {
  Mode m = NEAREST;
  Axis axes[3];
  if (input->ndim < 3 || input->ndim > 5)
    return tli_fail_null(TL_ESHAPE,
                         "interpolate: expected (N, C, L), (N, C, H, W) or "
                         "(N, C, D, H, W), got %s",
                         tli_sizes_str(input));
  TL_TRY_NULL(find_mode(mode, input->ndim - 2, &m));
  TL_TRY_NULL(antialias_mode(mode, input->ndim - 2, antialias, &m));
  bool smooth = m == LINEAR || m == CUBIC || filter_of(m);
  if (align_corners && (!smooth || m == LANCZOS))
    return tli_fail_null(TL_EARG, "interpolate: align_corners has no meaning in mode '%s'", mode);
  if (smooth && !tli_is_float((tl_DType)input->dtype) && input->dtype != TL_U8)
    return tli_fail_null(TL_EDTYPE,
                         "interpolate: mode '%s' needs a floating or uint8 input, got %s", mode,
                         tl_dtype_name((tl_DType)input->dtype));
  TL_TRY_NULL(find_axes(input, size, scale_factor, align_corners, recompute_scale_factor, axes));
  uint64_t count = tli_node_count();
  tl_Tensor *result = m == AREA ? resize_by_area(input, axes) : resize(input, axes, m);
  result = tli_follow(result, input);
  tli_entitle(result, title_of(m, input->ndim - 2), count);
  return result;
}
