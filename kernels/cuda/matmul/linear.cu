/*
** linear.cu - matrix products followed by bias and activation, and their gradients. The product
** comes first (in float32 for half types); bias and activation follow in a second pass.
** tlk_reduce computes the sums, so their order depends on the sizes alone.
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
  /* Computes the gradient before the activation from the gradient g after it and the saved
  ** value. */
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

/* Sets c (m, n), whose rows are ld apart, to activation(product + bias), and `inner` to the
** activation's argument. The product, whose rows are `from` apart, may be c itself. */
template <class S, class P>
__global__ void __launch_bounds__(THREADS)
    finish_kernel(S *c, S *inner, const P *product, const S *bias, int64_t m, int64_t n, int64_t ld,
                  int64_t from, int activation) {
  typedef typename Wide<S>::type C;
  for (int64_t i = thread_index(); i < m * n; i += thread_count()) {
    int64_t row = i / n, col = i % n;
    C x = (C)widen(product[row * from + col]) + (bias ? (C)widen(bias[col]) : C(0));
    if (inner) inner[row * ld + col] = narrow<S>(x);
    c[row * ld + col] = narrow<S>(Wide<S>::forward(activation, x));
  }
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    back_kernel(S *grad_in, const S *grad_out, const S *saved, int64_t n, int activation) {
  typedef typename Wide<S>::type C;
  for (int64_t i = thread_index(); i < n; i += thread_count())
    grad_in[i] =
        narrow<S>(Wide<S>::backward(activation, (C)widen(grad_out[i]), (C)widen(saved[i])));
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* Sums an array (outer, n, inner) along n into out (outer, inner). */
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

template <class S, class P>
static bool finish(const struct tlk_linear *call, const P *product, int64_t from) {
  const tlk_Gemm &g = call->gemm;
  unsigned grid = blocks_for(call->cx, g.m * g.n, THREADS, 16);
  if (call->bias == NULL && call->activation == TLK_ACTIVATION_NONE && call->inner == NULL &&
      (const void *)product == g.c)
    return true;
  return launch(call->cx, finish_kernel<S, P>, dim3(grid), THREADS, 0, (S *)g.c, (S *)call->inner,
                product, (const S *)call->bias, g.m, g.n, g.ldc, from, (int)call->activation);
}

template <class S>
static bool in_place(const struct tlk_linear *call, const struct tlk_gemm *product) {
  return tlk_gemm(product) && finish<S>(call, (const S *)call->gemm.c, call->gemm.ldc);
}

/* Computes half types in float32, so that they are rounded only at the end. */
template <class S> static bool in_float(const struct tlk_linear *call, struct tlk_gemm product) {
  Scratch wide(call->cx, call->gemm.m * call->gemm.n * (int64_t)sizeof(float));
  float *out = (float *)wide.data;
  product.gemm.ldc = call->gemm.n;
  return out && cuda_lib_gemm_wide(&product, out) && finish<S>(call, out, call->gemm.n);
}

bool tlk_linear(const struct tlk_linear *call) {
  struct tlk_gemm product = {};
  product.cx = call->cx;
  product.gemm = call->gemm;
  const tlk_Gemm &g = call->gemm;
  bool ok = true;
  if (g.m == 0 || g.n == 0)
    ok = true;
  else if (g.dtype == TL_F32)
    ok = in_place<float>(call, &product);
  else if (g.dtype == TL_F64)
    ok = in_place<double>(call, &product);
  else if (g.dtype == TL_F16)
    ok = in_float<f16>(call, product);
  else
    ok = in_float<bf16>(call, product);
  return ok && (call->sums == NULL || sum(call->cx, call->sums, g.a, g.dtype, g.trans_a ? 1 : g.m,
                                          g.k, g.trans_a ? g.m : 1));
}

static bool back(const struct tlk_activation_backward *call) {
  int64_t n = call->rows * call->n;
  unsigned grid = blocks_for(call->cx, n, THREADS, 16);
  WITH_FLOATING(call->grad_in.dtype, S,
                return launch(call->cx, back_kernel<S>, dim3(grid), THREADS, 0,
                              (S *)call->grad_in.data, (const S *)call->grad_out.data,
                              (const S *)call->saved.data, n, (int)call->activation))
  return true;
}

bool cuda_bias_gradient(const struct tlk_activation_backward *call) {
  return sum(call->cx, call->grad_bias.data, call->grad_in.data, call->grad_in.dtype, 1, call->rows,
             call->n);
}

bool tlk_activation_backward(const struct tlk_activation_backward *call) {
  if (call->rows > 0 && call->n > 0 && !back(call)) return false;
  return call->grad_bias.data == NULL || cuda_bias_gradient(call);
}
