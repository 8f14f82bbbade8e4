/*
** elementary.h - the elementary functions that kernels/math.h uses in C code, under type-generic
** names (exp, log, sqrt ...) for float and double.
**
** The loops of tuned instruction sets call the double functions of the C library. If the library
** has vector forms of them (glibc from 2.35 on, x86-64), the declarations in this file announce
** these forms, and the compiler calls them in loops; otherwise loops call the scalar functions. All
** other code, including the loops of the portable set, calls our own double functions
** (core/kernel/elementary.h). Most float functions are our own everywhere (elementary_f32.h). The
** remaining float functions round the result of the double function, which adds an error of at most
** half a unit in the last place.
*/
#ifndef TLK_ELEMENTARY_H
#define TLK_ELEMENTARY_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/kernel/elementary.h"
#include "kernels/cpu/elementary_f32.h"

/* A file that needs the C library's functions defines TLK_C_LIBRARY itself. */
#if defined(TLI_INFER) || (defined(TLK_ISA) && !defined(TLK_PORTABLE))
#define TLK_C_LIBRARY
#endif
#ifdef TLK_C_LIBRARY
#define TLK_F64(name) name
#else
#define TLK_F64(name) tli_##name
#endif

#if defined(TLK_C_LIBRARY) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#if __GLIBC_PREREQ(2, 35) && defined(__OPTIMIZE__)
#define TLK_SIMD __attribute__((simd("notinbranch")))
#endif
#endif
#ifndef TLK_SIMD
#define TLK_SIMD
#endif

#ifdef TLK_C_LIBRARY
#define X(name) TLK_SIMD double name(double);
TLI_ELEMENTARY1(X)
#undef X
#define X(name) TLK_SIMD double name(double, double);
TLI_ELEMENTARY2(X)
#undef X
/* These are the only float functions of libmvec with errors of at most 1.4 units in the last
** place. */
TLK_SIMD float exp2f(float);
TLK_SIMD float tanhf(float);
static inline float tlk_exp2f(float x) { return exp2f(x); }
static inline float tlk_tanhf(float x) { return tanhf(x); }
#else
/* Returns 2^x. The power of the fraction f is computed as e^(f ln 2). */
static inline float tlk_exp2f(float x) {
  float t = x < -151 ? -151 : x > 129 ? 129 : x;
  float shifted = t + 12582912.0f, f = t - (shifted - 12582912.0f);
  return tlk_scale(tlk_expf_fast(f * 0.693147181f), (int32_t)(tlk_bits(shifted) - 0x4b400000u));
}
static inline float tlk_tanhf(float x) {
  float m = fabsf(x), near = tlk_expm1f(-2 * m);
  float far = 1 - 2 / (tlk_expf(2 * m) + 1);
  return copysignf(m < 0.5f ? (float)(-(double)near / ((double)near + 2)) : far, x);
}
#endif

#define THROUGH_DOUBLE(name) \
  static inline float tlk_##name##f(float x) { return (float)TLK_F64(name)((double)x); }
#define THROUGH_DOUBLE2(name)                           \
  static inline float tlk_##name##f(float x, float y) { \
    return (float)TLK_F64(name)((double)x, (double)y);  \
  }
/* clang-format off */
THROUGH_DOUBLE(sinh)
THROUGH_DOUBLE(cosh)
THROUGH_DOUBLE(asinh)
THROUGH_DOUBLE(acosh)
THROUGH_DOUBLE(atanh)
THROUGH_DOUBLE(erfc)
THROUGH_DOUBLE2(atan2)
/* clang-format on */
#undef THROUGH_DOUBLE
#undef THROUGH_DOUBLE2

static inline float tlk_sinf(float x) {
  float far = (float)TLK_F64(sin)((double)x);
  return fabsf(x) < TLK_TRIG_LIMIT ? tlk_sinf_fast(x) : far;
}
static inline float tlk_cosf(float x) {
  float far = (float)TLK_F64(cos)((double)x);
  return fabsf(x) < TLK_TRIG_LIMIT ? tlk_cosf_fast(x) : far;
}
static inline float tlk_tanf(float x) {
  float far = (float)TLK_F64(tan)((double)x);
  return fabsf(x) < TLK_TRIG_LIMIT ? tlk_tanf_fast(x) : far;
}
static inline double tlk_normcdf(double x) {
  return 0.5 * TLK_F64(erfc)(x * -0.70710678118654752440);
}
static inline float tlk_hypotf(float x, float y) {
  float root = (float)sqrt((double)x * (double)x + (double)y * (double)y);
  return fabsf(x) == INFINITY || fabsf(y) == INFINITY ? INFINITY : root;
}

/* The C library's lgamma writes the global variable signgam. The reentrant form does not, but
** Windows lacks it. */
static inline double tlk_lgamma(double x) {
#if !defined(TLK_C_LIBRARY)
  return tli_lgamma(x);
#elif defined(_WIN32)
  return lgamma(x);
#else
  int sign;
  return lgamma_r(x, &sign);
#endif
}
static inline float tlk_lgammaf(float x) {
#if !defined(TLK_C_LIBRARY)
  return (float)tli_lgamma((double)x);
#elif defined(_WIN32)
  return lgammaf(x);
#else
  int sign;
  return lgammaf_r(x, &sign);
#endif
}

#define TLK_GENERIC1(name, x) _Generic((x), float : name##f, double : name)(x)
#define TLK_GENERIC2(name, x, y) _Generic((x), float : name##f, double : name)(x, y)

/* These macros call our own function for float, and the function that TLK_F64 selects for
** double. */
#define TLK_OWN1(name, x) _Generic((x), float : tlk_##name##f, double : TLK_F64(name))(x)
#define TLK_OWN2(name, x, y) _Generic((x), float : tlk_##name##f, double : TLK_F64(name))(x, y)

#define exp(x) TLK_OWN1(exp, x)
#define exp2(x) TLK_OWN1(exp2, x)
#define expm1(x) TLK_OWN1(expm1, x)
#define log(x) TLK_OWN1(log, x)
#define log2(x) TLK_OWN1(log2, x)
#define log10(x) TLK_OWN1(log10, x)
#define log1p(x) TLK_OWN1(log1p, x)
#define sin(x) TLK_OWN1(sin, x)
#define cos(x) TLK_OWN1(cos, x)
#define tan(x) TLK_OWN1(tan, x)
#define asin(x) TLK_OWN1(asin, x)
#define acos(x) TLK_OWN1(acos, x)
#define atan(x) TLK_OWN1(atan, x)
#define sinh(x) TLK_OWN1(sinh, x)
#define cosh(x) TLK_OWN1(cosh, x)
#define tanh(x) TLK_OWN1(tanh, x)
#define asinh(x) TLK_OWN1(asinh, x)
#define acosh(x) TLK_OWN1(acosh, x)
#define atanh(x) TLK_OWN1(atanh, x)
#define erf(x) TLK_OWN1(erf, x)
#define erfc(x) TLK_OWN1(erfc, x)
#define normcdf(x) TLK_GENERIC1(tlk_normcdf, x)
#define lgamma(x) TLK_GENERIC1(tlk_lgamma, x)
#define sqrt(x) TLK_GENERIC1(sqrt, x)
#define fabs(x) TLK_GENERIC1(fabs, x)
#define floor(x) TLK_GENERIC1(floor, x)
#define ceil(x) TLK_GENERIC1(ceil, x)
#define trunc(x) TLK_GENERIC1(trunc, x)
#define rint(x) TLK_GENERIC1(rint, x)
#define pow(x, y) TLK_OWN2(pow, x, y)
#define atan2(x, y) TLK_OWN2(atan2, x, y)
#define hypot(x, y) TLK_OWN2(hypot, x, y)
#define fmod(x, y) TLK_GENERIC2(fmod, x, y)
#define copysign(x, y) TLK_GENERIC2(copysign, x, y)

#endif
