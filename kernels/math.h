/*
** math.h - one scalar definition for each elementwise kernel, which the CPU and the GPU share.
**
** A definition is named after its kernel in src/ops, and computes the result for one element in the
** compute type. The macro's name tells for which types the kernel is defined:
**
**   TLM_FLOATING1(name, params, body)  float and double, one input x
**   TLM_FLOATING2(name, params, body)  inputs a, b
**   TLM_FLOATING3(name, params, body)  inputs a, b, c
**   TLM_INTEGER1..3                    int32_t and int64_t
**   TLM_NUMBER1..3                     all four
**   TLM_DIVISION2                      integers; the caller makes sure that no
**                                      element of b is 0
**   TLM_..._TEST1..2                   the same with a bool as result
**   TLM_..._REDUCTION                  explained below
**
** `params` is the number of numeric parameters besides the inputs. In a body, they are p[0], p[1]
** ... in the compute type; T is the compute type; and U is the unsigned integer type of the same
** size, for bits and for arithmetic that wraps around. The macros define functions
** tlm_<name>_<f32|f64|i32|i64>, and constants of the same name with the suffixes _params and
** _divides. Bodies are valid in C and in CUDA C++. The functions exp, log, sqrt ... work for both
** floating types: C++ overloads them, and C uses cpu/elementary.h. Bodies avoid branches, so that
** compilers can vectorise the loop around them. Results follow PyTorch, even for NaN, infinities
** and ties.
*/
#ifndef TLM_MATH_H
#define TLM_MATH_H

#ifdef __CUDACC__
#define TLM_FN static __device__ __forceinline__
/* not inlined, so that all kernels of a file share one copy of the function */
#define TLM_LONG_FN static __device__ __noinline__
#define TLM_ONCE_FN TLM_LONG_FN
/* The distribution function of the normal distribution, by PyTorch's formula. normcdf takes twice
** as many instructions, because it is also accurate in the tail. */
#define TLM_CDF(x) ((T)0.5 + (T)0.5 * erf((x) * (T)0.70710678118654752440))
/* In a * b + c * d, a compiler may contract either product to a fused multiply-add, with different
** results. With this macro, all kernels contract the same product. */
#define TLM_MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define TLM_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define TLM_FN static inline
#define TLM_LONG_FN static inline
/* not inlined, so that the loops of a kernel share one copy of a long function */
#define TLM_ONCE_FN static __attribute__((noinline, unused))
#define TLM_CDF normcdf
#include "kernels/cpu/elementary.h"
#endif

#include "kernels/bessel.h"
#include "kernels/special.h"

#define TLM_DEFINE_(name, s, type, bits, result, inputs, params, divides, ...)       \
  enum { tlm_##name##_##s##_params = params, tlm_##name##_##s##_divides = divides }; \
  TLM_FN result tlm_##name##_##s inputs(type) {                                      \
    typedef type T __attribute__((unused));                                          \
    typedef bits U __attribute__((unused));                                          \
    (void)p;                                                                         \
    __VA_ARGS__                                                                      \
  }
#define TLM_1_(type) (type x, const type *p)
#define TLM_2_(type) (type a, type b, const type *p)
#define TLM_3_(type) (type a, type b, type c, const type *p)

#define TLM_F_(name, inputs, params, ...)                                        \
  TLM_DEFINE_(name, f32, float, uint32_t, float, inputs, params, 0, __VA_ARGS__) \
  TLM_DEFINE_(name, f64, double, uint64_t, double, inputs, params, 0, __VA_ARGS__)
#define TLM_I_(name, inputs, params, divides, ...)                                         \
  TLM_DEFINE_(name, i32, int32_t, uint32_t, int32_t, inputs, params, divides, __VA_ARGS__) \
  TLM_DEFINE_(name, i64, int64_t, uint64_t, int64_t, inputs, params, divides, __VA_ARGS__)
#define TLM_FT_(name, inputs, params, ...)                                      \
  TLM_DEFINE_(name, f32, float, uint32_t, bool, inputs, params, 0, __VA_ARGS__) \
  TLM_DEFINE_(name, f64, double, uint64_t, bool, inputs, params, 0, __VA_ARGS__)
#define TLM_IT_(name, inputs, params, ...)                                        \
  TLM_DEFINE_(name, i32, int32_t, uint32_t, bool, inputs, params, 0, __VA_ARGS__) \
  TLM_DEFINE_(name, i64, int64_t, uint64_t, bool, inputs, params, 0, __VA_ARGS__)

#define TLM_FLOATING1(name, params, ...) TLM_F_(name, TLM_1_, params, __VA_ARGS__)
#define TLM_FLOATING2(name, params, ...) TLM_F_(name, TLM_2_, params, __VA_ARGS__)
#define TLM_FLOATING3(name, params, ...) TLM_F_(name, TLM_3_, params, __VA_ARGS__)
#define TLM_INTEGER1(name, params, ...) TLM_I_(name, TLM_1_, params, 0, __VA_ARGS__)
#define TLM_INTEGER2(name, params, ...) TLM_I_(name, TLM_2_, params, 0, __VA_ARGS__)
#define TLM_INTEGER3(name, params, ...) TLM_I_(name, TLM_3_, params, 0, __VA_ARGS__)
#define TLM_DIVISION2(name, params, ...) TLM_I_(name, TLM_2_, params, 1, __VA_ARGS__)
#define TLM_NUMBER1(name, params, ...) \
  TLM_FLOATING1(name, params, __VA_ARGS__) TLM_INTEGER1(name, params, __VA_ARGS__)
#define TLM_NUMBER2(name, params, ...) \
  TLM_FLOATING2(name, params, __VA_ARGS__) TLM_INTEGER2(name, params, __VA_ARGS__)
#define TLM_NUMBER3(name, params, ...) \
  TLM_FLOATING3(name, params, __VA_ARGS__) TLM_INTEGER3(name, params, __VA_ARGS__)
#define TLM_FLOATING_TEST1(name, params, ...) TLM_FT_(name, TLM_1_, params, __VA_ARGS__)
#define TLM_INTEGER_TEST1(name, params, ...) TLM_IT_(name, TLM_1_, params, __VA_ARGS__)
#define TLM_NUMBER_TEST1(name, params, ...) \
  TLM_FT_(name, TLM_1_, params, __VA_ARGS__) TLM_IT_(name, TLM_1_, params, __VA_ARGS__)
#define TLM_NUMBER_TEST2(name, params, ...) \
  TLM_FT_(name, TLM_2_, params, __VA_ARGS__) TLM_IT_(name, TLM_2_, params, __VA_ARGS__)

/* Defines a reduction, which combines elements in an accumulator:
**
**   TLM_FLOATING_REDUCTION(name, params, M, A, start, enter, join, result)
**
**   start    the accumulator of no elements, of type A
**   enter    the contribution of an element x, of type M
**   join     the sum, or another associative function, of two contributions or accumulators a, b
**   result   the result of an accumulator a, of type T
**
** M and A are either T or W. W is a wider type for sums: double for both floating types, int64_t
** for integers. If M is T and A is W, a few elements are joined in T before they are joined to the
** accumulator. In a float32 sum, the error of this is one or two roundings for any number of
** elements. */
#define TLM_REDUCE_(name, s, type, bits, wide, params, M, A, start, enter, join, ...)       \
  enum { tlm_##name##_##s##_params = params };                                              \
  typedef type tlm_##name##_##s##_T;                                                        \
  typedef wide tlm_##name##_##s##_W;                                                        \
  typedef tlm_##name##_##s##_##M tlm_##name##_##s##_entered;                                \
  typedef tlm_##name##_##s##_##A tlm_##name##_##s##_acc;                                    \
  TLM_FN tlm_##name##_##s##_acc tlm_##name##_##s##_start(const type *p) {                   \
    typedef type T __attribute__((unused));                                                 \
    (void)p;                                                                                \
    return start;                                                                           \
  }                                                                                         \
  TLM_FN tlm_##name##_##s##_entered tlm_##name##_##s##_enter(type x, const type *p) {       \
    typedef type T __attribute__((unused));                                                 \
    typedef wide W __attribute__((unused));                                                 \
    (void)p;                                                                                \
    return enter;                                                                           \
  }                                                                                         \
  TLM_FN tlm_##name##_##s##_entered tlm_##name##_##s##_pair(tlm_##name##_##s##_entered a,   \
                                                            tlm_##name##_##s##_entered b) { \
    return join;                                                                            \
  }                                                                                         \
  TLM_FN tlm_##name##_##s##_acc tlm_##name##_##s##_join(tlm_##name##_##s##_acc a,           \
                                                        tlm_##name##_##s##_acc b) {         \
    return join;                                                                            \
  }                                                                                         \
  TLM_FN type tlm_##name##_##s##_result(tlm_##name##_##s##_acc a, const type *p) {          \
    typedef type T;                                                                         \
    (void)p;                                                                                \
    return (T)(__VA_ARGS__);                                                                \
  }
#define TLM_FLOATING_REDUCTION(name, params, ...)                      \
  TLM_REDUCE_(name, f32, float, uint32_t, double, params, __VA_ARGS__) \
  TLM_REDUCE_(name, f64, double, uint64_t, double, params, __VA_ARGS__)
#define TLM_INTEGER_REDUCTION(name, params, ...)                          \
  TLM_REDUCE_(name, i32, int32_t, uint32_t, int64_t, params, __VA_ARGS__) \
  TLM_REDUCE_(name, i64, int64_t, uint64_t, int64_t, params, __VA_ARGS__)
#define TLM_NUMBER_REDUCTION(name, params, ...)     \
  TLM_FLOATING_REDUCTION(name, params, __VA_ARGS__) \
  TLM_INTEGER_REDUCTION(name, params, __VA_ARGS__)

/* Defines a function that returns the larger (or smaller) of two numbers, or NaN if one of them is
** NaN. Compilers turn the comparison into one instruction, whose result is b if a or b is NaN. */
#define TLM_EXTREME_(name, type, sign) \
  TLM_FN type name(type a, type b) {   \
    type m = a sign b ? a : b;         \
    return a != a ? a + b : m;         \
  }
#ifdef __cplusplus
TLM_EXTREME_(TLM_LARGER, float, >)
TLM_EXTREME_(TLM_LARGER, double, >)
TLM_EXTREME_(TLM_SMALLER, float, <)
TLM_EXTREME_(TLM_SMALLER, double, <)
#else
TLM_EXTREME_(tlm_larger_f32, float, >)
TLM_EXTREME_(tlm_larger_f64, double, >)
TLM_EXTREME_(tlm_smaller_f32, float, <)
TLM_EXTREME_(tlm_smaller_f64, double, <)
#define TLM_LARGER(a, b) _Generic((a), float : tlm_larger_f32, double : tlm_larger_f64)(a, b)
#define TLM_SMALLER(a, b) _Generic((a), float : tlm_smaller_f32, double : tlm_smaller_f64)(a, b)
#endif

/* Defines a scan, which computes the accumulator after each element:
**
**   TLM_FLOATING_SCAN(name, A, start, join, picks)
**
**   start   the accumulator before the first element, of type A (T or W, as in reductions)
**   join    the accumulator after the next element x, given accumulator a
**   picks   whether x becomes the element whose position is returned */
#define TLM_SCAN_(name, s, type, wide, A, start, join, ...)                                     \
  typedef type tlm_##name##_##s##_T;                                                            \
  typedef wide tlm_##name##_##s##_W;                                                            \
  typedef tlm_##name##_##s##_##A tlm_##name##_##s##_state;                                      \
  TLM_FN tlm_##name##_##s##_state tlm_##name##_##s##_first(void) {                              \
    typedef type T __attribute__((unused));                                                     \
    typedef wide W __attribute__((unused));                                                     \
    return start;                                                                               \
  }                                                                                             \
  TLM_FN tlm_##name##_##s##_state tlm_##name##_##s##_next(tlm_##name##_##s##_state a, type x) { \
    typedef wide W __attribute__((unused));                                                     \
    return join;                                                                                \
  }                                                                                             \
  TLM_FN bool tlm_##name##_##s##_picks(tlm_##name##_##s##_state a, type x) {                    \
    (void)a, (void)x;                                                                           \
    return __VA_ARGS__;                                                                         \
  }
#define TLM_FLOATING_SCAN(name, ...)               \
  TLM_SCAN_(name, f32, float, double, __VA_ARGS__) \
  TLM_SCAN_(name, f64, double, double, __VA_ARGS__)
#define TLM_INTEGER_SCAN(name, ...)                   \
  TLM_SCAN_(name, i32, int32_t, int64_t, __VA_ARGS__) \
  TLM_SCAN_(name, i64, int64_t, int64_t, __VA_ARGS__)

/* ---- arithmetic -------------------------------------------------------------- */

TLM_FLOATING2(add, 1, return a + p[0] * b;)
TLM_FLOATING2(sub, 1, return a - p[0] * b;)
TLM_INTEGER2(add, 1, return (T)((U)a + (U)p[0] * (U)b);)
TLM_INTEGER2(sub, 1, return (T)((U)a - (U)p[0] * (U)b);)
TLM_FLOATING2(mul, 0, return a * b;)
TLM_INTEGER2(mul, 0, return (T)((U)a * (U)b);)
TLM_FLOATING2(true_divide, 0, return a / b;)
TLM_FLOATING3(addcmul, 1, return a + p[0] * b * c;)
TLM_INTEGER3(addcmul, 1, return (T)((U)a + (U)p[0] * (U)b * (U)c);)
TLM_FLOATING3(addcdiv, 1, return a + p[0] * b / c;)
/* Returns a + c (b - a). It is computed from the nearer end, a or b, so that weight c = 1 gives
** exactly b. */
TLM_FLOATING3(lerp, 0, return fabs(c) < (T)0.5 ? a + c * (b - a) : b - (b - a) * (1 - c);)

TLM_FLOATING1(neg, 0, return -x;)
TLM_INTEGER1(neg, 0, return (T)(0 - (U)x);)
TLM_FLOATING1(abs, 0, return fabs(x);)
TLM_INTEGER1(abs, 0, return (T)(x < 0 ? 0 - (U)x : (U)x);)
TLM_NUMBER1(sign, 0, return (T)((x > 0) - (x < 0));)
TLM_FLOATING1(square, 0, return x * x;)
TLM_INTEGER1(square, 0, return (T)((U)x * (U)x);)
TLM_FLOATING1(cube, 0, return x * x * x;)
TLM_INTEGER1(cube, 0, return (T)((U)x * (U)x * (U)x);)
TLM_FLOATING1(reciprocal, 0, return 1 / x;)
TLM_FLOATING1(sqrt, 0, return sqrt(x);)
TLM_FLOATING1(rsqrt, 0, return 1 / sqrt(x);)

/* Divides integers. x / -1 is written as a negation, because negating the most negative integer
** must wrap around. */
TLM_DIVISION2(div_trunc, 0, return b == -1 ? (T)(0 - (U)a) : a / b;)
TLM_DIVISION2(floor_divide, 0, {
  T q = b == -1 ? (T)(0 - (U)a) : a / b;
  T r = b == -1 ? 0 : a % b;
  return q - (T)(r != 0 && (r < 0) != (b < 0));
})
TLM_DIVISION2(fmod, 0, return b == -1 ? 0 : a % b;)
TLM_DIVISION2(remainder, 0, {
  T r = b == -1 ? 0 : a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
})

TLM_FLOATING2(div_trunc, 0, return trunc(a / b);)
TLM_FLOATING2(fmod, 0, return fmod(a, b);)
/* Returns the remainder with the sign of the divisor. `rest` is the result of fmod(a, b). */
#define TLM_REMAINDER_BODY(T, rest) \
  T r = rest;                       \
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
/* Divides and rounds down by Python's algorithm. (a - remainder) / b is an integer except for
** rounding errors, so it is rounded to the nearest integer. */
#define TLM_FLOOR_DIVIDE_BODY(T, rest)                  \
  T r = rest;                                           \
  T q = (a - r) / b;                                    \
  q = r != 0 && (b < 0) != (r < 0) ? q - 1 : q;         \
  T whole = floor(q);                                   \
  whole = q - whole > (T)0.5 ? whole + 1 : whole;       \
  T quotient = a / b;                                   \
  T result = q != 0 ? whole : copysign((T)0, quotient); \
  return b == 0 ? quotient : result;
TLM_FLOATING2(remainder, 0, TLM_REMAINDER_BODY(T, fmod(a, b)))
TLM_FLOATING2(floor_divide, 0, TLM_FLOOR_DIVIDE_BODY(T, fmod(a, b)))

TLM_FLOATING2(pow, 0, return pow(a, b);)
/* Computes a power by repeated squaring. A negative exponent gives 0 unless the base is 1 or -1. */
TLM_INTEGER2(pow, 0, {
  T inverse = a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  U result = 1;
  U factor = (U)a;
  for (T e = b < 0 ? 0 : b; e != 0; e >>= 1) {
    result *= e & 1 ? factor : 1;
    factor *= factor;
  }
  return b < 0 ? inverse : (T)result;
})

/* ---- rounding ---------------------------------------------------------------- */

TLM_FLOATING1(ceil, 0, return ceil(x);)
TLM_FLOATING1(floor, 0, return floor(x);)
TLM_FLOATING1(trunc, 0, return trunc(x);)
TLM_FLOATING1(frac, 0, return x - trunc(x);)
TLM_INTEGER1(ceil, 0, return x;)
TLM_INTEGER1(floor, 0, return x;)
TLM_INTEGER1(trunc, 0, return x;)
/* Rounds to p[0] decimals. A number in the middle is rounded to the even neighbour. */
TLM_FLOATING1(round, 1, {
  T scale = (T)pow(10.0, (double)fabs(p[0]));
  return p[0] == 0 ? rint(x) : p[0] > 0 ? rint(x * scale) / scale : rint(x / scale) * scale;
})
TLM_INTEGER1(round, 1, return x;)

/* ---- exponentials and logarithms ---------------------------------------------- */

TLM_FLOATING1(exp, 0, return exp(x);)
TLM_FLOATING1(exp2, 0, return exp2(x);)
TLM_FLOATING1(expm1, 0, return expm1(x);)
TLM_FLOATING1(log, 0, return log(x);)
TLM_FLOATING1(log2, 0, return log2(x);)
TLM_FLOATING1(log10, 0, return log10(x);)
TLM_FLOATING1(log1p, 0, return log1p(x);)
TLM_FLOATING2(logaddexp, 0, {
  T high = a > b ? a : b;
  T sum = high + log1p(exp(-fabs(a - b)));
  return a == b && isinf(a) ? a : isnan(a) ? a : sum;
})
TLM_FLOATING2(logaddexp2, 0, {
  T high = a > b ? a : b;
  T sum = high + log1p(exp2(-fabs(a - b))) * (T)(1 / TLM_LN2);
  return a == b && isinf(a) ? a : isnan(a) ? a : sum;
})
TLM_FLOATING2(xlogy, 0, {
  T product = a * log(b);
  return isnan(b) ? b : a == 0 ? 0 : product;
})
TLM_FLOATING2(xlog1py, 0, {
  T product = a * log1p(b);
  return isnan(b) ? b : a == 0 ? 0 : product;
})
/* The next kernels are defined here for real numbers. For complex numbers, their loops are in
** cpu/pointwise/complex_loops.h. */
TLM_NUMBER1(conj_physical, 0, return x;)
TLM_FLOATING1(angle, 0, return isnan(x) ? x : x < 0 ? (T)TLM_PI : 0;)
TLM_FLOATING1(sigmoid, 0, return 1 / (1 + exp(-x));)

/* ---- trigonometry ------------------------------------------------------------- */

TLM_FLOATING1(sin, 0, return sin(x);)
TLM_FLOATING1(cos, 0, return cos(x);)
TLM_FLOATING1(tan, 0, return tan(x);)
TLM_FLOATING1(asin, 0, return asin(x);)
TLM_FLOATING1(acos, 0, return acos(x);)
TLM_FLOATING1(atan, 0, return atan(x);)
TLM_FLOATING1(sinh, 0, return sinh(x);)
TLM_FLOATING1(cosh, 0, return cosh(x);)
TLM_FLOATING1(tanh, 0, return tanh(x);)
TLM_FLOATING1(asinh, 0, return asinh(x);)
TLM_FLOATING1(acosh, 0, return acosh(x);)
TLM_FLOATING1(atanh, 0, return atanh(x);)
TLM_FLOATING2(atan2, 0, return atan2(a, b);)
TLM_FLOATING2(hypot, 0, return hypot(a, b);)

TLM_FLOATING1(sinc, 0, {
  T u = (T)TLM_PI * x;
  T quotient = sin(u) / u;
  return x == 0 ? 1 : quotient;
})

TLM_FLOATING1(sinc_derivative, 0, return (T)(TLM_PI * tlm_sinc_first(TLM_PI * (double)x));)
TLM_FLOATING1(sinc_second, 0, return (T)(TLM_PI * TLM_PI * tlm_sinc_second(TLM_PI * (double)x));)

/* ---- special functions --------------------------------------------------------- */

TLM_FLOATING1(erf, 0, return erf(x);)
TLM_FLOATING1(erfc, 0, return erfc(x);)
TLM_FLOATING1(lgamma, 0, return lgamma(x);)

TLM_FLOATING1(erfinv, 0, return (T)tlm_erfinv(x);)
TLM_FLOATING1(i0, 0, return (T)tlm_i0(x);)
TLM_FLOATING1(i1, 0, return (T)tlm_i1(x);)
TLM_FLOATING1(i0e, 0, return (T)tlm_i0_scaled(x);)
TLM_FLOATING1(i1e, 0, return (T)tlm_i1_scaled(x);)
TLM_FLOATING1(spherical_bessel_j0, 0, return isinf(x) ? (T)0 : x == 0 ? (T)1 : sin(x) / x;)
TLM_FLOATING1(spherical_j0_derivative, 0, return isinf(x) ? (T)0 : (T)tlm_sinc_first((double)x);)
TLM_FLOATING1(spherical_j0_second, 0, return isinf(x) ? (T)0 : (T)tlm_sinc_second((double)x);)
TLM_FLOATING1(bessel_j0, 0, return (T)tlm_j0((double)x);)
TLM_FLOATING1(bessel_j1, 0, return (T)tlm_j1((double)x);)
TLM_FLOATING1(bessel_y0, 0, return (T)tlm_y0((double)x);)
TLM_FLOATING1(bessel_y1, 0, return (T)tlm_y1((double)x);)
TLM_FLOATING1(modified_bessel_k0, 0, return (T)tlm_k0((double)x, false);)
TLM_FLOATING1(modified_bessel_k1, 0, return (T)tlm_k1((double)x, false);)
TLM_FLOATING1(scaled_modified_bessel_k0, 0, return (T)tlm_k0((double)x, true);)
TLM_FLOATING1(scaled_modified_bessel_k1, 0, return (T)tlm_k1((double)x, true);)
TLM_FLOATING1(airy_ai, 0, return (T)tlm_airy((double)x, false);)
TLM_FLOATING1(airy_ai_slope, 0, return (T)tlm_airy((double)x, true);)
/* p[0] is the family of polynomials, and p[1] the order of the derivative. */
TLM_FLOATING2(orthogonal_polynomial, 2,
              return (T)tlm_orthogonal((int)p[0], (double)a, (double)b, (int)p[1]);)
TLM_FLOATING1(erfcx, 0, return (T)tlm_erfcx(x);)
TLM_FLOATING1(log_ndtr, 0, return (T)tlm_log_ndtr(x);)
TLM_FLOATING1(ndtri, 0, return (T)tlm_ndtri(x);)
TLM_FLOATING2(zeta, 0, return (T)tlm_hurwitz(a, b);)
TLM_FLOATING2(igamma, 0, return (T)tlm_gamma_share(a, b, true);)
TLM_FLOATING2(igammac, 0, return (T)tlm_gamma_share(a, b, false);)
#define TLM_TOLERANCE (sizeof(T) == 4 ? 1e-9 : 2e-16)
TLM_FLOATING2(gamma_slope, 0, return (T)tlm_gamma_slope(a, b, TLM_TOLERANCE);)
TLM_FLOATING3(beta_slope, 0, return (T)tlm_beta_slope(a, b, c, TLM_TOLERANCE);)

TLM_FLOATING1(digamma, 0, {
  double v = x;
  double turn = TLM_PI * (v - rint(v));
  double direct = tlm_polygamma(0, v <= 0 ? 1 - v : v);
  double reflected = direct - TLM_PI / tan(turn);
  double result = v > 0 ? direct : v == floor(v) ? (double)NAN : reflected;
  result = v == 0 ? copysign((double)INFINITY, -v) : result;
  return (T)(isinf(v) && v > 0 ? v : result);
})
TLM_FLOATING1(trigamma, 0, {
  double v = x;
  double wave = TLM_PI / sin(TLM_PI * (v - rint(v)));
  double direct = tlm_polygamma(1, v <= 0 ? 1 - v : v);
  double result = v > 0 ? direct : wave * wave - direct;
  return (T)(v <= 0 && v == floor(v) ? (double)INFINITY : result);
})
/* p[0] is the order of the polygamma function, at least 2. */
TLM_FLOATING1(higher_gamma, 1, return (T)tlm_higher_gamma((int)p[0], (double)x);)

/* ---- bounds -------------------------------------------------------------------- */

TLM_FLOATING2(maximum, 0, return TLM_LARGER(a, b);)
TLM_FLOATING2(minimum, 0, return TLM_SMALLER(a, b);)
TLM_FLOATING2(fmax, 0, {
  T m = a > b ? a : b;
  return isnan(b) ? a : m;
})
TLM_FLOATING2(fmin, 0, {
  T m = a < b ? a : b;
  return isnan(b) ? a : m;
})
TLM_INTEGER2(maximum, 0, return a > b ? a : b;)
TLM_INTEGER2(minimum, 0, return a < b ? a : b;)
TLM_INTEGER2(fmax, 0, return a > b ? a : b;)
TLM_INTEGER2(fmin, 0, return a < b ? a : b;)
/* Limits a to [b, c]; if b > c, the result is c. */
TLM_FLOATING3(clamp, 0, {
  T low = TLM_LARGER(b, a);
  return TLM_SMALLER(c, low);
})
TLM_INTEGER3(clamp, 0, {
  T low = a < b ? b : a;
  return low > c ? c : low;
})
TLM_NUMBER2(heaviside, 0, return a == 0 ? b : (T)(a > 0);)
TLM_FLOATING2(copysign, 0, return copysign(a, b);)
/* Returns the floating-point number next to a in the direction of b. If the bits of neighbouring
** numbers are read as integers, they differ by 1. */
TLM_FLOATING2(nextafter, 0, {
  U bits;
  memcpy(&bits, &a, sizeof bits);
  U step = (a < b) == (a > 0) ? bits + 1 : bits - 1;
  T next;
  memcpy(&next, &step, sizeof next);
  U tiny = 1;
  T least;
  memcpy(&least, &tiny, sizeof least);
  next = a == 0 ? copysign(least, b) : next;
  next = a == b ? b : next;
  return isnan(a) ? a : isnan(b) ? b : next;
})
/* Computes nextafter in float for the values of a 16-bit type. From the magnitude `normal` on, the
** bits of neighbours, read as integers, differ by `step`. Below that magnitude, neighbours are
** `least` apart. The neighbour above the largest finite value is at least `infinity`. */
TLM_FN float tlm_nextafter16(float a, float b, uint32_t step, float normal, float least,
                             float infinity) {
  bool grows = a == 0 || (a < b) == (a > 0);
  float size = fabsf(a) > infinity ? infinity : fabsf(a), next;
  uint32_t bits;
  memcpy(&bits, &size, sizeof bits);
  bits = grows ? bits + step : bits - step;
  memcpy(&next, &bits, sizeof next);
  float beside = grows ? size + least : size - least;
  next = (grows ? size < normal : size <= normal) ? beside : next;
  next = copysignf(next, a == 0 ? b : a);
  next = a == b ? b : next;
  return a != a ? a : b != b ? b : next;
}
TLM_FLOATING2(nextafter_f16, 0, {
  return (T)tlm_nextafter16((float)a, (float)b, 0x2000, 0x1p-14f, 0x1p-24f, 0x1p16f);
})
TLM_FLOATING2(nextafter_bf16, 0,
              { return (T)tlm_nextafter16((float)a, (float)b, 0x10000, 0, 0, (float)INFINITY); })

/* ---- parts of numbers ---------------------------------------------------------------- */

TLM_FLOATING1(frexp_mantissa, 0, {
  int exponent;
  return (T)frexp((double)x, &exponent);
})
TLM_FLOATING1(frexp_exponent, 0, {
  int exponent = 0;
  double mantissa = frexp((double)x, &exponent);
  return mantissa - mantissa == 0 ? (T)exponent : 0; /* the result for infinity and NaN is 0 */
})

/* ---- choice, comparison, logic --------------------------------------------------- */

TLM_NUMBER3(where, 0, return a != 0 ? b : c;)
TLM_NUMBER3(masked_fill_kernel, 0, return b != 0 ? c : a;)
TLM_NUMBER_TEST2(eq, 0, return a == b;)
TLM_NUMBER_TEST2(ne, 0, return a != b;)
TLM_NUMBER_TEST2(lt, 0, return a < b;)
TLM_NUMBER_TEST2(le, 0, return a <= b;)
TLM_NUMBER_TEST2(gt, 0, return a > b;)
TLM_NUMBER_TEST2(ge, 0, return a >= b;)
TLM_NUMBER_TEST2(logical_and, 0, return (a != 0) & (b != 0);)
TLM_NUMBER_TEST2(logical_or, 0, return (a != 0) | (b != 0);)
TLM_NUMBER_TEST2(logical_xor, 0, return (a != 0) != (b != 0);)
TLM_NUMBER_TEST1(logical_not, 0, return x == 0;)
TLM_FLOATING_TEST1(isnan, 0, return isnan(x);)
TLM_FLOATING_TEST1(isinf, 0, return fabs(x) == (T)INFINITY;)
TLM_FLOATING_TEST1(isfinite, 0, return fabs(x) < (T)INFINITY;)
TLM_FLOATING_TEST1(isposinf, 0, return x == (T)INFINITY;)
TLM_FLOATING_TEST1(isneginf, 0, return x == -(T)INFINITY;)
TLM_FLOATING_TEST1(signbit, 0, {
  U bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits >> (8 * sizeof bits - 1)) != 0;
})
TLM_INTEGER_TEST1(isnan, 0, return (void)x, false;)
TLM_INTEGER_TEST1(isinf, 0, return (void)x, false;)
TLM_INTEGER_TEST1(isfinite, 0, return (void)x, true;)
TLM_INTEGER_TEST1(isposinf, 0, return (void)x, false;)
TLM_INTEGER_TEST1(isneginf, 0, return (void)x, false;)
TLM_INTEGER_TEST1(signbit, 0, return x < 0;)

/* ---- bits ------------------------------------------------------------------------ */

TLM_INTEGER2(bitwise_and, 0, return a & b;)
TLM_INTEGER2(bitwise_or, 0, return a | b;)
TLM_INTEGER2(bitwise_xor, 0, return a ^ b;)
TLM_INTEGER1(bitwise_invert, 0, return ~x;)
/* Shifts to the left. The result is 0 if b is negative or at least the width of the type. */
TLM_INTEGER2(bitwise_left_shift, 0, {
  bool out = b < 0 || b >= (T)(8 * sizeof a);
  return out ? 0 : (T)((U)a << (out ? 0 : b));
})
TLM_INTEGER2(bitwise_right_shift, 0, {
  T most = (T)(8 * sizeof a - 1);
  return a >> (b < 0 || b > most ? most : b);
})
TLM_INTEGER2(gcd, 0, {
  U m = a < 0 ? 0 - (U)a : (U)a;
  U n = b < 0 ? 0 - (U)b : (U)b;
  return (T)tlm_gcd(m, n);
})
TLM_INTEGER2(lcm, 0, {
  U m = a < 0 ? 0 - (U)a : (U)a;
  U n = b < 0 ? 0 - (U)b : (U)b;
  U g = (U)tlm_gcd(m, n);
  U product = g == 0 ? 0 : m / g * n;
  return (T)product < 0 ? (T)(0 - product) : (T)product;
})

/* ---- activations ------------------------------------------------------------------ */

#ifdef __wasm__
/* Clang 14 computes `x < 0 ? 0 : x` as the maximum of x and 0, which is 0 for -0. So this code
** compares x with the negative number that is nearest to 0. */
TLM_FLOATING1(relu, 0, return x <= (T)(sizeof(T) == 4 ? -0x1p-149 : -0x1p-1074) ? 0 : x;)
#else
TLM_FLOATING1(relu, 0, return x < 0 ? 0 : x;)
#endif
TLM_INTEGER1(relu, 0, return x > 0 ? x : 0;)
TLM_FLOATING1(relu6, 0, return x < 0 ? 0 : x > 6 ? 6 : x;)
TLM_INTEGER1(relu6, 0, return x < 0 ? 0 : x > 6 ? 6 : x;)
TLM_NUMBER1(threshold, 2, return x <= p[0] ? p[1] : x;) /* p[0] is the threshold, p[1] the value */
TLM_FLOATING2(threshold_backward, 1, return b <= p[0] ? 0 : a;)
TLM_FLOATING1(leaky_relu, 1, return x > 0 ? x : x * p[0];)
TLM_FLOATING2(leaky_relu_backward, 1, return b > 0 ? a : a * p[0];)
TLM_FLOATING2(prelu, 0, return a > 0 ? a : a * b;)
/* p: alpha */
TLM_FLOATING1(elu, 1, {
  T below = p[0] * expm1(x);
  return x > 0 ? x : below;
})
TLM_FLOATING2(elu_backward, 1, {
  T below = a * p[0] * exp(b);
  return b > 0 ? a : below;
})
TLM_FLOATING1(celu, 1, {
  T below = p[0] * expm1(x / p[0]);
  return x > 0 ? x : below;
})
TLM_FLOATING2(celu_backward, 1, {
  T below = a * exp(b / p[0]);
  return b > 0 ? a : below;
})
#define TLM_SELU_ALPHA 1.6732632423543772848
#define TLM_SELU_SCALE 1.0507009873554804934
TLM_FLOATING1(selu, 0, {
  T below = (T)(TLM_SELU_ALPHA * TLM_SELU_SCALE) * expm1(x);
  return x > 0 ? x * (T)TLM_SELU_SCALE : below;
})
TLM_FLOATING2(selu_backward, 0, {
  T below = a * (T)(TLM_SELU_ALPHA * TLM_SELU_SCALE) * exp(b);
  return b > 0 ? a * (T)TLM_SELU_SCALE : below;
})
TLM_FLOATING1(gelu, 0, return x * TLM_CDF(x);)
TLM_FLOATING2(gelu_backward, 0, {
  T cdf = TLM_CDF(b);
  /* pdf is 0 instead of a subnormal number, which would slow down later products */
  T pdf = b * b < (T)(sizeof(T) == 4 ? 174 : 1416) ? (T)TLM_1_SQRT2PI * exp((T)-0.5 * b * b) : 0;
  return a * (cdf + b * pdf);
})
#define TLM_GELU_BETA 0.79788456080286535588 /* sqrt(2 / pi) */
TLM_FLOATING1(gelu_tanh, 0, {
  T inner = (T)TLM_GELU_BETA * (x + (T)0.044715 * x * x * x);
  return (T)0.5 * x * (1 + tanh(inner));
})
TLM_FLOATING2(gelu_tanh_backward, 0, {
  T inner = (T)TLM_GELU_BETA * (b + (T)0.044715 * b * b * b);
  T slope = (T)TLM_GELU_BETA * (1 + (T)(3 * 0.044715) * b * b);
  T t = tanh(inner);
  return a * ((T)0.5 * (1 + t) + (T)0.5 * b * (1 - t * t) * slope);
})
TLM_FLOATING1(silu, 0, return x / (1 + exp(-x));)
TLM_FLOATING2(silu_backward, 0, {
  T s = 1 / (1 + exp(-b));
  return a * s * (1 + b * (1 - s));
})
/* Computes mish, x tanh(log(1 + e)) with e = exp(x). The tanh equals e (e + 2) / (e (e + 2) + 2),
** which rounds to 1 for x >= 20. */
TLM_FLOATING1(mish, 0, {
  T e = exp(x > 20 ? 20 : x);
  T n = e * (e + 2);
  return x * (n / (n + 2));
})
TLM_FLOATING2(mish_backward, 0, {
  T e = exp(b > 20 ? 20 : b);
  T n = e * (e + 2);
  T t = n / (n + 2);
  return a * (t + b * (e / (1 + e)) * (1 - t * t));
})
/* p[0] is beta, p[1] the threshold */
TLM_FLOATING1(softplus, 2, {
  T curve = log1p(exp(x * p[0])) / p[0];
  return x * p[0] > p[1] ? x : curve;
})
TLM_FLOATING2(softplus_backward, 2, {
  T z = exp(b * p[0]);
  T s = a * (z / (1 + z));
  return b * p[0] > p[1] ? a : s;
})
TLM_FLOATING1(softsign, 0, return x / (1 + fabs(x));)
TLM_FLOATING1(softshrink, 1, return x > p[0] ? x - p[0] : x < -p[0] ? x + p[0] : isnan(x) ? x : 0;)
TLM_FLOATING2(softshrink_backward, 1, return b >= -p[0] && b <= p[0] ? 0 : a;)
TLM_FLOATING1(hardshrink, 1, return x >= -p[0] && x <= p[0] ? 0 : x;)
TLM_FLOATING2(hardshrink_backward, 1, return b >= -p[0] && b <= p[0] ? 0 : a;)
TLM_FLOATING1(tanhshrink, 0, return x - tanh(x);)
/* p[0] is the lowest value, p[1] the highest value */
TLM_NUMBER1(hardtanh, 2, return x < p[0] ? p[0] : x > p[1] ? p[1] : x;)
TLM_FLOATING2(hardtanh_backward, 2, return b <= p[0] || b >= p[1] ? 0 : a;)
TLM_FLOATING1(hardsigmoid, 0, {
  T y = x + 3;
  return (y < 0 ? 0 : y > 6 ? 6 : y) / 6;
})
TLM_FLOATING2(hardsigmoid_backward, 0, return b > -3 && b < 3 ? a / 6 : 0;)
TLM_FLOATING1(hardswish, 0, {
  T y = x + 3;
  return x * (y < 0 ? 0 : y > 6 ? 6 : y) / 6;
})
TLM_FLOATING2(hardswish_backward, 0, return b < -3 ? 0 : b >= 3 ? a : a * (b / 3 + (T)0.5);)
TLM_FLOATING1(logsigmoid, 0, return (x < 0 ? x : isnan(x) ? x : 0) - log1p(exp(-fabs(x)));)
TLM_FLOATING2(logsigmoid_backward, 0, {
  T z = exp(-fabs(b));
  return a * ((b < 0 ? 1 : z) / (1 + z));
})
/* In the next derivatives, a is the gradient and b is the result of the forward kernel. */
TLM_FLOATING2(sigmoid_backward, 0, return a * (1 - b) * b;)
TLM_FLOATING2(tanh_backward, 0, return a * (1 - b * b);)

/* ---- reductions ------------------------------------------------------------------- */

TLM_FLOATING_REDUCTION(sum, 0, T, W, 0, x, a + b, a)
TLM_INTEGER_REDUCTION(sum, 0, W, W, 0, x, (int64_t)((uint64_t)a + (uint64_t)b), a)
TLM_FLOATING_REDUCTION(nansum, 0, T, W, 0, isnan(x) ? 0 : x, a + b, a)
TLM_INTEGER_REDUCTION(nansum, 0, W, W, 0, x, (int64_t)((uint64_t)a + (uint64_t)b), a)
TLM_FLOATING_REDUCTION(prod, 0, W, W, 1, x, a *b, a)
TLM_INTEGER_REDUCTION(prod, 0, W, W, 1, x, (int64_t)((uint64_t)a *(uint64_t)b), a)
TLM_FLOATING_REDUCTION(amax, 0, T, T, -(T)INFINITY, x, TLM_LARGER(a, b), a)
TLM_FLOATING_REDUCTION(amin, 0, T, T, (T)INFINITY, x, TLM_SMALLER(a, b), a)
TLM_INTEGER_REDUCTION(amax, 0, T, T, (T)(sizeof(T) == 4 ? INT32_MIN : INT64_MIN), x, a > b ? a : b,
                      a)
TLM_INTEGER_REDUCTION(amin, 0, T, T, (T)(sizeof(T) == 4 ? INT32_MAX : INT64_MAX), x, a < b ? a : b,
                      a)
TLM_NUMBER_REDUCTION(all, 0, T, T, 1, (T)(x != 0), a < b ? a : b, a)
TLM_NUMBER_REDUCTION(any, 0, T, T, 0, (T)(x != 0), a > b ? a : b, a)
TLM_NUMBER_REDUCTION(count_nonzero, 0, T, W, 0, (T)(x != 0), a + b, a)
TLM_LONG_FN double tlm_power(double a, double b) { return pow(a, b); }
/* These reductions are for norms: they compute the sums of |x|, x * x and |x|^p, and the largest
** and smallest |x|. The squares are summed in double, where they cannot overflow. */
TLM_FLOATING_REDUCTION(sum_abs, 0, T, W, 0, fabs(x), a + b, a)
TLM_FLOATING_REDUCTION(sum_square, 0, W, W, 0, (W)x *(W)x, a + b, a)
TLM_FLOATING_REDUCTION(sum_power, 1, W, W, 0, tlm_power(fabs(x), p[0]), a + b, a)
TLM_FLOATING_REDUCTION(amax_abs, 0, T, T, 0, fabs(x), TLM_LARGER(a, b), a)
TLM_FLOATING_REDUCTION(amin_abs, 0, T, T, (T)INFINITY, fabs(x), TLM_SMALLER(a, b), a)

/* The next functions are second derivatives of activations. */
TLM_FLOATING1(gelu_tanh_second, 0, {
  T inner = (T)TLM_GELU_BETA * (x + (T)0.044715 * x * x * x);
  T slope = (T)TLM_GELU_BETA * (1 + (T)(3 * 0.044715) * x * x);
  T bend = (T)(TLM_GELU_BETA * 6 * 0.044715) * x;
  T t = tanh(inner);
  return (1 - t * t) * (slope + (T)0.5 * x * bend - x * t * slope * slope);
})
TLM_FLOATING1(mish_second, 0, {
  T s = 1 / (1 + exp(-x));
  T t = tanh(log1p(exp(x)));
  return (1 - t * t) * s * (2 + x * (1 - s - 2 * t * s));
})

/* ---- losses ------------------------------------------------------------------------- */

TLM_FLOATING1(huber, 1, {
  T d = fabs(x);
  return d <= p[0] ? (T)0.5 * d * d : p[0] * (d - (T)0.5 * p[0]);
})
/* Computes binary cross-entropy. a is the probability, b the target. Logarithms below -100 are
** replaced by -100. */
TLM_FLOATING2(bce, 0, {
  T yes = log(a);
  T no = log1p(-a);
  yes = yes < -100 ? -100 : yes;
  no = no < -100 ? -100 : no;
  return (b - 1) * no - b * yes;
})

/* ---- positions, counted from 1 ------------------------------------------------------ */

/* Makes negative positions, which count from the end, positive. p[0] is the size of the
** dimension. */
TLM_INTEGER1(unwrap_position, 1, return x < 0 ? x + p[0] + 1 : x;)
/* Returns the flat position of (a, b) in a matrix with p[0] columns. */
TLM_INTEGER2(join_positions, 1, return (T)((U)(a - 1) * (U)p[0] + (U)b);)

/* ---- scans ------------------------------------------------------------------------- */

TLM_FLOATING_SCAN(cumsum, W, 0, a + (W)x, false)
TLM_INTEGER_SCAN(cumsum, W, 0, (W)((uint64_t)a + (uint64_t)x), false)
TLM_FLOATING_SCAN(cumprod, W, 1, a *(W)x, false)
TLM_INTEGER_SCAN(cumprod, W, 1, (W)((uint64_t)a *(uint64_t)x), false)
TLM_FLOATING_SCAN(cummax, T, -(T)INFINITY, isnan(x) || x >= a ? x : a, isnan(x) || x >= a)
TLM_FLOATING_SCAN(cummin, T, (T)INFINITY, isnan(x) || x <= a ? x : a, isnan(x) || x <= a)
TLM_INTEGER_SCAN(cummax, T, (T)(sizeof(T) == 4 ? INT32_MIN : INT64_MIN), x >= a ? x : a, x >= a)
TLM_INTEGER_SCAN(cummin, T, (T)(sizeof(T) == 4 ? INT32_MAX : INT64_MAX), x <= a ? x : a, x <= a)
TLM_FLOATING_SCAN(logcumsumexp, W, -(W)INFINITY, tlm_logaddexp_f64(a, (W)x, NULL), false)

#endif
