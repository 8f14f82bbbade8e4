/* resample.h - inner loops of resampling along one dimension (see tlk_Resample). */
#ifndef TLK_RESAMPLE_H
#define TLK_RESAMPLE_H

#include "kernels/cpu/cpu.h"

/* The loops of resampling: one set for float, one for double. Weights have the type of the loop. */
typedef struct tlk_ResampleLoops {
  /* Computes out[c], for c < n, as the sum over t < terms of weights[t] * in[at[t] * n + c]. */
  void (*row)(int64_t n, int64_t terms, const int32_t *at, const void *weights, const void *in,
              void *out);
  /* Computes out[i], for i < n, as the sum of weights[t] * in[at[t]] over first[i] <= t < first[i +
  ** 1]. `terms` is the number of terms if it is the same for all i, otherwise 0. */
  void (*line)(int64_t n, int64_t terms, const int32_t *first, const int32_t *at,
               const void *weights, const void *in, void *out);
} tlk_ResampleLoops;

#endif
