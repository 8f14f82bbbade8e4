/*
** fault.h - the memory in which kernels of a device record faults that they find in the data. The
** header is valid in C, in CUDA C++, and in the subset of C++ that NVRTC accepts.
*/
#ifndef TLK_CUDA_FAULT_H
#define TLK_CUDA_FAULT_H

#include "core/kernel/fault.h"

/* The memory in which kernels record a fault. `taken` is in device memory, and the first thread
** that sets it writes `fault`, which is in host memory that the device can write. */
typedef struct cuda_Word {
  int *taken;
  tlk_Fault *fault;
} cuda_Word;

#ifdef __CUDACC__
/* Records a fault, unless one has already been recorded since the last report. */
static __device__ __forceinline__ void note_fault(const cuda_Word &word, const tlk_Fault &fault) {
  if (atomicCAS(word.taken, 0, 1) != 0) return;
  tlk_Fault untold = fault;
  untold.kind = TLK_NO_FAULT;
  *word.fault = untold;
  /* this fence makes the fault visible before `kind`, because the host reads the fault as soon as
  ** `kind` is set */
  __threadfence_system();
  *static_cast<volatile tlk_FaultKind *>(&word.fault->kind) = fault.kind;
}
#endif

#endif
