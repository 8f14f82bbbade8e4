/*
** grid_sample.c - resampling images at arbitrary coordinates: affine_grid, grid_sample. In each
** dimension a sample depends on a few elements ("taps"), whose weights depend on the coordinate.
** The computation is composed of operators, so that it also has derivatives with respect to the
** grid. If no derivative is recorded, a kernel computes the most frequent cases.
*/
#include <math.h>
#include <string.h>

#include "ops/chain.h"

/* ---- grids ---- */

/* Returns the coordinate, from -1 to 1, of element i of a dimension with n elements. */
static double place(int64_t i, int64_t n, bool align_corners) {
  if (!align_corners) return (double)(2 * i + 1) / (double)n - 1;
  return n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : 0;
}

/* Returns the coordinates of all elements of an image with n `sizes`, in row-major order: (product
** of sizes, n + 1). A row begins with the coordinate of the last dimension and ends with a 1. */
static tl_Tensor *all_places(int n, const int64_t *sizes, bool align_corners) {
  int64_t shape[2] = {1, n + 1};
  for (int d = 0; d < n; d++) shape[0] *= sizes[d];
  tl_Tensor *places = tli_new("affine_grid", (tl_Ints){2, shape}, TL_F64, TLI_CPU);
  if (places == NULL) return NULL;
  double *row = tli_data(places);
  for (int64_t i = 0; i < shape[0]; i++, row += n + 1) {
    int64_t rest = i;
    for (int k = 0; k < n; k++) {
      int64_t size = sizes[n - 1 - k];
      row[k] = place(rest % size, size, align_corners);
      rest /= size;
    }
    row[n] = 1;
  }
  return places;
}

tl_Tensor *tlo_affine_grid(tl_Tensor *theta, tl_Ints size, bool align_corners) {
  int n = (int)size.n - 2;
  if (n != 2 && n != 3)
    return tli_fail_null(TL_EARG,
                         "affine_grid: size: expected (N, C, H, W) or (N, C, D, H, W), "
                         "got %s",
                         tli_shape_str((int)size.n, size.v));
  if (!tli_is_float((tl_DType)theta->dtype))
    return tli_fail_null(TL_EDTYPE, "affine_grid: theta: expected a floating tensor, got %s",
                         tl_dtype_name((tl_DType)theta->dtype));
  if (theta->ndim != 3 || theta->sizes[0] != size.v[0] || theta->sizes[1] != n ||
      theta->sizes[2] != n + 1)
    return tli_fail_null(TL_ESHAPE, "affine_grid: theta: expected (%" PRId64 ", %d, %d), got %s",
                         size.v[0], n, n + 1, tli_sizes_str(theta));
  for (int d = 0; d < n + 2; d++)
    if (size.v[d] < 1)
      return tli_fail_null(TL_EARG, "affine_grid: size: expected numbers of at least 1, got %s",
                           tli_shape_str((int)size.n, size.v));
  TL_TRY_NULL(tli_check_sizes("affine_grid", size, TL_F64));
  int64_t shape[5] = {size.v[0]};
  memcpy(shape + 1, size.v + 2, (size_t)n * sizeof *shape);
  shape[n + 1] = n;
  tli_Chain c = {0};
  tl_Tensor *places = TLI_STEP(&c, all_places(n, size.v + 2, align_corners));
  places = TLI_STEP(
      &c, tlo_to_device(places, tli_device(theta), (tl_DType)theta->dtype, false, false, NULL));
  tl_Tensor *grid = chain_matmul(&c, places, chain_t(&c, theta));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_reshape(grid, (tl_Ints){n + 2, shape})));
}

/* ---- from grids to coordinates of the input ---- */

typedef enum Mode { NEAREST, LINEAR, CUBIC } Mode;
typedef enum Beyond { ZEROS, BORDER, REFLECTION } Beyond;

typedef struct Sampling {
  Mode mode;
  Beyond beyond;
  bool align_corners;
} Sampling;

/* Computes (x + shift) * factor. */
static tl_Tensor *affine(tli_Chain *c, tl_Tensor *x, double shift, double factor) {
  return chain_scale(c, chain_add(c, x, chain_number(c, shift)), factor);
}

/* Converts coordinates in the range -1 .. 1 to positions in the range 0 .. size - 1. Very distant
** coordinates are clamped, so that all later numbers are finite. */
static tl_Tensor *to_places(tli_Chain *c, tl_Tensor *x, int64_t size, bool align_corners) {
  const double far = 1e9;
  tl_Tensor *nan = TLI_STEP(c, tlo_isnan(x));
  tl_Tensor *known = TLI_STEP(c, tli_where_then(nan, tli_float(-1), x));
  tl_Tensor *near = chain_clamp(c, known, -far, far);
  double n = (double)size;
  if (align_corners) return affine(c, near, 1, (n - 1) / 2);
  return affine(c, chain_scale(c, chain_add(c, near, chain_number(c, 1)), n), -1, 0.5);
}

/* Clamps positions to the border of the image. Beyond the border the derivative is zero. */
static tl_Tensor *to_border(tli_Chain *c, tl_Tensor *x, int64_t size) {
  const double last = (double)(size - 1);
  tl_Tensor *before = chain_with(c, tlo_le, x, 0);
  tl_Tensor *behind = chain_with(c, tlo_ge, x, last);
  tl_Tensor *inside = TLI_STEP(c, tli_where_then(behind, tli_float(last), x));
  return TLI_STEP(c, tli_where_then(before, tli_float(0), inside));
}

/* Reflects positions at both ends of the input. With align_corners, the ends are the centres of the
** border elements, otherwise their outer edges. */
static tl_Tensor *to_mirrored(tli_Chain *c, tl_Tensor *x, int64_t size, bool align_corners) {
  double low = align_corners ? 0 : -0.5, span = (double)(align_corners ? size - 1 : size);
  if (span == 0) return chain_scale(c, x, 0);
  tl_Tensor *apart = chain_with(c, tli_minus, x, low);
  tl_Tensor *distance = TLI_STEP(c, tlo_abs(apart));
  tl_Tensor *spans = chain_scale(c, distance, 1 / span);
  tl_Tensor *flips = TLI_STEP(c, tlo_floor(spans));
  tl_Tensor *extra = chain_sub(c, distance, chain_scale(c, flips, span));
  tl_Tensor *odd = chain_with(c, tlo_remainder, flips, 2);
  tl_Tensor *back = chain_sub(c, chain_number(c, span), extra);
  tl_Tensor *is_odd = chain_with(c, tlo_eq, odd, 1);
  tl_Tensor *mirrored = TLI_STEP(c, tlo_where(is_odd, back, extra));
  return to_border(c, chain_add(c, mirrored, chain_number(c, low)), size);
}

static tl_Tensor *bring_inside(const Sampling *s, tl_Tensor *x, int64_t size) {
  tli_Chain c = {0};
  switch (s->beyond) {
  case BORDER: x = to_border(&c, x, size); break;
  case REFLECTION: x = to_mirrored(&c, x, size, s->align_corners); break;
  case ZEROS: break;
  }
  return tli_chain_end(&c, x);
}

/* ---- taps ---- */

enum { MOST_TAPS = 4 };

/* The taps of all samples along one dimension. Each tensor is (N, samples) and borrowed from a
** chain. */
typedef struct Taps {
  int n;
  tl_Tensor *at[MOST_TAPS];     /* position of the tap, int64 from 0, clamped to the input */
  tl_Tensor *inside[MOST_TAPS]; /* whether the tap is inside the input */
  tl_Tensor *weight[MOST_TAPS]; /* NULL: 1 */
} Taps;

/* Sets tap k of all samples to the positions x, which must be whole numbers. */
static void set_tap(tli_Chain *c, Taps *taps, int k, tl_Tensor *x, int64_t size,
                    tl_Tensor *weight) {
  tl_Tensor *bounded = chain_clamp(c, x, 0, (double)(size - 1));
  taps->inside[k] = TLI_STEP(c, tlo_eq(bounded, x));
  taps->at[k] = TLI_STEP(c, tlo_to_dtype(bounded, TL_I64));
  taps->weight[k] = weight;
}

/* Computes the weight of an element at distance t <= 1 by Keys' cubic convolution with a = -3/4. */
static tl_Tensor *cubic_near(tl_Tensor *t) {
  const double a = -0.75;
  tli_Chain c = {0};
  tl_Tensor *slope = affine(&c, t, -(a + 3) / (a + 2), a + 2);
  tl_Tensor *product = chain_mul(&c, chain_mul(&c, slope, t), t);
  return tli_chain_end(&c, chain_add(&c, product, chain_number(&c, 1)));
}

/* Computes the weight of an element at distance t + 1, from 1 to 2, by Keys' cubic convolution with
** a = -3/4. */
static tl_Tensor *cubic_far(tl_Tensor *t) {
  const double a = -0.75;
  tli_Chain c = {0};
  tl_Tensor *x = chain_add(&c, t, chain_number(&c, 1));
  tl_Tensor *inner = chain_mul(&c, affine(&c, x, -5, 1), x);
  tl_Tensor *product = chain_mul(&c, affine(&c, inner, 8, a), x);
  return tli_chain_end(&c, chain_add(&c, product, chain_number(&c, -4 * a)));
}

/* Finds the taps of cubic interpolation. Each of the four neighbours is clamped or reflected
** separately; the coordinate itself is not. */
static void cubic_taps(tli_Chain *c, const Sampling *s, tl_Tensor *x, int64_t size, Taps *taps) {
  tl_Tensor *first = TLI_STEP(c, tlo_floor(x));
  tl_Tensor *t = chain_sub(c, x, first);
  tl_Tensor *rest = chain_sub(c, chain_number(c, 1), t);
  tl_Tensor *weights[4] = {
      TLI_STEP(c, cubic_far(t)),
      TLI_STEP(c, cubic_near(t)),
      TLI_STEP(c, cubic_near(rest)),
      TLI_STEP(c, cubic_far(rest)),
  };
  for (int k = 0; k < 4; k++) {
    tl_Tensor *neighbour = chain_add(c, first, chain_number(c, k - 1));
    neighbour = TLI_STEP(c, bring_inside(s, neighbour, size));
    set_tap(c, taps, k, neighbour, size, weights[k]);
  }
}

/* Finds the taps of the coordinates x (N, samples), which range from -1 to 1 over `size`
** elements. */
static void find_taps(tli_Chain *c, const Sampling *s, tl_Tensor *x, int64_t size, Taps *taps) {
  taps->n = s->mode == NEAREST ? 1 : s->mode == LINEAR ? 2 : 4;
  x = to_places(c, x, size, s->align_corners);
  if (s->mode == CUBIC) {
    cubic_taps(c, s, x, size, taps);
    return;
  }
  x = TLI_STEP(c, bring_inside(s, x, size));
  if (s->mode == NEAREST) {
    set_tap(c, taps, 0, TLI_STEP(c, tlo_round(x, 0)), size, NULL);
    return;
  }
  tl_Tensor *first = TLI_STEP(c, tlo_floor(x));
  tl_Tensor *t = chain_sub(c, x, first);
  set_tap(c, taps, 0, first, size, chain_sub(c, chain_number(c, 1), t));
  set_tap(c, taps, 1, chain_add(c, first, chain_number(c, 1)), size, t);
}

/* ---- samples ---- */

/* Returns the elements of flat (N, C, elements) that tap which[d] selects in each dimension d,
** multiplied by the weights of these taps. The shape is (N, C, samples). */
static tl_Tensor *take(tl_Tensor *flat, int n, const int64_t *sizes, const Taps *taps,
                       const int *which) {
  tli_Chain c = {0};
  tl_Tensor *at = NULL, *inside = NULL, *weight = NULL;
  for (int d = 0; d < n; d++) {
    const Taps *t = &taps[d];
    int k = which[d];
    at = d == 0 ? t->at[k]
                : chain_add(&c, TLI_STEP(&c, tli_with_number(tlo_mul, at, tli_int(sizes[d]))),
                            t->at[k]);
    inside = d == 0 ? t->inside[k] : TLI_STEP(&c, tlo_logical_and(inside, t->inside[k]));
    if (t->weight[k]) weight = weight ? chain_mul(&c, weight, t->weight[k]) : t->weight[k];
  }
  at = chain_unsqueeze(&c, TLI_STEP(&c, tli_with_number(tli_plus, at, tli_int(1))), 1);
  if (at == NULL) return tli_chain_end(&c, NULL);
  int64_t shape[3] = {flat->sizes[0], flat->sizes[1], at->sizes[2]};
  at = TLI_STEP(&c, tlo_expand(at, (tl_Ints){3, shape}));
  tl_Tensor *values = TLI_STEP(&c, tlo_gather(flat, 2, at));
  inside = chain_unsqueeze(&c, inside, 1);
  values = TLI_STEP(&c, tli_where_else(inside, values, tli_int(0)));
  if (weight) values = chain_mul(&c, values, chain_unsqueeze(&c, weight, 1));
  return tli_chain_end(&c, values);
}

/* Sums the weighted elements over all combinations of taps. A combination has one tap for each
** dimension. */
static tl_Tensor *sum_taps(tl_Tensor *flat, int n, const int64_t *sizes, const Taps *taps) {
  tl_Tensor *sum = NULL;
  int combinations = 1;
  for (int d = 0; d < n; d++) combinations *= taps[d].n;
  for (int k = 0; k == 0 || (k < combinations && sum); k++) {
    int which[3], rest = k;
    for (int d = 0; d < n; d++) {
      which[d] = rest % taps[d].n;
      rest /= taps[d].n;
    }
    tl_Tensor *term = take(flat, n, sizes, taps, which);
    tl_Tensor *next = term && sum ? tli_plus(sum, term) : term;
    if (next != term) tli_release(term);
    tli_release(sum);
    sum = next;
  }
  return sum;
}

/* Samples input (N, C, sizes...), which has n sizes, at the coordinates in grid (N, out..., n). */
static tl_Tensor *sample(tl_Tensor *input, tl_Tensor *grid, int n, const Sampling *s) {
  const int64_t *sizes = input->sizes + 2;
  int64_t shape[5] = {input->sizes[0], input->sizes[1]};
  int64_t flat_sizes[3] = {shape[0], shape[1], 1}, places_sizes[3] = {shape[0], 1, n};
  for (int d = 0; d < n; d++) {
    flat_sizes[2] *= sizes[d];
    places_sizes[1] *= shape[2 + d] = grid->sizes[1 + d];
  }
  Taps taps[3] = {{0}};
  tli_Chain along[3] = {{0}};
  tli_Chain c = {0};
  tl_Tensor *flat = TLI_STEP(&c, tlo_reshape(input, (tl_Ints){3, flat_sizes}));
  tl_Tensor *places = TLI_STEP(&c, tlo_reshape(grid, (tl_Ints){3, places_sizes}));
  for (int d = 0; d < n; d++) {
    /* the coordinates of a point are in the order x, y, z, and x belongs to the last dimension */
    tl_Tensor *x = TLI_STEP(&c, tlo_select(places, 2, n - 1 - d));
    along[d].failed = c.failed;
    find_taps(&along[d], s, x, sizes[d], &taps[d]);
    c.failed = along[d].failed;
  }
  tl_Tensor *samples = TLI_STEP(&c, sum_taps(flat, n, sizes, taps));
  for (int d = 0; d < n; d++) tli_chain_end(&along[d], NULL);
  return tli_chain_end(&c, TLI_STEP(&c, tlo_reshape(samples, (tl_Ints){n + 2, shape})));
}

/* ---- the kernel ---- */

/* Returns whether the kernel can compute this call. The kernel has no derivatives. */
static bool has_kernel(tl_Tensor *input, tl_Tensor *grid, const Sampling *s) {
  return input->ndim == 4 && s->mode != CUBIC && s->beyond != REFLECTION &&
         input->dtype == TL_F32 && tli_device(input).type != TL_CUDA &&
         input->sizes[2] <= INT32_MAX / input->sizes[3] &&
         !tli_recording((tl_Tensor *[]){input, grid}, 2);
}

static tl_Tensor *run_kernel(tl_Tensor *input, tl_Tensor *grid, const Sampling *s) {
  const int64_t *in = input->sizes, shape[4] = {in[0], in[1], grid->sizes[1], grid->sizes[2]};
  int64_t ends = s->align_corners;
  tli_Chain c = {0};
  tl_Tensor *image = TLI_STEP(&c, tli_contiguous_as(input, (tl_DType)input->dtype));
  tl_Tensor *places = TLI_STEP(&c, tli_contiguous_as(grid, (tl_DType)grid->dtype));
  tl_Tensor *out = TLI_STEP(&c, tli_empty((tl_DType)input->dtype, tli_device(input), 4, shape));
  if (out && out->numel)
    TLI_DO(&c, TLI_RUN(tli_device(input), grid_sample, .images = in[0], .channels = in[1],
                       .places = shape[2] * shape[3], .size = {in[3], in[2]},
                       .scale = {(double)(in[3] - ends) / 2, (double)(in[2] - ends) / 2},
                       .shift = ends ? 0 : 0.5, .nearest = s->mode == NEAREST,
                       .border = s->beyond == BORDER, .out = tli_array(out), .in = tli_array(image),
                       .grid = tli_array(places)));
  return tli_chain_end(&c, out);
}

/* ---- options ---- */

static bool find_name(const char *what, const char *const names[3], const char *name, int *found) {
  for (int k = 0; k < 3; k++) {
    if (strcmp(names[k], name) != 0) continue;
    *found = k;
    return true;
  }
  return tli_fail(TL_EARG, "grid_sample: %s: expected '%s', '%s' or '%s', got '%s'", what, names[0],
                  names[1], names[2], name);
}

static bool check(const tl_Tensor *input, const tl_Tensor *grid) {
  int n = input->ndim - 2;
  if (input->dtype != grid->dtype || !tli_is_float((tl_DType)input->dtype))
    return tli_fail(TL_EDTYPE,
                    "grid_sample: expected input and grid of one floating dtype, got "
                    "%s and %s",
                    tl_dtype_name((tl_DType)input->dtype), tl_dtype_name((tl_DType)grid->dtype));
  if (n < 2 || n > 3 || grid->ndim != input->ndim || grid->sizes[n + 1] != n ||
      grid->sizes[0] != input->sizes[0])
    return tli_fail(TL_ESHAPE,
                    "grid_sample: expected input (N, C, H, W) with grid (N, H', W', 2), "
                    "or (N, C, D, H, W) with (N, D', H', W', 3), got %s and %s",
                    tli_sizes_str(input), tli_sizes_str(grid));
  for (int d = 0; d < n; d++)
    if (input->sizes[d + 2] == 0)
      return tli_fail(TL_ESHAPE, "grid_sample: input %s has no elements to sample",
                      tli_sizes_str(input));
  return true;
}

/* Connects samples of the nearest elements to the grid by a node. The grid then has a gradient,
** which is zero, because the nearest element does not change if a coordinate moves slightly. */
static tl_Tensor *with_grid(tli_Chain *c, tl_Tensor *samples, tl_Tensor *grid) {
  if (c->failed || !tli_recording(&grid, 1)) return samples;
  tl_Tensor *x = TLI_STEP(c, tlo_select(grid, -1, 0));
  tl_Tensor *places = TLI_STEP(c, tlo_unsqueeze(x, 1));
  return chain_add(c, samples, TLI_STEP(c, tlo_fill(places, tli_int(0))));
}

/* Samples images. Half types are converted to float32, because they are too coarse for
** coordinates. */
tl_Tensor *tlo_grid_sample(tl_Tensor *input, tl_Tensor *grid, const char *mode,
                           const char *padding_mode, bool align_corners) {
  static const char *const modes[] = {"nearest", "bilinear", "bicubic"};
  static const char *const paddings[] = {"zeros", "border", "reflection"};
  int m = 0, p = 0;
  TL_TRY_NULL(find_name("mode", modes, mode, &m));
  TL_TRY_NULL(find_name("padding_mode", paddings, padding_mode, &p));
  TL_TRY_NULL(check(input, grid));
  Sampling s = {(Mode)m, (Beyond)p, align_corners};
  bool half = tli_dtype_bytes[input->dtype] == 2;
  uint64_t count = tli_node_count();
  tli_Chain c = {0};
  tl_Tensor *image = half ? TLI_STEP(&c, tlo_to_dtype(input, TL_F32)) : input;
  tl_Tensor *places = half ? TLI_STEP(&c, tlo_to_dtype(grid, TL_F32)) : grid;
  bool fast = !c.failed && has_kernel(image, places, &s);
  tl_Tensor *samples = TLI_STEP(&c, fast ? run_kernel(image, places, &s)
                                         : sample(image, places, input->ndim - 2, &s));
  if (m == 0) samples = with_grid(&c, samples, places);
  if (half) samples = TLI_STEP(&c, tlo_to_dtype(samples, (tl_DType)input->dtype));
  samples = tli_chain_end(&c, samples);
  tli_entitle(samples, input->ndim == 4 ? "GridSampler2D" : "GridSampler3D", count);
  return samples;
}
