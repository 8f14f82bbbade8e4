/*
** binomial.c - random numbers from binomial distributions. For tensors on any device, they are
** drawn on the CPU in double precision.
*/
#include "core/kernel/elementary.h"
#include "core/platform/parallel.h"
#include "ops/chain.h"
#include "ops/random/source.h"

#define GRAIN 512 /* number of elements in a thread's unit of work */

/* Draws by inverting the distribution function, which is summed from 0 upwards. */
static double invert(double n, double p, tli_Source *s) {
  double u = source_uniform(s), term = tli_exp(n * tli_log1p(-p)), sum = term, odds = p / (1 - p),
         k = 0;
  while (u > sum && k < n) {
    term *= (n - k) / (k + 1) * odds;
    sum += term;
    k++;
  }
  return k;
}

/* Draws by algorithm BTRS of W. Hoermann, The generation of binomial random variates, 1993. The
** algorithm requires n p >= 10 and p <= 0.5. */
static double reject(double n, double p, tli_Source *s) {
  double spread = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread;
  double a = -0.0873 + 0.0248 * b + 0.01 * p, centre = n * p + 0.5, v_r = 0.92 - 4.2 / b;
  double alpha = (2.83 + 5.1 / b) * spread, mode = floor((n + 1) * p),
         log_odds = tli_log(p / (1 - p));
  double at_mode = tli_lgamma(mode + 1) + tli_lgamma(n - mode + 1);
  for (;;) {
    double u = source_uniform(s) - 0.5, v = source_uniform(s);
    double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + centre);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= v_r) return k;
    double bound = at_mode - tli_lgamma(k + 1) - tli_lgamma(n - k + 1) + (k - mode) * log_odds;
    if (tli_log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

typedef struct Draw {
  double *counts; /* an array of numbers of trials; the number of successes replaces each of them */
  const double *probs;
  uint64_t seed, block;
} Draw;

static void draw(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  for (int64_t i = begin; i < end; i++) {
    tli_Source s = source_of(d->seed, d->block + (uint64_t)i);
    double n = d->counts[i], p = d->probs[i], rare = p <= 0.5 ? p : 1 - p;
    double k = n * rare < 10 ? invert(n, rare, &s) : reject(n, rare, &s);
    d->counts[i] = p <= 0.5 ? k : n - k;
  }
}

static bool draw_all(tl_Tensor *counts, tl_Tensor *probs, tli_Generator *g) {
  Draw d = {tli_data(counts), tli_data(probs), g->seed, tli_generator_take(g, counts->numel, 1)};
  return tli_parallel_try(counts->numel, GRAIN, draw, &d);
}

static bool all_whole(tl_Tensor *counts) {
  const double *n = tli_data(counts);
  for (int64_t i = 0; i < counts->numel; i++)
    if (n[i] != floor(n[i]))
      return tli_fail(TL_EARG, "binomial: count: expected whole numbers, got %g", n[i]);
  return true;
}

tl_Tensor *tli_op_binomial(tl_Tensor *count, tl_Tensor *prob, tli_Generator *generator) {
  tl_DType dtype = (tl_DType)prob->dtype;
  if (!tli_is_float(dtype))
    return tli_fail_null(TL_EDTYPE, "binomial: prob: expected a floating tensor, got %s",
                         tl_dtype_name(dtype));
  tli_Chain c = {0};
  if (!tli_has_values(count) || !tli_has_values(prob)) {
    tl_Tensor *sum = chain_add(&c, chain_to(&c, count, dtype), prob);
    return tli_chain_end(&c, TLI_STEP(&c, tli_op_to_row_major(sum)));
  }
  tl_Tensor *probs = TLI_STEP(&c, tlo_to(prob, TL_F64, false, false, TLI_CPU, NULL));
  tl_Tensor *counts = TLI_STEP(&c, tlo_to(count, TL_F64, false, false, TLI_CPU, NULL));
  TLI_DO(&c, tli_check_range("binomial", "prob", probs, 0, 1));
  TLI_DO(&c, tli_check_range("binomial", "count", counts, 0, 0x1p53));
  /* Adding 0 broadcasts counts and probabilities to their common shape. */
  tl_Tensor *dense = chain_add(&c, counts, chain_with(&c, tlo_mul, probs, 0));
  tl_Tensor *chances = chain_add(&c, probs, chain_with(&c, tlo_mul, counts, 0));
  dense = TLI_STEP(&c, tli_op_to_row_major(dense));
  chances = TLI_STEP(&c, tli_op_to_row_major(chances));
  TLI_DO(&c, all_whole(dense));
  TLI_DO(&c, draw_all(dense, chances, tli_generator_of(generator, tli_device(prob))));
  return tli_chain_end(&c,
                       TLI_STEP(&c, tlo_to(dense, dtype, false, false, tli_device(prob), NULL)));
}
