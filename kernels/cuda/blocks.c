/*
** blocks.c - blocks of device memory. Each arena keeps its free blocks in lists by size, eight
** lists for each power of two, and a bitmap of the lists that are not empty. So a search looks
** at one list and then at bits (M. Masmano et al., "TLSF: a new dynamic memory allocator for
** real-time systems", ECRTS 2004).
*/
#include "kernels/cuda/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin.h"

#define BINS 320
/* a large block is split if at least this many bytes remain */
#define SPLIT_LEAST (CUDA_SMALL_BLOCK + 1)

/* ORDER STATE: only FREE and UNMAPPED blocks are kept in size lists. */
typedef enum State { FREE, UNMAPPED, USED, PENDING } State;

typedef struct Mark {
  struct Mark *next;
  void *mark;
} Mark;

struct cuda_Block {
  cuda_Block *before, *after; /* neighbours by address in the arena */
  cuda_Block *next, **link;   /* the list of free, unmapped or pending blocks */
  cuda_Arena *arena;
  char *data;
  int64_t bytes, requested;
  State state;
  bool deferred;   /* pending, but the other streams are not marked yet */
  uint64_t others; /* bit mask of the streams that use it besides the arena's */
  Mark *marks;     /* owned */
};

struct cuda_Arena {
  cuda_Arena *next;
  cuda_Block *first;
  int stream;
  bool small;
  uint64_t pool;
  char *base;
  int64_t mapped;
  cuda_Block *unmapped;
  cuda_Block *bins[BINS];
  uint64_t full[BINS / 64]; /* bit i: bins[i] is not empty */
};

struct cuda_Pool {
  cuda_Pool *next;
  uint64_t number, launched;
  int holders;
};

/* Adds `amount` to a statistic of all blocks and to that of large or small ones. */
#define COUNT(b, small, figure, amount)                                                \
  do {                                                                                 \
    int64_t amount_ = (amount);                                                        \
    tl_stat_add(&(b)->stats.figure[TL_POOL_ALL], amount_);                             \
    tl_stat_add(&(b)->stats.figure[(small) ? TL_POOL_SMALL : TL_POOL_LARGE], amount_); \
  } while (0)

static void note(cuda_Blocks *b, tl_MemoryAction action, const cuda_Arena *a, const char *data,
                 int64_t bytes) {
  b->source.note(b->source.self, action, data, bytes, a->stream);
}

static int64_t granule_of(const cuda_Blocks *b, const cuda_Arena *a) {
  return b->source.granule[a->small];
}

/* ---- lists by size ------------------------------------------------------------------------ */

static void push(cuda_Block **list, cuda_Block *block) {
  block->next = *list;
  block->link = list;
  if (*list) (*list)->link = &block->next;
  *list = block;
}

static void unlink_block(cuda_Block *block) {
  *block->link = block->next;
  if (block->next) block->next->link = block->link;
}

static int bin_of(int64_t bytes) {
  uint64_t units = (uint64_t)bytes / CUDA_BLOCK_UNIT;
  if (units < 8) return (int)units;
  int log = 63 - __builtin_clzll(units);
  return (log - 2) * 8 + (int)(units >> (log - 3) & 7);
}

/* Puts a free block or an unmapped range into its list. */
static void list(cuda_Blocks *b, cuda_Block *block) {
  cuda_Arena *a = block->arena;
  if (block->state == UNMAPPED) {
    push(&a->unmapped, block);
    return;
  }
  int bin = bin_of(block->bytes);
  push(&a->bins[bin], block);
  a->full[bin / 64] |= (uint64_t)1 << bin % 64;
  COUNT(b, a->small, inactive_split, 1);
  COUNT(b, a->small, inactive_split_bytes, block->bytes);
}

static void unlist(cuda_Blocks *b, cuda_Block *block) {
  cuda_Arena *a = block->arena;
  unlink_block(block);
  if (block->state == UNMAPPED) return;
  int bin = bin_of(block->bytes);
  if (a->bins[bin] == NULL) a->full[bin / 64] &= ~((uint64_t)1 << bin % 64);
  COUNT(b, a->small, inactive_split, -1);
  COUNT(b, a->small, inactive_split_bytes, -block->bytes);
}

/* Returns the first list at or after `bin` that is not empty, or BINS. */
static int next_bin(const cuda_Arena *a, int bin) {
  for (int word = bin / 64; word < BINS / 64; word++) {
    uint64_t bits = a->full[word];
    if (word == bin / 64) bits &= ~(uint64_t)0 << bin % 64;
    if (bits) return word * 64 + __builtin_ctzll(bits);
  }
  return BINS;
}

static cuda_Block *find_in(const cuda_Arena *a, int64_t bytes) {
  int bin = bin_of(bytes);
  for (cuda_Block *block = a->bins[bin]; block; block = block->next)
    if (block->bytes >= bytes) return block;
  bin = bin + 1 < BINS ? next_bin(a, bin + 1) : BINS;
  return bin < BINS ? a->bins[bin] : NULL;
}

/* ---- blocks by address --------------------------------------------------------------------- */

static cuda_Block *block_at(const cuda_Blocks *b, const void *data) {
  const cuda_Placed *placed = placed_find(&b->placed, data);
  return placed ? placed->block : NULL;
}

static bool make_room(cuda_Blocks *b) {
  return placed_reserve(&b->placed) || cuda_fail(TL_EMEM, "out of memory");
}

/* There is room. */
static void enter(cuda_Blocks *b, cuda_Block *block) {
  placed_add(&b->placed, block->data)->block = block;
}

static void leave(cuda_Blocks *b, const cuda_Block *block) {
  placed_remove(&b->placed, placed_find(&b->placed, block->data));
}

/* ---- neighbours -------------------------------------------------------------------------- */

/* Splits a block and returns the remainder, which gets the same state; neither is in a list.
** Returns NULL with a message if host memory is exhausted. */
static cuda_Block *cut(cuda_Block *block, int64_t bytes) {
  cuda_Block *rest = calloc(1, sizeof *rest);
  if (rest == NULL) {
    cuda_fail(TL_EMEM, "out of memory");
    return NULL;
  }
  rest->before = block;
  rest->after = block->after;
  rest->arena = block->arena;
  rest->data = block->data + bytes;
  rest->bytes = block->bytes - bytes;
  rest->state = block->state;
  if (block->after) block->after->before = rest;
  block->after = rest;
  block->bytes = bytes;
  return rest;
}

/* Merges a block with the next one; neither is in a list. */
static void swallow(cuda_Block *block) {
  cuda_Block *next = block->after;
  block->bytes += next->bytes;
  block->after = next->after;
  if (next->after) next->after->before = block;
  free(next);
}

/* Merges a free block or unmapped range with neighbours of the same state, and puts it into a
** list. */
static cuda_Block *settle_down(cuda_Blocks *b, cuda_Block *block) {
  if (block->after && block->after->state == block->state) {
    unlist(b, block->after);
    swallow(block);
  }
  if (block->before && block->before->state == block->state) {
    block = block->before;
    unlist(b, block);
    swallow(block);
  }
  list(b, block);
  return block;
}

/* ---- arenas ------------------------------------------------------------------------------ */

static cuda_Arena *arena_new(cuda_Blocks *b, int stream, uint64_t pool, bool small) {
  cuda_Arena *a = calloc(1, sizeof *a);
  cuda_Block *all = calloc(1, sizeof *all);
  char *base = a && all ? b->source.reserve(b->source.self) : NULL;
  if (base == NULL) {
    if (a == NULL || all == NULL) cuda_fail(TL_EMEM, "out of memory");
    free(a);
    free(all);
    return NULL;
  }
  *all = (cuda_Block){.arena = a, .data = base, .bytes = b->source.reach, .state = UNMAPPED};
  a->stream = stream;
  a->pool = pool;
  a->small = small;
  a->base = base;
  a->first = all;
  a->next = b->arenas;
  b->arenas = a;
  list(b, all);
  return a;
}

static bool is_of(const cuda_Arena *a, int stream, uint64_t pool, bool small) {
  return a->stream == stream && a->pool == pool && a->small == small;
}

static void count_mapped(cuda_Blocks *b, cuda_Arena *a, int64_t bytes) {
  if (a->mapped == 0) COUNT(b, a->small, segment, 1);
  a->mapped += bytes;
  if (a->mapped == 0) COUNT(b, a->small, segment, -1);
  COUNT(b, a->small, reserved_bytes, bytes);
  if (bytes > 0)
    b->stats.num_device_alloc++;
  else
    b->stats.num_device_free++;
}

/* Maps memory at the beginning of an unmapped range, so that together with the free block
** before it there are `bytes`. Returns that free block, or NULL if there is not enough memory. */
static cuda_Block *extend(cuda_Blocks *b, cuda_Block *range, int64_t bytes) {
  cuda_Arena *a = range->arena;
  int64_t granule = granule_of(b, a);
  bool joins = range->before && range->before->state == FREE;
  int64_t need = bytes - (joins ? range->before->bytes : 0);
  need = (need + granule - 1) / granule * granule;
  if (need > range->bytes || need > b->limit - b->stats.reserved_bytes[TL_POOL_ALL].current)
    return NULL;
  unlist(b, range);
  if (need < range->bytes) {
    cuda_Block *rest = cut(range, need);
    if (rest == NULL) {
      list(b, range);
      return NULL;
    }
    list(b, rest);
  }
  if (!b->source.map(b->source.self, range->data, need, granule)) {
    settle_down(b, range);
    return NULL;
  }
  count_mapped(b, a, need);
  note(b, TL_MEMORY_SEGMENT_MAP, a, range->data, need);
  range->state = FREE;
  return settle_down(b, range);
}

static cuda_Block *grow(cuda_Blocks *b, cuda_Arena *a, int64_t bytes) {
  for (cuda_Block *range = a->unmapped, *next; range; range = next) {
    next = range->next;
    cuda_Block *block = extend(b, range, bytes);
    if (block) return block;
  }
  return NULL;
}

/* Finds a free block in the arenas of this stream and pool, and maps more memory if none fits. */
static cuda_Block *find(cuda_Blocks *b, int64_t bytes, int stream, uint64_t pool, bool small) {
  bool any = false;
  for (cuda_Arena *a = b->arenas; a; a = a->next) {
    if (!is_of(a, stream, pool, small)) continue;
    cuda_Block *block = find_in(a, bytes);
    if (block) return block;
    any = true;
  }
  if (!any && arena_new(b, stream, pool, small) == NULL) return NULL;
  for (cuda_Arena *a = b->arenas; a; a = a->next) {
    cuda_Block *block = is_of(a, stream, pool, small) ? grow(b, a, bytes) : NULL;
    if (block) return block;
  }
  return NULL;
}

/* ---- freeing ----------------------------------------------------------------------------- */

static void drop_marks(cuda_Blocks *b, cuda_Block *block) {
  for (Mark *m = block->marks, *next; m; m = next) {
    next = m->next;
    b->source.drop(b->source.self, m->mark);
    free(m);
  }
  block->marks = NULL;
  block->others = 0;
}

/* Marks the block as free once no stream uses it. It is not in a list. */
static void complete(cuda_Blocks *b, cuda_Block *block) {
  const cuda_Arena *a = block->arena;
  COUNT(b, a->small, active, -1);
  COUNT(b, a->small, active_bytes, -block->bytes);
  note(b, TL_MEMORY_FREE_COMPLETED, a, block->data, block->bytes);
  block->state = FREE;
  settle_down(b, block);
}

/* Records a mark on each of the block's other streams. If no mark is available, waits for the
** device instead. */
static void ask_others(cuda_Blocks *b, cuda_Block *block) {
  block->deferred = false;
  for (int stream = 0; stream < CUDA_BLOCK_STREAMS; stream++) {
    if (!(block->others >> stream & 1)) continue;
    Mark *m = malloc(sizeof *m);
    void *mark = m ? b->source.mark(b->source.self, stream) : NULL;
    if (mark == NULL) {
      free(m);
      b->source.wait(b->source.self);
      continue;
    }
    *m = (Mark){block->marks, mark};
    block->marks = m;
  }
}

static bool passed(cuda_Blocks *b, const cuda_Block *block) {
  for (const Mark *m = block->marks; m; m = m->next)
    if (!b->source.passed(b->source.self, m->mark)) return false;
  return !block->deferred;
}

/* Frees pending blocks whose streams have passed their marks. */
static void look_at_pending(cuda_Blocks *b) {
  if (b->captures > 0) return;
  for (cuda_Block *block = b->pending, *next; block; block = next) {
    next = block->next;
    if (block->deferred) ask_others(b, block);
    if (!passed(b, block)) continue;
    unlink_block(block);
    drop_marks(b, block);
    complete(b, block);
  }
}

void cuda_blocks_free(cuda_Blocks *b, void *data) {
  cuda_Block *block = block_at(b, data);
  if (block == NULL) return;
  const cuda_Arena *a = block->arena;
  leave(b, block);
  COUNT(b, a->small, allocation, -1);
  COUNT(b, a->small, allocated_bytes, -block->bytes);
  COUNT(b, a->small, requested_bytes, -block->requested);
  note(b, TL_MEMORY_FREE_REQUESTED, a, block->data, block->bytes);
  if (block->others == 0) {
    complete(b, block);
    return;
  }
  block->state = PENDING;
  block->deferred = true;
  push(&b->pending, block);
  if (b->captures == 0) ask_others(b, block);
}

void cuda_blocks_used_by(cuda_Blocks *b, void *data, int stream) {
  cuda_Block *block = block_at(b, data);
  if (block && block->arena->stream != stream) block->others |= (uint64_t)1 << stream;
}

/* ---- unmapping ------------------------------------------------------------------------------ */

/* Unmaps the whole granules of a free block. Returns the last block of the resulting pieces. */
static cuda_Block *shrink(cuda_Blocks *b, cuda_Block *block) {
  cuda_Arena *a = block->arena;
  int64_t granule = granule_of(b, a), from = block->data - a->base, to = from + block->bytes;
  from = (from + granule - 1) / granule * granule;
  to = to / granule * granule;
  if (from >= to) return block;
  unlist(b, block);
  cuda_Block *middle = block, *rest = NULL;
  if (a->base + from > block->data) middle = cut(block, a->base + from - block->data);
  if (middle && middle->bytes > to - from && (rest = cut(middle, to - from)) == NULL) {
    if (middle != block) swallow(block);
    middle = NULL;
  }
  if (block != middle) list(b, block);
  /* there is no host memory to describe the pieces, so the block stays as it was */
  if (middle == NULL) return block;
  if (rest) list(b, rest);
  b->source.unmap(b->source.self, middle->data, middle->bytes, granule);
  count_mapped(b, a, -middle->bytes);
  note(b, TL_MEMORY_SEGMENT_UNMAP, a, middle->data, middle->bytes);
  middle->state = UNMAPPED;
  return settle_down(b, middle);
}

/* Removes arenas that have no memory mapped, with their address space. */
static void remove_empty(cuda_Blocks *b) {
  for (cuda_Arena **at = &b->arenas; *at;) {
    cuda_Arena *a = *at;
    if (a->mapped > 0) {
      at = &a->next;
      continue;
    }
    *at = a->next;
    b->source.unreserve(b->source.self, a->base);
    free(a->first); /* the arena is one unmapped range */
    free(a);
  }
}

/* Unmaps free memory. The free blocks of a pool that is in use belong to its graphs. */
static void give_back(cuda_Blocks *b) {
  for (cuda_Arena *a = b->arenas; a; a = a->next)
    for (cuda_Block *block = a->pool == 0 ? a->first : NULL; block; block = block->after)
      if (block->state == FREE) block = shrink(b, block);
  remove_empty(b);
}

bool cuda_blocks_trim(cuda_Blocks *b) {
  if (b->captures > 0) return true; /* no stream can be waited for during a capture */
  if (!b->source.wait(b->source.self)) return false;
  look_at_pending(b);
  give_back(b);
  return true;
}

/* ---- allocating ---------------------------------------------------------------------------- */

static void *take(cuda_Blocks *b, cuda_Block *block, int64_t bytes, int64_t requested) {
  bool small = block->arena->small;
  unlist(b, block);
  if (block->bytes - bytes >= (small ? CUDA_BLOCK_UNIT : SPLIT_LEAST)) {
    cuda_Block *rest = cut(block, bytes);
    if (rest) list(b, rest);
  }
  block->state = USED;
  block->requested = requested;
  enter(b, block);
  COUNT(b, small, allocation, 1);
  COUNT(b, small, active, 1);
  COUNT(b, small, allocated_bytes, block->bytes);
  COUNT(b, small, active_bytes, block->bytes);
  COUNT(b, small, requested_bytes, requested);
  note(b, TL_MEMORY_ALLOC, block->arena, block->data, block->bytes);
  return block->data;
}

void *cuda_blocks_alloc(cuda_Blocks *b, int64_t requested, int stream, uint64_t pool) {
  if (requested > b->source.reach) {
    cuda_fail(TL_EMEM, "out of memory");
    return NULL;
  }
  int64_t bytes = (requested + CUDA_BLOCK_UNIT - 1) / CUDA_BLOCK_UNIT * CUDA_BLOCK_UNIT;
  if (bytes == 0) bytes = CUDA_BLOCK_UNIT;
  bool small = bytes <= CUDA_SMALL_BLOCK;
  if (!make_room(b)) return NULL;
  if (b->pending) look_at_pending(b);
  cuda_Block *block = find(b, bytes, stream, pool, small);
  if (block == NULL) {
    b->stats.num_alloc_retries++;
    b->stats.num_sync_all_streams++;
    if (!cuda_blocks_trim(b)) return NULL;
    block = find(b, bytes, stream, pool, small);
  }
  if (block) return take(b, block, bytes, requested);
  cuda_fail(TL_EMEM, "out of memory");
  return NULL;
}

/* ---- pools ---------------------------------------------------------------------------------- */

bool cuda_blocks_hold(cuda_Blocks *b, uint64_t number) {
  cuda_Pool *pool = b->pools;
  while (pool && pool->number != number) pool = pool->next;
  if (pool == NULL) {
    pool = calloc(1, sizeof *pool);
    if (pool == NULL) return cuda_fail(TL_EMEM, "out of memory");
    pool->number = number;
    pool->next = b->pools;
    b->pools = pool;
  }
  pool->holders++;
  return true;
}

/* When a pool ends, its free blocks may still be used by a graph launch in flight. */
static void keep_for(cuda_Blocks *b, cuda_Block *block, uint64_t launched) {
  block->others |= launched & ~((uint64_t)1 << block->arena->stream);
  if (block->state != FREE || block->others == 0) return;
  unlist(b, block);
  COUNT(b, block->arena->small, active, 1);
  COUNT(b, block->arena->small, active_bytes, block->bytes);
  block->state = PENDING;
  block->deferred = true;
  push(&b->pending, block);
}

void cuda_blocks_let_go(cuda_Blocks *b, uint64_t number, uint64_t launched) {
  cuda_Pool **at = &b->pools;
  while (*at && (*at)->number != number) at = &(*at)->next;
  cuda_Pool *pool = *at;
  if (pool == NULL) return;
  pool->launched |= launched;
  if (--pool->holders > 0) return;
  for (cuda_Arena *a = b->arenas; a; a = a->next) {
    if (a->pool != number) continue;
    for (cuda_Block *block = a->first; block; block = block->after)
      keep_for(b, block, pool->launched);
    a->pool = 0;
  }
  *at = pool->next;
  free(pool);
}

void cuda_blocks_capture(cuda_Blocks *b, int change) {
  b->captures += change;
  look_at_pending(b);
}

/* ---- statistics ----------------------------------------------------------------------------- */

void cuda_blocks_stats(const cuda_Blocks *b, tl_MemoryStats *out) {
  *out = b->stats;
  out->limit = b->limit;
  for (const cuda_Arena *a = b->arenas; a; a = a->next)
    for (const cuda_Block *block = a->first; block && a->pool == 0; block = block->after)
      if (block->state == FREE && block->bytes > out->largest_free)
        out->largest_free = block->bytes;
}

/* Returns the arena with the next higher address than `last`, or NULL. */
static const cuda_Arena *arena_after(const cuda_Blocks *b, const cuda_Arena *last) {
  const cuda_Arena *found = NULL;
  for (const cuda_Arena *a = b->arenas; a; a = a->next)
    if ((last == NULL || a->base > last->base) && (found == NULL || a->base < found->base))
      found = a;
  return found;
}

static tl_BlockInfo describe(const cuda_Block *block) {
  const cuda_Arena *a = block->arena;
  return (tl_BlockInfo){.segment = a->base,
                        .segment_bytes = a->mapped,
                        .stream_id = a->stream,
                        .pool = a->pool,
                        .small = a->small,
                        .data = block->data,
                        .bytes = block->bytes,
                        .requested = block->state == USED ? block->requested : 0,
                        .state = block->state == USED   ? TL_BLOCK_ALLOCATED
                                 : block->state == FREE ? TL_BLOCK_FREE
                                                        : TL_BLOCK_PENDING};
}

void cuda_blocks_visit(const cuda_Blocks *b, void (*visit)(void *to, const tl_BlockInfo *info),
                       void *to) {
  for (const cuda_Arena *a = arena_after(b, NULL); a; a = arena_after(b, a))
    for (const cuda_Block *block = a->first; block; block = block->after) {
      if (block->state == UNMAPPED) continue;
      tl_BlockInfo info = describe(block);
      visit(to, &info);
    }
}

/* ---- opening and closing ---------------------------------------------------------------------- */

void cuda_blocks_open(cuda_Blocks *b, const cuda_BlockSource *source, int64_t limit) {
  *b = (cuda_Blocks){.source = *source, .limit = limit};
}

void cuda_blocks_close(cuda_Blocks *b) {
  b->captures = 0;
  while (b->pools) cuda_blocks_let_go(b, b->pools->number, 0);
  cuda_blocks_trim(b);
  placed_clear(&b->placed);
}
