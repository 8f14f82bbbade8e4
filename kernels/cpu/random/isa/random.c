/*
** random.c - words of the Philox stream, and their conversion to numbers.
**
** The words of many blocks are computed in parallel, so that the compiler can vectorise the rounds
** of Philox, and then stored in the order of the stream. A float or a geometric number uses one
** word, and another double or an integer uses two words. Normal numbers are computed in pairs by
** the method of Box and Muller, from the words of both numbers.
*/
#include "core/kernel/random.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/elementary.h"
#include "kernels/cpu/random/minus_log.h"

#define BLOCKS TLK_RANDOM_BLOCKS
#define WORDS (4 * BLOCKS)

#define PI2 6.28318530717958647692

/* Computes the words of n blocks from block `block` on. The words equal those of tli_philox. */
static inline void rounds(uint64_t seed, uint64_t block, uint32_t n, uint32_t *out) {
  uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
  for (uint32_t j = 0; j < n; j++) {
    uint64_t number = block + j;
    c0[j] = (uint32_t)number;
    c1[j] = (uint32_t)(number >> 32);
    c2[j] = c3[j] = 0;
  }
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    for (uint32_t j = 0; j < n; j++) {
      uint64_t p0 = (uint64_t)c0[j] * 0xD2511F53u;
      uint64_t p1 = (uint64_t)c2[j] * 0xCD9E8D57u;
      c0[j] = (uint32_t)(p1 >> 32) ^ c1[j] ^ k0;
      c1[j] = (uint32_t)p1;
      c2[j] = (uint32_t)(p0 >> 32) ^ c3[j] ^ k1;
      c3[j] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (uint32_t j = 0; j < n; j++) {
    out[4 * j] = c0[j];
    out[4 * j + 1] = c1[j];
    out[4 * j + 2] = c2[j];
    out[4 * j + 3] = c3[j];
  }
}

/* Computes the words of n blocks. Most calls ask for BLOCKS blocks; if this number is a constant,
** the counters stay in registers. */
static void philox(uint64_t seed, uint64_t block, uint32_t n, uint32_t *out) {
  if (n == BLOCKS)
    rounds(seed, block, BLOCKS, out);
  else
    rounds(seed, block, n & ~15u, out);
}

/* ---- uniform numbers for the other distributions ---- */

/* Converts a random word to a number in (-1/2, 1/2). */
static inline float centred_f32(uint32_t w) {
  return ((float)(int32_t)(w ^ 0x80000000u) + 0.5f) * 0x1p-32f;
}
/* Returns a number in (0, 1). Near 0 the number keeps its relative precision, because it is rounded
** only once. */
static inline double from_zero_f64(uint64_t w) { return ((double)(w >> 1) + 0.5) * 0x1p-63; }
static inline double from_one_f64(uint64_t w) { return from_zero_f64(~w); }
static inline double centred_f64(uint64_t w) {
  return ((double)(int64_t)(w ^ 0x8000000000000000u) + 0.5) * 0x1p-64;
}

/* These float functions need not handle extreme or special arguments, which do not occur here. */
static inline float sin_f32(float x) { return tlk_sinf_fast(x); }
static inline float cos_f32(float x) { return tlk_cosf_fast(x); }
static inline double sin_f64(double x) { return sin(x); }
static inline double cos_f64(double x) { return cos(x); }

/* These functions return -log of a uniform number. The logarithm is computed from the distance to
** the nearer end of (0, 1), so that it is never 0. */
static inline float minus_log_f32(uint32_t w) { return tlk_minus_log(w); }
static inline double minus_log_f64(uint64_t w) {
  double near_zero = -log(from_zero_f64(w)), near_one = -log1p(-from_one_f64(w));
  return w >> 63 ? near_one : near_zero;
}

/* ---- distributions ---- */

/* Defines functions that convert each word of the type's width to one number. A pair of normal
** numbers is a point in polar coordinates, with an angle in (-pi, pi). Sine and cosine have
** separate loops, because compilers would join them to one call that cannot be vectorised. */
#define DEFINE(s, type, word, width)                                                             \
  static void uniform_##s(int n, const word *w, type *out, int bits, type a, type b) {           \
    n &= ~31;                                                                                    \
    type scale = (type)1 / (type)((uint64_t)1 << bits);                                          \
    for (int i = 0; i < n; i++) out[i] = a + (b - a) * ((type)(w[i] >> (width - bits)) * scale); \
  }                                                                                              \
  static void normal_##s(int n, const word *w, type *out, type a, type b) {                      \
    n &= ~31;                                                                                    \
    enum { PAIRS = WORDS * 16 / width };                                                         \
    type radius[PAIRS], angle[PAIRS], wave[PAIRS];                                               \
    for (int i = 0; i < n / 2; i++) radius[i] = b * sqrt(2 * minus_log_##s(w[2 * i]));           \
    for (int i = 0; i < n / 2; i++) angle[i] = (type)PI2 * centred_##s(w[2 * i + 1]);            \
    for (int i = 0; i < n / 2; i++) wave[i] = cos_##s(angle[i]);                                 \
    for (int i = 0; i < n / 2; i++) out[2 * i] = a + radius[i] * wave[i];                        \
    for (int i = 0; i < n / 2; i++) wave[i] = sin_##s(angle[i]);                                 \
    for (int i = 0; i < n / 2; i++) out[2 * i + 1] = a + radius[i] * wave[i];                    \
  }                                                                                              \
  static void log_normal_##s(int n, const word *w, type *out, type a, type b) {                  \
    n &= ~31;                                                                                    \
    normal_##s(n, w, out, a, b);                                                                 \
    for (int i = 0; i < n; i++) out[i] = exp(out[i]);                                            \
  }                                                                                              \
  static void exponential_##s(int n, const word *w, type *out, type a) {                         \
    n &= ~31;                                                                                    \
    for (int i = 0; i < n; i++) out[i] = minus_log_##s(w[i]) / a;                                \
  }                                                                                              \
  static void cauchy_##s(int n, const word *w, type *out, type a, type b) {                      \
    n &= ~31;                                                                                    \
    for (int i = 0; i < n; i++) out[i] = a + b * tan((type)(PI2 / 2) * centred_##s(w[i]));       \
  }

DEFINE(f32, float, uint32_t, 32)
DEFINE(f64, double, uint64_t, 64)

static void bernoulli(int n, const uint32_t *w, float *out, double p) {
  uint64_t below = p >= 1 ? (uint64_t)1 << 32 : p > 0 ? (uint64_t)(p * 0x1p32) : 0;
  uint32_t last = (uint32_t)(below - 1); /* 32-bit comparisons take half the time */
  float one = below > 0 ? 1 : 0;
  for (int i = 0; i < n; i++) out[i] = w[i] <= last ? one : 0;
}

static void geometric(int n, const uint32_t *w, double *out, double p) {
  double scale = -1 / log1p(-p);
  for (int i = 0; i < n; i++) {
    double trials = ceil(minus_log_f64((uint64_t)w[i] << 32 | 0x80000000u) * scale);
    out[i] = trials >= 1 ? trials : 1;
  }
}

/* Scales random words to integers. Each integer is the high half of the product of a word and the
** size of the range. */
static void integer(int n, const uint64_t *w, int64_t *out, int64_t a, uint64_t range) {
  for (int i = 0; i < n; i++) {
    uint64_t high = tli_multiply_high(w[i], range);
    out[i] = (int64_t)((uint64_t)a + (range ? high : w[i]));
  }
}

static void floats(tlk_Distribution d, int bits, int n, const uint32_t *w, float *out, float a,
                   float b) {
  switch (d) {
  case TLK_UNIFORM: uniform_f32(n, w, out, bits, a, b); break;
  case TLK_NORMAL: normal_f32(n, w, out, a, b); break;
  case TLK_LOG_NORMAL: log_normal_f32(n, w, out, a, b); break;
  case TLK_EXPONENTIAL: exponential_f32(n, w, out, a); break;
  default: cauchy_f32(n, w, out, a, b); break;
  }
}

static void doubles(tlk_Distribution d, int n, const uint64_t *w, double *out, double a, double b) {
  switch (d) {
  case TLK_UNIFORM: uniform_f64(n, w, out, 53, a, b); break;
  case TLK_NORMAL: normal_f64(n, w, out, a, b); break;
  case TLK_LOG_NORMAL: log_normal_f64(n, w, out, a, b); break;
  case TLK_EXPONENTIAL: exponential_f64(n, w, out, a); break;
  default: cauchy_f64(n, w, out, a, b); break;
  }
}

/* Returns the number of random bits in a uniform number. A number has no more bits than the dtype
** can represent, so that rounding never turns a number in [0, 1) into 1. */
static int uniform_bits(tl_DType dtype) {
  return tli_is_half(dtype) ? tli_dtype_digits[dtype] : 24;
}

extern tl_DType TLK_ISA_NAME(tlk_random)(tlk_Distribution, tl_DType, uint64_t, uint64_t, int,
                                         tl_Scalar, tl_Scalar, void *);
tl_DType TLK_ISA_NAME(tlk_random)(tlk_Distribution d, tl_DType dtype, uint64_t seed, uint64_t block,
                                  int blocks, tl_Scalar a, tl_Scalar b, void *out) {
  uint32_t words[WORDS];
  uint64_t wide[WORDS / 2];
  philox(seed, block, (uint32_t)blocks, words);
  int n = blocks * tlk_per_block(d, dtype);
  if (tlk_per_block(d, dtype) == 2)
    for (int i = 0; i < n; i++) wide[i] = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
  if (d == TLK_INTEGER) {
    integer(n, wide, out, a.i, (uint64_t)b.i);
    return TL_I64;
  }
  double pa = tli_to_double(a), pb = tli_to_double(b);
  if (d == TLK_BERNOULLI) {
    bernoulli(n, words, out, pa);
    return TL_F32;
  }
  if (d == TLK_GEOMETRIC) {
    geometric(n, words, out, pa);
    return TL_F64;
  }
  if (dtype == TL_F64) {
    doubles(d, n, wide, out, pa, pb);
    return TL_F64;
  }
  floats(d, uniform_bits(dtype), n, words, out, (float)pa, (float)pb);
  return TL_F32;
}
