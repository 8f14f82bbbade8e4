/*
** fused.cu - elementwise kernels with several outputs, each in several variants.
**
**   rows   for operands that are contiguous or constant along the innermost dimension, a vector
**          at a time. All operands have one stored type S, except tables of angles, of type P.
**   pairs  for rotations of adjacent pairs. Both numbers of a pair are loaded and stored at once.
**   any    for operands of any dtype and stride, one element at a time.
*/
#include "kernels/cuda/pointwise/elementwise.cuh"
#include "kernels/fused.h"

namespace {

/* ---- formulas as types --------------------------------------------------------------------- */

#define INPUTS_2 x[0], x[1]
#define INPUTS_3 INPUTS_2, x[2]
#define INPUTS_4 INPUTS_3, x[3]
#define INPUTS_5 INPUTS_4, x[4]
#define OUTPUTS_1 &y[0]
#define OUTPUTS_2 &y[0], &y[1]
#define FUSED_FUNCTOR(name, m, n, s, type)                                        \
  struct name##_##s {                                                             \
    typedef type C;                                                               \
    enum { outputs = m, inputs = n, all = m + n };                                \
    __device__ __forceinline__ static void of(const type (&x)[n], type (&y)[m]) { \
      tlf_##name##_##s(INPUTS_##n, OUTPUTS_##m);                                  \
    }                                                                             \
  };
#define X(name, outputs, inputs)                   \
  FUSED_FUNCTOR(name, outputs, inputs, f32, float) \
  FUSED_FUNCTOR(name, outputs, inputs, f64, double)
TLK_FUSED(X)
#undef X

/* ---- kernels --------------------------------------------------------------------------------- */

template <class F>
__global__ void __launch_bounds__(POINTWISE_THREADS)
    fused_any(const __grid_constant__ Strided<F::all> s) {
  typedef typename F::C C;
  uint32_t step = (uint32_t)thread_count();
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel; i += step) {
    int64_t offset[F::all];
    C x[F::inputs], y[F::outputs];
    s.offsets(i, offset);
#pragma unroll
    for (int k = 0; k < F::inputs; k++) {
      int at = F::outputs + k;
      x[k] = load_any<C>(s.source(at, offset[at]), s.dtype[at]);
    }
    F::of(x, y);
#pragma unroll
    for (int k = 0; k < F::outputs; k++) store_any<C>(s.data[k] + offset[k], s.dtype[k], y[k]);
  }
}

/* Loads N numbers from address p. If `same`, repeats the number at p instead. */
template <class S, int N, class C>
__device__ __forceinline__ void read_some(const void *p, bool same, int dtype, C (&x)[N]) {
  if (same) {
    C one = read_as<C>(*static_cast<const S *>(p), dtype);
#pragma unroll
    for (int e = 0; e < N; e++) x[e] = one;
  } else {
    Vector<S, N> v = *static_cast<const Vector<S, N> *>(p);
#pragma unroll
    for (int e = 0; e < N; e++) x[e] = read_as<C>(v.at[e], dtype);
  }
}

/* Processes operands that are contiguous or constant along the innermost dimension. Bit k of
** `steady` is set if input k is constant. Inputs from number `tables` on have type P; all other
** operands have type S. */
template <class F, class S, class P, int tables>
__global__ void __launch_bounds__(POINTWISE_THREADS)
    fused_rows(const __grid_constant__ Strided<F::all> s, unsigned steady) {
  typedef typename F::C C;
  enum { N = Width<C, C>::of, M = F::outputs };
  uint32_t step = (uint32_t)thread_count(), vectors = s.numel / N;
  for (uint32_t i = (uint32_t)thread_index(); i < vectors; i += step) {
    int64_t offset[F::all];
    C in[F::inputs][N];
    Vector<S, N> out[M];
    s.offsets(i * N, offset);
#pragma unroll
    for (int k = 0; k < F::inputs; k++) {
      const void *p = s.source(M + k, offset[M + k]);
      bool same = steady >> k & 1;
      if (k < tables)
        read_some<S>(p, same, s.dtype[M + k], in[k]);
      else
        read_some<P>(p, same, s.dtype[M + k], in[k]);
    }
#pragma unroll
    for (int e = 0; e < N; e++) {
      C x[F::inputs], y[M];
#pragma unroll
      for (int k = 0; k < F::inputs; k++) x[k] = in[k][e];
      F::of(x, y);
#pragma unroll
      for (int k = 0; k < M; k++) out[k].at[e] = Write<S>::as(y[k], s.dtype[k]);
    }
#pragma unroll
    for (int k = 0; k < M; k++) *reinterpret_cast<Vector<S, N> *>(s.data[k] + offset[k]) = out[k];
  }
}

/* Rotates adjacent pairs. The operands are x, y, a, b, cos and sin. y is adjacent to x, and b is
** adjacent to a. */
template <class F, class S, class P>
__global__ void __launch_bounds__(POINTWISE_THREADS)
    fused_pairs(const __grid_constant__ Strided<F::all> s, unsigned steady) {
  typedef typename F::C C;
  enum { N = Width<C, C>::of };
  uint32_t step = (uint32_t)thread_count(), vectors = s.numel / N;
  for (uint32_t i = (uint32_t)thread_index(); i < vectors; i += step) {
    int64_t offset[F::all];
    C angle[2][N];
    s.offsets(i * N, offset);
    Vector<S, 2 *N> v = *reinterpret_cast<const Vector<S, 2 * N> *>(s.data[2] + offset[2]);
#pragma unroll
    for (int k = 0; k < 2; k++)
      read_some<P>(s.source(4 + k, offset[4 + k]), steady >> (2 + k) & 1, s.dtype[4 + k], angle[k]);
#pragma unroll
    for (int e = 0; e < N; e++) {
      C x[4] = {read_as<C>(v.at[2 * e], s.dtype[2]), read_as<C>(v.at[2 * e + 1], s.dtype[2]),
                angle[0][e], angle[1][e]};
      C y[2];
      F::of(x, y);
      v.at[2 * e] = Write<S>::as(y[0], s.dtype[0]);
      v.at[2 * e + 1] = Write<S>::as(y[1], s.dtype[0]);
    }
    *reinterpret_cast<Vector<S, 2 * N> *>(s.data[0] + offset[0]) = v;
  }
}

/* ---- choosing a variant ---------------------------------------------------------------------- */

/* Returns whether inputs `first` to `last` - 1 are stored as S and each of them is constant or can
** be loaded as vectors. */
template <class S>
bool inputs_fit(const tli_Iter &it, int outputs, int first, int last, int n, unsigned *steady) {
  for (int k = first; k < last; k++) {
    const tli_IterArg &a = it.args[outputs + k];
    if (!stored_as<S>(a.dtype)) return false;
    if (a.data == NULL || a.strides[0] == 0)
      *steady |= 1u << k;
    else if (!vectors_of(it, outputs + k, (int64_t)sizeof(S), n))
      return false;
  }
  return true;
}

template <class F, class Kernel>
bool run_parts(const struct tlk_fused *call, Kernel kernel, unsigned steady) {
  enum { N = Width<typename F::C, typename F::C>::of };
  return for_parts<F::all>(call->it, [&](const Strided<F::all> &s) {
    unsigned grid = blocks_for(call->cx, s.numel / N, POINTWISE_THREADS, 16);
    return launch(call->cx, kernel, dim3(grid), POINTWISE_THREADS, 0, s, steady);
  });
}

template <class F, class S, class P, int tables>
bool try_fused_rows(const struct tlk_fused *call, bool *done) {
  enum { N = Width<typename F::C, typename F::C>::of, M = F::outputs };
  const tli_Iter &it = call->it;
  unsigned steady = 0;
  if (it.ndim == 0 || it.sizes[0] % N != 0) return true;
  for (int k = 0; k < M; k++)
    if (!stored_as<S>(it.args[k].dtype) || !vectors_of(it, k, (int64_t)sizeof(S), N)) return true;
  if (!inputs_fit<S>(it, M, 0, tables, N, &steady) ||
      !inputs_fit<P>(it, M, tables, F::inputs, N, &steady))
    return true;
  *done = true;
  return run_parts<F>(call, fused_rows<F, S, P, tables>, steady);
}

/* Returns whether operands k and k + 1 are adjacent. A thread can then load both as one vector of 2
** n elements. */
bool neighbours(const tli_Iter &it, int k, int64_t bytes, int n) {
  const tli_IterArg &a = it.args[k], &b = it.args[k + 1];
  int64_t unit = 2 * bytes * n < 16 ? 2 * bytes * n : 16;
  if (a.dtype != b.dtype || b.data != a.data + bytes || a.strides[0] != 2 * bytes ||
      !aligned(a.data, (size_t)unit))
    return false;
  for (int d = 0; d < it.ndim; d++)
    if (a.strides[d] != b.strides[d] || (d > 0 && a.strides[d] % unit != 0)) return false;
  return true;
}

template <class F, class S, class P> bool try_pairs(const struct tlk_fused *call, bool *done) {
  enum { N = Width<typename F::C, typename F::C>::of };
  const tli_Iter &it = call->it;
  int64_t bytes = (int64_t)sizeof(S);
  unsigned steady = 0;
  if (it.ndim == 0 || it.sizes[0] % N != 0 || !stored_as<S>(it.args[0].dtype) ||
      !stored_as<S>(it.args[2].dtype) || !neighbours(it, 0, bytes, N) ||
      !neighbours(it, 2, bytes, N) || !inputs_fit<P>(it, 2, 2, 4, N, &steady))
    return true;
  *done = true;
  return run_parts<F>(call, fused_pairs<F, S, P>, steady);
}

template <class F> bool run_fused_any(const struct tlk_fused *call) {
  return for_parts<F::all>(call->it, [&](const Strided<F::all> &s) {
    unsigned grid = blocks_for(call->cx, s.numel, POINTWISE_THREADS, 16);
    return launch(call->cx, fused_any<F>, dim3(grid), POINTWISE_THREADS, 0, s);
  });
}

/* Runs a kernel without tables of angles. Its operands must all have the same type, which must be
** in Stored. */
template <class F, class... Stored> bool plain(const struct tlk_fused *call) {
  bool done = false, ok = true;
  ((done || (ok = try_fused_rows<F, Stored, Stored, F::inputs>(call, &done))) && ...);
  return done || !ok ? ok : run_fused_any<F>(call);
}

template <class F, class S, class P> bool try_rotation(const struct tlk_fused *call, bool *done) {
  return try_fused_rows<F, S, P, 2>(call, done) && (*done || try_pairs<F, S, P>(call, done));
}

/* Runs a rotation. Its tables of angles have the type of the input; for half types they may also be
** float. */
template <class F> bool rotation(const struct tlk_fused *call, float) {
  bool done = false;
  if (!try_rotation<F, float, float>(call, &done)) return false;
  if (!done && !try_rotation<F, any16, float>(call, &done)) return false;
  if (!done && !try_rotation<F, any16, any16>(call, &done)) return false;
  return done || run_fused_any<F>(call);
}
template <class F> bool rotation(const struct tlk_fused *call, double) {
  bool done = false;
  if (!try_rotation<F, double, double>(call, &done)) return false;
  return done || run_fused_any<F>(call);
}

template <class F32, class F64> bool plain_as(const struct tlk_fused *call) {
  return call->compute == TL_F64 ? plain<F64, double>(call) : plain<F32, float, any16>(call);
}
template <class F32, class F64> bool rotation_as(const struct tlk_fused *call) {
  return call->compute == TL_F64 ? rotation<F64>(call, 0.0) : rotation<F32>(call, 0.0f);
}

} // namespace

bool tlk_fused(const struct tlk_fused *call) {
  if (call->it.numel == 0) return true;
  switch (call->kernel) {
  case TLK_FUSED_swiglu: return plain_as<swiglu_f32, swiglu_f64>(call);
  case TLK_FUSED_swiglu_bias: return plain_as<swiglu_bias_f32, swiglu_bias_f64>(call);
  case TLK_FUSED_swiglu_backward: return plain_as<swiglu_backward_f32, swiglu_backward_f64>(call);
  case TLK_FUSED_swiglu_bias_backward:
    return plain_as<swiglu_bias_backward_f32, swiglu_bias_backward_f64>(call);
  case TLK_FUSED_rotate: return rotation_as<rotate_f32, rotate_f64>(call);
  case TLK_FUSED_rotate_back: return rotation_as<rotate_back_f32, rotate_back_f64>(call);
  case TLK_FUSED_gate_backward: return plain_as<gate_backward_f32, gate_backward_f64>(call);
  case TLK_FUSED_gate_tanh_backward:
    return plain_as<gate_tanh_backward_f32, gate_tanh_backward_f64>(call);
  default: return cuda_fail(TL_EINTERNAL, "there is no fused kernel %d", (int)call->kernel);
  }
}
