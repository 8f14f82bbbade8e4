/*
** nonzero.cu - counts the nonzero elements, and lists their positions in order. The elements are
** divided into tiles. A tile writes its positions behind those of all earlier tiles, so the nonzero
** elements in each tile are counted first.
*/
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/cuda.cuh"

namespace {

#define NONZERO_THREADS 256
#define NONZERO_EACH 8 /* number of elements of a tile that each thread examines */
#define NONZERO_TILE (NONZERO_THREADS * NONZERO_EACH)

struct Elements {
  const char *data;
  int dtype, bytes;
  int64_t n, tiles;

  __device__ __forceinline__ bool nonzero(int64_t i) const {
    const char *at = data + i * bytes;
    switch (dtype) {
    case TL_F32: return *reinterpret_cast<const float *>(at) != 0;
    case TL_F64: return *reinterpret_cast<const double *>(at) != 0;
    case TL_F16:
    case TL_BF16: return (*reinterpret_cast<const uint16_t *>(at) & 0x7fff) != 0;
    case TL_C64: return *reinterpret_cast<const Complex<float> *>(at) != 0;
    case TL_C128: return *reinterpret_cast<const Complex<double> *>(at) != 0;
    default: break;
    }
    switch (bytes) {
    case 8: return *reinterpret_cast<const int64_t *>(at) != 0;
    case 4: return *reinterpret_cast<const int32_t *>(at) != 0;
    case 2: return *reinterpret_cast<const int16_t *>(at) != 0;
    default: return *at != 0;
    }
  }
};

Elements elements_of(const tlk_Array &in, int64_t n) {
  return Elements{(const char *)in.data, in.dtype, (int)dtype_bytes(in.dtype), n,
                  divide_up(n, NONZERO_TILE)};
}

/* Stores the number of nonzero elements of tile t in counts[t]. */
__global__ void __launch_bounds__(NONZERO_THREADS)
    count_kernel(const __grid_constant__ Elements e, int64_t *counts) {
  __shared__ uint32_t shared[WARP];
  for (int64_t tile = blockIdx.x; tile < e.tiles; tile += gridDim.x) {
    uint32_t own = 0;
#pragma unroll
    for (int k = 0; k < NONZERO_EACH; k++) {
      int64_t i = tile * NONZERO_TILE + k * NONZERO_THREADS + threadIdx.x;
      own += i < e.n && e.nonzero(i);
    }
    own = block_reduce(
        own, [](uint32_t a, uint32_t b) { return a + b; }, shared);
    if (threadIdx.x == 0) counts[tile] = own;
  }
}

/* Replaces counts[t] by the sum of all counts before it, and stores the total in *total unless
** `total` is NULL. Runs in one block. */
__global__ void __launch_bounds__(1024) sum_kernel(int64_t tiles, int64_t *counts, int64_t *total) {
  __shared__ uint32_t shared[WARP + 1];
  int64_t before = 0;
  for (int64_t begin = 0; begin < tiles; begin += blockDim.x) {
    int64_t t = begin + threadIdx.x;
    uint32_t all, own = t < tiles ? (uint32_t)counts[t] : 0;
    uint32_t here = block_before(own, shared, &all);
    if (t < tiles) counts[t] = before + here;
    before += all;
  }
  if (total && threadIdx.x == 0) *total = before;
}

struct Shape {
  int ndim;
  int64_t sizes[TL_MAX_DIMS];
};

__global__ void __launch_bounds__(NONZERO_THREADS)
    write_kernel(const __grid_constant__ Elements e, const __grid_constant__ Shape shape,
                 const int64_t *counts, int64_t *out) {
  __shared__ uint32_t shared[WARP + 1];
  for (int64_t tile = blockIdx.x; tile < e.tiles; tile += gridDim.x) {
    int64_t to = counts[tile];
    for (int k = 0; k < NONZERO_EACH; k++) {
      int64_t i = tile * NONZERO_TILE + k * NONZERO_THREADS + threadIdx.x;
      bool is = i < e.n && e.nonzero(i);
      uint32_t all, before = block_before(is, shared, &all);
      if (is) {
        int64_t rest = i, *row = out + (to + before) * shape.ndim;
        for (int d = shape.ndim - 1; d > 0; d--) {
          int64_t next = rest / shape.sizes[d];
          row[d] = rest - next * shape.sizes[d] + 1;
          rest = next;
        }
        if (shape.ndim > 0) row[0] = rest + 1;
      }
      to += all;
    }
  }
}

/* Computes the number of nonzero elements before each tile. */
bool count_tiles(const tlk_Context *cx, const Elements &e, int64_t *counts, int64_t *total) {
  unsigned grid = blocks_for(cx, e.tiles, 1, 32);
  return counts && launch(cx, count_kernel, dim3(grid), NONZERO_THREADS, 0, e, counts) &&
         launch(cx, sum_kernel, dim3(1), 1024, 0, e.tiles, counts, total);
}

} // namespace

bool tlk_count_nonzero(const struct tlk_count_nonzero *call) {
  Elements e = elements_of(call->in, call->n);
  Scratch counts(call->cx, e.tiles * (int64_t)sizeof(int64_t));
  return count_tiles(call->cx, e, (int64_t *)counts.data, call->count);
}

bool tlk_nonzero(const struct tlk_nonzero *call) {
  Shape shape = {call->ndim, {}};
  int64_t n = 1;
  for (int d = 0; d < call->ndim; d++) n *= shape.sizes[d] = call->sizes[d];
  Elements e = elements_of(call->in, n);
  Scratch counts(call->cx, e.tiles * (int64_t)sizeof(int64_t));
  unsigned grid = blocks_for(call->cx, e.tiles, 1, 32);
  return count_tiles(call->cx, e, (int64_t *)counts.data, NULL) &&
         launch(call->cx, write_kernel, dim3(grid), NONZERO_THREADS, 0, e, shape,
                (const int64_t *)counts.data, call->out);
}
