/*
** loop.cuh - code that the generated kernels of chains share: computes the offsets of the elements
** of an iteration, and loads and stores elements.
*/
#ifndef TLK_CUDA_FUSION_LOOP_CUH
#define TLK_CUDA_FUSION_LOOP_CUH

/* Computes the offset in bytes of element i of each operand. */
template <int operands, int ndim>
__device__ __forceinline__ void offsets(const fusion_Call &c, uint32_t i,
                                        int64_t (&at)[FUSION_OPERANDS]) {
#pragma unroll
  for (int k = 0; k < operands; k++) at[k] = 0;
#pragma unroll
  for (int d = 0; d < ndim; d++) {
    uint32_t place = i;
    if (d + 1 < ndim) {
      uint32_t next = (__umulhi(i, c.sizes[d].factor) + i) >> c.sizes[d].shift;
      place = i - next * c.sizes[d].divisor;
      i = next;
    }
#pragma unroll
    for (int k = 0; k < operands; k++) at[k] += (int64_t)place * c.strides[d][k];
  }
}

/* Records the fault that an integer was divided by zero. */
DEVICE void note_division(const fusion_Call &c, int step) {
  tlk_Fault fault = {};
  fault.kind = TLK_FAULT_DIVISION;
  fault.source = c.source[step];
  note_fault(c.word, fault);
}

/* Computes the N words of dropout's Philox stream for elements i to i + N - 1. i is a multiple of
** N. */
template <int N>
__device__ __forceinline__ void words_of(const fusion_Number *params, uint32_t i,
                                         uint32_t (&out)[N]) {
  const uint64_t *state = reinterpret_cast<const uint64_t *>(params[3].i64);
  uint64_t seed = state[0], block = (uint64_t)params[2].i64 + state[1] + i / 4;
  uint32_t words[4];
#pragma unroll
  for (int k = 0; k < N; k++) {
    if (k % 4 == 0) tli_philox(seed, block + k / 4, words);
    uint32_t at = N < 4 ? (i + k) % 4 : k % 4;
    out[k] = at < 2 ? at == 0 ? words[0] : words[1] : at == 2 ? words[2] : words[3];
  }
}

template <class S> __device__ __forceinline__ S element_of(const void *p) {
  return *static_cast<const S *>(p);
}

template <int N, class S> __device__ __forceinline__ Vector<S, N> all_of(S x) {
  Vector<S, N> v;
#pragma unroll
  for (int e = 0; e < N; e++) v.at[e] = x;
  return v;
}

/* Loads a vector. If it has more than 16 bytes, it is loaded in several pieces. */
template <int N, class S> __device__ __forceinline__ Vector<S, N> vector_of(const char *p) {
  return *reinterpret_cast<const Vector<S, N> *>(p);
}

template <int N, class S>
__device__ __forceinline__ void put_vector(char *p, const Vector<S, N> &v) {
  *reinterpret_cast<Vector<S, N> *>(p) = v;
}

#endif
