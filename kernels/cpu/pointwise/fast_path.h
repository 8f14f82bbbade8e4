/*
** fast_path.h - shorter algorithms of some kernels, for all but extreme arguments. A loop examines
** a block of arguments first. If tlk_fast_range_<kernel> is less than TLK_FAST_LIMIT_<kernel> for
** every argument in the block, the loop computes the block by tlk_fast_<kernel>, whose results are
** the same.
*/
#ifndef TLK_FAST_PATH_H
#define TLK_FAST_PATH_H

#include "kernels/math.h"

/* Lists the kernels and types that have a shorter algorithm. */
#define TLK_FAST_sin_f32 1
#define TLK_FAST_cos_f32 1
#define TLK_FAST_tan_f32 1
#define TLK_FAST_exp_f32 1
#define TLK_FAST_sigmoid_f32 1
#define TLK_FAST_silu_f32 1
#define TLK_FAST_log_f32 1
#define TLK_FAST_fmod_f32 1
#define TLK_FAST_remainder_f32 1
#define TLK_FAST_floor_divide_f32 1

/* Limits of the fast paths. Magnitudes are compared as integers with the same bits, so that NaN
** exceeds every limit. */
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

/* The fast path of fmod is for quotients below 2^28. Such a quotient can be truncated exactly in
** double, and its product with b is exact as well. b may be infinite, but not 0. */
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

#endif
