/*
** reduce.cu - the reductions of the kernel table, with argmax, argmin and moments.
*/
#include "kernels/cuda/reduce/moments.cuh"
#include "kernels/cuda/reduce/reduce.cuh"

bool tlk_reduce(const struct tlk_reduce *call) {
  const tlk_ReduceFn *table = call->compute == TL_F32   ? tlk_reduce_f32
                              : call->compute == TL_F64 ? tlk_reduce_f64
                              : call->compute == TL_I64 ? tlk_reduce_i64
                                                        : tlk_reduce_i32;
  if (table[call->kernel]) return table[call->kernel](call);
  return cuda_fail(TL_EDTYPE, "there is no reduction %d for this type", (int)call->kernel);
}

/* ---- argmax and argmin -------------------------------------------------------------------- */

/* The best element so far, and its position counted from 0. The position is -1 before the first
** element. */
template <class T> struct Best {
  T value;
  int64_t at;
};

/* Finds the best element and its position. NaN counts as better than every number, and the first of
** equal elements is chosen. */
template <class T, bool largest> struct BestOf {
  typedef T C;
  typedef Best<T> A;
  enum { inputs = 1, blocks = LINE_BLOCKS(A) };
  Result values;
  int64_t *indices;

  __device__ __forceinline__ A start() const { return A{T(0), -1}; }
  __device__ __forceinline__ static bool beats(T a, T b) {
    return (largest ? a > b : a < b) || (a != a && b == b);
  }
  template <int K>
  __device__ __forceinline__ void add(A &acc, const T (&x)[1][K], int64_t, int64_t at,
                                      int64_t step) const {
    T value = x[0][0];
    int best = 0;
#pragma unroll
    for (int k = 1; k < K; k++) {
      bool better = beats(x[0][k], value);
      value = better ? x[0][k] : value;
      best = better ? k : best;
    }
    acc = join(acc, A{value, at + best * step});
  }
  __device__ __forceinline__ A join(const A &a, const A &b) const {
    bool same = !beats(a.value, b.value) && !beats(b.value, a.value);
    bool second = a.at < 0 || (b.at >= 0 && (same ? b.at < a.at : beats(b.value, a.value)));
    return second ? b : a;
  }
  __device__ __forceinline__ void store(int64_t line, const A &acc) const {
    indices[line] = acc.at + 1;
    if (values.data) values.put(line, acc.value);
  }
};

template <class T, bool largest> static bool run_best(const struct tlk_reduce_index *call) {
  BestOf<T, largest> op = {result_of(call->values), call->indices};
  return reduce_lines(call->cx, source_of(call->in), call->outer, call->n, call->inner, op);
}

bool tlk_reduce_index(const struct tlk_reduce_index *call) {
  switch (call->in.dtype) {
  case TL_F32:
  case TL_F16:
  case TL_BF16: return call->largest ? run_best<float, true>(call) : run_best<float, false>(call);
  case TL_F64: return call->largest ? run_best<double, true>(call) : run_best<double, false>(call);
  case TL_I64:
    return call->largest ? run_best<int64_t, true>(call) : run_best<int64_t, false>(call);
  default: return call->largest ? run_best<int32_t, true>(call) : run_best<int32_t, false>(call);
  }
}

/* ---- moments --------------------------------------------------------------------------- */

template <class T> static bool run_moments(const struct tlk_moments *call) {
  MomentsOf<T> op = {result_of(call->mean), result_of(call->deviation)};
  return reduce_lines(call->cx, source_of(call->in), call->outer, call->n, call->inner, op);
}

bool tlk_moments(const struct tlk_moments *call) {
  return call->in.dtype == TL_F64 ? run_moments<double>(call) : run_moments<float>(call);
}
