/*
** mma.cuh - products of small matrices by a warp's tensor cores. A fragment is one thread's share
** of a matrix. Let g = lane / 4 and c = lane % 4; then a word of the fragment holds the elements 2
** c and 2 c + 1 of row g (PTX ISA, "Matrix Fragments for mma.m16n8k16").
*/
#ifndef TLK_CUDA_MMA_CUH
#define TLK_CUDA_MMA_CUH

#include "kernels/cuda/cuda.cuh"

/* Packs two numbers into a word. The first number becomes the lower half. */
DEVICE uint32_t packed(float a, float b, f16) { return f16_bits(a) | (uint32_t)f16_bits(b) << 16; }
DEVICE uint32_t packed(float a, float b, bf16) {
  return bf16_bits(a) | (uint32_t)bf16_bits(b) << 16;
}

/* mma<S>(c, a, b) adds the product of a (16, 16) and b (16, 8) to c (16, 8). A thread's words of
** these fragments are:
**
**   a   rows g and g + 8 of the first 8 columns, then the same rows of the last 8 columns
**   b   column g: its first 8 rows, then its last 8 rows
**   c   elements 2 c and 2 c + 1 of row g, then the same elements of row g + 8
**
** transposed(x) returns the thread's word of the transpose of a matrix (8, 8).
**
** All threads of a warp must call these functions. */
#ifdef TLK_EMULATED
template <class S> DEVICE float half_of(uint32_t word, int i) {
  S x;
  x.bits = (uint16_t)(word >> 16 * i);
  return widen(x);
}
template <class S> DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  int lane = threadIdx.x % WARP;
  for (int k = 0; k < 4; k++)
    for (int high = 0; high < 2; high++)
      for (int column = 0; column < 2; column++) {
        uint32_t other = __shfl_sync(ALL_LANES, b[high], (lane % 4 * 2 + column) * 4 + k);
        for (int row = 0; row < 2; row++) {
          uint32_t own = __shfl_sync(ALL_LANES, a[high * 2 + row], lane / 4 * 4 + k);
          for (int i = 0; i < 2; i++)
            c[row * 2 + column] += half_of<S>(own, i) * half_of<S>(other, i);
        }
      }
}
DEVICE uint32_t transposed(uint32_t x) {
  int lane = threadIdx.x % WARP, row = lane / 4, from = lane % 4 * 8 + row / 2;
  uint32_t first = __shfl_sync(ALL_LANES, x, from), second = __shfl_sync(ALL_LANES, x, from + 4);
  int shift = 16 * (row % 2);
  return (first >> shift & 0xffff) | second >> shift << 16;
}
#else
#define MMA(type)                                                       \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "    \
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                  \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
DEVICE void mma_of(f16, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MMA("f16");
}
DEVICE void mma_of(bf16, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  MMA("bf16");
}
#undef MMA
template <class S> DEVICE void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma_of(S(), c, a, b);
}
DEVICE uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
#endif

#endif
