/*
** host_device.h - attributes that let C kernels and CUDA C++ kernels share functions.
*/
#ifndef TLI_SHARED_H
#define TLI_SHARED_H

#ifdef __CUDACC__
#define TLI_FN static __host__ __device__ inline
#else
#define TLI_FN static inline
#endif

#endif
