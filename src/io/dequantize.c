/*
** dequantize.c - implements dequantize.h. The layouts are those of ggml's block_q4_0, block_q8_0,
** block_q4_K and block_q6_K; all numbers are little-endian.
*/
#include "io/dequantize.h"

#include <string.h>

#include "core/kernel/half.h"

static float half_at(const unsigned char *p) {
  return tli_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* Converts a Q4_0 block: the scale d, then 16 bytes. The low nibbles of these bytes hold the first
** 16 elements, the high nibbles the last 16. */
static void read_q4_0(const unsigned char *b, float *out) {
  float d = half_at(b);
  for (int i = 0; i < 16; i++) {
    out[i] = (float)((b[2 + i] & 15) - 8) * d;
    out[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
  }
}

/* Converts a Q8_0 block: the scale d, then 32 signed bytes. */
static void read_q8_0(const unsigned char *b, float *out) {
  float d = half_at(b);
  for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)b[2 + i] * d;
}

/* Unpacks the scale and the minimum of sub-block `i` of 8: six bits each, packed in 12 bytes. */
static void scale_and_minimum(const unsigned char *s, int i, int *scale, int *minimum) {
  if (i < 4) {
    *scale = s[i] & 63;
    *minimum = s[i + 4] & 63;
  } else {
    *scale = (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
    *minimum = (s[i + 4] >> 4) | (s[i] >> 6) << 4;
  }
}

/* Converts a Q4_K block: d, dmin, 12 bytes of scales, then 128 bytes of nibbles. Each 32 bytes hold
** 32 elements in their low nibbles and 32 in their high nibbles. */
static void read_q4_k(const unsigned char *b, float *out) {
  float d = half_at(b), least = half_at(b + 2);
  const unsigned char *scales = b + 4, *q = b + 16;
  for (int part = 0; part < 8; part++, out += 32) {
    int scale, minimum;
    scale_and_minimum(scales, part, &scale, &minimum);
    float by = d * (float)scale, from = least * (float)minimum;
    for (int i = 0; i < 32; i++) out[i] = by * (float)(part % 2 ? q[i] >> 4 : q[i] & 15) - from;
    if (part % 2) q += 32;
  }
}

/* Converts a Q6_K block: 128 bytes of low nibbles, 64 bytes with two high bits for each element, 16
** signed scales, then d. */
static void read_q6_k(const unsigned char *b, float *out) {
  const unsigned char *low = b, *high = b + 128;
  const int8_t *scales = (const int8_t *)(b + 192);
  float d = half_at(b + 208);
  for (int half = 0; half < 2; half++, low += 64, high += 32, scales += 8, out += 128)
    for (int k = 0; k < 128; k++) {
      int nibble = k < 64 ? low[k] & 15 : low[k - 64] >> 4;
      int bits = high[k % 32] >> 2 * (k / 32) & 3;
      out[k] = d * (float)scales[k / 16] * (float)((nibble | bits << 4) - 32);
    }
}

static const tli_Quantization known[] = {{"Q4_0", 18, 32, read_q4_0},
                                         {"Q8_0", 34, 32, read_q8_0},
                                         {"Q4_K", 144, 256, read_q4_k},
                                         {"Q6_K", 210, 256, read_q6_k}};

const tli_Quantization *tli_quantization(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return &known[i];
  return NULL;
}
