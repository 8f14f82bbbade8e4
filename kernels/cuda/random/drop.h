/*
** drop.h - dropout of one element, given a random word of the Philox stream. The header is valid in
** C, in CUDA C++, and in the subset of C++ that NVRTC accepts.
*/
#ifndef TLK_CUDA_RANDOM_DROP_H
#define TLK_CUDA_RANDOM_DROP_H

#include "core/kernel/random.h"

/* Returns the factor by which kept elements are multiplied. */
TLI_FN double tlk_drop_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

/* Returns the limit for dropout. An element is kept if its random word is below this limit. */
TLI_FN uint64_t tlk_drop_below(double p) {
  double keep = 1 - p;
  return keep >= 1 ? (uint64_t)1 << 32 : keep > 0 ? (uint64_t)(keep * 0x1p32) : 0;
}

#ifdef __CUDACC__
template <class C>
static __device__ __forceinline__ C drop(C residual, C scale, C x, uint32_t word, uint64_t below) {
  return residual + scale * x * (word < below ? C(1) : C(0));
}
#endif

#endif
