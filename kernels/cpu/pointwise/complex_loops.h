/*
** complex_loops.h - elementwise loops that compute in complex numbers of one type.
** isa/pointwise_<type>.c includes this file after it has defined TLK_PART (the type of a number's
** parts), TLK_OF(name) (the function of the C library for that type) and TLK_TYPE (the suffix of
** names).
**
** Products and quotients are written out. C's own operators also repair infinities that became NaN,
** which takes a function call for each element. A quotient is scaled by the larger part of the
** divisor (R. L. Smith, "Algorithm 116: Complex division", 1962), as in PyTorch.
*/
#include <complex.h>
#include <math.h>

#include "kernels/cpu/cpu.h"

typedef TLK_PART R;
typedef _Complex TLK_PART T;

static inline R re(T x) { return TLK_OF(creal)(x); }
static inline R im(T x) { return TLK_OF(cimag)(x); }

static inline T pair(R real, R imag) {
  union {
    R parts[2];
    T number;
  } z = {{real, imag}};
  return z.number;
}

static inline T times(T a, T b) {
  return pair(re(a) * re(b) - im(a) * im(b), re(a) * im(b) + im(a) * re(b));
}

static inline T scaled(T a, R factor) { return pair(re(a) * factor, im(a) * factor); }

static inline T divided(T a, T b) {
  R c = re(b), d = im(b);
  bool wide = TLK_OF(fabs)(c) >= TLK_OF(fabs)(d);
  R large = wide ? c : d, small = wide ? d : c;
  R ratio = large == 0 ? 0 : small / large;
  R scale = 1 / (large + small * ratio);
  R first = wide ? re(a) + im(a) * ratio : re(a) * ratio + im(a);
  R second = wide ? im(a) - re(a) * ratio : im(a) * ratio - re(a);
  if (large == 0) return pair(re(a) / TLK_OF(fabs)(c), im(a) / TLK_OF(fabs)(c));
  return pair(first * scale, second * scale);
}

static inline bool nonzero(T x) { return re(x) != 0 || im(x) != 0; }
static inline bool is_nan(T x) { return isnan(re(x)) || isnan(im(x)); }

#define LN2 ((R)0.693147180559945309417232121458)
#define LN10 ((R)2.302585092994045684017991454684)
#define PI ((R)3.141592653589793238462643383280)

/* ---- the kernels ---- */

#define Z1(name, result, ...)                                                      \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    (void)params;                                                                  \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    const T *in = args[1];                                                         \
    for (int64_t i = 0; i < n; i++) {                                              \
      T x = in[i];                                                                 \
      out[i] = (__VA_ARGS__);                                                      \
    }                                                                              \
    return true;                                                                   \
  }
/* Declares p, the first parameter as a complex number. */
#define PARAMETER_(params)                                          \
  T p = pair((R)tli_to_double((params)[0]), (R)((params)[0].imag)); \
  (void)p
#define Z2(name, result, ...)                                                      \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    PARAMETER_(params);                                                            \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    const T *first = args[1], *second = args[2];                                   \
    TLK_IVDEP                                                                      \
    for (int64_t i = 0; i < n; i++) {                                              \
      T a = first[i], b = second[i];                                               \
      out[i] = (__VA_ARGS__);                                                      \
    }                                                                              \
    return true;                                                                   \
  }
#define Z3(name, result, ...)                                                      \
  static bool loop_##name(int64_t n, void *const *args, const tl_Scalar *params) { \
    PARAMETER_(params);                                                            \
    n -= n % TLK_LANES;                                                            \
    result *out = args[0];                                                         \
    const T *first = args[1], *second = args[2], *third = args[3];                 \
    TLK_IVDEP                                                                      \
    for (int64_t i = 0; i < n; i++) {                                              \
      T a = first[i], b = second[i], c = third[i];                                 \
      out[i] = (__VA_ARGS__);                                                      \
    }                                                                              \
    return true;                                                                   \
  }

static inline T sign_of(T x) {
  R magnitude = TLK_OF(cabs)(x);
  return magnitude == 0 ? pair(0, 0) : pair(re(x) / magnitude, im(x) / magnitude);
}

/* Returns a^b; 0 to the power 0 is 1. */
static inline T power(T a, T b) { return nonzero(b) ? TLK_OF(cpow)(a, b) : pair(1, 0); }

/* Returns exp(x) - 1 without cancellation near 0. */
static inline T expm1_of(T x) {
  R a = re(x), b = im(x), sine = TLK_OF(sin)(b / 2);
  R real = TLK_OF(expm1)(a) * TLK_OF(cos)(b) - 2 * sine * sine;
  return pair(real, TLK_OF(exp)(a) * TLK_OF(sin)(b));
}

/* Returns log(1 + x) without cancellation near 0. */
static inline T log1p_of(T x) {
  R a = re(x), b = im(x), angle = TLK_OF(atan2)(b, 1 + a);
  R magnitude = TLK_OF(cabs)(x);
  if (!(magnitude < (R)0.5)) return pair(TLK_OF(log)(TLK_OF(hypot)(1 + a, b)), angle);
  return pair(TLK_OF(log1p)(a * (2 + a) + b * b) / 2, angle);
}

static inline T sigmoid_of(T x) {
  T one = pair(1, 0);
  return divided(one, one + TLK_OF(cexp)(-x));
}

static inline T sinc_of(T x) {
  T u = scaled(x, PI);
  return nonzero(x) ? divided(TLK_OF(csin)(u), u) : pair(1, 0);
}

/* Returns the derivative of silu: s + x s (1 - s), where s is the sigmoid of x. */
static inline T silu_slope(T x) {
  T s = sigmoid_of(x);
  return times(s, pair(1, 0) + times(x, pair(1, 0) - s));
}

/* Returns log(exp(a) + exp(b)); factors out the number with the larger real part, to avoid
** overflow. */
static inline T log_sum(T a, T b) {
  T most = re(a) < re(b) ? b : a, least = re(a) < re(b) ? a : b;
  if (re(least) == -INFINITY && !isnan(re(most))) return most;
  if (re(most) == INFINITY && re(least) != INFINITY) return most;
  return most + log1p_of(TLK_OF(cexp)(least - most));
}

/* Computes a + c (b - a) from the end that is nearer to c, so that weight 1 gives b exactly. */
static inline T lerp_of(T a, T b, T c) {
  bool near = re(c) * re(c) + im(c) * im(c) < (R)0.25;
  return near ? a + times(c, b - a) : b - times(b - a, pair(1, 0) - c);
}

Z2(add, T, a + times(p, b))
Z2(sub, T, a - times(p, b))
Z2(mul, T, times(a, b))
Z2(true_divide, T, divided(a, b))
Z2(pow, T, power(a, b))
Z2(eq, uint8_t, re(a) == re(b) && im(a) == im(b))
Z2(ne, uint8_t, re(a) != re(b) || im(a) != im(b))
Z2(logical_and, uint8_t, nonzero(a) && nonzero(b))
Z2(logical_or, uint8_t, nonzero(a) || nonzero(b))
Z2(logical_xor, uint8_t, nonzero(a) != nonzero(b))
Z2(logaddexp, T, log_sum(a, b))
Z2(silu_backward, T, times(a, pair(re(silu_slope(b)), -im(silu_slope(b)))))
Z3(addcmul, T, a + times(times(p, b), c))
Z3(addcdiv, T, a + divided(times(p, b), c))
Z3(lerp, T, lerp_of(a, b, c))
Z3(where, T, nonzero(a) ? b : c)
Z3(masked_fill_kernel, T, nonzero(b) ? c : a)

Z1(neg, T, -x)
Z1(conj_physical, T, pair(re(x), -im(x)))
Z1(abs, R, TLK_OF(cabs)(x))
Z1(angle, R, is_nan(x) ? (R)NAN : TLK_OF(carg)(x))
Z1(sign, T, sign_of(x))
Z1(square, T, times(x, x))
Z1(cube, T, times(times(x, x), x))
Z1(reciprocal, T, divided(pair(1, 0), x))
Z1(sqrt, T, TLK_OF(csqrt)(x))
Z1(rsqrt, T, divided(pair(1, 0), TLK_OF(csqrt)(x)))
Z1(exp, T, TLK_OF(cexp)(x))
Z1(exp2, T, TLK_OF(cexp)(scaled(x, LN2)))
Z1(expm1, T, expm1_of(x))
Z1(log, T, TLK_OF(clog)(x))
Z1(log2, T, scaled(TLK_OF(clog)(x), 1 / LN2))
Z1(log10, T, scaled(TLK_OF(clog)(x), 1 / LN10))
Z1(log1p, T, log1p_of(x))
Z1(sin, T, TLK_OF(csin)(x))
Z1(cos, T, TLK_OF(ccos)(x))
Z1(tan, T, TLK_OF(ctan)(x))
Z1(asin, T, TLK_OF(casin)(x))
Z1(acos, T, TLK_OF(cacos)(x))
Z1(atan, T, TLK_OF(catan)(x))
Z1(sinh, T, TLK_OF(csinh)(x))
Z1(cosh, T, TLK_OF(ccosh)(x))
Z1(tanh, T, TLK_OF(ctanh)(x))
Z1(asinh, T, TLK_OF(casinh)(x))
Z1(acosh, T, TLK_OF(cacosh)(x))
Z1(atanh, T, TLK_OF(catanh)(x))
Z1(sigmoid, T, sigmoid_of(x))
Z1(sinc, T, sinc_of(x))
Z1(silu, T, times(x, sigmoid_of(x)))
Z1(softsign, T, scaled(x, 1 / (1 + TLK_OF(cabs)(x))))
Z1(tanhshrink, T, x - TLK_OF(ctanh)(x))
Z1(isnan, uint8_t, is_nan(x))
Z1(isinf, uint8_t, isinf(re(x)) || isinf(im(x)))
Z1(isfinite, uint8_t, isfinite(re(x)) && isfinite(im(x)))
Z1(logical_not, uint8_t, !nonzero(x))

#define TABLE_(type) TLK_ISA_NAME(tlk_loops_##type)
#define TABLE(type) TABLE_(type)
extern const tlk_Loop TABLE(TLK_TYPE)[TLK_NPOINTWISES];
const tlk_Loop TABLE(TLK_TYPE)[TLK_NPOINTWISES] = {
#define X(name, inputs, result) [TLK_##name] = loop_##name,
    TLK_COMPLEX_POINTWISES(X)
#undef X
};
