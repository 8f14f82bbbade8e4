/*
** blocks.c - blocks of device memory. Each arena keeps its free blocks in lists by size, eight
** lists for each power of two. A bitmap tells which lists are not empty. So a search looks through
** one list, and then finds the next list in the bitmap (M. Masmano et al., "TLSF: a new dynamic
** memory allocator for real-time systems", ECRTS 2004).
*/
#include "kernels/device/blocks.h"

#include <stdlib.h>

#define BINS 448 /* number of size classes, eight for each power of two */
/* A block for a large allocation is split if at least this many bytes remain. */
#define SPLIT_LEAST (TLK_SMALL_BLOCK + 1)

/* The states of a block. Only FREE and UNMAPPED blocks are in the lists of an arena. */
typedef enum State { FREE, UNMAPPED, USED, PENDING } State;

typedef struct Mark {
  struct Mark *next;
  void *mark;
} Mark;

struct tlk_Block {
  tlk_Block *before, *after; /* neighbours by address in the same arena */
  /* links in the list of free, unmapped or pending blocks to which the block belongs */
  tlk_Block *next, **link;
  tlk_Arena *arena;
  char *data;
  int64_t bytes, requested;
  State state;
  bool deferred;   /* whether the block is pending and its other streams have no marks yet */
  uint64_t others; /* bit mask of the streams that use the block, without the arena's own stream */
  Mark *marks;     /* owned */
};

struct tlk_Arena {
  tlk_Arena *next;
  tlk_Block *first;
  int stream;
  bool small;
  uint64_t pool;
  char *base;
  int64_t bytes, mapped;
  tlk_Block *unmapped;
  tlk_Block *bins[BINS];
  uint64_t full[BINS / 64]; /* bit i is set if bins[i] is not empty */
};

struct tlk_BlockPool {
  tlk_BlockPool *next;
  uint64_t number, launched;
  int holders;
};

static bool no_memory(const tlk_Blocks *b) {
  return b->source.host->fail(TL_EMEM, "%s: out of memory", b->source.name);
}

/* Adds `amount` to a statistic: to the total, and to the part for small or for large blocks. */
#define COUNT(b, small, figure, amount)                                                \
  do {                                                                                 \
    int64_t amount_ = (amount);                                                        \
    tl_stat_add(&(b)->stats.figure[TL_POOL_ALL], amount_);                             \
    tl_stat_add(&(b)->stats.figure[(small) ? TL_POOL_SMALL : TL_POOL_LARGE], amount_); \
  } while (0)

static void note(tlk_Blocks *b, tl_MemoryAction action, const tlk_Arena *a, const char *data,
                 int64_t bytes) {
  b->source.host->memory_event(b->source.device, action, data, bytes, a->stream);
}

static int64_t granule_of(const tlk_Blocks *b, const tlk_Arena *a) {
  return b->source.granule[a->small];
}

/* ---- lists by size ------------------------------------------------------------------------ */

static void push(tlk_Block **list, tlk_Block *block) {
  block->next = *list;
  block->link = list;
  if (*list) (*list)->link = &block->next;
  *list = block;
}

static void unlink_block(tlk_Block *block) {
  *block->link = block->next;
  if (block->next) block->next->link = block->link;
}

static int bin_of(int64_t bytes) {
  uint64_t units = (uint64_t)bytes / TLK_BLOCK_UNIT;
  if (units < 8) return (int)units;
  int log = 63 - __builtin_clzll(units);
  return (log - 2) * 8 + (int)(units >> (log - 3) & 7);
}

/* Puts a free block or an unmapped range into the list of its size. */
static void list(tlk_Blocks *b, tlk_Block *block) {
  tlk_Arena *a = block->arena;
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

static void unlist(tlk_Blocks *b, tlk_Block *block) {
  tlk_Arena *a = block->arena;
  unlink_block(block);
  if (block->state == UNMAPPED) return;
  int bin = bin_of(block->bytes);
  if (a->bins[bin] == NULL) a->full[bin / 64] &= ~((uint64_t)1 << bin % 64);
  COUNT(b, a->small, inactive_split, -1);
  COUNT(b, a->small, inactive_split_bytes, -block->bytes);
}

/* Returns the number of the first non-empty list from `bin` on; BINS if all are empty. */
static int next_bin(const tlk_Arena *a, int bin) {
  for (int word = bin / 64; word < BINS / 64; word++) {
    uint64_t bits = a->full[word];
    if (word == bin / 64) bits &= ~(uint64_t)0 << bin % 64;
    if (bits) return word * 64 + __builtin_ctzll(bits);
  }
  return BINS;
}

static tlk_Block *find_in(const tlk_Arena *a, int64_t bytes) {
  int bin = bin_of(bytes);
  for (tlk_Block *block = a->bins[bin]; block; block = block->next)
    if (block->bytes >= bytes) return block;
  bin = bin + 1 < BINS ? next_bin(a, bin + 1) : BINS;
  return bin < BINS ? a->bins[bin] : NULL;
}

/* ---- blocks by address --------------------------------------------------------------------- */

static tlk_Block *block_at(const tlk_Blocks *b, const void *data) {
  const tlk_Placed *placed = placed_find(&b->placed, data);
  return placed ? placed->block : NULL;
}

static bool make_room(tlk_Blocks *b) { return placed_reserve(&b->placed) || no_memory(b); }

/* Adds a block in use to the address map. make_room has already reserved the entry. */
static void enter(tlk_Blocks *b, tlk_Block *block) {
  placed_add(&b->placed, block->data)->block = block;
}

static void leave(tlk_Blocks *b, const tlk_Block *block) {
  placed_remove(&b->placed, placed_find(&b->placed, block->data));
}

/* ---- neighbours -------------------------------------------------------------------------- */

/* Splits a block after `bytes` bytes and returns the second part, which has the same state. Both
** parts are in no list afterwards. Returns NULL if host memory is exhausted. */
static tlk_Block *cut(tlk_Block *block, int64_t bytes) {
  tlk_Block *rest = calloc(1, sizeof *rest);
  if (rest == NULL) return NULL;
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

/* Merges a block with the next block. Both must be in no list. */
static void swallow(tlk_Block *block) {
  tlk_Block *next = block->after;
  block->bytes += next->bytes;
  block->after = next->after;
  if (next->after) next->after->before = block;
  free(next);
}

/* Merges a free block or an unmapped range with neighbours of the same state, and puts the result
** into a list. */
static tlk_Block *settle_down(tlk_Blocks *b, tlk_Block *block) {
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

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static bool alike(const tlk_Arena *a, const tlk_Arena *like) {
  return a->stream == like->stream && a->pool == like->pool && a->small == like->small;
}

/* Returns the number of bytes of address space for a new arena, at least `least`. */
static int64_t wanted(const tlk_Blocks *b, const tlk_Arena *like, int64_t least) {
  int64_t bytes = 0;
  for (const tlk_Arena *a = b->arenas; a && bytes < b->source.most; a = a->next)
    if (alike(a, like)) bytes += a->bytes;
  if (bytes > b->source.most) bytes = b->source.most;
  if (bytes < b->source.reach) bytes = b->source.reach;
  return bytes > least ? bytes : least;
}

/* Reserves address space for an arena. The size is the result of `wanted`. After the source has
** refused such a size once, the size is only `least`, which is a multiple of the granule. Sets the
** arena's base and size. Returns false with a message on failure. */
static bool reserve_addresses(tlk_Blocks *b, tlk_Arena *a, int64_t least) {
  a->bytes = b->tight ? least : round_up(wanted(b, a, least), granule_of(b, a));
  a->base = b->source.reserve(b->source.self, a->bytes);
  if (a->base || a->bytes == least) return a->base != NULL;
  b->tight = true;
  b->stats.num_address_retries++;
  a->bytes = least;
  a->base = b->source.reserve(b->source.self, least);
  return a->base != NULL;
}

static tlk_Arena *arena_new(tlk_Blocks *b, const tlk_Arena *like, int64_t least) {
  tlk_Arena *a = malloc(sizeof *a);
  tlk_Block *all = calloc(1, sizeof *all);
  if (a) *a = *like;
  if (a == NULL || all == NULL || !reserve_addresses(b, a, least)) {
    if (a == NULL || all == NULL) no_memory(b);
    free(a);
    free(all);
    return NULL;
  }
  *all = (tlk_Block){.arena = a, .data = a->base, .bytes = a->bytes, .state = UNMAPPED};
  a->first = all;
  a->next = b->arenas;
  b->arenas = a;
  list(b, all);
  return a;
}

static void count_mapped(tlk_Blocks *b, tlk_Arena *a, int64_t bytes) {
  if (a->mapped == 0) COUNT(b, a->small, segment, 1);
  a->mapped += bytes;
  if (a->mapped == 0) COUNT(b, a->small, segment, -1);
  COUNT(b, a->small, reserved_bytes, bytes);
  if (bytes > 0)
    b->stats.num_device_alloc++;
  else
    b->stats.num_device_free++;
}

/* Maps memory at the beginning of an unmapped range, and merges it with the free block before the
** range, if there is one. Returns the resulting free block of at least `bytes` bytes, or NULL if
** there is not enough memory. */
static tlk_Block *extend(tlk_Blocks *b, tlk_Block *range, int64_t bytes) {
  tlk_Arena *a = range->arena;
  int64_t granule = granule_of(b, a);
  bool joins = range->before && range->before->state == FREE;
  int64_t need = bytes - (joins ? range->before->bytes : 0), least = b->source.least;
  if (!a->small && bytes < least / 2) {
    if (least > range->bytes) least = range->bytes;
    if (need < least) need = least;
  }
  need = round_up(need, granule);
  if (need > range->bytes || need > b->limit - b->stats.reserved_bytes[TL_POOL_ALL].current)
    return NULL;
  unlist(b, range);
  if (need < range->bytes) {
    tlk_Block *rest = cut(range, need);
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

static tlk_Block *grow(tlk_Blocks *b, tlk_Arena *a, int64_t bytes) {
  for (tlk_Block *range = a->unmapped, *next; range; range = next) {
    next = range->next;
    tlk_Block *block = extend(b, range, bytes);
    if (block) return block;
  }
  return NULL;
}

/* Returns whether the arena has an unmapped range for a block of `bytes` bytes. */
static bool has_room(const tlk_Blocks *b, const tlk_Arena *a, int64_t bytes) {
  const tlk_Block *range = a->unmapped;
  while (range && range->bytes < round_up(bytes, granule_of(b, a))) range = range->next;
  return range != NULL;
}

/* Finds a free block in the arenas of this stream and pool. Maps more memory if no free block is
** large enough. */
static tlk_Block *find(tlk_Blocks *b, int64_t bytes, int stream, uint64_t pool, bool small) {
  tlk_Arena like = {.stream = stream, .pool = pool, .small = small};
  bool room = false;
  if (bytes > b->limit) return NULL;
  for (tlk_Arena *a = b->arenas; a; a = a->next) {
    if (!alike(a, &like)) continue;
    tlk_Block *block = find_in(a, bytes);
    if (block) return block;
    room = room || has_room(b, a, bytes);
  }
  if (!room && arena_new(b, &like, round_up(bytes, granule_of(b, &like))) == NULL) return NULL;
  for (tlk_Arena *a = b->arenas; a; a = a->next) {
    tlk_Block *block = alike(a, &like) ? grow(b, a, bytes) : NULL;
    if (block) return block;
  }
  return NULL;
}

/* ---- freeing ----------------------------------------------------------------------------- */

static void drop_marks(tlk_Blocks *b, tlk_Block *block) {
  for (Mark *m = block->marks, *next; m; m = next) {
    next = m->next;
    b->source.drop(b->source.self, m->mark);
    free(m);
  }
  block->marks = NULL;
  block->others = 0;
}

/* Marks a block as free after all streams have finished with it. The block must be in no list. */
static void complete(tlk_Blocks *b, tlk_Block *block) {
  const tlk_Arena *a = block->arena;
  COUNT(b, a->small, active, -1);
  COUNT(b, a->small, active_bytes, -block->bytes);
  note(b, TL_MEMORY_FREE_COMPLETED, a, block->data, block->bytes);
  if (b->source.freed)
    b->source.freed(b->source.self, block->data, block->bytes, a->stream, a->pool);
  block->state = FREE;
  settle_down(b, block);
}

/* Records a mark on every other stream that uses the block. If no mark is available, waits until
** the device is idle instead. */
static void ask_others(tlk_Blocks *b, tlk_Block *block) {
  block->deferred = false;
  for (int stream = 0; stream < TLK_BLOCK_STREAMS; stream++) {
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

static bool passed(tlk_Blocks *b, const tlk_Block *block) {
  for (const Mark *m = block->marks; m; m = m->next)
    if (!b->source.passed(b->source.self, m->mark)) return false;
  return !block->deferred;
}

/* Frees the pending blocks whose marks have all been passed by their streams. */
static void look_at_pending(tlk_Blocks *b) {
  if (b->captures > 0) return;
  for (tlk_Block *block = b->pending, *next; block; block = next) {
    next = block->next;
    if (block->deferred) ask_others(b, block);
    if (!passed(b, block)) continue;
    unlink_block(block);
    drop_marks(b, block);
    complete(b, block);
  }
}

void tlk_blocks_free(tlk_Blocks *b, void *data) {
  tlk_Block *block = block_at(b, data);
  if (block == NULL) return;
  const tlk_Arena *a = block->arena;
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

void tlk_blocks_used_by(tlk_Blocks *b, void *data, int stream) {
  tlk_Block *block = block_at(b, data);
  if (block && block->arena->stream != stream) block->others |= (uint64_t)1 << stream;
}

/* ---- unmapping ------------------------------------------------------------------------------ */

/* Unmaps the whole granules in a free block. This cuts the block into up to three pieces. Returns
** the last piece. */
static tlk_Block *shrink(tlk_Blocks *b, tlk_Block *block) {
  tlk_Arena *a = block->arena;
  int64_t granule = granule_of(b, a), from = block->data - a->base, to = from + block->bytes;
  from = (from + granule - 1) / granule * granule;
  to = to / granule * granule;
  if (from >= to) return block;
  unlist(b, block);
  tlk_Block *middle = block, *rest = NULL;
  if (a->base + from > block->data) middle = cut(block, a->base + from - block->data);
  if (middle && middle->bytes > to - from && (rest = cut(middle, to - from)) == NULL) {
    if (middle != block) swallow(block);
    middle = NULL;
  }
  if (block != middle) list(b, block);
  /* without host memory for descriptions of the pieces, the block stays as it is */
  if (middle == NULL) return block;
  if (rest) list(b, rest);
  b->source.unmap(b->source.self, middle->data, middle->bytes, granule);
  count_mapped(b, a, -middle->bytes);
  note(b, TL_MEMORY_SEGMENT_UNMAP, a, middle->data, middle->bytes);
  middle->state = UNMAPPED;
  return settle_down(b, middle);
}

/* Removes arenas that have no mapped memory, and returns their address space. */
static void remove_empty(tlk_Blocks *b) {
  for (tlk_Arena **at = &b->arenas; *at;) {
    tlk_Arena *a = *at;
    if (a->mapped > 0) {
      at = &a->next;
      continue;
    }
    *at = a->next;
    b->source.unreserve(b->source.self, a->base, a->bytes);
    b->tight = false;
    free(a->first); /* an arena without mapped memory consists of a single block */
    free(a);
  }
}

/* Unmaps all free memory. The free blocks of a pool in use stay mapped, because they belong to the
** pool's graphs. */
static void give_back(tlk_Blocks *b) {
  for (tlk_Arena *a = b->arenas; a; a = a->next)
    for (tlk_Block *block = a->pool == 0 ? a->first : NULL; block; block = block->after)
      if (block->state == FREE) block = shrink(b, block);
  remove_empty(b);
}

bool tlk_blocks_trim(tlk_Blocks *b) {
  if (b->captures > 0) return true; /* during a capture it is not possible to wait for a stream */
  if (!b->source.wait(b->source.self)) return false;
  look_at_pending(b);
  give_back(b);
  return true;
}

/* ---- allocating ---------------------------------------------------------------------------- */

static void *take(tlk_Blocks *b, tlk_Block *block, int64_t bytes, int64_t requested) {
  bool small = block->arena->small;
  unlist(b, block);
  if (block->bytes - bytes >= (small ? TLK_BLOCK_UNIT : SPLIT_LEAST)) {
    tlk_Block *rest = cut(block, bytes);
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

void *tlk_blocks_alloc(tlk_Blocks *b, int64_t requested, int stream, uint64_t pool) {
  bool possible = requested <= INT64_MAX / 2;
  int64_t bytes = possible ? round_up(requested, TLK_BLOCK_UNIT) : requested;
  if (bytes == 0) bytes = TLK_BLOCK_UNIT;
  bool small = bytes <= TLK_SMALL_BLOCK;
  if (!make_room(b)) return NULL;
  if (b->pending) look_at_pending(b);
  tlk_Block *block = find(b, bytes, stream, pool, small);
  if (block == NULL) {
    b->stats.num_alloc_retries++;
    b->stats.num_sync_all_streams++;
    if (!tlk_blocks_trim(b) || !make_room(b)) return NULL;
    block = find(b, bytes, stream, pool, small);
  }
  if (block) return take(b, block, bytes, requested);
  no_memory(b);
  return NULL;
}

/* ---- pools ---------------------------------------------------------------------------------- */

bool tlk_blocks_hold(tlk_Blocks *b, uint64_t number) {
  tlk_BlockPool *pool = b->pools;
  while (pool && pool->number != number) pool = pool->next;
  if (pool == NULL) {
    pool = calloc(1, sizeof *pool);
    if (pool == NULL) return no_memory(b);
    pool->number = number;
    pool->next = b->pools;
    b->pools = pool;
  }
  pool->holders++;
  return true;
}

/* Makes a free block PENDING after its pool has ended, because a graph that is still running may
** use the block. */
static void keep_for(tlk_Blocks *b, tlk_Block *block, uint64_t launched) {
  block->others |= launched & ~((uint64_t)1 << block->arena->stream);
  if (block->state != FREE || block->others == 0) return;
  unlist(b, block);
  COUNT(b, block->arena->small, active, 1);
  COUNT(b, block->arena->small, active_bytes, block->bytes);
  block->state = PENDING;
  block->deferred = true;
  push(&b->pending, block);
}

void tlk_blocks_let_go(tlk_Blocks *b, uint64_t number, uint64_t launched) {
  tlk_BlockPool **at = &b->pools;
  while (*at && (*at)->number != number) at = &(*at)->next;
  tlk_BlockPool *pool = *at;
  if (pool == NULL) return;
  pool->launched |= launched;
  if (--pool->holders > 0) return;
  for (tlk_Arena *a = b->arenas; a; a = a->next) {
    if (a->pool != number) continue;
    for (tlk_Block *block = a->first; block; block = block->after)
      keep_for(b, block, pool->launched);
    a->pool = 0;
  }
  *at = pool->next;
  free(pool);
  look_at_pending(b);
}

void tlk_blocks_capture(tlk_Blocks *b, int change) {
  b->captures += change;
  look_at_pending(b);
}

/* ---- statistics ----------------------------------------------------------------------------- */

void tlk_blocks_stats(const tlk_Blocks *b, tl_MemoryStats *out) {
  *out = b->stats;
  out->limit = b->limit;
  for (const tlk_Arena *a = b->arenas; a; a = a->next) {
    out->reserved_addresses += a->bytes;
    for (const tlk_Block *block = a->first; block && a->pool == 0; block = block->after)
      if (block->state == FREE && block->bytes > out->largest_free)
        out->largest_free = block->bytes;
  }
}

/* Returns the arena with the next higher address after `last`; NULL if there is none. */
static const tlk_Arena *arena_after(const tlk_Blocks *b, const tlk_Arena *last) {
  const tlk_Arena *found = NULL;
  for (const tlk_Arena *a = b->arenas; a; a = a->next)
    if ((last == NULL || a->base > last->base) && (found == NULL || a->base < found->base))
      found = a;
  return found;
}

static tl_BlockInfo describe(const tlk_Block *block) {
  const tlk_Arena *a = block->arena;
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

void tlk_blocks_visit(const tlk_Blocks *b, void (*visit)(void *to, const tl_BlockInfo *info),
                      void *to) {
  for (const tlk_Arena *a = arena_after(b, NULL); a; a = arena_after(b, a))
    for (const tlk_Block *block = a->first; block; block = block->after) {
      if (block->state == UNMAPPED) continue;
      tl_BlockInfo info = describe(block);
      visit(to, &info);
    }
}

/* ---- opening and closing ------------------------------------------------------------------ */

void tlk_blocks_open(tlk_Blocks *b, const tlk_BlockSource *source, int64_t limit) {
  *b = (tlk_Blocks){.source = *source, .limit = limit};
}

void tlk_blocks_close(tlk_Blocks *b) {
  b->captures = 0;
  while (b->pools) tlk_blocks_let_go(b, b->pools->number, 0);
  tlk_blocks_trim(b);
  placed_clear(&b->placed);
}
