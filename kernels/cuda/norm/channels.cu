/*
** channels.cu - statistics and scaling of channels, and batch norm in training for calls that cuDNN
** does not compute.
*/
#include "kernels/cuda/lib/lib.h"
#include "kernels/cuda/reduce/moments.cuh"

namespace {

/* Reduces all elements of each channel of a tensor (outer, channels, inner). */
template <class Op>
bool reduce_channels(const tlk_Context *cx, const Source<Op::inputs> &in, int64_t outer,
                     int64_t channels, int64_t inner, const Op &op) {
  if (channels == 0) return true;
  if (inner == 1) return reduce_columns(cx, in, 1, outer, channels, op);
  Rows g = {};
  g.lines = channels;
  g.runs = outer;
  g.n = g.line_step = inner;
  g.run_step = channels * inner;
  return reduce_rows(cx, in, g, op);
}

/* Describes an array with one float or, if `wide`, one double for each channel. */
Result per_channel(const void *data, bool wide) {
  return Result{(char *)data, wide ? TL_F64 : TL_F32, wide ? 8 : 4};
}

template <class T> bool run_moments(const struct tlk_channel_moments *call) {
  bool wide = sizeof(T) == 8;
  MomentsOf<T> op = {per_channel(call->mean, wide), per_channel(call->deviation, wide)};
  return reduce_channels(call->cx, source_of(call->in), call->outer, call->channels, call->inner,
                         op);
}

struct Two {
  double a, b;
};

/* The sums of grad and of grad * (in - mean). */
template <class T> struct Products {
  typedef T C;
  typedef Two A;
  enum { inputs = 2, blocks = LINE_BLOCKS(A) };
  const T *mean;
  T *sum, *product;

  __device__ __forceinline__ A start() const { return A{0, 0}; }
  template <int K>
  __device__ __forceinline__ void add(A &acc, const T (&x)[2][K], int64_t line, int64_t,
                                      int64_t) const {
    T g[K], h[K], near = mean[line];
#pragma unroll
    for (int k = 0; k < K; k++) {
      g[k] = x[0][k];
      h[k] = x[0][k] * (x[1][k] - near);
    }
    acc.a += sum_of(g);
    acc.b += sum_of(h);
  }
  __device__ __forceinline__ A join(const A &a, const A &b) const {
    return A{a.a + b.a, a.b + b.b};
  }
  __device__ __forceinline__ void store(int64_t line, const A &acc) const {
    sum[line] = (T)acc.a;
    product[line] = (T)acc.b;
  }
};

template <class T> bool run_products(const struct tlk_channel_products *call) {
  Products<T> op = {(const T *)call->mean, (T *)call->sum, (T *)call->product};
  return reduce_channels(call->cx, source_of(call->grad, call->in), call->outer, call->channels,
                         call->inner, op);
}

/* ---- scaling ---------------------------------------------------------------------------- */

#define AFFINE_THREADS 256

template <class C> struct Affine {
  char *out;
  const char *in, *other;
  const C *mean, *scale, *shift, *factor;
  bool along; /* whether the channels are the innermost dimension */
};

template <class C, int K>
__device__ __forceinline__ void numbers_of(const C *from, int64_t channel, bool along, C (&x)[K]) {
#pragma unroll
  for (int k = 0; k < K; k++) x[k] = from ? from[along ? channel + k : channel] : 0;
}

/* Scales and shifts K elements at a time. The loop's second operand begins at the same address as
** `out` and has elements of size 1, so that its offset is the index of the channel. */
template <class S, class C, int K>
__global__ void __launch_bounds__(AFFINE_THREADS)
    affine_kernel(const __grid_constant__ Strided<2> s, const __grid_constant__ Affine<C> a) {
  uint32_t step = (uint32_t)thread_count();
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel / K; i += step) {
    int64_t at[2];
    C x[K], y[K], mean[K], scale[K], shift[K], factor[K];
    s.offsets(i * K, at);
    at[0] += s.data[0] - a.out;
    at[1] += s.data[1] - a.out;
    load_vector(reinterpret_cast<const S *>(a.in + at[0]), x);
    if (a.other) load_vector(reinterpret_cast<const S *>(a.other + at[0]), y);
    numbers_of(a.mean, at[1], a.along, mean);
    numbers_of(a.scale, at[1], a.along, scale);
    numbers_of(a.shift, at[1], a.along, shift);
    numbers_of(a.other ? a.factor : NULL, at[1], a.along, factor);
    Vector<S, K> v;
#pragma unroll
    for (int k = 0; k < K; k++) {
      C moved = (x[k] - mean[k]) * scale[k] + shift[k];
      v.at[k] = narrow<S>(a.other ? moved + y[k] * factor[k] : moved);
    }
    *reinterpret_cast<Vector<S, K> *>(a.out + at[0]) = v;
  }
}

/* Returns the loop over the elements of a tensor (outer, channels, inner). */
tli_Iter channel_loop(char *out, int64_t outer, int64_t channels, int64_t inner, int64_t size) {
  tli_Iter it = {};
  int64_t sizes[3] = {inner, channels, outer}, step = size;
  it.nargs = 2;
  it.numel = outer * channels * inner;
  it.args[0].data = it.args[1].data = out;
  for (int d = inner == 1 ? 1 : 0; d < 3; d++) {
    it.sizes[it.ndim] = sizes[d];
    it.args[0].strides[it.ndim] = step;
    it.args[1].strides[it.ndim] = d == 1;
    step *= sizes[d];
    it.ndim++;
  }
  return it;
}

template <class S, class C> bool run_affine(const struct tlk_channel_affine *call) {
  enum { K = 16 / sizeof(S) };
  Affine<C> a = {(char *)call->out.data,         (const char *)call->in.data,
                 (const char *)call->other.data, (const C *)call->mean,
                 (const C *)call->scale,         (const C *)call->shift,
                 (const C *)call->factor,        call->inner == 1};
  int64_t side = a.along ? call->channels : call->inner;
  bool vectors = side % K == 0 && aligned(a.out, 16) && aligned(a.in, 16) && aligned(a.other, 16);
  auto kernel = vectors ? affine_kernel<S, C, K> : affine_kernel<S, C, 1>;
  tli_Iter it = channel_loop(a.out, call->outer, call->channels, call->inner, (int64_t)sizeof(S));
  return for_parts<2>(it, [&](const Strided<2> &s) {
    unsigned grid = blocks_for(call->cx, s.numel / (vectors ? K : 1), AFFINE_THREADS, 32);
    return launch(call->cx, kernel, dim3(grid), AFFINE_THREADS, 0, s, a);
  });
}

/* ---- batch norm ------------------------------------------------------------------------- */

#define CHANNEL_THREADS 128

template <class T> DEVICE double weight_at(const T *weight, int64_t c) {
  return weight ? (double)weight[c] : 1.0;
}

/* Computes rstd and scale for each channel, between the two passes over the elements. */
template <class T>
__global__ void __launch_bounds__(CHANNEL_THREADS)
    rstd_kernel(int64_t channels, double n, double eps, const T *deviation, const T *weight,
                T *rstd, T *scale) {
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    double r = 1 / sqrt((double)deviation[c] / n + eps);
    rstd[c] = (T)r;
    scale[c] = (T)(r * weight_at(weight, c));
  }
}

/* Recovers the sum of squared deviations from rstd. This is precise enough, because the only error
** is the rounding of deviation / n + eps. */
__global__ void __launch_bounds__(CHANNEL_THREADS)
    deviation_kernel(int64_t channels, double n, double eps, const float *rstd, float *deviation) {
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    double r = (double)rstd[c], d = (1 / (r * r) - eps) * n;
    deviation[c] = (float)(d < 0 ? 0 : d);
  }
}

/* Computes the gradients of batch norm for each channel. Before the call, grad_weight holds the
** sums of grad * (in - mean). */
template <class T>
__global__ void __launch_bounds__(CHANNEL_THREADS)
    slopes_kernel(int64_t channels, double n, const T *rstd, const T *weight, const T *grad_bias,
                  T *grad_weight, T *scale, T *slope, T *shift) {
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    double r = (double)rstd[c], by = r * weight_at(weight, c), product = (double)grad_weight[c] * r;
    grad_weight[c] = (T)product;
    scale[c] = (T)by;
    slope[c] = (T)(-product * by * r / n);
    shift[c] = (T)(-(double)grad_bias[c] * by / n);
  }
}

template <class T> bool run_batch_norm(const struct tlk_batch_norm *call) {
  const tlk_Context *cx = call->cx;
  int64_t channels = call->channels;
  Scratch scale(cx, channels * (int64_t)sizeof(T));
  if (scale.data == NULL) return false;
  struct tlk_channel_moments moments = {cx,          call->mean, call->deviation, call->in,
                                        call->outer, channels,   call->inner};
  struct tlk_channel_affine affine = {};
  affine.cx = cx;
  affine.out = call->out;
  affine.in = call->in;
  affine.mean = call->mean;
  affine.scale = scale.data;
  affine.shift = call->bias;
  affine.outer = call->outer;
  affine.channels = channels;
  affine.inner = call->inner;
  return tlk_channel_moments(&moments) &&
         launch(cx, rstd_kernel<T>, dim3(blocks_for(cx, channels, CHANNEL_THREADS)),
                CHANNEL_THREADS, 0, channels, (double)(call->outer * call->inner), call->eps,
                (const T *)call->deviation, (const T *)call->weight, (T *)call->rstd,
                (T *)scale.data) &&
         tlk_channel_affine(&affine);
}

template <class T> bool run_batch_norm_backward(const struct tlk_batch_norm_backward *call) {
  const tlk_Context *cx = call->cx;
  int64_t channels = call->channels;
  Scratch scratch(cx, 3 * channels * (int64_t)sizeof(T));
  if (scratch.data == NULL) return false;
  T *scale = (T *)scratch.data, *slope = scale + channels, *shift = slope + channels;
  struct tlk_channel_products products = {
      cx,         call->grad_bias, call->grad_weight, call->grad_out, call->in,
      call->mean, call->outer,     channels,          call->inner};
  struct tlk_channel_affine affine = {};
  affine.cx = cx;
  affine.out = call->grad_in;
  affine.in = call->in;
  affine.mean = call->mean;
  affine.scale = slope;
  affine.shift = shift;
  affine.other = call->grad_out;
  affine.factor = scale;
  affine.outer = call->outer;
  affine.channels = channels;
  affine.inner = call->inner;
  return tlk_channel_products(&products) &&
         launch(cx, slopes_kernel<T>, dim3(blocks_for(cx, channels, CHANNEL_THREADS)),
                CHANNEL_THREADS, 0, channels, (double)(call->outer * call->inner),
                (const T *)call->rstd, (const T *)call->weight, (const T *)call->grad_bias,
                (T *)call->grad_weight, scale, slope, shift) &&
         (call->grad_in.data == NULL || tlk_channel_affine(&affine));
}

} // namespace

bool tlk_channel_moments(const struct tlk_channel_moments *call) {
  return call->in.dtype == TL_F64 ? run_moments<double>(call) : run_moments<float>(call);
}

bool tlk_channel_products(const struct tlk_channel_products *call) {
  return call->in.dtype == TL_F64 ? run_products<double>(call) : run_products<float>(call);
}

bool tlk_channel_affine(const struct tlk_channel_affine *call) {
  if (call->outer == 0 || call->channels == 0 || call->inner == 0) return true;
  WITH_FLOATING(call->in.dtype, S, return run_affine<S, decltype(widen(S()))>(call))
  return false;
}

bool tlk_batch_norm(const struct tlk_batch_norm *call) {
  bool done;
  if (!cuda_lib_batch_norm(call, &done)) return false;
  if (!cuda_counted(CUDA_NORM_CUDNN, done))
    return call->in.dtype == TL_F64 ? run_batch_norm<double>(call) : run_batch_norm<float>(call);
  return launch(call->cx, deviation_kernel,
                dim3(blocks_for(call->cx, call->channels, CHANNEL_THREADS)), CHANNEL_THREADS, 0,
                call->channels, (double)(call->outer * call->inner), call->eps,
                (const float *)call->rstd, (float *)call->deviation);
}

bool tlk_batch_norm_backward(const struct tlk_batch_norm_backward *call) {
  bool done;
  if (!cuda_lib_batch_norm_backward(call, &done)) return false;
  if (cuda_counted(CUDA_NORM_CUDNN, done)) return true;
  return call->in.dtype == TL_F64 ? run_batch_norm_backward<double>(call)
                                  : run_batch_norm_backward<float>(call);
}
