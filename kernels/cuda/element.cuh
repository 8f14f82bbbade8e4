/*
** element.cuh - elements of any dtype on the device, and vectors of them. Kernels include this file
** through cuda.cuh. Code that is compiled at run time (fusion/) includes this file directly, so
** this file must not include system headers.
*/
#ifndef TLK_CUDA_ELEMENT_CUH
#define TLK_CUDA_ELEMENT_CUH

#ifdef __CUDACC_RTC__ /* NVRTC has no C headers; these definitions replace them */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#else
#include "core/kernel/element.h"
#endif

#define DEVICE static __device__ __forceinline__
#ifdef TLK_EMULATED
#define __grid_constant__
#endif

/* Stored types that are not built into C++. */
struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};
struct bool8 {
  uint8_t bits;
};

/* Converts a stored element to the type in which it is computed: float for half types, int32_t for
** narrower integers. */
DEVICE float widen(float x) { return x; }
DEVICE double widen(double x) { return x; }
DEVICE int32_t widen(int8_t x) { return x; }
DEVICE int32_t widen(int16_t x) { return x; }
DEVICE int32_t widen(int32_t x) { return x; }
DEVICE int64_t widen(int64_t x) { return x; }
DEVICE int32_t widen(uint8_t x) { return x; }
DEVICE int32_t widen(bool8 x) { return x.bits; }

/* Truncates to an integer; NaN and numbers out of range become the most negative integer. */
DEVICE int32_t to_i32(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN; }
DEVICE int32_t to_i32(double x) { return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN; }
DEVICE int32_t to_i32(int32_t x) { return x; }
DEVICE int32_t to_i32(int64_t x) { return (int32_t)x; }
DEVICE int64_t to_i64(float x) { return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN; }
DEVICE int64_t to_i64(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
DEVICE int64_t to_i64(int32_t x) { return x; }
DEVICE int64_t to_i64(int64_t x) { return x; }

#ifdef TLK_EMULATED
DEVICE float widen(f16 x) { return tli_f16_to_f32(x.bits); }
DEVICE float widen(bf16 x) { return tli_bf16_to_f32(x.bits); }
DEVICE uint16_t f16_bits(float x) { return tli_f32_to_f16(x); }
DEVICE uint16_t bf16_bits(float x) { return tli_f32_to_bf16(x); }
#else
DEVICE float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
DEVICE float widen(bf16 x) { return __uint_as_float((uint32_t)x.bits << 16); }
DEVICE uint16_t f16_bits(float x) {
  uint16_t y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
DEVICE uint16_t bf16_bits(float x) {
  uint16_t y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif

/* narrow<S>(x) converts a number of any wide type to the stored type S by PyTorch's rules. */
template <class S> struct Narrow;
template <> struct Narrow<float> {
  template <class W> __device__ __forceinline__ static float of(W x) { return (float)x; }
};
template <> struct Narrow<double> {
  template <class W> __device__ __forceinline__ static double of(W x) { return (double)x; }
};
template <> struct Narrow<f16> {
  template <class W> __device__ __forceinline__ static f16 of(W x) {
    return f16{f16_bits((float)x)};
  }
};
template <> struct Narrow<bf16> {
  template <class W> __device__ __forceinline__ static bf16 of(W x) {
    return bf16{bf16_bits((float)x)};
  }
};
template <> struct Narrow<bool8> {
  template <class W> __device__ __forceinline__ static bool8 of(W x) {
    return bool8{(uint8_t)(x != 0)};
  }
};
template <> struct Narrow<int64_t> {
  template <class W> __device__ __forceinline__ static int64_t of(W x) { return to_i64(x); }
};
#define NARROW_INTEGER(S)                                                                   \
  template <> struct Narrow<S> {                                                            \
    template <class W> __device__ __forceinline__ static S of(W x) { return (S)to_i32(x); } \
  };
NARROW_INTEGER(int8_t)
NARROW_INTEGER(int16_t)
NARROW_INTEGER(int32_t)
NARROW_INTEGER(uint8_t)
#undef NARROW_INTEGER

template <class S, class W> __device__ __forceinline__ S narrow(W x) { return Narrow<S>::of(x); }

/* Returns x, but hides from the compiler how x was computed. Otherwise the compiler could contract
** a product of one step and a sum of another step to one fused multiply-add. */
template <class S> __device__ __forceinline__ S seal(S x, uint32_t) { return x; }
template <> __device__ __forceinline__ float seal(float x, uint32_t zero) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits ^= zero;
  memcpy(&x, &bits, sizeof bits);
  return x;
}
template <> __device__ __forceinline__ double seal(double x, uint32_t zero) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits ^= zero;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

/* ---- vectors ------------------------------------------------------------------------------ */

/* A vector of N elements that are loaded and stored together, in pieces of at most 16 bytes. */
template <class S, int N> struct __align__(sizeof(S) * N < 16 ? sizeof(S) * N : 16) Vector {
  S at[N];
};

#endif
