/* resample_f32.c - resampling along one dimension, and sampling at given positions, in float. */
#include <math.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef float real;
#include "kernels/cpu/vision/resample_loops.h"

enum { AHEAD = 64 }; /* number of positions whose taps are found before the channels are sampled */

/* The taps of some sampled positions. A tap is an element of the plane, given by its offset `at`,
** and its weight. `inside` is a mask for the element's bits. If the element is beyond the image,
** the mask is 0, and so is the offset. */
typedef struct Taps {
  int32_t at[4][AHEAD], inside[4][AHEAD];
  float weight[4][AHEAD];
} Taps;

/* Converts a coordinate x to a position along a dimension of n elements. NaN counts as the
** coordinate -1, and so does an infinite coordinate whose scale is 0, because n is 1. Distant
** positions are moved nearer, so that they can be converted to integers. */
static inline float place(float x, double scale, double shift, int64_t n, bool border) {
  const float far = 1e9F;
  x = fmaf(x + 1, (float)scale, -(float)shift);
  x = x == x ? x : -(float)shift;
  float low = border ? 0 : -far, high = border ? (float)(n - 1) : far;
  return x < low ? low : x > high ? high : x;
}

/* Sets tap k of sampled position i to the element at column x and row y. The integers are unsigned
** because the offset of an element far beyond the image overflows. */
static inline void set_tap(Taps *t, int k, int64_t i, float x, float y, float width, float height,
                           uint32_t row) {
  int32_t inside = -(int32_t)((x >= 0) & (y >= 0) & (x < width) & (y < height));
  t->inside[k][i] = inside;
  t->at[k][i] = (int32_t)((uint32_t)(int32_t)y * row + (uint32_t)(int32_t)x) & inside;
}

/* Finds the taps of n positions. Each position has one tap, for the nearest element, or four taps,
** for bilinear interpolation. */
static inline __attribute__((always_inline)) void
find_taps(const struct tlk_grid_sample *s, int64_t n, bool nearest, const float *grid, Taps *t) {
  const struct tlk_grid_sample c = *s;
  float width = (float)c.size[0], height = (float)c.size[1];
  uint32_t row = (uint32_t)c.size[0];
  for (int64_t i = 0; i < n; i++) {
    float x = place(grid[2 * i], c.scale[0], c.shift, c.size[0], c.border);
    float y = place(grid[2 * i + 1], c.scale[1], c.shift, c.size[1], c.border);
    if (nearest) {
      set_tap(t, 0, i, rintf(x), rintf(y), width, height, row);
      continue;
    }
    float left = floorf(x), top = floorf(y), east = x - left, south = y - top;
    for (int k = 0; k < 4; k++) {
      set_tap(t, k, i, left + (float)(k % 2), top + (float)(k / 2), width, height, row);
      t->weight[k][i] = (k / 2 ? south : 1 - south) * (k % 2 ? east : 1 - east);
    }
  }
}

static inline float value(const float *plane, int32_t at, int32_t inside) {
  union {
    float x;
    int32_t bits;
  } element = {plane[at]};
  element.bits &= inside;
  return element.x;
}

/* Samples a plane at m positions. */
static inline __attribute__((always_inline)) void
sample_plane(int64_t m, bool nearest, const float *plane, const Taps *t, float *to) {
  int64_t i = 0;
#ifdef __AVX2__
  for (; i + 8 <= m; i += 8) {
    __m256 sum = _mm256_setzero_ps();
    for (int k = 0; k < (nearest ? 1 : 4); k++) {
      __m256i at = _mm256_loadu_si256((const __m256i *)(const void *)(t->at[k] + i));
      __m256 inside = _mm256_loadu_ps((const float *)(const void *)(t->inside[k] + i));
      __m256 v = _mm256_mask_i32gather_ps(_mm256_setzero_ps(), plane, at, inside, 4);
      if (nearest)
        sum = v;
      else if (k == 0)
        sum = v * _mm256_loadu_ps(t->weight[0] + i);
      else
        sum = _mm256_fmadd_ps(v, _mm256_loadu_ps(t->weight[k] + i), sum);
    }
    _mm256_storeu_ps(to + i, sum);
  }
#endif
  for (; i < m; i++) {
    float sum = value(plane, t->at[0][i], t->inside[0][i]);
    if (!nearest) sum *= t->weight[0][i];
    for (int k = 1; k < (nearest ? 1 : 4); k++)
      sum = fmaf(value(plane, t->at[k][i], t->inside[k][i]), t->weight[k][i], sum);
    to[i] = sum;
  }
}

static void sample(const struct tlk_grid_sample *s, int64_t n, const float *grid, const float *in,
                   float *out) {
  for (int64_t begin = 0; begin < n; begin += AHEAD) {
    Taps t;
    int64_t m = n - begin < AHEAD ? n - begin : AHEAD;
    if (s->nearest)
      find_taps(s, m, true, grid + 2 * begin, &t);
    else
      find_taps(s, m, false, grid + 2 * begin, &t);
    for (int64_t c = 0; c < s->channels; c++) {
      const float *plane = in + c * s->size[0] * s->size[1];
      float *to = out + c * s->places + begin;
      if (s->nearest)
        sample_plane(m, true, plane, &t, to);
      else
        sample_plane(m, false, plane, &t, to);
    }
  }
}

extern const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_f32);
const tlk_ResampleLoops TLK_ISA_NAME(tlk_resample_f32) = {row, line, sample};
