/*
** sequence.c - evenly spaced numbers. Each number is computed in int64, float64 or float32 from its
** position alone and then converted. So rounding errors do not accumulate, and the result does not
** depend on how threads share the work.
*/
#include <math.h>

#include "core/platform/parallel.h"
#include "kernels/cpu/cpu.h"

typedef struct Sequence {
  tlk_Array out;
  int64_t n;
  tl_DType compute;
  int64_t i0, istep;
  double start, step, end;
  /* the index from which linspace counts steps back from `end`; lower indices count from `start` */
  int64_t half;
} Sequence;

static void whole_numbers(const Sequence *s, int64_t at, int64_t n, int64_t *out) {
  uint64_t first = (uint64_t)s->i0 + (uint64_t)at * (uint64_t)s->istep;
  for (int64_t i = 0; i < n; i++) out[i] = (int64_t)(first + (uint64_t)i * (uint64_t)s->istep);
}

static void real_numbers(const Sequence *s, int64_t at, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i++) out[i] = s->start + (double)(at + i) * s->step;
}

/* Computes start + i * step for the n numbers i = `first`, `first + by`, and so on. A fused
** multiply-add rounds each result only once, as in PyTorch. On processors without this instruction,
** fma of the C library gives the same results, one at a time. */
#define STEPS(name, attributes, real, fused)                                             \
  static attributes void name(double start, double step, double first, double by, int n, \
                              void *out) {                                               \
    for (int i = 0; i < n; i++)                                                          \
      ((real *)out)[i] = fused((real)step, (real)(first + by * i), (real)start);         \
  }

STEPS(steps_f64, , double, fma)
STEPS(steps_f32, , float, fmaf)
#if defined(__x86_64__) && defined(__GNUC__)
#define FUSED __attribute__((target("avx2,fma")))
STEPS(fused_f64, FUSED, double, fma)
STEPS(fused_f32, FUSED, float, fmaf)
#endif

static void steps(const Sequence *s, double start, double step, double first, double by, int n,
                  void *out) {
#ifdef FUSED
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    (s->compute == TL_F32 ? fused_f32 : fused_f64)(start, step, first, by, n, out);
    return;
  }
#endif
  (s->compute == TL_F32 ? steps_f32 : steps_f64)(start, step, first, by, n, out);
}

/* Computes n elements from index `at` on. Elements before `half` are `start` plus a number of
** steps. The others are `end` minus a number of steps, so that the last element is exact. */
static void spaced(const Sequence *s, int64_t at, int64_t n, void *out) {
  int64_t before = s->half < at ? 0 : s->half - at;
  if (before > n) before = n;
  char *rest = (char *)out + before * tli_dtype_bytes[s->compute];
  steps(s, s->start, s->step, (double)at, 1, (int)before, out);
  steps(s, s->end, -s->step, (double)(s->n - 1 - at - before), -1, (int)(n - before), rest);
}

static void run(void *context, int64_t begin, int64_t end) {
  const Sequence *s = context;
  int64_t size = tli_dtype_bytes[s->out.dtype];
  tlk_Convert convert = tlk_isa()->convert[s->compute][s->out.dtype];
  union {
    int64_t whole[TLK_CHUNK];
    double real[TLK_CHUNK];
  } buffer;
  for (int64_t at = begin; at < end; at += TLK_CHUNK) {
    int64_t n = end - at < TLK_CHUNK ? end - at : TLK_CHUNK;
    if (s->compute == TL_I64)
      whole_numbers(s, at, n, buffer.whole);
    else if (s->half < s->n)
      spaced(s, at, n, &buffer);
    else
      real_numbers(s, at, n, buffer.real);
    convert(n, (char *)s->out.data + at * size, &buffer);
  }
}

bool tlk_iota(const struct tlk_iota *call) {
  Sequence s = {.out = call->out, .n = call->n, .half = call->n, .compute = TL_F64};
  if (call->start.kind != TL_FLOATING && call->step.kind != TL_FLOATING) {
    s.compute = TL_I64;
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
                .step = call->step,
                .end = call->end,
                .half = call->n / 2,
                .compute = call->compute};
  return tli_parallel_try(call->n, TLK_GRAIN, run, &s);
}
