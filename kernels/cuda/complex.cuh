/*
** complex.cuh - complex numbers on the device: their type, arithmetic, and conversions from and to
** every dtype. A complex number becomes a real one by dropping its imaginary part. It becomes the
** bool true if it is not zero.
*/
#ifndef TLK_CUDA_COMPLEX_CUH
#define TLK_CUDA_COMPLEX_CUH

#include "kernels/cuda/cuda.cuh"

/* A complex number as it is stored. R is float or double. */
template <class R> struct __align__(2 * sizeof(R)) Complex {
  R real, imag;

  Complex() = default;
  __host__ __device__ __forceinline__ Complex(R re, R im = 0) : real(re), imag(im) {}
  __device__ __forceinline__ explicit operator float() const { return (float)real; }
  __device__ __forceinline__ explicit operator double() const { return (double)real; }
  __device__ __forceinline__ bool operator!=(int zero) const {
    return real != (R)zero || imag != 0;
  }
};

template <class R> DEVICE Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.real + b.real, a.imag + b.imag);
}
template <class R> DEVICE Complex<R> operator-(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.real - b.real, a.imag - b.imag);
}
template <class R> DEVICE Complex<R> operator-(Complex<R> a) {
  return Complex<R>(-a.real, -a.imag);
}
template <class R> DEVICE Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
}

template <class R> DEVICE Complex<R> widen(Complex<R> x) { return x; }
template <class R> DEVICE int32_t to_i32(Complex<R> x) { return to_i32(x.real); }
template <class R> DEVICE int64_t to_i64(Complex<R> x) { return to_i64(x.real); }

template <class R> struct Narrow<Complex<R>> {
  template <class W> __device__ __forceinline__ static Complex<R> of(W x) {
    return Complex<R>((R)x);
  }
  template <class Q> __device__ __forceinline__ static Complex<R> of(Complex<Q> x) {
    return Complex<R>((R)x.real, (R)x.imag);
  }
};

/* load_here and store_here call these functions for dtypes that are not in STORED_TYPES. */
template <class R> struct OtherTypes<Complex<R>> {
  typedef Complex<R> C;
  __device__ __forceinline__ static C load(const void *p, int dtype) {
    if (dtype == TL_C64) return narrow<C>(*static_cast<const Complex<float> *>(p));
    if (dtype == TL_C128) return narrow<C>(*static_cast<const Complex<double> *>(p));
    unknown_dtype();
    return C(0);
  }
  __device__ __forceinline__ static void store(void *p, int dtype, C x) {
    if (dtype == TL_C64)
      *static_cast<Complex<float> *>(p) = narrow<Complex<float>>(x);
    else if (dtype == TL_C128)
      *static_cast<Complex<double> *>(p) = narrow<Complex<double>>(x);
    else
      unknown_dtype();
  }
};

#endif
