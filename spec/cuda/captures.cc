/*
** captures.cc - the calls that may be made while a stream is captured.
**
** CUDA's manual names a few calls that a capture forbids (cudaMalloc) and calls the others
** "potentially unsafe" without a list. Here a call is potentially unsafe unless it is in the
** list below, so that the plugin relaxes the thread's mode (CUDA_RELAXED in cuda.h) around all
** others.
*/
#include "spec/cuda/inside.h"

namespace emulated {

static const char *const allowed[] = {
    /* what a capture records: "Programming guide", Creating a graph using stream capture */
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
    /* captures themselves */
    "cudaStreamBeginCapture",
    "cudaStreamEndCapture",
    "cudaStreamIsCapturing",
    "cudaStreamGetCaptureInfo",
    /* these change no device's state and wait for nothing; PyTorch, NCCL and CUTLASS make them
    ** inside global captures */
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
