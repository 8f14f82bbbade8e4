/*
** convert.c - converts contiguous arrays from any dtype to any other.
**
** Floating values become integers by truncation. NaN and values out of range give the most negative
** int32 or int64. Narrower integers are the low bits of the int32. These results are those of x86
** and therefore of PyTorch. A number becomes true if it is not zero. A complex number becomes a
** real one by dropping its imaginary part.
**
** Conversions between a narrow float or a complex type and most other types take two steps, through
** float or double. The results are the same as in one step, and the code is a third of the size.
*/
#include <complex.h>
#include <string.h>

#include "core/kernel/element.h"
#include "kernels/cpu/cpu.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

/* ---- from the wide type to the stored type ---- */

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

static inline int32_t c64_to_i32(tli_C64 x) { return f32_to_i32(crealf(x)); }
static inline int32_t c128_to_i32(tli_C128 x) { return f64_to_i32(creal(x)); }
static inline int64_t c64_to_i64(tli_C64 x) { return f32_to_i64(crealf(x)); }
static inline int64_t c128_to_i64(tli_C128 x) { return f64_to_i64(creal(x)); }

#define AS_I32(x)                 \
  _Generic((x), float             \
           : f32_to_i32, double   \
           : f64_to_i32, int32_t  \
           : i32_to_i32, int64_t  \
           : i64_to_i32, tli_C64  \
           : c64_to_i32, tli_C128 \
           : c128_to_i32)(x)
#define AS_I64(x)                 \
  _Generic((x), float             \
           : f32_to_i64, double   \
           : f64_to_i64, int32_t  \
           : i32_to_i64, int64_t  \
           : i64_to_i64, tli_C64  \
           : c64_to_i64, tli_C128 \
           : c128_to_i64)(x)

/* These macros convert x, which has the wide type of the source, to type `to`. The end of a macro's
** name is the category of `to`. */
#define NARROW_FLOAT(to, x) tli_write_##to((tli_wide_##to)(x))
#define NARROW_COMPLEX(to, x) ((tli_##to)(x))
#define NARROW_INT(to, x) ((tli_##to)(sizeof(tli_##to) == 8 ? AS_I64(x) : AS_I32(x)))
#define NARROW_BOOL(to, x) ((tli_##to)((x) != 0))

/* ---- conversions of two steps ---- */

extern const tlk_Convert TLK_ISA_NAME(tlk_convert)[TL_NDTYPES][TL_NDTYPES];
#define TABLE TLK_ISA_NAME(tlk_convert)

/* IS_COMPLEX and IS_NARROW_FLOAT are constants for a given dtype d. A narrow float has fewer than
** 32 bits and is converted to float when it is read. */
#define IS_COMPLEX(d) _Generic((tli_wide_##d)0, tli_C64 : true, tli_C128 : true, default : false)
#define IS_NARROW_FLOAT(d) (sizeof(tli_##d) < 4 && (tli_wide_##d)0.5 != 0 && TL_##d != TL_BOOL)
/* The type through which d is converted to and from other dtypes. It is d itself if d has direct
** conversions. */
#define BETWEEN(d) \
  (IS_COMPLEX(d) ? sizeof(tli_##d) == 8 ? TL_F32 : TL_F64 : IS_NARROW_FLOAT(d) ? TL_F32 : TL_##d)
#define STEP(from, to) (BETWEEN(from) != TL_##from ? BETWEEN(from) : BETWEEN(to))
/* Tells whether a conversion takes two steps. Conversions between complex types, and from complex
** types to bool, are direct, because they use both parts. */
#define HAS_TWO_STEPS(from, to)                                \
  (STEP(from, to) != TL_##from && STEP(from, to) != TL_##to && \
   !(IS_COMPLEX(from) && (IS_COMPLEX(to) || TL_##to == TL_BOOL)))

static void convert_by(int64_t n, void *dst, const void *src, tl_DType from, tl_DType between,
                       tl_DType to) {
  enum { AT_A_TIME = 512 };
  double buffer[AT_A_TIME];
  int64_t from_bytes = tli_dtype_bytes[from], to_bytes = tli_dtype_bytes[to];
  for (int64_t at = 0; at < n; at += AT_A_TIME) {
    int64_t m = n - at < AT_A_TIME ? n - at : AT_A_TIME;
    TABLE[from][between](m, buffer, (const char *)src + at * from_bytes);
    TABLE[between][to](m, (char *)dst + at * to_bytes, buffer);
  }
}

/* ---- the loops ---- */

/* Defines the conversion from `from` to `to`. The arguments before `from` are the row of `to` in
** the list TL_DTYPES. */
#define CONVERT(to, text, bytes, category, digits, exponent, from)                            \
  __attribute__((unused)) static void from##_to_##to(int64_t n, void *dst, const void *src) { \
    if (TL_##from == TL_##to) {                                                               \
      memcpy(dst, src, (size_t)n * sizeof(tli_##to));                                         \
      return;                                                                                 \
    }                                                                                         \
    if (TL_##from == TL_BOOL) { /* stored as 0 or 1 */                                        \
      TABLE[TL_U8][TL_##to](n, dst, src);                                                     \
      return;                                                                                 \
    }                                                                                         \
    if (TL_##to == TL_I8) { /* int8 has the same bits as uint8 */                             \
      TABLE[TL_##from][TL_U8](n, dst, src);                                                   \
      return;                                                                                 \
    }                                                                                         \
    if (HAS_TWO_STEPS(from, to)) {                                                            \
      convert_by(n, dst, src, TL_##from, STEP(from, to), TL_##to);                            \
      return;                                                                                 \
    }                                                                                         \
    tli_##to *out = dst;                                                                      \
    const tli_##from *in = src;                                                               \
    TLK_IVDEP                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                         \
      tli_wide_##from x = tli_read_##from(in[i]);                                             \
      out[i] = NARROW_##category(to, x);                                                      \
    }                                                                                         \
  }
#define ENTRY(to, text, bytes, category, digits, exponent, from, from_category) \
  ENTRY_##from_category(ENTRY_##category([TL_##from][TL_##to] = from##_to_##to, ))

/* ENTRY_<category> expands to a table entry whose source or target type has that category. A build
** with PROFILE=infer has no complex tensors, so its entries of complex types are empty. */
#define ENTRY_FLOAT(...) __VA_ARGS__
#define ENTRY_INT(...) __VA_ARGS__
#define ENTRY_BOOL(...) __VA_ARGS__
#ifdef TLI_INFER
#define ENTRY_COMPLEX(...)
#else
#define ENTRY_COMPLEX(...) __VA_ARGS__
#endif

/* Expands X for all pairs of types by using TL_DTYPES within TL_DTYPES. The preprocessor does not
** expand a macro within itself, so the inner name is formed only when AGAIN makes it scan the text
** a second time. */
#define AGAIN(...) __VA_ARGS__
#define NOTHING
#define DTYPES_NAME() TL_DTYPES
#define CONVERT_FROM(from, ...) DTYPES_NAME NOTHING()(CONVERT, from)
#define ENTRIES_FROM(from, text, bytes, category, ...) DTYPES_NAME NOTHING()(ENTRY, from, category)

AGAIN(TL_DTYPES(CONVERT_FROM, ))

#if defined(__F16C__)
static void halves_to_floats(int64_t n, void *dst, const void *src) {
  float *out = dst;
  const uint16_t *in = src;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
  for (; i < n; i++) out[i] = tli_f16_to_f32(in[i]);
}
static void floats_to_halves(int64_t n, void *dst, const void *src) {
  uint16_t *out = dst;
  const float *in = src;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; i++) out[i] = tli_f32_to_f16(in[i]);
}
/* These macros name faster loops that replace the general loops for some pairs of types. */
#define F16_to_F32 halves_to_floats
#define F32_to_F16 floats_to_halves
#endif

/* The dtypes of TL_STORED_DTYPES have conversions in stored.c, which all instruction sets share. */
#define STORED_NAME() TL_STORED_DTYPES
#define DECLARE(to, text, bytes, category, digits, exponent, from) \
  extern void tlk_##from##_to_##to(int64_t n, void *dst, const void *src);
#define ENTER(to, text, bytes, category, digits, exponent, from) \
  [TL_##from][TL_##to] = tlk_##from##_to_##to,
#define STORED_FROM(from, ...) STORED_NAME NOTHING()(WHAT, from)
#define ANY_FROM(from, ...) DTYPES_NAME NOTHING()(WHAT, from) STORED_FROM(from, )

#define WHAT DECLARE
AGAIN(TL_DTYPES(STORED_FROM, ))
AGAIN(TL_STORED_DTYPES(ANY_FROM, ))
#undef WHAT
#define WHAT ENTER

const tlk_Convert TLK_ISA_NAME(tlk_convert)[TL_NDTYPES][TL_NDTYPES] = {
    AGAIN(TL_DTYPES(ENTRIES_FROM, )) AGAIN(TL_DTYPES(STORED_FROM, ))
        AGAIN(TL_STORED_DTYPES(ANY_FROM, ))};
