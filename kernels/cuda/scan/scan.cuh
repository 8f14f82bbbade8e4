/*
** scan.cuh - scans (running reductions) along lines. If there are few long lines, they are cut into
** segments. Then a first kernel computes the total of each segment, a second kernel combines the
** totals before each segment, and a third kernel computes the elements.
*/
#ifndef TLK_CUDA_SCAN_CUH
#define TLK_CUDA_SCAN_CUH

#include "kernels/cuda/line_reduce.cuh"
#include "kernels/cuda/scan/scan.h"

#define SCAN_THREADS 256
#define SCAN_EACH 8 /* number of elements that a thread loads at a time */

/* An accumulator. In scans that pick an element, `at` is the element's position, counted from 1; it
** is 0 if there is none. */
template <class A, bool picking> struct Running { A value; };
template <class A> struct Running<A, true> {
  A value;
  int64_t at;
};

/* The lines of an array (outer, n, inner). If inner is 1, a team of `team` threads shares each
** line. */
struct Scanned {
  const char *in;
  int in_dtype, in_bytes;
  Result out;
  int64_t *indices;
  int64_t lines, n, inner, share, segments;
  int team;
};

/* The operations of a scan. F is the struct of a scan of math.h. */
template <class F> struct Scan {
  typedef typename F::T C;
  typedef Running<typename F::A, F::picking> A;

  __device__ __forceinline__ static A start() {
    A a = {};
    a.value = F::first();
    return a;
  }
  /* Adds the next element, x, to the accumulator a. */
  __device__ __forceinline__ static void next(A &a, C x, int64_t at) {
    if constexpr (F::picking)
      if (F::picks(a.value, x)) a.at = at;
    a.value = F::next(a.value, x);
  }
  /* Combines the accumulators of two adjacent ranges. The range of a comes before the range of
  ** b. */
  __device__ __forceinline__ static A join(const A &a, const A &b) {
    A c = a;
    if constexpr (F::picking) {
      if (b.at == 0) return a;
      if (F::picks(a.value, b.value)) c.at = b.at;
    }
    c.value = F::join(a.value, b.value);
    return c;
  }
};

/* Returns the value of x in the lane that is `step` lanes before the calling one. The first `step`
** lanes get their own value. */
template <class T> __device__ __forceinline__ T shuffle_up(T x, int step) {
  static_assert(sizeof(T) % 4 == 0, "words");
  int words[sizeof(T) / 4];
  memcpy(words, &x, sizeof x);
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / 4; i++) words[i] = __shfl_up_sync(ALL_LANES, words[i], step);
  memcpy(&x, words, sizeof x);
  return x;
}

/* Returns the combined accumulators of the threads before this one in its team, and the total of
** the team. A team is a warp or the whole block. The caller may reuse `shared` immediately. */
template <class F>
__device__ __forceinline__ typename Scan<F>::A team_before(typename Scan<F>::A x, int team,
                                                           typename Scan<F>::A *shared,
                                                           typename Scan<F>::A *total) {
  typedef typename Scan<F>::A A;
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
  for (int step = 1; step < WARP; step *= 2) {
    A other = shuffle_up(x, step);
    if (lane >= step) x = Scan<F>::join(other, x);
  }
  A before = shuffle_up(x, 1), start = Scan<F>::start();
  if (lane == 0) before = start;
  __syncthreads();
  if (lane == WARP - 1) shared[warp] = x;
  __syncthreads();
  *total = team == WARP ? shared[warp] : shared[0];
  if (team == WARP) return before;
  A sum = start;
  for (int w = 0; w < SCAN_THREADS / WARP; w++) {
    if (w == warp) before = lane == 0 ? sum : Scan<F>::join(sum, before);
    sum = w == 0 ? shared[0] : Scan<F>::join(sum, shared[w]);
  }
  *total = sum;
  return before;
}

/* Loads SCAN_EACH elements from `i` on, of which only `count` are in the line. */
template <class C>
__device__ __forceinline__ void read_some(const Scanned &g, int64_t i, int count,
                                          C (&x)[SCAN_EACH]) {
  if (count == SCAN_EACH && Natural<C>::with(g.in_dtype, [&](auto s) {
        load_some(reinterpret_cast<const decltype(s) *>(g.in) + i, x);
      }))
    return;
#pragma unroll
  for (int k = 0; k < SCAN_EACH; k++)
    if (k < count) x[k] = load_any<C>(g.in + (i + k) * g.in_bytes, g.in_dtype);
}

template <class C>
__device__ __forceinline__ void write_some(const Scanned &g, int64_t i, int count,
                                           const C (&y)[SCAN_EACH]) {
  char *to = g.out.data + i * g.out.bytes;
  if (count == SCAN_EACH && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    store_vector(to, g.out.dtype, y);
    return;
  }
#pragma unroll
  for (int k = 0; k < SCAN_EACH; k++)
    if (k < count) store_any(to + k * g.out.bytes, g.out.dtype, y[k]);
}

/* Scans elements `begin` to `end` of a line. In each iteration, the threads of the team process one
** tile. Returns the total. If `totals_only`, stores no elements. */
template <class F>
__device__ __forceinline__ typename Scan<F>::A
scan_row(const Scanned &g, int64_t line, int64_t begin, int64_t end, typename Scan<F>::A carry,
         bool totals_only, typename Scan<F>::A *shared) {
  typedef typename F::T C;
  typedef typename Scan<F>::A A;
  int lane = threadIdx.x & (g.team - 1);
  for (int64_t tile = begin; tile < end; tile += g.team * SCAN_EACH) {
    int64_t at = tile + lane * SCAN_EACH, left = end - at;
    int count = left < 0 ? 0 : left < SCAN_EACH ? (int)left : SCAN_EACH;
    C x[SCAN_EACH];
    A own = Scan<F>::start(), total;
    if (line < g.lines) read_some(g, line * g.n + at, count, x);
#pragma unroll
    for (int k = 0; k < SCAN_EACH; k++)
      if (k < count && line < g.lines) Scan<F>::next(own, x[k], at + k + 1);
    A before = team_before<F>(own, g.team, shared, &total);
    before = Scan<F>::join(carry, before);
    carry = Scan<F>::join(carry, total);
    if (totals_only || line >= g.lines) continue;
#pragma unroll
    for (int k = 0; k < SCAN_EACH; k++) {
      if (k >= count) break;
      Scan<F>::next(before, x[k], at + k + 1);
      x[k] = (C)before.value;
      if constexpr (F::picking)
        if (g.indices) g.indices[line * g.n + at + k] = before.at;
    }
    write_some(g, line * g.n + at, count, x);
  }
  return carry;
}

/* Scans segments of lines. `before` has, for each (segment, line), the total of the segments before
** it. If `totals_only`, the kernel writes the segment's own total to `before` instead. `before` is
** NULL if there is only one segment. */
template <class F>
__global__ void __launch_bounds__(SCAN_THREADS, 2)
    scan_rows_kernel(const __grid_constant__ Scanned g, bool totals_only,
                     typename Scan<F>::A *before) {
  typedef typename Scan<F>::A A;
  __shared__ A shared[SCAN_THREADS / WARP];
  int64_t each = SCAN_THREADS / g.team, segment = blockIdx.y;
  int64_t begin = segment * g.share, end = begin + g.share < g.n ? begin + g.share : g.n;
  for (int64_t first = blockIdx.x * each; first < g.lines; first += gridDim.x * each) {
    int64_t line = first + threadIdx.x / g.team;
    A carry = Scan<F>::start();
    if (before && !totals_only && line < g.lines) carry = before[segment * g.lines + line];
    carry = scan_row<F>(g, line, begin, end, carry, totals_only, shared);
    if (totals_only && line < g.lines && (threadIdx.x & (g.team - 1)) == 0)
      before[segment * g.lines + line] = carry;
  }
}

/* Scans lines with one thread for each line. */
template <class F>
__global__ void __launch_bounds__(SCAN_THREADS, 3)
    scan_columns_kernel(const __grid_constant__ Scanned g, bool totals_only,
                        typename Scan<F>::A *before) {
  typedef typename F::T C;
  typedef typename Scan<F>::A A;
  enum { K = 4 }; /* number of elements that a thread loads at a time */
  int64_t segment = blockIdx.y, begin = segment * g.share, end = begin + g.share;
  if (end > g.n) end = g.n;
  for (int64_t line = thread_index(); line < g.lines; line += (int64_t)gridDim.x * blockDim.x) {
    int64_t outer = line / g.inner, first = outer * g.n * g.inner + (line - outer * g.inner);
    A a = before && !totals_only ? before[segment * g.lines + line] : Scan<F>::start();
    for (int64_t r = begin; r < end; r += K) {
      C x[K];
#pragma unroll
      for (int k = 0; k < K; k++)
        if (r + k < end)
          x[k] = load_here<C>(g.in + (first + (r + k) * g.inner) * g.in_bytes, g.in_dtype);
#pragma unroll
      for (int k = 0; k < K; k++) {
        if (r + k >= end) break;
        Scan<F>::next(a, x[k], r + k + 1);
        int64_t to = first + (r + k) * g.inner;
        if (!totals_only) g.out.put(to, (C)a.value);
        if constexpr (F::picking)
          if (g.indices && !totals_only) g.indices[to] = a.at;
      }
    }
    if (totals_only) before[segment * g.lines + line] = a;
  }
}

/* Replaces the totals of the segments by the totals of all segments before each. Each line is
** processed by one block. */
template <class F>
__global__ void __launch_bounds__(SCAN_THREADS, 2)
    before_kernel(int64_t lines, int64_t segments, typename Scan<F>::A *values) {
  typedef typename Scan<F>::A A;
  __shared__ A shared[SCAN_THREADS / WARP];
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    A carry = Scan<F>::start();
    for (int64_t tile = 0; tile < segments; tile += SCAN_THREADS) {
      int64_t s = tile + threadIdx.x;
      A own = s < segments ? values[s * lines + line] : Scan<F>::start(), total;
      A own_before = team_before<F>(own, SCAN_THREADS, shared, &total);
      if (s < segments) values[s * lines + line] = Scan<F>::join(carry, own_before);
      carry = Scan<F>::join(carry, total);
    }
  }
}

#define FEW_ELEMENTS 16 /* a line of up to this many elements is scanned by one thread */

template <class F> static bool run_scan(const struct tlk_scan *call) {
  typedef typename Scan<F>::A A;
  const tlk_Context *cx = call->cx;
  int64_t lines = call->outer * call->inner;
  Scanned g = {(const char *)call->in.data,
               call->in.dtype,
               (int)dtype_bytes(call->in.dtype),
               result_of(call->out),
               call->indices,
               lines,
               call->n,
               call->inner,
               call->n,
               1,
               WARP};
  bool rows = call->inner == 1 && call->n > FEW_ELEMENTS;
  if (rows && (call->n > 1024 || lines * WARP < busy_threads(cx))) g.team = SCAN_THREADS;
  int64_t each = rows ? SCAN_THREADS / g.team : SCAN_THREADS;
  /* a segment has at least this number of elements; in rows, this gives each thread SCAN_EACH
  ** elements */
  int64_t unit = rows ? SCAN_THREADS * SCAN_EACH : 64;
  g.segments = segments_for(cx, divide_up(lines, each), call->n / unit);
  g.share = divide_up(divide_up(call->n, g.segments), SCAN_EACH) * SCAN_EACH;
  g.segments = divide_up(call->n, g.share);
  dim3 grid(blocks_for(cx, lines, each, 64), (unsigned)g.segments);
  auto kernel = rows ? scan_rows_kernel<F> : scan_columns_kernel<F>;
  if (g.segments == 1) return launch(cx, kernel, grid, SCAN_THREADS, 0, g, false, (A *)NULL);
  Scratch before(cx, g.segments * lines * (int64_t)sizeof(A));
  A *values = (A *)before.data;
  return values && launch(cx, kernel, grid, SCAN_THREADS, 0, g, true, values) &&
         launch(cx, before_kernel<F>, dim3(blocks_for(cx, lines, 1, 64)), SCAN_THREADS, 0, lines,
                g.segments, values) &&
         launch(cx, kernel, grid, SCAN_THREADS, 0, g, false, values);
}

/* ---- scans of math.h as types -------------------------------------------------------------- */

/* Macros that tell whether a scan also returns positions. */
#define SCAN_PICKS_cumsum false
#define SCAN_PICKS_cumprod false
#define SCAN_PICKS_logcumsumexp false
#define SCAN_PICKS_cummax true
#define SCAN_PICKS_cummin true

#define SCAN_MEMBER __device__ __forceinline__ static
/* Combines the accumulators of two ranges with the scan's step function, in the accumulator's
** type. */
#define SCAN_JOIN(name, s, type)                                                  \
  SCAN_MEMBER type join(type a, type b) { return tlm_##name##_##s##_next(a, b); } \
  SCAN_MEMBER bool picks(type a, type b) { return tlm_##name##_##s##_picks(a, b); }
#define SCAN_F(name, s, joins)                                             \
  struct name##_##s {                                                      \
    typedef tlm_##name##_##s##_T T;                                        \
    typedef tlm_##name##_##s##_state A;                                    \
    enum { picking = SCAN_PICKS_##name };                                  \
    SCAN_MEMBER A first() { return tlm_##name##_##s##_first(); }           \
    SCAN_MEMBER A next(A a, T x) { return tlm_##name##_##s##_next(a, x); } \
    joins                                                                  \
  };

#endif
