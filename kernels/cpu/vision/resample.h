/* resample.h - inner loops of resampling along one dimension, see tlk_Resample. */
#ifndef TLK_RESAMPLE_H
#define TLK_RESAMPLE_H

#include "kernels/cpu/cpu.h"

/* One set for float, one for double; weights are of that type. */
typedef struct tlk_ResampleLoops {
  /* out[c] = the sum over t < terms of weights[t] * in[at[t] * n + c], c < n. */
  void (*row)(int64_t n, int64_t terms, const int32_t *at, const void *weights, const void *in,
              void *out);
  /* out[i] = the sum over first[i] <= t < first[i + 1] of weights[t] * in[at[t]],
  ** i < n; `terms` of them for every i unless 0. */
  void (*line)(int64_t n, int64_t terms, const int32_t *first, const int32_t *at,
               const void *weights, const void *in, void *out);
} tlk_ResampleLoops;

#endif
