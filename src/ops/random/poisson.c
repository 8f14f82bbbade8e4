/*
** poisson.c - random numbers from Poisson distributions. For tensors on any device, they are drawn
** on the CPU in double precision.
*/
#include "core/kernel/elementary.h"
#include "core/platform/parallel.h"
#include "ops/chain.h"
#include "ops/random/source.h"

#define GRAIN 512 /* number of elements in a thread's unit of work */

/* Draws by inverting the distribution function, which is summed from 0 upwards. */
static double invert(double rate, tli_Source *s) {
  double u = source_uniform(s), term = tli_exp(-rate), sum = term, k = 0;
  while (u > sum && term > 0) {
    k++;
    term *= rate / k;
    sum += term;
  }
  return k;
}

/* Draws by algorithm PTRS of W. Hoermann, The transformed rejection method for generating Poisson
** random variables, 1993. The algorithm requires a rate of at least 10. */
static double reject(double rate, tli_Source *s) {
  double root = sqrt(rate), log_rate = tli_log(rate);
  double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = source_uniform(s) - 0.5, v = source_uniform(s);
    double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (tli_log(v) + tli_log(inverse_alpha) - tli_log(a / (us * us) + b) <=
        k * log_rate - rate - tli_lgamma(k + 1))
      return k;
  }
}

typedef struct Draw {
  double *rates; /* an array of rates; the random number replaces each of them */
  uint64_t seed, block;
} Draw;

static void draw(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  for (int64_t i = begin; i < end; i++) {
    double rate = d->rates[i];
    /* with rate 0 or infinity, the random number equals the rate */
    if (rate == 0 || isinf(rate)) continue;
    tli_Source s = source_of(d->seed, d->block + (uint64_t)i);
    d->rates[i] = rate < 10 ? invert(rate, &s) : reject(rate, &s);
  }
}

static bool draw_all(tl_Tensor *rates, tli_Generator *g) {
  Draw d = {tli_data(rates), g->seed, tli_generator_take(g, rates->numel, 1)};
  return tli_parallel_try(rates->numel, GRAIN, draw, &d);
}

tl_Tensor *tli_op_poisson(tl_Tensor *self, tli_Generator *generator) {
  tl_DType dtype = (tl_DType)self->dtype;
  if (!tli_is_float(dtype))
    return tli_fail_null(TL_EDTYPE, "poisson: expected a floating tensor of rates, got %s",
                         tl_dtype_name(dtype));
  if (!tli_has_values(self)) return tli_empty_like(self, dtype);
  TL_TRY_NULL(tli_check_range("poisson", "self", self, 0, INFINITY));
  tli_Chain c = {0};
  tl_Tensor *rates = TLI_STEP(&c, tlo_to(self, TL_F64, false, true, TLI_CPU, NULL));
  tl_Tensor *dense = TLI_STEP(&c, tli_op_to_row_major(rates));
  TLI_DO(&c, draw_all(dense, tli_generator_of(generator, tli_device(self))));
  return tli_chain_end(&c,
                       TLI_STEP(&c, tlo_to(dense, dtype, false, false, tli_device(self), NULL)));
}
