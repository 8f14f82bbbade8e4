/*
** line_reduce.cuh - reductions with any operator, in one pass over memory. A line consists of the
** elements that are reduced to one result. "Rows" are lines whose elements are contiguous and are
** read 16 bytes at a time; "columns" are lines that are adjacent to one another. If there are few
** long lines, they are cut into segments, and a second kernel combines the accumulators of the
** segments. Where lines are cut depends only on the sizes and the device.
**
** An operator is a struct that is passed to the kernel:
**
**   C, A, inputs   the type elements are read as, the accumulator, and the number of
**                  arrays, of one dtype, whose elements are read together
**   blocks         the smallest number of blocks that a multiprocessor must hold
**   A start()
**   void add(A &acc, const C (&x)[inputs][K], line, at, step)
**                  adds K elements of a line, at positions at, at + step ...
**   A join(a, b)   associative and commutative
**   void store(line, acc)
*/
#ifndef TLK_CUDA_LINE_REDUCE_CUH
#define TLK_CUDA_LINE_REDUCE_CUH

#include "kernels/cuda/cuda.cuh"

#define LINE_THREADS 256
/* The number of blocks that a multiprocessor runs at the same time. With four blocks, each thread
** has 64 registers, which is enough for many loads at the same time. A large accumulator needs more
** registers. */
#define LINE_BLOCKS(A) (sizeof(A) > 16 ? 2 : 4)

/* ---- elements by dtype ------------------------------------------------------------------ */

/* The stored types that a kernel with compute type C can load as vectors. Elements of other types
** are loaded one by one. with(dtype, run) calls run(S()), and returns false for other types. */
template <class C> struct Natural;
#define NATURAL_CASE(name, S) \
  case TL_##name:             \
    run(S());                 \
    return true;
#define NATURAL(C, CASES)                                                                  \
  template <> struct Natural<C> {                                                          \
    template <class Run> __device__ __forceinline__ static bool with(int dtype, Run run) { \
      switch (dtype == TL_BOOL ? TL_U8 : dtype) {                                          \
        CASES(NATURAL_CASE)                                                                \
      default: return false;                                                               \
      }                                                                                    \
    }                                                                                      \
    static bool has(int dtype) {                                                           \
      bool known = false;                                                                  \
      if (dtype == TL_BOOL) dtype = TL_U8;                                                 \
      CASES(NATURAL_HAS)                                                                   \
      return known;                                                                        \
    }                                                                                      \
  };
#define NATURAL_HAS(name, S) known = known || dtype == TL_##name;
#define NATURAL_F32(X) X(F32, float) X(F16, f16) X(BF16, bf16)
#define NATURAL_F64(X) X(F64, double) X(F32, float)
#define NATURAL_I32(X) X(I32, int32_t) X(I8, int8_t) X(U8, uint8_t)
#define NATURAL_I64(X) X(I64, int64_t) X(I32, int32_t) X(U8, uint8_t)
NATURAL(float, NATURAL_F32)
NATURAL(double, NATURAL_F64)
NATURAL(int32_t, NATURAL_I32)
NATURAL(int64_t, NATURAL_I64)

/* Loads a vector of N adjacent elements. `from` must be aligned to the size of the vector or, if
** that is larger than 16 bytes, to 16 bytes. */
template <class C, class S, int N>
__device__ __forceinline__ void load_vector(const S *from, C (&x)[N]) {
  enum { W = sizeof(S) * N < 16 ? N : 16 / sizeof(S) };
#pragma unroll
  for (int i = 0; i < N; i += W) {
    Vector<S, W> v = *reinterpret_cast<const Vector<S, W> *>(from + i);
#pragma unroll
    for (int e = 0; e < W; e++) x[i + e] = (C)widen(v.at[e]);
  }
}

/* Loads K elements from `from` on; loads them as vectors if `from` is aligned. */
template <class C, class S, int K>
__device__ __forceinline__ void load_some(const S *from, C (&x)[K]) {
  enum { bytes = sizeof(S) * K < 16 ? sizeof(S) * K : 16 };
  if (K > 1 && reinterpret_cast<uintptr_t>(from) % bytes == 0) {
    load_vector(from, x);
  } else {
#pragma unroll
    for (int k = 0; k < K; k++) x[k] = (C)widen(from[k]);
  }
}

/* Returns the sum of K numbers as a double, added pairwise. */
template <class C, int K> __device__ __forceinline__ double sum_of(C (&x)[K]) {
#pragma unroll
  for (int step = 1; step < K; step *= 2)
#pragma unroll
    for (int k = 0; k + step < K; k += 2 * step) x[k] += x[k + step];
  return (double)x[0];
}

/* ---- teams ---------------------------------------------------------------------------- */

/* Returns the smallest power of two that is at least n; returns `most` if that is smaller. */
static inline int power_above(int64_t n, int most) {
  int p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

/* Returns the number of threads in a team. This is the width of a warp if there are enough short
** lines to keep the device busy, because warps need not wait for one another; otherwise it is
** `team`. `vectors` is the number of vectors in a line. */
static inline int team_for(int64_t lines, int64_t vectors, int team, int64_t busy) {
  return team > WARP && vectors <= 16 * WARP && lines * WARP >= busy ? WARP : team;
}

/* Combines the values of each team, which consists of `width` neighbouring threads (a power of
** two), by an operation. Every thread gets the result of its own team. All threads of the block
** must call this function. `shared` has room for one value from each warp, and the caller may reuse
** it immediately. */
template <class T, class Op>
__device__ __forceinline__ T team_reduce(T x, int width, T *shared, Op op) {
#pragma unroll 1
  for (int mask = (width < WARP ? width : WARP) / 2; mask > 0; mask /= 2)
    x = op(x, shuffle_xor(x, mask));
  if (width <= WARP) return x;
  int warp = threadIdx.x / WARP, warps = width / WARP, first = warp / warps * warps;
  __syncthreads();
  if (threadIdx.x % WARP == 0) shared[warp] = x;
  __syncthreads();
  x = shared[first];
#pragma unroll 1
  for (int w = 1; w < warps; w++) x = op(x, shared[first + w]);
  return x;
}

/* ---- rows: the elements of a line are contiguous ---------------------------------------- */

template <int N> struct Source {
  const char *data[N];
  int dtype, bytes; /* the dtype of all arrays, and the number of bytes of an element */
};
static inline Source<1> source_of(const tlk_Array &a) {
  return Source<1>{{(const char *)a.data}, a.dtype, (int)dtype_bytes(a.dtype)};
}
static inline Source<2> source_of(const tlk_Array &a, const tlk_Array &b) {
  return Source<2>{
      {(const char *)a.data, (const char *)b.data}, a.dtype, (int)dtype_bytes(a.dtype)};
}

/* The array to which a reduction writes its results. */
struct Result {
  char *data;
  int dtype, bytes;

  template <class C> __device__ __forceinline__ void put(int64_t i, C x) const {
    store_here<C>(data + i * bytes, dtype, x);
  }
};
static inline Result result_of(const tlk_Array &a) {
  return Result{(char *)a.data, a.dtype, (int)dtype_bytes(a.dtype)};
}

/* A line consists of `runs` runs of n elements each. Each run is cut into `pieces` pieces of
** `piece` elements. A segment is `share` pieces, and a task is one segment of a line. `team`
** threads work on a piece, and `width` threads work on a task. Strides count elements. */
struct Rows {
  int64_t lines, runs, n, line_step, run_step;
  int64_t piece, pieces, share, segments;
  int team, width;
};

/* Adds n elements, from element `first` on, to the accumulator. The threads of a team share the
** work. */
template <class Op, class S>
__device__ __forceinline__ void add_run(const Op &op, typename Op::A &acc,
                                        const Source<Op::inputs> &in, int64_t first, int64_t n,
                                        int64_t line, int64_t at, int lane, int team) {
  typedef typename Op::C C;
  enum { N = Op::inputs, U = 16 / sizeof(S), W = sizeof(C) * U * N, K = W < 64 ? 64 / W : 1 };
  const S *p[N];
#pragma unroll
  for (int k = 0; k < N; k++) p[k] = reinterpret_cast<const S *>(in.data[k]) + first;
  uintptr_t apart = reinterpret_cast<uintptr_t>(p[0]) ^ reinterpret_cast<uintptr_t>(p[N - 1]);
  int64_t head = (0 - reinterpret_cast<uintptr_t>(p[0])) % 16 / sizeof(S);
  if (head > n || apart % 16 != 0) head = n;
  int64_t body = (n - head) / U, loose = n - body * U;
#pragma unroll 1
  for (int64_t i = lane; i < loose; i += team) {
    int64_t e = i < head ? i : i + body * U;
    C x[N][1];
#pragma unroll
    for (int k = 0; k < N; k++) x[k][0] = (C)widen(p[k][e]);
    op.add(acc, x, line, at + e, 1);
  }
  int64_t v = lane;
#pragma unroll 1
  for (; v + (K - 1) * team < body; v += K * team) {
    C x[K][N][U];
#pragma unroll
    for (int j = 0; j < K; j++)
#pragma unroll
      for (int k = 0; k < N; k++) load_vector(p[k] + head + (v + j * team) * U, x[j][k]);
#pragma unroll
    for (int j = 0; j < K; j++) op.add(acc, x[j], line, at + head + (v + j * team) * U, 1);
  }
#pragma unroll 1
  for (; v < body; v += team) {
    C x[N][U];
#pragma unroll
    for (int k = 0; k < N; k++) load_vector(p[k] + head + v * U, x[k]);
    op.add(acc, x, line, at + head + v * U, 1);
  }
}

/* Adds elements as add_run does, for dtypes that are not in Natural. */
template <class Op>
__device__ __forceinline__ void add_any(const Op &op, typename Op::A &acc,
                                        const Source<Op::inputs> &in, int64_t first, int64_t n,
                                        int64_t line, int64_t at, int lane, int team) {
#pragma unroll 1
  for (int64_t i = lane; i < n; i += team) {
    typename Op::C x[Op::inputs][1];
#pragma unroll
    for (int k = 0; k < Op::inputs; k++)
      x[k][0] = load_here<typename Op::C>(in.data[k] + (first + i) * in.bytes, in.dtype);
    op.add(acc, x, line, at + i, 1);
  }
}

template <class Op>
__device__ __forceinline__ typename Op::A add_pieces(const Op &op, const Source<Op::inputs> &in,
                                                     const Rows &g, int64_t line, int64_t segment) {
  typename Op::A acc = op.start();
  int inside = threadIdx.x & (g.width - 1), lane = inside & (g.team - 1);
  int64_t end = (segment + 1) * g.share, all = g.runs * g.pieces;
  if (end > all) end = all;
#pragma unroll 1
  for (int64_t q = segment * g.share + inside / g.team; q < end; q += g.width / g.team) {
    int64_t run = g.pieces == 1 ? q : q / g.pieces, from = (q - run * g.pieces) * g.piece;
    int64_t n = g.n - from < g.piece ? g.n - from : g.piece;
    int64_t first = line * g.line_step + run * g.run_step + from, at = run * g.n + from;
    if (!Natural<typename Op::C>::with(in.dtype, [&](auto s) {
          add_run<Op, decltype(s)>(op, acc, in, first, n, line, at, lane, g.team);
        }))
      add_any(op, acc, in, first, n, line, at, lane, g.team);
  }
  return acc;
}

/* Stores the accumulator of segment s of line l in partial[s * lines + l]. If `partial` is NULL,
** stores the line's result. */
template <class Op>
__global__ void __launch_bounds__(LINE_THREADS, Op::blocks)
    rows_kernel(Source<Op::inputs> in, Rows g, Op op, typename Op::A *partial) {
  typedef typename Op::A A;
  __shared__ A shared[LINE_THREADS / WARP];
  int64_t each = LINE_THREADS / g.width, segment = blockIdx.y;
#pragma unroll 1
  for (int64_t begin = blockIdx.x * each; begin < g.lines; begin += gridDim.x * each) {
    int64_t line = begin + threadIdx.x / g.width;
    bool valid = line < g.lines;
    A acc = valid ? add_pieces(op, in, g, line, segment) : op.start();
    acc = team_reduce(acc, g.width, shared, [&](const A &a, const A &b) { return op.join(a, b); });
    if (!valid || (threadIdx.x & (g.width - 1)) != 0) continue;
    if (partial)
      partial[segment * g.lines + line] = acc;
    else
      op.store(line, acc);
  }
}

/* ---- columns: neighbouring lines are adjacent in memory --------------------------------- */

/* The lines of an array (outer, n, inner), which run along n. Each thread processes V adjacent
** lines. `across` threads of a block cover neighbouring lines, and the other threads of the block
** split the elements of these lines. */
struct Columns {
  int64_t lines, n, inner;
  int64_t share, segments; /* `share` is the number of elements in a segment */
  int64_t strips;          /* number of blocks that cover all lines */
  int across;
};

template <class Op, class S, int V>
__device__ __forceinline__ void
add_columns(const Op &op, typename Op::A (&acc)[V], const Source<Op::inputs> &in, int64_t first,
            int64_t step, int64_t begin, int64_t end, int down, int64_t line) {
  typedef typename Op::C C;
  enum { N = Op::inputs, K = 4 / N };
  int64_t r = begin;
#pragma unroll 1
  for (; r + (K - 1) * down < end; r += K * down) {
    C x[K][N][V];
#pragma unroll
    for (int j = 0; j < K; j++)
#pragma unroll
      for (int k = 0; k < N; k++)
        load_vector(reinterpret_cast<const S *>(in.data[k]) + first + (r + j * down) * step,
                    x[j][k]);
#pragma unroll
    for (int v = 0; v < V; v++) {
      C y[N][K];
#pragma unroll
      for (int j = 0; j < K; j++)
#pragma unroll
        for (int k = 0; k < N; k++) y[k][j] = x[j][k][v];
      op.add(acc[v], y, line + v, r, down);
    }
  }
#pragma unroll 1
  for (; r < end; r += down) {
    C x[N][V];
#pragma unroll
    for (int k = 0; k < N; k++)
      load_vector(reinterpret_cast<const S *>(in.data[k]) + first + r * step, x[k]);
#pragma unroll
    for (int v = 0; v < V; v++) {
      C y[N][1];
#pragma unroll
      for (int k = 0; k < N; k++) y[k][0] = x[k][v];
      op.add(acc[v], y, line + v, r, down);
    }
  }
}

/* Combines the accumulators of the threads in each column of the block. The first row of threads
** gets the results. */
template <class Op>
__device__ __forceinline__ typename Op::A join_column(const Op &op, typename Op::A acc, int across,
                                                      typename Op::A *shared) {
  __syncthreads();
  shared[threadIdx.x] = acc;
#pragma unroll 1
  for (int half = LINE_THREADS / 2; half >= across; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half)
      shared[threadIdx.x] = op.join(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  return shared[threadIdx.x];
}

template <class Op, int V>
__global__ void __launch_bounds__(LINE_THREADS, Op::blocks)
    columns_kernel(Source<Op::inputs> in, Columns g, Op op, typename Op::A *partial) {
  typedef typename Op::A A;
  typedef typename Op::C C;
  __shared__ A shared[LINE_THREADS];
  int x = threadIdx.x & (g.across - 1), y = threadIdx.x / g.across, down = LINE_THREADS / g.across;
  int64_t segment = blockIdx.y;
#pragma unroll 1
  for (int64_t strip = blockIdx.x; strip < g.strips; strip += gridDim.x) {
    int64_t line = (strip * g.across + x) * V, outer = line / g.inner;
    int64_t first = outer * g.n * g.inner + (line - outer * g.inner);
    int64_t begin = segment * g.share + y, end = (segment + 1) * g.share;
    bool valid = line < g.lines;
    A acc[V];
#pragma unroll
    for (int v = 0; v < V; v++) acc[v] = op.start();
    if (end > g.n) end = g.n;
    if (valid && !Natural<C>::with(in.dtype, [&](auto s) {
          add_columns<Op, decltype(s), V>(op, acc, in, first, g.inner, begin, end, down, line);
        }))
#pragma unroll 1
      for (int64_t r = begin; r < end; r += down)
        add_any(op, acc[0], in, first + r * g.inner, 1, line, r, 0, 1);
#pragma unroll
    for (int v = 0; v < V; v++) {
      if (down > 1) acc[v] = join_column(op, acc[v], g.across, shared);
      if (!valid || y != 0) continue;
      if (partial)
        partial[segment * g.lines + line + v] = acc[v];
      else
        op.store(line + v, acc[v]);
    }
  }
}

/* ---- the second stage ------------------------------------------------------------------- */

/* Combines the accumulators of each line's segments to the line's result. `width` threads work on
** each line. */
template <class Op>
__global__ void __launch_bounds__(LINE_THREADS, Op::blocks)
    finish_kernel(int64_t lines, int64_t segments, int width, Op op,
                  const typename Op::A *partial) {
  typedef typename Op::A A;
  __shared__ A shared[LINE_THREADS / WARP];
  int64_t each = LINE_THREADS / width;
  int lane = threadIdx.x & (width - 1);
#pragma unroll 1
  for (int64_t begin = blockIdx.x * each; begin < lines; begin += gridDim.x * each) {
    int64_t line = begin + threadIdx.x / width;
    A acc = op.start();
    if (line < lines)
#pragma unroll 1
      for (int64_t s = lane; s < segments; s += width)
        acc = op.join(acc, partial[s * lines + line]);
    acc = team_reduce(acc, width, shared, [&](const A &a, const A &b) { return op.join(a, b); });
    if (line < lines && lane == 0) op.store(line, acc);
  }
}

/* ---- choosing a kernel ------------------------------------------------------------------- */

/* busy_threads returns the number of threads that keep the device busy. busy_blocks returns the
** number of blocks that together have this number of threads, if each block has LINE_THREADS
** threads. */
static inline int64_t busy_threads(const tlk_Context *cx) {
  return (int64_t)cuda_multiprocessors(cx->device.index) * 2048;
}
static inline int64_t busy_blocks(const tlk_Context *cx) { return busy_threads(cx) / LINE_THREADS; }

/* Returns the number of segments into which lines should be cut. `units` is the amount of work of
** each block. */
static inline int64_t segments_for(const tlk_Context *cx, int64_t blocks, int64_t units) {
  int64_t wanted = divide_up(busy_blocks(cx), blocks > 0 ? blocks : 1);
  int64_t segments = wanted < units ? wanted : units;
  return blocks >= busy_blocks(cx) / 2 || segments < 1 ? 1 : segments;
}

/* Runs `first(partial)`. If there are several segments, then runs a second kernel that combines
** them. */
template <class Op, class First>
static bool in_stages(const tlk_Context *cx, int64_t lines, int64_t segments, const Op &op,
                      First first) {
  typedef typename Op::A A;
  if (segments == 1) return first((A *)NULL);
  Scratch partial(cx, lines * segments * (int64_t)sizeof(A));
  int width = power_above(divide_up(segments, 4), LINE_THREADS);
  unsigned blocks = blocks_for(cx, lines, LINE_THREADS / width);
  return partial.data && first((A *)partial.data) &&
         launch(cx, finish_kernel<Op>, dim3(blocks), LINE_THREADS, 0, lines, segments, width, op,
                (const A *)partial.data);
}

/* Reduces lines that consist of `runs` runs of n elements. runs and n may be 0. */
template <class Op>
static bool reduce_rows(const tlk_Context *cx, const Source<Op::inputs> &in, Rows g, const Op &op) {
  /* number of elements that a block reads in one step */
  int64_t unit = 16 / in.bytes, step = unit * 4 * LINE_THREADS;
  if (g.runs == 0) g.runs = 1, g.n = 0;
  int64_t busy = busy_threads(cx);
  g.team = power_above(divide_up(g.n, unit * 4), LINE_THREADS);
  while (g.lines * g.team < busy && g.team * unit < g.n && g.team < LINE_THREADS) g.team *= 2;
  g.team = team_for(g.lines, g.n / unit, g.team, busy);
  g.width = g.team;
  while (g.width < LINE_THREADS && g.width < g.team * divide_up(g.runs, 4)) g.width *= 2;
  while (g.width < LINE_THREADS && g.lines * g.width < busy && g.width < g.team * g.runs)
    g.width *= 2;
  g.piece = g.n > 0 ? g.n : 1;
  g.pieces = g.segments = 1;
  int64_t blocks = divide_up(g.lines, LINE_THREADS / g.width);
  if (g.width == LINE_THREADS) g.segments = segments_for(cx, blocks, g.runs * g.n / step);
  if (g.segments > g.runs) {
    g.piece = divide_up(divide_up(g.n, divide_up(g.segments, g.runs)), 64) * 64;
    g.pieces = divide_up(g.n, g.piece);
  }
  g.share = divide_up(g.runs * g.pieces, g.segments);
  g.segments = g.share > 0 ? divide_up(g.runs * g.pieces, g.share) : 1;
  unsigned grid = blocks_for(cx, g.lines, LINE_THREADS / g.width, 64);
  return in_stages(cx, g.lines, g.segments, op, [&](typename Op::A *partial) {
    return launch(cx, rows_kernel<Op>, dim3(grid, (unsigned)g.segments), LINE_THREADS, 0, in, g, op,
                  partial);
  });
}

/* Returns whether all inputs (outer, n, inner) can be loaded in vectors of v elements. Their dtype
** must be in Natural, and they must be aligned. */
template <class Op> static bool columns_fit(const Source<Op::inputs> &in, int64_t inner, int v) {
  bool fit = inner % v == 0 && Natural<typename Op::C>::has(in.dtype);
  size_t bytes = (size_t)(in.bytes * v);
  for (int k = 0; k < Op::inputs; k++) fit = fit && aligned(in.data[k], bytes < 16 ? bytes : 16);
  return fit;
}

/* Reduces the lines of arrays (outer, n, inner), which run along n. */
template <class Op>
static bool reduce_columns(const tlk_Context *cx, const Source<Op::inputs> &in, int64_t outer,
                           int64_t n, int64_t inner, const Op &op) {
  enum { V = sizeof(typename Op::C) == 8 ? 2 : 4, K = 4 / Op::inputs };
  Columns g = {outer * inner, n, inner, n, 1, 0, 0};
  bool vectors = columns_fit<Op>(in, inner, V);
  /* number of threads that are needed to cover all adjacent lines */
  int64_t threads = vectors ? g.lines / V : g.lines;
  g.across = n <= 4 * K && threads >= LINE_THREADS ? LINE_THREADS : power_above(threads, WARP);
  g.strips = divide_up(threads, g.across);
  g.segments = segments_for(cx, g.strips, n / (LINE_THREADS / g.across * K));
  g.share = n > 0 ? divide_up(n, g.segments) : 1;
  g.segments = n > 0 ? divide_up(n, g.share) : 1;
  unsigned grid = blocks_for(cx, g.strips, 1, 64);
  auto kernel = vectors ? columns_kernel<Op, V> : columns_kernel<Op, 1>;
  return in_stages(cx, g.lines, g.segments, op, [&](typename Op::A *partial) {
    return launch(cx, kernel, dim3(grid, (unsigned)g.segments), LINE_THREADS, 0, in, g, op,
                  partial);
  });
}

/* Reduces arrays (outer, n, inner) along n, whatever the sizes of the dimensions are. */
template <class Op>
static bool reduce_lines(const tlk_Context *cx, const Source<Op::inputs> &in, int64_t outer,
                         int64_t n, int64_t inner, const Op &op) {
  if (outer == 0 || inner == 0) return true;
  if (inner > 1) return reduce_columns(cx, in, outer, n, inner, op);
  Rows g = {};
  g.lines = outer;
  g.runs = 1;
  g.n = g.line_step = n;
  return reduce_rows(cx, in, g, op);
}

#endif
