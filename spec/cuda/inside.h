/*
** inside.h - what the files of the emulator share. It is CUDA without a GPU, for specs:
** kernels run on the CPU, one fiber for each thread of a block (grid.cc), and the
** runtime's functions are answered from the host's memory.
**
** Like the simulated device it is hostile on purpose. Threads and blocks go in an order
** that is drawn from a seed; memory that is new or freed holds garbage; wrong use is an
** error, or, in a kernel, ends the process with a message that names kernel and thread.
**
** Settings, from the environment: TLUA_EMULATED_SEED (1), TLUA_EMULATED_DEVICES (2),
** TLUA_EMULATED_MEMORY (bytes of each, 4 GiB), TLUA_EMULATED_MULTIPROCESSORS (4),
** TLUA_EMULATED_FAIL_AT (the call that fails; 0: none), TLUA_EMULATED_DEAD_AT (from that
** call on all fail, as after a fault of the hardware; 0: never), TLUA_EMULATED_LAZY (1: streams
** work when they are waited for, 0: at once), TLUA_EMULATED_IDLE (1: kernels are never run),
** TLUA_EMULATED_VERBOSE.
**
** One lock guards everything, kernels' work too. What is global stays until the process
** ends, since who ends it may free what is on a device.
*/
#ifndef TLK_EMULATED_INSIDE_H
#define TLK_EMULATED_INSIDE_H

#include <deque>
#include <map>
#include <mutex>

#include <cuda.h>
#include <cuda_runtime.h>

namespace emulated {

enum {
  WARP_LANES = 32,
  MOST_THREADS = 1024,           /* of a block */
  SHARED_BYTES = 48 * 1024,      /* of a block that asks for no more */
  MOST_SHARED_BYTES = 227 * 1024 /* of one that does */
};

/* Neither zero nor NaN, but far out of any range. */
enum { GARBAGE = 0xfb };

/* ---- settings (runtime.cc) ---------------------------------------------------------- */

struct Settings {
  int64_t seed, devices, memory, multiprocessors, fail_at, dead_at, lazy, idle, verbose, foreign,
      legacy;
};
extern Settings settings;
/* Changes one by its name; false if there is none such. */
bool configure(const char *key, int64_t value);
/* The next number of a series that the seed gives. */
uint64_t draw();

/* ---- calls (runtime.cc) ------------------------------------------------------------- */

extern std::mutex lock;
extern thread_local int current_device;

/* Whether a call may go on: it may have to fail on request. */
cudaError_t may_go(const char *name);
/* Whether the driver has died (dead_at). */
bool is_dead();
/* Keeps an error for cudaGetLastError. */
cudaError_t noted(cudaError_t error);

/* Whether a call may be made while streams are captured: those of a list may (captures.cc). Any
** other one that the thread's mode forbids fails and invalidates the captures. */
cudaError_t may_capture(const char *name);

/* What a function of the runtime does, with the lock held. */
template <class Work> static inline cudaError_t call(const char *name, Work work) {
  std::lock_guard<std::mutex> guard(lock);
  cudaError_t error = may_go(name);
  if (error == cudaSuccess) error = may_capture(name);
  return noted(error == cudaSuccess ? work() : error);
}
/* The same of one that gives something back, and is not made to fail. */
template <class Work> static inline cudaError_t call_free(const char *name, Work work) {
  std::lock_guard<std::mutex> guard(lock);
  if (is_dead()) return noted(cudaErrorLaunchFailure);
  cudaError_t error = may_capture(name);
  return noted(error == cudaSuccess ? work() : error);
}

/* ---- the rest has the lock held ------------------------------------------------------ */

/* A kernel as the plugin's own symbols tell of it (symbols.cc). */
struct Kernel {
  std::string name;
  struct Shared {
    size_t offset, bytes; /* in the block of thread-local variables */
  };
  std::vector<Shared> shared, others; /* its own, and those of all other functions */
  size_t shared_bytes = 0;            /* of its own */
  int most_dynamic = SHARED_BYTES;    /* set by cudaFuncSetAttribute */
};
Kernel &kernel_of(const void *function);
/* Where the calling thread's variables of the plugin are. */
char *thread_variables();

/* All blocks of a launch (grid.cc). */
struct Launch {
  Kernel *kernel;
  dim3 blocks, threads;
  size_t shared;
  std::function<void()> thread;
};
void run_grid(const Launch &launch);
/* Count what a launch moves (traffic.cc). */
void begin_traffic();
void end_traffic(const Launch &launch);

/* ---- memory (memory.cc) ---- */

/* Host memory is what nobody else has. */
enum Owner { HOST_MEMORY, DEVICE_MEMORY, PINNED_MEMORY };
struct Range {
  Owner owner;
  int device;
  size_t bytes;
};
/* By the address of the first byte. */
extern std::map<char *, Range> &ranges;
extern std::map<int, size_t> &memory_used; /* by device */

/* Who has all the bytes. */
Range owner_of(const void *data, size_t bytes);

/* ---- streams (stream.cc) ---- */

typedef std::function<void()> Work;

/* A stream by the handle that a caller gave: NULL if there is none such. */
CUstream_st *stream_of(cudaStream_t handle);
/* Puts work on a stream of the current device, or into the graph that is captured. */
cudaError_t put(cudaStream_t handle, Work work);
cudaError_t finish(CUstream_st *stream);
void finish_device(int device);
bool capturing(const CUstream_st *stream);
/* Invalidates the captures that the calling thread's mode does not allow to go on beside a call
** that is potentially unsafe, and returns the error of that call. */
cudaError_t forbidden_while_capturing();
/* The same for a wait for the whole device, which no mode allows while one of its streams is
** captured. */
cudaError_t forbidden_beside_captures(int device);

/* ---- switching (fiber.cc) ---- */

struct Fiber;
Fiber *fiber_new(void (*body)());
/* The one that stands for the stack of the host's thread. */
Fiber *fiber_of_host();
void fiber_switch(Fiber *from, Fiber *to);

} // namespace emulated

#endif
