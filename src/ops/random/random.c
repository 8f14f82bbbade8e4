/*
** random.c - random numbers. An operator reserves a stretch of its generator's stream, and the
** kernel computes that stretch. The stretch, and therefore every number, depends only on the number
** of elements and on how many numbers were drawn before.
*/
#include <math.h>
#include <string.h>

#include "core/platform/parallel.h"
#include "ops/chain.h"
#include "ops/copy/memory_format.h"

/* ---- filling ---- */

static bool draw_into(tlk_Distribution d, tl_Tensor *dense, tl_Scalar a, tl_Scalar b,
                      tli_Generator *g) {
  int64_t n = dense->numel;
  if (n == 0) return true;
  tl_Device device = tli_device(dense);
  tli_Stretch from;
  TL_TRY(tli_generator_stretch(g, device, n, tlk_per_block(d, (tl_DType)dense->dtype), &from));
  return TLI_RUN(device, random, .distribution = d, .out = tli_array(dense), .n = n,
                 .seed = from.seed, .block = from.block, .state = tli_stretch_words(from.state),
                 .a = a, .b = b);
}

/* Draws a number for each element. Elements are numbered in row-major order, regardless of their
** order in memory, so the numbers do not depend on the strides. */
static bool draw(tlk_Distribution d, tl_Tensor *self, tl_Scalar a, tl_Scalar b, tli_Generator *g) {
  if (tli_contiguous(self)) return draw_into(d, self, a, b, g);
  tl_Tensor *dense = tli_empty((tl_DType)self->dtype, tli_device(self), self->ndim, self->sizes);
  bool ok = dense && draw_into(d, dense, a, b, g) && tli_copy(self, dense);
  tli_release(dense);
  return ok;
}

static bool draw_floats(const char *op, tlk_Distribution d, tl_Tensor *self, double a, double b,
                        tli_Generator *g);

/* Draws the real and imaginary parts of complex numbers. In the normal distribution each part has
** half the variance, as in PyTorch. */
static bool draw_parts(const char *op, tlk_Distribution d, tl_Tensor *self, double a, double b,
                       tli_Generator *g) {
  if (d != TLK_UNIFORM && d != TLK_NORMAL) return tli_refuse_complex(op);
  tl_Tensor *parts = tli_op_view_as_real(self);
  bool ok = parts && draw_floats(op, d, parts, a, d == TLK_NORMAL ? b * sqrt(0.5) : b, g);
  tli_release(parts);
  return ok;
}

static bool draw_floats(const char *op, tlk_Distribution d, tl_Tensor *self, double a, double b,
                        tli_Generator *g) {
  if (tli_is_complex((tl_DType)self->dtype)) return draw_parts(op, d, self, a, b, g);
  if (!tli_is_float((tl_DType)self->dtype))
    return tli_fail(TL_EDTYPE, "%s: expected a floating tensor, got %s", op,
                    tl_dtype_name((tl_DType)self->dtype));
  return draw(d, self, tli_float(a), tli_float(b), g);
}

/* Fills t with random numbers and returns it. Steals t; returns NULL for NULL. */
static tl_Tensor *filled(const char *op, tlk_Distribution d, tl_Tensor *t, double a, double b,
                         tli_Generator *g) {
  if (t == NULL || draw_floats(op, d, t, a, b, g)) return t;
  tli_release(t);
  return NULL;
}

static bool check(bool ok, const char *op, const char *what, double got) {
  return ok || tli_fail(TL_EARG, "%s: expected %s, got %g", op, what, got);
}

bool tli_op_uniform_(tl_Tensor *self, double from, double to, tli_Generator *generator) {
  if (!(from <= to) || !isfinite(to - from))
    return tli_fail(
        TL_EARG, "uniform_: expected from <= to, a finite distance apart, got %g and %g", from, to);
  return draw_floats("uniform_", TLK_UNIFORM, self, from, to, generator);
}

bool tli_op_normal_(tl_Tensor *self, double mean, double std, tli_Generator *generator) {
  TL_TRY(check(std >= 0, "normal_", "a standard deviation of at least 0", std));
  return draw_floats("normal_", TLK_NORMAL, self, mean, std, generator);
}

bool tli_op_log_normal_(tl_Tensor *self, double mean, double std, tli_Generator *generator) {
  TL_TRY(check(std > 0, "log_normal_", "a standard deviation greater than 0", std));
  return draw_floats("log_normal_", TLK_LOG_NORMAL, self, mean, std, generator);
}

bool tli_op_exponential_(tl_Tensor *self, double lambd, tli_Generator *generator) {
  TL_TRY(check(lambd > 0, "exponential_", "a rate greater than 0", lambd));
  return draw_floats("exponential_", TLK_EXPONENTIAL, self, lambd, 0, generator);
}

bool tli_op_cauchy_(tl_Tensor *self, double median, double sigma, tli_Generator *generator) {
  TL_TRY(check(sigma > 0, "cauchy_", "a sigma greater than 0", sigma));
  return draw_floats("cauchy_", TLK_CAUCHY, self, median, sigma, generator);
}

bool tli_op_geometric_(tl_Tensor *self, double p, tli_Generator *generator) {
  TL_TRY(check(p > 0 && p < 1, "geometric_", "a probability between 0 and 1", p));
  return draw(TLK_GEOMETRIC, self, tli_float(p), tli_none(), generator);
}

/* ---- integers ---- */

/* Draws integers from `from` to `to` - 1. The dtype must hold both bounds. */
static bool draw_integers(const char *op, tl_Tensor *self, int64_t from, int64_t to,
                          tli_Generator *g) {
  if (from >= to)
    return tli_fail(TL_EARG, "%s: expected low < high, got %" PRId64 " and %" PRId64, op, from, to);
  tl_DType dtype = (tl_DType)self->dtype;
  TL_TRY(tli_check_holds(op, tli_int(from), dtype) && tli_check_holds(op, tli_int(to - 1), dtype));
  return draw(TLK_INTEGER, self, tli_int(from), tli_int((int64_t)((uint64_t)to - (uint64_t)from)),
              g);
}

/* Returns the largest N such that the dtype represents all integers from 0 to N - 1 exactly. */
static uint64_t whole_range(tl_DType dtype) {
  if (!tli_is_float(dtype)) return (uint64_t)tli_int_max(dtype) + 1;
  return ((uint64_t)1 << tli_dtype_digits[dtype]) + 1;
}

bool tli_op_random_(tl_Tensor *self, int64_t from, int64_t to, tli_Generator *generator) {
  if (from == TLI_NOINT && to == TLI_NOINT)
    return draw(TLK_INTEGER, self, tli_int(0), tli_int((int64_t)whole_range((tl_DType)self->dtype)),
                generator);
  if (to == TLI_NOINT) {
    to = from;
    from = 0;
  }
  return draw_integers("random_", self, from == TLI_NOINT ? 0 : from, to, generator);
}

static tl_Tensor *integers(const char *op, tl_Tensor *t, int64_t low, int64_t high,
                           tli_Generator *g) {
  if (t == NULL || draw_integers(op, t, low, high, g)) return t;
  tli_release(t);
  return NULL;
}

tl_Tensor *tlo_randint(int64_t low, int64_t high, tl_Ints size, tli_Generator *generator,
                       tl_DType dtype, tl_Device device) {
  if (dtype == TL_NODTYPE) dtype = TL_I64;
  return integers("randint", tli_new("randint", size, dtype, device), low, high, generator);
}

tl_Tensor *tlo_randint_high(int64_t high, tl_Ints size, tli_Generator *generator, tl_DType dtype,
                            tl_Device device) {
  return tlo_randint(0, high, size, generator, dtype, device);
}

tl_Tensor *tlo_randint_like(tl_Tensor *self, int64_t low, int64_t high, tli_Generator *generator,
                            tl_DType dtype, tl_Device device, const char *memory_format) {
  return integers("randint_like", tli_new_like("randint_like", self, dtype, device, memory_format),
                  low, high, generator);
}

tl_Tensor *tlo_randint_like_high(tl_Tensor *self, int64_t high, tli_Generator *generator,
                                 tl_DType dtype, tl_Device device, const char *memory_format) {
  return tlo_randint_like(self, 0, high, generator, dtype, device, memory_format);
}

/* Shuffles n numbers by the algorithm of Fisher and Yates: each position i gets a random one of the
** numbers that are still unused. The algorithm is sequential, so it runs on the CPU for every
** device. */
static bool shuffle(int64_t *out, int64_t n, tli_Generator *g) {
  uint64_t block = tli_generator_take(g, n, 2);
  uint32_t words[4];
  for (int64_t i = 0; i < n; i++) out[i] = i + 1;
  for (int64_t i = 0; i < n - 1; i++) {
    if (i % 65536 == 65535) TL_TRY(tli_go_on());
    if (i % 2 == 0) tli_philox(g->seed, block + (uint64_t)i / 2, words);
    uint64_t word = words[2 * (i % 2)] | (uint64_t)words[2 * (i % 2) + 1] << 32;
    int64_t other = i + (int64_t)tli_multiply_high(word, (uint64_t)(n - i));
    int64_t swapped = out[i];
    out[i] = out[other];
    out[other] = swapped;
  }
  return true;
}

tl_Tensor *tlo_randperm(int64_t n, tli_Generator *generator, tl_DType dtype, tl_Device device) {
  if (dtype == TL_NODTYPE) dtype = TL_I64;
  if (device.type < 0) device = tli_default_device();
  if (device.type == TL_META) return tli_new("randperm", (tl_Ints){1, &n}, dtype, device);
  tl_Tensor *t = tli_new("randperm", (tl_Ints){1, &n}, TL_I64, TLI_CPU);
  if (t == NULL) return NULL;
  tl_Tensor *result = NULL;
  if (tli_check_holds("randperm", tli_int(n), dtype) &&
      shuffle(tli_data(t), n, tli_generator_of(generator, device)))
    result = tlo_to(t, dtype, false, false, device, NULL);
  tli_release(t);
  return result;
}

/* ---- uniform and normal ---- */

tl_Tensor *tlo_rand(tl_Ints size, tli_Generator *generator, tl_DType dtype, tl_Device device) {
  return filled("rand", TLK_UNIFORM, tli_new("rand", size, dtype, device), 0, 1, generator);
}

tl_Tensor *tlo_randn(tl_Ints size, tli_Generator *generator, tl_DType dtype, tl_Device device) {
  return filled("randn", TLK_NORMAL, tli_new("randn", size, dtype, device), 0, 1, generator);
}

tl_Tensor *tlo_rand_like(tl_Tensor *self, tli_Generator *generator, tl_DType dtype,
                         tl_Device device, const char *memory_format) {
  return filled("rand_like", TLK_UNIFORM,
                tli_new_like("rand_like", self, dtype, device, memory_format), 0, 1, generator);
}

tl_Tensor *tlo_randn_like(tl_Tensor *self, tli_Generator *generator, tl_DType dtype,
                          tl_Device device, const char *memory_format) {
  return filled("randn_like", TLK_NORMAL,
                tli_new_like("randn_like", self, dtype, device, memory_format), 0, 1, generator);
}

/* Computes mean + std * z with random normal z. z has the shape, dtype and device of `like`. */
static tl_Tensor *scaled_normal(tl_Tensor *like, tl_Tensor *mean, tl_Tensor *std,
                                tli_Generator *g) {
  bool mode = tli_set_grad_mode(false);
  tli_Chain c = {0};
  tl_Tensor *standard = TLI_STEP(&c, tlo_randn_like(like, g, TL_NODTYPE, TLI_NODEVICE, NULL));
  tl_Tensor *result = tli_chain_end(&c, chain_add(&c, chain_mul(&c, standard, std), mean));
  tli_set_grad_mode(mode);
  return result;
}

tl_Tensor *tlo_normal(tl_Tensor *mean, tl_Tensor *std, tli_Generator *generator) {
  tl_Tensor *both[2] = {mean, std};
  int64_t sizes[TL_MAX_DIMS];
  int ndim;
  TL_TRY_NULL(tli_check_range("normal", "std", std, 0, INFINITY));
  TL_TRY_NULL(tli_broadcast_shape("normal", both, 2, &ndim, sizes));
  tl_Tensor *like = tli_empty(tli_result_dtype(both, 2), tli_device(mean), ndim, sizes);
  tl_Tensor *result = like ? scaled_normal(like, mean, std, generator) : NULL;
  tli_release(like);
  return result;
}

tl_Tensor *tlo_normal_mean(tl_Tensor *mean, double std, tli_Generator *generator) {
  TL_TRY_NULL(check(std >= 0, "normal", "a standard deviation of at least 0", std));
  tl_Tensor *number = tli_number(tli_float(std));
  tl_Tensor *result = number ? scaled_normal(mean, mean, number, generator) : NULL;
  tli_release(number);
  return result;
}

tl_Tensor *tlo_normal_std(double mean, tl_Tensor *std, tli_Generator *generator) {
  TL_TRY_NULL(tli_check_range("normal", "std", std, 0, INFINITY));
  tl_Tensor *number = tli_number(tli_float(mean));
  tl_Tensor *result = number ? scaled_normal(std, number, std, generator) : NULL;
  tli_release(number);
  return result;
}

tl_Tensor *tlo_normal_size(double mean, double std, tl_Ints size, tli_Generator *generator,
                           tl_DType dtype, tl_Device device) {
  TL_TRY_NULL(check(std >= 0, "normal", "a standard deviation of at least 0", std));
  return filled("normal", TLK_NORMAL, tli_new("normal", size, dtype, device), mean, std, generator);
}

/* ---- from probabilities ---- */

static bool check_probability(const char *op, double p) {
  return check(p >= 0 && p <= 1, op, "a probability from 0 to 1", p);
}

bool tli_op_bernoulli_(tl_Tensor *self, double p, tli_Generator *generator) {
  TL_TRY(check_probability("bernoulli_", p));
  return draw(TLK_BERNOULLI, self, tli_float(p), tli_none(), generator);
}

tl_Tensor *tli_op_bernoulli_p(tl_Tensor *self, double p, tli_Generator *generator) {
  TL_TRY_NULL(check_probability("bernoulli", p));
  tl_Tensor *t = tli_empty_like(self, (tl_DType)self->dtype);
  if (t && !draw(TLK_BERNOULLI, t, tli_float(p), tli_none(), generator)) {
    tli_release(t);
    return NULL;
  }
  return t;
}

static bool check_probabilities(const char *op, const char *argument, tl_Tensor *p) {
  if (!tli_is_float((tl_DType)p->dtype))
    return tli_fail(TL_EDTYPE, "%s: expected a floating tensor of probabilities, got %s", op,
                    tl_dtype_name((tl_DType)p->dtype));
  return tli_check_range(op, argument, p, 0, 1);
}

/* Draws a bool for each element, which is true with the probability in p. */
static bool try_each(const char *op, const char *argument, tl_Tensor *out, tl_Tensor *p,
                     tli_Generator *g) {
  static const tli_PointwiseSpec lt = {"bernoulli",      TLK_lt, 2,    0,
                                       TLI_TYPES_NUMBER, true,   true, TLI_COMPLEX_REFUSED};
  TL_TRY(check_probabilities(op, argument, p));
  tl_DType dtype = p->dtype == TL_F64 ? TL_F64 : TL_F32;
  tl_Device device = tli_device(out);
  tli_Chain c = {0};
  tl_Tensor *drawn = TLI_STEP(&c, tli_empty(dtype, device, out->ndim, out->sizes));
  TLI_DO(&c, draw(TLK_UNIFORM, drawn, tli_float(0), tli_float(1), g));
  tl_Tensor *cast = TLI_STEP(&c, tli_op_to_dtype(p, dtype));
  tl_Tensor *less = TLI_STEP(&c, tli_empty(TL_BOOL, device, out->ndim, out->sizes));
  TLI_DO(&c, tli_pointwise_into(&lt, (tl_Tensor *[]){drawn, cast}, NULL, less));
  TLI_DO(&c, tli_copy(out, less));
  return tli_chain_end_all(&c, NULL, 0);
}

bool tli_op_bernoulli__each(tl_Tensor *self, tl_Tensor *p, tli_Generator *generator) {
  return try_each("bernoulli_", "p", self, p, generator);
}

tl_Tensor *tli_op_bernoulli(tl_Tensor *self, tli_Generator *generator) {
  tl_Tensor *t = tli_empty_like(self, (tl_DType)self->dtype);
  if (t && !try_each("bernoulli", "self", t, self, generator)) {
    tli_release(t);
    return NULL;
  }
  return t;
}
