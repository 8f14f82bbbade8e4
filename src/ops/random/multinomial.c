/*
** multinomial.c - draws positions with probabilities proportional to weights. For tensors on any
** device, this is done on the CPU, row by row and in double precision.
*/
#include <math.h>
#include <stdlib.h>

#include "core/kernel/elementary.h"
#include "ops/chain.h"

/* Returns uniform number i, in (0, 1), of the stretch of random numbers that begins at `block`. */
static double uniform(const tli_Generator *g, uint64_t block, int64_t i) {
  uint32_t words[4];
  tli_philox(g->seed, block + (uint64_t)i / 2, words);
  uint64_t word = words[2 * (i % 2)] | (uint64_t)words[2 * (i % 2) + 1] << 32;
  return ((double)(word >> 12) + 0.5) * 0x1p-52;
}

static bool check_row(const double *weights, int64_t n, int64_t wanted, bool replacement) {
  double total = 0;
  int64_t possible = 0;
  for (int64_t c = 0; c < n; c++) {
    if (!(weights[c] >= 0) || isinf(weights[c]))
      return tli_fail(TL_EARG, "multinomial: expected finite weights of at least 0, got %g",
                      weights[c]);
    total += weights[c];
    possible += weights[c] > 0;
  }
  if (!(total > 0) || isinf(total))
    return tli_fail(TL_EARG, "multinomial: expected weights with a sum greater than 0, got %g",
                    total);
  if (replacement || possible >= wanted) return true;
  return tli_fail(TL_EARG,
                  "multinomial: expected at least %" PRId64
                  " weights greater than 0 to draw without replacement, got %" PRId64,
                  wanted, possible);
}

/* ---- with replacement: binary search in the cumulative sums ---- */

static void draw_again(double *weights, int64_t n, int64_t *out, int64_t wanted,
                       const tli_Generator *g, uint64_t block) {
  int64_t last = 0; /* the last position with a positive weight */
  double total = 0;
  for (int64_t c = 0; c < n; c++) {
    if (weights[c] > 0) last = c;
    weights[c] = total += weights[c];
  }
  for (int64_t k = 0; k < wanted; k++) {
    double target = uniform(g, block, k) * total;
    int64_t low = 0, high = last;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (weights[middle] > target)
        high = middle;
      else
        low = middle + 1;
    }
    out[k] = low + 1;
  }
}

/* ---- without replacement: exponential waiting times of rate `weight`; the earliest win ---- */

typedef struct Arrival {
  double time;
  int64_t position;
} Arrival;

static int earlier(const void *a_, const void *b_) {
  const Arrival *a = a_, *b = b_;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return a->position < b->position ? -1 : a->position > b->position;
}

static void draw_once(const double *weights, int64_t n, Arrival *arrivals, int64_t *out,
                      int64_t wanted, const tli_Generator *g, uint64_t block) {
  for (int64_t c = 0; c < n; c++) {
    double time = weights[c] > 0 ? -tli_log(uniform(g, block, c)) / weights[c] : INFINITY;
    arrivals[c] = (Arrival){time, c};
  }
  qsort(arrivals, (size_t)n, sizeof *arrivals, earlier);
  for (int64_t k = 0; k < wanted; k++) out[k] = arrivals[k].position + 1;
}

static bool draw_rows(double *weights, int64_t rows, int64_t n, int64_t *out, int64_t wanted,
                      bool replacement, tli_Generator *g) {
  Arrival *arrivals = NULL;
  size_t bytes = replacement ? 0 : (size_t)n * sizeof *arrivals;
  if (!replacement && (arrivals = tli_alloc(bytes)) == NULL) return false;
  bool ok = true;
  for (int64_t r = 0; ok && r < rows; r++) {
    double *row = weights + r * n;
    ok = check_row(row, n, wanted, replacement);
    if (!ok) break;
    uint64_t block = tli_generator_take(g, replacement ? wanted : n, 2);
    if (replacement)
      draw_again(row, n, out + r * wanted, wanted, g, block);
    else
      draw_once(row, n, arrivals, out + r * wanted, wanted, g, block);
  }
  tli_free(arrivals, bytes);
  return ok;
}

/* ---- the operator ---- */

static bool check(const tl_Tensor *self, int64_t wanted, bool replacement) {
  if (self->ndim < 1 || self->ndim > 2)
    return tli_fail(TL_ESHAPE,
                    "multinomial: expected a vector or a matrix of weights, got shape %s",
                    tli_sizes_str(self));
  if (!tli_is_float((tl_DType)self->dtype))
    return tli_fail(TL_EDTYPE, "multinomial: expected a floating tensor, got %s",
                    tl_dtype_name((tl_DType)self->dtype));
  if (wanted < 1)
    return tli_fail(TL_EARG, "multinomial: expected at least 1 sample, got %" PRId64, wanted);
  int64_t n = self->sizes[self->ndim - 1];
  if (replacement || wanted <= n) return true;
  return tli_fail(TL_EARG,
                  "multinomial: %" PRId64 " samples cannot be drawn from %" PRId64
                  " positions without replacement",
                  wanted, n);
}

tl_Tensor *tlo_multinomial(tl_Tensor *self, int64_t num_samples, bool replacement,
                           tli_Generator *generator) {
  TL_TRY_NULL(check(self, num_samples, replacement));
  int64_t n = self->sizes[self->ndim - 1], rows = self->ndim == 2 ? self->sizes[0] : 1;
  int64_t sizes[2] = {rows, num_samples};
  tl_Ints shape = self->ndim == 1 ? (tl_Ints){1, sizes + 1} : (tl_Ints){2, sizes};
  if (!tli_has_values(self)) return tli_new("multinomial", shape, TL_I64, tli_device(self));
  tli_Chain c = {0};
  tl_Tensor *moved = TLI_STEP(&c, tlo_to(self, TL_F64, false, false, TLI_CPU, NULL));
  tl_Tensor *p = TLI_STEP(&c, tli_op_to_row_major(moved));
  tl_Tensor *drawn = TLI_STEP(&c, tli_new("multinomial", shape, TL_I64, TLI_CPU));
  tli_Generator *g = tli_generator_of(generator, tli_device(self));
  TLI_DO(&c, draw_rows(tli_data(p), rows, n, tli_data(drawn), num_samples, replacement, g));
  return tli_chain_end(
      &c, TLI_STEP(&c, tlo_to(drawn, TL_NODTYPE, false, false, tli_device(self), NULL)));
}
