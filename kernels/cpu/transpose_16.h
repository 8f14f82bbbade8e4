/*
** transpose_16.h - transposes a block in the registers of AVX-512.
*/
#ifndef TLK_TRANSPOSE_16_H
#define TLK_TRANSPOSE_16_H

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

/* Transposes 16 x 16 elements of 32 bits in three steps: exchanges single elements, then pairs,
** then groups of 128 bits. */
static inline __attribute__((always_inline, target("avx512f"))) void
tlk_transpose_16(__m512i z[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(z[i], z[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(z[i], z[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int h = 0; h < 2; h++) {
      z[i + 2 * h] = _mm512_unpacklo_epi64(t[i + h], t[i + 2 + h]);
      z[i + 2 * h + 1] = _mm512_unpackhi_epi64(t[i + h], t[i + 2 + h]);
    }
  for (int i = 0; i < 4; i++) {
    __m512i a = _mm512_shuffle_i32x4(z[i], z[i + 4], 0x88);
    __m512i b = _mm512_shuffle_i32x4(z[i], z[i + 4], 0xdd);
    __m512i c = _mm512_shuffle_i32x4(z[i + 8], z[i + 12], 0x88);
    __m512i d = _mm512_shuffle_i32x4(z[i + 8], z[i + 12], 0xdd);
    t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
    t[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
  memcpy(z, t, sizeof t);
}
#endif

#endif
