/*
** check_range.cu - checks that all elements lie between two numbers.
*/
#include "kernels/cuda/cuda.cuh"

#define CHECK_THREADS 256

template <class T>
static __global__ void __launch_bounds__(CHECK_THREADS)
    range_kernel(const T *in, int64_t n, double low, double high, cuda_Word word,
                 tlk_FaultSource source) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    double x = (double)in[i];
    /* NaN compares as false, so it counts as out of range */
    if (x >= low && x <= high) continue;
    tlk_Fault fault = {};
    fault.kind = TLK_FAULT_RANGE;
    fault.source = source;
    fault.number = x;
    fault.low = low;
    fault.high = high;
    note_fault(word, fault);
    return;
  }
}

template <class T> static bool run(const struct tlk_check_range *call) {
  unsigned grid = blocks_for(call->cx, call->n, CHECK_THREADS * 4);
  return launch(call->cx, range_kernel<T>, dim3(grid), CHECK_THREADS, 0, (const T *)call->in.data,
                call->n, call->low, call->high, cuda_word(call->cx), call->source);
}

bool tlk_check_range(const struct tlk_check_range *call) {
  return call->in.dtype == TL_F64 ? run<double>(call) : run<float>(call);
}
