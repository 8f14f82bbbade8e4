/*
** loops.h - instantiates, for one compute type, a loop around each scalar
** definition of math.h that the generated list names, and the table of them.
** Included by isa/pointwise_<type>.c; it holds macros only.
*/
#ifndef TLK_LOOPS_H
#define TLK_LOOPS_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/near.h"
#include "kernels/math.h"

/* Which lists of types (third column of the list) a compute type belongs to. */
#define TLK_IN_f32_NUMBER(...) __VA_ARGS__
#define TLK_IN_f32_FLOATING(...) __VA_ARGS__
#define TLK_IN_f32_INTEGER(...)
#define TLK_IN_f64_NUMBER(...) __VA_ARGS__
#define TLK_IN_f64_FLOATING(...) __VA_ARGS__
#define TLK_IN_f64_INTEGER(...)
#define TLK_IN_i32_NUMBER(...) __VA_ARGS__
#define TLK_IN_i32_FLOATING(...)
#define TLK_IN_i32_INTEGER(...) __VA_ARGS__
#define TLK_IN_i64_NUMBER(...) __VA_ARGS__
#define TLK_IN_i64_FLOATING(...)
#define TLK_IN_i64_INTEGER(...) __VA_ARGS__

#define TLK_RESULT_SAME(type) type
#define TLK_RESULT_BOOL(type) uint8_t

static inline float tlk_param_f32(tl_Scalar s) { return (float)tli_to_double(s); }
static inline double tlk_param_f64(tl_Scalar s) { return tli_to_double(s); }
static inline int64_t tlk_param_i64(tl_Scalar s) {
  if (s.kind != TL_FLOATING) return s.i;
  return s.f >= -0x1p63 && s.f < 0x1p63 ? (int64_t)s.f : INT64_MIN;
}
static inline int32_t tlk_param_i32(tl_Scalar s) { return (int32_t)tlk_param_i64(s); }

/* What every loop begins with: p, the parameters in the loop's type. */
#define TLK_PARAMS_(name, s, type)                                   \
  enum { nparams = tlm_##name##_##s##_params };                      \
  type p[nparams + 1];                                               \
  p[nparams] = 0;                                                    \
  for (int k = 0; k < nparams; k++) p[k] = tlk_param_##s(params[k]); \
  n -= n % TLK_LANES;

#define TLK_PLAIN1_(name, s, type, result)                                               \
  static bool loop_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) { \
    TLK_PARAMS_(name, s, type)                                                           \
    (void)params;                                                                        \
    result *out = args[0];                                                               \
    const type *x = args[1];                                                             \
    TLK_IVDEP                                                                            \
    for (int64_t i = 0; i < n; i++) out[i] = (result)tlm_##name##_##s(x[i], p);          \
    return true;                                                                         \
  }
/* Kernels of several inputs have two loops: `loop` for arrays, `fixed` where all
** inputs but the first are one element each. */
#define TLK_PLAIN2_(name, s, type, result)          \
  TLK_PLAIN2_OF_(loop, b[i], name, s, type, result) \
  TLK_PLAIN2_OF_(fixed, second, name, s, type, result)
#define TLK_PLAIN2_OF_(kind, B, name, s, type, result)                                     \
  static bool kind##_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) { \
    TLK_PARAMS_(name, s, type)                                                             \
    (void)params;                                                                          \
    result *out = args[0];                                                                 \
    const type *a = args[1];                                                               \
    const type *b = args[2];                                                               \
    const type second = b[0];                                                              \
    (void)second;                                                                          \
    if (tlm_##name##_##s##_divides) {                                                      \
      int zeros = 0;                                                                       \
      for (int64_t i = 0; i < n; i++) zeros |= B == 0;                                     \
      if (zeros) return false;                                                             \
    }                                                                                      \
    TLK_IVDEP                                                                              \
    for (int64_t i = 0; i < n; i++) out[i] = (result)tlm_##name##_##s(a[i], B, p);         \
    return true;                                                                           \
  }
#define TLK_PLAIN3_(name, s, type, result)                \
  TLK_PLAIN3_OF_(loop, b[i], c[i], name, s, type, result) \
  TLK_PLAIN3_OF_(fixed, second, third, name, s, type, result)
#define TLK_PLAIN3_OF_(kind, B, C, name, s, type, result)                                  \
  static bool kind##_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) { \
    TLK_PARAMS_(name, s, type)                                                             \
    (void)params;                                                                          \
    result *out = args[0];                                                                 \
    const type *a = args[1];                                                               \
    const type *b = args[2];                                                               \
    const type *c = args[3];                                                               \
    const type second = b[0], third = c[0];                                                \
    (void)second, (void)third;                                                             \
    TLK_IVDEP                                                                              \
    for (int64_t i = 0; i < n; i++) out[i] = (result)tlm_##name##_##s(a[i], B, C, p);      \
    return true;                                                                           \
  }

/* To be used as X of TLK_POINTWISES, by a macro that names the type. The loop is
** the plain one, or that which TLK_SPLIT_<name>_<s> of near.h names. */
#define TLK_SECOND2_(a, b, ...) b
#define TLK_SECOND_(...) TLK_SECOND2_(__VA_ARGS__)
#define TLK_LOOP(s, type, name, inputs, types, result)                              \
  TLK_IN_##s##_##types(TLK_SECOND_(TLK_SPLIT_##name##_##s, TLK_PLAIN##inputs##_, )( \
      name, s, type, TLK_RESULT_##result(type)))
#define TLK_LOOP_ENTRY(s, name, types) TLK_IN_##s##_##types([TLK_##name] = loop_##name##_##s, )
#define TLK_FIXED1_(s, name)
#define TLK_FIXED2_(s, name) [TLK_##name] = fixed_##name##_##s,
#define TLK_FIXED3_(s, name) TLK_FIXED2_(s, name)
#define TLK_FIXED_ENTRY(s, name, inputs, types) TLK_IN_##s##_##types(TLK_FIXED##inputs##_(s, name))

#endif
