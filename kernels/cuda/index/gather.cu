/*
** gather.cu - checks positions, and gathers elements. Neighbouring elements with the same position
** are copied together, in units of up to 16 bytes.
*/
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/index/line_loop.h"

#define GATHER_THREADS 256

/* ---- checking positions ------------------------------------------------------------------- */

static __global__ void __launch_bounds__(GATHER_THREADS)
    check_kernel(const int64_t *index, int64_t n, int64_t size, bool wrap, cuda_Word word,
                 tlk_FaultSource source) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    int64_t at = index[i];
    if ((at >= 1 && at <= size) || (wrap && at <= -1 && at >= -size)) continue;
    tlk_Fault fault = {};
    fault.kind = wrap ? TLK_FAULT_WRAPPED : TLK_FAULT_POSITION;
    fault.source = source;
    fault.value = at;
    fault.size = size;
    note_fault(word, fault);
    return;
  }
}

bool tlk_check_index(const struct tlk_check_index *call) {
  unsigned grid = blocks_for(call->cx, call->n, GATHER_THREADS);
  return launch(call->cx, check_kernel, dim3(grid), GATHER_THREADS, 0, call->index, call->n,
                call->size, call->wrap, cuda_word(call->cx), call->source);
}

/* ---- the loop over all elements of all lines ------------------------------------------------- */

tli_Iter cuda_index_loop(const tlk_IndexCall *call, int indexed) {
  tli_Iter it = call->it;
  /* `other` is an operand that is not indexed. In this operand, strides grow from dimension to
  ** dimension, and the indexed dimension is inserted where its own stride fits into this order. */
  int other = indexed == 0 ? 2 : 0;
  int at = 0;
  if (call->count == 1) return it;
  while (at < it.ndim && it.args[other].strides[at] < call->strides[other]) at++;
  for (int d = it.ndim; d > at; d--) {
    it.sizes[d] = it.sizes[d - 1];
    for (int k = 0; k < 3; k++) it.args[k].strides[d] = it.args[k].strides[d - 1];
  }
  it.ndim++;
  it.numel *= call->count;
  it.sizes[at] = call->count;
  for (int k = 0; k < 3; k++) it.args[k].strides[at] = k == indexed ? 0 : call->strides[k];
  return it;
}

/* ---- gather ---------------------------------------------------------------------------------- */

/* The positions in the indexed operand. There are n positions, which are `step` bytes apart. */
struct Positions {
  int64_t n, step;
};

template <class U>
__global__ void __launch_bounds__(GATHER_THREADS)
    gather_kernel(const __grid_constant__ Strided<3> s, Positions p, cuda_Word word,
                  tlk_FaultSource source) {
  enum { K = 4 }; /* number of units that a thread loads before it stores them */
  uint32_t step = (uint32_t)thread_count();
  for (uint32_t i = (uint32_t)thread_index(); i < s.numel; i += K * step) {
    int64_t offset[K][3], at[K];
    U x[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
      at[k] = 0;
      if (i + k * (uint64_t)step >= s.numel) continue;
      s.offsets(i + k * step, offset[k]);
      at[k] = *static_cast<const int64_t *>(s.source(1, offset[k][1]));
      if (at[k] >= 1 && at[k] <= p.n) continue;
      tlk_Fault fault = {};
      fault.kind = TLK_FAULT_POSITION;
      fault.source = source;
      fault.value = at[k];
      fault.size = p.n;
      note_fault(word, fault);
      at[k] = 0;
    }
#pragma unroll
    for (int k = 0; k < K; k++)
      if (at[k] != 0)
        x[k] = *static_cast<const U *>(s.source(2, offset[k][2] + (at[k] - 1) * p.step));
#pragma unroll
    for (int k = 0; k < K; k++)
      if (at[k] != 0) *reinterpret_cast<U *>(s.data[0] + offset[k][0]) = x[k];
  }
}

/* Returns whether neighbouring elements that share a position can be copied in units of this number
** of bytes. */
static bool units_fit(const tli_Iter &it, int64_t step, int64_t size, int64_t unit) {
  if (it.ndim == 0 || it.sizes[0] * size % unit != 0 || it.args[1].strides[0] != 0) return false;
  for (int k = 0; k <= 2; k += 2) {
    const tli_IterArg &a = it.args[k];
    if (a.strides[0] != size || !aligned(a.data, (size_t)unit)) return false;
    for (int d = 1; d < it.ndim; d++)
      if (a.strides[d] % unit != 0) return false;
  }
  return step % unit == 0;
}

bool tlk_gather(const struct tlk_gather *call) {
  tli_Iter it = cuda_index_loop(&call->index, 2);
  Positions p = {call->index.n, call->index.strides[2]};
  int64_t size = dtype_bytes(it.args[0].dtype), unit = 16;
  if (it.numel == 0) return true;
  while (unit > size && !units_fit(it, p.step, size, unit)) unit /= 2;
  if (unit > size) {
    it.sizes[0] = it.sizes[0] * size / unit;
    it.numel = it.numel * size / unit;
    it.args[0].strides[0] = it.args[2].strides[0] = unit;
  }
  auto kernel = unit == 16  ? gather_kernel<Unit<16>>
                : unit == 8 ? gather_kernel<Unit<8>>
                : unit == 4 ? gather_kernel<Unit<4>>
                : unit == 2 ? gather_kernel<Unit<2>>
                            : gather_kernel<Unit<1>>;
  return for_parts<3>(it, [&](const Strided<3> &s) {
    unsigned grid = blocks_for(call->cx, s.numel, GATHER_THREADS * 4, 32);
    return launch(call->cx, kernel, dim3(grid), GATHER_THREADS, 0, s, p, cuda_word(call->cx),
                  call->source);
  });
}
