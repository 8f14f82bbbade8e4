/*
** resample.cu - resampling of images along one dimension, as for interpolation. Each thread
** computes one output element.
*/
#include "kernels/cuda/cuda.cuh"

namespace {

#define RESAMPLE_THREADS 256

template <class T>
__global__ void __launch_bounds__(RESAMPLE_THREADS)
    resample_kernel(const __grid_constant__ tlk_Resample r, const T *in, T *out) {
  int64_t all = r.outer * r.out * r.inner;
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    int64_t row = e / r.inner, c = e - row * r.inner, outer = row / r.out, i = row - outer * r.out;
    const T *line = in + outer * r.in * r.inner + c;
    T sum = 0;
    for (int32_t t = r.first[i]; t < r.first[i + 1]; t++)
      sum += (T)r.weights[t] * line[r.at[t] * r.inner];
    out[e] = sum;
  }
}

template <class T> bool run(const struct tlk_resample *call) {
  const tlk_Resample &r = call->resample;
  unsigned grid = blocks_for(call->cx, r.outer * r.out * r.inner, RESAMPLE_THREADS, 16);
  return launch(call->cx, resample_kernel<T>, dim3(grid), RESAMPLE_THREADS, 0, r,
                (const T *)call->in.data, (T *)call->out.data);
}

} // namespace

bool tlk_resample(const struct tlk_resample *call) {
  return call->in.dtype == TL_F64 ? run<double>(call) : run<float>(call);
}
