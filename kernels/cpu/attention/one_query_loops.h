/*
** one_query_loops.h - attention of a single query, for attention_f32.c. Keys and values are float
** or float16, which is converted in registers.
*/
#include "core/kernel/blocks.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/vector.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define VEC_LANES (TLK_VECTOR_BYTES / 4)
/* The number of vectors whose sums stay in registers. */
#define SUMS 4

typedef float Vec __attribute__((vector_size(TLK_VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(TLK_VECTOR_BYTES)));
typedef uint32_t Uints __attribute__((vector_size(TLK_VECTOR_BYTES)));
typedef float Floats
    __attribute__((vector_size(TLK_VECTOR_BYTES), aligned(sizeof(float)), may_alias));
typedef uint16_t Halves
    __attribute__((vector_size(TLK_VECTOR_BYTES / 2), aligned(sizeof(uint16_t)), may_alias));

/* Converts a vector of float16. */
static inline Vec widen(const uint16_t *x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
#elif defined(__F16C__) && TLK_VECTOR_BYTES == 32
  return (Vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
#else
  /* The bias of the exponent is larger by 112 in float than in float16. The largest exponent of
  ** float16 means infinity or NaN. */
  Ints bits = __builtin_convertvector(*(const Halves *)(const void *)x, Ints);
  Vec size = (Vec)((bits & 0x7fff) << 13) * 0x1p112f;
  Ints infinite = size >= 0x1p16f;
  Uints sign = (Uints)(bits & 0x8000) << 16;
  return (Vec)((Ints)size | (infinite & 0x7f800000) | (Ints)sign);
#endif
}

static inline Vec vec_at(const void *x, int64_t i, bool half) {
  if (half) return widen((const uint16_t *)x + i);
  return *(const Floats *)(const void *)((const float *)x + i);
}

static inline float number_at(const void *x, int64_t i, bool half) {
  return half ? tli_f16_to_f32(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

/* Writes the products of the query and the keys to `scores`. Meanwhile, prefetches the values. */
static inline void scores_of(int64_t keys, int64_t size, const float *query, const void *key,
                             const void *value, bool half, float *scores) {
  int64_t whole = size / VEC_LANES * VEC_LANES, bytes = size * (half ? 2 : 4);
  for (int64_t j = 0; j < keys; j++) {
    Vec lane = {0};
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)value + j * bytes + i);
    for (int64_t i = 0; i < whole; i += VEC_LANES)
      lane += vec_at(query, i, false) * vec_at(key, j * size + i, half);
    float sum[VEC_LANES];
    memcpy(sum, &lane, sizeof sum);
    for (int width = VEC_LANES / 2; width > 0; width /= 2)
      for (int k = 0; k < width; k++) sum[k] += sum[width + k];
    for (int64_t i = whole; i < size; i++) sum[0] += query[i] * number_at(key, j * size + i, half);
    scores[j] = sum[0];
  }
}

/* Sets out = out * factor + the sum of weights times rows of values, for n vectors from `first`
** on. */
static inline void add_values(int64_t keys, int64_t size, int64_t first, int n,
                              const float *weights, const void *value, bool half, float factor,
                              float *out) {
  Vec sum[SUMS];
  for (int u = 0; u < n; u++) sum[u] = vec_at(out, first + u * VEC_LANES, false) * factor;
  for (int64_t j = 0; j < keys; j++)
    for (int u = 0; u < n; u++)
      sum[u] += weights[j] * vec_at(value, j * size + first + u * VEC_LANES, half);
  for (int u = 0; u < n; u++) *(Floats *)(void *)(out + first + u * VEC_LANES) = sum[u];
}

static inline void values_of(int64_t keys, int64_t size, const float *weights, const void *value,
                             bool half, float factor, float *out) {
  int64_t i = 0;
  for (; i + SUMS * VEC_LANES <= size; i += SUMS * VEC_LANES)
    add_values(keys, size, i, SUMS, weights, value, half, factor, out);
  for (; i + VEC_LANES <= size; i += VEC_LANES)
    add_values(keys, size, i, 1, weights, value, half, factor, out);
  for (; i < size; i++) {
    float sum = out[i] * factor;
    for (int64_t j = 0; j < keys; j++) sum += weights[j] * number_at(value, j * size + i, half);
    out[i] = sum;
  }
}

static void attend_one(int64_t keys, int64_t size, const float *query, const void *key,
                       const void *value, bool half, float *scores, float *largest, float *sum,
                       float *out) {
  float most = *largest, lane[TLK_LANES] = {0};
  if (half)
    scores_of(keys, size, query, key, value, true, scores);
  else
    scores_of(keys, size, query, key, value, false, scores);
  for (int64_t j = 0; j < keys; j++) most = scores[j] > most ? scores[j] : most;
  int64_t j = 0;
  for (; j + TLK_LANES <= keys; j += TLK_LANES)
    for (int k = 0; k < TLK_LANES; k++) {
      scores[j + k] = power_f32(scores[j + k] - most);
      lane[k] += scores[j + k];
    }
  for (; j < keys; j++) {
    scores[j] = power_f32(scores[j] - most);
    lane[0] += scores[j];
  }
  for (int k = 1; k < TLK_LANES; k++) lane[0] += lane[k];
  float factor = power_f32(*largest - most);
  *sum = *sum * factor + lane[0];
  *largest = most;
  if (half)
    values_of(keys, size, scores, value, true, factor, out);
  else
    values_of(keys, size, scores, value, false, factor, out);
}
