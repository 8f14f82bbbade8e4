/*
** radix.cuh - sorts items (keys with their positions) in many rows. Short rows are sorted in shared
** memory by Batcher's network. Long rows are sorted by radix sort, from the lowest digit of the
** keys to the highest. Both methods are stable, because equal keys are ordered by position.
*/
#ifndef TLK_CUDA_RADIX_CUH
#define TLK_CUDA_RADIX_CUH

#include "kernels/cuda/cuda.cuh"

#define SORT_THREADS 256
#define SORT_BINS 256
#define SORT_WARPS (SORT_THREADS / WARP)

/* A 32-bit key and a position, in one word. */
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

/* An item with a key longer than 32 bits. */
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

/* Sorts short rows. Each block sorts 16 KB of items. */
template <class Item> struct Short {
  enum { items = 16384 / sizeof(Item) };
};

/* Sorts the items of a block in groups of `span` items; `span` is a power of two. */
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

/* The data of one pass over a digit. Each row is divided into `tiles` tiles.
** counts[row][digit][tile] becomes the number of items with this digit in earlier tiles of the row.
** totals[row][digit] becomes the number of items with this digit in the whole row. */
struct Pass {
  int64_t rows, n, tiles;
  int shift;
  uint32_t *counts, *totals;
};

/* The source from which a pass reads its items: this struct for rows of items, or another type with
** the same members. `load` reads the items i, i + step, ... of a row, up to the row's end, and
** loads all of them before it uses the first. `blocks` is the smallest number of blocks that run on
** a multiprocessor at the same time. */
template <class Item> struct Listed {
  enum { blocks = 3 };
  const Item *items;
  int64_t n;

  template <int N>
  __device__ __forceinline__ void load(int64_t row, int64_t i, int64_t step, Item (&out)[N]) const {
#pragma unroll
    for (int k = 0; k < N; k++)
      out[k] = i + k * step < n ? items[row * n + i + k * step] : Item::last();
  }
};

/* A tile has as many items as fit into 32 KB. Each thread handles `each` of them. */
template <class Item> struct Tile {
  enum { each = 128 / sizeof(Item), items = each * SORT_THREADS };
};

template <class Item> __device__ __forceinline__ int digit_of(const Item &item, int shift) {
  return (int)(item.key() >> shift & (SORT_BINS - 1));
}

template <class Item, class Source>
__global__ void __launch_bounds__(SORT_THREADS)
    count_kernel(const __grid_constant__ Source in, Pass p) {
  enum { EACH = Tile<Item>::each };
  __shared__ unsigned counts[SORT_BINS];
  for (int64_t t = blockIdx.x; t < p.rows * p.tiles; t += gridDim.x) {
    int64_t row = t / p.tiles, tile = t - row * p.tiles;
    int64_t first = tile * Tile<Item>::items + threadIdx.x;
    Item items[EACH];
    in.load(row, first, SORT_THREADS, items);
    __syncthreads();
    counts[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; k++)
      if (first + k * SORT_THREADS < p.n) atomicAdd(&counts[digit_of(items[k], p.shift)], 1u);
    __syncthreads();
    p.counts[(row * SORT_BINS + threadIdx.x) * p.tiles + tile] = counts[threadIdx.x];
  }
}

/* Computes offsets. Each block computes the prefix sums of the counts for one digit of one row. */
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

/* Computes the rank of each item among the items of its warp that have the same digit. `counts` is
** the histogram of the warp. */
template <class Item, int EACH>
__device__ __forceinline__ void rank_items(const Item (&items)[EACH], int64_t left, int shift,
                                           volatile uint32_t *counts, uint32_t (&rank)[EACH]) {
  int lane = threadIdx.x % WARP;
#pragma unroll
  for (int k = 0; k < EACH; k++) {
    bool valid = k * WARP + lane < left;
    int digit = digit_of(items[k], shift);
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

/* Moves items to their new positions. Each warp processes `each` * 32 consecutive items. The items
** of a tile are first ordered by digit in shared memory, so that neighbouring threads write to
** neighbouring addresses. */
template <class Item, class Source>
__global__ void __launch_bounds__(SORT_THREADS, Source::blocks)
    scatter_kernel(const __grid_constant__ Source in, Item *out, Pass p) {
  enum { EACH = Tile<Item>::each, ITEMS = Tile<Item>::items };
  __shared__ uint32_t counts[SORT_WARPS][SORT_BINS], to[SORT_BINS], shared[WARP + 1];
  __shared__ Item sorted[ITEMS];
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, d = threadIdx.x;
  for (int64_t t = blockIdx.x; t < p.rows * p.tiles; t += gridDim.x) {
    int64_t row = t / p.tiles, tile = t - row * p.tiles, first = tile * ITEMS;
    int64_t begin = first + warp * EACH * WARP, left = p.n - begin;
    Item items[EACH];
    uint32_t rank[EACH], all;
    in.load(row, begin + lane, WARP, items);
    __syncthreads();
    for (int w = 0; w < SORT_WARPS; w++) counts[w][d] = 0;
    __syncthreads();
    rank_items(items, left, p.shift, counts[warp], rank);
    __syncthreads();
    uint32_t own = 0;
    for (int w = 0; w < SORT_WARPS; w++) own += counts[w][d];
    uint32_t at = block_before(own, shared, &all);
    uint32_t before = block_before(p.totals[row * SORT_BINS + d], shared, &own);
    to[d] = before + p.counts[(row * SORT_BINS + d) * p.tiles + tile] - at;
    for (int w = 0; w < SORT_WARPS; w++) {
      uint32_t here = counts[w][d];
      counts[w][d] = at;
      at += here;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; k++)
      if (k * WARP + lane < left)
        sorted[counts[warp][digit_of(items[k], p.shift)] + rank[k]] = items[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; k++) {
      uint32_t i = k * SORT_THREADS + threadIdx.x;
      if (i < all) out[row * p.n + (to[digit_of(sorted[i], p.shift)] + i)] = sorted[i];
    }
  }
}

/* ---- choosing an algorithm ------------------------------------------------------------------- */

template <class Item>
static bool sort_short(const tlk_Context *cx, Item *items, int64_t rows, int64_t n) {
  int span = 2;
  while (span < n) span *= 2;
  unsigned grid = blocks_for(cx, rows, Short<Item>::items / span, 256);
  return launch(cx, sort_short_kernel<Item>, dim3(grid), SORT_THREADS, 0, items, rows, (int)n,
                span);
}

template <class Item, class Source>
static bool sort_pass(const tlk_Context *cx, const Source &in, Item *out, const Pass &p) {
  unsigned grid = blocks_for(cx, p.rows * p.tiles, 1, 64);
  unsigned digits = blocks_for(cx, p.rows * SORT_BINS, 1, 64);
  return launch(cx, count_kernel<Item, Source>, dim3(grid), SORT_THREADS, 0, in, p) &&
         launch(cx, offsets_kernel, dim3(digits), SORT_THREADS, 0, p) &&
         launch(cx, scatter_kernel<Item, Source>, dim3(grid), SORT_THREADS, 0, in, out, p);
}

/* Sorts `rows` long rows of n items by the low `bits` bits of their keys. `in` has the items, and
** *items becomes the result. `spare` is a buffer of the same size. The call may swap the two
** pointers. */
template <class Item, class Source>
static bool sort_long(const tlk_Context *cx, const Source &in, Item **items, Item **spare,
                      int64_t rows, int64_t n, int bits) {
  if (n > UINT32_MAX)
    return cuda_fail(TL_ESHAPE, "sort: rows of at most %lld elements are possible, not %lld",
                     (long long)UINT32_MAX, (long long)n);
  Pass p = {rows, n, divide_up(n, Tile<Item>::items), 0, NULL, NULL};
  int64_t bins = rows * SORT_BINS;
  Scratch counts(cx, bins * (p.tiles + 1) * (int64_t)sizeof(uint32_t));
  if (counts.data == NULL) return false;
  p.counts = (uint32_t *)counts.data;
  p.totals = p.counts + bins * p.tiles;
  bool ok = sort_pass(cx, in, *spare, p);
  for (p.shift = 8;; p.shift += 8) {
    Item *sorted = *spare;
    *spare = *items;
    *items = sorted;
    if (!ok || p.shift >= bits) return ok;
    ok = sort_pass(cx, Listed<Item>{*items, n}, *spare, p);
  }
}

/* Sorts rows of any length in the same way. *items has the items. */
template <class Item>
static bool sort_items(const tlk_Context *cx, Item **items, Item **spare, int64_t rows, int64_t n,
                       int bits) {
  if (rows == 0 || n <= 1) return true;
  if (n <= Short<Item>::items) return sort_short(cx, *items, rows, n);
  return sort_long(cx, Listed<Item>{*items, n}, items, spare, rows, n, bits);
}

#endif
