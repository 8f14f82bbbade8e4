/*
** scatter.cu - deterministic scatter: elements with the same position are combined in a fixed
** order. If there are many lines, or if the lines are short, each line is processed by one thread
** from its first to its last element. Otherwise the positions are sorted, and each run of equal
** positions is combined separately.
*/
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/index/line_loop.h"
#include "kernels/cuda/sort/radix.cuh"

namespace {

#define SCATTER_THREADS 256

/* The sizes and strides of a line, copied from tlk_IndexCall. `out` describes the indexed
** operand. */
struct Line {
  int64_t count, n, out, index, in;
  tlk_Join join;
};

/* The unsigned type in which integers are added and multiplied, so that results wrap around. */
template <class T> struct Unsigned { typedef T type; };
template <> struct Unsigned<int32_t> { typedef uint32_t type; };
template <> struct Unsigned<int64_t> { typedef uint64_t type; };

/* Combines the old value a with a new value b. */
template <class T> __device__ __forceinline__ T joined(tlk_Join join, T a, T b) {
  typedef typename Unsigned<T>::type U;
  switch (join) {
  case TLK_JOIN_ADD: return (T)((U)a + (U)b);
  case TLK_JOIN_MUL: return (T)((U)a * (U)b);
  case TLK_JOIN_MAX: return a > b || a != a ? a : b;
  case TLK_JOIN_MIN: return a < b || a != a ? a : b;
  default: return b;
  }
}
/* For complex numbers, only sums, products and replacements are needed, because operators refuse to
** compute their maximum. */
template <class R>
__device__ __forceinline__ Complex<R> joined(tlk_Join join, Complex<R> a, Complex<R> b) {
  return join == TLK_JOIN_ADD ? a + b : join == TLK_JOIN_MUL ? a * b : b;
}

/* ---- one thread for each line ---------------------------------------------------------------- */

template <class T>
__global__ void __launch_bounds__(SCATTER_THREADS, 4)
    lines_kernel(const __grid_constant__ Strided<3> s, const __grid_constant__ Line line) {
  enum { K = 4 }; /* number of elements that a thread loads before it combines them */
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel; i += (uint32_t)thread_count()) {
    int64_t offset[3];
    s.offsets(i, offset);
    char *out = s.data[0] + offset[0];
    for (int64_t k = 0; k < line.count; k += K) {
      int64_t at[K];
      T x[K];
#pragma unroll
      for (int j = 0; j < K; j++) {
        at[j] = 0;
        if (k + j >= line.count) continue;
        at[j] = *static_cast<const int64_t *>(s.source(1, offset[1] + (k + j) * line.index));
        x[j] = *static_cast<const T *>(s.source(2, offset[2] + (k + j) * line.in));
      }
#pragma unroll
      for (int j = 0; j < K; j++) {
        if (at[j] < 1 || at[j] > line.n) continue;
        T *place = reinterpret_cast<T *>(out + (at[j] - 1) * line.out);
        *place = line.join == TLK_JOIN_SET ? x[j] : joined(line.join, *place, x[j]);
      }
    }
  }
}

template <class T> bool along_lines(const tlk_Context *cx, const tli_Iter &it, const Line &line) {
  return for_parts<3>(it, [&](const Strided<3> &s) {
    unsigned grid = blocks_for(cx, s.numel, SCATTER_THREADS, 16);
    return launch(cx, lines_kernel<T>, dim3(grid), SCATTER_THREADS, 0, s, line);
  });
}

/* ---- sorted positions ------------------------------------------------------------------------ */

/* Writes the items to sort. Element k of line l becomes item l * count + k. The item's key is l * n
** + position - 1, or `none` if the position is out of range. If all lines share an index, there is
** only one line of items. */
template <class Item>
__global__ void __launch_bounds__(SCATTER_THREADS, 4)
    items_kernel(const __grid_constant__ Strided<3> s, const __grid_constant__ Line line,
                 int64_t all, int64_t none, Item *items) {
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    int64_t l = e / line.count, k = e - l * line.count, offset[3];
    s.offsets((uint32_t)l, offset);
    int64_t at = *static_cast<const int64_t *>(s.source(1, offset[1] + k * line.index));
    bool valid = at >= 1 && at <= line.n;
    items[e] = Item::of((uint64_t)(valid ? l * line.n + at - 1 : none), (uint64_t)e);
  }
}

/* Returns whether the run of equal keys that contains item `at` must be processed at this item: at
** the run's first item or, if `set`, at its last item, because the last value is stored. */
template <class Item>
__device__ __forceinline__ bool decides(const Item *items, int64_t all, int64_t none, int64_t at,
                                        bool set) {
  uint64_t key = items[at].key();
  if (key == (uint64_t)none) return false;
  int64_t beside = set ? at + 1 : at - 1;
  return beside < 0 || beside >= all || items[beside].key() != key;
}

/* Combines the items of an index that all lines share: blockIdx.y runs over items, and the threads
** along x run over lines. */
template <class T, class Item>
__global__ void __launch_bounds__(SCATTER_THREADS, 4)
    shared_kernel(const __grid_constant__ Strided<3> s, const __grid_constant__ Line line,
                  int64_t all, int64_t none, const Item *items) {
  enum { K = 4 };
  bool set = line.join == TLK_JOIN_SET;
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel; i += (uint32_t)thread_count()) {
    int64_t offset[3];
    s.offsets(i, offset);
    for (int64_t e = blockIdx.y; e < all; e += gridDim.y) {
      if (!decides(items, all, none, e, set)) continue;
      uint64_t key = items[e].key();
      T *place = reinterpret_cast<T *>(s.data[0] + offset[0] + (int64_t)key * line.out);
      T value = set ? T(0) : *place;
      for (int64_t first = e; first >= 0;) {
        T x[K];
        int m = 0;
#pragma unroll
        for (int j = 0; j < K; j++) {
          bool same = m == j && first + j < all && items[first + j].key() == key;
          if (!same) continue;
          m = j + 1;
          x[j] =
              *static_cast<const T *>(s.source(2, offset[2] + items[first + j].place() * line.in));
        }
#pragma unroll
        for (int j = 0; j < K; j++)
          if (j < m) value = joined(line.join, value, x[j]);
        first = m == K && !set ? first + K : -1;
      }
      *place = value;
    }
  }
}

/* The largest number of items in a run that a single thread combines; a longer run is combined by a
** whole warp. This limit applies if there are few lines, or if each line has its own index. */
#define SHORT_RUN 16

template <class T>
__device__ __forceinline__ T element(const Strided<3> &s, const Line &line, int64_t offset,
                                     int64_t k) {
  return *static_cast<const T *>(s.source(2, offset + k * line.in));
}

/* Combines all items with the same key, from item `first` on. The threads of a warp share the
** work. */
template <class T, class Item>
__device__ __forceinline__ T join_run(const Strided<3> &s, const Line &line, const Item *items,
                                      int64_t all, int64_t first, uint64_t key, int64_t offset,
                                      T value) {
  int lane = threadIdx.x % WARP;
  bool any = false;
  T own = T(0);
  for (int64_t e = first + lane; e < all && items[e].key() == key; e += WARP) {
    T x = element<T>(s, line, offset, items[e].place() % line.count);
    own = any ? joined(line.join, own, x) : x;
    any = true;
  }
#pragma unroll
  for (int step = 1; step < WARP; step *= 2) {
    struct {
      int words[(sizeof(T) + 3) / 4];
    } bits = {};
    memcpy(&bits, &own, sizeof own);
    bits = shuffle_xor(bits, step);
    bool others = __shfl_xor_sync(ALL_LANES, (int)any, step) != 0;
    T other;
    memcpy(&other, &bits, sizeof other);
    bool first_half = (lane & step) == 0;
    T a = first_half ? own : other, b = first_half ? other : own;
    own = any && others ? joined(line.join, a, b) : any ? own : other;
    any = any || others;
  }
  return any ? joined(line.join, value, own) : value;
}

template <class T, class Item>
__global__ void __launch_bounds__(SCATTER_THREADS, 4)
    items_join_kernel(const __grid_constant__ Strided<3> s, const __grid_constant__ Line line,
                      int64_t all, int64_t none, bool shared, const Item *items) {
  bool set = line.join == TLK_JOIN_SET;
  int lane = threadIdx.x % WARP;
  for (int64_t base = thread_index() - lane; base < all; base += thread_count()) {
    int64_t e = base + lane, offset[3] = {0, 0, 0};
    bool mine = e < all && decides(items, all, none, e, set), more = false;
    uint64_t key = mine ? items[e].key() : 0;
    T value = T(0), *place = NULL;
    if (mine) {
      int64_t l = shared ? blockIdx.y : (int64_t)key / line.n;
      s.offsets((uint32_t)l, offset);
      int64_t at = shared ? (int64_t)key : (int64_t)key - l * line.n;
      place = reinterpret_cast<T *>(s.data[0] + offset[0] + at * line.out);
      int64_t end = set ? e + 1 : e + SHORT_RUN;
      value = set ? T(0) : *place;
      for (int64_t i = e; i < end && i < all && items[i].key() == key; i++)
        value =
            joined(line.join, value, element<T>(s, line, offset[2], items[i].place() % line.count));
      more = !set && end < all && items[end].key() == key;
    }
    for (unsigned left = __ballot_sync(ALL_LANES, more); left != 0; left &= left - 1) {
      int who = __ffs((int)left) - 1;
      T total = join_run(s, line, items, all, base + who + SHORT_RUN, of_lane(key, who),
                         of_lane(offset[2], who), of_lane(value, who));
      if (lane == who) value = total;
    }
    if (mine) *place = value;
  }
}

#define FEW_LINES 32

template <class T, class Item>
bool join_sorted(const tlk_Context *cx, const tli_Iter &it, const Line &line, bool shared,
                 int64_t all, int64_t none, const Item *items) {
  return for_parts<3>(it, [&](const Strided<3> &s) {
    unsigned across = blocks_for(cx, s.numel, SCATTER_THREADS, 16);
    unsigned down = blocks_for(cx, all, SCATTER_THREADS, 16);
    if (!shared || s.numel < FEW_LINES)
      return launch(cx, items_join_kernel<T, Item>, dim3(down, shared ? s.numel : 1),
                    SCATTER_THREADS, 0, s, line, all, none, shared, items);
    int64_t rows = divide_up((int64_t)cuda_multiprocessors(cx->device.index) * 64, across);
    rows = rows < all ? rows : all;
    return launch(cx, shared_kernel<T, Item>, dim3(across, (unsigned)rows), SCATTER_THREADS, 0, s,
                  line, all, none, items);
  });
}

template <class T, class Item>
bool by_sorting(const tlk_Context *cx, const tli_Iter &it, const Line &line, bool shared) {
  int64_t lines = shared ? 1 : it.numel, all = lines * line.count, none = lines * line.n;
  int64_t bytes = all * (int64_t)sizeof(Item);
  Scratch first(cx, bytes), second(cx, bytes);
  Item *items = (Item *)first.data, *spare = (Item *)second.data;
  int bits = 1;
  while (bits < 63 && none >> bits != 0) bits++;
  if (items == NULL || spare == NULL) return false;
  /* uses the loop of a single line if lines share an index, because their positions are the same */
  tli_Iter one = it;
  if (shared) one.numel = 1;
  bool ok = for_parts<3>(one, [&](const Strided<3> &s) {
    unsigned grid = blocks_for(cx, all, SCATTER_THREADS, 16);
    return launch(cx, items_kernel<Item>, dim3(grid), SCATTER_THREADS, 0, s, line, all, none,
                  items);
  });
  return ok && sort_items(cx, &items, &spare, 1, all, bits) &&
         join_sorted<T, Item>(cx, it, line, shared, all, none, items);
}

/* ---- choosing -------------------------------------------------------------------------------- */

#define SHORT_LINE 64
#define MANY_LINES 32768

bool index_shared(const tli_Iter &it) {
  for (int d = 0; d < it.ndim; d++)
    if (it.sizes[d] > 1 && it.args[1].strides[d] != 0) return false;
  return true;
}

template <class T> bool run(const struct tlk_scatter *call) {
  const tlk_IndexCall &c = call->index;
  Line line = {c.count, c.n, c.strides[0], c.strides[1], c.strides[2], call->join};
  bool shared = index_shared(c.it);
  if (c.count <= SHORT_LINE || (!shared && c.it.numel >= MANY_LINES))
    return along_lines<T>(call->cx, c.it, line);
  int64_t lines = shared ? 1 : c.it.numel;
  bool small = c.n < UINT32_MAX / lines && c.count < UINT32_MAX / lines;
  return small ? by_sorting<T, Pair>(call->cx, c.it, line, shared)
               : by_sorting<T, LargePair>(call->cx, c.it, line, shared);
}

} // namespace

bool tlk_scatter(const struct tlk_scatter *call) {
  int dtype = call->index.it.args[0].dtype;
  if (call->index.it.numel == 0 || call->index.count == 0) return true;
  switch (dtype) {
  case TL_F32: return run<float>(call);
  case TL_F64: return run<double>(call);
  case TL_I32: return run<int32_t>(call);
  case TL_I64: return run<int64_t>(call);
  case TL_C64: return run<Complex<float>>(call);
  case TL_C128: return run<Complex<double>>(call);
  default: break;
  }
  return dtype_bytes(dtype) == 2 ? run<uint16_t>(call) : run<uint8_t>(call);
}
