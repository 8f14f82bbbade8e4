/*
** columns.cu - im2col and col2im. Each thread computes one output element.
*/
#include "kernels/cuda/pool/windows.cuh"

namespace {

/* Copies an image (planes, in...) to columns (planes, kernel..., out...). */
template <class U>
__global__ void __launch_bounds__(WINDOW_THREADS, 3)
    im2col_kernel(const __grid_constant__ tlk_Windows w, const __grid_constant__ Places out,
                  const __grid_constant__ Places kernel, int64_t all, const U *in, U *cols) {
  int64_t size = w.in[0] * w.in[1] * w.in[2];
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    int64_t o[3], k[3], plane = kernel.of(out.of(e, o), k), place = 0;
    bool inside = true;
#pragma unroll
    for (int d = 0; d < 3; d++) {
      int64_t i = o[d] * w.stride[d] - w.padding[d] + k[d] * w.dilation[d];
      inside = inside && i >= 0 && i < w.in[d];
      place = place * w.in[d] + i;
    }
    U x = {};
    if (inside) x = in[plane * size + place];
    cols[e] = x;
  }
}

template <class U> bool run_im2col(const struct tlk_im2col *call) {
  const tlk_Windows &w = call->windows;
  int64_t all = call->planes * product(w.kernel) * product(w.out);
  unsigned grid = blocks_for(call->cx, all, WINDOW_THREADS, 16);
  return launch(call->cx, im2col_kernel<U>, dim3(grid), WINDOW_THREADS, 0, w, places_of(w.out, all),
                places_of(w.kernel, all), all, (const U *)call->in.data, (U *)call->cols.data);
}

/* Computes each element of the image as the sum of all column elements that im2col copies from
** it. */
template <class C>
__global__ void __launch_bounds__(WINDOW_THREADS, 3)
    col2im_kernel(const __grid_constant__ tlk_Windows w, const __grid_constant__ Places places,
                  int64_t all, Source<1> cols, Result in) {
  int64_t size = w.out[0] * w.out[1] * w.out[2];
  int64_t rows = w.kernel[0] * w.kernel[1] * w.kernel[2];
  for (int64_t e = thread_index(); e < all; e += thread_count()) {
    int64_t i[3], plane = places.of(e, i), k[3] = {0, 0, 0}, o[3];
    C sum = 0;
    /* returns the window whose element k[d] is this element of the image; -1 if there is none */
    auto window = [&](int d) {
      int64_t at = i[d] + w.padding[d] - k[d] * w.dilation[d], n = at / w.stride[d];
      o[d] = at >= 0 && n * w.stride[d] == at && n < w.out[d] ? n : -1;
      return o[d] >= 0;
    };
    for (k[0] = 0; k[0] < w.kernel[0]; k[0]++) {
      if (!window(0)) continue;
      for (k[1] = 0; k[1] < w.kernel[1]; k[1]++) {
        if (!window(1)) continue;
        for (k[2] = 0; k[2] < w.kernel[2]; k[2]++) {
          if (!window(2)) continue;
          int64_t row = (plane * rows + (k[0] * w.kernel[1] + k[1]) * w.kernel[2] + k[2]) * size;
          int64_t at = row + (o[0] * w.out[1] + o[1]) * w.out[2] + o[2];
          sum += load_here<C>(cols.data[0] + at * cols.bytes, cols.dtype);
        }
      }
    }
    in.put(e, sum);
  }
}

template <class C> bool run_col2im(const struct tlk_col2im *call) {
  int64_t all = call->planes * product(call->windows.in);
  unsigned grid = blocks_for(call->cx, all, WINDOW_THREADS, 16);
  return launch(call->cx, col2im_kernel<C>, dim3(grid), WINDOW_THREADS, 0, call->windows,
                places_of(call->windows.in, all), all, source_of(call->cols), result_of(call->in));
}

} // namespace

bool tlk_im2col(const struct tlk_im2col *call) {
  switch (dtype_bytes(call->in.dtype)) {
  case 8: return run_im2col<Unit<8>>(call);
  case 4: return run_im2col<Unit<4>>(call);
  case 2: return run_im2col<Unit<2>>(call);
  default: return run_im2col<Unit<1>>(call);
  }
}

bool tlk_col2im(const struct tlk_col2im *call) {
  switch (call->in.dtype) {
  case TL_F32:
  case TL_F16:
  case TL_BF16: return run_col2im<float>(call);
  case TL_F64: return run_col2im<double>(call);
  case TL_I64: return run_col2im<int64_t>(call);
  default: return run_col2im<int32_t>(call);
  }
}
