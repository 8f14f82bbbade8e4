/*
** few_queries.cuh - declarations and device code that the kernels of a few queries share.
*/
#ifndef TLK_CUDA_FEW_QUERIES_CUH
#define TLK_CUDA_FEW_QUERIES_CUH

#include "kernels/cuda/attention/attention.cuh"

#define MOST_KEYS (1 << 30) /* the largest number of keys that a block processes */

namespace few {

/* If several query heads share a key/value head, the rows of this head are the queries of all of
** them. A block computes R rows. The keys are divided into splits, and each split gives a partial
** result for each row: the weighted sum of the values, the largest score, and the sum of the
** weights. The partial results of row r begin at `partial` + r * splits * (size + 2), where r
** counts the rows of all heads. */
struct Work {
  int64_t rows, groups, splits, share; /* share: number of keys in each split */
  /* number of threads that compute the product with one key together, a power of two */
  int lanes;
  float *partial;
};

/* Computes e^x as precisely as the stored type requires. */
DEVICE float weight_of(float x, float) { return exp(x); }
DEVICE float weight_of(float x, f16) { return __expf(x); }
DEVICE float weight_of(float x, bf16) { return __expf(x); }

/* 16 bytes of a row. They stay packed in four registers until an element is needed. */
struct __align__(16) Words {
  uint32_t at[4];

  template <class S> __device__ __forceinline__ float element(int e) const {
    uint32_t bits = sizeof(S) == 4 ? at[e % 4] : at[e / 2] >> (e % 2 * 16);
    S x;
    memcpy(&x, &bits, sizeof x);
    return (float)widen(x);
  }
};

/* Returns the larger of two numbers, or NaN if either number is NaN. */
struct Larger {
  __device__ __forceinline__ float operator()(float a, float b) const {
    return b > a || b != b ? b : a;
  }
};

/* Joins the results of N warps, each of which has processed other keys, and stores R partial
** results: the weighted sums of the values, the largest scores, and the sums of the weights.
** `first` is the number of this head's first row. */
template <int N, int R, int SIZE>
__device__ __forceinline__ void
store_partial(const tlk_Attention &a, const Work &w, const float (&sums)[N][R][SIZE],
              const float (&largest)[N][R], const float (&totals)[N][R], int64_t group,
              int64_t first) {
  for (int r = threadIdx.x / WARP; r < R; r += N) {
    int64_t row = group * R + r;
    if (row >= w.rows) break;
    float *to = w.partial + ((first + row) * w.splits + blockIdx.y) * (a.size + 2);
    float now = -INFINITY, total = 0;
    for (int k = 0; k < N; k++) now = Larger()(now, largest[k][r]);
    for (int k = 0; k < N; k++)
      if (largest[k][r] != -INFINITY) total += totals[k][r] * exp(largest[k][r] - now);
    for (int d = threadIdx.x % WARP; d < a.size; d += WARP) {
      float sum = 0;
      for (int k = 0; k < N; k++)
        if (largest[k][r] != -INFINITY) sum += sums[k][r][d] * exp(largest[k][r] - now);
      to[d] = sum;
    }
    if (threadIdx.x % WARP == 0) {
      to[a.size] = now;
      to[a.size + 1] = total;
    }
  }
}

} // namespace few

#define GROUPED_ROWS 8   /* the number of rows of queries in a group */
#define GROUPED_BLOCKS 3 /* the number of blocks that a multiprocessor runs at the same time */

/* Returns whether cuda_grouped_queries can compute the partial results of a call in which a
** key/value head has `rows` rows of queries. */
bool cuda_takes_grouped_queries(const tlk_Attention &a, int64_t rows);
/* Computes the partial results on tensor cores. `blocks` counts the groups of rows of all heads. */
bool cuda_grouped_queries(const struct tlk_attention *call, const few::Work &w, int64_t blocks);

#endif
