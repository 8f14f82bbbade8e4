/*
** library.h - functions of the emulator that files in C call.
*/
#ifndef TLK_EMULATED_LIBRARY_H
#define TLK_EMULATED_LIBRARY_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues run(data) on a stream. Each run gets a fresh copy of the `bytes` bytes at `data`. */
cudaError_t tlk_emulated_put(cudaStream_t stream, void (*run)(void *data), const void *data,
                             size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
