/*
** linear.cu - matrix products followed by bias and activation, and their gradients. Where possible,
** cuBLASLt computes everything in one pass. Otherwise (float64, GELU with tanh in float32, odd
** strides) the product is computed first, in float32 for half types, and a second pass adds the
** bias and applies the activation. GELU with erf always takes a second pass. tlk_reduce computes
** the sums that cuBLASLt does not compute.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/lib/lib.h"

#define THREADS 256

/* ---- kernels --------------------------------------------------------------------------------- */

template <class S> struct Wide {
  typedef float type;
  __device__ __forceinline__ static float forward(int activation, float x) {
    switch (activation) {
    case TLK_ACTIVATION_RELU: return tlm_relu_f32(x, NULL);
    case TLK_ACTIVATION_GELU: return tlm_gelu_f32(x, NULL);
    case TLK_ACTIVATION_GELU_TANH: return tlm_gelu_tanh_f32(x, NULL);
    default: return x;
    }
  }
  /* Returns the gradient with respect to the activation's argument. g is the gradient with respect
  ** to the activation's result; the other argument is the saved value. */
  __device__ __forceinline__ static float backward(int activation, float g, float saved) {
    const float zero = 0;
    switch (activation) {
    case TLK_ACTIVATION_RELU: return tlm_threshold_backward_f32(g, saved, &zero);
    case TLK_ACTIVATION_GELU: return tlm_gelu_backward_f32(g, saved, NULL);
    case TLK_ACTIVATION_GELU_TANH: return tlm_gelu_tanh_backward_f32(g, saved, NULL);
    default: return g;
    }
  }
};
template <> struct Wide<double> {
  typedef double type;
  __device__ __forceinline__ static double forward(int activation, double x) {
    switch (activation) {
    case TLK_ACTIVATION_RELU: return tlm_relu_f64(x, NULL);
    case TLK_ACTIVATION_GELU: return tlm_gelu_f64(x, NULL);
    case TLK_ACTIVATION_GELU_TANH: return tlm_gelu_tanh_f64(x, NULL);
    default: return x;
    }
  }
  __device__ __forceinline__ static double backward(int activation, double g, double saved) {
    const double zero = 0;
    switch (activation) {
    case TLK_ACTIVATION_RELU: return tlm_threshold_backward_f64(g, saved, &zero);
    case TLK_ACTIVATION_GELU: return tlm_gelu_backward_f64(g, saved, NULL);
    case TLK_ACTIVATION_GELU_TANH: return tlm_gelu_tanh_backward_f64(g, saved, NULL);
    default: return g;
    }
  }
};

/* Stores a vector of 16 or 8 bytes to global memory by one instruction. Without this function, the
** compiler splits the vector into single elements if another store is near. */
template <class S, int N>
__device__ __forceinline__ void store_whole(S *to, const Vector<S, N> &from) {
#ifndef TLK_EMULATED
  uint32_t w[sizeof from / 4 > 0 ? sizeof from / 4 : 1];
  if constexpr (sizeof from >= 8) memcpy(w, &from, sizeof from);
  if constexpr (sizeof from == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
    return;
  } else if constexpr (sizeof from == 8 && N > 1) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" : : "l"(to), "r"(w[0]), "r"(w[1]) : "memory");
    return;
  }
#endif
  *reinterpret_cast<Vector<S, N> *>(to) = from;
}

/* Sets c (m, n) to activation(product + bias), and `inner` to the activation's argument. The rows
** of c and `inner` are ld elements apart. The product, whose rows are `from` elements apart, may be
** c itself. A block computes a rectangle, and each of its threads processes N columns and reads
** their bias once. */
template <int N, int activation, class S, class P>
__global__ void __launch_bounds__(THREADS)
    finish_kernel(S *c, S *inner, const P *product, const S *bias, int64_t m, int64_t n, int64_t ld,
                  int64_t from, int across) {
  typedef typename Wide<S>::type C;
  int64_t col = ((int64_t)blockIdx.x * across + threadIdx.x % across) * N;
  int64_t down = THREADS / across;
  if (col >= n) return;
  C add[N];
#pragma unroll
  for (int e = 0; e < N; e++) add[e] = bias ? (C)widen(bias[col + e]) : C(0);
  for (int64_t row = blockIdx.y * down + threadIdx.x / across; row < m; row += gridDim.y * down) {
    Vector<P, N> x = *reinterpret_cast<const Vector<P, N> *>(product + row * from + col);
    Vector<S, N> before, after;
#pragma unroll
    for (int e = 0; e < N; e++) {
      C sum = (C)widen(x.at[e]) + add[e];
      before.at[e] = narrow<S>(sum);
      after.at[e] = narrow<S>(Wide<S>::forward(activation, sum));
    }
    store_whole(c + row * ld + col, after);
    if (inner) store_whole(inner + row * ld + col, before);
  }
}

template <int N, int activation, class S>
__global__ void __launch_bounds__(THREADS)
    back_kernel(S *grad_in, const S *grad_out, const S *saved, int64_t n) {
  typedef typename Wide<S>::type C;
  for (int64_t i = thread_index() * N; i < n; i += thread_count() * N) {
    Vector<S, N> out = *reinterpret_cast<const Vector<S, N> *>(grad_out + i);
    Vector<S, N> x = *reinterpret_cast<const Vector<S, N> *>(saved + i), in;
#pragma unroll
    for (int e = 0; e < N; e++)
      in.at[e] = narrow<S>(Wide<S>::backward(activation, (C)widen(out.at[e]), (C)widen(x.at[e])));
    *reinterpret_cast<Vector<S, N> *>(grad_in + i) = in;
  }
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* Sums an array (outer, n, inner) along n, and stores the sums in out (outer, inner). */
static bool sum(const tlk_Context *cx, void *out, const void *in, tl_DType dtype, int64_t outer,
                int64_t n, int64_t inner) {
  struct tlk_reduce call = {};
  call.cx = cx;
  call.kernel = TLK_reduction_sum;
  call.compute = dtype == TL_F64 ? TL_F64 : TL_F32;
  call.out = {out, dtype};
  call.in = {(void *)(uintptr_t)in, dtype};
  call.outer = outer;
  call.n = n;
  call.inner = inner;
  return tlk_reduce(&call);
}

/* The number of elements that fill 16 bytes in the wider of the two types. */
template <class S, class P> struct Several {
  enum { wide = sizeof(S) > sizeof(P) ? sizeof(S) : sizeof(P), of = 16 / wide };
};

/* Runs host code in which A is the number of an activation, as a constant. */
#define ACTIVATION_AS(tag, A, ...) \
  case tag: {                      \
    enum { A = tag };              \
    __VA_ARGS__;                   \
  } break;
#define WITH_ACTIVATION(activation, A, ...)                 \
  switch (activation) {                                     \
    ACTIVATION_AS(TLK_ACTIVATION_NONE, A, __VA_ARGS__)      \
    ACTIVATION_AS(TLK_ACTIVATION_RELU, A, __VA_ARGS__)      \
    ACTIVATION_AS(TLK_ACTIVATION_GELU, A, __VA_ARGS__)      \
    ACTIVATION_AS(TLK_ACTIVATION_GELU_TANH, A, __VA_ARGS__) \
  }

template <int N, class S, class P>
static bool finish_by(const struct tlk_linear *call, const P *product, int64_t from) {
  const tlk_Gemm &g = call->gemm;
  int across = 1;
  while (across < THREADS && across * N < g.n) across *= 2;
  int64_t rows = divide_up(g.m, THREADS / across);
  int64_t most = divide_up((int64_t)cuda_multiprocessors(call->cx->device.index) * 16,
                           divide_up(g.n, across * N));
  if (rows > most) rows = most;
  dim3 grid((unsigned)divide_up(g.n, across * N), (unsigned)(rows < 65535 ? rows : 65535));
  WITH_ACTIVATION(call->activation, A,
                  return launch(call->cx, finish_kernel<N, A, S, P>, grid, THREADS, 0, (S *)g.c,
                                (S *)call->inner, product, (const S *)call->bias, g.m, g.n, g.ldc,
                                from, across))
  return false;
}

template <class S, class P>
static bool finish(const struct tlk_linear *call, const P *product, int64_t from) {
  enum { N = Several<S, P>::of };
  const tlk_Gemm &g = call->gemm;
  if (call->bias == NULL && call->activation == TLK_ACTIVATION_NONE && call->inner == NULL &&
      (const void *)product == g.c)
    return true;
  bool whole = g.n % N == 0 && g.ldc % N == 0 && from % N == 0 && aligned(product, 16) &&
               aligned(g.c, N * sizeof(S)) && aligned(call->inner, N * sizeof(S));
  return whole ? finish_by<N, S, P>(call, product, from) : finish_by<1, S, P>(call, product, from);
}

template <class S>
static bool in_place(const struct tlk_linear *call, const struct tlk_gemm *product) {
  return tlk_gemm(product) && finish<S>(call, (const S *)call->gemm.c, call->gemm.ldc);
}

/* Computes the product of half types in float32, so that the results are rounded only once, after
** the activation. */
template <class S> static bool in_float(const struct tlk_linear *call, struct tlk_gemm product) {
  Scratch wide(call->cx, call->gemm.m * call->gemm.n * (int64_t)sizeof(float));
  float *out = (float *)wide.data;
  product.gemm.ldc = call->gemm.n;
  return out && cuda_lib_gemm_wide(&product, out) && finish<S>(call, out, call->gemm.n);
}

/* Computes the product first. A second pass then adds the bias and applies the activation. */
static bool separately(const struct tlk_linear *call) {
  const tlk_Gemm &g = call->gemm;
  struct tlk_gemm product = {};
  product.cx = call->cx;
  product.gemm = g;
  bool ok = g.dtype == TL_F32   ? in_place<float>(call, &product)
            : g.dtype == TL_F64 ? in_place<double>(call, &product)
            : g.dtype == TL_F16 ? in_float<f16>(call, product)
                                : in_float<bf16>(call, product);
  return ok && (call->sums == NULL || sum(call->cx, call->sums, g.a, g.dtype, g.trans_a ? 1 : g.m,
                                          g.k, g.trans_a ? g.m : 1));
}

/* Computes everything in one pass. Only GELU with erf takes a second pass, which applies GELU to
** the sum of the product and the bias. */
static bool in_one_pass(const struct tlk_linear *call, bool *done) {
  struct tlk_linear first = *call;
  if (call->activation != TLK_ACTIVATION_GELU) return cuda_lib_linear(call, done);
  first.activation = TLK_ACTIVATION_NONE;
  first.inner = NULL;
  if (call->inner) first.gemm.c = call->inner;
  if (!cuda_lib_linear(&first, done)) return false;
  if (!*done) return true;
  struct tlk_linear second = *call;
  second.bias = NULL;
  second.inner = NULL;
  int64_t from = call->gemm.ldc;
  WITH_FLOATING(call->gemm.dtype, S, return finish<S>(&second, (const S *)first.gemm.c, from))
  return true;
}

bool tlk_linear(const struct tlk_linear *call) {
  const tlk_Gemm &g = call->gemm;
  bool done;
  if (g.m == 0 || g.n == 0)
    return call->sums == NULL ||
           sum(call->cx, call->sums, g.a, g.dtype, g.trans_a ? 1 : g.m, g.k, g.trans_a ? g.m : 1);
  if (!in_one_pass(call, &done)) return false;
  return cuda_counted(CUDA_LINEAR_EPILOGUE, done) || separately(call);
}

template <int N, class S>
static bool back_by(const struct tlk_activation_backward *call, int64_t n) {
  unsigned grid = blocks_for(call->cx, n / N, THREADS, 16);
  WITH_ACTIVATION(call->activation, A,
                  return launch(call->cx, back_kernel<N, A, S>, dim3(grid), THREADS, 0,
                                (S *)call->grad_in.data, (const S *)call->grad_out.data,
                                (const S *)call->saved.data, n))
  return false;
}

template <class S> static bool back(const struct tlk_activation_backward *call) {
  enum { N = Several<S, S>::of };
  int64_t n = call->rows * call->n;
  bool whole = n % N == 0 && aligned(call->grad_in.data, 16) && aligned(call->grad_out.data, 16) &&
               aligned(call->saved.data, 16);
  return whole ? back_by<N, S>(call, n) : back_by<1, S>(call, n);
}

bool cuda_bias_gradient(const struct tlk_activation_backward *call) {
  return sum(call->cx, call->grad_bias.data, call->grad_in.data, call->grad_in.dtype, 1, call->rows,
             call->n);
}

bool tlk_activation_backward(const struct tlk_activation_backward *call) {
  bool ok = true;
  if (call->rows > 0 && call->n > 0) WITH_FLOATING(call->grad_in.dtype, S, ok = back<S>(call))
  if (!ok) return false;
  return call->grad_bias.data == NULL || cuda_bias_gradient(call);
}
