/*
** loops.h - for one compute type, instantiates a loop around each scalar definition of math.h
** that the generated list names, and defines the table of these loops. isa/pointwise_<type>.c
** includes it; it holds macros only.
*/
#ifndef TLK_LOOPS_H
#define TLK_LOOPS_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/pointwise/fast_path.h"
#include "kernels/math.h"

/* The type lists (third column of the generated list) that a compute type belongs to. Rare
** kernels are in no instruction set's table: rare.c has their loops. */
#define TLK_IN_f32_NUMBER(...) __VA_ARGS__
#define TLK_IN_f32_FLOATING(...) __VA_ARGS__
#define TLK_IN_f32_RARE(...)
#define TLK_IN_f32_INTEGER(...)
#define TLK_IN_f64_NUMBER(...) __VA_ARGS__
#define TLK_IN_f64_FLOATING(...) __VA_ARGS__
#define TLK_IN_f64_RARE(...)
#define TLK_IN_f64_INTEGER(...)
#define TLK_IN_i32_NUMBER(...) __VA_ARGS__
#define TLK_IN_i32_FLOATING(...)
#define TLK_IN_i32_RARE(...)
#define TLK_IN_i32_INTEGER(...) __VA_ARGS__
#define TLK_IN_i64_NUMBER(...) __VA_ARGS__
#define TLK_IN_i64_FLOATING(...)
#define TLK_IN_i64_RARE(...)
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

/* The beginning of every loop: p holds the parameters in the loop's type. */
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
#if defined(__clang__)
#define TLK_VECTOR TLK_IVDEP
#else
/* keeps gcc from unrolling a row of TLK_LANES into sixteen scalar statements */
#define TLK_VECTOR _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#endif

/* Kernels of several inputs have two loops: `loop` for arrays, `fixed` if all inputs but the
** first are one element each. `fixed` reads these from arrays of TLK_LANES equal elements;
** otherwise compilers hoist invariant parts of the body and then fail to vectorise the rest. */
#define TLK_PLAIN2_(name, s, type, result)                                                \
  static bool loop_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) {  \
    TLK_PARAMS_(name, s, type)                                                            \
    (void)params;                                                                         \
    result *out = args[0];                                                                \
    const type *a = args[1];                                                              \
    const type *b = args[2];                                                              \
    if (tlm_##name##_##s##_divides) {                                                     \
      int zeros = 0;                                                                      \
      for (int64_t i = 0; i < n; i++) zeros |= b[i] == 0;                                 \
      if (zeros) return false;                                                            \
    }                                                                                     \
    TLK_IVDEP                                                                             \
    for (int64_t i = 0; i < n; i++) out[i] = (result)tlm_##name##_##s(a[i], b[i], p);     \
    return true;                                                                          \
  }                                                                                       \
  static bool fixed_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) { \
    TLK_PARAMS_(name, s, type)                                                            \
    (void)params;                                                                         \
    result *out = args[0];                                                                \
    const type *a = args[1];                                                              \
    type b[TLK_LANES];                                                                    \
    for (int k = 0; k < TLK_LANES; k++) b[k] = *(const type *)args[2];                    \
    if (tlm_##name##_##s##_divides && b[0] == 0) return false;                            \
    for (int64_t i = 0; i < n; i += TLK_LANES) {                                          \
      TLK_VECTOR                                                                          \
      for (int k = 0; k < TLK_LANES; k++)                                                 \
        out[i + k] = (result)tlm_##name##_##s(a[i + k], b[k], p);                         \
    }                                                                                     \
    return true;                                                                          \
  }
#define TLK_PLAIN3_(name, s, type, result)                                                  \
  static bool loop_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) {    \
    TLK_PARAMS_(name, s, type)                                                              \
    (void)params;                                                                           \
    result *out = args[0];                                                                  \
    const type *a = args[1];                                                                \
    const type *b = args[2];                                                                \
    const type *c = args[3];                                                                \
    TLK_IVDEP                                                                               \
    for (int64_t i = 0; i < n; i++) out[i] = (result)tlm_##name##_##s(a[i], b[i], c[i], p); \
    return true;                                                                            \
  }                                                                                         \
  static bool fixed_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) {   \
    TLK_PARAMS_(name, s, type)                                                              \
    (void)params;                                                                           \
    result *out = args[0];                                                                  \
    const type *a = args[1];                                                                \
    type b[TLK_LANES], c[TLK_LANES];                                                        \
    for (int k = 0; k < TLK_LANES; k++) b[k] = *(const type *)args[2];                      \
    for (int k = 0; k < TLK_LANES; k++) c[k] = *(const type *)args[3];                      \
    for (int64_t i = 0; i < n; i += TLK_LANES) {                                            \
      TLK_VECTOR                                                                            \
      for (int k = 0; k < TLK_LANES; k++)                                                   \
        out[i + k] = (result)tlm_##name##_##s(a[i + k], b[k], c[k], p);                     \
    }                                                                                       \
    return true;                                                                            \
  }

/* The entry of one kernel, used as X of TLK_POINTWISES by a macro that names the type. The loop
** is the plain one unless fast_path.h defines TLK_FAST_<name>_<s>. */
#define TLK_SECOND2_(a, b, ...) b
#define TLK_SECOND_(...) TLK_SECOND2_(__VA_ARGS__)
#define TLK_LOOP(s, type, name, inputs, types, result)                             \
  TLK_IN_##s##_##types(TLK_SECOND_(TLK_FAST_##name##_##s, TLK_PLAIN##inputs##_, )( \
      name, s, type, TLK_RESULT_##result(type)))
#define TLK_LOOP_ENTRY(s, name, types) TLK_IN_##s##_##types([TLK_##name] = loop_##name##_##s, )
#define TLK_FIXED1_(s, name)
#define TLK_FIXED2_(s, name) [TLK_##name] = fixed_##name##_##s,
#define TLK_FIXED3_(s, name) TLK_FIXED2_(s, name)
#define TLK_FIXED_ENTRY(s, name, inputs, types) TLK_IN_##s##_##types(TLK_FIXED##inputs##_(s, name))

#endif
