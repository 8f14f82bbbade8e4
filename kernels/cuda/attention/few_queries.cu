/*
** few_queries.cu - attention of a few queries to many keys, as in decoding. The keys are split
** among blocks, and a second kernel combines the blocks' results (T. Dao et al., "Flash-Decoding
** for long-context inference", 2023). The split points depend only on the sizes and the device.
*/
#include "kernels/cuda/attention/few_queries.cuh"

#define THREADS 256
#define WARPS (THREADS / WARP)
#define MOST_QUERIES 16
#define LEAST_KEYS 128 /* smallest number of keys that a block processes */
/* largest number of elements of a row: 32 threads each hold 16 bytes of a half type */
#define MOST_ELEMENTS 256

using namespace few;

namespace {

/* The 16 bytes that a thread loads of each of N rows at once, and the address of its next N
** rows. */
template <int N> struct Rows {
  const char *at;
  int64_t step; /* distance in bytes between two consecutive rows that the thread loads */
  Words words[N];

  /* Loads the rows with the numbers first, first + teams, ... that are less than `rest`, and sets
  ** the other rows to zeros. */
  __device__ __forceinline__ void load(int first, int teams, int rest) {
#pragma unroll
    for (int u = 0; u < N; u++) {
      words[u] = Words{};
      if (first + u * teams < rest) words[u] = *reinterpret_cast<const Words *>(at);
      at += step;
    }
  }
};

/* The running softmax of one row: the largest score, the sum of the weights, and the weighted sum
** of this thread's E elements of the values. */
template <int E> struct Running {
  float most, total, sum[E];

  /* Makes `now` the new maximum: multiplies the sums by e^(most - now). */
  __device__ __forceinline__ void rescale(float now) {
    float factor = most == -INFINITY ? 0 : exp(most - now);
    total *= factor;
#pragma unroll
    for (int e = 0; e < E; e++) sum[e] *= factor;
    most = now;
  }
};

/* The number of blocks that a multiprocessor runs at the same time. */
constexpr int few_blocks(int rows) { return rows == 1 ? 4 : 2; }

template <class S, int R>
__global__ void __launch_bounds__(THREADS, few_blocks(R))
    few_kernel(const __grid_constant__ tlk_Attention a, const __grid_constant__ Work w) {
  /* E is the number of elements of a row that a thread holds. UNROLL is the number of keys that it
  ** loads at once. */
  enum { E = 16 / sizeof(S), UNROLL = 2 };
  __shared__ float sums[WARPS][R][MOST_ELEMENTS];
  __shared__ float largest[WARPS][R], totals[WARPS][R];
  int64_t group = blockIdx.x % w.groups, kv = blockIdx.x / w.groups % a.kv_heads;
  int64_t batch = blockIdx.x / w.groups / a.kv_heads, ratio = a.heads / a.kv_heads;
  int lane = threadIdx.x & (w.lanes - 1), team = threadIdx.x / w.lanes, teams = THREADS / w.lanes;
  int warp = threadIdx.x / WARP;
  bool used = lane * E < a.size;
  bool plain = a.mask.array.data == NULL && !a.causal;
  float query[R][E], scale = (float)a.scale;
  int64_t head[R], place[R]; /* for each row, the head and the index of its query */
  Running<E> run[R];

#pragma unroll
  for (int r = 0; r < R; r++) {
    int64_t row = group * R + r;
    /* a block's rows past the end repeat the last row, which is then computed several times but
    ** stored once */
    if (row >= w.rows) row = w.rows - 1;
    head[r] = kv * ratio + row / a.queries;
    place[r] = row % a.queries;
    const S *at = static_cast<const S *>(a.query.data) + batch * a.query.batch +
                  head[r] * a.query.head + place[r] * a.query.row;
    run[r].most = -INFINITY;
    run[r].total = 0;
#pragma unroll
    for (int e = 0; e < E; e++) {
      query[r][e] = used ? widen(at[lane * E + e]) : 0.0f;
      run[r].sum[e] = 0;
    }
  }
  int64_t begin = blockIdx.y * w.share, end = begin + w.share;
  if (end > a.keys) end = a.keys;
  /* a thread whose elements would lie beyond the end of a row starts past the last key, so it loads
  ** no rows */
  int mine = used ? team : MOST_KEYS;
  const S *keys = static_cast<const S *>(a.key.data) + batch * a.key.batch + kv * a.key.head;
  const S *values =
      static_cast<const S *>(a.value.data) + batch * a.value.batch + kv * a.value.head;
  Rows<UNROLL> key, value;
  key.at = reinterpret_cast<const char *>(keys + (begin + team) * a.key.row + lane * E);
  value.at = reinterpret_cast<const char *>(values + (begin + team) * a.value.row + lane * E);
  key.step = teams * a.key.row * (int64_t)sizeof(S);
  value.step = teams * a.value.row * (int64_t)sizeof(S);
  int rest = (int)(end - begin);
  key.load(mine, teams, rest);
  value.load(mine, teams, rest);
#pragma unroll 1
  for (; rest > 0; rest -= teams * UNROLL) {
    float s[R][UNROLL];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        s[r][u] = 0;
#pragma unroll
        for (int e = 0; e < E; e++) s[r][u] += query[r][e] * key.words[u].template element<S>(e);
      }
    /* starts to load the next keys before the softmax, and the next values before the products of
    ** these keys, so that they arrive meanwhile */
    key.load(mine, teams, rest - teams * UNROLL);
#pragma unroll
    for (int r = 0; r < R; r++) {
      float now = run[r].most;
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        float product = s[r][u];
#pragma unroll
        for (int mask = WARP / 2; mask > 0; mask /= 2)
          if (mask < w.lanes) product += shuffle_xor(product, mask);
        int j = u * teams + team;
        s[r][u] = j >= rest ? -INFINITY
                  : plain   ? product * scale
                            : score<float>(a, product, batch, head[r], place[r], end - rest + j);
        now = Larger()(now, s[r][u]);
      }
      /* the rest of the loop's body has no shuffles, in which other lanes would need this thread */
      if (now == -INFINITY) continue;
      run[r].rescale(now);
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        float weight = weight_of(s[r][u] - now, S());
        run[r].total += weight;
#pragma unroll
        for (int e = 0; e < E; e++) run[r].sum[e] += weight * value.words[u].template element<S>(e);
      }
    }
    value.load(mine, teams, rest - teams * UNROLL);
  }

#pragma unroll
  for (int r = 0; r < R; r++) {
    float now = run[r].most;
    for (int mask = WARP / 2; mask >= w.lanes; mask /= 2)
      now = Larger()(now, shuffle_xor(now, mask));
    if (now != -INFINITY) run[r].rescale(now);
    for (int mask = WARP / 2; mask >= w.lanes; mask /= 2) {
      run[r].total += shuffle_xor(run[r].total, mask);
#pragma unroll
      for (int e = 0; e < E; e++) run[r].sum[e] += shuffle_xor(run[r].sum[e], mask);
    }
    if ((int)(threadIdx.x % WARP) < w.lanes && used)
#pragma unroll
      for (int e = 0; e < E; e++) sums[warp][r][lane * E + e] = run[r].sum[e];
    if (threadIdx.x % WARP == 0) {
      largest[warp][r] = now;
      totals[warp][r] = run[r].total;
    }
  }
  __syncthreads();
  store_partial(a, w, sums, largest, totals, group, (batch * a.kv_heads + kv) * w.rows);
}

/* Combines the partial results of the splits of each row to the row's result. One warp handles each
** row. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    join_kernel(const __grid_constant__ tlk_Attention a, tlk_HeadRows out, float *norm,
                const __grid_constant__ Work w) {
  int64_t of_all = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, size = a.size;
  if (of_all >= a.batch * a.kv_heads * w.rows) return;
  int64_t row = of_all % w.rows, kv = of_all / w.rows % a.kv_heads;
  int64_t batch = of_all / w.rows / a.kv_heads, i = row % a.queries;
  int64_t head = kv * (a.heads / a.kv_heads) + row / a.queries;
  const float *from = w.partial + of_all * w.splits * (size + 2);
  float now = -INFINITY, total = 0;
  for (int64_t s = 0; s < w.splits; s++) now = Larger()(now, from[s * (size + 2) + size]);
  for (int64_t s = 0; s < w.splits && now != -INFINITY; s++)
    total += from[s * (size + 2) + size + 1] * exp(from[s * (size + 2) + size] - now);
  S *to = static_cast<S *>(out.data) + batch * out.batch + head * out.head + i * out.row;
  for (int64_t d = threadIdx.x % WARP; d < size; d += WARP) {
    float sum = 0;
    for (int64_t s = 0; s < w.splits && now != -INFINITY; s++)
      sum += from[s * (size + 2) + d] * exp(from[s * (size + 2) + size] - now);
    to[d] = narrow<S>(total == 0 ? 0.0f : sum / total);
  }
  if (threadIdx.x % WARP == 0)
    norm[(batch * a.heads + head) * a.queries + i] = total == 0 ? 0.0f : now + log(total);
}

template <class S> bool run(const struct tlk_attention *call) {
  enum { E = 16 / sizeof(S) };
  const tlk_Attention &a = call->attention;
  const tlk_Context *cx = call->cx;
  Work w = {};
  w.rows = a.heads / a.kv_heads * a.queries;
  bool grouped = cuda_takes_grouped_queries(a, w.rows);
  int each = grouped ? GROUPED_ROWS : w.rows == 1 ? 1 : 4;
  w.groups = divide_up(w.rows, each);
  w.lanes = 1;
  while (w.lanes * E < a.size) w.lanes *= 2;
  int64_t keys = a.causal && a.queries < a.keys ? a.queries : a.keys;
  int64_t blocks = a.batch * a.kv_heads * w.groups;
  /* starts as many blocks as run at the same time */
  int resident = grouped ? GROUPED_BLOCKS : few_blocks(each);
  int64_t wanted = (int64_t)cuda_multiprocessors(cx->device.index) * resident / blocks;
  if (wanted < 1) wanted = 1;
  int64_t most = divide_up(keys, LEAST_KEYS), least = divide_up(keys, MOST_KEYS);
  if (wanted < least) wanted = least;
  w.share = divide_up(keys, wanted < most ? wanted : most);
  w.splits = divide_up(keys, w.share);
  int64_t all = a.batch * a.kv_heads * w.rows;
  Scratch partial(cx, all * w.splits * (a.size + 2) * (int64_t)sizeof(float));
  w.partial = (float *)partial.data;
  auto kernel = each == 1 ? few_kernel<S, 1> : few_kernel<S, 4>;
  dim3 grid((unsigned)blocks, (unsigned)w.splits);
  bool ok = partial.data && (grouped ? cuda_grouped_queries(call, w, blocks)
                                     : launch(cx, kernel, grid, THREADS, 0, a, w));
  return ok && launch(cx, join_kernel<S>, dim3((unsigned)divide_up(all, WARPS)), THREADS, 0, a,
                      call->out, (float *)call->norm, w);
}

/* Returns whether the rows can be read 16 bytes at a time. */
bool reads_vectors(const tlk_HeadRows &rows, int64_t bytes) {
  return aligned(rows.data, 16) &&
         (rows.batch * bytes | rows.head * bytes | rows.row * bytes) % 16 == 0;
}

} // namespace

bool cuda_takes_few_queries(const struct tlk_attention *call) {
  const tlk_Attention &a = call->attention;
  int64_t bytes = dtype_bytes(a.dtype);
  return a.dtype != TL_F64 && a.queries <= MOST_QUERIES && a.dropout <= 0 && a.size > 0 &&
         a.size == a.value_size && a.size * bytes % 16 == 0 && a.size * bytes <= 16 * WARP &&
         reads_vectors(a.key, bytes) && reads_vectors(a.value, bytes);
}

bool cuda_few_queries(const struct tlk_attention *call) {
  switch (call->attention.dtype) {
  case TL_F32: return run<float>(call);
  case TL_F16: return run<f16>(call);
  default: return run<bf16>(call);
  }
}
