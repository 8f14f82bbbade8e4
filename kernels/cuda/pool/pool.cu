/*
** pool.cu - pooling. Each thread computes one window, or one element of the gradient.
*/
#include "kernels/cuda/pool/windows.cuh"

namespace {

/* ---- positions of windows ---- */

/* The positions that window o covers along dimension d: begin, begin + step ... up to but not
** including end. An average is divided by `covered`. I is int32_t if all positions in a plane and
** its padding fit into it. */
template <class I> struct Span { I begin, end, covered; };

template <class I> __device__ __forceinline__ I above(I a, I b) { return (a + b - 1) / b; }

template <class I> __device__ __forceinline__ Span<I> span_of(const tlk_Pool &p, int d, I o) {
  const tlk_Windows &w = p.windows;
  I in = (I)w.in[d], step = (I)w.dilation[d];
  if (p.adaptive) {
    int64_t begin = o * w.in[d] / w.out[d], end = above((o + 1) * w.in[d], w.out[d]);
    return Span<I>{(I)begin, (I)end, (I)(end - begin)};
  }
  I from = o * (I)w.stride[d] - (I)w.padding[d], far = in + (I)w.padding[d];
  I to = from + step * ((I)w.kernel[d] - 1) + 1;
  I skipped = from < 0 ? step == 1 ? -from : above(-from, step) : 0;
  Span<I> s = {from + skipped * step, to < in ? to : in, 0};
  /* positions in the padding are counted, but positions beyond the padding are not */
  s.covered = p.include_pad ? (to < far ? to : far) - from : s.end - s.begin;
  return s;
}

/* Returns whether all positions in a plane and its padding fit into 32 bits. */
bool is_small(const tlk_Pool &p) {
  const tlk_Windows &w = p.windows;
  int64_t in = 1, out = 1;
  for (int d = 0; d < 3; d++) {
    in *= w.in[d] + 2 * w.padding[d] + w.dilation[d] * w.kernel[d] + w.stride[d];
    out *= w.out[d];
    if (in > INT32_MAX / 8 || out > INT32_MAX) return false;
  }
  return true;
}

/* ---- maxima ---- */

template <class T> struct Lowest;
template <> struct Lowest<float> {
  DEVICE float of() { return -INFINITY; }
};
template <> struct Lowest<double> {
  DEVICE double of() { return -INFINITY; }
};
template <> struct Lowest<int32_t> {
  DEVICE int32_t of() { return INT32_MIN; }
};
template <> struct Lowest<int64_t> {
  DEVICE int64_t of() { return INT64_MIN; }
};

/* Returns the maximum in a window, and sets *at to its index in the plane. If several elements are
** the maximum, the first is taken. If elements are NaN, the last NaN is taken. */
template <class C, class I, class Load>
__device__ __forceinline__ C largest(const I (&in)[3], const Span<I> (&s)[3], const I (&step)[3],
                                     I *at, Load load) {
  C most = Lowest<C>::of();
  bool none = true;
  *at = 0;
  for (I i = s[0].begin; i < s[0].end; i += step[0])
    for (I j = s[1].begin; j < s[1].end; j += step[1])
      for (I k = s[2].begin; k < s[2].end; k += step[2]) {
        I place = (i * in[1] + j) * in[2] + k;
        C x = load(place);
        if (!(none || x > most || x != x)) continue;
        most = x;
        *at = place;
        none = false;
      }
  return most;
}

template <class C, class I>
__global__ void __launch_bounds__(WINDOW_THREADS, 3)
    max_kernel(const __grid_constant__ tlk_Pool p, const __grid_constant__ Places places,
               int64_t all, Source<1> in, Result out, int64_t *indices) {
  const tlk_Windows &w = p.windows;
  int64_t size = w.in[0] * w.in[1] * w.in[2];
  I step[3] = {1, 1, 1}, sizes[3] = {(I)w.in[0], (I)w.in[1], (I)w.in[2]};
  for (int d = 0; d < 3 && !p.adaptive; d++) step[d] = (I)w.dilation[d];
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    int64_t o[3], plane = places.of(e, o);
    Span<I> s[3] = {span_of(p, 0, (I)o[0]), span_of(p, 1, (I)o[1]), span_of(p, 2, (I)o[2])};
    C most = 0;
    I at;
    if (!Natural<C>::with(in.dtype, [&](auto stored) {
          auto x = reinterpret_cast<const decltype(stored) *>(in.data[0]) + plane * size;
          most = largest<C>(sizes, s, step, &at, [&](I i) { return (C)widen(x[i]); });
        }))
      most = largest<C>(sizes, s, step, &at, [&](I i) {
        return load_here<C>(in.data[0] + (plane * size + i) * in.bytes, in.dtype);
      });
    out.put(e, most);
    if (indices) indices[e] = (int64_t)at + 1;
  }
}

template <class C> bool run_max(const struct tlk_max_pool *call) {
  int64_t all = call->pool.planes * product(call->pool.windows.out);
  unsigned grid = blocks_for(call->cx, all, WINDOW_THREADS, 16);
  auto kernel = is_small(call->pool) ? max_kernel<C, int32_t> : max_kernel<C, int64_t>;
  return launch(call->cx, kernel, dim3(grid), WINDOW_THREADS, 0, call->pool,
                places_of(call->pool.windows.out, all), all, source_of(call->in),
                result_of(call->out), call->indices);
}

/* ---- averages ---- */

/* Computes 1 / n for the number n of elements of a window. Keeps the result for the next call,
** because most windows have equally many elements. */
struct Share {
  int64_t n;
  double value;

  __device__ __forceinline__ double of(int64_t count) {
    if (count != n) value = 1 / (double)count;
    n = count;
    return value;
  }
};

template <class S, class C, class I>
__global__ void __launch_bounds__(WINDOW_THREADS, 3)
    average_kernel(const __grid_constant__ tlk_Pool p, const __grid_constant__ Places places,
                   int64_t all, const S *in, S *out) {
  const tlk_Windows &w = p.windows;
  int64_t size = w.in[0] * w.in[1] * w.in[2];
  Share share = {0, 0};
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    int64_t o[3], plane = places.of(e, o);
    Span<I> s[3] = {span_of(p, 0, (I)o[0]), span_of(p, 1, (I)o[1]), span_of(p, 2, (I)o[2])};
    const S *x = in + plane * size;
    double total = 0;
    for (I i = s[0].begin; i < s[0].end; i++)
      for (I j = s[1].begin; j < s[1].end; j++) {
        I line = (i * (I)w.in[1] + j) * (I)w.in[2];
        C sum = 0;
        for (I k = s[2].begin; k < s[2].end; k++) sum += (C)widen(x[line + k]);
        total += (double)sum;
      }
    int64_t n = p.divisor ? p.divisor : (int64_t)s[0].covered * s[1].covered * s[2].covered;
    out[e] = narrow<S>((C)(total * share.of(n)));
  }
}

/* Returns the windows that contain an element along dimension d. */
DEVICE Span<int64_t> windows_of(const tlk_Pool &p, int d, int64_t i) {
  const tlk_Windows &w = p.windows;
  typedef Span<int64_t> Span;
  if (p.adaptive) return Span{i * w.out[d] / w.in[d], above((i + 1) * w.out[d], w.in[d]), 0};
  int64_t near = i + w.padding[d] - w.kernel[d] + 1, far = (i + w.padding[d]) / w.stride[d] + 1;
  return Span{near > 0 ? above(near, w.stride[d]) : 0, far < w.out[d] ? far : w.out[d], 0};
}

template <class S, class C>
__global__ void __launch_bounds__(WINDOW_THREADS, 3)
    spread_kernel(const __grid_constant__ tlk_Pool p, const __grid_constant__ Places places,
                  int64_t all, const S *grad, S *out) {
  const tlk_Windows &w = p.windows;
  int64_t size = w.out[0] * w.out[1] * w.out[2];
  Share share = {0, 0};
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    int64_t i[3], plane = places.of(e, i);
    Span<int64_t> s[3] = {windows_of(p, 0, i[0]), windows_of(p, 1, i[1]), windows_of(p, 2, i[2])};
    C sum = 0;
    for (int64_t a = s[0].begin; a < s[0].end; a++)
      for (int64_t b = s[1].begin; b < s[1].end; b++)
        for (int64_t c = s[2].begin; c < s[2].end; c++) {
          int64_t n = p.divisor;
          if (n == 0)
            n = span_of(p, 0, a).covered * span_of(p, 1, b).covered * span_of(p, 2, c).covered;
          C g = (C)widen(grad[plane * size + (a * w.out[1] + b) * w.out[2] + c]);
          sum += (C)((double)g * share.of(n));
        }
    out[e] = narrow<S>(sum);
  }
}

/* Computes the average of a whole plane, for global average pooling, which reduces each plane as
** one row. */
template <class T> struct WholePlane {
  typedef T C;
  typedef double A;
  enum { inputs = 1, blocks = LINE_BLOCKS(A) };
  Result out;
  double share;

  __device__ __forceinline__ A start() const { return 0; }
  template <int K>
  __device__ __forceinline__ void add(A &acc, const T (&x)[1][K], int64_t, int64_t, int64_t) const {
    T y[K];
#pragma unroll
    for (int k = 0; k < K; k++) y[k] = x[0][k];
    acc += sum_of(y);
  }
  __device__ __forceinline__ A join(const A &a, const A &b) const { return a + b; }
  __device__ __forceinline__ void store(int64_t line, const A &acc) const {
    out.put(line, (T)(acc * share));
  }
};

bool is_whole(const tlk_Pool &p) {
  const tlk_Windows &w = p.windows;
  bool whole = product(w.out) == 1 && product(w.in) > 0;
  for (int d = 0; d < 3; d++)
    whole = whole && (p.adaptive || (w.padding[d] == 0 && w.kernel[d] == w.in[d]));
  return whole;
}

template <class T> bool run_whole(const struct tlk_avg_pool *call) {
  const tlk_Pool &p = call->pool;
  int64_t n = product(p.windows.in);
  WholePlane<T> op = {result_of(call->out), 1 / (double)(p.divisor ? p.divisor : n)};
  return reduce_lines(call->cx, source_of(call->in), p.planes, n, 1, op);
}

template <class S> bool run_average(const struct tlk_avg_pool *call) {
  int64_t all = call->pool.planes * product(call->pool.windows.out);
  unsigned grid = blocks_for(call->cx, all, WINDOW_THREADS, 16);
  typedef decltype(widen(S())) C;
  auto kernel =
      is_small(call->pool) ? average_kernel<S, C, int32_t> : average_kernel<S, C, int64_t>;
  return launch(call->cx, kernel, dim3(grid), WINDOW_THREADS, 0, call->pool,
                places_of(call->pool.windows.out, all), all, (const S *)call->in.data,
                (S *)call->out.data);
}

template <class S> bool run_spread(const struct tlk_avg_pool_backward *call) {
  int64_t all = call->pool.planes * product(call->pool.windows.in);
  unsigned grid = blocks_for(call->cx, all, WINDOW_THREADS, 16);
  return launch(call->cx, spread_kernel<S, decltype(widen(S()))>, dim3(grid), WINDOW_THREADS, 0,
                call->pool, places_of(call->pool.windows.in, all), all,
                (const S *)call->grad_out.data, (S *)call->grad_in.data);
}

} // namespace

bool tlk_max_pool(const struct tlk_max_pool *call) {
  switch (call->in.dtype) {
  case TL_F32:
  case TL_F16:
  case TL_BF16: return run_max<float>(call);
  case TL_F64: return run_max<double>(call);
  case TL_I64: return run_max<int64_t>(call);
  default: return run_max<int32_t>(call);
  }
}

bool tlk_avg_pool(const struct tlk_avg_pool *call) {
  if (is_whole(call->pool))
    return call->in.dtype == TL_F64 ? run_whole<double>(call) : run_whole<float>(call);
  WITH_FLOATING(call->in.dtype, S, return run_average<S>(call))
  return false;
}

bool tlk_avg_pool_backward(const struct tlk_avg_pool_backward *call) {
  WITH_FLOATING(call->grad_in.dtype, S, return run_spread<S>(call))
  return false;
}
