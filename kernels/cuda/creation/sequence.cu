/*
** sequence.cu - evenly spaced numbers, which are computed in int64, float64 or float32. Each number
** is computed from its index alone.
*/
#include "kernels/cuda/cuda.cuh"

namespace {

#define SEQUENCE_THREADS 256
#define AT_ONCE 4

struct Whole {
  typedef int64_t C;
  int64_t start, step;

  __device__ __forceinline__ int64_t at(int64_t i) const {
    return (int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)step);
  }
};

struct Real {
  typedef double C;
  double start, step;

  __device__ __forceinline__ double at(int64_t i) const { return start + (double)i * step; }
};

/* Elements in the second half are computed backwards from the end value, so that the last element
** is exact. */
template <class T> struct Spaced {
  typedef T C;
  T start, step, end;
  int64_t half, last;

  __device__ __forceinline__ T at(int64_t i) const {
    return i < half ? fma(step, (T)i, start) : fma(-step, (T)(last - i), end);
  }
};

template <class Numbers>
__global__ void __launch_bounds__(SEQUENCE_THREADS)
    sequence_kernel(char *out, int dtype, int bytes, int64_t n, int64_t vectors, Numbers numbers) {
  typedef typename Numbers::C C;
  for (int64_t v = thread_index(); v < vectors; v += thread_count()) {
    C x[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) x[k] = numbers.at(v * AT_ONCE + k);
    store_vector(out + v * AT_ONCE * bytes, dtype, x);
  }
  for (int64_t i = vectors * AT_ONCE + thread_index(); i < n; i += thread_count())
    store_any(out + i * bytes, dtype, numbers.at(i));
}

template <class Numbers>
bool run(const tlk_Context *cx, const tlk_Array &out, int64_t n, const Numbers &numbers) {
  int64_t bytes = dtype_bytes(out.dtype), room = bytes * AT_ONCE;
  bool vectors = aligned(out.data, (size_t)(room < 16 ? room : 16));
  unsigned grid = blocks_for(cx, n, SEQUENCE_THREADS * (vectors ? AT_ONCE : 1), 32);
  return launch(cx, sequence_kernel<Numbers>, dim3(grid), SEQUENCE_THREADS, 0, (char *)out.data,
                (int)out.dtype, (int)bytes, n, vectors ? n / AT_ONCE : 0, numbers);
}

double real_of(const tl_Scalar &s) { return s.kind == TL_FLOATING ? s.f : (double)s.i; }

} // namespace

bool tlk_iota(const struct tlk_iota *call) {
  if (call->start.kind != TL_FLOATING && call->step.kind != TL_FLOATING)
    return run(call->cx, call->out, call->n, Whole{call->start.i, call->step.i});
  return run(call->cx, call->out, call->n, Real{real_of(call->start), real_of(call->step)});
}

template <class T> static bool spaced(const struct tlk_linspace *call) {
  return run(call->cx, call->out, call->n,
             Spaced<T>{(T)call->start, (T)call->step, (T)call->end, call->n / 2, call->n - 1});
}

bool tlk_linspace(const struct tlk_linspace *call) {
  return call->compute == TL_F32 ? spaced<float>(call) : spaced<double>(call);
}
