/*
** blocks.h - the quantized blocks of GGUF files: their layouts, and their elements as small
** integers with scales. All numbers are little-endian. Element i of a block has the value
** scale * (q[i] - zero) - least, where `scale` and `least` belong to a group of 16 or 32 elements
** and `zero` to the layout.
*/
#ifndef TLI_BLOCKS_H
#define TLI_BLOCKS_H

#include <stdint.h>
#include <string.h>

#include "core/kernel/byte_order.h"
#include "core/kernel/half.h"

/* The layouts, as X(name, bytes of a block, elements of a block, elements of a group, zero). */
#define TLI_BLOCK_KINDS(X)   \
  X(Q4_0, 18, 32, 32, 8)     \
  X(Q4_1, 20, 32, 32, 0)     \
  X(Q5_0, 22, 32, 32, 16)    \
  X(Q5_1, 24, 32, 32, 0)     \
  X(Q8_0, 34, 32, 32, 128)   \
  X(Q2_K, 84, 256, 16, 0)    \
  X(Q3_K, 110, 256, 16, 4)   \
  X(Q4_K, 144, 256, 32, 0)   \
  X(Q5_K, 176, 256, 32, 0)   \
  X(Q6_K, 210, 256, 16, 32)  \
  X(IQ4_NL, 18, 32, 32, 128) \
  X(IQ4_XS, 136, 256, 32, 128)

typedef enum tli_BlockKind {
#define X(name, bytes, elements, group, zero) TLI_##name,
  TLI_BLOCK_KINDS(X)
#undef X
      TLI_BLOCK_COUNT
} tli_BlockKind;

typedef struct tli_BlockLayout {
  const char *name;
  int bytes, elements, group, zero;
} tli_BlockLayout;

static const tli_BlockLayout tli_block_layouts[] = {
#define X(name, bytes, elements, group, zero) {#name, bytes, elements, group, zero},
    TLI_BLOCK_KINDS(X)
#undef X
};

enum { TLI_CHUNK = 256 }; /* largest number of elements that are unpacked at a time */

typedef struct tli_Chunk {
  uint8_t q[TLI_CHUNK];
  float scale[TLI_CHUNK / 16], least[TLI_CHUNK / 16];
} tli_Chunk;

#define TLI_UNPACK static inline __attribute__((always_inline))

/* The 16 values that the 4-bit elements of IQ4_NL and IQ4_XS stand for, plus 128. */
static const uint8_t tli_iq4_values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                           129, 141, 153, 166, 181, 197, 217, 241};

/* A function that converts 8 float16 numbers to float32. Loops for an instruction set pass a
** function that uses this set. */
typedef void tli_Halves(const uint16_t from[8], float to[8]);

TLI_UNPACK void tli_plain_halves(const uint16_t from[8], float to[8]) {
  for (int i = 0; i < 8; i++) to[i] = tli_f16_to_f32(from[i]);
}

/* A function that converts one float16 number to float32. */
typedef float tli_Half(uint16_t bits);

TLI_UNPACK float tli_half_at(tli_Half *half, const uint8_t *p) { return half(tli_file_u16(p)); }

/* Reads the scales of `count` blocks of 32 elements. If has_least is set, also reads the minimums,
** which are stored after the scales. */
TLI_UNPACK void tli_half_scales(tli_Halves *halves, const uint8_t *restrict b, int bytes, int count,
                                int has_least, tli_Chunk *restrict u) {
  uint16_t scales[8] = {0}, leasts[8] = {0};
  for (int g = 0; g < count; g++) scales[g] = tli_file_u16(b + bytes * g);
  for (int g = 0; has_least && g < count; g++) leasts[g] = tli_file_u16(b + bytes * g + 2);
  halves(scales, u->scale);
  if (!has_least) return;
  halves(leasts, u->least);
  for (int g = 0; g < 8; g++) u->least[g] = -u->least[g];
}

typedef uint8_t tli_Bytes16 __attribute__((vector_size(16)));
typedef uint8_t tli_Bytes32 __attribute__((vector_size(32)));

#define SPLIT(bytes)                  \
  do {                                \
    bytes both, part;                 \
    memcpy(&both, from, sizeof both); \
    part = both & 15;                 \
    memcpy(low, &part, sizeof part);  \
    part = both >> 4;                 \
    memcpy(high, &part, sizeof part); \
  } while (0)

/* Splits n bytes, 16 or 32, into their low and their high nibbles. */
TLI_UNPACK void tli_nibbles(const uint8_t *from, int n, uint8_t *low, uint8_t *high) {
  if (n == 32)
    SPLIT(tli_Bytes32);
  else
    SPLIT(tli_Bytes16);
}
#undef SPLIT

/* Adds bit number `bit` of each of 32 bytes, multiplied by `worth`, to the 32 elements q. */
TLI_UNPACK void tli_add_bit(const uint8_t *restrict from, int bit, int worth, uint8_t *restrict q) {
  for (int i = 0; i < 32; i++) q[i] |= (uint8_t)((from[i] >> bit & 1) * worth);
}

/* Adds the fifth bits of a block of Q5_0 or Q5_1, which are stored as one 32-bit number. */
TLI_UNPACK void tli_add_fifth_bits(const uint8_t *from, uint8_t *q) {
  uint32_t bits =
      from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
  for (int i = 0; i < 32; i++) q[i] |= (uint8_t)((bits >> i & 1) << 4);
}

TLI_UNPACK void tli_unpack_q4_0(const uint8_t *restrict b, int g, tli_Chunk *restrict u) {
  tli_nibbles(b + 2, 16, u->q + 32 * g, u->q + 32 * g + 16);
}

TLI_UNPACK void tli_unpack_q4_1(const uint8_t *restrict b, int g, tli_Chunk *restrict u) {
  tli_nibbles(b + 4, 16, u->q + 32 * g, u->q + 32 * g + 16);
}

TLI_UNPACK void tli_unpack_q5_0(const uint8_t *restrict b, int g, tli_Chunk *restrict u) {
  tli_nibbles(b + 6, 16, u->q + 32 * g, u->q + 32 * g + 16);
  tli_add_fifth_bits(b + 2, u->q + 32 * g);
}

TLI_UNPACK void tli_unpack_q5_1(const uint8_t *restrict b, int g, tli_Chunk *restrict u) {
  tli_nibbles(b + 8, 16, u->q + 32 * g, u->q + 32 * g + 16);
  tli_add_fifth_bits(b + 4, u->q + 32 * g);
}

TLI_UNPACK void tli_unpack_q8_0(const uint8_t *restrict b, int g, tli_Chunk *restrict u) {
  for (int i = 0; i < 32; i++) u->q[32 * g + i] = b[2 + i] ^ 128;
}

TLI_UNPACK void tli_unpack_iq4_nl(const uint8_t *restrict b, int g, tli_Chunk *restrict u) {
  for (int i = 0; i < 16; i++) {
    u->q[32 * g + i] = tli_iq4_values[b[2 + i] & 15];
    u->q[32 * g + 16 + i] = tli_iq4_values[b[2 + i] >> 4];
  }
}

/* Unpacks 256 elements of 2 bits. Each group of 32 bytes holds four parts of 32 elements: byte l
** has element l of each part. */
TLI_UNPACK void tli_two_bits(const uint8_t *restrict from, uint8_t *restrict q) {
  for (int half = 0; half < 2; half++)
    for (int part = 0; part < 4; part++)
      for (int l = 0; l < 32; l++)
        q[128 * half + 32 * part + l] = from[32 * half + l] >> 2 * part & 3;
}

TLI_UNPACK void tli_unpack_q2_k(tli_Half *half, const uint8_t *restrict b, tli_Chunk *restrict u) {
  float d = tli_half_at(half, b + 80), least = tli_half_at(half, b + 82);
  for (int i = 0; i < 16; i++) {
    u->scale[i] = d * (float)(b[i] & 15);
    u->least[i] = least * (float)(b[i] >> 4);
  }
  tli_two_bits(b + 16, u->q);
}

TLI_UNPACK void tli_unpack_q3_k(tli_Half *half, const uint8_t *restrict b, tli_Chunk *restrict u) {
  const uint8_t *s = b + 96;
  float d = tli_half_at(half, b + 108);
  for (int i = 0; i < 16; i++) {
    int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    int high = s[8 + i % 4] >> 2 * (i / 4) & 3;
    u->scale[i] = d * (float)((low | high << 4) - 32);
  }
  tli_two_bits(b + 32, u->q);
  for (int part = 0; part < 8; part++) tli_add_bit(b, part, 4, u->q + 32 * part);
}

/* Unpacks the scales and minimums of Q4_K and Q5_K: two float16 factors, then 12 bytes with eight
** scales and eight minimums of six bits each. */
TLI_UNPACK void tli_scales_k(tli_Half *half, const uint8_t *restrict b, tli_Chunk *restrict u) {
  float d = tli_half_at(half, b), least = tli_half_at(half, b + 2);
  uint32_t s[3], six[4]; /* six-bit numbers: eight scales, then eight minimums */
  memcpy(s, b + 4, sizeof s);
  six[0] = s[0] & 0x3f3f3f3fu;
  six[1] = (s[2] & 0x0f0f0f0fu) | (s[0] >> 2 & 0x30303030u);
  six[2] = s[1] & 0x3f3f3f3fu;
  six[3] = (s[2] >> 4 & 0x0f0f0f0fu) | (s[1] >> 2 & 0x30303030u);
  uint8_t bytes[16];
  memcpy(bytes, six, sizeof bytes);
  for (int i = 0; i < 8; i++) u->scale[i] = d * (float)bytes[i];
  for (int i = 0; i < 8; i++) u->least[i] = least * (float)bytes[8 + i];
}

TLI_UNPACK void tli_unpack_q4_k(tli_Half *half, const uint8_t *restrict b, tli_Chunk *restrict u) {
  tli_scales_k(half, b, u);
  for (int p = 0; p < 4; p++) tli_nibbles(b + 16 + 32 * p, 32, u->q + 64 * p, u->q + 64 * p + 32);
}

TLI_UNPACK void tli_unpack_q5_k(tli_Half *half, const uint8_t *restrict b, tli_Chunk *restrict u) {
  tli_scales_k(half, b, u);
  for (int p = 0; p < 4; p++) tli_nibbles(b + 48 + 32 * p, 32, u->q + 64 * p, u->q + 64 * p + 32);
  for (int part = 0; part < 8; part++) tli_add_bit(b + 16, part, 16, u->q + 32 * part);
}

TLI_UNPACK void tli_unpack_q6_k(tli_Half *half, const uint8_t *restrict b, tli_Chunk *restrict u) {
  float d = tli_half_at(half, b + 208);
  for (int i = 0; i < 16; i++) u->scale[i] = d * (float)(int8_t)b[192 + i];
  for (int n = 0; n < 2; n++)
    for (int l = 0; l < 32; l++) {
      const uint8_t *low = b + 64 * n + l;
      uint8_t high = b[128 + 32 * n + l], *q = u->q + 128 * n + l;
      q[0] = (uint8_t)((low[0] & 15) | (high & 3) << 4);
      q[32] = (uint8_t)((low[32] & 15) | (high >> 2 & 3) << 4);
      q[64] = (uint8_t)(low[0] >> 4 | (high >> 4 & 3) << 4);
      q[96] = (uint8_t)(low[32] >> 4 | high >> 6 << 4);
    }
}

TLI_UNPACK void tli_unpack_iq4_xs(tli_Half *half, const uint8_t *restrict b,
                                  tli_Chunk *restrict u) {
  float d = tli_half_at(half, b);
  int high = b[2] | b[3] << 8;
  for (int g = 0; g < 8; g++) {
    int low = b[4 + g / 2] >> 4 * (g % 2) & 15;
    u->scale[g] = d * (float)((low | (high >> 2 * g & 3) << 4) - 32);
    for (int i = 0; i < 16; i++) {
      u->q[32 * g + i] = tli_iq4_values[b[8 + 16 * g + i] & 15];
      u->q[32 * g + 16 + i] = tli_iq4_values[b[8 + 16 * g + i] >> 4];
    }
  }
}

/* Unpacks n elements from the blocks at p; n is a multiple of a block's elements, at most
** TLI_CHUNK. Does not set elements after the n-th. For kinds without minimums, does not set
** `least`. */
TLI_UNPACK void tli_unpack(tli_Halves *halves, tli_Half *half, tli_BlockKind kind, const uint8_t *p,
                           int n, tli_Chunk *u) {
  int count = n / 32;
  switch (kind) {
#define EACH(name, fn, bytes, has_least)                     \
  case TLI_##name:                                           \
    tli_half_scales(halves, p, bytes, count, has_least, u);  \
    for (int g = 0; g < count; g++) fn(p + bytes * g, g, u); \
    break
/* Unpacks a kind of block that is used often. The loop for a complete chunk of 8 blocks is
** unrolled. */
#define UNROLLED(name, fn, bytes)                                                  \
  case TLI_##name:                                                                 \
    if (count == 8) {                                                              \
      tli_half_scales(halves, p, bytes, 8, 0, u);                                  \
      _Pragma("GCC unroll 8") for (int g = 0; g < 8; g++) fn(p + bytes * g, g, u); \
    } else {                                                                       \
      tli_half_scales(halves, p, bytes, count, 0, u);                              \
      for (int g = 0; g < count; g++) fn(p + bytes * g, g, u);                     \
    }                                                                              \
    break
    UNROLLED(Q4_0, tli_unpack_q4_0, 18);
    UNROLLED(Q8_0, tli_unpack_q8_0, 34);
    EACH(Q4_1, tli_unpack_q4_1, 20, 1);
    EACH(Q5_0, tli_unpack_q5_0, 22, 0);
    EACH(Q5_1, tli_unpack_q5_1, 24, 1);
    EACH(IQ4_NL, tli_unpack_iq4_nl, 18, 0);
#undef EACH
#undef UNROLLED
  case TLI_Q2_K: tli_unpack_q2_k(half, p, u); break;
  case TLI_Q3_K: tli_unpack_q3_k(half, p, u); break;
  case TLI_Q4_K: tli_unpack_q4_k(half, p, u); break;
  case TLI_Q5_K: tli_unpack_q5_k(half, p, u); break;
  case TLI_Q6_K: tli_unpack_q6_k(half, p, u); break;
  case TLI_IQ4_XS: tli_unpack_iq4_xs(half, p, u); break;
  case TLI_BLOCK_COUNT: break;
  }
}

/* Calls tli_unpack. This function is not inlined and is compiled without special instruction
** sets. */
void tli_unpack_chunk(tli_BlockKind kind, const uint8_t *p, int n, tli_Chunk *u);

/* Converts n elements to float32; n must be a multiple of a block's elements. */
void tli_dequantize(tli_BlockKind kind, const uint8_t *blocks, int64_t n, float *out);

/* Returns the kind with the given name, or TLI_BLOCK_COUNT if there is none. */
static inline tli_BlockKind tli_block_kind(const char *name) {
  int kind = 0;
  while (kind < TLI_BLOCK_COUNT && strcmp(tli_block_layouts[kind].name, name) != 0) kind++;
  return (tli_BlockKind)kind;
}

/* Returns whether the layout's elements have minimums. */
static inline int tli_block_has_least(tli_BlockKind kind) {
  return kind == TLI_Q4_1 || kind == TLI_Q5_1 || kind == TLI_Q2_K || kind == TLI_Q4_K ||
         kind == TLI_Q5_K;
}

#endif
