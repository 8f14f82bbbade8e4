/*
** host_device.h - functions that kernels share, whether written in C or in CUDA C++.
*/
#ifndef TLI_SHARED_H
#define TLI_SHARED_H

#ifdef __CUDACC__
#define TLI_FN static __host__ __device__ inline
#else
#define TLI_FN static inline
#endif

#endif
