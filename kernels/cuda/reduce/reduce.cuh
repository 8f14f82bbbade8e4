/*
** reduce.cuh - the reductions of math.h as operators of line_reduce.cuh.
*/
#ifndef TLK_CUDA_REDUCE_CUH
#define TLK_CUDA_REDUCE_CUH

#include "kernels/cuda/line_reduce.cuh"
#include "kernels/cuda/reduce/reduce.h"

/* A reduction of math.h. A few elements at a time are combined pairwise in the type F::entered, and
** the result is added to the accumulator. */
template <class F> struct Reduction {
  typedef typename F::T C;
  typedef typename F::acc A;
  enum { inputs = 1, blocks = sizeof(typename F::entered) > 4 ? 2 : LINE_BLOCKS(A) };
  C p[TLK_PARAMS];
  Result out;

  __device__ __forceinline__ A start() const { return F::start(p); }
  template <int K>
  __device__ __forceinline__ void add(A &acc, const C (&x)[1][K], int64_t, int64_t, int64_t) const {
    typename F::entered e[K];
#pragma unroll
    for (int k = 0; k < K; k++) e[k] = F::enter(x[0][k], p);
#pragma unroll
    for (int step = 1; step < K; step *= 2)
#pragma unroll
      for (int k = 0; k + step < K; k += 2 * step) e[k] = F::pair(e[k], e[k + step]);
    acc = F::join(acc, (A)e[0]);
  }
  __device__ __forceinline__ A join(const A &a, const A &b) const { return F::join(a, b); }
  __device__ __forceinline__ void store(int64_t line, const A &acc) const {
    out.put(line, F::result(acc, p));
  }
};

template <class F> static bool run_reduction(const struct tlk_reduce *call) {
  Reduction<F> op;
  for (int i = 0; i < TLK_PARAMS; i++) {
    const tl_Scalar &s = call->params[i];
    op.p[i] = (typename F::T)(s.kind == TL_FLOATING ? s.f : (double)s.i);
  }
  op.out = result_of(call->out);
  return reduce_lines(call->cx, source_of(call->in), call->outer, call->n, call->inner, op);
}

/* Makes a struct of a reduction of math.h, so that kernels can take it as a template argument. */
#define REDUCTION_F(name, s)                                                                   \
  struct name##_##s {                                                                          \
    typedef tlm_##name##_##s##_T T;                                                            \
    typedef tlm_##name##_##s##_acc acc;                                                        \
    typedef tlm_##name##_##s##_entered entered;                                                \
    DEVICE_MEMBER acc start(const T *p) { return tlm_##name##_##s##_start(p); }                \
    DEVICE_MEMBER entered enter(T x, const T *p) { return tlm_##name##_##s##_enter(x, p); }    \
    DEVICE_MEMBER entered pair(entered a, entered b) { return tlm_##name##_##s##_pair(a, b); } \
    DEVICE_MEMBER acc join(acc a, acc b) { return tlm_##name##_##s##_join(a, b); }             \
    DEVICE_MEMBER T result(acc a, const T *p) { return tlm_##name##_##s##_result(a, p); }      \
  };
#define DEVICE_MEMBER __device__ __forceinline__ static

#endif
