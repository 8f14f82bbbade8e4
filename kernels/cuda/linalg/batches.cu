/*
** batches.cu - fills arrays of pointers to the matrices of a batch, and transposes matrices. Both
** kernels are fast compared with a factorization, so they are simple.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/linalg/linalg.h"

namespace {

#define BATCH_THREADS 256

__global__ void __launch_bounds__(BATCH_THREADS)
    pointers_kernel(char **out, char *base, int64_t step, int64_t n) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) out[i] = base + i * step;
}

template <class T>
__global__ void __launch_bounds__(BATCH_THREADS)
    transposes_kernel(const T *from, T *to, int64_t m, int64_t n, int64_t total) {
  for (int64_t i = thread_index(); i < total; i += thread_count()) {
    int64_t matrix = i / (m * n), at = i % (m * n);
    to[i] = from[matrix * m * n + at % n * m + at / n];
  }
}

template <class T>
bool transposes(const tlk_Context *cx, int64_t total, int m, int n, const void *from, void *to) {
  return launch(cx, transposes_kernel<T>, dim3(blocks_for(cx, total, BATCH_THREADS, 32)),
                BATCH_THREADS, 0, (const T *)from, (T *)to, (int64_t)m, (int64_t)n, total);
}

} // namespace

bool cuda_linalg_pointers(const tlk_Context *cx, void **out, const void *base, int64_t step,
                          int64_t n) {
  return launch(cx, pointers_kernel, dim3(blocks_for(cx, n, BATCH_THREADS, 32)), BATCH_THREADS, 0,
                (char **)out, (char *)base, step, n);
}

bool cuda_linalg_transposes(const tlk_Context *cx, tl_DType dtype, int64_t batch, int m, int n,
                            const void *from, void *to) {
  int64_t total = batch * m * n;
  if (total == 0) return true;
  return dtype == TL_F64 ? transposes<double>(cx, total, m, n, from, to)
                         : transposes<float>(cx, total, m, n, from, to);
}
