/*
** elementary.c - implements elementary.h. Each function reduces its argument to a short interval
** and evaluates a polynomial there. The polynomials interpolate the functions at Chebyshev's nodes
** (spec/fixtures/elementary.py). Some intermediate results need more than a double's 53 bits; such
** a result is a Pair, the sum of two doubles. This file is compiled without fused multiply-add.
*/
#include "core/kernel/elementary.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
/* Evaluates a polynomial in x. The coefficients begin with the constant term. */
#define POLYNOMIAL(x, ...) \
  polynomial(x, COUNT(((const double[]){__VA_ARGS__})), (const double[]){__VA_ARGS__})

static double polynomial(double x, int n, const double *c) {
  double y = c[n - 1];
  for (int i = n - 2; i >= 0; i--) y = y * x + c[i];
  return y;
}

static uint64_t bits_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static double from_bits(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}
static double without_low(double x) { return from_bits(bits_of(x) & 0xffffffff00000000u); }

/* ---- sums of two doubles --------------------------------------------------------- */

typedef struct Pair {
  double high, low;
} Pair;

/* Returns a + b without rounding, as a Pair. |a| must be at least |b|. */
static Pair sum(double a, double b) {
  double high = a + b;
  return (Pair){high, (a - high) + b};
}

/* Returns a * b without rounding, as a Pair, by splitting both factors into halves (T. J. Dekker,
** 1971). */
static Pair product(double a, double b) {
  double c = 134217729 * a, a1 = c - (c - a), a2 = a - a1;
  double d = 134217729 * b, b1 = d - (d - b), b2 = b - b1;
  double high = a * b;
  return (Pair){high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2};
}

static Pair times(Pair a, Pair b) {
  Pair p = product(a.high, b.high);
  return sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

/* ---- exponentials ---------------------------------------------------------------- */

/* two parts of ln 2; products of the first part with integers up to 2^20 are exact */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
/* adding this number to x and then subtracting it rounds x to an integer */
#define TO_WHOLE 0x1.8p52

/* Returns y * 2^n. If y is near 1 and |n| < 1100, the result is rounded only once. */
static double scaled(double y, int n) {
  int half = n / 2;
  return y * from_bits((uint64_t)(half + 1023) << 52) *
         from_bits((uint64_t)(n - half + 1023) << 52);
}

/* Returns e^(r + low) - 1 for |r| <= 0.35. `low` must not be larger than the rounding error of
** r. */
static double exp_rest(double r, double low) {
  double q = POLYNOMIAL(r, 0.5, 0.16666666666666666, 0.041666666666666678, 0.0083333333333333332,
                        0.0013888888888878854, 0.00019841269841263152, 2.480158733702903e-05,
                        2.755731924760984e-06, 2.75572626528368e-07, 2.5052070676884162e-08,
                        2.0918368776542248e-09, 1.6086781948613066e-10);
  return r + (r * r * q + (low + low * r));
}

/* Splits x as n ln 2 + r + low with an integer n. Returns n, and stores r and low. */
static int exp_parts(double x, double *r, double *low) {
  double n = (x * 1.4426950408889634 + TO_WHOLE) - TO_WHOLE;
  double high = x - n * LN2_HIGH, rest = n * LN2_LOW;
  *r = high - rest;
  *low = (high - *r) - rest;
  return (int)n;
}

double tli_exp(double x) {
  if (x != x) return x;
  if (x > 709.8) return INFINITY;
  if (x < -745.2) return 0;
  double r, low;
  int n = exp_parts(x, &r, &low);
  return scaled(1 + exp_rest(r, low), n);
}

double tli_exp2(double x) {
  if (x != x) return x;
  if (x >= 1024) return INFINITY;
  if (x < -1075) return 0;
  double n = (x + TO_WHOLE) - TO_WHOLE;
  Pair r = product(x - n, 0x1.62e42fefa39efp-1);
  return scaled(1 + exp_rest(r.high, r.low + (x - n) * 0x1.abc9e3b39803fp-56), (int)n);
}

double tli_expm1(double x) {
  if (x != x || x == 0) return x;
  if (x > 709.8) return INFINITY;
  if (x < -40) return -1;
  double r, low;
  int n = exp_parts(x, &r, &low);
  double rest = exp_rest(r, low);
  if (n == 0) return rest;
  if (n > 60) return scaled(1 + rest, n);
  double power = from_bits((uint64_t)(n + 1023) << 52);
  return power * rest + (power - 1);
}

/* ---- logarithms ------------------------------------------------------------------ */

#define ROOT_HALF 0x3fe6a09e667f3bcdu /* the bits of sqrt(1/2) */

/* Splits a positive x as 2^e (1 + f), where 1 + f is in [sqrt(1/2), sqrt(2)). Returns f, and stores
** e. */
static double split(double x, double *e) {
  double below = x < 0x1p-1022 ? 54 : 0;
  uint64_t u = bits_of(below > 0 ? x * 0x1p54 : x) - ROOT_HALF;
  *e = (double)((int64_t)u >> 52) - below;
  return from_bits((u & 0x000fffffffffffffu) + ROOT_HALF) - 1;
}

/* Returns log(1 + f) - f + f^2 / 2 by the series of atanh(s), s = f / (2 + f). */
static double log_part(double f) {
  double s = f / (2 + f), z = s * s;
  double r = z * POLYNOMIAL(z, 0.66666666666666663, 0.40000000000000879, 0.28571428570803614,
                            0.22222222391713917, 0.181817956401329, 0.15386239702814888,
                            0.13268773138651677, 0.13086626147887312);
  return s * (0.5 * f * f + r);
}

/* Returns log(1 + f + low) + e ln 2. */
static double log_sum(double e, double f, double low) {
  double half = 0.5 * f * f;
  return e * LN2_HIGH - ((half - (log_part(f) + (e * LN2_LOW + low))) - f);
}

/* Returns whether the logarithm of x is a special value, such as NaN or infinity, and stores that
** value in *y. */
static bool log_special(double x, double *y) {
  if (x > 0 && x < INFINITY) return false;
  *y = x == 0 ? -INFINITY : x > 0 || x != x ? x : NAN;
  return true;
}

double tli_log(double x) {
  double e, y;
  if (log_special(x, &y)) return y;
  double f = split(x, &e);
  return log_sum(e, f, 0);
}

double tli_log1p(double x) {
  double e, y, u = 1 + x;
  if (x == 0) return x;
  if (log_special(u, &y)) return y;
  double f = split(u, &e);
  if (e == 0) return log_sum(0, x, 0);
  return log_sum(e, f, (x < 1 ? x - (u - 1) : 1 - (u - x)) / u);
}

/* Returns the logarithm of x = 2^e (1 + f) to another base as e * ratio + log(1 + f) * base. `base`
** and `ratio` are sums of two parts. Products of the ratio's high part with e, and of the base's
** high part with numbers of 21 bits, are exact. */
static double log_of_base(double x, Pair base, Pair ratio) {
  double e, y;
  if (log_special(x, &y)) return y;
  double f = split(x, &e), half = 0.5 * f * f;
  double high = without_low(f - half), low = ((f - high) - half) + log_part(f);
  double whole = e * ratio.high, part = high * base.high;
  double rest = e * ratio.low + ((low + high) * base.low + low * base.high);
  double joined = whole + part;
  return joined + (((whole - joined) + part) + rest);
}

double tli_log2(double x) {
  return log_of_base(x, (Pair){0x1.715476p+0, 0x1.4ae0bf85ddf44p-26}, (Pair){1, 0});
}
double tli_log10(double x) {
  return log_of_base(x, (Pair){0x1.bcb7bp-2, 0x1.526e50e32a6abp-26},
                     (Pair){0x1.34413509f6p-2, 0x1.9fef311f12b36p-42});
}

/* ---- powers ---------------------------------------------------------------------- */

/* Returns log2(x) for finite positive x, with an error of about 2^-65 of the result. */
static Pair log2_pair(double x) {
  double e, f = split(x, &e), d = 2 + f, d_low = f - (d - 2), s = f / d;
  Pair back = product(s, d);
  Pair root = {s, (((f - back.high) - back.low) - s * d_low) / d};
  Pair z = times(root, root);
  double tail =
      z.high * POLYNOMIAL(z.high, 0.20000000000000001, 0.14285714285714682, 0.11111111110828116,
                          0.090909091676572046, 0.076922974854474954, 0.066674021191230823,
                          0.058531242702252996, 0.058615255161867587);
  Pair w = sum(0x1.5555555555555p-2, tail);
  w.low += 0x1.5555555555555p-56;
  Pair more = times(root, times(z, w));
  Pair whole = sum(root.high, more.high); /* atanh(s) */
  whole.low += root.low + more.low;
  Pair y = times(whole, (Pair){0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55});
  if (e == 0) return y;
  Pair joined = sum(e, y.high);
  return sum(joined.high, joined.low + y.low);
}

/* Returns x^y for finite x > 0 and finite y. */
static double power(double x, double y) {
  y = y > 0x1p70 ? 0x1p70 : y < -0x1p70 ? -0x1p70 : y;
  Pair l = log2_pair(x);
  if (fabs(y * l.high) > 1100) return (y > 0) == (l.high > 0) ? INFINITY : 0;
  Pair t = times((Pair){y, 0}, l);
  double n = (t.high + TO_WHOLE) - TO_WHOLE, f = t.high - n;
  Pair r = product(f, 0x1.62e42fefa39efp-1);
  r = sum(r.high, r.low + (f * 0x1.abc9e3b39803fp-56 + t.low * 0.69314718055994531));
  return scaled(1 + exp_rest(r.high, r.low), (int)n);
}

double tli_pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return x + y;
  double m = fabs(x);
  if (fabs(y) == INFINITY) return m == 1 ? 1 : (m > 1) == (y > 0) ? INFINITY : 0;
  bool whole = rint(y) == y, odd = whole && rint(0.5 * y) != 0.5 * y;
  if (x < 0 && m < INFINITY && !whole) return NAN;
  double r = m == 0          ? (y < 0 ? INFINITY : 0)
             : m == INFINITY ? (y < 0 ? 0 : INFINITY)
             : m == 1        ? 1
                             : power(m, y);
  return odd && signbit(x) ? -r : r;
}

/* ---- circular functions ---------------------------------------------------------- */

/* The binary digits of 2 / pi after the point. */
static const uint32_t two_over_pi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
    0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b,
    0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7,
    0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1,
    0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d, 0xa9e39161, 0x5ee61b08};

/* Returns the number between 0 and 1 whose binary digits are those of the n 32-bit words, as a sum
** of two doubles. */
static Pair fraction_of(const uint32_t *words, int n) {
  Pair p = {0, 0};
  double scale = 0x1p-32;
  for (int i = 0; i < n; i++, scale *= 0x1p-32) {
    double term = words[i] * scale;
    Pair next = p.high >= term ? sum(p.high, term) : sum(term, p.high);
    p = (Pair){next.high, p.low + next.low};
  }
  return p;
}

/* Reduces x >= 2^10 to an angle r by multiplying its 53 bits with the bits of 2/pi that affect the
** result (M. H. Payne and R. N. Hanek, 1983). Returns the number of quarter turns modulo 4. */
static int reduce_large(double x, Pair *r) {
  enum { WORDS = 8 };
  uint64_t u = bits_of(x), m = (u & 0x000fffffffffffffu) | 0x0010000000000000u;
  int e = (int)(u >> 52) - 1075; /* x = m 2^e */
  /* earlier words only contribute multiples of 4 quarter turns */
  int first = e < 34 ? 0 : (e - 2) / 32;
  uint32_t p[WORDS + 2] = {0}, part[2] = {(uint32_t)(m >> 32), (uint32_t)m};
  for (int j = 1; j >= 0; j--) {
    uint64_t carry = 0;
    for (int i = WORDS - 1; i >= 0; i--) {
      carry += (uint64_t)part[j] * two_over_pi[first + i] + p[i + j + 1];
      p[i + j + 1] = (uint32_t)carry;
      carry >>= 32;
    }
    p[j] = (uint32_t)carry;
  }
  /* the binary point is `place` bits after the beginning of p; the shift moves the point to the
  ** beginning of p[1] */
  int place = 64 + e - 32 * first, skip = place / 32 - 1, shift = place % 32;
  uint32_t q[5];
  for (int i = 0; i < 5; i++) {
    uint64_t two = (uint64_t)(skip + i >= 0 ? p[skip + i] : 0) << 32 |
                   (skip + i + 1 >= 0 ? p[skip + i + 1] : 0);
    q[i] = (uint32_t)(two << shift >> 32);
  }
  int n = (int)(q[0] & 3);
  bool above = q[1] >> 31;
  /* the angle is above an eighth of a turn, so r is the negative distance to the next quarter
  ** turn */
  if (above) {
    n++;
    for (int i = 1; i < 5; i++) q[i] = ~q[i];
  }
  Pair f = fraction_of(q + 1, 4);
  if (above) f = (Pair){-f.high, -f.low};
  *r = times(f, (Pair){0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54});
  return n & 3;
}

/* Splits x as n pi/2 + r with |r| <= pi/4. Stores r, and returns n modulo 4. The first two parts of
** pi/2 have 42 bits, so their products with n are exact. */
static int quarter_turns(double x, Pair *r) {
  double m = fabs(x);
  if (m <= 0.78539816339744828) {
    *r = (Pair){x, 0};
    return 0;
  }
  if (m >= 1024) {
    int n = reduce_large(m, r);
    if (x > 0) return n;
    *r = (Pair){-r->high, -r->low};
    return -n & 3;
  }
  double n = (x * 0.63661977236758134 + TO_WHOLE) - TO_WHOLE;
  double a = x - n * 0x1.921fb544428p+0, b = n * 0x1.4611a62633p-42, high = a - b;
  double rest = ((a - high) - b) - n * 0x1.45c06e0e68948p-86;
  *r = sum(high, rest);
  return (int)n & 3;
}

/* These functions return the sine and the cosine of r for |r| <= pi/4. */
static double sine(Pair r) {
  double x = r.high, z = x * x;
  double s = POLYNOMIAL(z, -0.16666666666666666, 0.0083333333333333315, -0.00019841269841265003,
                        2.7557319219291695e-06, -2.5052106215978872e-08, 1.6058529011960661e-10,
                        -7.5865436340921296e-13);
  return x + (x * z * s + r.low * (1 - 0.5 * z));
}
static double cosine(Pair r) {
  double x = r.high, z = x * x, half = 0.5 * z, w = 1 - half;
  double c = POLYNOMIAL(z, 0.041666666666666664, -0.0013888888888888887, 2.4801587301584611e-05,
                        -2.7557319221376434e-07, 2.0876755781924198e-09, -1.1470459438155716e-11,
                        4.7457865678597796e-14);
  return w + (((1 - w) - half) + (z * z * c - x * r.low));
}

double tli_sin(double x) {
  if (!(fabs(x) < INFINITY)) return NAN;
  if (x == 0) return x;
  Pair r;
  int n = quarter_turns(x, &r);
  double y = n & 1 ? cosine(r) : sine(r);
  return n & 2 ? -y : y;
}

double tli_cos(double x) {
  if (!(fabs(x) < INFINITY)) return NAN;
  Pair r;
  int n = quarter_turns(x, &r);
  double y = n & 1 ? sine(r) : cosine(r);
  return n == 1 || n == 2 ? -y : y;
}

double tli_tan(double x) {
  if (!(fabs(x) < INFINITY)) return NAN;
  if (x == 0) return x;
  Pair r;
  int n = quarter_turns(x, &r);
  return n & 1 ? -cosine(r) / sine(r) : sine(r) / cosine(r);
}

/* ---- inverses of the circular functions ------------------------------------------ */

#define HALF_PI 0x1.921fb54442d18p+0
#define HALF_PI_LOW 0x1.1a62633145c07p-54

/* Returns (asin(s) - s) / s, where z = s^2 is at most 1/4. */
static double asin_rest(double z) {
  return z * POLYNOMIAL(z, 0.16666666666666669, 0.074999999999984246, 0.04464285714637338,
                        0.030381944137085209, 0.022372173002005745, 0.017352391265906313,
                        0.013971235301162371, 0.011478952689927567, 0.010324318290690684,
                        0.0054508781800480166, 0.017419357984227668, -0.014881409421021383,
                        0.028778442630682865);
}

double tli_asin(double x) {
  double m = fabs(x);
  if (!(m <= 1)) return NAN;
  if (m <= 0.5) return x + x * asin_rest(x * x);
  double z = (1 - m) * 0.5, s = sqrt(z);
  return copysign(HALF_PI - (2 * (s + s * asin_rest(z)) - HALF_PI_LOW), x);
}

double tli_acos(double x) {
  double m = fabs(x);
  if (!(m <= 1)) return NAN;
  if (m <= 0.5) return HALF_PI - (x - (HALF_PI_LOW - x * asin_rest(x * x)));
  double z = (1 - m) * 0.5, s = sqrt(z), angle = s + s * asin_rest(z);
  return x < 0 ? 2 * (HALF_PI - (angle - HALF_PI_LOW)) : 2 * angle;
}

/* Finds the nearest angle in a table, and computes the difference to it. */
double tli_atan(double x) {
  static const struct {
    double below, at;
    Pair angle;
  } near[] = {{0.4375, 0, {0, 0}},
              {0.6875, 0.5, {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56}},
              {1.1875, 1, {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}},
              {2.4375, 1.5, {0x1.f730bd281f69bp-1, 0x1.007887af0cbbdp-56}},
              {INFINITY, 0, {HALF_PI, HALF_PI_LOW}}};
  if (x != x) return x;
  double m = fabs(x);
  int i = 0;
  while (i < 4 && m >= near[i].below) i++;
  double t = i == 4 ? -1 / m : (m - near[i].at) / (1 + near[i].at * m), z = t * t;
  double rest = z * POLYNOMIAL(z, -0.33333333333333331, 0.19999999999999971, -0.14285714285705556,
                               0.11111111110107989, -0.090909090308742987, 0.076923055476710744,
                               -0.066666172984844313, 0.058815872927868537, -0.052549640071096276,
                               0.047009069950755079, -0.040340732646306193, 0.029098584398718881,
                               -0.012450073372006321);
  return copysign(near[i].angle.high + ((t * rest + near[i].angle.low) + t), x);
}

double tli_atan2(double rise, double run) {
  if (run != run || rise != rise) return run + rise;
  double a = fabs(rise), b = fabs(run), angle;
  if (a == b && (a == 0 || a == INFINITY))
    angle = a == 0 ? 0 : 0.5 * HALF_PI;
  else
    angle = b == 0 ? HALF_PI : tli_atan(a / b);
  if (signbit(run)) angle = 2 * HALF_PI - (angle - 2 * HALF_PI_LOW);
  return copysign(angle, rise);
}

double tli_hypot(double x, double y) {
  double a = fabs(x), b = fabs(y);
  if (a == INFINITY || b == INFINITY) return INFINITY;
  if (x != x || y != y) return x + y;
  double large = a > b ? a : b, small = a > b ? b : a;
  double up = large > 0x1p500 ? 0x1p-600 : small < 0x1p-500 ? 0x1p600 : 1;
  if (large > 0x1p500 && small < 0x1p400) return large;
  if (large > 0x1p-400 && small < 0x1p-500) return large;
  large *= up, small *= up;
  return sqrt(large * large + small * small) / up;
}

/* ---- hyperbolic functions -------------------------------------------------------- */

/* Returns e^x / 2, which can be finite even if e^x overflows. */
static double half_exp(double x) {
  double root = tli_exp(0.5 * x);
  return x < 709 ? 0.5 * tli_exp(x) : 0.5 * root * root;
}

double tli_sinh(double x) {
  double m = fabs(x);
  if (m > 40) return copysign(half_exp(m), x);
  double t = tli_expm1(m);
  return x != x || x == 0 ? x : copysign(0.5 * (t + t / (t + 1)), x);
}

double tli_cosh(double x) {
  double m = fabs(x);
  if (m > 40) return half_exp(m);
  double e = tli_exp(m);
  return 0.5 * e + 0.5 / e;
}

double tli_tanh(double x) {
  if (x != x || x == 0) return x;
  double m = fabs(x), t = tli_expm1(m < 0.5 ? -2 * m : 2 * m);
  return copysign(m > 22 ? 1 : m < 0.5 ? -t / (t + 2) : 1 - 2 / (t + 2), x);
}

double tli_asinh(double x) {
  if (!(fabs(x) < INFINITY) || x == 0) return x;
  double m = fabs(x), z = m * m;
  if (m > 0x1p28) return copysign(tli_log(m) + 0.69314718055994531, x);
  if (m > 2) return copysign(tli_log(2 * m + 1 / (sqrt(z + 1) + m)), x);
  return copysign(tli_log1p(m + z / (1 + sqrt(1 + z))), x);
}

double tli_acosh(double x) {
  if (!(x >= 1)) return NAN;
  if (x > 0x1p28) return tli_log(x) + 0.69314718055994531;
  if (x > 2) return tli_log(2 * x - 1 / (x + sqrt(x * x - 1)));
  double t = x - 1;
  return tli_log1p(t + sqrt(2 * t + t * t));
}

double tli_atanh(double x) {
  double m = fabs(x);
  if (!(m <= 1)) return NAN;
  if (x == 0) return x;
  return copysign(0.5 * tli_log1p(2 * m / (1 - m)), x);
}

/* ---- error functions, gamma ------------------------------------------------------ */

/* Returns erf(x) for |x| < 0.9. */
static double erf_near(double x) {
  double z = x * x;
  return x + x * POLYNOMIAL(z, 0.12837916709551259, -0.37612638903183732, 0.11283791670953794,
                            -0.026866170644823731, 0.0052239776217703725, -0.00085483267644665426,
                            0.00012055321382482122, -1.4925307535508587e-05, 1.6455328747938052e-06,
                            -1.6276526722585832e-07, 1.405148276698807e-08,
                            -8.4939987970769895e-10);
}

/* Returns erfc(x) for 0.85 <= x < 28 as e^(-x^2) times erfcx(x). erfcx(x) is P(t) / (1 + 2 x) with
** a polynomial P and t = (x - 4) / (x + 4). x^2 is computed as a sum of two parts. */
static double erfc_far(double x) {
  double t = (x - 4) / (x + 4), high = without_low(x);
  double p = POLYNOMIAL(t, 1.2329951186255526, -0.1396211168405625, 0.015379652102620045,
                        0.068097054254691564, -0.10103906603632544, 0.093732834998395798,
                        -0.06633036581163336, 0.037167515536647919, -0.016197734066223164,
                        0.0050319699858171344, -0.00075777321673208562, -0.00019925673515461021,
                        0.0001506212888541649, -2.4399102071238385e-05, -1.1220669971459644e-05,
                        5.7096131925767006e-06, 2.9064856014473484e-07, -8.256067117896908e-07,
                        7.9474527823895905e-08, 1.1078649796940892e-07, -2.2644281037662474e-08,
                        -1.4986836738398012e-08, 4.5270709341617404e-09, 1.6559968757676307e-09,
                        -6.8637933805238042e-10);
  double rest = tli_exp((high - x) * (high + x));
  return tli_exp(-high * high) * (rest * p / (1 + 2 * x));
}

double tli_erf(double x) {
  if (x != x) return x;
  double m = fabs(x);
  if (m < 0.9) return erf_near(x);
  return copysign(m > 6 ? 1 : 1 - erfc_far(m), x);
}

double tli_erfc(double x) {
  if (x != x) return x;
  if (x < 0.85) return x < -6 ? 2 : x < -0.85 ? 2 - erfc_far(-x) : 1 - erf_near(x);
  return x > 27.3 ? 0 : erfc_far(x);
}

/* Returns lgamma(1 + t) for 0 <= t <= 1. The result is a polynomial multiplied by t (t - 1),
** because lgamma is 0 at both ends. */
static double lgamma_near(double t) {
  double p = POLYNOMIAL(t - 0.5, 0.48312895054098087, -0.14595989591430608, 0.062911401074564943,
                        -0.031308487501009494, 0.016797098631185916, -0.0094256224486259053,
                        0.0054464578446505848, -0.0032120740697367508, 0.0019229161355079514,
                        -0.0011644146716070654, 0.00071152238489056194, -0.00043799193485774481,
                        0.00027127505354827353, -0.0001689271940196675, 0.00010564474883658399,
                        -6.6092714133519196e-05, 4.1635136174925296e-05, -2.7356444625033782e-05,
                        1.7342637757200075e-05, -8.0795295053705245e-06, 5.1298288086148984e-06,
                        -7.9708731152551934e-06, 5.1046180848809898e-06);
  return t * (t - 1) * p;
}

static double lgamma_positive(double x) {
  if (x < 1) return lgamma_near(x) - tli_log(x);
  if (x < 8) {
    double shift = 1;
    while (x > 2) x -= 1, shift *= x;
    double y = lgamma_near(x - 1);
    return shift == 1 ? y : y + tli_log(shift);
  }
  double r = x < 0x1p60 ? 1 / x : 0, z = r * r;
  double rest =
      r * POLYNOMIAL(z, 0.083333333333333329, -0.0027777777777776747, 0.00079365079351172662,
                     -0.00059523802342864791, 0.00084173252672776198, -0.0019149659059377068,
                     0.0062081365011508556, -0.02085581632116246);
  return (x - 0.5) * (tli_log(x) - 1) + (0x1.acfe390c97d6bp-2 - 0x1.65b5a1b7ff5dfp-55 + rest);
}

double tli_lgamma(double x) {
  if (x != x) return x;
  if (fabs(x) == INFINITY) return INFINITY;
  if (x > 0) return lgamma_positive(x);
  double f = fabs(x - rint(x)); /* this difference is exact, so sin(pi x) is 0 only for integers */
  if (f == 0) return INFINITY;
  double sin_pi = tli_sin(2 * HALF_PI * f);
  if (x > -0x1p-60) return -tli_log(-x);
  return tli_log(2 * HALF_PI / (-x * sin_pi)) - lgamma_positive(-x);
}
