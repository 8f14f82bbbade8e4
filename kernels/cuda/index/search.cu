/*
** search.cu - binary search: for each value, finds the position in a sorted row at which the value
** would be inserted.
*/
#include "kernels/cuda/cuda.cuh"

namespace {

#define SEARCH_THREADS 256

/* Returns whether a sorts before b. NaN comes after every number, and two NaN are equal. */
template <class T> __device__ __forceinline__ bool before(T a, T b) {
  return a < b || (b != b && a == a);
}

template <class T>
__global__ void __launch_bounds__(SEARCH_THREADS)
    search_kernel(int64_t *out, const T *sorted, const T *values, int64_t all, int64_t n, int64_t m,
                  bool right) {
  for (int64_t i = thread_index(); i < all; i += thread_count()) {
    const T *row = sorted + i / m * n;
    T value = values[i];
    int64_t low = 0, left = n;
    while (left > 0) {
      int64_t half = left / 2;
      T middle = row[low + half];
      bool further = right ? !before(value, middle) : before(middle, value);
      low = further ? low + half + 1 : low;
      left = further ? left - half - 1 : half;
    }
    out[i] = low + 1;
  }
}

template <class T> bool run(const struct tlk_search *call) {
  int64_t all = call->rows * call->m;
  unsigned grid = blocks_for(call->cx, all, SEARCH_THREADS, 16);
  return launch(call->cx, search_kernel<T>, dim3(grid), SEARCH_THREADS, 0, call->out,
                (const T *)call->sorted.data, (const T *)call->values.data, all, call->n, call->m,
                call->right);
}

} // namespace

bool tlk_search(const struct tlk_search *call) {
  switch (call->sorted.dtype) {
  case TL_F32: return run<float>(call);
  case TL_F64: return run<double>(call);
  case TL_I64: return run<int64_t>(call);
  default: return run<int32_t>(call);
  }
}
