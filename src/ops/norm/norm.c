/*
** norm.c - batch_norm, instance_norm, group_norm and related operators. See norm.h.
*/
#include "ops/copy/memory_format.h"
#include "ops/norm/norm.h"
#include "ops/windows.h"

/* Checks that t has one number for each channel. NULL is allowed. */
static bool check_channels(const char *op, const char *what, const tl_Tensor *t, int64_t channels) {
  if (t == NULL || (t->ndim == 1 && t->sizes[0] == channels)) return true;
  return tli_fail(TL_ESHAPE, "%s: %s: expected shape [%" PRId64 "] (channels), got %s", op, what,
                  channels, tli_sizes_str(t));
}

static tl_Tensor *chain_reshape(tli_Chain *c, tl_Tensor *t, int ndim, const int64_t *sizes) {
  return TLI_STEP(c, tlo_reshape(t, (tl_Ints){ndim, sizes}));
}

/* Returns 1 / sqrt(variance + eps). */
static tl_Tensor *chain_rstd(tli_Chain *c, tl_Tensor *variance, double eps) {
  tl_Tensor *sum = chain_add(c, variance, chain_number(c, eps));
  return TLI_STEP(c, tlo_rsqrt(sum));
}

static void *data_of(const tl_Tensor *t) { return t ? tli_data(t) : NULL; }

/* ---- gradients as differentiable operators ---- */

/* Sums t to the shape of `like`, over the dimensions along which a tensor of that shape was
** broadcast. */
static tl_Tensor *chain_sum_to(tli_Chain *c, tl_Tensor *t, const tl_Tensor *like) {
  return TLI_STEP(c, tlo_sum_to_size(t, (tl_Ints){like->ndim, like->sizes}));
}

static tl_Tensor *chain_mean(tli_Chain *c, tl_Tensor *t, tl_Ints dims) {
  return TLI_STEP(c, tlo_mean(t, dims, true, TL_NODTYPE));
}

bool tli_norm_gradients(tli_Chain *c, tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight,
                        const tl_Tensor *like, tl_Ints dims, double eps, bool centre, Wanted want,
                        tl_Tensor **out) {
  tl_Tensor *centred = centre ? chain_sub(c, input, chain_mean(c, input, dims)) : input;
  tl_Tensor *variance = chain_mean(c, chain_mul(c, centred, centred), dims);
  tl_Tensor *rstd = chain_rstd(c, variance, eps);
  tl_Tensor *normal = chain_mul(c, centred, rstd);
  if (want.input) {
    tl_Tensor *g = weight ? chain_mul(c, grad, weight) : grad;
    tl_Tensor *along = chain_mul(c, normal, chain_mean(c, chain_mul(c, g, normal), dims));
    tl_Tensor *rest = chain_sub(c, g, along);
    if (centre) rest = chain_sub(c, rest, chain_mean(c, g, dims));
    out[0] = chain_mul(c, rest, rstd);
  }
  if (want.weight) out[1] = chain_sum_to(c, chain_mul(c, grad, normal), like);
  if (want.bias) out[2] = chain_sum_to(c, grad, like);
  return !c->failed;
}

/* ---- batch_norm ---- */

/* The sizes of a tensor seen as (outer, channels, inner) in a memory format, and this format. */
typedef struct Channels {
  int64_t outer, channels, inner;
  tli_Format format;
} Channels;

static Channels channels_of(const tl_Tensor *t) {
  Channels s = {t->sizes[0], t->sizes[1], 1, TLI_ROW_MAJOR};
  for (int d = 2; d < t->ndim; d++) s.inner *= t->sizes[d];
  return s;
}

/* Returns (outer, channels, inner) for t in t's memory format. With a single channel, both formats
** have the same layout. */
static Channels channels_as_laid(const tl_Tensor *t) {
  Channels s = channels_of(t);
  s.format = tli_format_of(t);
  if (s.format == TLI_ROW_MAJOR || s.channels == 1) return s;
  s.outer *= s.inner;
  s.inner = 1;
  return s;
}

/* Returns t in the given dtype and memory format, without gaps. */
static tl_Tensor *chain_lay(tli_Chain *c, tl_Tensor *t, tl_DType dtype, tli_Format format) {
  if (format == TLI_ROW_MAJOR) return chain_cast(c, t, dtype);
  tl_Tensor *cast = TLI_STEP(c, tlo_to_dtype(t, dtype));
  return c->failed || tli_lies(cast, format) ? cast : TLI_STEP(c, tlo_laid_out(cast, format));
}

/* Returns an uninitialised tensor with the shape, dtype and device of `like`, in the memory format
** of s. */
static tl_Tensor *chain_empty_laid(tli_Chain *c, const tl_Tensor *like, Channels s) {
  return TLI_STEP(c, tli_empty_format(s.format, (tl_DType)like->dtype, tli_device(like), like->ndim,
                                      like->sizes));
}

/* Sets `sizes` to (1, C, 1, ...), with as many dimensions as t. */
static void channel_sizes(const tl_Tensor *t, int64_t *sizes) {
  for (int d = 0; d < t->ndim; d++) sizes[d] = d == 1 ? t->sizes[1] : 1;
}

static bool move_towards(tli_Chain *c, tl_Tensor *running, tl_Tensor *now, double share) {
  tl_Tensor *cast = TLI_STEP(c, tlo_to_dtype(now, (tl_DType)running->dtype));
  tl_Tensor *weight = chain_number(c, share);
  return !c->failed && tlo_lerp_(running, cast, weight);
}

/* Computes (in - mean) * scale + shift + other * factor for each channel. mean, shift, other and
** factor may be NULL. */
static tl_Tensor *chain_affine(tli_Chain *c, tl_Tensor *in, tl_Tensor *mean, tl_Tensor *scale,
                               tl_Tensor *shift, tl_Tensor *other, tl_Tensor *factor, Channels s) {
  tl_Tensor *out = chain_empty_laid(c, in, s);
  if (c->failed || out->numel == 0) return out;
  if (!TLI_RUN(tli_device(in), channel_affine, .out = tli_array(out), .in = tli_array(in),
               .mean = data_of(mean), .scale = tli_data(scale), .shift = data_of(shift),
               .other = array_of(other), .factor = data_of(factor), .outer = s.outer,
               .channels = s.channels, .inner = s.inner))
    c->failed = true;
  return out;
}

/* Normalises by the mean and rstd of the batch itself, and updates the running statistics. */
static void normalize(tli_Chain *c, tl_Tensor *in, tl_Tensor *weight, tl_Tensor *bias,
                      tl_Tensor *running_mean, tl_Tensor *running_var, double momentum, double eps,
                      Channels s, tl_Tensor **out) {
  tl_DType stat = stat_dtype(in);
  double n = (double)(s.outer * s.inner);
  /* leaves the running statistics unchanged if the batch is empty */
  if (n == 0) running_mean = running_var = NULL;
  out[0] = chain_empty_laid(c, in, s);
  out[1] = chain_empty(c, stat, in, s.channels);
  out[2] = chain_empty(c, stat, in, s.channels);
  tl_Tensor *deviation = chain_empty(c, stat, in, s.channels);
  tl_Tensor *scale = weight ? chain_cast(c, weight, stat) : NULL;
  tl_Tensor *shift = bias ? chain_cast(c, bias, stat) : NULL;
  if (c->failed) return;
  TLI_DO(c, TLI_RUN(tli_device(in), batch_norm, .out = tli_array(out[0]), .mean = tli_data(out[1]),
                    .deviation = tli_data(deviation), .rstd = tli_data(out[2]), .in = tli_array(in),
                    .weight = data_of(scale), .bias = data_of(shift), .eps = eps, .outer = s.outer,
                    .channels = s.channels, .inner = s.inner));
  if (running_mean) TLI_DO(c, move_towards(c, running_mean, out[1], momentum));
  if (running_var)
    TLI_DO(c, move_towards(c, running_var, chain_scale(c, deviation, 1 / (n - 1)), momentum));
}

bool tli_op_batch_norm_core(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias,
                            tl_Tensor *running_mean, tl_Tensor *running_var, bool training,
                            double momentum, double eps, tl_Tensor **out) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_DType stat = stat_dtype(input);
  Channels s = channels_as_laid(input);
  tl_Tensor *in = chain_lay(&c, input, (tl_DType)input->dtype, s.format);
  if (training) {
    if (!c.failed)
      normalize(&c, in, weight, bias, running_mean, running_var, momentum, eps, s, out);
  } else {
    out[1] = TLI_STEP(&c, tlo_to_dtype(running_mean, stat));
    /* saves copies, because the running statistics may change before the backward pass */
    out[1] = TLI_STEP(&c, tlo_clone(out[1]));
    out[2] = chain_rstd(&c, chain_cast(&c, running_var, stat), eps);
    tl_Tensor *scale = weight ? chain_mul(&c, out[2], chain_cast(&c, weight, stat)) : out[2];
    tl_Tensor *shift = bias ? chain_cast(&c, bias, stat) : NULL;
    if (!c.failed) out[0] = chain_affine(&c, in, out[1], scale, shift, NULL, NULL, s);
  }
  return unrecorded_end(&c, mode, out, 3);
}

/* Computes, for each channel, the sum of grad and the sum of grad * (in - mean). */
static void chain_products(tli_Chain *c, tl_Tensor *grad, tl_Tensor *in, tl_Tensor *mean,
                           Channels s, tl_Tensor **sum, tl_Tensor **product) {
  *sum = chain_empty(c, stat_dtype(in), in, s.channels);
  *product = chain_empty(c, stat_dtype(in), in, s.channels);
  if (c->failed) return;
  if (!TLI_RUN(tli_device(in), channel_products, .sum = tli_data(*sum),
               .product = tli_data(*product), .grad = tli_array(grad), .in = tli_array(in),
               .mean = tli_data(mean), .outer = s.outer, .channels = s.channels, .inner = s.inner))
    c->failed = true;
}

/* Computes the gradients for normalisation by the batch's own statistics. */
static void gradients_of_own(tli_Chain *c, tl_Tensor *g, tl_Tensor *in, tl_Tensor *weight,
                             tl_Tensor *mean, tl_Tensor *rstd, bool want_input, Channels s,
                             tl_Tensor **out) {
  tl_DType stat = stat_dtype(in);
  if (want_input) out[0] = chain_empty_laid(c, in, s);
  out[1] = chain_empty(c, stat, in, s.channels);
  out[2] = chain_empty(c, stat, in, s.channels);
  tl_Tensor *scale = weight ? chain_cast(c, weight, stat) : NULL;
  if (c->failed) return;
  TLI_DO(c, TLI_RUN(tli_device(in), batch_norm_backward, .grad_in = array_of(out[0]),
                    .grad_weight = tli_data(out[1]), .grad_bias = tli_data(out[2]),
                    .grad_out = tli_array(g), .in = tli_array(in), .mean = tli_data(mean),
                    .rstd = tli_data(rstd), .weight = data_of(scale), .outer = s.outer,
                    .channels = s.channels, .inner = s.inner));
}

static bool batch_norm_fused(tl_Tensor *grad_output, tl_Tensor *input, tl_Tensor *weight,
                             tl_Tensor *mean, tl_Tensor *rstd, bool training, Wanted want,
                             tl_Tensor **out) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_DType dtype = (tl_DType)input->dtype, stat = stat_dtype(input);
  Channels s = channels_as_laid(input);
  tl_Tensor *g = chain_lay(&c, grad_output, dtype, s.format);
  tl_Tensor *in = chain_lay(&c, input, dtype, s.format);
  if (!c.failed && training) {
    gradients_of_own(&c, g, in, weight, mean, rstd, want.input, s, out);
  } else if (!c.failed) {
    tl_Tensor *scale = weight ? chain_mul(&c, rstd, chain_cast(&c, weight, stat)) : rstd;
    if (want.input && !c.failed) out[0] = chain_affine(&c, g, NULL, scale, NULL, NULL, NULL, s);
    if (want.weight || want.bias) chain_products(&c, g, in, mean, s, &out[2], &out[1]);
    if (want.weight) out[1] = chain_mul(&c, out[1], rstd);
  }
  if (!want.weight) out[1] = NULL;
  if (!want.bias) out[2] = NULL;
  return unrecorded_end(&c, mode, out, 3);
}

static bool batch_norm_recorded(tl_Tensor *grad, tl_Tensor *input, tl_Tensor *weight,
                                tl_Tensor *mean, tl_Tensor *rstd, bool training, double eps,
                                Wanted want, tl_Tensor **out) {
  tli_Chain c = {0};
  int64_t sizes[TL_MAX_DIMS], dims[TL_MAX_DIMS], n = 0;
  channel_sizes(input, sizes);
  for (int d = 0; d < input->ndim; d++)
    if (d != 1) dims[n++] = d;
  tl_Tensor *shaped = weight ? chain_reshape(&c, weight, input->ndim, sizes) : NULL;
  tl_Tensor *means = chain_reshape(&c, mean, input->ndim, sizes);
  if (!c.failed && training) {
    tli_norm_gradients(&c, grad, input, shaped, means, (tl_Ints){n, dims}, eps, true, want, out);
  } else if (!c.failed) {
    tl_Tensor *scale = chain_reshape(&c, rstd, input->ndim, sizes);
    tl_Tensor *normal = chain_mul(&c, chain_sub(&c, input, means), scale);
    if (want.input) out[0] = chain_mul(&c, grad, weight ? chain_mul(&c, scale, shaped) : scale);
    if (want.weight) out[1] = chain_sum_to(&c, chain_mul(&c, grad, normal), means);
    if (want.bias) out[2] = chain_sum_to(&c, grad, means);
  }
  for (int i = 1; i < 3; i++)
    if (out[i] && !c.failed) out[i] = chain_reshape(&c, out[i], 1, &input->sizes[1]);
  return tli_chain_end_all(&c, out, 3);
}

bool tlo_batch_norm_backward(tl_Tensor *grad_output, tl_Tensor *input, tl_Tensor *weight,
                             tl_Tensor *mean, tl_Tensor *rstd, bool training, double eps,
                             bool want_input, bool want_weight, bool want_bias, tl_Tensor **out) {
  Wanted want = {want_input, want_weight, want_bias};
  out[0] = out[1] = out[2] = NULL;
  if (watched(grad_output, input, weight))
    return batch_norm_recorded(grad_output, input, weight, mean, rstd, training, eps, want, out);
  return batch_norm_fused(grad_output, input, weight, mean, rstd, training, want, out);
}

static bool check_batch_norm(const char *op, const tl_Tensor *input, const tl_Tensor *running_mean,
                             const tl_Tensor *running_var, const tl_Tensor *weight,
                             const tl_Tensor *bias, bool training) {
  TL_TRY(tli_check_floating(op, input));
  if (input->ndim < 2)
    return tli_fail(TL_ESHAPE, "%s: input: expected (N, C, ...), got %s", op, tli_sizes_str(input));
  int64_t channels = input->sizes[1];
  TL_TRY(check_channels(op, "running_mean", running_mean, channels));
  TL_TRY(check_channels(op, "running_var", running_var, channels));
  TL_TRY(check_channels(op, "weight", weight, channels));
  TL_TRY(check_channels(op, "bias", bias, channels));
  if (!training && (running_mean == NULL || running_var == NULL))
    return tli_fail(TL_EARG,
                    "%s: expected running_mean and running_var, which are used unless "
                    "training",
                    op);
  Channels s = channels_of(input);
  if (training && s.outer * s.inner == 1)
    return tli_fail(TL_ESHAPE, "%s: expected more than 1 value per channel when training, got %s",
                    op, tli_sizes_str(input));
  return true;
}

tl_Tensor *tlo_batch_norm(tl_Tensor *input, tl_Tensor *running_mean, tl_Tensor *running_var,
                          tl_Tensor *weight, tl_Tensor *bias, bool training, double momentum,
                          double eps) {
  /* accepts an empty vector, as PyTorch does, although it has no channels */
  if (input->ndim == 1 && input->numel == 0) return tlo_clone(input);
  TL_TRY_NULL(
      check_batch_norm("batch_norm", input, running_mean, running_var, weight, bias, training));
  tl_Tensor *out[3];
  bool ok = tlo_batch_norm_core(input, weight, bias, running_mean, running_var, training, momentum,
                                eps, out);
  return first_of(ok, out, 3);
}

/* ---- instance_norm: batch_norm of one sample with N * C channels ---- */

static tl_Tensor *chain_repeat(tli_Chain *c, tl_Tensor *t, int64_t times) {
  return t ? TLI_STEP(c, tlo_tile(t, (tl_Ints){1, &times})) : NULL;
}

/* Sets running statistics to the mean of their copies. There is one copy for each sample, which
** only that sample has updated. */
static void take_back(tli_Chain *c, tl_Tensor *running, tl_Tensor *copies, int64_t samples) {
  int64_t sizes[] = {samples, running->numel}, first = 0;
  tl_Tensor *table = chain_reshape(c, copies, 2, sizes);
  tl_Tensor *mean = TLI_STEP(c, tlo_mean(table, (tl_Ints){1, &first}, false, TL_NODTYPE));
  if (!c->failed && !tlo_copy_(running, mean, false)) c->failed = true;
}

tl_Tensor *tlo_instance_norm(tl_Tensor *input, tl_Tensor *running_mean, tl_Tensor *running_var,
                             tl_Tensor *weight, tl_Tensor *bias, bool use_input_stats,
                             double momentum, double eps) {
  TL_TRY_NULL(check_batch_norm("instance_norm", input, running_mean, running_var, weight, bias,
                               use_input_stats));
  if (input->ndim < 3 || (use_input_stats && channels_of(input).inner == 1))
    return tli_fail_null(TL_ESHAPE,
                         "instance_norm: input: expected (N, C, ...) with more than 1 "
                         "element per channel of a sample, got %s",
                         tli_sizes_str(input));
  int64_t samples = input->sizes[0];
  int64_t sizes[TL_MAX_DIMS] = {1, samples * input->sizes[1]};
  for (int d = 2; d < input->ndim; d++) sizes[d] = input->sizes[d];
  tli_Chain c = {0};
  tl_Tensor *in = chain_reshape(&c, input, input->ndim, sizes);
  tl_Tensor *w = chain_repeat(&c, weight, samples), *b = chain_repeat(&c, bias, samples);
  tl_Tensor *mean = chain_repeat(&c, running_mean, samples);
  tl_Tensor *var = chain_repeat(&c, running_var, samples);
  tl_Tensor *out =
      TLI_STEP(&c, tlo_batch_norm(in, mean, var, w, b, use_input_stats, momentum, eps));
  if (use_input_stats && mean && !c.failed) take_back(&c, running_mean, mean, samples);
  if (use_input_stats && var && !c.failed) take_back(&c, running_var, var, samples);
  out = chain_reshape(&c, out, input->ndim, input->sizes);
  return tli_chain_end(&c, out);
}

/* ---- group_norm ---- */

/* Sets `sizes` to (N, G, C / G, L). The last two dimensions are normalised together. */
static void group_sizes(const tl_Tensor *t, int64_t groups, int64_t sizes[4]) {
  Channels s = channels_of(t);
  sizes[0] = s.outer;
  sizes[1] = groups;
  sizes[2] = s.channels / groups;
  sizes[3] = s.inner;
}

/* Expands t (N, G), which has one number per group of each sample, to one number per channel of
** each sample: (N * C). */
static tl_Tensor *chain_per_channel(tli_Chain *c, tl_Tensor *t, const int64_t sizes[4]) {
  int64_t narrow[] = {sizes[0], sizes[1], 1}, all = sizes[0] * sizes[1] * sizes[2];
  tl_Tensor *shaped = chain_reshape(c, t, 3, narrow);
  tl_Tensor *wide = TLI_STEP(c, tlo_expand(shaped, (tl_Ints){3, sizes}));
  /* makes the numbers contiguous, because kernels need this */
  tl_Tensor *rows = TLI_STEP(c, tlo_to_row_major(wide));
  return chain_reshape(c, rows, 1, &all);
}

/* Repeats t (C), which has one number per channel, for each sample: (N * C). */
static tl_Tensor *chain_per_sample(tli_Chain *c, tl_Tensor *t, tl_DType dtype,
                                   const int64_t sizes[4]) {
  int64_t times = sizes[0];
  tl_Tensor *cast = chain_cast(c, t, dtype);
  return TLI_STEP(c, tlo_tile(cast, (tl_Ints){1, &times}));
}

bool tli_op_group_norm_core(tl_Tensor *input, int64_t groups, tl_Tensor *weight, tl_Tensor *bias,
                            double eps, tl_Tensor **out) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_DType stat = stat_dtype(input);
  int64_t sizes[4];
  group_sizes(input, groups, sizes);
  int64_t together = sizes[2] * sizes[3];
  tl_Tensor *in = chain_cast(&c, input, (tl_DType)input->dtype);
  out[1] = chain_empty(&c, stat, input, sizes[0] * groups);
  tl_Tensor *deviation = chain_empty(&c, stat, input, sizes[0] * groups);
  if (!c.failed && !TLI_RUN(tli_device(in), channel_moments, .mean = tli_data(out[1]),
                            .deviation = tli_data(deviation), .in = tli_array(in), .outer = 1,
                            .channels = sizes[0] * groups, .inner = together))
    c.failed = true;
  out[2] = chain_rstd(&c, chain_scale(&c, deviation, 1 / (double)together), eps);
  tl_Tensor *mean = chain_per_channel(&c, out[1], sizes);
  tl_Tensor *scale = chain_per_channel(&c, out[2], sizes);
  if (weight) scale = chain_mul(&c, scale, chain_per_sample(&c, weight, stat, sizes));
  tl_Tensor *shift = bias ? chain_per_sample(&c, bias, stat, sizes) : NULL;
  Channels s = {1, sizes[0] * groups * sizes[2], sizes[3], TLI_ROW_MAJOR};
  if (!c.failed) out[0] = chain_affine(&c, in, mean, scale, shift, NULL, NULL, s);
  out[0] = TLI_STEP(&c, tli_follow(tli_retain(out[0]), input));
  return unrecorded_end(&c, mode, out, 3);
}

/* Sums t over the channels of each group: (N * G). */
static tl_Tensor *chain_group_sum(tli_Chain *c, tl_Tensor *t, const int64_t sizes[4]) {
  int64_t all = sizes[0] * sizes[1];
  return chain_reshape(c, chain_sum(c, chain_reshape(c, t, 3, sizes), 2, false), 1, &all);
}

/* Sums t over the samples, separately for each channel: (C). */
static tl_Tensor *chain_sample_sum(tli_Chain *c, tl_Tensor *t, const int64_t sizes[4]) {
  int64_t table[] = {sizes[0], sizes[1] * sizes[2]};
  return chain_sum(c, chain_reshape(c, t, 2, table), 0, false);
}

static bool group_norm_fused(tl_Tensor *grad_output, tl_Tensor *input, int64_t groups,
                             tl_Tensor *weight, tl_Tensor *mean, tl_Tensor *rstd, Wanted want,
                             tl_Tensor **out) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_DType dtype = (tl_DType)input->dtype, stat = stat_dtype(input);
  int64_t sizes[4];
  group_sizes(input, groups, sizes);
  Channels s = {1, sizes[0] * groups * sizes[2], sizes[3], TLI_ROW_MAJOR};
  tl_Tensor *g = chain_cast(&c, grad_output, dtype), *in = chain_cast(&c, input, dtype);
  tl_Tensor *means = chain_per_channel(&c, mean, sizes);
  tl_Tensor *sum = NULL, *product = NULL;
  if (!c.failed) chain_products(&c, g, in, means, s, &sum, &product);
  if (want.input) {
    tl_Tensor *factor = chain_per_channel(&c, rstd, sizes), *sums = sum, *products = product;
    if (weight) {
      tl_Tensor *w = chain_per_sample(&c, weight, stat, sizes);
      factor = chain_mul(&c, factor, w);
      sums = chain_mul(&c, sum, w);
      products = chain_mul(&c, product, w);
    }
    double n = (double)(sizes[2] * sizes[3]);
    tl_Tensor *cube = chain_mul(&c, chain_mul(&c, rstd, rstd), rstd);
    tl_Tensor *slope = chain_mul(&c, chain_group_sum(&c, products, sizes), cube);
    tl_Tensor *shift = chain_mul(&c, chain_group_sum(&c, sums, sizes), rstd);
    slope = chain_per_channel(&c, chain_scale(&c, slope, -1 / n), sizes);
    shift = chain_per_channel(&c, chain_scale(&c, shift, -1 / n), sizes);
    if (!c.failed) out[0] = chain_affine(&c, in, means, slope, shift, g, factor, s);
  }
  if (want.weight) {
    tl_Tensor *scaled = chain_mul(&c, product, chain_per_channel(&c, rstd, sizes));
    out[1] = chain_sample_sum(&c, scaled, sizes);
  }
  if (want.bias) out[2] = chain_sample_sum(&c, sum, sizes);
  return unrecorded_end(&c, mode, out, 3);
}

static bool group_norm_recorded(tl_Tensor *grad, tl_Tensor *input, int64_t groups,
                                tl_Tensor *weight, double eps, Wanted want, tl_Tensor **out) {
  tli_Chain c = {0};
  int64_t sizes[4];
  group_sizes(input, groups, sizes);
  tl_Tensor like = {.ndim = 4};
  for (int d = 0; d < 4; d++) like.sizes[d] = d == 1 || d == 2 ? sizes[d] : 1;
  tl_Tensor *g = chain_reshape(&c, grad, 4, sizes), *in = chain_reshape(&c, input, 4, sizes);
  tl_Tensor *w = weight ? chain_reshape(&c, weight, 4, like.sizes) : NULL;
  if (!c.failed)
    tli_norm_gradients(&c, g, in, w, &like, (tl_Ints){2, (int64_t[]){2, 3}}, eps, true, want, out);
  if (out[0] && !c.failed) out[0] = chain_reshape(&c, out[0], input->ndim, input->sizes);
  for (int i = 1; i < 3; i++)
    if (out[i] && !c.failed) out[i] = chain_reshape(&c, out[i], 1, &input->sizes[1]);
  return tli_chain_end_all(&c, out, 3);
}

bool tlo_group_norm_backward(tl_Tensor *grad_output, tl_Tensor *input, int64_t groups,
                             tl_Tensor *weight, tl_Tensor *mean, tl_Tensor *rstd, double eps,
                             bool want_input, bool want_weight, bool want_bias, tl_Tensor **out) {
  Wanted want = {want_input, want_weight, want_bias};
  out[0] = out[1] = out[2] = NULL;
  if (watched(grad_output, input, weight))
    return group_norm_recorded(grad_output, input, groups, weight, eps, want, out);
  return group_norm_fused(grad_output, input, groups, weight, mean, rstd, want, out);
}

/* Computes the result for an empty batch. The gradients of weight and bias exist and are zero. */
static tl_Tensor *no_samples(tl_Tensor *input, tl_Tensor *weight, tl_Tensor *bias) {
  tli_Chain c = {0};
  int64_t sizes[TL_MAX_DIMS];
  int ndim = input->ndim - 1;
  for (int d = 0; d < ndim; d++) sizes[d] = d == 0 ? input->sizes[1] : 1;
  tl_Tensor *result = TLI_STEP(&c, tlo_clone(input));
  if (weight) result = chain_mul(&c, result, chain_reshape(&c, weight, ndim, sizes));
  if (bias) result = chain_add(&c, result, chain_reshape(&c, bias, ndim, sizes));
  return tli_chain_end(&c, TLI_STEP(&c, tlo_to_dtype(result, (tl_DType)input->dtype)));
}

tl_Tensor *tlo_group_norm(tl_Tensor *input, int64_t num_groups, tl_Tensor *weight, tl_Tensor *bias,
                          double eps) {
  TL_TRY_NULL(tli_check_floating("group_norm", input));
  if (input->ndim < 2)
    return tli_fail_null(TL_ESHAPE, "group_norm: input: expected (N, C, ...), got %s",
                         tli_sizes_str(input));
  int64_t channels = input->sizes[1];
  if (num_groups < 1 || channels % num_groups != 0)
    return tli_fail_null(
        TL_EARG, "group_norm: num_groups: expected a divisor of %" PRId64 " channels, got %" PRId64,
        channels, num_groups);
  TL_TRY_NULL(check_channels("group_norm", "weight", weight, channels));
  TL_TRY_NULL(check_channels("group_norm", "bias", bias, channels));
  if (input->sizes[0] == 0) return no_samples(input, weight, bias);
  if (input->numel == 0)
    return tli_fail_null(TL_ESHAPE, "group_norm: input: expected elements in each sample, got %s",
                         tli_sizes_str(input));
  tl_Tensor *out[3];
  bool ok = tlo_group_norm_core(input, num_groups, weight, bias, eps, out);
  return first_of(ok, out, 3);
}

/* ---- renorm ---- */

tl_Tensor *tlo_renorm(tl_Tensor *self, double p, int64_t dim, double maxnorm) {
  bool complex = tli_is_complex((tl_DType)self->dtype);
  if (!tli_is_inexact((tl_DType)self->dtype))
    return tli_fail_null(TL_EDTYPE, "renorm: self: expected a floating tensor, got %s",
                         tl_dtype_name((tl_DType)self->dtype));
  if (self->ndim < 2)
    return tli_fail_null(TL_ESHAPE, "renorm: self: expected at least 2 dimensions, got shape %s",
                         tli_sizes_str(self));
  int d = tli_dim("renorm", dim, self->ndim);
  if (d < 0) return NULL;
  if (!(p > 0)) return tli_fail_null(TL_EARG, "renorm: p: expected a positive number, got %g", p);
  if (!(maxnorm >= 0))
    return tli_fail_null(TL_EARG, "renorm: maxnorm: expected at least 0, got %g", maxnorm);
  int64_t others[TL_MAX_DIMS], n = 0;
  for (int k = 0; k < self->ndim; k++)
    if (k != d) others[n++] = k;
  tli_Chain c = {0};
  tl_Tensor *size = complex ? TLI_STEP(&c, tlo_abs(self)) : self;
  if (c.failed) return tli_chain_end(&c, NULL);
  tl_Tensor *wide = TLI_STEP(&c, tlo_to(size, stat_dtype(size), false, false, TLI_NODEVICE, NULL));
  tl_Tensor *norms = TLI_STEP(&c, tlo_p_norm(wide, tli_float(p), (tl_Ints){n, others}, true));
  tl_Tensor *above = chain_with(&c, tlo_gt, norms, maxnorm);
  tl_Tensor *most = chain_number(&c, maxnorm);
  tl_Tensor *factor = chain_div(&c, most, chain_add(&c, norms, chain_number(&c, 1e-7)));
  factor = TLI_STEP(&c, tli_where_else(above, factor, tli_float(1)));
  factor = TLI_STEP(&c, tlo_to_dtype(factor, tli_real_dtype((tl_DType)self->dtype)));
  return tli_chain_end(&c, chain_mul(&c, self, factor));
}

/* ---- local_response_norm ---- */

tl_Tensor *tlo_local_response_norm(tl_Tensor *input, int64_t size, double alpha, double beta,
                                   double k) {
  if (input->ndim < 3)
    return tli_fail_null(TL_ESHAPE,
                         "local_response_norm: input: expected at least 3 dimensions, "
                         "got %s",
                         tli_sizes_str(input));
  if (size < 1)
    return tli_fail_null(TL_EARG, "local_response_norm: size: expected at least 1, got %" PRId64,
                         size);
  if (input->numel == 0) return tlo_clone(input);
  Channels s = channels_of(input);
  int64_t planes[] = {s.outer, 1, s.channels, s.inner};
  int64_t around[] = {0, 0, size / 2, (size - 1) / 2};
  tl_Ints window = {2, (int64_t[]){size, 1}};
  tli_Chain c = {0};
  tl_Tensor *squares = chain_reshape(&c, chain_mul(&c, input, input), 4, planes);
  tl_Tensor *padded = TLI_STEP(&c, tlo_constant_pad(squares, (tl_Ints){4, around}, tli_int(0)));
  tl_Tensor *means =
      TLI_STEP(&c, tlo_avg_pool2d(padded, window, tli_one, tli_zero, false, true, TLI_NOINT));
  means = chain_reshape(&c, means, input->ndim, input->sizes);
  if (means && !tli_is_float((tl_DType)means->dtype))
    means = TLI_STEP(&c, tlo_to_dtype(means, TL_F32));
  tl_Tensor *offset = chain_number(&c, k), *scaled = chain_scale(&c, means, alpha);
  tl_Tensor *sum = chain_add(&c, scaled, offset);
  tl_Tensor *divisor = chain_with(&c, tlo_pow, sum, beta);
  return tli_chain_end(&c, chain_div(&c, input, divisor));
}
