/*
** random.h - Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy
** as 1, 2, 3", SC 2011): block i of the stream is a pure function of
** (seed, i), so any element can be computed by any thread or device.
*/
#ifndef TLI_RANDOM_H
#define TLI_RANDOM_H

#include "core/kernel/host_device.h"
#ifndef __CUDACC_RTC__ /* NVRTC has no system headers, so the types are declared by hand */
#include <stdint.h>
#endif

/* Returns the high half of the product of two 64-bit numbers, computed from products of their
** halves, for compilers without a 128-bit type. */
TLI_FN uint64_t tli_multiply_high_parts(uint64_t a, uint64_t b) {
  uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  /* neither this sum nor the next one can exceed 64 bits */
  uint64_t low = a0 * b1 + (a0 * b0 >> 32);
  uint64_t middle = a1 * b0 + (uint32_t)low;
  return a1 * b1 + (low >> 32) + (middle >> 32);
}

/* Returns the high half of a product. If `a` is a random word, the result is a random integer in
** [0, b). */
TLI_FN uint64_t tli_multiply_high(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  return (uint64_t)(((unsigned __int128)a * b) >> 64);
#else
  return tli_multiply_high_parts(a, b);
#endif
}

#define TLI_PHILOX_ROUND(c, k)                     \
  do {                                             \
    uint64_t p0_ = (uint64_t)0xD2511F53u * (c)[0]; \
    uint64_t p1_ = (uint64_t)0xCD9E8D57u * (c)[2]; \
    uint32_t c1_ = (c)[1], c3_ = (c)[3];           \
    (c)[0] = (uint32_t)(p1_ >> 32) ^ c1_ ^ (k)[0]; \
    (c)[1] = (uint32_t)p1_;                        \
    (c)[2] = (uint32_t)(p0_ >> 32) ^ c3_ ^ (k)[1]; \
    (c)[3] = (uint32_t)p0_;                        \
  } while (0)

/* Computes the four words of block `block` of the stream `seed`. */
TLI_FN void tli_philox(uint64_t seed, uint64_t block, uint32_t out[4]) {
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  out[0] = (uint32_t)block;
  out[1] = (uint32_t)(block >> 32);
  out[2] = 0;
  out[3] = 0;
  for (int round = 0; round < 10; round++) {
    TLI_PHILOX_ROUND(out, key);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
}

#endif
