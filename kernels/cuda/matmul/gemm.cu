/*
** gemm.cu - matrix products. Products of floating types are computed by cuBLASLt. Products of
** integers, which wrap around, are computed by a plain tiled kernel. A block computes a tile of 32
** x 32 elements; each thread computes one element, and loads one element of each tile of a and of
** b. Terms are added in order, so the results equal those of the CPU.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/lib/lib.h"

#define TILE 32
#define ROW_THREADS 256

/* ---- kernels -------------------------------------------------------------------------------- */

/* The argument of product_kernel: a tlk_Gemm whose elements have type T. */
template <class T> struct Product {
  bool trans_a, trans_b;
  int64_t m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c;
  T alpha, beta;
  const T *a, *b;
  T *c;
};

/* Multiplies matrices. blockIdx.x is the index of the tile, with `across` tiles in a row of tiles.
** blockIdx.y is the index of the matrix in the batch. */
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

/* Computes c *= beta. If k is 0, this is the whole product. */
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

/* Multiplies as unsigned integers, because their sums may wrap around. */
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

/* ---- sizes that are no multiples of 8 -------------------------------------------------------- */

/* Copies `rows` rows of `cols` elements of a half type to a matrix with `to_rows` rows of `to_cols`
** elements. If the new matrix is larger, its additional elements become 0. If it is smaller, the
** elements that do not fit are not copied. Each row is copied by one warp. */
static __global__ void __launch_bounds__(ROW_THREADS)
    pad_kernel(const uint16_t *from, int64_t from_ld, uint16_t *to, int64_t to_ld, int64_t rows,
               int64_t cols, int64_t to_rows, int64_t to_cols) {
  enum { EACH = 8 };
  int64_t step = (int64_t)gridDim.x * (ROW_THREADS / WARP), lane = threadIdx.x % WARP;
  for (int64_t row = (int64_t)blockIdx.x * (ROW_THREADS / WARP) + threadIdx.x / WARP; row < to_rows;
       row += step) {
    const uint16_t *x = from + row * from_ld;
    uint16_t *y = to + row * to_ld;
    for (int64_t first = lane; first < to_cols; first += EACH * WARP) {
      uint16_t e[EACH];
#pragma unroll
      for (int k = 0; k < EACH; k++)
        e[k] = row < rows && first + k * WARP < cols ? x[first + k * WARP] : 0;
#pragma unroll
      for (int k = 0; k < EACH; k++)
        if (first + k * WARP < to_cols) y[first + k * WARP] = e[k];
    }
  }
}

/* A matrix of a half type, and its larger size in the padded product, which is computed in place of
** the original product. */
struct Matrix {
  const void *data;
  int64_t ld, rows, cols, to_rows, to_cols;

  bool fits() const {
    return rows == to_rows && cols == to_cols && aligned(data, 16) && ld % 8 == 0;
  }
  int64_t bytes() const { return fits() ? 0 : to_rows * to_cols * 2; }
  /* If the matrix is smaller than in the padded product, replaces it by a padded matrix in memory
  ** that is taken from *room. Copies the elements only if `filled`. */
  bool take(const tlk_Context *cx, char **room, bool filled) {
    if (fits()) return true;
    void *copy = *room;
    *room += bytes();
    unsigned grid = blocks_for(cx, to_rows, ROW_THREADS / WARP, 32);
    bool ok = !filled || launch(cx, pad_kernel, dim3(grid), ROW_THREADS, 0, (const uint16_t *)data,
                                ld, (uint16_t *)copy, to_cols, rows, cols, to_rows, to_cols);
    data = copy, ld = to_cols;
    return ok;
  }
};

/* Multiplies padded copies of large matrices of half types. If the lengths of rows are not
** multiples of 8 elements, as with a vocabulary of 50257, the library takes six to eight times as
** long (on an H200: 13.3 ms instead of 1.7). Copying an element takes as long as 64
** multiplications, so small products are not copied. *done becomes false then. */
static bool multiply_padded(const struct tlk_gemm *call, bool *done) {
  tlk_Gemm g = call->gemm;
  int64_t m = g.trans_a ? divide_up(g.m, 8) * 8 : g.m, n = divide_up(g.n, 8) * 8;
  int64_t k = g.trans_a && !g.trans_b ? g.k : divide_up(g.k, 8) * 8;
  Matrix a = {g.a, g.lda, g.m, g.k, m, k}, b = {g.b, g.ldb, g.k, g.n, k, n};
  if (g.trans_a) a = Matrix{g.a, g.lda, g.k, g.m, k, m};
  if (g.trans_b) b = Matrix{g.b, g.ldb, g.n, g.k, n, k};
  Matrix c = {g.c, g.ldc, g.m, g.n, m, n};
  int64_t bytes = a.bytes() + b.bytes() + c.bytes();
  bool reads_c = g.beta.kind == TL_FLOATING ? g.beta.f != 0 : g.beta.i != 0;
  double work = (double)g.m * (double)g.n * (double)g.k;
  *done = false;
  if (g.batch != 1 || bytes == 0 || (reads_c && !c.fits()) || work < 0x1p30 ||
      work < 128 * (double)(bytes / 2))
    return true;
  Scratch memory(call->cx, bytes);
  char *room = (char *)memory.data;
  if (room == NULL || !a.take(call->cx, &room, true) || !b.take(call->cx, &room, true) ||
      !c.take(call->cx, &room, false))
    return false;
  struct tlk_gemm product = {call->cx, g};
  tlk_Gemm &p = product.gemm;
  p.m = m, p.n = n, p.k = k;
  p.a = a.data, p.b = b.data, p.c = (void *)c.data;
  p.lda = a.ld, p.ldb = b.ld, p.ldc = c.ld;
  *done = true;
  if (!cuda_lib_gemm(&product)) return false;
  unsigned grid = blocks_for(call->cx, g.m, ROW_THREADS / WARP, 32);
  return c.data == g.c ||
         launch(call->cx, pad_kernel, dim3(grid), ROW_THREADS, 0, (const uint16_t *)c.data, c.ld,
                (uint16_t *)g.c, g.ldc, g.m, g.n, g.m, g.n);
}

bool tlk_gemm(const struct tlk_gemm *call) {
  const tlk_Gemm &g = call->gemm;
  bool done = false;
  if (g.m == 0 || g.n == 0 || g.batch == 0) return true;
  if (g.k == 0) return scale(call->cx, g);
  switch (g.dtype) {
  case TL_F16:
  case TL_BF16: return multiply_padded(call, &done) && (done || cuda_lib_gemm(call));
  case TL_F32:
  case TL_F64: return cuda_lib_gemm(call);
  case TL_I64: return multiply<uint64_t>(call->cx, g);
  case TL_I32: return multiply<uint32_t>(call->cx, g);
  case TL_I16: return multiply<uint16_t>(call->cx, g);
  default: return multiply<uint8_t>(call->cx, g);
  }
}
