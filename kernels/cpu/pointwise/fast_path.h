/*
** fast_path.h - kernels with a shorter algorithm for all but extreme arguments. Their loops
** first examine a block of arguments: if tlk_fast_range_<kernel> of each is less than
** TLK_FAST_LIMIT_<kernel>, the block uses tlk_fast_<kernel>, which gives the same results.
*/
#ifndef TLK_FAST_PATH_H
#define TLK_FAST_PATH_H

#include "kernels/math.h"

/* The macro that defines the loop of a kernel and type in place of the plain one. */
#define TLK_FAST_sin_f32 ~, TLK_FAST1_
#define TLK_FAST_cos_f32 ~, TLK_FAST1_
#define TLK_FAST_tan_f32 ~, TLK_FAST1_
#define TLK_FAST_exp_f32 ~, TLK_FAST1_
#define TLK_FAST_sigmoid_f32 ~, TLK_FAST1_
#define TLK_FAST_silu_f32 ~, TLK_FAST1_
#define TLK_FAST_log_f32 ~, TLK_FAST1_
#define TLK_FAST_fmod_f32 ~, TLK_FAST2_
#define TLK_FAST_remainder_f32 ~, TLK_FAST2_
#define TLK_FAST_floor_divide_f32 ~, TLK_FAST2_

/* The magnitudes of numbers are compared by their bits as integers, so NaN is the largest. */
#define TLK_FAST_LIMIT_sin tlk_bits(TLK_TRIG_LIMIT)
static inline uint32_t tlk_fast_range_sin(float x) { return tlk_bits(fabs(x)); }
static inline float tlk_fast_sin(float x) { return tlk_sinf_fast(x); }
#define TLK_FAST_LIMIT_cos TLK_FAST_LIMIT_sin
static inline uint32_t tlk_fast_range_cos(float x) { return tlk_fast_range_sin(x); }
static inline float tlk_fast_cos(float x) { return tlk_cosf_fast(x); }
#define TLK_FAST_LIMIT_tan TLK_FAST_LIMIT_sin
static inline uint32_t tlk_fast_range_tan(float x) { return tlk_fast_range_sin(x); }
static inline float tlk_fast_tan(float x) { return tlk_tanf_fast(x); }

#define TLK_FAST_LIMIT_exp tlk_bits(TLK_EXP_LIMIT)
static inline uint32_t tlk_fast_range_exp(float x) { return tlk_bits(fabs(x)); }
static inline float tlk_fast_exp(float x) { return tlk_expf_fast(x); }
#define TLK_FAST_LIMIT_sigmoid TLK_FAST_LIMIT_exp
static inline uint32_t tlk_fast_range_sigmoid(float x) { return tlk_fast_range_exp(x); }
static inline float tlk_fast_sigmoid(float x) { return 1 / (1 + tlk_expf_fast(-x)); }
#define TLK_FAST_LIMIT_silu TLK_FAST_LIMIT_exp
static inline uint32_t tlk_fast_range_silu(float x) { return tlk_fast_range_exp(x); }
static inline float tlk_fast_silu(float x) { return x / (1 + tlk_expf_fast(-x)); }
#define TLK_FAST_LIMIT_log (TLK_BITS_INFINITY - TLK_BITS_NORMAL)
static inline uint32_t tlk_fast_range_log(float x) { return tlk_bits(x) - TLK_BITS_NORMAL; }
static inline float tlk_fast_log(float x) { return tlk_logf_fast(x); }

/* Truncating a quotient below 2^28 is exact in double, and so is its product with b. b may be
** infinite, but not 0. */
#define TLK_FAST_LIMIT_fmod 1
static inline uint32_t tlk_fast_range_fmod(float a, float b) {
  return fabs(a) < fabs(b) * 0x1p28f ? 0u : 1u;
}
static inline float tlk_fast_fmod(float a, float b) {
  double quotient = trunc((double)a / (double)b);
  double rest = (double)a - quotient * (double)b;
  return copysign((float)(quotient == 0 ? (double)a : rest), a);
}
#define TLK_FAST_LIMIT_remainder 1
static inline uint32_t tlk_fast_range_remainder(float a, float b) {
  return tlk_fast_range_fmod(a, b);
}
static inline float tlk_fast_remainder(float a, float b) {
  TLM_REMAINDER_BODY(float, tlk_fast_fmod(a, b))
}
#define TLK_FAST_LIMIT_floor_divide 1
static inline uint32_t tlk_fast_range_floor_divide(float a, float b) {
  return tlk_fast_range_fmod(a, b);
}
static inline float tlk_fast_floor_divide(float a, float b) {
  TLM_FLOOR_DIVIDE_BODY(float, tlk_fast_fmod(a, b))
}

#define TLK_FAST_BLOCK 1024

#define TLK_FAST1_(name, s, type, result)                                                \
  static bool loop_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) { \
    TLK_PARAMS_(name, s, type)                                                           \
    (void)params;                                                                        \
    for (int64_t at = 0; at < n; at += TLK_FAST_BLOCK) {                                 \
      int64_t m = n - at < TLK_FAST_BLOCK ? n - at : TLK_FAST_BLOCK;                     \
      result *out = (result *)args[0] + at;                                              \
      const type *x = (const type *)args[1] + at;                                        \
      uint32_t most = 0;                                                                 \
      m -= m % TLK_LANES;                                                                \
      for (int64_t i = 0; i < m; i++) {                                                  \
        uint32_t reach = tlk_fast_range_##name(x[i]);                                    \
        most = reach > most ? reach : most;                                              \
      }                                                                                  \
      if (most >= TLK_FAST_LIMIT_##name) {                                               \
        TLK_IVDEP                                                                        \
        for (int64_t i = 0; i < m; i++) out[i] = tlm_##name##_##s(x[i], p);              \
      } else {                                                                           \
        TLK_IVDEP                                                                        \
        for (int64_t i = 0; i < m; i++) out[i] = tlk_fast_##name(x[i]);                  \
      }                                                                                  \
    }                                                                                    \
    return true;                                                                         \
  }
#define TLK_FAST2_(name, s, type, result)          \
  TLK_FAST2_OF_(loop, b[i], name, s, type, result) \
  TLK_FAST2_OF_(fixed, second, name, s, type, result)
#define TLK_FAST2_OF_(kind, B, name, s, type, result)                                      \
  static bool kind##_##name##_##s(int64_t n, void *const *args, const tl_Scalar *params) { \
    TLK_PARAMS_(name, s, type)                                                             \
    (void)params;                                                                          \
    for (int64_t at = 0; at < n; at += TLK_FAST_BLOCK) {                                   \
      int64_t m = n - at < TLK_FAST_BLOCK ? n - at : TLK_FAST_BLOCK;                       \
      result *out = (result *)args[0] + at;                                                \
      const type *a = (const type *)args[1] + at;                                          \
      const type *b = (const type *)args[2] + at;                                          \
      const type second = *(const type *)args[2];                                          \
      (void)b, (void)second;                                                               \
      uint32_t most = 0;                                                                   \
      m -= m % TLK_LANES;                                                                  \
      for (int64_t i = 0; i < m; i++) {                                                    \
        uint32_t reach = tlk_fast_range_##name(a[i], B);                                   \
        most = reach > most ? reach : most;                                                \
      }                                                                                    \
      if (most >= TLK_FAST_LIMIT_##name) {                                                 \
        TLK_IVDEP                                                                          \
        for (int64_t i = 0; i < m; i++) out[i] = tlm_##name##_##s(a[i], B, p);             \
      } else {                                                                             \
        TLK_IVDEP                                                                          \
        for (int64_t i = 0; i < m; i++) out[i] = tlk_fast_##name(a[i], B);                 \
      }                                                                                    \
    }                                                                                      \
    return true;                                                                           \
  }

#endif
