/*
** captures.cc - lists the calls that are allowed while a stream is captured.
**
** CUDA's manual names a few calls that a capture forbids (cudaMalloc) and calls the others
** "potentially unsafe" without a list. Here a call is potentially unsafe unless it is in the list
** below. The plugin must therefore relax the thread's mode (CUDA_RELAXED in plugin.h) around all
** other calls.
*/
#include "spec/cuda/inside.h"

namespace emulated {

static const char *const allowed[] = {
    /* calls that are recorded ("Programming guide", Creating a graph using stream capture) */
    "cudaLaunchKernel",
    "cudaLaunchHostFunc",
    "cudaMemcpyAsync",
    "cudaMemcpy2DAsync",
    "cudaMemcpyPeerAsync",
    "cudaMemsetAsync",
    "cudaMallocAsync",
    "cudaFreeAsync",
    "cudaGraphLaunch",
    "cudaEventRecord",
    "cudaStreamWaitEvent",
    "emulated_exchange",
    "tlk_emulated_put",
    /* calls about captures */
    "cudaStreamBeginCapture",
    "cudaStreamEndCapture",
    "cudaStreamIsCapturing",
    "cudaStreamGetCaptureInfo",
    /* calls that change no device state and wait for nothing; PyTorch, NCCL and CUTLASS make them
    ** during global captures */
    "cudaSetDevice",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaStreamGetPriority",
    "cudaStreamGetFlags",
    "cudaStreamGetId",
    "cudaFuncSetAttribute",
    "cudaFuncGetAttributes",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaPointerGetAttributes",
};

cudaError_t may_capture(const char *name) {
  for (const char *call : allowed)
    if (strcmp(call, name) == 0) return cudaSuccess;
  return forbidden_while_capturing();
}

} // namespace emulated
