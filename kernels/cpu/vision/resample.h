/* resample.h - inner loops of resampling along one dimension, see tlk_Resample. */
#ifndef TLK_RESAMPLE_H
#define TLK_RESAMPLE_H

#include "kernels/cpu/cpu.h"

/* The loops of resampling: one set for float, one for double; weights have the loop's type. */
typedef struct tlk_ResampleLoops {
  /* Computes out[c] = the sum over t < terms of weights[t] * in[at[t] * n + c] for c < n. */
  void (*row)(int64_t n, int64_t terms, const int32_t *at, const void *weights, const void *in,
              void *out);
  /* Computes out[i] = the sum over first[i] <= t < first[i + 1] of weights[t] * in[at[t]] for i
  ** < n. If `terms` is not 0, every i has that many. */
  void (*line)(int64_t n, int64_t terms, const int32_t *first, const int32_t *at,
               const void *weights, const void *in, void *out);
} tlk_ResampleLoops;

#endif
