/*
** blocks.h - the caching allocator of devices: it decides which stream gets which part of a
** device's memory. A plugin connects it to memory and streams by a table of functions, its
** source: kernels/cuda/memory.c to the driver's, kernels/sim/memory.c to those that it simulates,
** and spec/core/blocks_test.c to counters.
**
** Memory is divided into arenas, which belong to one stream, pool and kind of size. An arena is a
** range of address space; its granules are mapped to memory on demand, at any position. So a small
** block in an unlucky place keeps one granule mapped instead of the whole range. Another arena is
** made if no range of address space is long enough: as large as those before it together, or just
** large enough if the source refuses so much, since a process has 47 bits of addresses for all
** devices, streams and graphs.
**
** A block belongs to its arena's stream. Once freed, it may be handed out again immediately,
** because its next use is queued later on that stream. A block that other streams use as well
** stays pending until they have passed the point where it was freed. Blocks allocated for a
** pool belong to a graph (capture_begin in core/device/api.h).
**
** Callers hold one lock around all calls for one tlk_Blocks.
*/
#ifndef TLK_DEVICE_BLOCKS_H
#define TLK_DEVICE_BLOCKS_H

#include <stdlib.h>

#include "core/device/api.h"
#include "core/device/host.h"

#define TLK_BLOCK_UNIT 512 /* every block's size is a multiple of this number of bytes */
/* blocks of up to this many bytes share granules that have no larger blocks */
#define TLK_SMALL_BLOCK (1024 * 1024)
#define TLK_BLOCK_STREAMS 64 /* stream numbers are smaller than this */

/* The functions that the allocator calls. Each gets `self` as its first argument. */
typedef struct tlk_BlockSource {
  void *self;
  const tl_Host *host; /* receives failures and the events of memory (borrowed) */
  const char *name;    /* the plugin's name in messages */
  tl_Device device;
  int64_t granule[2]; /* bytes of a granule, for large and for small blocks */
  /* the smallest number of bytes to map for a large block of less than half this size */
  int64_t least;
  /* bytes of the address space of a stream's first arena, a multiple of both granules */
  int64_t reach;
  int64_t most; /* largest size in bytes of an arena that grows, a multiple of both granules */
  /* Reserves address space; returns NULL with a message on failure. */
  char *(*reserve)(void *self, int64_t bytes);
  void (*unreserve)(void *self, char *at, int64_t bytes);
  /* Maps memory to whole granules; returns false, without a message, if the memory is
  ** exhausted. */
  bool (*map)(void *self, char *at, int64_t bytes, int64_t granule);
  void (*unmap)(void *self, char *at, int64_t bytes, int64_t granule);
  /* Marks the current end of a stream's queue; returns NULL if no mark is available. */
  void *(*mark)(void *self, int stream);
  bool (*passed)(void *self, void *mark);
  void (*drop)(void *self, void *mark);
  /* Waits until all streams are idle; returns false with a message on failure. It may release the
  ** caller's lock while it waits, but not after it has found the last stream idle. */
  bool (*wait)(void *self);
  /* Is called when a block of the pool becomes free, before the block is reused; may be NULL. */
  void (*freed)(void *self, char *data, int64_t bytes, int stream, uint64_t pool);
} tlk_BlockSource;

typedef struct tlk_Block tlk_Block;
typedef struct tlk_Arena tlk_Arena;
typedef struct tlk_BlockPool tlk_BlockPool;

/* A block that is in use or pending. */
typedef struct tlk_Placed {
  const void *key; /* the block's address */
  tlk_Block *block;
} tlk_Placed;

#define MAP placed
#define MAP_ENTRY tlk_Placed
#define MAP_GET(n) malloc(n)
#define MAP_PUT(p, n) free(p)
#include "core/memory/address_map.h"

typedef struct tlk_Blocks {
  tlk_BlockSource source;
  tlk_Arena *arenas;    /* owned */
  tlk_BlockPool *pools; /* pools in use (owned) */
  tlk_Block *pending;
  bool tight;   /* whether address space was refused, so that arenas are as small as possible */
  int captures; /* number of open captures, during which streams cannot be queried */
  int64_t limit;
  tl_MemoryStats stats;
  placed_Map placed;
} tlk_Blocks;

void tlk_blocks_open(tlk_Blocks *b, const tlk_BlockSource *source, int64_t limit);
/* Releases all memory; no block may be in use. Only specs call this function. */
void tlk_blocks_close(tlk_Blocks *b);

/* Allocates a block. Returns NULL on failure: with TL_EMEM if memory is exhausted, with another
** kind of error if the device failed. */
void *tlk_blocks_alloc(tlk_Blocks *b, int64_t bytes, int stream, uint64_t pool);
void tlk_blocks_free(tlk_Blocks *b, void *data);
/* Notes that another stream uses a block until the block is freed. */
void tlk_blocks_used_by(tlk_Blocks *b, void *data, int stream);
/* Waits for all streams and unmaps free granules. */
bool tlk_blocks_trim(tlk_Blocks *b);

/* Adds or removes a holder of a pool (a capture or a graph). `launched` has a bit for each
** stream that the holder's graph was launched on. */
bool tlk_blocks_hold(tlk_Blocks *b, uint64_t pool);
void tlk_blocks_let_go(tlk_Blocks *b, uint64_t pool, uint64_t launched);
/* Counts the device's open captures: `change` is 1 when one begins and -1 when it ends. */
void tlk_blocks_capture(tlk_Blocks *b, int change);

void tlk_blocks_stats(const tlk_Blocks *b, tl_MemoryStats *out);
void tlk_blocks_visit(const tlk_Blocks *b, void (*visit)(void *to, const tl_BlockInfo *info),
                      void *to);

#endif
