/*
** quantized.h - declarations that the kernels of 8-bit integers share: the rounded input of a
** product, and writing results.
*/
#ifndef TLK_QUANTIZED_H
#define TLK_QUANTIZED_H

#include <stdatomic.h>

#include "core/device/backend.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_VNNI 1
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#else
#define HAS_VNNI 0
#endif

typedef struct tlk_QuantizedProduct {
  const struct tlk_quantized *call;
  bool vnni;
  int64_t height, width, channels; /* sizes of `bytes` with padding; channels is a multiple of 4 */
  /* number of positions in one image, or number of rows if the input is a matrix (call->rows) */
  int64_t pixels;
  int64_t images; /* number of images, or 1 if the input is a matrix (call->rows) */
  bool flat;      /* whether the windows of consecutive positions are `channels` bytes apart */
  /* runs: number of contiguous runs of bytes in a window; run: number of bytes in a run */
  int64_t runs, run;
  /* The product is divided into images * groups * parts tasks. A task computes one group of an
  ** image's positions for one part of the panels of output channels. */
  int64_t groups, panels, parts;
  /* the rounded input (images, height, width, channels): the caller's array, or `copy` */
  const uint8_t *bytes;
  uint8_t *copy;  /* (owned) */
  float *scales;  /* the scale of each image or row (owned) */
  int32_t *zeros; /* the zero point of each image or row (owned) */
  /* whether an element of the image or row is NaN, which makes its results NaN (owned) */
  atomic_bool *bad;
} tlk_QuantizedProduct;

/* Writes `cols` channels of position `at`, at most 64, from channel `channel` on. `image` is the
** number of the image or row whose scale is used. */
void tlk_quantized_write(const tlk_QuantizedProduct *p, int64_t image, int64_t at, int64_t channel,
                         int cols, const int32_t *sums);

/* Computes a depthwise convolution of the rounded input. */
void tlk_quantized_channels(const tlk_QuantizedProduct *p);

#if HAS_VNNI
static inline __attribute__((always_inline)) VNNI __m512i tlk_to_bytes(__m512 x, __m512 inverse,
                                                                       __m512i zero) {
  __m512 q = _mm512_mul_ps(x, inverse);
  /* numbers beyond this range, such as infinities, would not fit into integers; they become 0 or
  ** 255 in any case */
  q = _mm512_min_ps(_mm512_max_ps(q, _mm512_set1_ps(-512)), _mm512_set1_ps(512));
  __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(q), zero);
  return _mm512_min_epi32(_mm512_max_epi32(i, _mm512_setzero_si512()), _mm512_set1_epi32(255));
}

static inline __mmask16 tlk_first_of(int64_t n) {
  unsigned all = 0xFFFF;
  return (__mmask16)(n < 16 ? all >> (16 - n) : all);
}

/* The constants by which a call's results are rounded to bytes. */
typedef struct tlk_ByteLimits {
  __m512 inverse, least, most;
  __m512i zero;
} tlk_ByteLimits;

static inline VNNI tlk_ByteLimits tlk_byte_limits(const struct tlk_quantized *call) {
  float inverse = 1 / call->out_scale, low = call->low * inverse, high = call->high * inverse;
  /* larger numbers, such as infinities, would not fit into integers */
  return (tlk_ByteLimits){_mm512_set1_ps(inverse), _mm512_set1_ps(low > -512 ? low : -512),
                          _mm512_set1_ps(high < 512 ? high : 512),
                          _mm512_set1_epi16((int16_t)call->out_zero)};
}

/* Rounds four vectors of results to bytes. The quarters of the vectors are interleaved: first comes
** the first quarter of each vector. Callers pass a constant for n, the number of vectors that are
** used, for which the inlined function is optimised. */
static inline __attribute__((always_inline)) VNNI __m512i
tlk_bytes_of(int n, const __m512 x[4], const tlk_ByteLimits *limits) {
  __m512i q[4];
  for (int v = 0; v < 4; v++) {
    q[v] = _mm512_setzero_si512();
    if (v >= n) continue;
    __m512 scaled = _mm512_max_ps(_mm512_mul_ps(x[v], limits->inverse), limits->least);
    q[v] = _mm512_cvtps_epi32(_mm512_min_ps(scaled, limits->most));
  }
  __m512i low = _mm512_add_epi16(_mm512_packs_epi32(q[0], q[1]), limits->zero);
  __m512i high = _mm512_add_epi16(_mm512_packs_epi32(q[2], q[3]), limits->zero);
  return _mm512_packus_epi16(low, high);
}
#endif
#endif
