/*
** roi_pool.cu - pooling of the cells of regions of interest. Each thread computes one cell. To
** spread the values of cells, each thread computes one pixel, so results are deterministic.
*/
#include "kernels/cuda/cuda.cuh"

namespace {

#define ROI_THREADS 256

/* Computes cell e of the result, counted from 0. */
template <class T>
__device__ __forceinline__ void compute_cell(const struct tlk_roi_pool &l, int64_t e) {
  int64_t j = e % l.grid[1], i = e / l.grid[1] % l.grid[0], c = e / l.grid[1] / l.grid[0];
  int64_t plane = c % l.channels, k = c / l.channels, y[2], x[2];
  const double *box = l.boxes + 5 * k;
  tlk_roi_edges(&l, box, 0, i, y);
  tlk_roi_edges(&l, box, 1, j, x);
  plane += tlk_roi_clamped(box[0] - 1, l.count - 1) * l.channels;
  if (l.kind == TLK_ROI_MEAN) plane = (plane * l.grid[0] + i) * l.grid[1] + j;
  const T *in = (const T *)l.images.data;
  int64_t n = (y[1] - y[0]) * (x[1] - x[0]), all = l.count * l.channels * l.size[0] * l.size[1];
  int64_t best = -1;
  T sum = 0;
  for (int64_t r = y[0]; r < y[1] && n > 0; r++)
    for (int64_t s = x[0]; s < x[1]; s++) {
      int64_t at = (plane * l.size[0] + r) * l.size[1] + s;
      /* a pixel that is NaN is replaced by any number */
      if (best < 0 || in[at] > in[best] || (in[best] != in[best] && in[at] == in[at])) best = at;
      sum += in[at];
    }
  T result = n == 0 ? (T)0 : l.kind == TLK_ROI_MEAN ? sum / (T)n : in[best];
  ((T *)l.cells.data)[e] = result;
  if (l.kind == TLK_ROI_MAX && l.indices) l.indices[e] = (n == 0 ? all : best) + 1;
}

/* Adds the shares of all cells that contain pixel e of the images, counted from 0. */
template <class T>
__device__ __forceinline__ void compute_pixel(const struct tlk_roi_pool &l, int64_t e) {
  int64_t s = e % l.size[1], r = e / l.size[1] % l.size[0], plane = e / l.size[1] / l.size[0];
  int64_t j = plane % l.grid[1], i = plane / l.grid[1] % l.grid[0];
  int64_t c = plane / l.grid[1] / l.grid[0] % l.channels;
  int64_t image = plane / l.grid[1] / l.grid[0] / l.channels;
  T sum = 0;
  for (int64_t k = 0; k < l.n; k++) {
    const double *box = l.boxes + 5 * k;
    if (tlk_roi_clamped(box[0] - 1, l.count - 1) != image) continue;
    int64_t y[2], x[2];
    tlk_roi_edges(&l, box, 0, i, y);
    tlk_roi_edges(&l, box, 1, j, x);
    if (r < y[0] || r >= y[1] || s < x[0] || s >= x[1]) continue;
    T value = ((const T *)l.cells.data)[((k * l.channels + c) * l.grid[0] + i) * l.grid[1] + j];
    sum += value / (T)((y[1] - y[0]) * (x[1] - x[0]));
  }
  ((T *)l.images.data)[e] = sum;
}

template <class T>
__global__ void __launch_bounds__(ROI_THREADS)
    roi_pool_kernel(const __grid_constant__ struct tlk_roi_pool l, int64_t all) {
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    if (l.kind == TLK_ROI_SPREAD)
      compute_pixel<T>(l, e);
    else
      compute_cell<T>(l, e);
  }
}

template <class T> bool run(const struct tlk_roi_pool *call) {
  int64_t cells = call->channels * call->grid[0] * call->grid[1];
  int64_t all = call->kind == TLK_ROI_SPREAD ? call->count * cells * call->size[0] * call->size[1]
                                             : call->n * cells;
  unsigned grid = blocks_for(call->cx, all, ROI_THREADS, 16);
  return launch(call->cx, roi_pool_kernel<T>, dim3(grid), ROI_THREADS, 0, *call, all);
}

} // namespace

bool tlk_roi_pool(const struct tlk_roi_pool *call) {
  return call->images.dtype == TL_F64 ? run<double>(call) : run<float>(call);
}
