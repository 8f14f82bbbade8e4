/*
** float8.h - floating numbers of eight bits: conversions of single elements from and to float32.
** Numbers are rounded to nearest, ties to even. Numbers that are too large become the largest
** number in float8_e4m3fn, infinity in float8_e5m2, and NaN in the other formats, which have no
** infinity.
*/
#ifndef TLI_FLOAT8_H
#define TLI_FLOAT8_H

#include "core/kernel/half.h"

#define TLI_NAN32 0x7f800001u

/* Reads a number from its eight bits. The fraction has `fraction` bits, and the exponent is stored
** with the bias `bias`. The caller has excluded NaN and infinity. */
TLI_FN float tli_f8_number(uint8_t x, int fraction, int bias) {
  uint32_t sign = (uint32_t)(x & 0x80u) << 24;
  uint32_t magnitude = (uint32_t)(x & 0x7fu) << (23 - fraction);
  /* multiplies by 2^(127 - bias); this is exact for subnormals as well */
  float scaled = tli_bits_float(magnitude) * tli_bits_float((uint32_t)(254 - bias) << 23);
  return tli_bits_float(sign | tli_float_bits(scaled));
}

TLI_FN float tli_f8e4m3_to_f32(uint8_t x) {
  if ((x & 0x7f) == 0x7f) return tli_bits_float((uint32_t)(x & 0x80) << 24 | 0x7ff00000u);
  return tli_f8_number(x, 3, 7);
}

TLI_FN float tli_f8e5m2_to_f32(uint8_t x) { return tli_f16_to_f32((uint16_t)(x << 8)); }

TLI_FN float tli_f8e4m3z_to_f32(uint8_t x) {
  return x == 0x80 ? tli_bits_float(TLI_NAN32) : tli_f8_number(x, 3, 8);
}

TLI_FN float tli_f8e5m2z_to_f32(uint8_t x) {
  return x == 0x80 ? tli_bits_float(TLI_NAN32) : tli_f8_number(x, 2, 16);
}

/* Converts a number of the format float8_e8m0fnu. It is a power of two, stored as the exponent of a
** float32 without a sign. */
TLI_FN float tli_f8e8m0_to_f32(uint8_t x) {
  uint32_t subnormal = 0x00400000u;
  return tli_bits_float(x == 0xff ? TLI_NAN32 : x == 0 ? subnormal : (uint32_t)x << 23);
}

/* Rounds the magnitude of a float32, given by its bits, to a format. The caller handles results
** that are too large. Adding a power of two rounds a subnormal, as in tli_f32_to_f16. */
TLI_FN uint32_t tli_f8_round(uint32_t a, int fraction, int bias) {
  int shift = 23 - fraction;
  uint32_t odd = (a >> shift) & 1u, half = ((uint32_t)1 << (shift - 1)) - 1;
  uint32_t normal = (a + half + odd - ((uint32_t)(127 - bias) << 23)) >> shift;
  uint32_t weight = (uint32_t)(151 - bias - fraction) << 23;
  uint32_t subnormal = tli_float_bits(tli_bits_float(a) + tli_bits_float(weight)) - weight;
  return a < (uint32_t)(128 - bias) << 23 ? subnormal : normal;
}

TLI_FN uint8_t tli_f32_to_f8e4m3(float f) {
  uint32_t u = tli_float_bits(f), a = u & 0x7fffffffu;
  uint32_t x = a >= 0x43e00000u ? 0x7eu : tli_f8_round(a, 3, 7);
  x = a > 0x7f800000u ? 0x7fu : x;
  return (uint8_t)((u >> 24 & 0x80u) | x);
}

TLI_FN uint8_t tli_f32_to_f8e5m2(float f) {
  uint32_t u = tli_float_bits(f), a = u & 0x7fffffffu;
  uint32_t x = a >= 0x47800000u ? 0x7cu : tli_f8_round(a, 2, 15);
  x = a > 0x7f800000u ? 0x7fu : x;
  return (uint8_t)((u >> 24 & 0x80u) | x);
}

/* Adds the sign of the float32 u to the result x. Formats without a negative zero use its bits for
** NaN, so in these formats zero stays positive. */
TLI_FN uint8_t tli_f8_signed(uint32_t u, uint32_t x) {
  return (uint8_t)(x == 0 ? 0 : x >= 0x80u ? 0x80u : (u >> 24 & 0x80u) | x);
}

TLI_FN uint8_t tli_f32_to_f8e4m3z(float f) {
  uint32_t u = tli_float_bits(f), a = u & 0x7fffffffu;
  return tli_f8_signed(u, a >= 0x43800000u ? 0x80u : tli_f8_round(a, 3, 8));
}

TLI_FN uint8_t tli_f32_to_f8e5m2z(float f) {
  uint32_t u = tli_float_bits(f), a = u & 0x7fffffffu;
  return tli_f8_signed(u, a >= 0x47800000u ? 0x80u : tli_f8_round(a, 2, 16));
}

/* Converts the magnitude of a float32 to the format float8_e8m0fnu, whose numbers are powers of
** two. Rounds as PyTorch does: to the nearest power, and up from the middle between two powers.
** Every number between the two smallest powers, 2^-127 and 2^-126, is rounded up. */
TLI_FN uint8_t tli_f32_to_f8e8m0(float f) {
  uint32_t a = tli_float_bits(f) & 0x7fffffffu, exponent = a >> 23, rest = a & 0x7fffffu;
  if (exponent == 0xff) return 0xff;
  return (uint8_t)(exponent + (rest > 0x400000u || (rest == 0x400000u && exponent > 0)));
}

#endif
