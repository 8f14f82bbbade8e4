/*
** random.cu - random numbers. The Philox generator makes blocks of four 32-bit words. Each thread
** computes some of these blocks and converts them to the same random numbers as the CPU. A float is
** made of one word, and a double or an integer of two words. Normal numbers are made in pairs, by
** the method of Box and Muller: the words of two numbers give two normal numbers.
*/
#include "core/kernel/random.h"
#include "kernels/cpu/random/minus_log.h"
#include "kernels/cuda/cuda.cuh"

namespace {

#define RANDOM_THREADS 256
#define PI2 6.28318530717958647692

/* ---- uniform numbers for the other distributions ---- */

/* Converts a word to a number in (0, 1). The number's distance from 0 and its distance from 1 are
** both rounded at most once. */
DEVICE double from_zero(uint64_t w) { return ((double)(w >> 1) + 0.5) * 0x1p-63; }
/* Converts a word to a number in (-1/2, 1/2). */
DEVICE float centred(uint32_t w) { return ((float)(int32_t)(w ^ 0x80000000u) + 0.5f) * 0x1p-32f; }
DEVICE double centred(uint64_t w) {
  return ((double)(int64_t)(w ^ 0x8000000000000000u) + 0.5) * 0x1p-64;
}

/* Returns -log of a uniform number. The logarithm is computed from the distance to the nearer end
** of (0, 1), so that the result is never 0. */
DEVICE float minus_log(uint32_t w) { return tlk_minus_log(w); }
DEVICE double minus_log(uint64_t w) {
  return w >> 63 ? -log1p(-from_zero(~w)) : -log(from_zero(w));
}

/* Computes the sine and the cosine of an angle in [-pi, pi], which is n pi/2 + r with |r| <= pi/4.
** pi/2 is split into three parts. Subtracting n times the first part is exact, so float is precise
** enough here; the functions for any angle need double for this reduction. */
DEVICE void sine_cosine(float angle, float *sine, float *cosine) {
  /* adding 1.5 * 2^23 leaves n in the low bits */
  float shifted = fmaf(angle, 0.636619747f, 12582912.0f);
  float n = shifted - 12582912.0f;
  uint32_t quarter = tlk_bits(shifted);
  float r = fmaf(-n, 1.57079637f, angle);
  r = fmaf(-n, -4.37113883e-8f, r);
  r = fmaf(-n, -1.71512451e-15f, r);
  float s = r + tlk_sin_rest(r), c = 1 + tlk_cos_rest(r);
  *sine = tlk_from_bits(tlk_bits(quarter & 1 ? c : s) ^ (quarter & 2) << 30);
  *cosine = tlk_from_bits(tlk_bits(quarter & 1 ? s : c) ^ ((quarter + 1) & 2) << 30);
}
DEVICE void sine_cosine(double angle, double *sine, double *cosine) {
  *sine = sin(angle);
  *cosine = cos(angle);
}
DEVICE float tangent(float x) { return tlk_tanf_fast(x); }
DEVICE float power_of_e(float x) { return tlk_expf(x); }
DEVICE double tangent(double x) { return tan(x); }
DEVICE double power_of_e(double x) { return exp(x); }

/* ---- distributions: converting the words of a block ---- */

/* Converts words that are as wide as T to numbers. Each word gives one number. */
template <class T, class Word> struct Floats {
  typedef T C;
  enum { per_block = 16 / sizeof(Word) };
  tlk_Distribution distribution;
  int bits; /* number of random bits in a uniform number */
  T a, b;
  uint64_t below; /* for Bernoulli numbers: the limit below which a word gives 1 */

  __device__ __forceinline__ void make(const uint32_t *words, T (&out)[per_block]) const {
    Word w[per_block];
    memcpy(w, words, sizeof w);
    switch (distribution) {
    case TLK_UNIFORM: uniform(w, out); return;
    case TLK_NORMAL: normal(w, out); return;
    case TLK_LOG_NORMAL:
      normal(w, out);
      for (T &x : out) x = power_of_e(x);
      return;
    case TLK_EXPONENTIAL:
#pragma unroll
      for (int i = 0; i < per_block; i++) out[i] = minus_log(w[i]) / a;
      return;
    case TLK_CAUCHY:
#pragma unroll
      for (int i = 0; i < per_block; i++) out[i] = a + b * tangent((T)(PI2 / 2) * centred(w[i]));
      return;
    default:
#pragma unroll
      for (int i = 0; i < per_block; i++) out[i] = w[i] < below ? 1 : 0;
      return;
    }
  }
  __device__ __forceinline__ void uniform(const Word (&w)[per_block], T (&out)[per_block]) const {
    T scale = (T)1 / (T)((uint64_t)1 << bits);
#pragma unroll
    for (int i = 0; i < per_block; i++)
      out[i] = a + (b - a) * ((T)(w[i] >> (8 * sizeof(Word) - bits)) * scale);
  }
  __device__ __forceinline__ void normal(const Word (&w)[per_block], T (&out)[per_block]) const {
#pragma unroll
    for (int i = 0; i < per_block; i += 2) {
      T radius = b * sqrt(2 * minus_log(w[i])), sine, cosine;
      sine_cosine((T)PI2 * centred(w[i + 1]), &sine, &cosine);
      out[i] = a + radius * cosine;
      out[i + 1] = a + radius * sine;
    }
  }
};

struct Geometric {
  typedef double C;
  enum { per_block = 4 };
  double scale;

  __device__ __forceinline__ void make(const uint32_t *words, double (&out)[per_block]) const {
#pragma unroll
    for (int i = 0; i < per_block; i++) {
      double trials = ceil(minus_log((uint64_t)words[i] << 32 | 0x80000000u) * scale);
      out[i] = trials >= 1 ? trials : 1;
    }
  }
};

/* Draws integers. Each integer is the high half of the product of a word and the size of the
** range. */
struct Integers {
  typedef int64_t C;
  enum { per_block = 2 };
  uint64_t a, range;

  __device__ __forceinline__ void make(const uint32_t *words, int64_t (&out)[per_block]) const {
#pragma unroll
    for (int i = 0; i < per_block; i++) {
      uint64_t w = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
      out[i] = (int64_t)(a + (range ? __umul64hi(w, range) : w));
    }
  }
};

/* ---- filling ---- */

struct Target {
  char *out;
  int dtype, bytes;
  /* whether the addresses to which blocks of numbers are written are aligned for stores of
  ** vectors */
  bool vectors;
  int64_t n;
  uint64_t seed, block;
  /* NULL outside of graphs. In a graph: the seed, and a number that is added to `block`; both are
  ** written before each replay. */
  const uint64_t *state;
};

template <class Maker>
__global__ void __launch_bounds__(RANDOM_THREADS, 4)
    random_kernel(Target t, const __grid_constant__ Maker maker) {
  enum { N = Maker::per_block };
  if (t.state) {
    t.seed = t.state[0];
    t.block += t.state[1];
  }
  for (int64_t b = thread_index(); b * N < t.n; b += thread_count()) {
    uint32_t words[4];
    typename Maker::C x[N];
    tli_philox(t.seed, t.block + (uint64_t)b, words);
    maker.make(words, x);
    char *to = t.out + b * N * t.bytes;
    if (t.vectors && b * N + N <= t.n) {
      store_vector(to, t.dtype, x);
      continue;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
      if (b * N + i < t.n) store_any(to + i * t.bytes, t.dtype, x[i]);
  }
}

template <class Maker> bool fill(const struct tlk_random *call, const Maker &maker) {
  int64_t bytes = dtype_bytes(call->out.dtype), room = bytes * Maker::per_block;
  Target t = {(char *)call->out.data,
              call->out.dtype,
              (int)bytes,
              aligned(call->out.data, (size_t)(room < 16 ? room : 16)),
              call->n,
              call->seed,
              call->block,
              call->state};
  unsigned grid = blocks_for(call->cx, divide_up(call->n, Maker::per_block), RANDOM_THREADS, 16);
  return launch(call->cx, random_kernel<Maker>, dim3(grid), RANDOM_THREADS, 0, t, maker);
}

double real_of(const tl_Scalar &s) { return s.kind == TL_FLOATING ? s.f : (double)s.i; }

/* Returns the number of random bits in a uniform number. A number has no more bits than the dtype
** can represent, so that rounding never turns a number in [0, 1) into 1. */
int uniform_bits(int dtype) {
  return dtype == TL_F64 ? 53 : dtype == TL_F16 ? 11 : dtype == TL_BF16 ? 8 : 24;
}

} // namespace

bool tlk_random(const struct tlk_random *call) {
  double a = real_of(call->a), b = real_of(call->b);
  uint64_t below = a >= 1 ? (uint64_t)1 << 32 : a > 0 ? (uint64_t)(a * 0x1p32) : 0;
  int dtype = call->out.dtype, bits = uniform_bits(dtype);
  if (call->distribution == TLK_INTEGER)
    return fill(call, Integers{(uint64_t)call->a.i, (uint64_t)call->b.i});
  if (call->distribution == TLK_GEOMETRIC) return fill(call, Geometric{-1 / log1p(-a)});
  if (dtype == TL_F64 && call->distribution != TLK_BERNOULLI)
    return fill(call, Floats<double, uint64_t>{call->distribution, bits, a, b, 0});
  return fill(call, Floats<float, uint32_t>{call->distribution, bits, (float)a, (float)b, below});
}
