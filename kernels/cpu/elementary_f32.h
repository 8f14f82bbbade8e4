/*
** elementary_f32.h - elementary functions of float, written so that compilers vectorise loops
** around them: no branches, no tables. libmvec's float32 functions have errors of up to 4 units in
** the last place. The errors of the functions in this file are below 1.5 units; this was checked
** for every float. Each function reduces its argument to a short interval and evaluates a minimax
** polynomial there.
*/
#ifndef TLK_ELEMENTARY_F32_H
#define TLK_ELEMENTARY_F32_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* GPU kernels for random numbers also use these functions */
#ifdef __CUDACC__
#define TLK_F32_FN static __device__ inline
#else
#define TLK_F32_FN static inline
#endif

TLK_F32_FN uint32_t tlk_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
TLK_F32_FN float tlk_from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* ln 2 in two parts: the product of the first part and a small integer is exact. */
#define TLK_LN2_HIGH 0.693359375f
#define TLK_LN2_LOW -2.12194440e-4f

/* The parts of e^x = 2^n e^r with |r| <= ln(2) / 2. e^r is computed as 1 + r + r^2 q. n is the
** rounded quotient of x and ln 2: adding 1.5 * 2^23 to a float rounds it to an integer, which is
** then in the low bits. */
typedef struct tlk_Power {
  float r, q;
  int32_t n;
} tlk_Power;

TLK_F32_FN tlk_Power tlk_exp_parts_fast(float x) {
  float shifted = x * 1.44269504f + 12582912.0f;
  float k = shifted - 12582912.0f;
  float r = (x - k * TLK_LN2_HIGH) - k * TLK_LN2_LOW;
  float q = 0.500000010f +
            r * (0.166665129f + r * (0.0416661864f + r * (0.00836959801f + r * 0.00139517733f)));
  tlk_Power p = {r, q, (int32_t)(tlk_bits(shifted) - 0x4b400000u)};
  return p;
}
TLK_F32_FN tlk_Power tlk_exp_parts(float x) {
  return tlk_exp_parts_fast(x < -104 ? -104 : x > 89 ? 89 : x);
}

/* Returns y * 2^n. The factor is applied in two steps, because 2^n alone may overflow. */
TLK_F32_FN float tlk_scale(float y, int32_t n) {
  int32_t half = n >> 1;
  return y * tlk_from_bits((uint32_t)(half + 127) << 23) *
         tlk_from_bits((uint32_t)(n - half + 127) << 23);
}

TLK_F32_FN float tlk_expf(float x) {
  tlk_Power p = tlk_exp_parts(x);
  return tlk_scale(1 + p.r * (1 + p.r * p.q), p.n);
}

/* The next two functions require |x| < TLK_EXP_LIMIT, so that the result is a normal number. */
#define TLK_EXP_LIMIT 87.0f
TLK_F32_FN float tlk_expf_fast(float x) {
  tlk_Power p = tlk_exp_parts_fast(x);
  /* This addition cancels a subtraction in tlk_exp_parts_fast, so that compilers drop both. The
  ** shift below moves the added bits out of the word. */
  uint32_t n = (uint32_t)p.n + 0x4b400000u;
  return tlk_from_bits(tlk_bits(1 + p.r * (1 + p.r * p.q)) + (n << 23));
}

/* Returns e^x - 1. The term 2^n - 1 is exact or nearly exact. The sum is computed at half its size,
** so that it cannot overflow. */
TLK_F32_FN float tlk_expm1f(float x) {
  tlk_Power p = tlk_exp_parts(x < -25 ? -25 : x);
  float half = tlk_from_bits((uint32_t)(p.n + 126) << 23);
  float rest = p.r + p.r * p.r * p.q;
  float y = 2 * (half * rest + (half - 0.5f));
  return x == 0 ? x : y;
}

/* The parts of x = 2^e (1 + f), where 1 + f is in [sqrt(1/2), sqrt(2)). */
typedef struct tlk_Split {
  float e, f;
} tlk_Split;

TLK_F32_FN tlk_Split tlk_split_fast(float x) {
  uint32_t u = tlk_bits(x) - 0x3f3504f3u;
  tlk_Split s;
  s.e = (float)((int32_t)u >> 23);
  s.f = tlk_from_bits((u & 0x007fffffu) + 0x3f3504f3u) - 1;
  return s;
}
TLK_F32_FN tlk_Split tlk_split(float x) {
  tlk_Split s = tlk_split_fast(x < 0x1p-126f ? x * 0x1p23f : x);
  s.e -= x < 0x1p-126f ? 23.0f : 0.0f;
  return s;
}

/* (log(1 + f) - f + f^2 / 2) / f^3 */
TLK_F32_FN float tlk_log_series(float f) {
  return 0.333333104f +
         f * (-0.249999866f +
              f * (0.200022261f +
                   f * (-0.166692517f +
                        f * (0.142186683f +
                             f * (-0.123843385f +
                                  f * (0.118728949f + f * (-0.117898392f + f * 0.0691558618f)))))));
}

/* log(1 + f) - f */
TLK_F32_FN float tlk_log_rest(float f) { return f * (f * f) * tlk_log_series(f) - 0.5f * (f * f); }

/* Returns the logarithm of x if x is zero, negative, infinite or NaN, for which the polynomial does
** not hold; otherwise returns y. */
TLK_F32_FN float tlk_log_edges(float x, float y) {
  float inside = x < INFINITY ? y : INFINITY;
  return x > 0 ? inside : x == 0 ? -INFINITY : NAN;
}

/* Each sum contains only one product. So compilers have only one way to contract it to a fused
** multiply-add, and both functions below give the same bits. */
TLK_F32_FN float tlk_log_join(tlk_Split s) {
  float square = s.f * s.f;
  float y = square * (s.f * tlk_log_series(s.f) - 0.5f) + (s.e * TLK_LN2_LOW + s.f);
  return s.e * TLK_LN2_HIGH + y;
}
TLK_F32_FN float tlk_logf(float x) { return tlk_log_edges(x, tlk_log_join(tlk_split(x))); }

/* The bits of the smallest positive normal number and of infinity, as unsigned integers. The bits
** of all other positive normal numbers lie between these two. */
#define TLK_BITS_NORMAL 0x00800000u
#define TLK_BITS_INFINITY 0x7f800000u
TLK_F32_FN float tlk_logf_fast(float x) { return tlk_log_join(tlk_split_fast(x)); }

/* Returns log2(x). The factor log2(e) is split into 1 + 0.4427, because products with 1 are
** exact. */
TLK_F32_FN float tlk_log2f(float x) {
  tlk_Split s = tlk_split(x);
  float rest = tlk_log_rest(s.f);
  float y = rest * 0.442695041f + s.f * 0.442695041f + rest + s.f;
  return tlk_log_edges(x, y + s.e);
}

TLK_F32_FN float tlk_log10f(float x) {
  tlk_Split s = tlk_split(x);
  float rest = tlk_log_rest(s.f);
  float low = (rest + s.f) * 7.00731903e-4f + s.e * 2.48745664e-4f + rest * 0.43359375f;
  return tlk_log_edges(x, low + s.f * 0.43359375f + s.e * 0.30078125f);
}

/* Returns log(1 + x). The rounding error of 1 + x is corrected to first order. */
TLK_F32_FN float tlk_log1pf(float x) {
  float u = 1 + x;
  tlk_Split s = tlk_split(u);
  float lost = x - (u - 1);
  float f = s.e == 0 ? x : s.f;
  float correction = s.e == 0 ? 0 : lost / u;
  float y = f + (tlk_log_rest(f) + (s.e * TLK_LN2_LOW + correction));
  y = y + s.e * TLK_LN2_HIGH;
  y = x < INFINITY ? y : INFINITY;
  return u > 0 ? (x == 0 ? x : y) : u == 0 ? -INFINITY : NAN;
}

/* The parts of x = n pi/2 + r with |r| <= pi/4, in double. pi/2 is split into three parts. The
** first two parts have 26 bits, so their products with n are exact for |x| < 2^27. */
typedef struct tlk_Quarter {
  double r;
  uint32_t n;
} tlk_Quarter;

#define TLK_TRIG_LIMIT 0x1p27f

TLK_F32_FN tlk_Quarter tlk_quarter(float x) {
  double shifted = (double)x * 0.63661977236758134308 + 0x1.8p52;
  double n = shifted - 0x1.8p52;
  double r = ((double)x - n * 0x1.921fb5p0 - n * 0x1.110b46p-26) - n * 0x1.1a62633145c07p-54;
  uint64_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  tlk_Quarter a = {r, (uint32_t)bits};
  return a;
}

/* These functions return sin(r) - r and cos(r) - 1. */
TLK_F32_FN float tlk_sin_rest(float r) {
  float z = r * r;
  return r * (z * (-0.166666542f + z * (0.00833213173f + z * -0.000195108714f)));
}
TLK_F32_FN float tlk_cos_rest(float r) {
  float z = r * r;
  return z * z * (0.0416666457f + z * (-0.00138873064f + z * 2.44312413e-5f)) - 0.5f * z;
}

/* The next two functions require |x| < TLK_TRIG_LIMIT. */
TLK_F32_FN float tlk_sinf_fast(float x) {
  tlk_Quarter a = tlk_quarter(x);
  float r = (float)a.r;
  float v = a.n & 1 ? 1 + tlk_cos_rest(r) : r + tlk_sin_rest(r);
  return x == 0 ? x : tlk_from_bits(tlk_bits(v) ^ (a.n & 2) << 30);
}
TLK_F32_FN float tlk_cosf_fast(float x) {
  tlk_Quarter a = tlk_quarter(x);
  float r = (float)a.r;
  float v = a.n & 1 ? r + tlk_sin_rest(r) : 1 + tlk_cos_rest(r);
  return tlk_from_bits(tlk_bits(v) ^ ((a.n + 1) & 2) << 30);
}

TLK_F32_FN float tlk_tanf_fast(float x) {
  tlk_Quarter a = tlk_quarter(x);
  double s = a.r + (double)tlk_sin_rest((float)a.r);
  double c = 1 + (double)tlk_cos_rest((float)a.r);
  float v = (float)(a.n & 1 ? -c / s : s / c);
  return x == 0 ? x : v;
}

/* Returns asin(s) for 0 <= s <= 1/2. The caller passes z = s * s. The result is a double, so that
** callers round only once, at the end of their own arithmetic. */
TLK_F32_FN double tlk_asin_half(float s, float z) {
  float q =
      0.166666598f +
      z * (0.0750051709f +
           z * (0.0445144588f + z * (0.0318287522f + z * (0.0143582972f + z * 0.0376303116f))));
  return (double)s + (double)(s * (z * q));
}

/* Returns asin(x). If |x| > 1/2, the result is pi/2 - 2 asin(sqrt((1 - |x|) / 2)) with the sign of
** x. */
TLK_F32_FN float tlk_asinf(float x) {
  float m = fabsf(x);
  float z = m > 0.5f ? (1 - m) * 0.5f : m * m;
  double a = tlk_asin_half(m > 0.5f ? sqrtf(z) : m, z);
  return copysignf((float)(m > 0.5f ? 1.57079632679489661923 - 2 * a : a), x);
}
TLK_F32_FN float tlk_acosf(float x) {
  float m = fabsf(x);
  float z = m > 0.5f ? (1 - m) * 0.5f : m * m;
  double a = tlk_asin_half(m > 0.5f ? sqrtf(z) : m, z);
  double near = 1.57079632679489661923 - (x < 0 ? -a : a);
  double far = x < 0 ? 3.14159265358979323846 - 2 * a : 2 * a;
  return (float)(m > 0.5f ? far : near);
}

/* Returns atan(x). If |x| > 1, the result is pi/2 - atan(1 / |x|) with the sign of x. */
TLK_F32_FN float tlk_atanf(float x) {
  float m = fabsf(x);
  float t = m > 1 ? 1 / m : m;
  float z = t * t;
  float q = -0.333333274f +
            z * (0.199996925f +
                 z * (-0.142801302f +
                      z * (0.110602431f +
                           z * (-0.0881884880f +
                                z * (0.0675958482f +
                                     z * (-0.0449467668f +
                                          z * (0.0227607219f +
                                               z * (-0.00742286314f + z * 0.00113493186f))))))));
  double a = (double)t + (double)(t * (z * q));
  return copysignf((float)(m > 1 ? 1.57079632679489661923 - a : a), x);
}

/* Returns erf(x) for |x| < 0.9. */
TLK_F32_FN float tlk_erff_fast(float x) {
  float z = x * x;
  float p = 0.128379167f +
            z * (-0.37612635f +
                 z * (0.112837150f +
                      z * (-0.0268605086f +
                           z * (0.00520385956f + z * (-0.000817564407f + z * 8.51312499e-5f)))));
  return x + x * p;
}

/* Returns erf(x). Near 0 it is x + x P(x^2), otherwise 1 - exp(x Q(x)), which rounds to 1 from 3.95
** on. */
TLK_F32_FN float tlk_erff(float x) {
  float m = fabsf(x);
  float t = m > 3.95f ? 3.95f : m;
  float q =
      -1.12851994f +
      t * (-0.635699427f +
           t * (-0.105286772f + t * (0.0229059753f + t * (-0.00321995721f + t * 0.000214592708f))));
  float far = copysignf(1 - tlk_expf(t * q), x);
  return m < 0.9f ? tlk_erff_fast(x) : far;
}

/* Returns the cumulative distribution function of the normal distribution; 0 for NaN. For negative
** x the result is 2^(x P(x) - 1). Its error is 4 units in the last place at -1, 10 at -3 and 50 at
** -6.5, where the result is below 1e-10. For x below -6.5 the result is 0. */
TLK_F32_FN float tlk_normcdff(float x) {
  float t = fabsf(x);
  float p =
      -1.15110505f +
      t * (-0.459213972f +
           t * (-0.0524570607f +
                t * (0.00695750164f +
                     t * (7.04471222e-06f +
                          t * (-0.000294321566f +
                               t * (8.57400519e-05f +
                                    t * (-1.40070715e-05f +
                                         t * (1.41180112e-06f +
                                              t * (-8.18550205e-08f + t * 2.09186424e-09f)))))))));
  float shifted = t * p + 12582912.0f;
  float f = t * p - (shifted - 12582912.0f);
  float half =
      0.5f +
      f * (0.346573502f +
           f * (0.120111234f + f * (0.0277535543f + f * (0.00483564613f + f * 0.000663476880f))));
  float y = tlk_from_bits(tlk_bits(half) + (tlk_bits(shifted) << 23));
  y = t < 6.5f ? y : 0;
  return x > 0 ? 1 - y : y;
}

/* Returns x^y. |x|^y = 2^(y log2 |x|) is computed in double, where an error of 1e-10 in either
** factor is small enough. log2 is computed by the series of atanh in (m - 1) / (m + 1). 2^f, the
** power of the fraction f, is computed by Taylor's series. */
TLK_F32_FN float tlk_powf(float x, float y) {
  double magnitude = (double)fabsf(x);
  uint64_t bits;
  memcpy(&bits, &magnitude, sizeof bits);
  uint64_t shifted = bits - 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
  uint64_t mantissa = (shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu;
  double m;
  memcpy(&m, &mantissa, sizeof m);
  /* Converts the signed exponent to a double by its bits, because a conversion from int64 would be
  ** slower. */
  uint64_t biased = ((shifted >> 52 ^ 0x800u) & 0xfffu) | 0x4330000000000000u;
  double e;
  memcpy(&e, &biased, sizeof e);
  e -= 0x1p52 + 2048;
  double s = (m - 1) / (m + 1);
  double z = s * s;
  double log2 = e + s * (2.88539008177792681 +
                         z * (0.961796693925975604 +
                              z * (0.577078016355585362 +
                                   z * (0.412198583111132401 +
                                        z * (0.320598897975325201 + z * 0.262308189252538801)))));
  log2 = magnitude == 0 ? (double)-INFINITY : magnitude < (double)INFINITY ? log2 : magnitude;
  double t = (double)y * log2;
  t = t < -200 ? -200 : t > 200 ? 200 : t;
  double rounded = t + 0x1.8p52;
  double f = t - (rounded - 0x1.8p52);
  double power =
      1 +
      f * (0.693147180559945309 +
           f * (0.240226506959100712 +
                f * (0.0555041086648215800 +
                     f * (0.00961812910762847716 +
                          f * (0.00133335581464284434 +
                               f * (0.000154035303933816099 +
                                    f * (1.52527338040598403e-5 + f * 1.32154867901443095e-6)))))));
  memcpy(&bits, &rounded, sizeof bits);
  uint64_t scale = (bits + 1023) << 52;
  double factor;
  memcpy(&factor, &scale, sizeof factor);
  float r = (float)(power * factor);
  /* Corrects the result for negative x, and for arguments that are 0, infinite or NaN. */
  float half = 0.5f * y;
  float size = fabsf(y);
  bool whole = rintf(y) == y;
  bool odd = (rintf(half) != half) & whole;
  bool outside = (x < 0) & !whole & (magnitude < (double)INFINITY);
  r = tlk_from_bits(tlk_bits(r) | (odd ? tlk_bits(x) & 0x80000000u : 0));
  r = outside ? NAN : r;
  bool one = (y == 0) | (x == 1) | ((magnitude == 1) & (size == INFINITY));
  return one ? 1 : r;
}

#endif
