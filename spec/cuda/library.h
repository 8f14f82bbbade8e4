/*
** library.h - the functions of the emulator that files in C call.
*/
#ifndef TLK_EMULATED_LIBRARY_H
#define TLK_EMULATED_LIBRARY_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues work on a stream: run(data), with a fresh copy of `bytes` bytes for each run. */
cudaError_t tlk_emulated_put(cudaStream_t stream, void (*run)(void *data), const void *data,
                             size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
