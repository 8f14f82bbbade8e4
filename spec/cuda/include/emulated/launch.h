/*
** launch.h - the emulator's versions of launch() and dynamic_shared(), which cuda.cuh defines for a
** GPU.
*/
#ifndef TLK_EMULATED_LAUNCH_H
#define TLK_EMULATED_LAUNCH_H

#include "kernels/cuda/cuda.h"

namespace emulated {

template <class T> struct Same { typedef T type; };

/* the largest total size of a kernel's arguments in bytes */
enum { MOST_ARGUMENTS = 32764 };

/* Queues a kernel on a stream. `thread` is a function that runs one thread of the kernel. */
cudaError_t put_kernel(const void *kernel, dim3 blocks, dim3 threads, size_t shared,
                       cudaStream_t stream, std::function<void()> thread);

} // namespace emulated

template <class... P>
static bool launch(const tlk_Context *cx, void (*kernel)(P...), dim3 grid, unsigned threads,
                   size_t shared, typename emulated::Same<P>::type... args) {
  static_assert((0 + ... + sizeof(P)) <= emulated::MOST_ARGUMENTS, "too many arguments");
  static_assert((std::is_trivially_copyable<P>::value && ...), "arguments are copied as bytes");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return true;
  if (!cuda_enter(cx->device.index)) return false;
  return cuda_ok(emulated::put_kernel((const void *)kernel, grid, dim3(threads), shared,
                                      cx->stream->handle, [=]() { kernel(args...); }),
                 "cudaLaunchKernel");
}

template <class T> static inline T *dynamic_shared() {
  return static_cast<T *>(emulated::place.shared);
}

#endif
