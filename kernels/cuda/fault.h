/*
** fault.h - the word of a device in which kernels record faults in the data. It is C, CUDA C++
** and NVRTC's subset.
*/
#ifndef TLK_CUDA_FAULT_H
#define TLK_CUDA_FAULT_H

#include "core/kernel/fault.h"

/* The place where kernels record a fault. The first thread that sets `taken`, which is in
** device memory, writes `fault`, which is in host memory that the device can write. */
typedef struct cuda_Word {
  int *taken;
  tlk_Fault *fault;
} cuda_Word;

#ifdef __CUDACC__
/* Records a fault unless another one was recorded since the last report. */
static __device__ __forceinline__ void note_fault(const cuda_Word &word, const tlk_Fault &fault) {
  if (atomicCAS(word.taken, 0, 1) != 0) return;
  tlk_Fault untold = fault;
  untold.kind = TLK_NO_FAULT;
  *word.fault = untold;
  /* fence: the host may read the fault as soon as the fault's kind is set */
  __threadfence_system();
  *static_cast<volatile tlk_FaultKind *>(&word.fault->kind) = fault.kind;
}
#endif

#endif
