/*
** attention.cu - attention and its gradients. Memory use is linear in the numbers of queries and
** keys.
**
** Each block processes one tile of queries and loops over tiles of keys. For the gradients of keys
** and values, each block processes one tile of keys and loops over tiles of queries. The forward
** pass keeps a running maximum and sum for each query (M. Milakov, N. Gimelshein, "Online
** normalizer calculation for softmax", 2018; T. Dao et al., "FlashAttention", 2022). The backward
** pass recomputes the weights from the scores and from `norm`, which the forward pass saves for
** each query. Each output element is summed by one block, in a fixed order. If cuDNN can compute a
** call, cuDNN does the work instead. Calls with few queries are computed in few_queries.cu.
*/
#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/lib/lib.h"

#define THREADS 256
#define WARPS (THREADS / WARP)
/* The number of blocks that a multiprocessor must be able to run at the same time. Kernels for
** doubles need more registers. */
#define BLOCKS(S) (sizeof(S) == 8 ? 1 : 3)

/* ---- parts of kernels ------------------------------------------------------------------------ */

/* The part of the result that one block computes: its sample, its head, and the first row of its
** tile. */
struct Place {
  int64_t batch, head, first;
};

DEVICE Place place_of(int64_t tiles, int64_t heads, int tile) {
  int64_t block = blockIdx.x;
  return {block / tiles / heads, block / tiles % heads, block % tiles * tile};
}

/* Copies rows [first, first + tile) of (rows, size) to shared memory, where rows are `ld` elements
** apart. Rows past the end become zero. */
template <class S, class C>
__device__ __forceinline__ void load_rows(C *to, int ld, const tlk_HeadRows &from, int64_t batch,
                                          int64_t head, int64_t first, int64_t rows, int64_t size,
                                          int tile) {
  const S *at = static_cast<const S *>(from.data) + batch * from.batch + head * from.head;
  for (int64_t i = threadIdx.x; i < tile * size; i += THREADS) {
    int64_t row = i / size, col = i % size;
    to[row * ld + col] = first + row < rows ? (C)widen(at[(first + row) * from.row + col]) : C(0);
  }
}

template <class C> __device__ __forceinline__ C dot(const C *a, const C *b, int64_t n) {
  C sum = 0;
  for (int64_t d = 0; d < n; d++) sum += a[d] * b[d];
  return sum;
}

/* Returns the factor by which dropout multiplies a weight: 0 if the weight is dropped, otherwise
** the scale. */
DEVICE double kept(const tlk_Attention &a, int64_t batch, int64_t head, int64_t i, int64_t j) {
  uint32_t words[4];
  if (a.dropout <= 0) return 1;
  int64_t row = (batch * a.heads + head) * a.queries + i, blocks = (a.keys + 3) / 4;
  uint64_t seed = a.state ? a.state[0] : a.seed, block = a.block + (a.state ? a.state[1] : 0);
  tli_philox(seed, block + (uint64_t)(row * blocks + j / 4), words);
  uint32_t low = j & 1 ? words[1] : words[0], high = j & 1 ? words[3] : words[2];
  double keep = 1 - a.dropout;
  return (double)(j & 2 ? high : low) < keep * 4294967296.0 ? 1 / keep : 0;
}

/* Returns the end of the range of keys that the queries of a tile may attend to. */
DEVICE int64_t keys_seen(const tlk_Attention &a, int64_t first, int tile) {
  int64_t last = first + tile < a.queries ? first + tile : a.queries;
  return a.causal && last < a.keys ? last : a.keys;
}

/* Returns the distance between rows in shared memory. The distance is odd, so that the elements of
** a column lie in different banks. */
static __host__ __device__ __forceinline__ int padded(int64_t size) { return (int)(size | 1); }

/* ---- forward --------------------------------------------------------------------------------- */

template <class S>
__global__ void __launch_bounds__(THREADS)
    attention_kernel(const __grid_constant__ tlk_Attention a, tlk_HeadRows out, void *norm,
                     int64_t tiles, int tile) {
  typedef typename Sum<S>::type C;
  Place p = place_of(tiles, a.heads, tile);
  int64_t kv_head = p.head / (a.heads / a.kv_heads);
  int ld = padded(a.size), ldv = padded(a.value_size), lds = tile + 1;
  C *query = dynamic_shared<C>(), *key = query + tile * ld, *value = key + tile * ld;
  C *result = value + tile * ldv, *weight = result + tile * ldv;
  C *most = weight + tile * lds, *total = most + tile, *shrink = total + tile;
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

  load_rows<S>(query, ld, a.query, p.batch, p.head, p.first, a.queries, a.size, tile);
  for (int i = threadIdx.x; i < tile * ldv; i += THREADS) result[i] = 0;
  for (int i = threadIdx.x; i < tile; i += THREADS) {
    most[i] = -(C)INFINITY;
    total[i] = 0;
  }
  int64_t keys = keys_seen(a, p.first, tile);
  for (int64_t j0 = 0; j0 < keys; j0 += tile) {
    __syncthreads();
    load_rows<S>(key, ld, a.key, p.batch, kv_head, j0, a.keys, a.size, tile);
    load_rows<S>(value, ldv, a.value, p.batch, kv_head, j0, a.keys, a.value_size, tile);
    __syncthreads();
    for (int e = threadIdx.x; e < tile * tile; e += THREADS) {
      int i = e / tile, j = e % tile;
      weight[i * lds + j] = score<C>(a, dot(query + i * ld, key + j * ld, a.size), p.batch, p.head,
                                     p.first + i, j0 + j);
    }
    __syncthreads();
    for (int i = warp; i < tile; i += WARPS) {
      C s = lane < tile ? weight[i * lds + lane] : -(C)INFINITY;
      C before = most[i], now = warp_reduce(s, [](C x, C y) { return x > y ? x : y; });
      now = now > before ? now : before;
      C w = s == -(C)INFINITY ? C(0) : exp(s - now);
      C sum = warp_reduce(w, [](C x, C y) { return x + y; });
      C factor = before == -(C)INFINITY ? C(0) : exp(before - now);
      if (lane < tile)
        weight[i * lds + lane] = w * (C)kept(a, p.batch, p.head, p.first + i, j0 + lane);
      /* most[i] may be overwritten only after all lanes have read it, and a shuffle does not order
      ** accesses to memory */
      __syncwarp();
      if (lane == 0) {
        most[i] = now;
        total[i] = total[i] * factor + sum;
        shrink[i] = factor;
      }
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < tile * a.value_size; e += THREADS) {
      int64_t i = e / a.value_size, d = e % a.value_size;
      C sum = result[i * ldv + d] * shrink[i];
      for (int j = 0; j < tile; j++) sum += weight[i * lds + j] * value[j * ldv + d];
      result[i * ldv + d] = sum;
    }
  }
  __syncthreads();
  S *to = static_cast<S *>(out.data) + p.batch * out.batch + p.head * out.head;
  for (int64_t e = threadIdx.x; e < tile * a.value_size; e += THREADS) {
    int64_t i = e / a.value_size, d = e % a.value_size;
    if (p.first + i < a.queries)
      to[(p.first + i) * out.row + d] =
          narrow<S>(total[i] == 0 ? C(0) : result[i * ldv + d] / total[i]);
  }
  C *norms = static_cast<C *>(norm) + (p.batch * a.heads + p.head) * a.queries;
  for (int i = threadIdx.x; i < tile; i += THREADS)
    if (p.first + i < a.queries)
      norms[p.first + i] = total[i] == 0 ? C(0) : most[i] + log(total[i]);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The arguments that the kernels of the backward pass share. */
struct Backward {
  tlk_Attention a;
  tlk_HeadRows grad_query, grad_key, grad_value, grad_out, out;
  tlk_HeadPairs grad_mask;
  const void *norm;
  void *delta; /* for each query, the dot product of grad_out and out */
  int64_t tiles;
  int tile;
};

/* Computes `delta` of struct Backward. Each warp processes one query. */
template <class S>
__global__ void __launch_bounds__(THREADS) delta_kernel(const __grid_constant__ Backward b) {
  typedef typename Sum<S>::type C;
  const tlk_Attention &a = b.a;
  int64_t n = a.batch * a.heads * a.queries, step = (int64_t)gridDim.x * WARPS;
  for (int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; r < n; r += step) {
    int64_t batch = r / a.queries / a.heads, head = r / a.queries % a.heads, row = r % a.queries;
    const S *x = static_cast<const S *>(b.grad_out.data) + batch * b.grad_out.batch +
                 head * b.grad_out.head + row * b.grad_out.row;
    const S *y = static_cast<const S *>(b.out.data) + batch * b.out.batch + head * b.out.head +
                 row * b.out.row;
    C sum = 0;
    for (int64_t d = threadIdx.x % WARP; d < a.value_size; d += WARP)
      sum += (C)widen(x[d]) * (C)widen(y[d]);
    sum = warp_reduce(sum, [](C s, C t) { return s + t; });
    if (threadIdx.x % WARP == 0) static_cast<C *>(b.delta)[r] = sum;
  }
}

/* Computes the weight of query i and key j, and the gradient of their score, from the dot products
** query . key and grad_out . value. */
template <class C>
__device__ __forceinline__ void pair(const Backward &b, C qk, C gv, int64_t batch, int64_t head,
                                     int64_t i, int64_t j, C *weight, C *grad) {
  const tlk_Attention &a = b.a;
  C s = score<C>(a, qk, batch, head, i, j);
  *weight = *grad = 0;
  if (s == -(C)INFINITY) return;
  int64_t row = (batch * a.heads + head) * a.queries + i;
  C p = exp(s - static_cast<const C *>(b.norm)[row]);
  C keep = (C)kept(a, batch, head, i, j);
  *weight = p * keep;
  *grad = p * (keep * gv - static_cast<const C *>(b.delta)[row]);
}

template <class S>
__global__ void __launch_bounds__(THREADS, BLOCKS(S))
    query_kernel(const __grid_constant__ Backward b) {
  typedef typename Sum<S>::type C;
  const tlk_Attention &a = b.a;
  int tile = b.tile;
  Place p = place_of(b.tiles, a.heads, tile);
  int64_t kv_head = p.head / (a.heads / a.kv_heads);
  int ld = padded(a.size), ldv = padded(a.value_size), lds = tile + 1;
  C *query = dynamic_shared<C>(), *key = query + tile * ld, *result = key + tile * ld;
  C *value = result + tile * ld, *grad_out = value + tile * ldv, *grad = grad_out + tile * ldv;
  const tlk_HeadPairs &m = b.grad_mask;
  bool own_mask = m.array.data && m.batch && m.head && m.query;

  load_rows<S>(query, ld, a.query, p.batch, p.head, p.first, a.queries, a.size, tile);
  load_rows<S>(grad_out, ldv, b.grad_out, p.batch, p.head, p.first, a.queries, a.value_size, tile);
  for (int i = threadIdx.x; i < tile * ld; i += THREADS) result[i] = 0;
  int64_t keys = keys_seen(a, p.first, tile);
  for (int64_t j0 = 0; j0 < keys; j0 += tile) {
    __syncthreads();
    load_rows<S>(key, ld, a.key, p.batch, kv_head, j0, a.keys, a.size, tile);
    load_rows<S>(value, ldv, a.value, p.batch, kv_head, j0, a.keys, a.value_size, tile);
    __syncthreads();
    for (int e = threadIdx.x; e < tile * tile; e += THREADS) {
      int i = e / tile, j = e % tile;
      C weight, g;
      pair<C>(b, dot(query + i * ld, key + j * ld, a.size),
              dot(grad_out + i * ldv, value + j * ldv, a.value_size), p.batch, p.head, p.first + i,
              j0 + j, &weight, &g);
      grad[i * lds + j] = g;
      if (own_mask && p.first + i < a.queries && j0 + j < a.keys)
        static_cast<C *>(m.array.data)[p.batch * m.batch + p.head * m.head +
                                       (p.first + i) * m.query + (j0 + j) * m.key] += g;
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < tile * a.size; e += THREADS) {
      int64_t i = e / a.size, d = e % a.size;
      C sum = result[i * ld + d];
      for (int j = 0; j < tile; j++) sum += grad[i * lds + j] * key[j * ld + d];
      result[i * ld + d] = sum;
    }
  }
  __syncthreads();
  if (b.grad_query.data == NULL) return;
  S *to = static_cast<S *>(b.grad_query.data) + p.batch * b.grad_query.batch +
          p.head * b.grad_query.head;
  for (int64_t e = threadIdx.x; e < tile * a.size; e += THREADS) {
    int64_t i = e / a.size, d = e % a.size;
    if (p.first + i < a.queries)
      to[(p.first + i) * b.grad_query.row + d] = narrow<S>(result[i * ld + d] * (C)a.scale);
  }
}

/* Computes the gradients of keys and values. Each block processes one tile of the keys of one
** key/value head. */
template <class S>
__global__ void __launch_bounds__(THREADS, BLOCKS(S))
    key_kernel(const __grid_constant__ Backward b) {
  typedef typename Sum<S>::type C;
  const tlk_Attention &a = b.a;
  int tile = b.tile;
  Place p = place_of(b.tiles, a.kv_heads, tile);
  int64_t heads = a.heads / a.kv_heads;
  int ld = padded(a.size), ldv = padded(a.value_size), lds = tile + 1;
  C *query = dynamic_shared<C>(), *key = query + tile * ld, *grad_key = key + tile * ld;
  C *value = grad_key + tile * ld, *grad_out = value + tile * ldv;
  C *grad_value = grad_out + tile * ldv, *weight = grad_value + tile * ldv;
  C *grad = weight + tile * lds;

  load_rows<S>(key, ld, a.key, p.batch, p.head, p.first, a.keys, a.size, tile);
  load_rows<S>(value, ldv, a.value, p.batch, p.head, p.first, a.keys, a.value_size, tile);
  for (int i = threadIdx.x; i < tile * ld; i += THREADS) grad_key[i] = 0;
  for (int i = threadIdx.x; i < tile * ldv; i += THREADS) grad_value[i] = 0;
  int64_t from = a.causal ? p.first / tile * tile : 0;
  for (int64_t head = p.head * heads; head < (p.head + 1) * heads; head++) {
    for (int64_t i0 = from; i0 < a.queries; i0 += tile) {
      __syncthreads();
      load_rows<S>(query, ld, a.query, p.batch, head, i0, a.queries, a.size, tile);
      load_rows<S>(grad_out, ldv, b.grad_out, p.batch, head, i0, a.queries, a.value_size, tile);
      __syncthreads();
      for (int e = threadIdx.x; e < tile * tile; e += THREADS) {
        int i = e / tile, j = e % tile;
        pair<C>(b, dot(query + i * ld, key + j * ld, a.size),
                dot(grad_out + i * ldv, value + j * ldv, a.value_size), p.batch, head, i0 + i,
                p.first + j, &weight[i * lds + j], &grad[i * lds + j]);
      }
      __syncthreads();
      for (int64_t e = threadIdx.x; e < tile * a.size; e += THREADS) {
        int64_t j = e / a.size, d = e % a.size;
        C sum = grad_key[j * ld + d];
        for (int i = 0; i < tile; i++) sum += grad[i * lds + j] * query[i * ld + d];
        grad_key[j * ld + d] = sum;
      }
      for (int64_t e = threadIdx.x; e < tile * a.value_size; e += THREADS) {
        int64_t j = e / a.value_size, d = e % a.value_size;
        C sum = grad_value[j * ldv + d];
        for (int i = 0; i < tile; i++) sum += weight[i * lds + j] * grad_out[i * ldv + d];
        grad_value[j * ldv + d] = sum;
      }
    }
  }
  __syncthreads();
  const tlk_HeadRows &gk = b.grad_key, &gv = b.grad_value;
  for (int64_t e = threadIdx.x; gk.data && e < tile * a.size; e += THREADS) {
    int64_t j = e / a.size, d = e % a.size;
    if (p.first + j < a.keys)
      static_cast<S *>(
          gk.data)[p.batch * gk.batch + p.head * gk.head + (p.first + j) * gk.row + d] =
          narrow<S>(grad_key[j * ld + d] * (C)a.scale);
  }
  for (int64_t e = threadIdx.x; gv.data && e < tile * a.value_size; e += THREADS) {
    int64_t j = e / a.value_size, d = e % a.value_size;
    if (p.first + j < a.keys)
      static_cast<S *>(
          gv.data)[p.batch * gv.batch + p.head * gv.head + (p.first + j) * gv.row + d] =
          narrow<S>(grad_value[j * ldv + d]);
  }
}

/* Computes the gradient of a mask that is broadcast over samples, heads or queries. One warp
** computes each element: each lane adds its share of the terms, and then the sums of the lanes are
** added. */
template <class S>
__global__ void __launch_bounds__(THREADS) mask_kernel(const __grid_constant__ Backward b) {
  typedef typename Sum<S>::type C;
  const tlk_Attention &a = b.a;
  const tlk_HeadPairs &m = b.grad_mask;
  int64_t batches = m.batch ? a.batch : 1, heads = m.head ? a.heads : 1;
  int64_t queries = m.query ? a.queries : 1;
  int64_t others_b = a.batch / batches, others_h = a.heads / heads, others_q = a.queries / queries;
  int64_t n = batches * heads * queries * a.keys, step = (int64_t)gridDim.x * WARPS;
  for (int64_t e = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; e < n; e += step) {
    int64_t j = e % a.keys, q = e / a.keys % queries, h = e / a.keys / queries % heads;
    int64_t s = e / a.keys / queries / heads;
    C sum = 0;
    for (int64_t r = threadIdx.x % WARP; r < others_b * others_h * others_q; r += WARP) {
      int64_t i = q + r % others_q, head = h + r / others_q % others_h;
      int64_t batch = s + r / others_q / others_h, kv = head / (a.heads / a.kv_heads);
      const S *query = static_cast<const S *>(a.query.data) + batch * a.query.batch +
                       head * a.query.head + i * a.query.row;
      const S *key = static_cast<const S *>(a.key.data) + batch * a.key.batch + kv * a.key.head +
                     j * a.key.row;
      const S *value = static_cast<const S *>(a.value.data) + batch * a.value.batch +
                       kv * a.value.head + j * a.value.row;
      const S *grad_out = static_cast<const S *>(b.grad_out.data) + batch * b.grad_out.batch +
                          head * b.grad_out.head + i * b.grad_out.row;
      C qk = 0, gv = 0, weight, grad;
      for (int64_t d = 0; d < a.size; d++) qk += (C)widen(query[d]) * (C)widen(key[d]);
      for (int64_t d = 0; d < a.value_size; d++) gv += (C)widen(grad_out[d]) * (C)widen(value[d]);
      pair<C>(b, qk, gv, batch, head, i, j, &weight, &grad);
      sum += grad;
    }
    sum = warp_reduce(sum, [](C x, C y) { return x + y; });
    if (threadIdx.x % WARP == 0)
      static_cast<C *>(m.array.data)[s * m.batch + h * m.head + q * m.query + j * m.key] += sum;
  }
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* Returns the largest tile size for which `bytes(tile)` bytes fit into a block's shared memory; 0
** if none fits. */
template <class Bytes> static int tile_for(const tlk_Context *cx, Bytes bytes) {
  int64_t most = cuda_shared_bytes(cx->device.index);
  int tile = WARP;
  while (tile > 0 && bytes(tile) > most) tile /= 2;
  return tile;
}

static bool too_wide(const tlk_Attention &a) {
  return cuda_fail(TL_EARG,
                   "attention: rows of %lld and %lld elements do not fit into the shared "
                   "memory of a GPU",
                   (long long)a.size, (long long)a.value_size);
}

template <class S> static bool forward(const struct tlk_attention *call) {
  typedef typename Sum<S>::type C;
  const tlk_Attention &a = call->attention;
  int64_t ld = padded(a.size), ldv = padded(a.value_size);
  auto bytes = [&](int64_t tile) {
    return tile * (2 * ld + 2 * ldv + tile + 4) * (int64_t)sizeof(C);
  };
  int tile = tile_for(call->cx, bytes);
  if (tile == 0) return too_wide(a);
  int64_t tiles = divide_up(a.queries, tile);
  return allow_shared(call->cx, attention_kernel<S>, (size_t)bytes(tile)) &&
         launch(call->cx, attention_kernel<S>, dim3((unsigned)(tiles * a.batch * a.heads)), THREADS,
                (size_t)bytes(tile), a, call->out, call->norm, tiles, tile);
}

template <class S> static bool backward(const struct tlk_attention_backward *call) {
  typedef typename Sum<S>::type C;
  const tlk_Attention &a = call->attention;
  const tlk_Context *cx = call->cx;
  int64_t ld = padded(a.size), ldv = padded(a.value_size), rows = a.batch * a.heads * a.queries;
  auto bytes = [&](int64_t tile) {
    return tile * (3 * ld + 3 * ldv + 2 * (tile + 1)) * (int64_t)sizeof(C);
  };
  Scratch delta(cx, rows * (int64_t)sizeof(C));
  Backward b = {a,
                call->grad_query,
                call->grad_key,
                call->grad_value,
                call->grad_out,
                call->out,
                call->grad_mask,
                call->norm,
                delta.data,
                0,
                tile_for(cx, bytes)};
  size_t shared = (size_t)bytes(b.tile);
  const tlk_HeadPairs &m = call->grad_mask;
  bool shares = m.array.data && !(m.batch && m.head && m.query);
  if (delta.data == NULL) return false;
  if (b.tile == 0) return too_wide(a);
  if (!launch(cx, delta_kernel<S>, dim3(blocks_for(cx, rows, WARPS)), THREADS, 0, b)) return false;
  b.tiles = divide_up(a.queries, b.tile);
  if ((call->grad_query.data || (m.array.data && !shares)) &&
      !(allow_shared(cx, query_kernel<S>, shared) &&
        launch(cx, query_kernel<S>, dim3((unsigned)(b.tiles * a.batch * a.heads)), THREADS, shared,
               b)))
    return false;
  b.tiles = divide_up(a.keys, b.tile);
  if ((call->grad_key.data || call->grad_value.data) &&
      !(allow_shared(cx, key_kernel<S>, shared) &&
        launch(cx, key_kernel<S>, dim3((unsigned)(b.tiles * a.batch * a.kv_heads)), THREADS, shared,
               b)))
    return false;
  unsigned grid = blocks_for(cx, a.keys * (m.query ? a.queries : 1) * (m.head ? a.heads : 1), 1);
  return !shares || launch(cx, mask_kernel<S>, dim3(grid), THREADS, 0, b);
}

bool tlk_attention(const struct tlk_attention *call) {
  bool done;
  if (!cuda_lib_attention(call, &done)) return false;
  if (cuda_counted(CUDA_ATTENTION_CUDNN, done)) return true;
  if (cuda_takes_few_queries(call)) return cuda_few_queries(call);
  WITH_FLOATING(call->attention.dtype, S, return forward<S>(call))
  return true;
}

bool tlk_attention_backward(const struct tlk_attention_backward *call) {
  bool done;
  if (!cuda_lib_attention_backward(call, &done)) return false;
  if (cuda_counted(CUDA_ATTENTION_CUDNN, done)) return true;
  WITH_FLOATING(call->attention.dtype, S, return backward<S>(call))
  return true;
}
