/*
** fft.cu - Fourier transforms by cuFFT. Our own kernels multiply by the scale, because cuFFT does
** not. They also copy the input of transforms to real numbers, because cuFFT overwrites its input,
** and set the imaginary parts at 0 and n / 2 to 0 in the copy.
*/
#include "kernels/cuda/complex.cuh"
#include "kernels/cuda/lib/lib.h"

namespace {

#define FFT_THREADS 256

template <class R>
__global__ void __launch_bounds__(FFT_THREADS) scale_kernel(R *data, int64_t n, R scale) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) data[i] *= scale;
}

template <class R>
__global__ void __launch_bounds__(FFT_THREADS)
    half_lines_kernel(const Complex<R> *in, Complex<R> *out, int64_t all, int64_t n) {
  int64_t half = n / 2 + 1;
  for (int64_t i = thread_index(); i < all; i += thread_count()) {
    int64_t k = i % half;
    bool real = k == 0 || 2 * k == n;
    out[i] = Complex<R>(in[i].real, real ? 0 : in[i].imag);
  }
}

/* Multiplies n real numbers by the scale. */
template <class R> bool multiply(const struct tlk_fft *call, int64_t n) {
  unsigned grid = blocks_for(call->cx, n, FFT_THREADS, 16);
  return launch(call->cx, scale_kernel<R>, dim3(grid), FFT_THREADS, 0, (R *)call->out.data, n,
                (R)call->scale);
}

template <class R> bool copy_half_lines(const struct tlk_fft *call, void *to) {
  int64_t all = call->outer * (call->n / 2 + 1);
  unsigned grid = blocks_for(call->cx, all, FFT_THREADS, 16);
  return launch(call->cx, half_lines_kernel<R>, dim3(grid), FFT_THREADS, 0,
                (const Complex<R> *)call->in.data, (Complex<R> *)to, all, call->n);
}

bool copy_bytes(const tlk_Context *cx, void *to, const void *from, int64_t bytes) {
  if (!cuda_enter(cx->device.index)) return false;
  CUDA_TRY(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, cx->stream->handle));
  return true;
}

/* Transforms complex lines (outer, n, inner). If outer and inner are both larger than 1, the lines
** are not evenly spaced. Then several calls of cuFFT transform them, one for each index of the
** smaller of these two dimensions. */
bool complex_lines(const struct tlk_fft *call, cuda_Fft fft, int64_t bytes) {
  bool by_outer = call->inner == 1 || call->outer > call->inner;
  int64_t calls = by_outer ? call->inner : call->outer;
  fft.lines = by_outer ? call->outer : call->inner;
  fft.stride = call->inner;
  fft.in_distance = fft.out_distance = by_outer ? call->n * call->inner : 1;
  int64_t step = (by_outer ? 1 : call->n * call->inner) * bytes;
  for (int64_t i = 0; i < calls; i++) {
    fft.in = (char *)call->in.data + i * step;
    fft.out = (char *)call->out.data + i * step;
    if (!cuda_lib_fft(call->cx, &fft)) return false;
  }
  return true;
}

/* Transforms real lines. cuFFT reads the array as complex numbers, so its address must have the
** alignment of complex numbers. */
bool from_real(const struct tlk_fft *call, cuda_Fft fft, int64_t bytes) {
  int64_t size = call->outer * call->n * bytes / 2;
  bool copy = !aligned(fft.in, (size_t)bytes);
  Scratch room(call->cx, copy ? size : 16);
  if (room.data == NULL) return false;
  fft.out_distance = call->n / 2 + 1;
  if (copy) {
    if (!copy_bytes(call->cx, room.data, fft.in, size)) return false;
    fft.in = room.data;
  }
  return cuda_lib_fft(call->cx, &fft);
}

bool to_real(const struct tlk_fft *call, cuda_Fft fft, int64_t bytes) {
  Scratch room(call->cx, call->outer * (call->n / 2 + 1) * bytes);
  if (room.data == NULL) return false;
  bool ok = call->in.dtype == TL_C64 ? copy_half_lines<float>(call, room.data)
                                     : copy_half_lines<double>(call, room.data);
  fft.in = room.data;
  fft.in_distance = call->n / 2 + 1;
  return ok && cuda_lib_fft(call->cx, &fft);
}

} // namespace

bool tlk_fft(const struct tlk_fft *call) {
  bool wide = call->in.dtype == TL_C128 || call->in.dtype == TL_F64;
  int64_t lines = call->outer * call->inner, bytes = wide ? 16 : 8, numbers = lines * call->n;
  cuda_Fft fft = {call->kind, call->inverse, wide,    call->n,       lines,
                  1,          call->n,       call->n, call->in.data, call->out.data};
  if (lines == 0) return true;
  bool ok = call->kind == TLK_FFT_COMPLEX     ? complex_lines(call, fft, bytes)
            : call->kind == TLK_FFT_FROM_REAL ? from_real(call, fft, bytes)
                                              : to_real(call, fft, bytes);
  if (!ok || call->scale == 1) return ok;
  if (call->kind == TLK_FFT_COMPLEX) numbers *= 2;
  if (call->kind == TLK_FFT_FROM_REAL) numbers = lines * (call->n / 2 + 1) * 2;
  return wide ? multiply<double>(call, numbers) : multiply<float>(call, numbers);
}
