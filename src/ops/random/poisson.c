/*
** poisson.c - numbers of a Poisson distribution. They are drawn on the CPU, in double precision,
** for tensors on every device. The numbers of an element depend only on its block of the
** generator's stream, so the results do not depend on the number of threads.
*/
#include <math.h>

#include "core/platform/parallel.h"
#include "ops/chain.h"

#define GRAIN 512 /* number of elements that a thread takes at a time */

/* An endless sequence of uniform numbers for one element. It begins with the element's block in the
** generator's stream; the block is also the seed of a second stream, whose numbers follow. */
typedef struct Source {
  uint64_t seed, next;
  uint32_t words[4];
  int left; /* number of words of the present block that are not used yet */
} Source;

static uint64_t word_of(const Source *s, int i) {
  return s->words[2 * i] | (uint64_t)s->words[2 * i + 1] << 32;
}

static Source source_of(uint64_t seed, uint64_t block) {
  Source s = {.left = 2};
  tli_philox(seed, block, s.words);
  s.seed = word_of(&s, 0);
  return s;
}

/* Returns a number in (0, 1). */
static double uniform(Source *s) {
  if (s->left == 0) {
    tli_philox(s->seed, s->next++, s->words);
    s->left = 2;
  }
  return ((double)(word_of(s, --s->left) >> 12) + 0.5) * 0x1p-52;
}

/* Inverts the distribution function, which is summed up from 0 on. */
static double invert(double rate, Source *s) {
  double u = uniform(s), term = exp(-rate), sum = term, k = 0;
  while (u > sum && term > 0) {
    k++;
    term *= rate / k;
    sum += term;
  }
  return k;
}

/* Draws by algorithm PTRS of W. Hoermann, The transformed rejection method for generating Poisson
** random variables, 1993, for rates of at least 10. */
static double reject(double rate, Source *s) {
  double root = sqrt(rate), log_rate = log(rate);
  double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = uniform(s) - 0.5, v = uniform(s);
    double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= k * log_rate - rate - lgamma(k + 1))
      return k;
  }
}

typedef struct Draw {
  double *rates; /* the array has rates, and each is replaced by the number drawn */
  uint64_t seed, block;
} Draw;

static void draw(void *context, int64_t begin, int64_t end) {
  const Draw *d = context;
  for (int64_t i = begin; i < end; i++) {
    double rate = d->rates[i];
    if (rate == 0 || isinf(rate)) continue; /* in these cases the number drawn equals the rate */
    Source s = source_of(d->seed, d->block + (uint64_t)i);
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
