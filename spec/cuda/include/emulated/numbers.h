/*
** numbers.h - CUDA's numeric functions that C++ lacks or has only in namespace std. Functions that
** CUDA approximates, such as __expf, are exact in the emulator.
*/
#ifndef TLK_EMULATED_NUMBERS_H
#define TLK_EMULATED_NUMBERS_H

#define INLINE static inline

/* ---- bits -------------------------------------------------------------------------- */

INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
INLINE int __ffs(int x) { return __builtin_ffs(x); }
INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
INLINE unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; i++) y |= (x >> i & 1) << (31 - i);
  return y;
}
INLINE unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; i++)
    out |= (unsigned)(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return out;
}
INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((uint64_t)high << 32 | low) << (n & 31) >> 32);
}
INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (n & 31));
}
INLINE int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

/* ---- numbers as bits --------------------------------------------------------------- */

namespace emulated {
template <class To, class From> INLINE To bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
/* Converts a number as CUDA does: results saturate, and NaN becomes 0. */
template <class To, class From> INLINE To saturated(From x) {
  if (std::isnan(x)) return 0;
  if (x <= (From)std::numeric_limits<To>::min()) return std::numeric_limits<To>::min();
  if (x >= (From)std::numeric_limits<To>::max()) return std::numeric_limits<To>::max();
  return (To)x;
}
} // namespace emulated

INLINE int __float_as_int(float x) { return emulated::bits<int>(x); }
INLINE unsigned __float_as_uint(float x) { return emulated::bits<unsigned>(x); }
INLINE float __int_as_float(int x) { return emulated::bits<float>(x); }
INLINE float __uint_as_float(unsigned x) { return emulated::bits<float>(x); }
INLINE long long __double_as_longlong(double x) { return emulated::bits<long long>(x); }
INLINE double __longlong_as_double(long long x) { return emulated::bits<double>(x); }
INLINE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
INLINE double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)((uint64_t)(unsigned)high << 32 | (unsigned)low));
}

#define CONVERT(from, From, to, To)                                                             \
  INLINE To __##from##2##to##_rn(From x) { return emulated::saturated<To>(std::nearbyint(x)); } \
  INLINE To __##from##2##to##_rz(From x) { return emulated::saturated<To>(std::trunc(x)); }     \
  INLINE To __##from##2##to##_rd(From x) { return emulated::saturated<To>(std::floor(x)); }     \
  INLINE To __##from##2##to##_ru(From x) { return emulated::saturated<To>(std::ceil(x)); }
CONVERT(float, float, int, int)
CONVERT(float, float, uint, unsigned)
CONVERT(float, float, ll, long long)
CONVERT(float, float, ull, unsigned long long)
CONVERT(double, double, int, int)
CONVERT(double, double, uint, unsigned)
CONVERT(double, double, ll, long long)
CONVERT(double, double, ull, unsigned long long)
#undef CONVERT
INLINE float __int2float_rn(int x) { return (float)x; }
INLINE float __uint2float_rn(unsigned x) { return (float)x; }
INLINE float __ll2float_rn(long long x) { return (float)x; }
INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
INLINE double __int2double_rn(int x) { return x; }
INLINE double __uint2double_rn(unsigned x) { return x; }
INLINE double __ll2double_rn(long long x) { return (double)x; }
INLINE double __ull2double_rn(unsigned long long x) { return (double)x; }
INLINE float __double2float_rn(double x) { return (float)x; }

/* ---- arithmetic -------------------------------------------------------------------- */

INLINE float __fadd_rn(float a, float b) { return a + b; }
INLINE float __fsub_rn(float a, float b) { return a - b; }
INLINE float __fmul_rn(float a, float b) { return a * b; }
INLINE float __fdiv_rn(float a, float b) { return a / b; }
INLINE float __frcp_rn(float x) { return 1 / x; }
INLINE float __fsqrt_rn(float x) { return std::sqrt(x); }
INLINE float __frsqrt_rn(float x) { return (float)(1 / std::sqrt((double)x)); }
INLINE float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
INLINE float __fdividef(float a, float b) { return a / b; }
INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
INLINE double __dadd_rn(double a, double b) { return a + b; }
INLINE double __dsub_rn(double a, double b) { return a - b; }
INLINE double __dmul_rn(double a, double b) { return a * b; }
INLINE double __ddiv_rn(double a, double b) { return a / b; }
INLINE double __drcp_rn(double x) { return 1 / x; }
INLINE double __dsqrt_rn(double x) { return std::sqrt(x); }
INLINE double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

/* These functions return the minimum or maximum of two numbers as CUDA does: if one of the numbers
** is NaN, the result is the other number. */
namespace emulated {
template <class A, class B>
using Common = typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
                                       std::common_type<A, B>>::type::type;
}
template <class A, class B> INLINE emulated::Common<A, B> max(A a, B b) {
  typedef emulated::Common<A, B> T;
  return (T)b > (T)a || (T)a != (T)a ? (T)b : (T)a;
}
template <class A, class B> INLINE emulated::Common<A, B> min(A a, B b) {
  typedef emulated::Common<A, B> T;
  return (T)b < (T)a || (T)a != (T)a ? (T)b : (T)a;
}

/* ---- functions --------------------------------------------------------------------- */

/* These are macros, because the C library already declares functions with these names. */
#define __expf(x) std::exp((float)(x))
#define __exp10f(x) std::pow(10.0f, (float)(x))
#define __logf(x) std::log((float)(x))
#define __log2f(x) std::log2((float)(x))
#define __log10f(x) std::log10((float)(x))
#define __powf(a, b) std::pow((float)(a), (float)(b))
#define __sinf(x) std::sin((float)(x))
#define __cosf(x) std::cos((float)(x))
#define __tanf(x) std::tan((float)(x))
#define __sincosf(x, sine, cosine) sincosf((x), (sine), (cosine))

/* Defines a function for double, and a function for float whose name ends with f. */
#define OF_BOTH(name, expression)                       \
  INLINE double name(double x) { return (expression); } \
  INLINE float name(float x_) {                         \
    double x = (double)x_;                              \
    return (float)(expression);                         \
  }                                                     \
  INLINE float name##f(float x) { return name(x); }
OF_BOTH(rsqrt, 1 / std::sqrt(x))
OF_BOTH(rcbrt, 1 / std::cbrt(x))
OF_BOTH(normcdf, 0.5 * std::erfc(x * -0.70710678118654752440))
OF_BOTH(sinpi, std::sin(3.14159265358979323846 * std::fmod(x, 2.0)))
OF_BOTH(cospi, std::cos(3.14159265358979323846 * std::fmod(x, 2.0)))
#undef OF_BOTH
#undef INLINE

#endif
