/*
** walk.cuh - kernels that visit each line of elements several times but read it from global memory
** only once. Each thread keeps its elements in shared memory, in slots that no other thread uses.
** Elements of lines that do not fit are read from global memory again.
**
** An algorithm is a struct that is passed to the kernel. Its member `inputs` is the number of input
** arrays, which share one dtype; `twice` is true if it calls `again`; and it has the function
**
**   void run(Walker &w, line)
**
** All threads of a line together may call these members in `run`:
**
**   w.read(f), w.again(f)   call f(x, at) for the thread's elements, on the first and on later
**                           visits; C x[inputs][K] holds K elements from position `at` on
**   w.put(at, y)            stores K elements of the result at a position that f was given
**   w.join(x, op)           reduces x over all threads of the line; every thread gets the result
**   w.n                     the number of elements of the line
**   w.valid, w.first()      whether the line exists, and whether this is its first thread
*/
#ifndef TLK_CUDA_WALK_CUH
#define TLK_CUDA_WALK_CUH

#include "kernels/cuda/line_reduce.cuh"

#define WALK_THREADS 512 /* largest number of threads in a block */
#define WALK_BLOCK 128   /* size of a block if so few threads are enough */

/* The lines of an array (outer, n, inner), which run along n. If inner is 1, a team of threads
** shares each line. Otherwise `team` threads of a block cover neighbouring lines, and the other
** threads of the block split the elements of these lines. Each thread keeps `slots` vectors, or
** elements if inner is not 1, in shared memory; 0 means none. */
template <int N> struct Walk {
  const char *from[N];
  char *to; /* the output; it has the dtype of the inputs and may be one of them */
  int64_t outer, n, inner;
  int team, slots;
};

template <class S> struct Wide { typedef decltype(widen(S())) type; };

/* Returns e^x as precisely as the stored type requires. */
DEVICE float exp_as(float x, float) { return exp(x); }
static __device__ __noinline__ double exp_as(double x, double) { return exp(x); }
DEVICE float exp_as(float x, f16) { return __expf(x); }
DEVICE float exp_as(float x, bf16) { return __expf(x); }

struct Add {
  template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
/* Returns the larger of two numbers, or a if b is NaN. */
struct Larger {
  template <class T> __device__ __forceinline__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

/* ---- rows: the elements of a line are contiguous --------------------------------------- */

template <class S, int N> struct RowWalker {
  typedef S Stored;
  typedef typename Wide<S>::type C;
  enum { U = 16 / sizeof(S), K = N == 1 ? 4 : 2 };
  const S *from[N];
  S *to;
  /* head: elements before the first aligned vector; body: number of vectors */
  int64_t n, head, body;
  bool valid;
  int lane, team;
  Vector<S, U> *stash; /* this thread's slots in shared memory; NULL if there are none */
  double *shared;

  __device__ __forceinline__ RowWalker(const Walk<N> &g, int64_t line, bool given, void *memory,
                                       double *numbers)
      : n(given ? g.n : 0), valid(given), lane(threadIdx.x & (g.team - 1)), team(g.team),
        stash(g.slots ? static_cast<Vector<S, U> *>(memory) + threadIdx.x : NULL), shared(numbers) {
    to = reinterpret_cast<S *>(g.to) + line * g.n;
    uintptr_t apart = 0;
#pragma unroll
    for (int k = 0; k < N; k++) {
      from[k] = reinterpret_cast<const S *>(g.from[k]) + line * g.n;
      apart |= reinterpret_cast<uintptr_t>(from[k]) ^ reinterpret_cast<uintptr_t>(to);
    }
    head = (0 - reinterpret_cast<uintptr_t>(to)) % 16 / sizeof(S);
    if (head > n || apart % 16 != 0) head = n;
    body = (n - head) / U;
  }

  __device__ __forceinline__ bool first() const { return lane == 0 && valid; }

  template <class F> __device__ __forceinline__ void loose(F f) {
    int64_t count = n - body * U;
#pragma unroll 1
    for (int64_t i = lane; i < count; i += team) {
      int64_t at = i < head ? i : i + body * U;
      C x[N][1];
#pragma unroll
      for (int k = 0; k < N; k++) x[k][0] = (C)widen(from[k][at]);
      f(x, at);
    }
  }
  __device__ __forceinline__ Vector<S, U> &slot(int64_t i, int k) {
    return stash[(i * N + k) * blockDim.x];
  }
  __device__ __forceinline__ Vector<S, U> fetch(int64_t v, int k) const {
    return *reinterpret_cast<const Vector<S, U> *>(from[k] + head + v * U);
  }
  template <class F>
  __device__ __forceinline__ void give(const Vector<S, U> (&raw)[N], int64_t v, F f) {
    C x[N][U];
#pragma unroll
    for (int k = 0; k < N; k++)
#pragma unroll
      for (int e = 0; e < U; e++) x[k][e] = (C)widen(raw[k].at[e]);
    f(x, head + v * U);
  }
  template <class F> __device__ __forceinline__ void read(F f) {
    int64_t v = lane, i = 0;
#pragma unroll 1
    for (; v < body; v += K * team, i += K) {
      Vector<S, U> raw[K][N];
#pragma unroll
      for (int j = 0; j < K; j++)
#pragma unroll
        for (int k = 0; k < N; k++)
          if (v + j * team < body) raw[j][k] = fetch(v + j * team, k);
#pragma unroll
      for (int j = 0; j < K; j++) {
        if (v + j * team >= body) break;
#pragma unroll
        for (int k = 0; k < N; k++)
          if (stash) slot(i + j, k) = raw[j][k];
        give(raw[j], v + j * team, f);
      }
    }
    loose(f);
  }
  template <class F> __device__ __forceinline__ void again(F f) {
    int64_t i = 0;
#pragma unroll 1
    for (int64_t v = lane; v < body; v += team, i++) {
      Vector<S, U> raw[N];
#pragma unroll
      for (int k = 0; k < N; k++) raw[k] = stash ? slot(i, k) : fetch(v, k);
      give(raw, v, f);
    }
    loose(f);
  }
  __device__ __forceinline__ void put(int64_t at, const C (&y)[1]) { to[at] = narrow<S>(y[0]); }
  __device__ __forceinline__ void put(int64_t at, const C (&y)[U]) {
    Vector<S, U> v;
#pragma unroll
    for (int e = 0; e < U; e++) v.at[e] = narrow<S>(y[e]);
    *reinterpret_cast<Vector<S, U> *>(to + at) = v;
  }
  template <class T, class Op> __device__ __forceinline__ T join(T x, Op op) {
    return team_reduce(x, team, reinterpret_cast<T *>(shared), op);
  }
};

template <class S, class Algorithm>
__global__ void __launch_bounds__(WALK_THREADS, 1)
    walk_rows(const __grid_constant__ Walk<Algorithm::inputs> g,
              const __grid_constant__ Algorithm algorithm) {
  __shared__ double shared[WALK_THREADS / WARP];
  int64_t each = blockDim.x / g.team;
#pragma unroll 1
  for (int64_t begin = blockIdx.x * each; begin < g.outer; begin += gridDim.x * each) {
    int64_t line = begin + threadIdx.x / g.team;
    bool valid = line < g.outer;
    RowWalker<S, Algorithm::inputs> w(g, valid ? line : begin, valid, dynamic_shared<uint4>(),
                                      shared);
    algorithm.run(w, line);
  }
}

/* ---- columns: neighbouring lines are adjacent in memory --------------------------------- */

template <class S, int N> struct ColumnWalker {
  typedef S Stored;
  typedef typename Wide<S>::type C;
  enum { K = N == 1 ? 4 : 2 };
  const S *from[N];
  S *to;
  int64_t n, step;
  bool valid;
  int across, down, y;
  S *stash;
  double *shared;

  __device__ __forceinline__ ColumnWalker(const Walk<N> &g, int64_t line, bool given, void *memory,
                                          double *numbers)
      : n(given ? g.n : 0), step(g.inner), valid(given), across(g.team), down(blockDim.x / g.team),
        y(threadIdx.x / g.team), stash(g.slots ? static_cast<S *>(memory) + threadIdx.x : NULL),
        shared(numbers) {
    int64_t outer = line / g.inner;
    int64_t at = outer * g.n * g.inner + (line - outer * g.inner);
#pragma unroll
    for (int k = 0; k < N; k++) from[k] = reinterpret_cast<const S *>(g.from[k]) + at;
    to = reinterpret_cast<S *>(g.to) + at;
  }

  __device__ __forceinline__ bool first() const { return y == 0 && valid; }

  __device__ __forceinline__ S &slot(int64_t i, int k) { return stash[(i * N + k) * blockDim.x]; }
  template <class F> __device__ __forceinline__ void give(const S (&raw)[N], int64_t at, F f) {
    C x[N][1];
#pragma unroll
    for (int k = 0; k < N; k++) x[k][0] = (C)widen(raw[k]);
    f(x, at);
  }
  template <class F> __device__ __forceinline__ void read(F f) {
    int64_t i = 0;
#pragma unroll 1
    for (int64_t at = y; at < n; at += K * down, i += K) {
      S raw[K][N];
#pragma unroll
      for (int j = 0; j < K; j++)
#pragma unroll
        for (int k = 0; k < N; k++)
          if (at + j * down < n) raw[j][k] = from[k][(at + j * down) * step];
#pragma unroll
      for (int j = 0; j < K; j++) {
        if (at + j * down >= n) break;
#pragma unroll
        for (int k = 0; k < N; k++)
          if (stash) slot(i + j, k) = raw[j][k];
        give(raw[j], at + j * down, f);
      }
    }
  }
  template <class F> __device__ __forceinline__ void again(F f) {
    int64_t i = 0;
#pragma unroll 1
    for (int64_t at = y; at < n; at += down, i++) {
      S raw[N];
#pragma unroll
      for (int k = 0; k < N; k++) raw[k] = stash ? slot(i, k) : from[k][at * step];
      give(raw, at, f);
    }
  }
  __device__ __forceinline__ void put(int64_t at, const C (&x)[1]) {
    to[at * step] = narrow<S>(x[0]);
  }
  template <class T, class Op> __device__ __forceinline__ T join(T x, Op op) {
    T *values = reinterpret_cast<T *>(shared);
    if (down == 1) return x;
    __syncthreads();
    values[threadIdx.x] = x;
#pragma unroll 1
    for (int half = blockDim.x / 2; half >= across; half /= 2) {
      __syncthreads();
      if ((int)threadIdx.x < half)
        values[threadIdx.x] = op(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
    return values[threadIdx.x & (across - 1)];
  }
};

template <class S, class Algorithm>
__global__ void __launch_bounds__(LINE_THREADS, 2)
    walk_columns(const __grid_constant__ Walk<Algorithm::inputs> g,
                 const __grid_constant__ Algorithm algorithm) {
  __shared__ double shared[LINE_THREADS];
  int64_t lines = g.outer * g.inner;
#pragma unroll 1
  for (int64_t begin = (int64_t)blockIdx.x * g.team; begin < lines;
       begin += (int64_t)gridDim.x * g.team) {
    int64_t line = begin + (threadIdx.x & (g.team - 1));
    bool valid = line < lines;
    ColumnWalker<S, Algorithm::inputs> w(g, valid ? line : begin, valid, dynamic_shared<uint4>(),
                                         shared);
    algorithm.run(w, line);
  }
}

/* ---- choosing a kernel --------------------------------------------------------------------- */

template <class S, class Algorithm>
static bool run_rows(const tlk_Context *cx, Walk<Algorithm::inputs> g, const Algorithm &algorithm) {
  int64_t unit = 16 / sizeof(S);
  g.team = power_above(divide_up(g.n, unit * 4), WALK_THREADS);
  while (g.outer * g.team < busy_threads(cx) && g.team < WALK_THREADS && g.team * unit < g.n)
    g.team *= 2;
  if (Algorithm::inputs == 1) g.team = team_for(g.outer, g.n / unit, g.team, busy_threads(cx));
  int threads = g.team < WALK_BLOCK ? WALK_BLOCK : g.team;
  g.slots = Algorithm::twice ? (int)divide_up(g.n / unit, g.team) : 0;
  int64_t bytes = (int64_t)g.slots * Algorithm::inputs * 16 * threads;
  if (bytes > cuda_shared_bytes(cx->device.index)) bytes = g.slots = 0;
  auto kernel = walk_rows<S, Algorithm>;
  unsigned grid = blocks_for(cx, g.outer, threads / g.team, 256);
  return allow_shared(cx, kernel, (size_t)bytes) &&
         launch(cx, kernel, dim3(grid), (unsigned)threads, (size_t)bytes, g, algorithm);
}

template <class S, class Algorithm>
static bool run_columns(const tlk_Context *cx, Walk<Algorithm::inputs> g,
                        const Algorithm &algorithm) {
  int64_t lines = g.outer * g.inner;
  /* whether each line is processed by a single thread */
  bool alone = g.n <= 16 && lines >= LINE_THREADS;
  g.team = alone ? LINE_THREADS : power_above(lines, WARP);
  g.slots = Algorithm::twice ? (int)divide_up(g.n, LINE_THREADS / g.team) : 0;
  int64_t bytes = (int64_t)(g.slots * Algorithm::inputs * sizeof(S)) * LINE_THREADS;
  if (bytes > cuda_shared_bytes(cx->device.index) / 2) bytes = g.slots = 0;
  auto kernel = walk_columns<S, Algorithm>;
  unsigned grid = blocks_for(cx, lines, g.team, 256);
  return allow_shared(cx, kernel, (size_t)bytes) &&
         launch(cx, kernel, dim3(grid), LINE_THREADS, (size_t)bytes, g, algorithm);
}

/* Runs an algorithm on arrays of one floating dtype. */
template <class Algorithm>
static bool walk_lines(const tlk_Context *cx, int dtype, const Walk<Algorithm::inputs> &g,
                       const Algorithm &algorithm) {
  if (g.outer == 0 || g.inner == 0) return true;
  WITH_FLOATING(dtype, S,
                return g.inner == 1 ? run_rows<S>(cx, g, algorithm)
                                    : run_columns<S>(cx, g, algorithm))
  return false;
}

#endif
