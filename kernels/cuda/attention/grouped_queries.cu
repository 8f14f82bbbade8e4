/*
** grouped_queries.cu - attention of a few queries of half precision to many keys, where heads share
** their keys (J. Ainslie et al., "GQA", 2023) or a head has several queries. The keys are read once
** for up to eight rows of queries, and tensor cores compute the products.
**
** A warp takes 16 keys at a time. The scores (16 keys, 8 rows) are the product of the keys and the
** transposed queries. The sums (elements, 8 rows) are the product of the transposed values and the
** weights. The order of the elements in a product does not matter, so elements are assigned to
** threads such that each thread reads 16 bytes at once. Four threads share a row. Thread c of them
** takes elements 8 c to 8 c + 7 of each 32 elements, as its columns of two fragments. In the m-th
** of four fragments of values, the rows g and g + 8 are the elements 8 g + 2 m and 8 g + 2 m + 1 of
** each 64 elements.
*/
#include "kernels/cuda/attention/few_queries.cuh"
#include "kernels/cuda/attention/mma.cuh"

using namespace few;

namespace {

#define THREADS 128
#define WARPS (THREADS / WARP)
#define KEYS 16 /* number of keys that a warp takes at a time */

/* Returns the 16 bytes at `at` of a row; zeros if there is no such row. */
__device__ __forceinline__ Words words_of(const char *at, bool there) {
  Words words = {};
  if (there) words = *reinterpret_cast<const Words *>(at);
  return words;
}

template <class S, int SIZE>
__global__ void __launch_bounds__(THREADS, GROUPED_BLOCKS)
    grouped_kernel(const __grid_constant__ tlk_Attention a, const __grid_constant__ Work w) {
  enum { ROWS = GROUPED_ROWS, CHUNKS = SIZE / 32, PARTS = SIZE / 64, TILES = SIZE / 16 };
  __shared__ float sums[WARPS][ROWS][SIZE];
  __shared__ float largest[WARPS][ROWS], totals[WARPS][ROWS];
  int64_t group = blockIdx.x % w.groups, kv = blockIdx.x / w.groups % a.kv_heads;
  int64_t batch = blockIdx.x / w.groups / a.kv_heads, ratio = a.heads / a.kv_heads;
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, c = lane % 4;
  bool plain = a.mask.array.data == NULL && !a.causal;
  float scale = (float)a.scale;

  uint32_t query[CHUNKS][4];
  /* for rows 2 c and 2 c + 1, the head and the index of the row's query */
  int64_t head[2], place[2];
#pragma unroll
  for (int i = 0; i < 3; i++) {
    int64_t row = group * ROWS + (i < 2 ? 2 * c + i : g);
    /* a block's rows past the end repeat the last row, which is then computed several times but
    ** stored once */
    if (row >= w.rows) row = w.rows - 1;
    int64_t own = kv * ratio + row / a.queries, index = row % a.queries;
    if (i < 2) {
      head[i] = own;
      place[i] = index;
      continue;
    }
    const S *at = static_cast<const S *>(a.query.data) + batch * a.query.batch +
                  own * a.query.head + index * a.query.row + 8 * c;
#pragma unroll
    for (int k = 0; k < CHUNKS; k++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        query[k][e] = at[32 * k + 2 * e].bits | (uint32_t)at[32 * k + 2 * e + 1].bits << 16;
  }

  int64_t begin = blockIdx.y * w.share, end = begin + w.share;
  if (end > a.keys) end = a.keys;
  int count = (int)(end - begin);
  const S *keys = static_cast<const S *>(a.key.data) + batch * a.key.batch + kv * a.key.head;
  const S *values =
      static_cast<const S *>(a.value.data) + batch * a.value.batch + kv * a.value.head;
  const char *key_at =
      reinterpret_cast<const char *>(keys + (begin + warp * KEYS + g) * a.key.row + 8 * c);
  const char *value_at =
      reinterpret_cast<const char *>(values + (begin + warp * KEYS + 2 * c) * a.value.row + 8 * g);
  int64_t key_row = a.key.row * (int64_t)sizeof(S), value_row = a.value.row * (int64_t)sizeof(S);
  Words key[2][CHUNKS], value[4][PARTS];
  /* starts to load the warp's keys from key number `at` of the block on */
  auto load_keys = [&](int at) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int k = 0; k < CHUNKS; k++)
        key[r][k] = words_of(key_at + 8 * r * key_row + 64 * k, at + g + 8 * r < count);
    key_at += WARPS * KEYS * key_row;
  };
  auto load_values = [&](int at) {
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int k = 0; k < PARTS; k++)
        value[r][k] = words_of(value_at + (r % 2 + 8 * (r / 2)) * value_row + 128 * k,
                               at + 2 * c + r % 2 + 8 * (r / 2) < count);
    value_at += WARPS * KEYS * value_row;
  };

  float sum[TILES][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  load_keys(warp * KEYS);
  load_values(warp * KEYS);
#pragma unroll 1
  for (int first = warp * KEYS; first < count; first += WARPS * KEYS) {
    float s[4] = {};
#pragma unroll
    for (int k = 0; k < CHUNKS; k++)
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        uint32_t left[4] = {key[0][k].at[e], key[1][k].at[e], key[0][k].at[e + 1],
                            key[1][k].at[e + 1]};
        uint32_t right[2] = {query[k][e], query[k][e + 1]};
        mma<S>(s, left, right);
      }
    /* starts to load the next keys before the softmax, and the next values before the products of
    ** keys, so that they arrive meanwhile */
    load_keys(first + WARPS * KEYS);
    float now[2] = {most[0], most[1]};
#pragma unroll
    for (int n = 0; n < 4; n++) {
      int q = n % 2, j = first + g + n / 2 * 8;
      s[n] = j >= count ? -INFINITY
             : plain    ? s[n] * scale
                        : score<float>(a, s[n], batch, head[q], place[q], begin + j);
      now[q] = Larger()(now[q], s[n]);
    }
#pragma unroll
    for (int q = 0; q < 2; q++) {
#pragma unroll
      for (int mask = 4; mask < WARP; mask *= 2)
        now[q] = Larger()(now[q], shuffle_xor(now[q], mask));
      float factor = most[q] == -INFINITY ? 0 : exp(most[q] - now[q]);
      total[q] *= factor;
      most[q] = now[q];
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        sum[t][q] *= factor;
        sum[t][q + 2] *= factor;
      }
    }
#pragma unroll
    for (int n = 0; n < 4; n++) {
      /* until the first visible key all scores are -inf, and -inf - (-inf) would be NaN */
      s[n] = now[n % 2] == -INFINITY ? 0 : weight_of(s[n] - now[n % 2], S());
      total[n % 2] += s[n];
    }
    uint32_t weights[2] = {transposed(packed(s[0], s[1], S())),
                           transposed(packed(s[2], s[3], S()))};
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      uint32_t x[4];
#pragma unroll
      for (int r = 0; r < 4; r++) x[r] = value[r][t / 4].at[t % 4];
      uint32_t left[4] = {(x[0] & 0xffff) | x[1] << 16, x[0] >> 16 | (x[1] & 0xffff0000),
                          (x[2] & 0xffff) | x[3] << 16, x[2] >> 16 | (x[3] & 0xffff0000)};
      mma<S>(sum[t], left, weights);
    }
    load_values(first + WARPS * KEYS);
  }

#pragma unroll
  for (int q = 0; q < 2; q++) {
#pragma unroll
    for (int mask = 4; mask < WARP; mask *= 2) total[q] += shuffle_xor(total[q], mask);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        sums[warp][2 * c + q][t / 4 * 64 + 8 * g + t % 4 * 2 + e] = sum[t][q + 2 * e];
    if (g == 0) {
      largest[warp][2 * c + q] = most[q];
      totals[warp][2 * c + q] = total[q];
    }
  }
  __syncthreads();
  store_partial(a, w, sums, largest, totals, group, (batch * a.kv_heads + kv) * w.rows);
}

template <class S> bool run(const struct tlk_attention *call, const Work &w, int64_t blocks) {
  auto kernel = call->attention.size == 64 ? grouped_kernel<S, 64> : grouped_kernel<S, 128>;
  return launch(call->cx, kernel, dim3((unsigned)blocks, (unsigned)w.splits), THREADS, 0,
                call->attention, w);
}

} // namespace

bool cuda_takes_grouped_queries(const tlk_Attention &a, int64_t rows) {
  return rows > 1 && dtype_bytes(a.dtype) == 2 && (a.size == 64 || a.size == 128);
}

bool cuda_grouped_queries(const struct tlk_attention *call, const Work &w, int64_t blocks) {
  return call->attention.dtype == TL_F16 ? run<f16>(call, w, blocks) : run<bf16>(call, w, blocks);
}
