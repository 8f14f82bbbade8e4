/*
** fault.h - the word of a device in which its kernels note what they find wrong in the data.
** C, CUDA C++, and what NVRTC takes.
*/
#ifndef TLK_CUDA_FAULT_H
#define TLK_CUDA_FAULT_H

#include "core/kernel/fault.h"

/* Where kernels note a fault. The first to change `taken`, which lies on the device,
** writes `fault`, which lies in host memory that the device can write. */
typedef struct cuda_Word {
  int *taken;
  tlk_Fault *fault;
} cuda_Word;

#ifdef __CUDACC__
/* The first fault since the last report is kept. */
static __device__ __forceinline__ void note_fault(const cuda_Word &word, const tlk_Fault &fault) {
  if (atomicCAS(word.taken, 0, 1) != 0) return;
  tlk_Fault untold = fault;
  untold.kind = TLK_NO_FAULT;
  *word.fault = untold;
  __threadfence_system(); /* the host, which looks at the kind, may look meanwhile */
  *static_cast<volatile tlk_FaultKind *>(&word.fault->kind) = fault.kind;
  __threadfence_system();
}
#endif

#endif
