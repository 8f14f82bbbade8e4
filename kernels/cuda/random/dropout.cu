/*
** dropout.cu - dropout, and the addition of an optional residual, in one pass. The four words of a
** block of the Philox stream decide whether four elements are kept. The gradient uses the same
** words.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/random/drop.h"

namespace {

#define DROPOUT_THREADS 256

template <class S> struct Wide { typedef decltype(widen(S())) type; };

template <class S> struct Drop {
  S *out;
  const S *in, *residual; /* the input, and the residual, which may be NULL */
  int64_t n;
  typename Wide<S>::type scale;
  uint64_t below; /* an element is kept if its random word is below this limit */
  uint64_t seed, block;
  const uint64_t *state;
  bool vectors; /* whether all arrays are aligned for vectors of four elements */
};

/* Loads up to four elements from position `at` on. Elements past the end become 0. */
template <class S, class C>
__device__ __forceinline__ void read_four(const Drop<S> &d, const S *from, int64_t at, C (&x)[4]) {
  if (d.vectors && at + 4 <= d.n) {
    typedef Vector<S, sizeof(S) == 8 ? 2 : 4> V; /* a vector of at most 16 bytes */
    enum { each = sizeof(V) / sizeof(S) };
#pragma unroll
    for (int k = 0; k < 4; k += each) {
      V v = *reinterpret_cast<const V *>(from + at + k);
#pragma unroll
      for (int e = 0; e < each; e++) x[k + e] = widen(v.at[e]);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) x[k] = at + k < d.n ? widen(from[at + k]) : C(0);
}

template <class S, class C>
__device__ __forceinline__ void write_four(const Drop<S> &d, int64_t at, const C (&x)[4]) {
  if (d.vectors && at + 4 <= d.n) {
    typedef Vector<S, sizeof(S) == 8 ? 2 : 4> V;
    enum { each = sizeof(V) / sizeof(S) };
#pragma unroll
    for (int k = 0; k < 4; k += each) {
      V v;
#pragma unroll
      for (int e = 0; e < each; e++) v.at[e] = narrow<S>(x[k + e]);
      *reinterpret_cast<V *>(d.out + at + k) = v;
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (at + k < d.n) d.out[at + k] = narrow<S>(x[k]);
}

template <class S> __global__ void __launch_bounds__(DROPOUT_THREADS, 4) dropout_kernel(Drop<S> d) {
  typedef typename Wide<S>::type C;
  if (d.state) {
    d.seed = d.state[0];
    d.block += d.state[1];
  }
  for (int64_t b = thread_index(); 4 * b < d.n; b += thread_count()) {
    uint32_t words[4];
    C x[4], r[4] = {0, 0, 0, 0};
    read_four(d, d.in, 4 * b, x);
    if (d.residual) read_four(d, d.residual, 4 * b, r);
    tli_philox(d.seed, d.block + (uint64_t)b, words);
#pragma unroll
    for (int k = 0; k < 4; k++) x[k] = drop(r[k], d.scale, x[k], words[k], d.below);
    write_four(d, 4 * b, x);
  }
}

template <class S> bool run(const struct tlk_dropout *call) {
  size_t room = sizeof(S) * 4 < 16 ? sizeof(S) * 4 : 16;
  Drop<S> d = {(S *)call->out.data,
               (const S *)call->in.data,
               (const S *)call->residual.data,
               call->n,
               (typename Wide<S>::type)tlk_drop_scale(call->p),
               tlk_drop_below(call->p),
               call->seed,
               call->block,
               call->state,
               aligned(call->out.data, room) && aligned(call->in.data, room) &&
                   (call->residual.data == NULL || aligned(call->residual.data, room))};
  unsigned grid = blocks_for(call->cx, divide_up(call->n, 4), DROPOUT_THREADS, 16);
  return launch(call->cx, dropout_kernel<S>, dim3(grid), DROPOUT_THREADS, 0, d);
}

} // namespace

bool tlk_dropout(const struct tlk_dropout *call) {
  WITH_FLOATING(call->in.dtype, S, return run<S>(call))
  return cuda_fail(TL_EDTYPE, "there is no dropout for this type");
}
