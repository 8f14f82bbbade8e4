/*
** norm.cu - layer normalisation of rows, and its gradients. Mean and variance take two passes over
** each row, but the row is read from global memory only once. Sums are computed in double.
*/
#include "kernels/cuda/walk.cuh"

namespace {

/* Returns the value for row i from an array of statistics. */
template <class C> __device__ __forceinline__ C statistic(const Result &a, int64_t i) {
  return a.dtype == TL_F64 ? (C) reinterpret_cast<const double *>(a.data)[i]
                           : (C) reinterpret_cast<const float *>(a.data)[i];
}

/* Stores K numbers, as vectors if `to` is aligned. */
template <class S, class C, int K>
__device__ __forceinline__ void store_some(S *to, const C (&x)[K]) {
  enum { bytes = sizeof(S) * K < 16 ? sizeof(S) * K : 16 };
  Vector<S, K> v;
#pragma unroll
  for (int k = 0; k < K; k++) v.at[k] = narrow<S>(x[k]);
  if (reinterpret_cast<uintptr_t>(to) % bytes == 0) {
    *reinterpret_cast<Vector<S, K> *>(to) = v;
  } else {
#pragma unroll
    for (int k = 0; k < K; k++) to[k] = v.at[k];
  }
}

template <class S, class C, int K>
__device__ __forceinline__ void add_some(const S *from, C (&x)[K]) {
  C more[K];
  load_some(from, more);
#pragma unroll
  for (int k = 0; k < K; k++) x[k] += more[k];
}

/* Normalises the input. If there are two inputs, normalises their rounded sum, which is also stored
** in `sum`. */
template <int N> struct LayerNorm {
  enum { inputs = N, twice = true };
  Result mean, rstd; /* the statistics of each row; the data of `mean` is NULL for RMS norm */
  const char *weight, *bias;
  char *sum;
  double eps;

  template <class W> __device__ __forceinline__ void run(W &w, int64_t row) const {
    typedef typename W::C C;
    typedef typename W::Stored S;
    double sum = 0, square = 0, count = (double)w.n;
    w.read([&](auto &x, int64_t at) {
      add_up<S>(x);
      if constexpr (N > 1) store_some(reinterpret_cast<S *>(this->sum) + row * w.n + at, x[0]);
      sum += sum_of(x[0]);
    });
    double centre = mean.data ? w.join(sum, Add()) / count : 0;
    C near = (C)centre;
    w.again([&](auto &x, int64_t) {
      add_up<S>(x);
      for (C &e : x[0]) e = (e - near) * (e - near);
      square += sum_of(x[0]);
    });
    double rest = centre - (double)near, variance = w.join(square, Add()) / count - rest * rest;
    double inverse = 1 / sqrt(variance + eps);
    C scale = (C)inverse;
    w.again([&](auto &x, int64_t at) {
      add_up<S>(x);
      finish<S>(x[0], at, near, scale);
      w.put(at, x[0]);
    });
    if (!w.first()) return;
    if (mean.data) mean.put(row, centre);
    if (rstd.data) rstd.put(row, inverse);
  }
  template <class S, class C, int K> __device__ __forceinline__ static void add_up(C (&x)[N][K]) {
    if constexpr (N > 1) {
#pragma unroll
      for (int k = 0; k < K; k++) x[0][k] = (C)widen(narrow<S>(x[0][k] + x[1][k]));
    }
  }
  template <class S, class C, int K>
  __device__ __forceinline__ void finish(C (&x)[K], int64_t at, C near, C scale) const {
    C factor[K], shift[K];
    for (C &e : factor) e = 1;
    for (C &e : shift) e = 0;
    if (weight) load_some(reinterpret_cast<const S *>(weight) + at, factor);
    if (bias) load_some(reinterpret_cast<const S *>(bias) + at, shift);
#pragma unroll
    for (int k = 0; k < K; k++) x[k] = (x[k] - near) * scale * factor[k] + shift[k];
  }
};

/* Computes the gradient of the input. With h = (x - mean) * rstd and u = grad * weight, this
** gradient is rstd * (u - avg(u) - h * avg(u * h)), where avg is the mean over the row. */
struct LayerNormInput {
  enum { inputs = 2, twice = true }; /* grad, x */
  Result mean, rstd;
  const char *weight, *more; /* more: an array that is added to the result, or NULL */

  template <class W> __device__ __forceinline__ void run(W &w, int64_t row) const {
    typedef typename W::C C;
    typedef typename W::Stored S;
    double plain = 0, along = 0, count = (double)w.n;
    double inverse = w.valid ? statistic<double>(rstd, row) : 0;
    C near = w.valid && mean.data ? statistic<C>(mean, row) : 0;
    w.read([&](auto &x, int64_t at) {
      scale_by<S>(x[0], at);
      int k = 0;
      for (C u : x[0]) x[1][k] = (x[1][k] - near) * u, k++;
      plain += sum_of(x[0]);
      along += sum_of(x[1]);
    });
    plain = w.join(plain, Add());
    along = w.join(along, Add());
    C offset = mean.data ? (C)(plain * inverse / count) : 0;
    C slope = (C)(along * inverse * inverse * inverse / count), scale = (C)inverse;
    w.again([&](auto &x, int64_t at) {
      scale_by<S>(x[0], at);
      int k = 0;
      for (C e : x[1]) x[0][k] = x[0][k] * scale - offset - (e - near) * slope, k++;
      if (more) add_some(reinterpret_cast<const S *>(more) + row * w.n + at, x[0]);
      w.put(at, x[0]);
    });
  }
  template <class S, class C, int K>
  __device__ __forceinline__ void scale_by(C (&x)[K], int64_t at) const {
    C factor[K];
    if (weight == NULL) return;
    load_some(reinterpret_cast<const S *>(weight) + at, factor);
#pragma unroll
    for (int k = 0; k < K; k++) x[k] *= factor[k];
  }
};

struct Two {
  double a, b;
};

/* For each column, sums grad and grad * (x - mean) * rstd over the rows. */
template <class T> struct LayerNormWeight {
  typedef T C;
  typedef Two A;
  enum { inputs = 2, blocks = LINE_BLOCKS(A) };
  Result mean, rstd, weight, bias;

  __device__ __forceinline__ A start() const { return A{0, 0}; }
  template <int K>
  __device__ __forceinline__ void add(A &acc, const T (&x)[2][K], int64_t, int64_t at,
                                      int64_t step) const {
    T g[K], h[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
      T near = mean.data ? statistic<T>(mean, at + k * step) : 0;
      g[k] = x[0][k];
      h[k] = x[0][k] * ((x[1][k] - near) * statistic<T>(rstd, at + k * step));
    }
    acc.a += sum_of(g);
    acc.b += sum_of(h);
  }
  __device__ __forceinline__ A join(const A &a, const A &b) const {
    return A{a.a + b.a, a.b + b.b};
  }
  __device__ __forceinline__ void store(int64_t i, const A &acc) const {
    if (bias.data) bias.put(i, acc.a);
    if (weight.data) weight.put(i, acc.b);
  }
};

template <class T> bool weight_gradients(const struct tlk_layer_norm_backward *call) {
  LayerNormWeight<T> op;
  op.mean = result_of(call->mean);
  op.rstd = result_of(call->rstd);
  op.weight = result_of(call->grad_weight);
  op.bias = result_of(call->grad_bias);
  if (call->n == 0) return true;
  return reduce_columns(call->cx, source_of(call->grad_out, call->in), 1, call->rows, call->n, op);
}

} // namespace

bool tlk_layer_norm(const struct tlk_layer_norm *call) {
  const char *in = (const char *)call->in.data, *residual = (const char *)call->residual.data;
  char *out = (char *)call->out.data;
  Result mean = result_of(call->mean), rstd = result_of(call->rstd);
  const char *weight = (const char *)call->weight.data, *bias = (const char *)call->bias.data;
  if (residual) {
    LayerNorm<2> algorithm = {mean, rstd, weight, bias, (char *)call->sum.data, call->eps};
    Walk<2> g = {{in, residual}, out, call->rows, call->n, 1, 0, 0};
    return walk_lines(call->cx, call->in.dtype, g, algorithm);
  }
  LayerNorm<1> algorithm = {mean, rstd, weight, bias, NULL, call->eps};
  Walk<1> g = {{in}, out, call->rows, call->n, 1, 0, 0};
  return walk_lines(call->cx, call->in.dtype, g, algorithm);
}

bool tlk_layer_norm_backward(const struct tlk_layer_norm_backward *call) {
  LayerNormInput algorithm = {result_of(call->mean), result_of(call->rstd),
                              (const char *)call->weight.data, (const char *)call->grad_sum.data};
  Walk<2> g = {{(const char *)call->grad_out.data, (const char *)call->in.data},
               (char *)call->grad_in.data,
               call->rows,
               call->n,
               1,
               0,
               0};
  if (call->grad_in.data && !walk_lines(call->cx, call->in.dtype, g, algorithm)) return false;
  if (call->grad_weight.data == NULL && call->grad_bias.data == NULL) return true;
  return call->in.dtype == TL_F64 ? weight_gradients<double>(call) : weight_gradients<float>(call);
}
