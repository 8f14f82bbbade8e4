/*
** sequence.c - evenly spaced numbers. Each number is computed in int64 or float64 from its position
** alone and then converted. So rounding errors do not accumulate, and the result does not depend on
** how threads share the work.
*/
#include "core/platform/parallel.h"
#include "kernels/cpu/cpu.h"

typedef struct Sequence {
  tlk_Array out;
  int64_t n;
  bool whole; /* whether the numbers are computed in int64 */
  int64_t i0, istep;
  double start, step, end;
  /* elements from this position on are computed backwards from the end of the sequence */
  int64_t half;
} Sequence;

static void whole_numbers(const Sequence *s, int64_t at, int64_t n, int64_t *out) {
  uint64_t first = (uint64_t)s->i0 + (uint64_t)at * (uint64_t)s->istep;
  for (int64_t i = 0; i < n; i++) out[i] = (int64_t)(first + (uint64_t)i * (uint64_t)s->istep);
}

static void real_numbers(const Sequence *s, int64_t at, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) {
    int64_t k = at + i;
    out[i] =
        k < s->half ? s->start + (double)k * s->step : s->end - (double)(s->n - 1 - k) * s->step;
  }
}

static void run(void *context, int64_t begin, int64_t end) {
  const Sequence *s = context;
  int64_t size = tli_dtype_bytes[s->out.dtype];
  tlk_Convert convert = tlk_isa()->convert[s->whole ? TL_I64 : TL_F64][s->out.dtype];
  union {
    int64_t whole[TLK_CHUNK];
    double real[TLK_CHUNK];
  } buffer;
  for (int64_t at = begin; at < end; at += TLK_CHUNK) {
    int64_t n = end - at < TLK_CHUNK ? end - at : TLK_CHUNK;
    if (s->whole)
      whole_numbers(s, at, n, buffer.whole);
    else
      real_numbers(s, at, n, buffer.real);
    convert(n, (char *)s->out.data + at * size, &buffer);
  }
}

bool tlk_iota(const struct tlk_iota *call) {
  Sequence s = {.out = call->out, .n = call->n, .half = call->n};
  s.whole = call->start.kind != TL_FLOATING && call->step.kind != TL_FLOATING;
  if (s.whole) {
    s.i0 = call->start.i;
    s.istep = call->step.i;
  } else {
    s.start = tli_to_double(call->start);
    s.step = tli_to_double(call->step);
  }
  return tli_parallel_try(call->n, TLK_GRAIN, run, &s);
}

bool tlk_linspace(const struct tlk_linspace *call) {
  Sequence s = {.out = call->out,
                .n = call->n,
                .start = call->start,
                .end = call->end,
                .half = (call->n + 1) / 2};
  s.step = call->n > 1 ? (call->end - call->start) / (double)(call->n - 1) : 0;
  return tli_parallel_try(call->n, TLK_GRAIN, run, &s);
}
