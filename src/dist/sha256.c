/*
** sha256.c - implements sha256.h. The names of the functions, and the variables a to h, are those
** of FIPS 180-4.
*/
#include "dist/sha256.h"

#include <string.h>

/* The round constants: the first 32 bits of the fractional parts of the cube roots of the first 64
** primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

/* Computes the message schedule: the block's 16 words, and 48 words derived from them. */
static void expand(const unsigned char *block, uint32_t w[64]) {
  for (int i = 0; i < 16; i++, block += 4)
    w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
  for (int i = 16; i < 64; i++) {
    uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
}

/* Computes one round. The caller rotates the eight variables by passing them in another order. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                 \
  do {                                                                                   \
    uint32_t S1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), ch = (e & f) ^ (~e & g); \
    uint32_t S0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);                          \
    uint32_t t1 = h + S1 + ch + K[i] + w[i], maj = (a & b) ^ (a & c) ^ (b & c);          \
    d += t1;                                                                             \
    h = t1 + S0 + maj;                                                                   \
  } while (0)

static void compress(uint32_t state[8], const unsigned char *block) {
  uint32_t w[64];
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  expand(block, w);
  for (int i = 0; i < 64; i += 8) {
    ROUND(a, b, c, d, e, f, g, h, i);
    ROUND(h, a, b, c, d, e, f, g, i + 1);
    ROUND(g, h, a, b, c, d, e, f, i + 2);
    ROUND(f, g, h, a, b, c, d, e, i + 3);
    ROUND(e, f, g, h, a, b, c, d, i + 4);
    ROUND(d, e, f, g, h, a, b, c, i + 5);
    ROUND(c, d, e, f, g, h, a, b, i + 6);
    ROUND(b, c, d, e, f, g, h, a, i + 7);
  }
  const uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; i++) state[i] += sums[i];
}

void tli_sha256_begin(tli_Sha256 *s) {
  /* the initial state: the first 32 bits of the fractional parts of the square roots of the first 8
  ** primes */
  *s = (tli_Sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                              0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void tli_sha256_add(tli_Sha256 *s, const void *data, size_t bytes) {
  const unsigned char *from = data;
  while (bytes > 0) {
    size_t at = (size_t)(s->bytes % TLI_SHA256_BLOCK), n = TLI_SHA256_BLOCK - at;
    if (at == 0 && bytes >= n) { /* hashes whole blocks directly, without a copy to `block` */
      compress(s->state, from);
      s->bytes += n;
      from += n;
      bytes -= n;
      continue;
    }
    if (n > bytes) n = bytes;
    memcpy(s->block + at, from, n);
    s->bytes += n;
    from += n;
    bytes -= n;
    if (at + n == TLI_SHA256_BLOCK) compress(s->state, s->block);
  }
}

void tli_sha256_end(tli_Sha256 *s, unsigned char out[TLI_SHA256_BYTES]) {
  static const unsigned char padding[TLI_SHA256_BLOCK] = {0x80};
  uint64_t bits = s->bytes * 8;
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  tli_sha256_add(s, padding, 1 + (119 - s->bytes % TLI_SHA256_BLOCK) % TLI_SHA256_BLOCK);
  tli_sha256_add(s, length, sizeof length);
  for (int i = 0; i < TLI_SHA256_BYTES; i++)
    out[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* Begins a hash of the key's bytes, each XORed with `pad`. The caller adds the text afterwards. */
static void begin_padded(tli_Sha256 *s, const unsigned char *key, unsigned char pad) {
  unsigned char block[TLI_SHA256_BLOCK];
  for (int i = 0; i < TLI_SHA256_BLOCK; i++) block[i] = key[i] ^ pad;
  tli_sha256_begin(s);
  tli_sha256_add(s, block, sizeof block);
}

void tli_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                     unsigned char out[TLI_SHA256_BYTES]) {
  tli_Sha256 s;
  unsigned char whole[TLI_SHA256_BLOCK] = {0};
  if (key_bytes > TLI_SHA256_BLOCK) {
    tli_sha256_begin(&s);
    tli_sha256_add(&s, key, key_bytes);
    tli_sha256_end(&s, whole);
  } else if (key_bytes > 0) {
    memcpy(whole, key, key_bytes);
  }
  begin_padded(&s, whole, 0x36);
  tli_sha256_add(&s, data, bytes);
  tli_sha256_end(&s, out);
  begin_padded(&s, whole, 0x5c);
  tli_sha256_add(&s, out, TLI_SHA256_BYTES);
  tli_sha256_end(&s, out);
}
