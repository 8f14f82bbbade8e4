/*
** blocks.h - the caching allocator's logic without any CUDA call: it decides which stream gets
** which part of a device's memory. memory.c connects it to the driver's memory and streams;
** specs connect it to simulated ones.
**
** Memory is divided into arenas, one for each stream, pool and kind of size. An arena is a
** range of address space as large as the device; its granules are mapped to memory on demand.
** An arena grows and shrinks by granules at any position, so a small block in an unlucky place
** keeps one granule mapped instead of a whole segment.
**
** A block belongs to its arena's stream. Once freed, it may be handed out again immediately,
** because its next use is queued later on that stream. A block that other streams use as well
** stays pending until they have passed the point where it was freed. Blocks allocated for a
** pool belong to a graph (capture_begin in core/device/api.h).
**
** Callers hold one lock around all calls for one cuda_Blocks.
*/
#ifndef TLK_CUDA_BLOCKS_H
#define TLK_CUDA_BLOCKS_H

#include <stdlib.h>

#include "core/device/api.h"

#define CUDA_BLOCK_UNIT 512            /* every block's size is a multiple of this */
#define CUDA_SMALL_BLOCK (1024 * 1024) /* blocks up to this size share granules of their own */
#define CUDA_BLOCK_STREAMS 64          /* stream numbers are smaller than this */

/* The functions that the allocator calls; each gets `self` as its first argument. */
typedef struct cuda_BlockSource {
  void *self;
  int64_t granule[2]; /* in bytes, for large and for small blocks */
  int64_t reach;      /* an arena's address space in bytes, several times the memory */
  /* Reserves `reach` bytes of address space; returns NULL with a message on failure. */
  char *(*reserve)(void *self);
  void (*unreserve)(void *self, char *at);
  /* Maps memory to whole granules; returns false, without a message, if the memory is
  ** exhausted. */
  bool (*map)(void *self, char *at, int64_t bytes, int64_t granule);
  void (*unmap)(void *self, char *at, int64_t bytes, int64_t granule);
  /* Marks the current end of a stream's queue; returns NULL if no mark is available. */
  void *(*mark)(void *self, int stream);
  bool (*passed)(void *self, void *mark);
  void (*drop)(void *self, void *mark);
  /* Waits for all streams; returns false with a message on failure. */
  bool (*wait)(void *self);
  void (*note)(void *self, tl_MemoryAction action, const void *data, int64_t bytes, int stream);
} cuda_BlockSource;

typedef struct cuda_Block cuda_Block;
typedef struct cuda_Arena cuda_Arena;
typedef struct cuda_Pool cuda_Pool;

/* A block in use or pending. */
typedef struct cuda_Placed {
  const void *key; /* its address */
  cuda_Block *block;
} cuda_Placed;

#define MAP placed
#define MAP_ENTRY cuda_Placed
#define MAP_GET(n) malloc(n)
#define MAP_PUT(p, n) free(p)
#include "core/memory/address_map.h"

typedef struct cuda_Blocks {
  cuda_BlockSource source;
  cuda_Arena *arenas; /* owned */
  cuda_Pool *pools;   /* owned; pools in use */
  cuda_Block *pending;
  int captures; /* number of open captures; streams cannot be queried during one */
  int64_t limit;
  tl_MemoryStats stats;
  placed_Map placed;
} cuda_Blocks;

void cuda_blocks_open(cuda_Blocks *b, const cuda_BlockSource *source, int64_t limit);
/* Releases everything; no block may be in use. Only specs call it. */
void cuda_blocks_close(cuda_Blocks *b);

/* Returns NULL with TL_EMEM if memory is exhausted, with another error kind if the device
** failed. */
void *cuda_blocks_alloc(cuda_Blocks *b, int64_t bytes, int stream, uint64_t pool);
void cuda_blocks_free(cuda_Blocks *b, void *data);
/* Notes that another stream uses the block until it is freed. */
void cuda_blocks_used_by(cuda_Blocks *b, void *data, int stream);
/* Waits for all streams and unmaps free granules. */
bool cuda_blocks_trim(cuda_Blocks *b);

/* Adds or removes a holder of a pool (a capture or a graph). `launched` has a bit for each
** stream that the holder's graph was launched on. */
bool cuda_blocks_hold(cuda_Blocks *b, uint64_t pool);
void cuda_blocks_let_go(cuda_Blocks *b, uint64_t pool, uint64_t launched);
/* Counts the device's open captures: `change` is 1 when one begins and -1 when it ends. */
void cuda_blocks_capture(cuda_Blocks *b, int change);

void cuda_blocks_stats(const cuda_Blocks *b, tl_MemoryStats *out);
void cuda_blocks_visit(const cuda_Blocks *b, void (*visit)(void *to, const tl_BlockInfo *info),
                       void *to);

#endif
