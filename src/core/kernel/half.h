/*
** half.h - float16 (IEEE 754 binary16) and bfloat16 as bit patterns. Conversions to these types
** round to nearest, ties to even; NaN stays NaN (quiet), overflow gives infinity, and float16's
** subnormals are exact.
*/
#ifndef TLI_HALF_H
#define TLI_HALF_H

#include <stdint.h>
#include <string.h>

#include "core/kernel/host_device.h"

TLI_FN uint32_t tli_float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

TLI_FN float tli_bits_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

TLI_FN float tli_bf16_to_f32(uint16_t h) { return tli_bits_float((uint32_t)h << 16); }

TLI_FN uint16_t tli_f32_to_bf16(float f) {
  uint32_t u = tli_float_bits(f);
  uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
  uint32_t quiet = u | 0x00400000u;
  return (uint16_t)((f != f ? quiet : rounded) >> 16);
}

/* Converts a float16 number. The function has no branches, so that the compiler can vectorise it. A
** multiplication adjusts the exponent, which is exact for subnormals as well. */
TLI_FN float tli_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
  uint32_t scaled = tli_float_bits(tli_bits_float(magnitude) * tli_bits_float(0x77800000u));
  uint32_t special = magnitude | 0x7f800000u;
  return tli_bits_float(sign | ((h & 0x7c00u) == 0x7c00u ? special : scaled));
}

/* Rounds a float32 number to float16, to nearest even. Normal results are rounded by integer
** arithmetic on the bits. For subnormal results the function adds 0.5, whose last binary digit has
** the same weight as the result's last digit, so the hardware rounds. */
TLI_FN uint16_t tli_f32_to_f16(float f) {
  uint32_t u = tli_float_bits(f);
  uint32_t sign = (u >> 16) & 0x8000u;
  uint32_t a = u & 0x7fffffffu;
  uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
  uint32_t subnormal = tli_float_bits(tli_bits_float(a) + 0.5f) - 0x3f000000u;
  uint32_t h = a < 0x38800000u ? subnormal : normal;
  h = a >= 0x477ff000u ? 0x7c00u : h;
  h = a > 0x7f800000u ? 0x7e00u : h;
  return (uint16_t)(sign | h);
}

#endif
