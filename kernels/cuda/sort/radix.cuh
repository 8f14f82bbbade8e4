/*
** radix.cuh - sorting of items (keys with their positions) in many rows. Short rows are sorted in
** shared memory by Batcher's network, long ones by radix sort from the lowest digit. Both methods
** are stable, because equal keys are ordered by position.
*/
#ifndef TLK_CUDA_RADIX_CUH
#define TLK_CUDA_RADIX_CUH

#include "kernels/cuda/cuda.cuh"

#define SORT_THREADS 256
#define SORT_EACH 16 /* number of items that a thread processes in a pass */
#define SORT_TILE (SORT_THREADS * SORT_EACH)
#define SORT_BINS 256
#define SORT_WARPS (SORT_THREADS / WARP)

/* A key of 32 bits and a position in one word. */
struct Pair {
  uint64_t word;

  __device__ __forceinline__ static Pair of(uint64_t key, uint64_t place) {
    return Pair{key << 32 | place};
  }
  __device__ __forceinline__ static Pair last() { return Pair{UINT64_MAX}; }
  __device__ __forceinline__ uint64_t key() const { return word >> 32; }
  __device__ __forceinline__ int64_t place() const { return (int64_t)(uint32_t)word; }
  __device__ __forceinline__ bool before(const Pair &b) const { return word < b.word; }
};

/* An item whose key is longer than 32 bits. */
struct LargePair {
  uint64_t high, low;

  __device__ __forceinline__ static LargePair of(uint64_t key, uint64_t place) {
    return LargePair{key, place};
  }
  __device__ __forceinline__ static LargePair last() { return LargePair{UINT64_MAX, UINT64_MAX}; }
  __device__ __forceinline__ uint64_t key() const { return high; }
  __device__ __forceinline__ int64_t place() const { return (int64_t)low; }
  __device__ __forceinline__ bool before(const LargePair &b) const {
    return high != b.high ? high < b.high : low < b.low;
  }
};

/* ---- short rows ----------------------------------------------------------------------------- */

/* Sorts short rows; a block sorts 16 KB of items. */
template <class Item> struct Short {
  enum { items = 16384 / sizeof(Item) };
};

/* Sorts the items of a block in groups of `span`, a power of two. */
template <class Item>
__device__ __forceinline__ void sort_groups(Item *items, int count, int span) {
#pragma unroll 1
  for (int size = 2; size <= span; size *= 2)
#pragma unroll 1
    for (int apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int t = threadIdx.x; t < count / 2; t += blockDim.x) {
        int i = 2 * t - (t & (apart - 1));
        bool down = (i & (span - 1) & size) != 0;
        Item a = items[i], b = items[i + apart];
        if (b.before(a) != down) {
          items[i] = b;
          items[i + apart] = a;
        }
      }
    }
  __syncthreads();
}

template <class Item>
__global__ void __launch_bounds__(SORT_THREADS, 2)
    sort_short_kernel(Item *items, int64_t rows, int n, int span) {
  enum { COUNT = Short<Item>::items };
  __shared__ Item shared[COUNT];
  int64_t each = COUNT / span;
  for (int64_t begin = blockIdx.x * each; begin < rows; begin += gridDim.x * each) {
    __syncthreads();
    for (int t = threadIdx.x; t < COUNT; t += SORT_THREADS) {
      int64_t row = begin + t / span;
      int i = t & (span - 1);
      shared[t] = row < rows && i < n ? items[row * n + i] : Item::last();
    }
    sort_groups(shared, (int)COUNT, span);
    for (int t = threadIdx.x; t < COUNT; t += SORT_THREADS) {
      int64_t row = begin + t / span;
      int i = t & (span - 1);
      if (row < rows && i < n) items[row * n + i] = shared[t];
    }
  }
}

/* ---- long rows ------------------------------------------------------------------------------ */

/* The data of one pass over a digit. A row has `tiles` tiles. counts[row][digit][tile] becomes the
** number of items with that digit in earlier tiles of the row; totals[row][digit] is the row's
** count. */
struct Pass {
  int64_t rows, n, tiles;
  int shift;
  uint32_t *counts, *totals;
};

template <class Item> __device__ __forceinline__ int digit_of(const Item &item, int shift) {
  return (int)(item.key() >> shift & (SORT_BINS - 1));
}

template <class Item>
__global__ void __launch_bounds__(SORT_THREADS) count_kernel(const Item *in, Pass p) {
  __shared__ unsigned counts[SORT_BINS];
  for (int64_t t = blockIdx.x; t < p.rows * p.tiles; t += gridDim.x) {
    int64_t row = t / p.tiles, tile = t - row * p.tiles, first = tile * SORT_TILE;
    __syncthreads();
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < first + SORT_TILE && i < p.n; i += SORT_THREADS)
      atomicAdd(&counts[digit_of(in[row * p.n + i], p.shift)], 1u);
    __syncthreads();
    p.counts[(row * SORT_BINS + threadIdx.x) * p.tiles + tile] = counts[threadIdx.x];
  }
}

/* Computes offsets; each block sums the counts of one digit of one row. */
static __global__ void __launch_bounds__(SORT_THREADS) offsets_kernel(Pass p) {
  __shared__ uint32_t shared[WARP + 1];
  for (int64_t d = blockIdx.x; d < p.rows * SORT_BINS; d += gridDim.x) {
    uint32_t before = 0, *counts = p.counts + d * p.tiles;
    for (int64_t begin = 0; begin < p.tiles; begin += SORT_THREADS) {
      int64_t i = begin + threadIdx.x;
      uint32_t own = i < p.tiles ? counts[i] : 0, all;
      uint32_t here = block_before(own, shared, &all);
      if (i < p.tiles) counts[i] = before + here;
      before += all;
    }
    if (threadIdx.x == 0) p.totals[d] = before;
  }
}

/* Computes the rank of each of a warp's items among its items with the same digit; `counts` is
** the warp's histogram. */
template <class Item>
__device__ __forceinline__ void rank_items(const Item *in, int64_t begin, int64_t end, int shift,
                                           volatile uint32_t *counts, uint32_t (&rank)[SORT_EACH]) {
  int lane = threadIdx.x % WARP;
#pragma unroll
  for (int k = 0; k < SORT_EACH; k++) {
    int64_t i = begin + k * WARP + lane;
    bool valid = i < end;
    int digit = valid ? digit_of(in[i], shift) : 0;
    unsigned same = __ballot_sync(ALL_LANES, valid);
#pragma unroll
    for (int bit = 0; bit < 8; bit++) {
      unsigned set = __ballot_sync(ALL_LANES, valid && (digit >> bit & 1));
      same &= digit >> bit & 1 ? set : ~set;
    }
    unsigned lower = same & ((1u << lane) - 1);
    rank[k] = valid ? counts[digit] + (uint32_t)__popc(lower) : 0;
    __syncwarp();
    if (valid && lower == 0) counts[digit] = counts[digit] + (uint32_t)__popc(same);
    __syncwarp();
  }
}

/* Moves items to their places; each warp processes SORT_EACH * 32 consecutive items. */
template <class Item>
__global__ void __launch_bounds__(SORT_THREADS, 2)
    scatter_kernel(const Item *in, Item *out, Pass p) {
  __shared__ uint32_t counts[SORT_WARPS][SORT_BINS], shared[WARP + 1];
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, d = threadIdx.x;
  for (int64_t t = blockIdx.x; t < p.rows * p.tiles; t += gridDim.x) {
    int64_t row = t / p.tiles, tile = t - row * p.tiles;
    int64_t begin = tile * SORT_TILE + warp * SORT_EACH * WARP;
    uint32_t rank[SORT_EACH], all;
    __syncthreads();
    for (int w = 0; w < SORT_WARPS; w++) counts[w][d] = 0;
    __syncthreads();
    rank_items(in + row * p.n, begin, p.n, p.shift, counts[warp], rank);
    uint32_t at = block_before(p.totals[row * SORT_BINS + d], shared, &all) +
                  p.counts[(row * SORT_BINS + d) * p.tiles + tile];
    for (int w = 0; w < SORT_WARPS; w++) {
      uint32_t own = counts[w][d];
      counts[w][d] = at;
      at += own;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SORT_EACH; k++) {
      int64_t i = begin + k * WARP + lane;
      if (i >= p.n) break;
      Item item = in[row * p.n + i];
      out[row * p.n + counts[warp][digit_of(item, p.shift)] + rank[k]] = item;
    }
  }
}

/* ---- choosing an algorithm
** ----------------------------------------------------------------------- */

template <class Item>
static bool sort_short(const tlk_Context *cx, Item *items, int64_t rows, int64_t n) {
  int span = 2;
  while (span < n) span *= 2;
  unsigned grid = blocks_for(cx, rows, Short<Item>::items / span, 256);
  return launch(cx, sort_short_kernel<Item>, dim3(grid), SORT_THREADS, 0, items, rows, (int)n,
                span);
}

/* Sorts `rows` rows of n items by the low `bits` bits of their keys. The result is in *items.
** `spare` is a buffer of the same size; the call may exchange the two pointers. */
template <class Item>
static bool sort_items(const tlk_Context *cx, Item **items, Item **spare, int64_t rows, int64_t n,
                       int bits) {
  if (rows == 0 || n <= 1) return true;
  if (n <= Short<Item>::items) return sort_short(cx, *items, rows, n);
  if (n > UINT32_MAX)
    return cuda_fail(TL_ESHAPE, "sort: rows of at most %lld elements are possible, not %lld",
                     (long long)UINT32_MAX, (long long)n);
  Pass p = {rows, n, divide_up(n, SORT_TILE), 0, NULL, NULL};
  int64_t bins = rows * SORT_BINS;
  Scratch counts(cx, bins * (p.tiles + 1) * (int64_t)sizeof(uint32_t));
  if (counts.data == NULL) return false;
  p.counts = (uint32_t *)counts.data;
  p.totals = p.counts + bins * p.tiles;
  unsigned grid = blocks_for(cx, rows * p.tiles, 1, 64), digits = blocks_for(cx, bins, 1, 64);
  bool ok = true;
  for (p.shift = 0; ok && p.shift < bits; p.shift += 8) {
    ok = launch(cx, count_kernel<Item>, dim3(grid), SORT_THREADS, 0, *items, p) &&
         launch(cx, offsets_kernel, dim3(digits), SORT_THREADS, 0, p) &&
         launch(cx, scatter_kernel<Item>, dim3(grid), SORT_THREADS, 0, *items, *spare, p);
    Item *sorted = *spare;
    *spare = *items;
    *items = sorted;
  }
  return ok;
}

#endif
