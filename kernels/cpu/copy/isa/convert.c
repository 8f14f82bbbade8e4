/*
** convert.c - contiguous arrays from any dtype to any other.
**
** Floating values become integers by truncation; what does not fit, and NaN,
** gives the most negative int32 or int64, and narrower integers keep the low
** bits of the int32, as x86 and thus PyTorch have it. Bool is "not zero".
*/
#include "core/half.h"
#include "kernels/cpu/cpu.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

/* ---- what an element is, and the type it is read into ---- */

typedef float F32_stored, F32_wide;
typedef double F64_stored, F64_wide;
typedef uint16_t F16_stored, BF16_stored;
typedef float F16_wide, BF16_wide;
typedef int8_t I8_stored;
typedef int16_t I16_stored;
typedef uint8_t U8_stored, BOOL_stored;
typedef int32_t I32_stored, I8_wide, I16_wide, I32_wide, U8_wide, BOOL_wide;
typedef int64_t I64_stored, I64_wide;

static inline float widen_F32(float x) { return x; }
static inline double widen_F64(double x) { return x; }
static inline float widen_F16(uint16_t x) { return tli_f16_to_f32(x); }
static inline float widen_BF16(uint16_t x) { return tli_bf16_to_f32(x); }
static inline int32_t widen_I8(int8_t x) { return x; }
static inline int32_t widen_I16(int16_t x) { return x; }
static inline int32_t widen_I32(int32_t x) { return x; }
static inline int64_t widen_I64(int64_t x) { return x; }
static inline int32_t widen_U8(uint8_t x) { return x; }
static inline int32_t widen_BOOL(uint8_t x) { return x; }

/* ---- from the wide type to the stored one ---- */

static inline int32_t f32_to_i32(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
}
static inline int32_t f64_to_i32(double x) {
  return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}
static inline int64_t f32_to_i64(float x) {
  return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN;
}
static inline int64_t f64_to_i64(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
static inline int32_t i32_to_i32(int32_t x) { return x; }
static inline int64_t i32_to_i64(int32_t x) { return x; }
static inline int32_t i64_to_i32(int64_t x) { return (int32_t)x; }
static inline int64_t i64_to_i64(int64_t x) { return x; }

#define AS_I32(x)                \
  _Generic((x), float            \
           : f32_to_i32, double  \
           : f64_to_i32, int32_t \
           : i32_to_i32, int64_t \
           : i64_to_i32)(x)
#define AS_I64(x)                \
  _Generic((x), float            \
           : f32_to_i64, double  \
           : f64_to_i64, int32_t \
           : i32_to_i64, int64_t \
           : i64_to_i64)(x)

#define narrow_F32(x) ((float)(x))
#define narrow_F64(x) ((double)(x))
#define narrow_F16(x) tli_f32_to_f16((float)(x))
#define narrow_BF16(x) tli_f32_to_bf16((float)(x))
#define narrow_I8(x) ((int8_t)AS_I32(x))
#define narrow_I16(x) ((int16_t)AS_I32(x))
#define narrow_I32(x) AS_I32(x)
#define narrow_I64(x) AS_I64(x)
#define narrow_U8(x) ((uint8_t)AS_I32(x))
#define narrow_BOOL(x) ((uint8_t)((x) != 0))

/* ---- the loops ---- */

#define CONVERT(from, to)                                             \
  static void from##_to_##to(int64_t n, void *dst, const void *src) { \
    to##_stored *out = dst;                                           \
    const from##_stored *in = src;                                    \
    TLK_IVDEP                                                         \
    for (int64_t i = 0; i < n; i++) {                                 \
      from##_wide x = widen_##from(in[i]);                            \
      out[i] = narrow_##to(x);                                        \
    }                                                                 \
  }

/* All pairs but the two between float16 and float32, which come below. */
/* clang-format off */
#define TO_REST(X, from) \
  X(from, F64) X(from, BF16) X(from, I8) X(from, I16) X(from, I32) X(from, I64) X(from, U8) X(from, BOOL)
#define TO_ALL(X, from) X(from, F32) X(from, F16) TO_REST(X, from)
#define PAIRS(X)                                                     \
  X(F32, F32) TO_REST(X, F32) X(F16, F16) TO_REST(X, F16)            \
  TO_ALL(X, F64) TO_ALL(X, BF16) TO_ALL(X, I8) TO_ALL(X, I16)        \
  TO_ALL(X, I32) TO_ALL(X, I64) TO_ALL(X, U8) TO_ALL(X, BOOL)
/* clang-format on */
PAIRS(CONVERT)

#if defined(__F16C__)
static void F16_to_F32(int64_t n, void *dst, const void *src) {
  float *out = dst;
  const uint16_t *in = src;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
  for (; i < n; i++) out[i] = tli_f16_to_f32(in[i]);
}
static void F32_to_F16(int64_t n, void *dst, const void *src) {
  uint16_t *out = dst;
  const float *in = src;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; i++) out[i] = tli_f32_to_f16(in[i]);
}
#else
CONVERT(F16, F32)
CONVERT(F32, F16)
#endif

extern const tlk_Convert TLK_ISA_NAME(tlk_convert)[TL_NDTYPES][TL_NDTYPES];
const tlk_Convert TLK_ISA_NAME(tlk_convert)[TL_NDTYPES][TL_NDTYPES] = {
#define ENTRY(from, to) [TL_##from][TL_##to] = from##_to_##to,
    PAIRS(ENTRY) ENTRY(F16, F32) ENTRY(F32, F16)};
