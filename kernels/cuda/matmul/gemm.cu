/*
** gemm.cu - matrix products. Floating types use cuBLASLt. Integers, which wrap around, use a
** plain tiled kernel: a block computes a tile of 32 x 32; each thread loads one element of each
** tile of a and b and computes one element. Sums are in order, so results equal the CPU's.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/lib/lib.h"

#define TILE 32

/* ---- kernels -------------------------------------------------------------------------------- */

/* The argument of product_kernel: a tlk_Gemm with elements of type T. */
template <class T> struct Product {
  bool trans_a, trans_b;
  int64_t m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c;
  T alpha, beta;
  const T *a, *b;
  T *c;
};

/* Multiplies matrices. blockIdx.x counts tiles, `across` of them in a row; blockIdx.y counts
** matrices of the batch. */
template <class T>
__global__ void __launch_bounds__(TILE *TILE)
    product_kernel(Product<T> g, int64_t across, int64_t first) {
  __shared__ T tile_a[TILE][TILE + 1], tile_b[TILE][TILE + 1];
  int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
  int64_t down = blockIdx.x / across, row = down * TILE + y;
  int64_t col = (blockIdx.x - down * across) * TILE + x, batch = first + blockIdx.y;
  const T *a = g.a + batch * g.stride_a, *b = g.b + batch * g.stride_b;
  T sum = 0;
  for (int64_t p = 0; p < g.k; p += TILE) {
    bool in_a = row < g.m && p + x < g.k, in_b = col < g.n && p + y < g.k;
    tile_a[y][x] = in_a ? a[g.trans_a ? (p + x) * g.lda + row : row * g.lda + p + x] : T(0);
    tile_b[y][x] = in_b ? b[g.trans_b ? col * g.ldb + p + y : (p + y) * g.ldb + col] : T(0);
    __syncthreads();
    for (int q = 0; q < TILE; q++) sum = (T)(sum + (uint64_t)tile_a[y][q] * tile_b[q][x]);
    __syncthreads();
  }
  if (row >= g.m || col >= g.n) return;
  T *c = g.c + batch * g.stride_c + row * g.ldc + col;
  T old = g.beta ? (T)((uint64_t)*c * g.beta) : T(0);
  *c = (T)((uint64_t)sum * g.alpha + old);
}

/* Computes c *= beta, for products with k == 0. */
template <class S>
__global__ void scale_kernel(S *c, int64_t batch, int64_t m, int64_t n, int64_t ldc, int64_t stride,
                             double beta) {
  for (int64_t i = thread_index(); i < batch * m * n; i += thread_count()) {
    S *at = c + i / (m * n) * stride + i / n % m * ldc + i % n;
    *at = beta == 0 ? narrow<S>(0.0f) : narrow<S>((double)widen(*at) * beta);
  }
}

/* ---- launchers ------------------------------------------------------------------------------- */

static int64_t whole(const tl_Scalar &s) { return s.kind == TL_FLOATING ? (int64_t)s.f : s.i; }

/* Computes with unsigned integers, whose sums may wrap around. */
template <class T> static bool multiply(const tlk_Context *cx, const tlk_Gemm &g) {
  Product<T> p = {g.trans_a,
                  g.trans_b,
                  g.m,
                  g.n,
                  g.k,
                  g.lda,
                  g.ldb,
                  g.ldc,
                  g.stride_a,
                  g.stride_b,
                  g.stride_c,
                  (T)whole(g.alpha),
                  (T)whole(g.beta),
                  (const T *)g.a,
                  (const T *)g.b,
                  (T *)g.c};
  int64_t across = divide_up(g.n, TILE);
  dim3 grid((unsigned)(across * divide_up(g.m, TILE)));
  for (int64_t first = 0; first < g.batch; first += 65535) {
    grid.y = (unsigned)(g.batch - first < 65535 ? g.batch - first : 65535);
    if (!launch(cx, product_kernel<T>, grid, TILE * TILE, 0, p, across, first)) return false;
  }
  return true;
}

static bool scale(const tlk_Context *cx, const tlk_Gemm &g) {
  double beta = g.beta.kind == TL_FLOATING ? g.beta.f : (double)g.beta.i;
  unsigned grid = blocks_for(cx, g.batch * g.m * g.n, 256);
  WITH_STORED(g.dtype, S,
              return launch(cx, scale_kernel<S>, dim3(grid), 256, 0, (S *)g.c, g.batch, g.m, g.n,
                            g.ldc, g.stride_c, beta))
  return true;
}

bool tlk_gemm(const struct tlk_gemm *call) {
  const tlk_Gemm &g = call->gemm;
  if (g.m == 0 || g.n == 0 || g.batch == 0) return true;
  if (g.k == 0) return scale(call->cx, g);
  switch (g.dtype) {
  case TL_F32:
  case TL_F64:
  case TL_F16:
  case TL_BF16: return cuda_lib_gemm(call);
  case TL_I64: return multiply<uint64_t>(call->cx, g);
  case TL_I32: return multiply<uint32_t>(call->cx, g);
  case TL_I16: return multiply<uint16_t>(call->cx, g);
  default: return multiply<uint8_t>(call->cx, g);
  }
}
