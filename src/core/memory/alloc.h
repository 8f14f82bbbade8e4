/*
** alloc.h - the allocator for all memory of the engine: objects, small blocks and tensor data. It
** caches blocks by size class, counts their bytes, and limits them.
*/
#ifndef TLI_ALLOC_H
#define TLI_ALLOC_H

#include "tlua.h"

/* Alignment of blocks in bytes, for vector loads and cache lines. */
#define TLI_ALIGN 64

/* Returns uninitialised memory aligned to TLI_ALIGN (to 16 for less than 64 bytes); NULL with
** TL_EMEM on failure. 0 bytes is a valid request. */
void *tli_alloc(size_t bytes) TL_MUSTCHECK;
/* Frees a block. `bytes` must be the requested size. Accepts NULL. */
void tli_free(void *block, size_t bytes);

/* A hook: functions that serve the calling thread's requests instead of the allocator, as long as
** the hook is set. */
typedef struct tli_AllocHook {
  /* Returns a block, or NULL to leave the request to the allocator. */
  void *(*get)(struct tli_AllocHook *hook, size_t bytes);
  /* Receives the block that the allocator has returned for a request that `get` did not serve. */
  void (*got)(struct tli_AllocHook *hook, void *block, size_t bytes);
  /* Takes the block back and returns true, or returns false to leave it to the allocator. */
  bool (*put)(struct tli_AllocHook *hook, void *block);
} tli_AllocHook;
/* Sets the calling thread's hook (borrowed) and returns the previous one. The hook's functions must
** not allocate while the hook is set. */
tli_AllocHook *tli_alloc_divert(tli_AllocHook *hook);

/* Returns the maximum of tl_memory_used since the last reset. It is accurate to some KB, because
** blocks of up to 4 KB are counted only when a thread takes more of them from the pool. */
int64_t tli_memory_peak(void);
void tli_memory_reset_peak(void);

/* Fault injection: the n-th call of tli_alloc in this thread, counted from now, fails once; 0 turns
** this off. */
void tli_alloc_fail_at(int64_t n);
/* Fault injection: the n-th call of tli_alloc in this thread and all later calls fail. */
void tli_alloc_fail_from(int64_t n);
/* Returns the number of this thread's calls of tli_alloc. */
int64_t tli_alloc_count(void);

#endif
