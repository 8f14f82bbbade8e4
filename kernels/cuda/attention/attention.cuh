/*
** attention.cuh - declarations and device code shared by the attention kernels.
*/
#ifndef TLK_CUDA_ATTENTION_CUH
#define TLK_CUDA_ATTENTION_CUH

#include "kernels/cuda/cuda.cuh"

template <class S> struct Sum { typedef float type; };
template <> struct Sum<double> { typedef double type; };

/* Returns the score of a query and a key from their dot product, or -inf if the query does not see
** the key. */
template <class C>
__device__ __forceinline__ C score(const tlk_Attention &a, C product, int64_t batch, int64_t head,
                                   int64_t i, int64_t j) {
  if (i >= a.queries || j >= a.keys || (a.causal && j > i)) return -(C)INFINITY;
  /* the scale is infinite for size 0, and 0 * inf would be NaN */
  C s = a.size == 0 ? C(0) : product * (C)a.scale;
  const tlk_HeadPairs &m = a.mask;
  if (m.array.data == NULL) return s;
  int64_t at = batch * m.batch + head * m.head + i * m.query + j * m.key;
  if (m.array.dtype == TL_BOOL)
    return static_cast<const uint8_t *>(m.array.data)[at] ? s : -(C)INFINITY;
  int bytes = m.array.dtype == TL_F64 ? 8 : m.array.dtype == TL_F32 ? 4 : 2;
  return s + load_any<C>(static_cast<const char *>(m.array.data) + at * bytes, m.array.dtype);
}

/* Returns whether a call has so few queries that cuda_few_queries computes it faster than kernels
** that work on tiles of queries. */
bool cuda_takes_few_queries(const struct tlk_attention *call);
bool cuda_few_queries(const struct tlk_attention *call);

#endif
