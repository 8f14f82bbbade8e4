/* resample.h - inner loops of resampling along one dimension (see tlk_Resample), and of sampling at
** given positions. */
#ifndef TLK_RESAMPLE_H
#define TLK_RESAMPLE_H

#include "kernels/cpu/cpu.h"

/* The loops of resampling. There is one set for float and one for double. Weights have the type of
** the loop. */
typedef struct tlk_ResampleLoops {
  /* Computes out[c], for c < n, as the sum over t < terms of weights[t] * in[at[t] * n + c]. */
  void (*row)(int64_t n, int64_t terms, const int32_t *at, const void *weights, const void *in,
              void *out);
  /* Computes out[i], for i < n, as the sum of weights[t] * in[at[t]] over first[i] <= t < first[i +
  ** 1]. `terms` is the number of terms of each sum, or 0 if the sums have different numbers of
  ** terms. */
  void (*line)(int64_t n, int64_t terms, const int32_t *first, const int32_t *at,
               const void *weights, const void *in, void *out);
  /* Samples an image (channels, size[1], size[0]) at n positions, and stores the samples in out
  ** (channels, positions). NULL for double. */
  void (*sample)(const struct tlk_grid_sample *call, int64_t n, const float *grid, const float *in,
                 float *out);
} tlk_ResampleLoops;

/* The number of lines of bytes that are resampled together. */
enum { TLK_RESAMPLE_LINES = 64 };

/* A step in the computation of four neighbouring elements: it adds two products to each of the four
** sums. The bytes of the products are among the 16 bytes of a line from byte `at` on. */
typedef struct tlk_ResampleStep {
  uint8_t places[16]; /* entry 2 * i: position, among the 16 bytes, of the byte for product i; all
                      ** other entries: 128 */
  int16_t weights[8];
  int32_t at;
} tlk_ResampleStep;

/* The loops of resampling bytes. The weights are integers with `digits` binary digits after the
** point. The sums are rounded and clamped to bytes. */
typedef struct tlk_ResampleBytes {
  /* Computes out[c], for c < n, as the sum over t < terms of weights[t] * in[at[t] * n + c]. */
  void (*row)(int64_t n, int64_t terms, const int32_t *at, const int16_t *weights, int digits,
              const uint8_t *in, uint8_t *out);
  /* Computes `lines` lines of n elements, at most TLK_RESAMPLE_LINES lines, from lines of `from`
  ** elements. The tables are those of `line` in tlk_ResampleLoops. `tile` is a buffer for
  ** TLK_RESAMPLE_LINES input lines. */
  void (*lines)(int64_t lines, int64_t n, int64_t from, const int32_t *first, const int32_t *at,
                const int16_t *weights, int digits, const uint8_t *in, uint8_t *tile, uint8_t *out);
  /* Computes the same lines as `lines`, but by steps. n and `from` are at least 16. `steps` is the
  ** number of steps of four elements. The steps are in the order of the elements, 16 elements at a
  ** time. The last group of 16 ends at the end of the line, so it may overlap the group before.
  ** NULL if the instruction set has no loop for steps. */
  void (*near_lines)(int64_t lines, int64_t n, int64_t from, int64_t steps,
                     const tlk_ResampleStep *all, int digits, const uint8_t *in, uint8_t *out);
} tlk_ResampleBytes;

#endif
