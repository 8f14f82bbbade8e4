/*
** sort.cu - sorts rows, and finds the mode of rows.
*/
#include "kernels/cuda/line_reduce.cuh"
#include "kernels/cuda/sort/keys.cuh"
#include "kernels/cuda/sort/radix.cuh"
#include "kernels/cuda/sort/select.h"

namespace {

template <class Item>
__global__ void __launch_bounds__(SORT_THREADS, 4)
    make_kernel(const __grid_constant__ Keys in, Item *items) {
  int64_t all = in.rows * in.n;
  for (int64_t i = thread_index(); i < all; i += thread_count()) {
    int64_t row = i / in.n, place = i - row * in.n;
    items[i] = Item::of(in.at(row, place), (uint64_t)place);
  }
}

template <class Item>
__global__ void __launch_bounds__(SORT_THREADS, 4)
    give_kernel(const __grid_constant__ Keys in, const __grid_constant__ Picked out,
                const Item *items) {
  int64_t all = in.rows * out.k;
  for (int64_t i = thread_index(); i < all; i += thread_count()) {
    int64_t row = i / out.k, to = i - row * out.k;
    Item item = items[row * in.n + to];
    out.give_key(in, row, to, item.place(), item.key());
  }
}

/* The items that the first pass of a sort reads. They are made from the elements during this pass,
** so no separate pass has to write them. */
template <class Item> struct Made {
  enum { blocks = 2 };
  Keys in;

  template <int N>
  __device__ __forceinline__ void load(int64_t row, int64_t i, int64_t step, Item (&out)[N]) const {
    uint64_t keys[N];
    in.batch(row, i, step, keys);
#pragma unroll
    for (int k = 0; k < N; k++) out[k] = Item::of(keys[k], (uint64_t)(i + k * step));
  }
};

bool is_large(const Keys &in) { return in.bits > 32; }

/* Sorts the rows, and then calls then(items) with the sorted items, whose memory is freed
** afterwards. */
template <class Item, class Then>
bool with_sorted(const tlk_Context *cx, const Keys &in, Then then) {
  bool alone = in.n <= Short<Item>::items;
  int64_t all = in.rows * in.n, bytes = all * (int64_t)sizeof(Item);
  Scratch first(cx, bytes), second(cx, alone ? 0 : bytes);
  Item *items = (Item *)first.data, *spare = (Item *)second.data;
  unsigned grid = blocks_for(cx, all, SORT_THREADS * 4, 32);
  if (!items || !spare) return false;
  bool ok = alone ? launch(cx, make_kernel<Item>, dim3(grid), SORT_THREADS, 0, in, items) &&
                        sort_items(cx, &items, &spare, in.rows, in.n, in.bits)
                  : sort_long(cx, Made<Item>{in}, &items, &spare, in.rows, in.n, in.bits);
  return ok && then((const Item *)items);
}

template <class Item> bool run_sort(const tlk_Context *cx, const Keys &in, const Picked &out) {
  return with_sorted<Item>(cx, in, [&](const Item *items) {
    unsigned grid = blocks_for(cx, in.rows * out.k, SORT_THREADS * 4, 32);
    return launch(cx, give_kernel<Item>, dim3(grid), SORT_THREADS, 0, in, out, items);
  });
}

bool sort_rows(const tlk_Context *cx, const Keys &in, const Picked &out) {
  if (in.rows == 0 || out.k == 0) return true;
  return is_large(in) ? run_sort<LargePair>(cx, in, out) : run_sort<Pair>(cx, in, out);
}

/* ---- ranks -------------------------------------------------------------------------------- */

/* Returns the index of the first of n items whose key is at least `key`. */
template <class Item>
__device__ __forceinline__ int64_t first_of(const Item *items, int64_t n, uint64_t key) {
  int64_t low = 0;
  while (n > 0) {
    int64_t half = n / 2;
    bool further = items[low + half].key() < key;
    low = further ? low + half + 1 : low;
    n = further ? n - half - 1 : half;
  }
  return low;
}

/* Finds the k-th item of each row. Each row is handled by one thread. See select_rank in
** core/kernel/kernel.h. */
template <class Item>
__global__ void __launch_bounds__(SORT_THREADS, 4)
    ranked_kernel(const __grid_constant__ Keys in, const __grid_constant__ Picked out, int64_t rank,
                  bool skip_nan, const Item *all) {
  for (int64_t row = thread_index(); row < in.rows; row += thread_count()) {
    const Item *items = all + row * in.n;
    int64_t numbers = in.nan && rank < 0 ? first_of(items, in.n, in.nan) : in.n, wanted = rank;
    bool none = numbers < in.n && (!skip_nan || numbers == 0);
    if (rank < 0) wanted = none ? numbers : (numbers - 1) / 2;
    out.give(in, row, 0, items[wanted].place());
  }
}

template <class Item>
bool run_ranked(const tlk_Context *cx, const Keys &in, const Picked &out, int64_t rank,
                bool skip_nan) {
  return with_sorted<Item>(cx, in, [&](const Item *items) {
    unsigned grid = blocks_for(cx, in.rows, SORT_THREADS);
    return launch(cx, ranked_kernel<Item>, dim3(grid), SORT_THREADS, 0, in, out, rank, skip_nan,
                  items);
  });
}

/* ---- mode ------------------------------------------------------------------------------ */

/* A run of equal items: its length, and the position of its last item. */
struct Longest {
  int64_t length, end;
};

DEVICE Longest longer(const Longest &a, const Longest &b) {
  bool second = b.length > a.length || (b.length == a.length && b.end < a.end);
  return second ? b : a;
}

/* Finds the mode of each row. Each row is handled by one block, whose threads look for the ends of
** runs. NaN is not equal to any element. */
template <class Item>
__global__ void __launch_bounds__(SORT_THREADS, 4)
    mode_kernel(const __grid_constant__ Keys in, const __grid_constant__ Picked out,
                const Item *all) {
  __shared__ Longest shared[SORT_WARPS];
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const Item *items = all + row * in.n;
    Longest best = {0, INT64_MAX};
    for (int64_t i = threadIdx.x; i < in.n; i += SORT_THREADS) {
      uint64_t key = items[i].key();
      bool none = in.nan != 0 && key == in.nan;
      if (!none && i + 1 < in.n && items[i + 1].key() == key) continue;
      best = longer(best, Longest{none ? 1 : i + 1 - first_of(items, i, key), i});
    }
    best = block_reduce(
        best, [](const Longest &a, const Longest &b) { return longer(a, b); }, shared);
    if (threadIdx.x == 0) out.give(in, row, 0, items[best.end].place());
  }
}

template <class Item> bool run_mode(const tlk_Context *cx, const Keys &in, const Picked &out) {
  return with_sorted<Item>(cx, in, [&](const Item *items) {
    unsigned grid = blocks_for(cx, in.rows, 1, 64);
    return launch(cx, mode_kernel<Item>, dim3(grid), SORT_THREADS, 0, in, out, items);
  });
}

/* ---- sorting whole rows ------------------------------------------------------------------- */

/* Returns whether row a sorts before row b. Returns `equal` if the rows are equal. */
DEVICE bool row_before(const Keys &in, int64_t a, int64_t b, bool equal) {
  for (int64_t i = 0; i < in.n; i++) {
    uint64_t x = in.at(a, i), y = in.at(b, i);
    if (x != y) return x < y;
  }
  return equal;
}

/* Merges pairs of sorted runs, each of `run` rows. For each row of a run, binary search finds the
** row's position in the other run. */
static __global__ void __launch_bounds__(SORT_THREADS, 4)
    merge_kernel(const __grid_constant__ Keys in, int64_t run, const int64_t *from, int64_t *to) {
  for (int64_t i = thread_index(); i < in.rows; i += thread_count()) {
    int64_t own = i / run, pair = own / 2 * 2 * run, other = (own ^ 1) * run;
    int64_t row = run > 1 ? from[i] - 1 : i, low = other < in.rows ? other : in.rows;
    int64_t n = other + run < in.rows ? run : in.rows - low, first = low;
    while (n > 0) {
      int64_t half = n / 2, middle = run > 1 ? from[low + half] - 1 : low + half;
      bool further = row_before(in, middle, row, (own & 1) != 0);
      low = further ? low + half + 1 : low;
      n = further ? n - half - 1 : half;
    }
    to[pair + (i - own * run) + (low - first)] = row + 1;
  }
}

static __global__ void first_row_kernel(int64_t *order) { *order = 1; }

} // namespace

bool tlk_sort(const struct tlk_sort *call) {
  Picked out = {(char *)call->values.data, call->indices, call->n};
  return sort_rows(call->cx, keys_of(call->in, call->rows, call->n, call->descending), out);
}

/* Returns whether radix selection with one block for each row is faster than sorting. */
static bool selects(int64_t rows, int64_t n) {
  return n > SELECT_SHORT && n <= UINT32_MAX && (n <= 1 << 17 || rows >= 64);
}

/* Returns whether the first k elements are selected instead of sorting the row. A long row is then
** divided among blocks. */
static bool selects_first(int64_t n, int64_t k) {
  return k > 0 && k <= SELECT_MOST && n > SELECT_SHORT && n <= UINT32_MAX;
}

bool tlk_topk(const struct tlk_topk *call) {
  Keys in = keys_of(call->in, call->rows, call->n, call->descending);
  Picked out = {(char *)call->values.data, call->indices, call->k};
  if (call->rows > 0 && selects_first(call->n, call->k))
    return cuda_select_first(call->cx, &in, &out);
  return sort_rows(call->cx, in, out);
}

bool tlk_select_rank(const struct tlk_select_rank *call) {
  Keys in = keys_of(call->in, call->rows, call->n, false);
  Picked out = {(char *)call->values.data, call->indices, 1};
  if (call->rows == 0) return true;
  if (selects(call->rows, call->n))
    return cuda_select_rank(call->cx, &in, &out, call->rank, call->skip_nan);
  return is_large(in) ? run_ranked<LargePair>(call->cx, in, out, call->rank, call->skip_nan)
                      : run_ranked<Pair>(call->cx, in, out, call->rank, call->skip_nan);
}

bool tlk_mode(const struct tlk_mode *call) {
  Keys in = keys_of(call->in, call->rows, call->n, false);
  Picked out = {(char *)call->values.data, call->indices, 1};
  if (in.rows == 0) return true;
  return is_large(in) ? run_mode<LargePair>(call->cx, in, out) : run_mode<Pair>(call->cx, in, out);
}

bool tlk_row_order(const struct tlk_row_order *call) {
  Keys in = keys_of(call->in, call->n, call->m, false);
  Scratch spare(call->cx, call->n * (int64_t)sizeof(int64_t));
  unsigned grid = blocks_for(call->cx, call->n, SORT_THREADS, 32);
  int passes = 0;
  if (call->n == 0) return true;
  if (spare.data == NULL) return false;
  if (call->n == 1) return launch(call->cx, first_row_kernel, dim3(1), 1, 0, call->order);
  for (int64_t run = 1; run < call->n; run *= 2) passes++;
  /* the two arrays alternate, and the first one is chosen so that the last pass writes to the
  ** result */
  int64_t *to = passes % 2 ? call->order : (int64_t *)spare.data, *from = NULL;
  for (int64_t run = 1; run < call->n; run *= 2) {
    if (!launch(call->cx, merge_kernel, dim3(grid), SORT_THREADS, 0, in, run, from, to))
      return false;
    from = to;
    to = to == call->order ? (int64_t *)spare.data : call->order;
  }
  return true;
}
