/*
** stored.c - conversions from and to the dtypes that are only stored, not computed with
** (TL_STORED_DTYPES). The instruction sets have no loops for them. A conversion takes two steps,
** through the type to which such elements widen: float32 for a float8, int32 or int64 for an
** unsigned integer, complex64 for complex32. Only uint64 also has direct conversions to and from
** floating types, since no signed integer holds all of its numbers.
*/
#ifndef TLI_INFER
#include <math.h>

#include "core/kernel/element.h"
#include "kernels/cpu/cpu.h"

enum { AT_A_TIME = 512 };

static bool is_fraction(tl_DType dtype) { return tli_dtype_categories[dtype] >= TLI_FLOAT; }

/* Returns the type through which a conversion between `stored` and `other` goes. */
static tl_DType between(tl_DType stored, tl_DType other) {
  if (tli_is_float(stored)) return TL_F32;
  if (stored == TL_C32) return TL_C64;
  if (stored == TL_U16) return TL_I32;
  if (stored == TL_U32 || !is_fraction(other)) return TL_I64;
  return other == TL_F64 || other == TL_C128 ? TL_F64 : TL_F32;
}

/* ---- reading ---- */

/* Decodes one float8 number. */
static float read_float8(tl_DType from, uint8_t x) {
  switch (from) {
  case TL_F8E4M3: return tli_read_F8E4M3(x);
  case TL_F8E5M2: return tli_read_F8E5M2(x);
  case TL_F8E4M3Z: return tli_read_F8E4M3Z(x);
  case TL_F8E5M2Z: return tli_read_F8E5M2Z(x);
  default: return tli_read_F8E8M0(x);
  }
}

#define READ(out_type, stored)                                                                 \
  {                                                                                            \
    for (int64_t i = 0; i < n; i++) ((out_type *)dst)[i] = (out_type)((const stored *)src)[i]; \
    return;                                                                                    \
  }

/* Decodes all 256 numbers of a float8 dtype into a table. */
static void read_all(tl_DType from, float *floats) {
#define READ_ALL(name)                                                     \
  case TL_##name:                                                          \
    for (int i = 0; i < 256; i++) floats[i] = tli_read_##name((uint8_t)i); \
    break;
  switch (from) {
    READ_ALL(F8E4M3)
    READ_ALL(F8E5M2)
    READ_ALL(F8E4M3Z)
    READ_ALL(F8E5M2Z)
    READ_ALL(F8E8M0)
  default: break;
  }
#undef READ_ALL
}

/* Decodes n elements. `floats` is the table of all 256 numbers of a float8 dtype; it is NULL if so
** few elements are decoded that no table was made. */
static void read_elements(int64_t n, void *dst, const void *src, tl_DType from, tl_DType via,
                          const float *floats) {
  if (tli_is_float(from)) {
    const uint8_t *in = src;
    for (int64_t i = 0; i < n; i++)
      ((float *)dst)[i] = floats ? floats[in[i]] : read_float8(from, in[i]);
    return;
  }
  switch (from) {
  case TL_C32:
    for (int64_t i = 0; i < n; i++) ((tli_C64 *)dst)[i] = tli_read_C32(((const uint32_t *)src)[i]);
    return;
  case TL_U16: READ(int32_t, uint16_t)
  case TL_U32: READ(int64_t, uint32_t)
  default:
    if (via == TL_F32) READ(float, uint64_t)
    if (via == TL_F64) READ(double, uint64_t)
    READ(int64_t, uint64_t)
  }
}

/* ---- writing ---- */

/* Truncates a number to uint64. Negative numbers wrap around. NaN and numbers of 2^64 or more give
** the same results as PyTorch on x86. */
static uint64_t to_u64(double x) {
  if (x >= 0x1p63) return x < 0x1p64 ? (uint64_t)x : 0;
  return x >= -0x1p63 ? (uint64_t)(int64_t)x : (uint64_t)1 << 63;
}

#define WRITE(stored, in_type, convert)                                                      \
  {                                                                                          \
    for (int64_t i = 0; i < n; i++) ((stored *)dst)[i] = convert(((const in_type *)src)[i]); \
    return;                                                                                  \
  }

static void write_elements(int64_t n, void *dst, const void *src, tl_DType to, tl_DType via) {
  switch (to) {
  case TL_F8E4M3: WRITE(uint8_t, float, tli_write_F8E4M3)
  case TL_F8E5M2: WRITE(uint8_t, float, tli_write_F8E5M2)
  case TL_F8E4M3Z: WRITE(uint8_t, float, tli_write_F8E4M3Z)
  case TL_F8E5M2Z: WRITE(uint8_t, float, tli_write_F8E5M2Z)
  case TL_F8E8M0: WRITE(uint8_t, float, tli_write_F8E8M0)
  case TL_C32: WRITE(uint32_t, tli_C64, tli_write_C32)
  case TL_U16: WRITE(uint16_t, int32_t, (uint16_t))
  case TL_U32: WRITE(uint32_t, int64_t, (uint32_t))
  default:
    if (via == TL_F32) WRITE(uint64_t, float, to_u64)
    if (via == TL_F64) WRITE(uint64_t, double, to_u64)
    WRITE(uint64_t, int64_t, (uint64_t))
  }
}

/* ---- conversions ---- */

static void convert(int64_t n, void *dst, const void *src, tl_DType from, tl_DType to) {
  double buffer[AT_A_TIME];
  float floats[256];
  const tlk_Convert(*table)[TL_NDTYPES] = tlk_isa()->convert;
  bool reads = tli_is_stored(from);
  tl_DType via = reads ? between(from, to) : between(to, from);
  bool by_table = reads && tli_is_float(from) && n >= 256;
  if (by_table) read_all(from, floats);
  int64_t from_bytes = tli_dtype_bytes[from], to_bytes = tli_dtype_bytes[to];
  for (int64_t at = 0; at < n; at += AT_A_TIME) {
    int64_t m = n - at < AT_A_TIME ? n - at : AT_A_TIME;
    char *out = (char *)dst + at * to_bytes;
    const char *in = (const char *)src + at * from_bytes;
    if (reads && via == to) {
      read_elements(m, out, in, from, via, by_table ? floats : NULL);
    } else if (!reads && via == from) {
      write_elements(m, out, in, to, via);
    } else if (reads) {
      read_elements(m, buffer, in, from, via, by_table ? floats : NULL);
      table[via][to](m, out, buffer);
    } else {
      table[from][via](m, buffer, in);
      write_elements(m, out, buffer, to, via);
    }
  }
}

/* Defines the functions of the table, one for each pair that contains a stored dtype. */
#define STORED_PAIR(to, text, bytes, category, digits, exponent, from) \
  void tlk_##from##_to_##to(int64_t n, void *dst, const void *src);    \
  void tlk_##from##_to_##to(int64_t n, void *dst, const void *src) {   \
    convert(n, dst, src, TL_##from, TL_##to);                          \
  }
#define AGAIN(...) __VA_ARGS__
#define NOTHING
#define ALL_NAME() TL_DTYPES
#define STORED_NAME() TL_STORED_DTYPES
#define FROM_STORED(from, ...) \
  ALL_NAME NOTHING()(STORED_PAIR, from) STORED_NAME NOTHING()(STORED_PAIR, from)
#define TO_STORED(from, ...) STORED_NAME NOTHING()(STORED_PAIR, from)

AGAIN(TL_STORED_DTYPES(FROM_STORED, ))
AGAIN(TL_DTYPES(TO_STORED, ))
#endif
