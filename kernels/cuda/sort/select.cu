/*
** select.cu - selects the first elements of each row, or the element with a given rank, by radix
** selection. The digits of the wanted key are found one by one, from the highest on. Each digit is
** found from a histogram of the keys that begin with the digits found so far. A block processes one
** row, or a part of a long row.
*/
#include "kernels/cuda/sort/keys.cuh"
#include "kernels/cuda/sort/radix.cuh"
#include "kernels/cuda/sort/select.h"

namespace {

#define SELECT_THREADS 512
#define SELECT_BATCH 8 /* number of keys that a thread loads before it uses the first one */

/* The arrays in shared memory that a block uses. */
struct Shared {
  unsigned counts[SORT_BINS];
  uint32_t sums[WARP + 1];
  uint32_t digit, smaller, equal, kept;
};

/* Calls f(i, key) for each index i of the row, in no particular order. A block has few threads for
** a long row, so each thread loads a batch of keys at a time. */
template <class F> __device__ __forceinline__ void each_key(const Keys &in, int64_t row, F f) {
#pragma unroll 1
  for (int64_t begin = threadIdx.x; begin < in.n; begin += SELECT_BATCH * SELECT_THREADS) {
    uint64_t key[SELECT_BATCH];
    in.batch(row, begin, SELECT_THREADS, key);
#pragma unroll
    for (int k = 0; k < SELECT_BATCH; k++)
      if (begin + k * SELECT_THREADS < in.n) f(begin + k * SELECT_THREADS, key[k]);
  }
}

/* Returns the key with rank `rank` in a row. *smaller and *equal become the numbers of keys that
** are smaller than this key and equal to it. */
__device__ __forceinline__ uint64_t select_key(const Keys &in, int64_t row, uint32_t rank,
                                               Shared &s, uint32_t *smaller, uint32_t *equal) {
  uint64_t found = 0, fixed = 0; /* digits found so far, and a mask of the bits that they fill */
  uint32_t below = 0;
#pragma unroll 1
  for (int shift = in.bits - 8; shift >= 0; shift -= 8) {
    if (threadIdx.x < SORT_BINS) s.counts[threadIdx.x] = 0;
    __syncthreads();
    each_key(in, row, [&](int64_t, uint64_t key) {
      if ((key & fixed) == found) atomicAdd(&s.counts[key >> shift & (SORT_BINS - 1)], 1u);
    });
    __syncthreads();
    uint32_t own = threadIdx.x < SORT_BINS ? s.counts[threadIdx.x] : 0, all;
    uint32_t before = block_before(own, s.sums, &all);
    if (own > 0 && rank >= before && rank - before < own) {
      s.digit = threadIdx.x;
      s.smaller = before;
      s.equal = own;
    }
    __syncthreads();
    found |= (uint64_t)s.digit << shift;
    fixed |= (uint64_t)(SORT_BINS - 1) << shift;
    rank -= s.smaller;
    below += s.smaller;
  }
  *smaller = below;
  *equal = s.equal;
  return found;
}

/* Calls f(i, number) for each index i of the row for which test(key) is true, in order. `number`
** counts these indices from 0. All threads must call this function. */
template <class Test, class F>
__device__ __forceinline__ void in_order(const Keys &in, int64_t row, Shared &s, Test test, F f) {
  uint32_t before = 0;
#pragma unroll 1
  for (int64_t begin = 0; begin < in.n; begin += SELECT_THREADS) {
    int64_t i = begin + threadIdx.x;
    bool is = i < in.n && test(in.at(row, i));
    uint32_t all, own = block_before(is, s.sums, &all);
    if (is) f(i, before + own);
    before += all;
  }
}

__global__ void __launch_bounds__(SELECT_THREADS, 2)
    rank_kernel(const __grid_constant__ Keys in, const __grid_constant__ Picked out, int64_t wanted,
                bool skip_nan) {
  __shared__ Shared s;
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    uint32_t nans = 0, smaller = 0, equal, rank = (uint32_t)wanted;
    uint64_t key = in.nan;
    if (wanted < 0) { /* a negative rank stands for the median */
      for (int64_t i = threadIdx.x; in.nan != 0 && i < in.n; i += SELECT_THREADS)
        nans += in.at(row, i) == in.nan;
      block_before(nans, s.sums, &nans);
      rank = (uint32_t)((in.n - nans - 1) / 2);
    }
    bool none = nans > 0 && (!skip_nan || nans == in.n);
    if (none)
      rank = 0;
    else
      key = select_key(in, row, rank, s, &smaller, &equal);
    in_order(
        in, row, s, [&](uint64_t k) { return k == key; },
        [&](int64_t i, uint32_t number) {
          if (number == rank - smaller) out.give(in, row, 0, i);
        });
  }
}

/* How each row is divided into parts. Part p has `size` elements from element p * size on; the last
** part has all remaining elements. */
struct Division {
  int64_t parts, size;
};

/* Selects the first k items of each part of a row. */
template <class Item>
__global__ void __launch_bounds__(SELECT_THREADS, 2)
    first_kernel(const __grid_constant__ Keys in, const __grid_constant__ Picked out, int span,
                 Division d) {
  __shared__ Shared s;
  __shared__ Item items[SELECT_MOST];
  for (int64_t part = blockIdx.x; part < in.rows * d.parts; part += gridDim.x) {
    int64_t row = part / d.parts, begin = (part - row * d.parts) * d.size;
    Keys own = in;
    own.data += (row * in.n + begin) * in.bytes;
    own.n = in.n - begin < d.size ? in.n - begin : d.size;
    uint32_t k = (uint32_t)out.k, smaller, equal;
    /* this call contains barriers, so that all threads have finished with `items` of the previous
    ** part */
    uint64_t last = select_key(own, 0, k - 1, s, &smaller, &equal);
    /* if not all keys equal to the last one are taken, the first of them are taken */
    bool all = smaller + equal == k;
    if (threadIdx.x == 0) s.kept = 0;
    for (int t = threadIdx.x; t < span; t += SELECT_THREADS) items[t] = Item::last();
    __syncthreads();
    each_key(own, 0, [&](int64_t i, uint64_t key) {
      if (key < last || (all && key == last))
        items[atomicAdd(&s.kept, 1u)] = Item::of(key, (uint64_t)i);
    });
    if (!all)
      in_order(
          own, 0, s, [&](uint64_t key) { return key == last; },
          [&](int64_t i, uint32_t number) {
            if (smaller + number < k) items[smaller + number] = Item::of(last, (uint64_t)i);
          });
    sort_groups(items, span, span);
    for (uint32_t t = threadIdx.x; t < k; t += SELECT_THREADS) {
      int64_t place = (int64_t)items[t].place();
      out.put(own, place, part * k + t, begin + place);
    }
  }
}

/* Converts positions among the candidates to positions in the original rows. Each row has `each`
** candidates. */
__global__ void __launch_bounds__(SELECT_THREADS)
    place_kernel(int64_t *indices, const int64_t *chosen, const int64_t *candidates, int64_t n,
                 int64_t k, int64_t each) {
  for (int64_t i = thread_index(); i < n; i += thread_count())
    indices[i] = candidates[i / k * each + chosen[i] - 1];
}

/* Returns how to divide rows. If there are fewer than 64 rows, and they are long, each is divided
** into parts of at least 8 * k and at least 32768 elements. If these would be more than two, and
** fewer than eight, blocks for each multiprocessor, the parts are larger, so that there are about
** two. */
Division division_of(const tlk_Context *cx, const Keys &in, int64_t k) {
  if (in.n <= 1 << 17 || in.rows >= 64) return {1, in.n};
  int64_t least = 8 * k < 1 << 15 ? 1 << 15 : 8 * k, parts = in.n / least;
  int64_t wave = divide_up(2 * cuda_multiprocessors(cx->device.index), in.rows);
  if (parts > wave && parts < 4 * wave) parts = wave;
  if (parts > 1024) parts = 1024;
  return {parts, divide_up(in.n, parts)};
}

bool select_parts(const tlk_Context *cx, const Keys &in, const Picked &out, Division d) {
  int span = 2;
  while (span < out.k) span *= 2;
  unsigned grid = blocks_for(cx, in.rows * d.parts, 1, 64);
  auto kernel = in.bits > 32 ? first_kernel<LargePair> : first_kernel<Pair>;
  return launch(cx, kernel, dim3(grid), SELECT_THREADS, 0, in, out, span, d);
}

} // namespace

/* Selects the first k elements of each row. The first k elements of each part are candidates, and
** equal candidates keep the order of their positions. */
bool cuda_select_first(const tlk_Context *cx, const Keys *in, const Picked *out) {
  Division d = division_of(cx, *in, out->k);
  if (d.parts == 1) return select_parts(cx, *in, *out, d);
  int64_t each = d.parts * out->k, n = in->rows * out->k;
  Scratch values(cx, in->rows * each * in->bytes), places(cx, in->rows * each * 8);
  Scratch chosen(cx, n * 8);
  if (!values.data || !places.data || !chosen.data) return false;
  Picked candidates = {(char *)values.data, (int64_t *)places.data, out->k};
  Picked last = {out->values, (int64_t *)chosen.data, out->k};
  Keys again = *in;
  again.data = (const char *)values.data;
  again.n = each;
  return select_parts(cx, *in, candidates, d) && cuda_select_first(cx, &again, &last) &&
         (out->indices == NULL ||
          launch(cx, place_kernel, dim3(blocks_for(cx, n, SELECT_THREADS)), SELECT_THREADS, 0,
                 out->indices, (const int64_t *)chosen.data, (const int64_t *)places.data, n,
                 out->k, each));
}

bool cuda_select_rank(const tlk_Context *cx, const Keys *in, const Picked *out, int64_t rank,
                      bool skip_nan) {
  unsigned grid = blocks_for(cx, in->rows, 1, 64);
  return launch(cx, rank_kernel, dim3(grid), SELECT_THREADS, 0, *in, *out, rank, skip_nan);
}
