/*
** blocks.h - the caching allocator's logic, without a word of CUDA: who gets which part
** of a device's memory. memory.c gives it memory and streams; specs give it others.
**
** Memory lies in arenas, one for each stream, pool and kind of size: address space as
** large as the device, of which granules have memory behind them. An arena grows and
** shrinks by granules wherever they are needed, so a small block in the wrong place
** keeps one granule and not a segment.
**
** A block belongs to its arena's stream: freed, it may be handed out again at once, since
** what uses it next comes later on that stream. A block that other streams use as well is
** pending until they have passed the point where it was freed. What is allocated for a
** pool is a graph's (capture_begin in core/device/api.h).
**
** Callers hold one lock around all calls of one cuda_Blocks.
*/
#ifndef TLK_CUDA_BLOCKS_H
#define TLK_CUDA_BLOCKS_H

#include "core/device/api.h"

#define CUDA_BLOCK_UNIT 512            /* sizes of blocks are multiples of it */
#define CUDA_SMALL_BLOCK (1024 * 1024) /* up to this size blocks share granules of their own */
#define CUDA_BLOCK_STREAMS 64          /* numbers of streams are below it */

/* What the allocator asks for; `self` is the member of that name. */
typedef struct cuda_BlockSource {
  void *self;
  int64_t granule[2]; /* bytes, of large blocks and of small ones */
  int64_t reach;      /* bytes of address space for an arena, several times the memory */
  /* Address space of `reach` bytes; NULL with a message. */
  char *(*reserve)(void *self);
  void (*unreserve)(void *self, char *at);
  /* Memory behind whole granules of it; false, without a message, where there is none. */
  bool (*map)(void *self, char *at, int64_t bytes, int64_t granule);
  void (*unmap)(void *self, char *at, int64_t bytes, int64_t granule);
  /* A point of what a stream has been given so far; NULL if there is none to be had. */
  void *(*mark)(void *self, int stream);
  bool (*passed)(void *self, void *mark);
  void (*drop)(void *self, void *mark);
  /* Waits for all streams; false with a message. */
  bool (*wait)(void *self);
  void (*note)(void *self, tl_MemoryAction action, const void *data, int64_t bytes, int stream);
} cuda_BlockSource;

typedef struct cuda_Block cuda_Block;
typedef struct cuda_Arena cuda_Arena;
typedef struct cuda_Pool cuda_Pool;

typedef struct cuda_Blocks {
  cuda_BlockSource source;
  cuda_Arena *arenas; /* owned */
  cuda_Pool *pools;   /* owned; those that live */
  cuda_Block *pending;
  int captures; /* open ones; meanwhile no stream is asked where it is */
  int64_t limit;
  tl_MemoryStats stats;
  cuda_Block **table; /* owned; blocks in use and pending by their address */
  int64_t slots, filled;
} cuda_Blocks;

void cuda_blocks_open(cuda_Blocks *b, const cuda_BlockSource *source, int64_t limit);
/* Gives everything back; for specs. Nothing may be in use. */
void cuda_blocks_close(cuda_Blocks *b);

/* NULL with TL_EMEM where there is no memory, with another kind where the device fails. */
void *cuda_blocks_alloc(cuda_Blocks *b, int64_t bytes, int stream, uint64_t pool);
void cuda_blocks_free(cuda_Blocks *b, void *data);
/* Another stream uses the block until it is freed. */
void cuda_blocks_used_by(cuda_Blocks *b, void *data, int stream);
/* Gives free granules back, after a wait for all streams. */
bool cuda_blocks_trim(cuda_Blocks *b);

/* A holder of a pool more (a capture or a graph), or one less. `launched` has a bit for
** each stream that the holder's graph was launched on. */
bool cuda_blocks_hold(cuda_Blocks *b, uint64_t pool);
void cuda_blocks_let_go(cuda_Blocks *b, uint64_t pool, uint64_t launched);
/* A capture of the device begins or ends. */
void cuda_blocks_capture(cuda_Blocks *b, int change);

void cuda_blocks_stats(const cuda_Blocks *b, tl_MemoryStats *out);
void cuda_blocks_visit(const cuda_Blocks *b, void (*visit)(void *to, const tl_BlockInfo *info),
                       void *to);

#endif
