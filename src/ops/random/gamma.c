/*
** gamma.c - random numbers from gamma and Dirichlet distributions. For tensors on any device, the
** numbers are drawn on the CPU in double precision. The functions draw logarithms, because the
** numbers themselves underflow if shapes are small.
*/
#include "core/kernel/elementary.h"
#include "core/platform/parallel.h"
#include "ops/chain.h"
#include "ops/random/source.h"

#define GRAIN 256 /* number of elements in a thread's unit of work */

/* Draws a number from the standard normal distribution by the method of Box and Muller. */
static double normal(tli_Source *s) {
  double radius = sqrt(-2 * tli_log(source_uniform(s)));
  return radius * tli_cos(6.283185307179586477 * source_uniform(s));
}

/* Draws the logarithm of a gamma-distributed number by the method of G. Marsaglia and W. W. Tsang,
** A simple method for generating gamma variables, 2000. For a shape below 1, a number for shape + 1
** is drawn and multiplied by a power of a uniform number. */
static double draw_log(double shape, tli_Source *s) {
  double less = shape < 1 ? tli_log(source_uniform(s)) / shape : 0;
  double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    double x = normal(s), root = 1 + c * x;
    if (root <= 0) continue;
    double v = root * root * root;
    if (tli_log(source_uniform(s)) < 0.5 * x * x + d - d * v + d * tli_log(v))
      return tli_log(d * v) + less;
  }
}

typedef struct Draw {
  /* an array of shape parameters; the logarithm of the random number replaces each of them */
  double *shapes;
  uint64_t seed, block;
} Draw;

static void draw(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  for (int64_t i = begin; i < end; i++) {
    tli_Source s = source_of(d->seed, d->block + (uint64_t)i);
    double shape = d->shapes[i];
    d->shapes[i] = shape == 0 ? -INFINITY : isinf(shape) ? shape : draw_log(shape, &s);
  }
}

static bool draw_all(tl_Tensor *shapes, tli_Generator *g) {
  Draw d = {tli_data(shapes), g->seed, tli_generator_take(g, shapes->numel, 1)};
  return tli_parallel_try(shapes->numel, GRAIN, draw, &d);
}

/* Returns the logarithms of gamma-distributed numbers for the shapes in self, as float64 on the
** CPU. */
static tl_Tensor *logs(tli_Chain *c, const char *op, tl_Tensor *self, tli_Generator *generator) {
  TLI_DO(c, tli_check_range(op, "self", self, 0, INFINITY));
  tl_Tensor *shapes = TLI_STEP(c, tlo_to(self, TL_F64, false, true, TLI_CPU, NULL));
  tl_Tensor *dense = TLI_STEP(c, tli_op_to_row_major(shapes));
  TLI_DO(c, draw_all(dense, tli_generator_of(generator, tli_device(self))));
  return dense;
}

static bool is_drawn_from(const char *op, tl_Tensor *self) {
  if (tli_is_float((tl_DType)self->dtype)) return true;
  return tli_fail(TL_EDTYPE, "%s: self: expected a floating tensor, got %s", op,
                  tl_dtype_name((tl_DType)self->dtype));
}

/* Returns an uninitialised result for a tensor that has no values, such as a meta tensor. */
static tl_Tensor *unknown(tl_Tensor *self) {
  return tli_empty((tl_DType)self->dtype, tli_device(self), self->ndim, self->sizes);
}

static tl_Tensor *end(tli_Chain *c, tl_Tensor *numbers, tl_Tensor *self) {
  return tli_chain_end(
      c, TLI_STEP(c, tlo_to(numbers, (tl_DType)self->dtype, false, false, tli_device(self), NULL)));
}

tl_Tensor *tli_op__standard_gamma(tl_Tensor *self, tli_Generator *generator) {
  if (!is_drawn_from("_standard_gamma", self)) return NULL;
  if (!tli_has_values(self)) return unknown(self);
  tli_Chain c = {0};
  tl_Tensor *drawn = logs(&c, "_standard_gamma", self, generator);
  return end(&c, TLI_STEP(&c, tlo_exp(drawn)), self);
}

tl_Tensor *tli_op__sample_dirichlet(tl_Tensor *self, tli_Generator *generator) {
  if (!is_drawn_from("_sample_dirichlet", self)) return NULL;
  if (self->ndim < 1)
    return tli_fail_null(TL_ESHAPE,
                         "_sample_dirichlet: self: expected at least 1 dimension, got 0");
  if (!tli_has_values(self)) return unknown(self);
  tli_Chain c = {0};
  tl_Tensor *drawn = logs(&c, "_sample_dirichlet", self, generator);
  return end(&c, TLI_STEP(&c, tlo_softmax(drawn, -1, TL_NODTYPE)), self);
}
