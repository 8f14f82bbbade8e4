/*
** moments.cuh - mean and sum of squared deviations, as an operator of line_reduce.cuh.
*/
#ifndef TLK_CUDA_MOMENTS_CUH
#define TLK_CUDA_MOMENTS_CUH

#include "kernels/cuda/line_reduce.cuh"

/* The number of elements, their mean, and the sum of their squared deviations from the mean. */
struct Moments {
  double count, mean, deviation;
};

/* An operator that stores the mean and the sum of squared deviations. If there are no elements, the
** mean is NaN and the sum is 0. Elements are processed in small groups, and the deviations in a
** group are those from the group's own mean. The groups are merged in double by the formula of
** Chan, Golub and LeVeque. So no digits are lost by cancellation, even if the mean is large. */
template <class T> struct MomentsOf {
  typedef T C;
  typedef Moments A;
  enum { inputs = 1, blocks = LINE_BLOCKS(A) };
  Result mean, deviation;

  __device__ __forceinline__ A start() const { return A{0, 0, 0}; }
  template <int K>
  __device__ __forceinline__ void add(A &acc, const T (&x)[1][K], int64_t, int64_t, int64_t) const {
    double sum = 0;
    T square = 0;
#pragma unroll
    for (int k = 0; k < K; k += 2)
      sum += (double)(k + 1 < K ? x[0][k] + x[0][k + 1 < K ? k + 1 : k] : x[0][k]);
    double mean = sum * (1.0 / K);
    T near = (T)mean;
    double rest = mean - (double)near;
#pragma unroll
    for (int k = 0; k < K; k++) square += (x[0][k] - near) * (x[0][k] - near);
    acc = join(acc, A{K, mean, (double)square - K * rest * rest});
  }
  __device__ __forceinline__ A join(const A &a, const A &b) const {
    double count = a.count + b.count, apart = b.mean - a.mean;
    double share = b.count / (count > 0 ? count : 1);
    return A{count, a.mean + apart * share,
             a.deviation + b.deviation + apart * apart * a.count * share};
  }
  __device__ __forceinline__ void store(int64_t line, const Moments &m) const {
    mean.put(line, m.count > 0 ? m.mean : (double)NAN);
    if (deviation.data) deviation.put(line, m.deviation);
  }
};

#endif
