/*
** elementwise.cuh - the three variants of an elementwise kernel, for any function of math.h.
**
**   rows    for operands of one stored type S that are contiguous or constant along the
**           innermost dimension. A thread processes a vector of each operand at a time (Width).
**           The elements that remain at the end of a loop of one dimension are processed one by
**           one.
**   spread  for operands of one floating type S and any strides, so rows may have any length
**           and any address. A thread loads several elements at a time.
**   any     for operands of any dtype and stride, one element at a time.
*/
#ifndef TLK_CUDA_ELEMENTWISE_CUH
#define TLK_CUDA_ELEMENTWISE_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/pointwise/pointwise.h"

/* Makes a struct of a rarely used kernel in the same way as of other kernels. Each file decides for
** which types these kernels are compiled. */
#define RARE_F(...) FLOATING_F(__VA_ARGS__)

#define POINTWISE_THREADS 256
#define SPREAD 2 /* number of elements that a thread of spread_kernel loads at a time */

/* The numeric parameters of a function of math.h, such as the slope of leaky_relu. */
template <class C> struct Numbers { C p[TLK_PARAMS]; };

/* Computes f(x, p) for one element. A division by zero returns 0 and is recorded as a fault. */
template <class F>
__device__ __forceinline__ auto apply(const typename F::C *x, const Numbers<typename F::C> &numbers,
                                      const cuda_Word &word, const tlk_FaultSource &source) {
  typedef decltype(F::of(x, numbers.p)) Result;
  if constexpr (F::divides != 0) {
    if (x[F::inputs - 1] == 0) {
      tlk_Fault fault = {};
      fault.kind = TLK_FAULT_DIVISION;
      fault.source = source;
      note_fault(word, fault);
      return Result(0);
    }
  }
  return F::of(x, numbers.p);
}

template <class F>
__global__ void __launch_bounds__(POINTWISE_THREADS)
    any_kernel(const __grid_constant__ Strided<F::inputs + 1> s, Numbers<typename F::C> numbers,
               cuda_Word word, tlk_FaultSource source) {
  typedef typename F::C C;
  uint32_t step = (uint32_t)thread_count();
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel; i += step) {
    int64_t offset[F::inputs + 1];
    C x[F::inputs];
    s.offsets(i, offset);
#pragma unroll
    for (int k = 0; k < F::inputs; k++)
      x[k] = load_any<C>(s.source(k + 1, offset[k + 1]), s.dtype[k + 1]);
    store_any<C>(s.data[0] + offset[0], s.dtype[0], (C)apply<F>(x, numbers, word, source));
  }
}

/* The number of elements that a thread processes at a time. For the most common types they fill 16
** bytes. */
template <class C, class S> struct Width {
  enum { of = sizeof(C) == 8 ? 2 : sizeof(S) == 2 ? 8 : 4 };
};

/* Elements of any 16-bit floating dtype (any16) and of any 8-bit dtype (any8). Dtypes of the same
** size share one kernel, which branches on the dtype once for each vector. Separate kernels would
** make up most of the plugin's size. */
struct any16 {
  uint16_t bits;
};
struct any8 {
  uint8_t bits;
};
template <class C, class S> __device__ __forceinline__ C read_as(S x, int) { return (C)widen(x); }
template <class C> __device__ __forceinline__ C read_as(any16 x, int dtype) {
  return dtype == TL_BF16 ? (C)widen(bf16{x.bits}) : (C)widen(f16{x.bits});
}
template <class C> __device__ __forceinline__ C read_as(any8 x, int dtype) {
  return dtype == TL_I8 ? (C)(int8_t)x.bits : (C)x.bits;
}
template <class R> struct Write {
  template <class C> __device__ __forceinline__ static R as(C x, int) { return narrow<R>(x); }
};
template <> struct Write<any16> {
  template <class C> __device__ __forceinline__ static any16 as(C x, int dtype) {
    return any16{dtype == TL_BF16 ? bf16_bits((float)x) : f16_bits((float)x)};
  }
};
template <> struct Write<any8> {
  template <class C> __device__ __forceinline__ static any8 as(C x, int dtype) {
    return any8{dtype == TL_BOOL ? (uint8_t)(x != 0) : (uint8_t)x};
  }
};
template <class S> static inline bool stored_as(int dtype);
template <> inline bool stored_as<float>(int dtype) { return dtype == TL_F32; }
template <> inline bool stored_as<double>(int dtype) { return dtype == TL_F64; }
template <> inline bool stored_as<int32_t>(int dtype) { return dtype == TL_I32; }
template <> inline bool stored_as<int64_t>(int dtype) { return dtype == TL_I64; }
template <> inline bool stored_as<bool8>(int dtype) { return dtype == TL_BOOL; }
template <> inline bool stored_as<f16>(int dtype) { return dtype == TL_F16; }
template <> inline bool stored_as<bf16>(int dtype) { return dtype == TL_BF16; }
template <> inline bool stored_as<any16>(int dtype) { return dtype == TL_F16 || dtype == TL_BF16; }
template <> inline bool stored_as<any8>(int dtype) {
  return dtype == TL_I8 || dtype == TL_U8 || dtype == TL_BOOL;
}

/* Computes element i from inputs that are stored as S, and stores the result as R. */
template <class F, class S, class R>
__device__ __forceinline__ void
compute_element(const Strided<F::inputs + 1> &s, uint32_t i, const Numbers<typename F::C> &numbers,
                const cuda_Word &word, const tlk_FaultSource &source) {
  typedef typename F::C C;
  int64_t offset[F::inputs + 1];
  C x[F::inputs];
  s.offsets(i, offset);
#pragma unroll
  for (int k = 0; k < F::inputs; k++)
    x[k] = read_as<C>(*static_cast<const S *>(s.source(k + 1, offset[k + 1])), s.dtype[k + 1]);
  *reinterpret_cast<R *>(s.data[0] + offset[0]) =
      Write<R>::as((C)apply<F>(x, numbers, word, source), s.dtype[0]);
}

/* Processes operands that are contiguous or constant along the innermost dimension. Bit k of
** `steady` is set if input k is constant. */
template <class F, class S, class R>
__global__ void __launch_bounds__(POINTWISE_THREADS)
    rows_kernel(const __grid_constant__ Strided<F::inputs + 1> s, unsigned steady,
                Numbers<typename F::C> numbers, cuda_Word word, tlk_FaultSource source) {
  typedef typename F::C C;
  enum { N = Width<C, S>::of };
  uint32_t step = (uint32_t)thread_count(), vectors = s.numel / N;
  for (uint32_t i = (uint32_t)thread_index(); i < vectors; i += step) {
    int64_t offset[F::inputs + 1];
    Vector<S, N> in[F::inputs];
    Vector<R, N> out;
    s.offsets(i * N, offset);
#pragma unroll
    for (int k = 0; k < F::inputs; k++) {
      const void *from = s.source(k + 1, offset[k + 1]);
      if (steady >> k & 1) {
        S same = *static_cast<const S *>(from);
#pragma unroll
        for (int e = 0; e < N; e++) in[k].at[e] = same;
      } else {
        in[k] = *static_cast<const Vector<S, N> *>(from);
      }
    }
#pragma unroll
    for (int e = 0; e < N; e++) {
      C x[F::inputs];
#pragma unroll
      for (int k = 0; k < F::inputs; k++) x[k] = read_as<C>(in[k].at[e], s.dtype[k + 1]);
      out.at[e] = Write<R>::as((C)apply<F>(x, numbers, word, source), s.dtype[0]);
    }
    *reinterpret_cast<Vector<R, N> *>(s.data[0] + offset[0]) = out;
  }
  uint32_t i = vectors * N + (uint32_t)thread_index();
  if (i < s.numel) compute_element<F, S, R>(s, i, numbers, word, source);
}

template <class F, class S, class R>
__global__ void __launch_bounds__(POINTWISE_THREADS)
    spread_kernel(const __grid_constant__ Strided<F::inputs + 1> s, Numbers<typename F::C> numbers,
                  cuda_Word word, tlk_FaultSource source) {
  typedef typename F::C C;
  enum { N = SPREAD };
  uint32_t step = (uint32_t)thread_count();
  for (uint32_t first = (uint32_t)thread_index(); first < s.numel; first += N * step) {
    int64_t offset[N][F::inputs + 1];
    S in[N][F::inputs];
#pragma unroll
    for (int e = 0; e < N; e++) {
      uint32_t i = first + e * step < s.numel ? first + e * step : first;
      s.offsets(i, offset[e]);
#pragma unroll
      for (int k = 0; k < F::inputs; k++)
        in[e][k] = *static_cast<const S *>(s.source(k + 1, offset[e][k + 1]));
    }
#pragma unroll
    for (int e = 0; e < N; e++) {
      C x[F::inputs];
      if (first + e * step >= s.numel) break;
#pragma unroll
      for (int k = 0; k < F::inputs; k++) x[k] = read_as<C>(in[e][k], s.dtype[k + 1]);
      *reinterpret_cast<R *>(s.data[0] + offset[e][0]) =
          Write<R>::as((C)apply<F>(x, numbers, word, source), s.dtype[0]);
    }
  }
}

/* ---- choosing a variant ---------------------------------------------------------------------- */

/* Returns whether operand k can be accessed in vectors of n elements. Each group of n elements,
** counted from the start of a row, must be contiguous and aligned. */
static inline bool vectors_of(const tli_Iter &it, int k, int64_t bytes, int n) {
  const tli_IterArg &a = it.args[k];
  if (a.strides[0] != bytes || !aligned(a.data, (size_t)(bytes * n < 16 ? bytes * n : 16)))
    return false;
  for (int d = 1; d < it.ndim; d++)
    if (a.strides[d] % (bytes * n < 16 ? bytes * n : 16) != 0) return false;
  return true;
}

/* The type of a kernel. All kernels with the same number of inputs and the same compute type share
** the code that launches them. */
template <int N, class C>
using Rows = void (*)(Strided<N>, unsigned, Numbers<C>, cuda_Word, tlk_FaultSource);
template <int N, class C>
using Plain = void (*)(Strided<N>, Numbers<C>, cuda_Word, tlk_FaultSource);

template <int N, class C>
static bool launch_rows(const struct tlk_pointwise *call, Rows<N, C> kernel, int each,
                        unsigned steady, const Numbers<C> &numbers) {
  return for_parts<N>(call->it, [&](const Strided<N> &s) {
    unsigned grid = blocks_for(call->cx, s.numel / (unsigned)each, POINTWISE_THREADS, 16);
    return launch(call->cx, kernel, dim3(grid), POINTWISE_THREADS, 0, s, steady, numbers,
                  cuda_word(call->cx), call->source);
  });
}

template <int N, class C>
static bool launch_plain(const struct tlk_pointwise *call, Plain<N, C> kernel, int each,
                         const Numbers<C> &numbers) {
  return for_parts<N>(call->it, [&](const Strided<N> &s) {
    unsigned grid = blocks_for(call->cx, s.numel, POINTWISE_THREADS * (unsigned)each, 16);
    return launch(call->cx, kernel, dim3(grid), POINTWISE_THREADS, 0, s, numbers,
                  cuda_word(call->cx), call->source);
  });
}

/* Returns whether all inputs have the stored type S and the output has the stored type R. */
template <int N, class S, class R> static bool all_stored_as(const tli_Iter &it) {
  bool all = stored_as<R>(it.args[0].dtype);
  for (int k = 1; k < N; k++) all = all && stored_as<S>(it.args[k].dtype);
  return all;
}

/* Returns whether rows_kernel can process vectors of `each` elements. Bit k of `*steady` is set if
** input k is constant along the innermost dimension. */
template <int N, class S, class R>
static bool rows_fit(const tli_Iter &it, int each, unsigned *steady) {
  *steady = 0;
  if (it.ndim == 0 || it.numel < each || (it.ndim > 1 && it.sizes[0] % each != 0) ||
      !all_stored_as<N, S, R>(it) || !vectors_of(it, 0, (int64_t)sizeof(R), each))
    return false;
  for (int k = 1; k < N; k++) {
    if (it.args[k].data == NULL || it.args[k].strides[0] == 0)
      *steady |= 1u << (k - 1);
    else if (!vectors_of(it, k, (int64_t)sizeof(S), each))
      return false;
  }
  return true;
}

/* Tells whether spread_kernel is compiled for a stored type. */
template <class S> struct Spreads {
  enum { is = 0 };
};
template <> struct Spreads<float> {
  enum { is = 1 };
};
template <> struct Spreads<f16> {
  enum { is = 1 };
};
template <> struct Spreads<bf16> {
  enum { is = 1 };
};

/* Launches rows_kernel or spread_kernel if the operands allow one of them. *done tells whether one
** was launched. */
template <class F, class S, class R>
static bool try_stored(const struct tlk_pointwise *call, const Numbers<typename F::C> &numbers,
                       bool *done) {
  enum { N = F::inputs + 1, EACH = Width<typename F::C, S>::of };
  unsigned steady;
  *done = rows_fit<N, S, R>(call->it, EACH, &steady);
  if (*done) return launch_rows<N>(call, rows_kernel<F, S, R>, EACH, steady, numbers);
  if constexpr (Spreads<S>::is) {
    *done = all_stored_as<N, S, R>(call->it);
    if (*done) return launch_plain<N>(call, spread_kernel<F, S, R>, SPREAD, numbers);
  }
  return true;
}

static inline double number_of(const tl_Scalar &s, double) {
  return s.kind == TL_FLOATING ? s.f : (double)s.i;
}
static inline float number_of(const tl_Scalar &s, float) { return (float)number_of(s, 0.0); }
static inline int64_t number_of(const tl_Scalar &s, int64_t) {
  return s.kind == TL_FLOATING ? (int64_t)s.f : s.i;
}
static inline int32_t number_of(const tl_Scalar &s, int32_t) {
  return (int32_t)number_of(s, (int64_t)0);
}

/* Runs the first variant that fits. Stored lists the types for which separate kernels are
** compiled. */
template <class F, class... Stored> struct Run {
  static bool go(const struct tlk_pointwise *call) {
    Numbers<typename F::C> numbers;
    bool done = false, ok = true;
    for (int i = 0; i < TLK_PARAMS; i++)
      numbers.p[i] = number_of(call->params[i], (typename F::C)0);
    ((done ||
      (ok = try_stored<F, Stored, typename F::template Out<Stored>>(call, numbers, &done))) &&
     ...);
    return done || !ok ? ok : launch_plain<F::inputs + 1>(call, any_kernel<F>, 1, numbers);
  }
};

/* Makes a struct of a function of math.h, so that kernels can take it as a template argument. */
#define POINTWISE_CALL_1(fn, x, p) fn(x[0], p)
#define POINTWISE_CALL_2(fn, x, p) fn(x[0], x[1], p)
#define POINTWISE_CALL_3(fn, x, p) fn(x[0], x[1], x[2], p)
#define POINTWISE_OUT_SAME(S) S
#define POINTWISE_OUT_BOOL(S) bool8
#define POINTWISE_FUNCTOR(name, n, s, type, result)                           \
  struct name##_##s {                                                         \
    typedef type C;                                                           \
    enum { inputs = n, divides = tlm_##name##_##s##_divides };                \
    template <class S> using Out = POINTWISE_OUT_##result(S);                 \
    __device__ __forceinline__ static auto of(const type *x, const type *p) { \
      return POINTWISE_CALL_##n(tlm_##name##_##s, x, p);                      \
    }                                                                         \
  };

#endif
