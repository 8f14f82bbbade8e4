/*
** cuda.cuh - device code shared by the kernels: launching, elements of any dtype, vectors of 16
** bytes, strided operands, and reductions over warps and blocks.
**
** A kernel is a template or a function that takes its arguments by value, and it is always started
** by launch(). The specs compile the same files with a C++ compiler. There, launch() runs the
** blocks on the CPU, with one fiber for each CUDA thread (spec/cuda).
*/
#ifndef TLK_CUDA_CUH
#define TLK_CUDA_CUH

#include <cuda_runtime.h>
#include <math.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/element.cuh"
#include "kernels/math.h"

#define WARP 32
#define ALL_LANES 0xffffffffu

/* ---- launching ---------------------------------------------------------------------- */

template <class T> struct Same { typedef T type; };

#ifndef TLK_EMULATED
/* Starts a kernel on the context's stream. Arguments are converted to the types of the kernel's
** parameters. If the grid is empty, nothing is launched. */
template <class... P>
static bool launch(const tlk_Context *cx, void (*kernel)(P...), dim3 grid, unsigned threads,
                   size_t shared, typename Same<P>::type... args) {
  void *list[] = {(void *)&args..., nullptr};
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return true;
  if (!cuda_enter(cx->device.index)) return false;
  return cuda_ok(
      cudaLaunchKernel((const void *)kernel, grid, dim3(threads), list, shared, cx->stream->handle),
      "cudaLaunchKernel");
}

/* Returns the block's dynamic shared memory, whose size is an argument of the launch. */
template <class T> __device__ __forceinline__ T *dynamic_shared() {
  extern __shared__ __align__(16) unsigned char tlk_dynamic_shared[];
  return reinterpret_cast<T *>(tlk_dynamic_shared);
}
#endif

/* Allows a kernel to use this number of bytes of dynamic shared memory. Without permission it may
** use 48 KB, including static arrays. cuda_shared_bytes returns the device's limit. */
template <class... P>
static bool allow_shared(const tlk_Context *cx, void (*kernel)(P...), size_t bytes) {
  if (bytes <= 32 * 1024) return true;
  return cuda_enter(cx->device.index) &&
         cuda_ok(cudaFuncSetAttribute((const void *)kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                 "cudaFuncSetAttribute");
}

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Returns the number of blocks for n items of work, if a block processes `each` items. The result
** is at most `waves` blocks for each multiprocessor; kernels then loop with the grid's stride. */
static inline unsigned blocks_for(const tlk_Context *cx, int64_t n, int64_t each, int waves = 8) {
  int64_t blocks = divide_up(n, each);
  int64_t most = (int64_t)cuda_multiprocessors(cx->device.index) * waves;
  return (unsigned)(blocks < most ? blocks : most);
}

/* thread_index returns the calling thread's index in the grid; thread_count returns the number of
** threads in the grid. */
DEVICE int64_t thread_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE int64_t thread_count() { return (int64_t)gridDim.x * blockDim.x; }

/* ---- scratch memory ------------------------------------------------------------------- */

/* Scratch memory on the stream; the destructor frees it. On failure, `data` is NULL and an error
** message is set. */
struct Scratch {
  const tlk_Context *cx;
  int64_t bytes;
  void *data;
  Scratch(const tlk_Context *context, int64_t size)
      : cx(context), bytes(size), data(cuda_scratch(context, size > 0 ? size : 1)) {}
  ~Scratch() {
    if (data) cuda_scratch_free(cx, data, bytes > 0 ? bytes : 1);
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
};

/* ---- elements -------------------------------------------------------------------------- */

/* The stored types, as X(dtype, stored type). Their order does not matter, because entries are
** looked up by name. */
#define STORED_TYPES(X) \
  X(F32, float)         \
  X(F64, double)        \
  X(F16, f16)           \
  X(BF16, bf16)         \
  X(I8, int8_t)         \
  X(I16, int16_t)       \
  X(I32, int32_t)       \
  X(I64, int64_t)       \
  X(U8, uint8_t)        \
  X(BOOL, bool8)

/* Stops the device because a kernel got a dtype that it does not know. The host checks dtypes
** before it launches a kernel (operands.h), so this happens only if that check is wrong. */
DEVICE void unknown_dtype() { __trap(); }

/* Loads and stores elements whose dtype is not in STORED_TYPES. This version fails; complex.cuh has
** versions that work. */
template <class C> struct OtherTypes {
  __device__ __forceinline__ static C load(const void *, int) {
    unknown_dtype();
    return C(0);
  }
  __device__ __forceinline__ static void store(void *, int, C) { unknown_dtype(); }
};

/* Loads one element of any dtype and converts it to C. */
template <class C> __device__ __forceinline__ C load_here(const void *p, int dtype) {
  switch (dtype) {
#define X(name, S) \
  case TL_##name: return narrow<C>(widen(*static_cast<const S *>(p)));
    STORED_TYPES(X)
#undef X
  default: return OtherTypes<C>::load(p, dtype);
  }
}

/* Loads an element as load_here does. This function is not inlined, because many kernels use it.
** The call costs little, since memory limits the speed of these kernels. */
template <class C> __device__ __noinline__ C load_any(const void *p, int dtype) {
  return load_here<C>(p, dtype);
}

template <class C> __device__ __forceinline__ void store_here(void *p, int dtype, C x) {
  switch (dtype) {
#define X(name, S) \
  case TL_##name: *static_cast<S *>(p) = narrow<S>(x); return;
    STORED_TYPES(X)
#undef X
  default: OtherTypes<C>::store(p, dtype, x);
  }
}

template <class C> __device__ __noinline__ void store_any(void *p, int dtype, C x) {
  store_here(p, dtype, x);
}

#define STORED_AS(tag, type, S, ...) \
  case tag: {                        \
    typedef type S;                  \
    __VA_ARGS__;                     \
  } break;
#define FLOATING_TYPES(S, ...)              \
  STORED_AS(TL_F32, float, S, __VA_ARGS__)  \
  STORED_AS(TL_F64, double, S, __VA_ARGS__) \
  STORED_AS(TL_F16, f16, S, __VA_ARGS__)    \
  STORED_AS(TL_BF16, bf16, S, __VA_ARGS__)
/* Runs host code in which S is the stored type of the dtype. */
#define WITH_STORED(dtype, S, ...)             \
  switch (dtype) {                             \
    FLOATING_TYPES(S, __VA_ARGS__)             \
    STORED_AS(TL_I8, int8_t, S, __VA_ARGS__)   \
    STORED_AS(TL_I16, int16_t, S, __VA_ARGS__) \
    STORED_AS(TL_I32, int32_t, S, __VA_ARGS__) \
    STORED_AS(TL_I64, int64_t, S, __VA_ARGS__) \
    STORED_AS(TL_U8, uint8_t, S, __VA_ARGS__)  \
    STORED_AS(TL_BOOL, bool8, S, __VA_ARGS__)  \
  default: return cuda_no_dtype(dtype);        \
  }
/* Runs host code in which S is the stored type of a floating dtype. For any other dtype the calling
** function fails. */
#define WITH_FLOATING(dtype, S, ...)    \
  switch (dtype) {                      \
    FLOATING_TYPES(S, __VA_ARGS__)      \
  default: return cuda_no_dtype(dtype); \
  }

static inline int64_t dtype_bytes(int dtype) {
  static const int8_t bytes[] = {
#define X(name, text, size, ...) size,
      TL_DTYPES(X, )
#undef X
  };
  return bytes[dtype];
}

/* ---- vectors ------------------------------------------------------------------------------ */

/* Converts N numbers to the dtype and stores them as adjacent elements. `to` must be aligned to the
** size of all N elements or, if that is larger than 16 bytes, to 16 bytes. */
template <int N, class W>
__device__ __forceinline__ void store_vector(void *to, int dtype, const W (&x)[N]) {
  switch (dtype) {
#define X(name, S)                                                                 \
  case TL_##name: {                                                                \
    enum { n = sizeof(S) * N < 16 ? N : 16 / sizeof(S) };                          \
    _Pragma("unroll") for (int i = 0; i < N; i += n) {                             \
      Vector<S, n> v;                                                              \
      _Pragma("unroll") for (int e = 0; e < n; e++) v.at[e] = narrow<S>(x[i + e]); \
      *reinterpret_cast<Vector<S, n> *>(static_cast<S *>(to) + i) = v;             \
    }                                                                              \
  }                                                                                \
    return;
    STORED_TYPES(X)
#undef X
  default: unknown_dtype();
  }
}

/* An integer type or a struct of this number of bytes, for code that only copies. */
template <int bytes> struct __align__(bytes) Unit { uint8_t at[bytes]; };
template <> struct __align__(16) Unit<16> { uint32_t at[4]; };

static inline bool aligned(const void *p, size_t bytes) { return (uintptr_t)p % bytes == 0; }

/* ---- division by an invariant number --------------------------------------------------------- */

/* Computes n / d for 0 <= n < 2^31 by a multiplication and a shift (T. Granlund, P. Montgomery,
** "Division by invariant integers using multiplication", PLDI 1994, figure 4.1). */
struct Divider {
  uint32_t divisor, factor, shift;
  Divider() = default;
  explicit Divider(uint32_t d) : divisor(d), factor(0), shift(0) {
    while (shift < 32 && ((uint64_t)1 << shift) < d) shift++;
    factor = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - d)) / d + 1);
  }
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return (__umulhi(n, factor) + n) >> shift;
  }
};

/* ---- strided operands ---------------------------------------------------------------------- */

/* The argument of a kernel for an elementwise loop over fewer than 2^31 elements of N operands.
** Kernels declare the parameter as const __grid_constant__, because otherwise each thread would
** make a local copy. An element of operand k is at data[k] + its offset for this operand. If
** data[k] is NULL, every element is `number[k]`. */
template <int N> struct Strided {
  int ndim;
  uint32_t numel;
  Divider sizes[TL_MAX_DIMS];
  int64_t strides[TL_MAX_DIMS][N];
  char *data[N];
  /* for an operand that is a single number: the number in its dtype (tli_IterArg.stored), at most
  ** 16 bytes */
  __align__(16) int64_t number[N][2];
  int8_t dtype[N];

  __device__ __forceinline__ void offsets(uint32_t i, int64_t (&out)[N]) const {
    bool flat = ndim == 1;
#pragma unroll
    for (int k = 0; k < N; k++) out[k] = flat ? (int64_t)i * strides[0][k] : 0;
    if (flat) return;
    for (int d = 0; d < ndim; d++) {
      uint32_t next = sizes[d].quotient(i);
      uint32_t at = i - next * sizes[d].divisor;
#pragma unroll
      for (int k = 0; k < N; k++) out[k] += (int64_t)at * strides[d][k];
      i = next;
    }
  }
  __device__ __forceinline__ const void *source(int k, int64_t offset) const {
    return data[k] ? data[k] + offset : reinterpret_cast<const char *>(number[k]);
  }
};

/* Chooses where to split a loop that is too large. It is split along its largest dimension except
** the innermost one, which kernels read in vectors. A loop of one dimension is split at a multiple
** of the vector size. */
static inline int64_t cut_of(const tli_Iter &it, int *dimension) {
  int d = 0;
  for (int e = 1; e < it.ndim; e++)
    if (it.sizes[e] > 1 && (d == 0 || it.sizes[e] > it.sizes[d])) d = e;
  *dimension = d;
  return d == 0 ? it.sizes[0] / 128 * 64 : it.sizes[d] / 2;
}

/* Divides a loop into parts of fewer than 2^31 elements, and calls run(part) for each. Stops and
** returns false as soon as a call fails. */
template <int N, class Run> static bool for_parts(const tli_Iter &it, Run run) {
  const int64_t most = INT32_MAX;
  tli_Iter half = it;
  if (it.numel > most) {
    int d;
    int64_t first = cut_of(it, &d);
    half.sizes[d] = first;
    half.numel = it.numel / it.sizes[d] * first;
    if (!for_parts<N>(half, run)) return false;
    half.sizes[d] = it.sizes[d] - first;
    half.numel = it.numel - half.numel;
    for (int k = 0; k < N; k++)
      if (half.args[k].data) half.args[k].data += first * it.args[k].strides[d];
    return for_parts<N>(half, run);
  }
  Strided<N> s;
  s.ndim = it.ndim;
  s.numel = (uint32_t)it.numel;
  for (int d = 0; d < it.ndim; d++) {
    s.sizes[d] = Divider((uint32_t)it.sizes[d]);
    for (int k = 0; k < N; k++) s.strides[d][k] = it.args[k].strides[d];
  }
  for (int k = 0; k < N; k++) {
    s.data[k] = it.args[k].data;
    memcpy(s.number[k], it.args[k].stored, sizeof s.number[k]);
    s.dtype[k] = (int8_t)it.args[k].dtype;
  }
  return run(s);
}

/* ---- warps and blocks ------------------------------------------------------------------------ */

/* Returns the value of x in the lane with the number (own ^ mask), for any type whose size is a
** multiple of 4 bytes. */
template <class T> __device__ __forceinline__ T shuffle_xor(T x, int mask) {
  static_assert(sizeof(T) % 4 == 0, "words");
  int words[sizeof(T) / 4];
  memcpy(words, &x, sizeof x);
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / 4; i++)
    words[i] = __shfl_xor_sync(ALL_LANES, words[i], mask);
  memcpy(&x, words, sizeof x);
  return x;
}

/* Returns the value of x in the given lane. */
template <class T> __device__ __forceinline__ T of_lane(T x, int lane) {
  int words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &x, sizeof x);
#pragma unroll
  for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
    words[i] = __shfl_sync(ALL_LANES, words[i], lane);
  memcpy(&x, words, sizeof x);
  return x;
}

/* Combines the values of all 32 lanes by `op(a, b)`, which must be associative and commutative.
** Every lane gets the result. */
template <class T, class Op> __device__ __forceinline__ T warp_reduce(T x, Op op) {
#pragma unroll
  for (int mask = WARP / 2; mask > 0; mask /= 2) x = op(x, shuffle_xor(x, mask));
  return x;
}

/* Combines the values of all threads of a block, which must consist of whole warps. Every thread
** gets the result. `shared` has room for 32 elements, and the caller may reuse it immediately. */
template <class T, class Op> __device__ __forceinline__ T block_reduce(T x, Op op, T *shared) {
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  x = warp_reduce(x, op);
  if (warps == 1) return x;
  __syncthreads();
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  x = shared[0];
  for (int w = 1; w < warps; w++) x = op(x, shared[w]);
  return x;
}

/* Returns the sum of x over the threads before this one in its block, and stores the sum of all
** threads in *total. The block must consist of whole warps. `shared` has room for 33 numbers, and
** the caller may reuse it immediately. */
DEVICE uint32_t block_before(uint32_t x, uint32_t *shared, uint32_t *total) {
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  uint32_t sum = x;
#pragma unroll
  for (int step = 1; step < WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == WARP - 1) shared[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t before = 0;
    for (int w = 0; w < warps; w++) {
      uint32_t own = shared[w];
      shared[w] = before;
      before += own;
    }
    shared[WARP] = before;
  }
  __syncthreads();
  *total = shared[WARP];
  return shared[warp] + sum - x;
}

#endif
