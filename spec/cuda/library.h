/*
** library.h - what files in C use of the emulator.
*/
#ifndef TLK_EMULATED_LIBRARY_H
#define TLK_EMULATED_LIBRARY_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts work on a stream: run(data), with a copy of `bytes` bytes each time. */
cudaError_t tlk_emulated_put(cudaStream_t stream, void (*run)(void *data), const void *data,
                             size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
