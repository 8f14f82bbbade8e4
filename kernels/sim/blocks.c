/*
** blocks.c - the simulated device's allocator, which follows PyTorch's rules for CUDA. Sizes
** are multiples of 512 bytes. Blocks up to 1 MiB share segments of 2 MiB, blocks below 10 MiB
** share segments of 20 MiB. Segments are split into blocks, and free neighbours are merged.
**
** A block belongs to the stream it was allocated for. When it is freed, its bytes are
** overwritten in that stream's order, and the same stream may reuse it immediately. Other
** streams get it only as a whole segment, after a wait for the device, when memory is short. A
** block that other streams use as well is held until they have passed the point where it was
** freed. Segments allocated in a capture belong to its pool until the pool ends.
*/
#include <stdlib.h>

#include "kernels/sim/sim.h"

#define UNIT 512
#define MIB ((int64_t)1 << 20)
#define SMALL MIB /* blocks up to this size are small */
#define LARGE (10 * MIB)

/* Adds `amount` to a statistic of all blocks and to that of large or small ones. */
#define COUNT(d, small, figure, amount)                                                \
  do {                                                                                 \
    int64_t amount_ = (amount);                                                        \
    tl_stat_add(&(d)->stats.figure[TL_POOL_ALL], amount_);                             \
    tl_stat_add(&(d)->stats.figure[(small) ? TL_POOL_SMALL : TL_POOL_LARGE], amount_); \
  } while (0)

/* ---- blocks ------------------------------------------------------------------------ */

static bool available(const sim_Block *b) {
  return b->segment && !b->used && !b->deferred && b->others == 0;
}

static bool within(const sim_Block *b, const sim_Block *neighbour) {
  return neighbour && neighbour->segment == b->segment;
}

/* Whether the block is only a part of its segment. */
static bool is_split(const sim_Block *b) { return within(b, b->before) || within(b, b->after); }

static void note(const sim_Device *d, tl_MemoryAction action, const sim_Block *b) {
  sim_host->memory_event((tl_Device){TL_SIM, (int8_t)d->index}, action, b->data, b->bytes,
                         b->segment->stream->id);
}

/* Merges a block with the next one. */
static void swallow(sim_Block *b) {
  sim_Block *next = b->after;
  b->bytes += next->bytes;
  b->after = next->after;
  if (next->after) next->after->before = b;
  free(next);
}

/* Counts a free part of a segment; a negative size removes one. */
static void count_split(sim_Device *d, const sim_Block *b, int64_t bytes) {
  COUNT(d, b->segment->small, inactive_split, bytes > 0 ? 1 : -1);
  COUNT(d, b->segment->small, inactive_split_bytes, bytes);
}

/* Merges a free block, which is not counted yet, with its free neighbours. */
static void join(sim_Device *d, sim_Block *b) {
  if (within(b, b->after) && available(b->after)) {
    count_split(d, b->after, -b->after->bytes);
    swallow(b);
  }
  if (within(b, b->before) && available(b->before)) {
    b = b->before;
    count_split(d, b, -b->bytes);
    swallow(b);
  }
  if (is_split(b)) count_split(d, b, b->bytes);
}

/* Splits a block; the remainder keeps its state. */
static bool cut(sim_Block *b, int64_t bytes) {
  sim_Block *rest = calloc(1, sizeof *rest);
  if (rest == NULL) return sim_host->fail(TL_EMEM, "sim: out of memory");
  *rest = (sim_Block){.before = b,
                      .after = b->after,
                      .data = b->data + bytes,
                      .bytes = b->bytes - bytes,
                      .segment = b->segment};
  if (b->after) b->after->before = rest;
  b->after = rest;
  b->bytes = bytes;
  return true;
}

/* ---- segments ---------------------------------------------------------------------- */

static int64_t segment_bytes(int64_t bytes) {
  if (bytes <= SMALL) return 2 * MIB;
  if (bytes < LARGE) return 2 * LARGE;
  return (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

/* Returns the smallest sufficient gap of the arena. */
static sim_Block *gap(const sim_Device *d, int64_t bytes) {
  sim_Block *found = NULL;
  for (sim_Block *b = d->root; b; b = b->after)
    if (b->segment == NULL && b->bytes >= bytes && (found == NULL || b->bytes < found->bytes))
      found = b;
  return found;
}

static int64_t most(const sim_Device *d) { return d->limit < d->total ? d->limit : d->total; }

/* Returns a new segment as one free block. Returns NULL if there is no room, with a message
** only if host memory for its description is exhausted. */
static sim_Block *reserve(sim_Device *d, const sim_Segment *like) {
  bool room = d->stats.reserved_bytes[TL_POOL_ALL].current + like->bytes <= most(d);
  sim_Block *b = room ? gap(d, like->bytes) : NULL;
  if (b == NULL) return NULL;
  sim_Segment *segment = malloc(sizeof *segment);
  if (segment == NULL || (b->bytes > like->bytes && !cut(b, like->bytes))) {
    free(segment);
    return NULL;
  }
  *segment = *like;
  segment->data = b->data;
  b->segment = segment;
  d->stats.num_device_alloc++;
  COUNT(d, segment->small, segment, 1);
  COUNT(d, segment->small, reserved_bytes, b->bytes);
  note(d, TL_MEMORY_SEGMENT_ALLOC, b);
  return b;
}

/* Returns a block that is a whole segment to the arena. */
static void give_back(sim_Device *d, sim_Block *b) {
  note(d, TL_MEMORY_SEGMENT_FREE, b);
  d->stats.num_device_free++;
  COUNT(d, b->segment->small, segment, -1);
  COUNT(d, b->segment->small, reserved_bytes, -b->bytes);
  free(b->segment);
  b->segment = NULL;
}

/* ---- freeing ----------------------------------------------------------------------- */

/* Overwrites a freed block in the order of its stream; within a capture, at each replay. Memory
** that a graph may write again later is left alone. A failure, for lack of host memory, only
** leaves the bytes unchanged. */
static void spoil(sim_Block *b) {
  tl_Stream *stream = b->segment->stream;
  sim_Command what = {.copy = {.dst = b->data, .bytes = b->bytes}};
  bool put = true;
  if (b->segment->pool == 0)
    put = sim_locked_put_free(stream, SIM_POISON, &what, NULL, 0);
  else if (stream->recording && stream->recording->pool->number == b->segment->pool)
    put = sim_locked_record(stream, SIM_POISON, &what, NULL, 0);
  (void)put;
}

/* Marks the block as free once no stream uses it. */
static void complete(sim_Device *d, sim_Block *b) {
  COUNT(d, b->segment->small, active, -1);
  COUNT(d, b->segment->small, active_bytes, -b->bytes);
  note(d, TL_MEMORY_FREE_COMPLETED, b);
  spoil(b);
  join(d, b);
}

/* Records an event on each stream that record_stream has named. */
static void ask_others(sim_Device *d, sim_Block *b) {
  b->deferred = false;
  for (int s = 0; s < SIM_STREAMS; s++) {
    if (b->pending[s]) sim_locked_event_drop(b->pending[s]);
    b->pending[s] = NULL;
    if (!(b->others >> s & 1)) continue;
    tl_Event *event = sim_event((tl_Device){TL_SIM, (int8_t)d->index}, 0);
    if (event == NULL) continue;
    event->recorded = 1;
    event->stream = &d->streams[s];
    sim_Command what = {.point = {.event = event, .ticket = 1}};
    b->pending[s] = event;
    if (!sim_locked_put_free(event->stream, SIM_RECORD, &what, NULL, 0)) event->reached = 1;
  }
}

static bool passed(const sim_Block *b) {
  for (int s = 0; s < SIM_STREAMS; s++)
    if (b->pending[s] && b->pending[s]->reached < b->pending[s]->recorded) return false;
  return true;
}

static void drop_events(sim_Block *b) {
  for (int s = 0; s < SIM_STREAMS; s++) {
    if (b->pending[s]) sim_locked_event_drop(b->pending[s]);
    b->pending[s] = NULL;
  }
  b->others = 0;
}

/* Frees blocks whose other streams have passed their events. Merging may remove a neighbour, so
** the loop continues at the left end of the merged block. */
static void settle(sim_Device *d) {
  for (sim_Block *b = d->root; b; b = b->after) {
    if (b->used || b->deferred || b->others == 0 || !passed(b)) continue;
    drop_events(b);
    if (within(b, b->before) && available(b->before)) {
      sim_Block *left = b->before;
      complete(d, b);
      b = left;
    } else {
      complete(d, b);
    }
  }
}

/* Waits for everything, unless a capture is open, and returns whole free segments to the arena.
** Segments of pools stay, because graphs may be replayed. */
static bool collect(sim_Device *d) {
  bool ok = sim_locked_capturing(d) || sim_locked_finish_device(d);
  settle(d);
  /* waits again: the overwriting above must finish before another stream gets the memory */
  if (!sim_locked_capturing(d)) ok = sim_locked_finish_device(d) && ok;
  for (sim_Block *b = d->root; b; b = b->after) {
    if (available(b) && !is_split(b) && b->segment->pool == 0) give_back(d, b);
    while (b->before && b->segment == NULL && b->before->segment == NULL) {
      b = b->before;
      swallow(b);
    }
  }
  return ok;
}

static sim_Block *block_of(const sim_Device *d, const void *data) {
  sim_Block *b = d->root;
  while (b && b->data != data) b = b->after;
  return b && b->segment ? b : NULL;
}

void sim_free(tl_Device device, void *data, int64_t bytes) {
  (void)bytes;
  sim_lock();
  sim_Device *d = sim_device(device.index);
  sim_Block *b = block_of(d, data);
  if (b && b->used) {
    COUNT(d, b->segment->small, allocation, -1);
    COUNT(d, b->segment->small, allocated_bytes, -b->bytes);
    COUNT(d, b->segment->small, requested_bytes, -b->requested);
    note(d, TL_MEMORY_FREE_REQUESTED, b);
    b->used = false;
    b->deferred = b->others && sim_locked_capturing(d);
    if (b->others == 0)
      complete(d, b);
    else if (!b->deferred)
      ask_others(d, b);
  }
  sim_unlock();
}

void sim_locked_undefer(sim_Device *d) {
  for (sim_Block *b = d->root; b; b = b->after)
    if (b->deferred) ask_others(d, b);
}

bool sim_record_stream(tl_Device device, void *data, tl_Stream *stream) {
  sim_lock();
  sim_Block *b = block_of(sim_device(device.index), data);
  if (b && b->segment->stream != stream) b->others |= 1u << stream->id;
  sim_unlock();
  return true;
}

/* ---- allocating -------------------------------------------------------------------- */

/* Returns the smallest sufficient free block of a segment with these properties. */
static sim_Block *find(const sim_Device *d, int64_t bytes, const sim_Segment *like) {
  sim_Block *found = NULL;
  for (sim_Block *b = d->root; b; b = b->after)
    if (available(b) && b->segment->stream == like->stream && b->segment->pool == like->pool &&
        b->segment->small == like->small && b->bytes >= bytes &&
        (found == NULL || b->bytes < found->bytes))
      found = b;
  return found;
}

static void *take(sim_Device *d, sim_Block *b, int64_t bytes, int64_t requested) {
  bool small = b->segment->small;
  bool was_split = is_split(b);
  int64_t before = b->bytes;
  if (before - bytes >= (small ? UNIT : SMALL + 1) && !cut(b, bytes)) return NULL;
  if (was_split) count_split(d, b, -before);
  if (b->bytes < before) count_split(d, b->after, b->after->bytes);
  b->used = true;
  b->requested = requested;
  COUNT(d, small, allocation, 1);
  COUNT(d, small, active, 1);
  COUNT(d, small, allocated_bytes, b->bytes);
  COUNT(d, small, active_bytes, b->bytes);
  COUNT(d, small, requested_bytes, requested);
  note(d, TL_MEMORY_ALLOC, b);
  return b->data;
}

static void *allocate(sim_Device *d, int64_t requested, tl_Stream *stream) {
  int64_t bytes = requested > INT64_MAX / 2 ? requested : (requested + UNIT - 1) / UNIT * UNIT;
  sim_Segment like = {.bytes = bytes > INT64_MAX / 2 ? bytes : segment_bytes(bytes),
                      .stream = stream,
                      .pool = stream->recording ? stream->recording->pool->number : 0,
                      .small = bytes <= SMALL};
  settle(d);
  sim_Block *b = find(d, bytes, &like);
  if (b == NULL) b = reserve(d, &like);
  if (b == NULL) {
    d->stats.num_alloc_retries++;
    d->stats.num_sync_all_streams++;
    if (!collect(d)) return NULL;
    b = find(d, bytes, &like);
    if (b == NULL) b = reserve(d, &like);
  }
  if (b) return take(d, b, bytes, requested);
  sim_host->fail(TL_EMEM, "sim: out of memory");
  return NULL;
}

void *sim_alloc(const tlk_Context *cx, int64_t bytes) {
  sim_lock();
  void *data = NULL;
  if (sim_locked_may_go("memory")) data = allocate(cx->stream->device, bytes, cx->stream);
  sim_unlock();
  return data;
}

bool sim_trim(tl_Device device) {
  sim_lock();
  bool ok = sim_locked_may_go("empty_cache") && collect(sim_device(device.index));
  sim_unlock();
  return ok;
}

/* ---- pools of graphs --------------------------------------------------------------- */

sim_Pool *sim_locked_pool(sim_Device *d, uint64_t number) {
  sim_Pool *pool = d->pools;
  while (pool && pool->number != number) pool = pool->next;
  if (pool == NULL) {
    pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
      sim_host->fail(TL_EMEM, "sim: out of memory");
      return NULL;
    }
    pool->number = number;
    pool->next = d->pools;
    d->pools = pool;
  }
  pool->holders++;
  return pool;
}

/* When a pool ends, launches of its graphs may be in flight on streams that the block does not
** list. */
static void leave_pool(sim_Device *d, const sim_Pool *pool) {
  for (sim_Block *b = d->root; b; b = b->after) {
    if (b->segment == NULL || b->segment->pool != pool->number) continue;
    bool was_free = available(b);
    b->others |= pool->launched & ~(1u << b->segment->stream->id);
    b->deferred = !b->used && b->others;
    if (!was_free || !b->deferred) continue;
    if (is_split(b)) count_split(d, b, -b->bytes);
    COUNT(d, b->segment->small, active, 1);
    COUNT(d, b->segment->small, active_bytes, b->bytes);
  }
  for (sim_Block *b = d->root; b; b = b->after)
    if (b->segment && b->segment->pool == pool->number) b->segment->pool = 0;
}

void sim_locked_pool_drop(sim_Device *d, sim_Pool *pool) {
  if (--pool->holders > 0) return;
  leave_pool(d, pool);
  for (sim_Pool **at = &d->pools; *at; at = &(*at)->next) {
    if (*at != pool) continue;
    *at = pool->next;
    break;
  }
  free(pool);
  if (!sim_locked_capturing(d)) sim_locked_undefer(d);
}

/* ---- statistics -------------------------------------------------------------------- */

bool sim_memory_stats(tl_Device device, tl_MemoryStats *out) {
  sim_lock();
  const sim_Device *d = sim_device(device.index);
  *out = d->stats;
  out->limit = most(d);
  for (const sim_Block *b = d->root; b; b = b->after)
    if (available(b) && b->segment->pool == 0 && b->bytes > out->largest_free)
      out->largest_free = b->bytes;
  sim_unlock();
  return true;
}

bool sim_reset_peaks(tl_Device device) {
  sim_lock();
  tl_stats_reset_peaks(&sim_device(device.index)->stats);
  sim_unlock();
  return true;
}

bool sim_reset_sums(tl_Device device) {
  sim_lock();
  tl_stats_reset_sums(&sim_device(device.index)->stats);
  sim_unlock();
  return true;
}

bool sim_memory_info(tl_Device device, int64_t *free, int64_t *total) {
  sim_lock();
  const sim_Device *d = sim_device(device.index);
  int64_t reserved = d->stats.reserved_bytes[TL_POOL_ALL].current;
  *total = d->total;
  *free = d->total > reserved ? d->total - reserved : 0;
  sim_unlock();
  return true;
}

bool sim_set_memory_limit(tl_Device device, int64_t bytes) {
  sim_lock();
  sim_device(device.index)->limit = bytes;
  sim_unlock();
  return true;
}

static tl_BlockState state_of(const sim_Block *b) {
  return b->used ? TL_BLOCK_ALLOCATED : available(b) ? TL_BLOCK_FREE : TL_BLOCK_PENDING;
}

bool sim_memory_blocks(tl_Device device, void (*visit)(void *to, const tl_BlockInfo *block),
                       void *to) {
  sim_lock();
  for (const sim_Block *b = sim_device(device.index)->root; b; b = b->after) {
    const sim_Segment *s = b->segment;
    if (s == NULL) continue;
    visit(to, &(tl_BlockInfo){.segment = s->data,
                              .segment_bytes = s->bytes,
                              .stream_id = s->stream->id,
                              .pool = s->pool,
                              .small = s->small,
                              .data = b->data,
                              .bytes = b->bytes,
                              .requested = b->used ? b->requested : 0,
                              .state = state_of(b)});
  }
  sim_unlock();
  return true;
}
