/*
** inside.h - declarations shared by the emulator's files. The emulator runs CUDA programs without a
** GPU, for specs. Kernels run on the CPU, with one fiber for each thread of a block (grid.cc), and
** the runtime's functions use host memory.
**
** Like the simulated device, the emulator makes errors visible on purpose. Threads and blocks run
** in an order that depends on a seed, and new and freed memory holds garbage. Wrong calls return
** errors. An error in a kernel ends the process with a message that names the kernel and the
** thread.
**
** These environment variables change the emulator. A switch is on if it is 1, and off by default.
**
**   TLUA_EMULATED_SEED             the seed of the order of threads and blocks (1)
**   TLUA_EMULATED_DEVICES          the number of devices (2)
**   TLUA_EMULATED_MEMORY           the bytes of memory of each device (4 GiB)
**   TLUA_EMULATED_ADDRESSES        the bytes of address space (2^47)
**   TLUA_EMULATED_MULTIPROCESSORS  the number of multiprocessors of each device (4)
**   TLUA_EMULATED_FAIL_AT          the number of the call that fails; 0, the default: none
**   TLUA_EMULATED_DEAD_AT          the number of the first call after a fault of the hardware, from
**                                  which on all calls fail; 0, the default: none
**   TLUA_EMULATED_LAZY             a switch: streams run only when the program waits for them
**   TLUA_EMULATED_IDLE             a switch: kernels are never run
**   TLUA_EMULATED_FOREIGN          a switch: the kernels are not built for the devices
**   TLUA_EMULATED_LEGACY           a switch: the devices have no virtual memory
**   TLUA_EMULATED_VERBOSE          a switch: prints the operators that the CPU's kernels compute
**   TLUA_EMULATED_RACES, TLUA_EMULATED_REMOVE  (races.cc)
**
** One lock guards everything, including the work of kernels. Globals live until the process ends,
** because memory on a device may be freed while the process exits.
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
  MOST_THREADS = 1024,           /* largest number of threads in a block */
  SHARED_BYTES = 48 * 1024,      /* default size of a block's shared memory in bytes */
  MOST_SHARED_BYTES = 227 * 1024 /* largest size of a block's shared memory in bytes */
};

/* The byte that fills new and freed memory. A number made of such bytes is neither 0 nor NaN,
** but has an unusually large magnitude. */
enum { GARBAGE = 0xfb };

/* ---- settings (runtime.cc) ---------------------------------------------------------- */

struct Settings {
  int64_t seed, devices, memory, multiprocessors, fail_at, dead_at, lazy, idle, foreign, legacy,
      addresses;
};
extern Settings settings;
/* Changes a setting by its name; returns false if no setting has that name. */
bool configure(const char *key, int64_t value);
/* Returns the next number of a pseudorandom sequence, which the seed determines. */
uint64_t draw();

/* ---- calls (runtime.cc) ------------------------------------------------------------- */

extern std::mutex lock;
extern thread_local int current_device;

/* Returns cudaSuccess if a call may proceed; otherwise returns the error that the call must
** return. */
cudaError_t may_go(const char *name);
/* Returns whether the driver has failed permanently (TLUA_EMULATED_DEAD_AT). */
bool is_dead();
/* Stores an error for cudaGetLastError, and returns the error. */
cudaError_t noted(cudaError_t error);

/* Returns cudaSuccess if this call is allowed while streams are captured. captures.cc lists the
** calls that are always allowed. The capture mode of the thread may forbid other calls; these
** fail and invalidate the captures. */
cudaError_t may_capture(const char *name);

/* Runs the body of a runtime function with the lock held. */
template <class Work> static inline cudaError_t call(const char *name, Work work) {
  std::lock_guard<std::mutex> guard(lock);
  cudaError_t error = may_go(name);
  if (error == cudaSuccess) error = may_capture(name);
  return noted(error == cudaSuccess ? work() : error);
}
/* Runs the body of a function that frees something. TLUA_EMULATED_FAIL_AT never makes such a
** call fail. */
template <class Work> static inline cudaError_t call_free(const char *name, Work work) {
  std::lock_guard<std::mutex> guard(lock);
  if (is_dead()) return noted(cudaErrorLaunchFailure);
  cudaError_t error = may_capture(name);
  return noted(error == cudaSuccess ? work() : error);
}

/* ---- all functions below require the lock -------------------------------------------- */

/* A kernel, with information from the plugin's symbol table (symbols.cc). */
struct Kernel {
  std::string name;
  struct Shared {
    /* offset of the variable in the block of thread-local variables, and its size, both in bytes */
    size_t offset, bytes;
  };
  /* `shared` lists the shared variables of this kernel, and `others` the shared variables of all
  ** other functions */
  std::vector<Shared> shared, others;
  size_t shared_bytes = 0; /* total size of the kernel's own shared variables */
  /* limit on dynamic shared memory; cudaFuncSetAttribute changes it */
  int most_dynamic = SHARED_BYTES;
};
Kernel &kernel_of(const void *function);
/* Returns the block of the plugin's thread-local variables that belongs to the calling thread. */
char *thread_variables();

/* A launch of a kernel, with all its blocks (grid.cc). */
struct Launch {
  Kernel *kernel;
  dim3 blocks, threads;
  size_t shared;
  std::function<void()> thread;
};
void run_grid(const Launch &launch);
/* These functions begin and end the counting of a launch's memory traffic (traffic.cc). */
void begin_traffic();
void end_traffic(const Launch &launch);
/* `racing` is true from begin_races to end_races, while the threads of a launch are checked for
** races (races.cc). */
extern bool racing;
void begin_races(const Launch &launch);
void end_races();
void begin_block_races(size_t warps);
/* These functions record a barrier of a block, or of a warp. The accesses of its threads before the
** barrier precede all their accesses after it. */
void order_block();
void order_warp(unsigned warp);
void race_access(char *at, size_t bytes, bool writes, bool is_volatile);

/* ---- memory (memory.cc) ---- */

/* The owners of memory. Memory that the emulator did not allocate counts as the host's. */
enum Owner { HOST_MEMORY, DEVICE_MEMORY, PINNED_MEMORY };
struct Range {
  Owner owner;
  int device;
  size_t bytes;
};
/* All ranges of memory. The key of a range is the address of its first byte. */
extern std::map<char *, Range> &ranges;
extern std::map<int, size_t> &memory_used; /* the number of bytes in use on each device */

/* Returns the range of memory that contains all of these bytes. */
Range owner_of(const void *data, size_t bytes);

/* ---- streams (stream.cc) ---- */

typedef std::function<void()> Work;

/* Returns the stream that a caller's handle stands for, or NULL if there is no such stream. */
CUstream_st *stream_of(cudaStream_t handle);
/* Queues work on a stream of the current device, or adds it to the graph being captured. */
cudaError_t put(cudaStream_t handle, Work work);
cudaError_t finish(CUstream_st *stream);
void finish_device(int device);
bool capturing(const CUstream_st *stream);
/* Handles a potentially unsafe call of this thread: invalidates the captures that forbid the
** call, and returns the error for it. */
cudaError_t forbidden_while_capturing();
/* Handles a call that waits for the whole device, which every capture mode forbids: invalidates
** all captures on the device's streams, and returns the error for the call. */
cudaError_t forbidden_beside_captures(int device);

/* ---- switching (fiber.cc) ---- */

struct Fiber;
Fiber *fiber_new(void (*body)());
/* Returns a fiber that represents the host thread's own stack. */
Fiber *fiber_of_host();
void fiber_switch(Fiber *from, Fiber *to);

} // namespace emulated

#endif
