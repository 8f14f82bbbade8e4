/*
** cuda_runtime.h - makes CUDA C++ acceptable to a C++ compiler: kernels become functions that run
** on the CPU, with one fiber for each thread of a block.
*/
#ifndef TLK_EMULATED_RUNTIME_H
#define TLK_EMULATED_RUNTIME_H

/* This must come before the macros below, because the C++ library uses some of their names. */
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <math.h>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __constant__
/* a host thread runs one block at a time, so the block's shared variables can belong to the
** thread */
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

#include "emulated/types.h"
#include "emulated/threads.h"
#include "emulated/atomics.h"
#include "emulated/numbers.h"
#include "emulated/launch.h"

#endif
