/*
** threads.h - a thread's position in the grid, and its communication with other threads: barriers,
** shuffles and votes (implemented in grid.cc).
*/
#ifndef TLK_EMULATED_THREADS_H
#define TLK_EMULATED_THREADS_H

namespace emulated {

struct Place {
  uint3 thread, block;
  dim3 threads, blocks;
  unsigned lane;
  void *shared; /* the block's dynamic shared memory */
  bool atomic;  /* whether the thread is executing an atomic operation */
};

/* The position of the running CUDA thread in the grid. In the whole process, only one CUDA
** thread runs at a time. */
extern Place place;

/* A source line, for messages that say where a thread waits. */
struct Line {
  const char *file;
  int line;
};
#define TLK_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* Waits for all threads of the block. Returns the number of threads whose `count` is not 0. */
int meet_block(int count, const char *what, Line at);

enum Meeting { SYNC, SHUFFLE, BALLOT, MATCH, ADD, MIN, MAX, UMIN, UMAX, AND, OR, XOR };

/* Waits for all lanes in the mask. Returns the result that `meeting` computes from the lanes'
** values. For a shuffle, this is the value of lane `source`. */
uint64_t meet_warp(Meeting meeting, unsigned mask, uint64_t x, int source, const char *what,
                   Line at);

#ifdef TLK_GENERATED
/* Kernels that are compiled at run time cannot call the emulator's functions, so their threads
** do not take turns. They do not need to: they share only the word in which faults are recorded. */
static inline void pause() {}
static inline void fence(Line) {}
static inline bool is_removed(Line) { return false; }
#else
/* Lets other threads of the block run. */
void pause();
/* Makes the thread's earlier writes visible to all threads before its later writes (races.cc). */
void fence(Line at);
/* Returns whether a test has disabled the barrier, fence or atomic operation at this line
** (races.cc). */
bool is_removed(Line at);
#endif
/* Ends the process with a message that names the running thread. */
[[noreturn]] void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));

template <class T> static inline uint64_t to_word(T x) {
  static_assert(std::is_arithmetic<T>::value && sizeof(T) >= 4, "shuffles take numbers");
  uint64_t word = 0;
  memcpy(&word, &x, sizeof x);
  return word;
}
template <class T> static inline T from_word(uint64_t word) {
  T x;
  memcpy(&x, &word, sizeof x);
  return x;
}

template <class T>
static inline T shuffle(unsigned mask, T x, int source, const char *what, Line at) {
  return from_word<T>(meet_warp(SHUFFLE, mask, to_word(x), source, what, at));
}

} // namespace emulated

#define threadIdx (::emulated::place.thread)
#define blockIdx (::emulated::place.block)
#define blockDim (::emulated::place.threads)
#define gridDim (::emulated::place.blocks)
static const int warpSize = 32;

/* ---- blocks ------------------------------------------------------------------------ */

static inline void __syncthreads(TLK_HERE) {
  emulated::meet_block(0, "__syncthreads", {file, line});
}
static inline int __syncthreads_count(int predicate, TLK_HERE) {
  return emulated::meet_block(predicate != 0, "__syncthreads_count", {file, line});
}
static inline int __syncthreads_or(int predicate, TLK_HERE) {
  return emulated::meet_block(predicate != 0, "__syncthreads_or", {file, line}) != 0;
}
static inline int __syncthreads_and(int predicate, TLK_HERE) {
  return emulated::meet_block(predicate == 0, "__syncthreads_and", {file, line}) == 0;
}
static inline void __threadfence(TLK_HERE) { emulated::fence({file, line}); }
static inline void __threadfence_block(TLK_HERE) { emulated::fence({file, line}); }
static inline void __threadfence_system(TLK_HERE) { emulated::fence({file, line}); }
static inline void __nanosleep(unsigned) { emulated::pause(); }
[[noreturn]] static inline void __trap() { emulated::stop("__trap"); }

/* ---- warps ------------------------------------------------------------------------- */

static inline void __syncwarp(unsigned mask = 0xffffffffu, TLK_HERE) {
  emulated::meet_warp(emulated::SYNC, mask, 0, 0, "__syncwarp", {file, line});
}
/* Returns only the thread's own lane, the smallest mask that CUDA allows. */
static inline unsigned __activemask() { return 1u << emulated::place.lane; }

template <class T>
static inline T __shfl_sync(unsigned mask, T x, int source, int width = 32, TLK_HERE) {
  int lane = (int)emulated::place.lane;
  return emulated::shuffle(mask, x, (lane & -width) | (source & (width - 1)), "__shfl_sync",
                           {file, line});
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T x, unsigned delta, int width = 32, TLK_HERE) {
  int lane = (int)emulated::place.lane, source = lane - (int)delta;
  return emulated::shuffle(mask, x, source < (lane & -width) ? lane : source, "__shfl_up_sync",
                           {file, line});
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T x, unsigned delta, int width = 32, TLK_HERE) {
  int lane = (int)emulated::place.lane, source = lane + (int)delta;
  return emulated::shuffle(mask, x, source > (lane | (width - 1)) ? lane : source,
                           "__shfl_down_sync", {file, line});
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T x, int other, int width = 32, TLK_HERE) {
  int lane = (int)emulated::place.lane, source = lane ^ other;
  return emulated::shuffle(mask, x, source > (lane | (width - 1)) ? lane : source,
                           "__shfl_xor_sync", {file, line});
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, TLK_HERE) {
  return (unsigned)emulated::meet_warp(emulated::BALLOT, mask, predicate != 0, 0, "__ballot_sync",
                                       {file, line});
}
static inline int __any_sync(unsigned mask, int predicate, TLK_HERE) {
  return emulated::meet_warp(emulated::BALLOT, mask, predicate != 0, 0, "__any_sync",
                             {file, line}) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, TLK_HERE) {
  return emulated::meet_warp(emulated::BALLOT, mask, predicate == 0, 0, "__all_sync",
                             {file, line}) == 0;
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T x, TLK_HERE) {
  return (unsigned)emulated::meet_warp(emulated::MATCH, mask, emulated::to_word(x), 0,
                                       "__match_any_sync", {file, line});
}

#define REDUCTION(name, T, meeting)                                                              \
  static inline T name(unsigned mask, T x, TLK_HERE) {                                           \
    return (T)emulated::meet_warp(emulated::meeting, mask, (uint64_t)x, 0, #name, {file, line}); \
  }
REDUCTION(__reduce_add_sync, unsigned, ADD)
REDUCTION(__reduce_add_sync, int, ADD)
REDUCTION(__reduce_min_sync, unsigned, UMIN)
REDUCTION(__reduce_min_sync, int, MIN)
REDUCTION(__reduce_max_sync, unsigned, UMAX)
REDUCTION(__reduce_max_sync, int, MAX)
REDUCTION(__reduce_and_sync, unsigned, AND)
REDUCTION(__reduce_or_sync, unsigned, OR)
REDUCTION(__reduce_xor_sync, unsigned, XOR)
#undef REDUCTION

#endif
