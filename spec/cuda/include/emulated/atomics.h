/*
** atomics.h - CUDA's atomic operations. Plain reads and writes are atomic here, because one host
** thread runs all blocks of a launch. It switches between CUDA threads only at barriers or, when it
** looks for races (races.cc), between operations.
*/
#ifndef TLK_EMULATED_ATOMICS_H
#define TLK_EMULATED_ATOMICS_H

namespace emulated {
/* Marks the running thread as executing an atomic operation while the object exists. */
class Atomically {
  bool removed;

public:
  explicit Atomically(Line at) : removed(is_removed(at)) { place.atomic = !removed; }
  ~Atomically() { place.atomic = false; }
  /* Lets other threads run between the load and the store if the test has disabled this
  ** operation's atomicity. */
  void halfway() const {
    if (removed) pause();
  }
};
} // namespace emulated

#define ATOMIC(name, T, result)                     \
  static inline T name(T *address, T x, TLK_HERE) { \
    emulated::Atomically extent({file, line});      \
    T old = *address;                               \
    extent.halfway();                               \
    *address = (T)(result);                         \
    return old;                                     \
  }
#define ATOMIC_WORDS(name, result) \
  ATOMIC(name, int, result)        \
  ATOMIC(name, unsigned, result)   \
  ATOMIC(name, unsigned long long, result)
/* The sum is computed in unsigned, because integer sums wrap around. */
ATOMIC(atomicAdd, int, (unsigned)old + (unsigned)x)
ATOMIC(atomicAdd, unsigned, old + x)
ATOMIC(atomicAdd, unsigned long long, old + x)
ATOMIC(atomicAdd, float, old + x)
ATOMIC(atomicAdd, double, old + x)
ATOMIC(atomicSub, int, (unsigned)old - (unsigned)x)
ATOMIC(atomicSub, unsigned, old - x)
ATOMIC_WORDS(atomicExch, x)
ATOMIC(atomicExch, float, x)
ATOMIC_WORDS(atomicMin, x < old ? x : old)
ATOMIC(atomicMin, long long, x < old ? x : old)
ATOMIC_WORDS(atomicMax, x > old ? x : old)
ATOMIC(atomicMax, long long, x > old ? x : old)
ATOMIC_WORDS(atomicAnd, old &x)
ATOMIC_WORDS(atomicOr, old | x)
ATOMIC_WORDS(atomicXor, old ^ x)
ATOMIC(atomicInc, unsigned, old >= x ? 0 : old + 1)
ATOMIC(atomicDec, unsigned, old == 0 || old > x ? x : old - 1)
#undef ATOMIC_WORDS
#undef ATOMIC

#define ATOMIC_CAS(T)                                                     \
  static inline T atomicCAS(T *address, T expected, T wanted, TLK_HERE) { \
    emulated::Atomically extent({file, line});                            \
    T old = *address;                                                     \
    extent.halfway();                                                     \
    if (old == expected) *address = wanted;                               \
    return old;                                                           \
  }
ATOMIC_CAS(int)
ATOMIC_CAS(unsigned)
ATOMIC_CAS(unsigned short)
ATOMIC_CAS(unsigned long long)
#undef ATOMIC_CAS

/* Defines the loads and stores that take cache hints, which have no effect here. */
#define LOAD(name) \
  template <class T> static inline T name(const T *address) { return *address; }
LOAD(__ldg)
LOAD(__ldca)
LOAD(__ldcg)
LOAD(__ldcs)
LOAD(__ldcv)
LOAD(__ldlu)
#undef LOAD
#define STORE(name) \
  template <class T> static inline void name(T *address, T x) { *address = x; }
STORE(__stwb)
STORE(__stcg)
STORE(__stcs)
STORE(__stwt)
#undef STORE

#endif
