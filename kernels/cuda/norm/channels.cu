/*
** channels.cu - statistics and scaling of channels.
*/
#include "kernels/cuda/reduce/moments.cuh"

namespace {

/* Sums of the elements of each channel of (outer, channels, inner). */
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

/* What there is one of for each channel. */
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

/* Sums of grad and of grad * (in - mean). */
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
  bool along; /* channels change from element to element */
};

template <class C, int K>
__device__ __forceinline__ void numbers_of(const C *from, int64_t channel, bool along, C (&x)[K]) {
#pragma unroll
  for (int k = 0; k < K; k++) x[k] = from ? from[along ? channel + k : channel] : 0;
}

/* K elements at a time. The loop's operands are the elements of `out`, and channels, a
** byte each, from the same address on. */
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

/* The loop over (outer, channels, inner). */
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
