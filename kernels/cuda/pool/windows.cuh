/*
** windows.cuh - computes coordinates of elements for pooling, im2col and col2im.
*/
#ifndef TLK_CUDA_WINDOWS_CUH
#define TLK_CUDA_WINDOWS_CUH

#include "kernels/cuda/line_reduce.cuh"

#define WINDOW_THREADS 256

/* Splits an element's index in (..., sizes[0], sizes[1], sizes[2]) into coordinates. */
struct Places {
  int64_t sizes[3];
  Divider by[3];
  bool large; /* whether the array has 2^31 elements or more */

  /* Splits the index e of an element: stores its last three coordinates in in[], and returns the
  ** flat index over all leading dimensions. */
  __device__ __forceinline__ int64_t of(int64_t e, int64_t (&in)[3]) const {
#pragma unroll
    for (int d = 2; d >= 0; d--) {
      int64_t next = large ? e / sizes[d] : (int64_t)by[d].quotient((uint32_t)e);
      in[d] = e - next * sizes[d];
      e = next;
    }
    return e;
  }
};

static inline int64_t product(const int64_t (&v)[3]) { return v[0] * v[1] * v[2]; }

static inline Places places_of(const int64_t (&sizes)[3], int64_t all) {
  Places p;
  p.large = all > INT32_MAX;
  for (int d = 0; d < 3; d++) {
    p.sizes[d] = sizes[d];
    p.by[d] = Divider((uint32_t)(p.large || sizes[d] == 0 ? 1 : sizes[d]));
  }
  return p;
}

#endif
