/*
** blocks.h - the caching allocator of devices. It decides which stream gets which part of a
** device's memory. A plugin connects the allocator to memory and streams by a table of functions,
** its source. kernels/cuda/memory.c is the source for CUDA, kernels/sim/memory.c for the simulated
** device, and spec/core/blocks_test.c for tests.
**
** Memory is divided into arenas. Each arena belongs to one stream and one pool, and is either for
** small or for large blocks. An arena is a range of address space. Its granules are mapped to
** memory on demand, at any position, so a small block that is still in use keeps only one granule
** mapped, not the whole range. If no arena has room for a block, another arena is made. It is as
** large as all earlier arenas together. If the source refuses so much address space, it is just
** large enough for the block, since a process has 47 bits of addresses for all devices, streams and
** graphs.
**
** A block belongs to its arena's stream. A freed block may be allocated again immediately, because
** its next use is queued later on that stream. If other streams use the block as well, it stays
** pending until they have passed the point where it was freed. Blocks allocated for a pool belong
** to a graph (capture_begin in core/device/api.h).
**
** Callers hold one lock around all calls for one tlk_Blocks.
*/
#ifndef TLK_DEVICE_BLOCKS_H
#define TLK_DEVICE_BLOCKS_H

#include <stdlib.h>

#include "core/device/api.h"
#include "core/device/host.h"

#define TLK_BLOCK_UNIT 512 /* the size of each block is a multiple of this number of bytes */
/* Blocks of up to this many bytes are small. They never share a granule with larger blocks. */
#define TLK_SMALL_BLOCK (1024 * 1024)
#define TLK_BLOCK_STREAMS 64 /* stream numbers are smaller than this */

/* The functions that the allocator calls. Each gets `self` as its first argument. */
typedef struct tlk_BlockSource {
  void *self;
  const tl_Host *host; /* the host, which receives failures and memory events (borrowed) */
  const char *name;    /* name of the plugin for messages */
  tl_Device device;
  int64_t granule[2]; /* size in bytes of a granule for large blocks, and for small blocks */
  /* The least number of bytes that is mapped at once for a large block, unless the block needs at
  ** least half of this number. Later blocks use the rest. */
  int64_t least;
  /* size in bytes of the address space of a stream's first arena, a multiple of both granules */
  int64_t reach;
  /* largest size in bytes that the allocator chooses for a later arena, a multiple of both
  ** granules */
  int64_t most;
  /* Reserves address space. Returns NULL with a message on failure. */
  char *(*reserve)(void *self, int64_t bytes);
  void (*unreserve)(void *self, char *at, int64_t bytes);
  /* Maps memory at whole granules. Returns false without a message if memory is exhausted. */
  bool (*map)(void *self, char *at, int64_t bytes, int64_t granule);
  void (*unmap)(void *self, char *at, int64_t bytes, int64_t granule);
  /* Marks the current end of a stream's queue. Returns NULL if no mark is available. */
  void *(*mark)(void *self, int stream);
  bool (*passed)(void *self, void *mark);
  void (*drop)(void *self, void *mark);
  /* Waits until all streams are idle. Returns false with a message on failure. The function may
  ** release the caller's lock while it waits, but it must hold the lock from the moment when the
  ** last stream is idle. */
  bool (*wait)(void *self);
  /* Tells the source that a block of the pool has become free, before the block is used again. May
  ** be NULL. */
  void (*freed)(void *self, char *data, int64_t bytes, int stream, uint64_t pool);
} tlk_BlockSource;

typedef struct tlk_Block tlk_Block;
typedef struct tlk_Arena tlk_Arena;
typedef struct tlk_BlockPool tlk_BlockPool;

/* An entry of the map from addresses to blocks in use. */
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
  /* whether address space was refused once, so that new arenas are as small as possible */
  bool tight;
  int captures; /* number of open captures; streams cannot be queried during a capture */
  int64_t limit;
  tl_MemoryStats stats;
  placed_Map placed;
} tlk_Blocks;

void tlk_blocks_open(tlk_Blocks *b, const tlk_BlockSource *source, int64_t limit);
/* Releases all memory. All blocks must have been freed. Only specs call this function. */
void tlk_blocks_close(tlk_Blocks *b);

/* Allocates a block. Returns NULL on failure. The error is TL_EMEM if memory is exhausted, and
** another error if the device failed. */
void *tlk_blocks_alloc(tlk_Blocks *b, int64_t bytes, int stream, uint64_t pool);
void tlk_blocks_free(tlk_Blocks *b, void *data);
/* Records that another stream uses a block, from now until the block is freed. */
void tlk_blocks_used_by(tlk_Blocks *b, void *data, int stream);
/* Waits for all streams and unmaps free granules. */
bool tlk_blocks_trim(tlk_Blocks *b);

/* These functions add and remove a holder of a pool (a capture or a graph). `launched` is the bit
** mask of the streams on which the holder's graph was launched. */
bool tlk_blocks_hold(tlk_Blocks *b, uint64_t pool);
void tlk_blocks_let_go(tlk_Blocks *b, uint64_t pool, uint64_t launched);
/* Changes the number of open captures of the device. `change` is 1 when a capture begins and -1
** when it ends. */
void tlk_blocks_capture(tlk_Blocks *b, int change);

void tlk_blocks_stats(const tlk_Blocks *b, tl_MemoryStats *out);
void tlk_blocks_visit(const tlk_Blocks *b, void (*visit)(void *to, const tl_BlockInfo *info),
                      void *to);

#endif
