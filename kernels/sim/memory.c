/*
** memory.c - the simulated device's memory: address space that nobody can touch,
** but for kernels under other addresses, cut into blocks.
**
** A block belongs to the stream it was asked for on. Freed, it is overwritten in
** that stream's order and handed out again at once to the same stream; to others
** only after the whole device was waited for, when memory is short. A block that
** other streams use as well is held until they have passed the point where it was
** freed. What is allocated while a graph is captured is the graph's until it goes.
*/
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/sim/sim.h"

#define UNIT 256 /* sizes of blocks are multiples of it */

/* ---- the arena --------------------------------------------------------------------- */

/* Memory that can be mapped twice; -1 if there is none. */
static int memory_file(int64_t bytes) {
  int file = memfd_create("tlua_sim", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)bytes) == 0) return file;
  close(file);
  return -1;
}

/* A second view of the file, a multiple of 4 GiB away from the first: so moving an
** address changes its upper half alone (sim_reachable says why). NULL if there is no
** room. */
static void *second_view(const char *first, size_t bytes, int file) {
  int flags = MAP_SHARED | MAP_NORESERVE;
#if UINTPTR_MAX > UINT32_MAX && defined(MAP_FIXED_NOREPLACE)
  for (int k = 1; k < 1024; k++) {
    void *wanted = (void *)((uintptr_t)first - ((uintptr_t)k << 32));
    void *got = mmap(wanted, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, file, 0);
    if (got == wanted) return got;
    if (got != MAP_FAILED) munmap(got, bytes);
  }
  return NULL;
#else
  void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  (void)first;
  return got == MAP_FAILED ? NULL : got;
#endif
}

/* Two views of the same bytes: the one whose addresses the host is given, which
** nobody can touch, and the one in which kernels work. */
bool sim_memory_open(sim_Device *device, int64_t capacity) {
  capacity = (capacity + 65535) / 65536 * 65536;
  size_t bytes = (size_t)capacity;
  int file = memory_file(capacity);
  void *arena = MAP_FAILED, *inside = NULL;
  if (file >= 0) arena = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (arena != MAP_FAILED) inside = second_view(arena, bytes, file);
  if (file >= 0) close(file);
  sim_Block *all = calloc(1, sizeof *all);
  if (inside == NULL || all == NULL) {
    if (arena != MAP_FAILED) munmap(arena, bytes);
    if (inside) munmap(inside, bytes);
    free(all);
    return sim_host->fail(TL_EMEM, "device sim: no address space for %" PRId64 " bytes", capacity);
  }
  all->data = device->arena = arena;
  all->bytes = device->capacity = device->stats.total = capacity;
  device->shift = (int64_t)((intptr_t)inside - (intptr_t)arena);
  device->root = all;
  return true;
}

/* Words of calls are looked at without knowing what they are: one may be a small
** number beside the rest of an old address. Such a number lies in the lower half,
** which stays as it is. */
uintptr_t sim_reachable(uintptr_t address) {
  for (int i = 0; i < sim_device_count(); i++) {
    const sim_Device *d = sim_device(i);
    if (address - (uintptr_t)d->arena < (uintptr_t)d->capacity)
      return address + (uintptr_t)d->shift;
  }
  return address;
}

const sim_Device *sim_owner(const void *address) {
  for (int i = 0; i < sim_device_count(); i++) {
    const sim_Device *d = sim_device(i);
    if ((const char *)address >= d->arena && (const char *)address < d->arena + d->capacity)
      return d;
  }
  return NULL;
}

/* ---- blocks ------------------------------------------------------------------------ */

static bool available(const sim_Block *b) { return !b->used && b->others == 0; }

/* Joins a free block with the one after it. */
static void swallow(sim_Block *b) {
  sim_Block *next = b->after;
  b->bytes += next->bytes;
  b->after = next->after;
  if (next->after) next->after->before = b;
  free(next);
}

static bool alike(const sim_Block *a, const sim_Block *b) {
  return a && b && available(a) && available(b) && a->stream == b->stream && a->graph == b->graph;
}

static void join(sim_Block *b) {
  if (alike(b, b->after)) swallow(b);
  if (alike(b->before, b)) swallow(b->before);
}

/* Cuts a block to size; what is left stays free. */
static bool cut(sim_Block *b, int64_t bytes) {
  if (b->bytes - bytes < UNIT) return true;
  sim_Block *rest = calloc(1, sizeof *rest);
  if (rest == NULL) return sim_host->fail(TL_EMEM, "sim: out of memory");
  *rest = (sim_Block){.before = b,
                      .after = b->after,
                      .data = b->data + bytes,
                      .bytes = b->bytes - bytes,
                      .stream = b->stream,
                      .graph = b->graph};
  if (b->after) b->after->before = rest;
  b->after = rest;
  b->bytes = bytes;
  return true;
}

/* The smallest free block of that owner that is large enough. */
static sim_Block *best(const sim_Device *d, int64_t bytes, const tl_Stream *stream,
                       const tl_Graph *graph) {
  sim_Block *found = NULL;
  for (sim_Block *b = d->root; b; b = b->after)
    if (available(b) && b->stream == stream && b->graph == graph && b->bytes >= bytes &&
        (found == NULL || b->bytes < found->bytes))
      found = b;
  return found;
}

/* The limit may have been set below the size of the arena. */
static int64_t room(const sim_Device *d) { return d->stats.total - d->stats.reserved; }

static sim_Block *find(const sim_Device *d, int64_t bytes, tl_Stream *stream) {
  sim_Block *b = best(d, bytes, stream, stream->recording);
  if (b == NULL && bytes <= room(d)) b = best(d, bytes, NULL, NULL);
  return b;
}

static void drop_events(sim_Block *b) {
  for (int s = 0; s < SIM_STREAMS; s++) {
    if (b->pending[s]) sim_locked_event_drop(b->pending[s]);
    b->pending[s] = NULL;
  }
  b->others = 0;
}

/* Lets go of blocks whose other users have passed by. */
static void settle(sim_Device *d) {
  for (sim_Block *b = d->root, *next; b; b = next) {
    next = b->after;
    bool held = b->used || b->others == 0;
    for (int s = 0; s < SIM_STREAMS && !held; s++)
      held = b->pending[s] && b->pending[s]->reached < b->pending[s]->recorded;
    if (held) continue;
    drop_events(b);
    next = b->after; /* join may free the next block */
    if (alike(b->before, b)) b = b->before;
    while (alike(b, b->after)) swallow(b);
    next = b->after;
  }
}

/* Waits for everything and makes free memory nobody's. */
static bool collect(sim_Device *d) {
  for (int s = 0; s < SIM_STREAMS; s++)
    if (d->streams[s].recording) return true; /* nothing can be waited for */
  bool ok = sim_locked_finish_device(d);
  settle(d);
  for (sim_Block *b = d->root; b; b = b->after) {
    if (!available(b) || b->graph || b->stream == NULL) continue;
    d->stats.reserved -= b->bytes;
    b->stream = NULL;
  }
  for (sim_Block *b = d->root; b; b = b->after)
    while (alike(b, b->after)) swallow(b);
  return ok;
}

static int64_t largest_free(const sim_Device *d) {
  int64_t most = 0;
  for (const sim_Block *b = d->root; b; b = b->after)
    if (available(b) && b->bytes > most) most = b->bytes;
  return most;
}

static void fail_full(sim_Device *d, int64_t bytes) {
  d->stats.ooms++;
  sim_host->fail(TL_EMEM,
                 "out of memory on sim:%d: asked for %" PRId64 " bytes; %" PRId64 " of %" PRId64
                 " are in use by tensors, %" PRId64 " kept for reuse, the largest free block has "
                 "%" PRId64 "; release tensors, use smaller batches, or set TLUA_SIM_MEMORY",
                 d->index, bytes, d->stats.allocated, d->stats.total,
                 d->stats.reserved - d->stats.allocated, largest_free(d));
}

static void count_up(sim_Device *d, sim_Block *b, bool fresh) {
  tl_MemoryStats *s = &d->stats;
  s->allocations++;
  s->active_blocks++;
  s->allocated += b->bytes;
  if (fresh) s->reserved += b->bytes;
  if (s->allocated > s->allocated_peak) s->allocated_peak = s->allocated;
  if (s->reserved > s->reserved_peak) s->reserved_peak = s->reserved;
}

static void *take(sim_Device *d, sim_Block *b, int64_t bytes, tl_Stream *stream) {
  bool fresh = b->stream == NULL;
  if ((fresh || b->bytes >= 2 * bytes) && !cut(b, bytes)) return NULL;
  b->used = true;
  b->stream = stream;
  b->graph = stream->recording;
  count_up(d, b, fresh);
  return b->data;
}

static void *allocate(sim_Device *d, int64_t bytes, tl_Stream *stream) {
  settle(d);
  sim_Block *b = find(d, bytes, stream);
  if (b == NULL) {
    d->stats.retries++;
    if (!collect(d)) return NULL;
    b = find(d, bytes, stream);
  }
  if (b) return take(d, b, bytes, stream);
  fail_full(d, bytes);
  return NULL;
}

void *sim_alloc(const tlk_Context *cx, int64_t bytes) {
  int64_t rounded = (bytes + UNIT - 1) / UNIT * UNIT;
  sim_lock();
  void *data = NULL;
  if (sim_locked_may_go("memory")) data = allocate(cx->stream->device, rounded, cx->stream);
  sim_unlock();
  return data;
}

static sim_Block *block_of(const sim_Device *d, const void *data) {
  sim_Block *b = d->root;
  while (b && b->data != data) b = b->after;
  return b;
}

/* Whether the block must wait for the streams that record_stream has named. */
static bool hold(sim_Device *d, sim_Block *b) {
  for (int s = 0; s < SIM_STREAMS; s++) {
    tl_Stream *stream = &d->streams[s];
    if (!(b->others >> s & 1) || stream->recording) continue;
    tl_Event *event = sim_event((tl_Device){TL_SIM, (int8_t)d->index}, false);
    if (event == NULL) continue;
    event->recorded = 1;
    event->stream = stream;
    sim_Command what = {.point = {event, 1}};
    b->pending[s] = event;
    if (!sim_locked_put_free(stream, SIM_RECORD, &what)) event->reached = 1;
  }
  return b->others != 0;
}

/* Puts the bytes out of use in the order of the block's stream; of a graph's own
** block within that graph, each time it runs. What fails here, for lack of host
** memory, only leaves the bytes as they are. */
static void spoil(sim_Block *b) {
  sim_Command what = {.copy = {.dst = b->data, .bytes = b->bytes}};
  bool recorded = b->graph && b->graph == b->stream->recording;
  bool put = recorded ? sim_locked_put(b->stream, SIM_POISON, &what, NULL, 0)
                      : sim_locked_put_free(b->stream, SIM_POISON, &what);
  (void)put;
}

void sim_free(tl_Device device, void *data, int64_t bytes) {
  (void)bytes;
  sim_lock();
  sim_Device *d = sim_device(device.index);
  sim_Block *b = block_of(d, data);
  if (b && b->used) {
    d->stats.frees++;
    d->stats.active_blocks--;
    d->stats.allocated -= b->bytes;
    b->used = false;
    if (!hold(d, b)) {
      spoil(b);
      join(b);
    }
  }
  sim_unlock();
}

bool sim_record_stream(tl_Device device, void *data, tl_Stream *stream) {
  sim_lock();
  sim_Block *b = block_of(sim_device(device.index), data);
  if (b && b->stream != stream) b->others |= 1u << stream->id;
  sim_unlock();
  return true;
}

void sim_locked_disown(sim_Device *d, const tl_Graph *graph) {
  for (sim_Block *b = d->root; b; b = b->after)
    if (b->graph == graph) b->graph = NULL;
}

bool sim_trim(tl_Device device) {
  sim_lock();
  bool ok = sim_locked_may_go("empty_cache") && collect(sim_device(device.index));
  sim_unlock();
  return ok;
}

bool sim_memory_stats(tl_Device device, tl_MemoryStats *out) {
  sim_lock();
  sim_Device *d = sim_device(device.index);
  *out = d->stats;
  out->largest_free = largest_free(d);
  sim_unlock();
  return true;
}

bool sim_reset_peaks(tl_Device device) {
  sim_lock();
  tl_MemoryStats *s = &sim_device(device.index)->stats;
  s->allocated_peak = s->allocated;
  s->reserved_peak = s->reserved;
  sim_unlock();
  return true;
}

/* ---- the host's side --------------------------------------------------------------- */

void *sim_pinned_alloc(int64_t bytes) { return sim_host->alloc((size_t)bytes); }
void sim_pinned_free(void *data, int64_t bytes) { sim_host->free(data, (size_t)bytes); }

/* Between two devices: the receiving stream waits for what the other one has still
** to write, and the other one for the copy, before it may free the source. */
static bool between(const struct tlk_transfer *call, tl_Stream *from) {
  tl_Stream *to = call->cx->stream;
  tl_Event *before = sim_event(call->from, false), *after = sim_event(call->to, false);
  bool ok = before && after;
  if (ok) {
    before->recorded = after->recorded = 1;
    before->stream = from;
    after->stream = to;
    sim_Command first = {.point = {before, 1}}, last = {.point = {after, 1}};
    sim_Command copy = {.copy = {call->dst, call->src, call->bytes}};
    ok = sim_locked_put(from, SIM_RECORD, &first, NULL, 0) &&
         sim_locked_put(to, SIM_WAIT, &first, NULL, 0) &&
         sim_locked_put(to, SIM_COPY, &copy, NULL, 0) &&
         sim_locked_put(to, SIM_RECORD, &last, NULL, 0) &&
         sim_locked_put(from, SIM_WAIT, &last, NULL, 0);
  }
  if (before) sim_locked_event_drop(before);
  if (after) sim_locked_event_drop(after);
  return ok;
}

/* What comes from pageable memory is taken at once, as a driver stages it; what
** goes there is waited for. Pinned memory is read and written when its turn comes. */
static bool with_host(const struct tlk_transfer *call) {
  tl_Stream *stream = call->cx->stream;
  sim_Command copy = {.copy = {call->dst, call->src, call->bytes}};
  if (!call->async && stream->recording)
    return sim_host->fail(TL_EDEVICE, "sim: a copy from or to pageable memory: not possible while "
                                      "a graph is captured");
  if (call->to.type == TL_SIM && !call->async) {
    copy.copy.src = NULL; /* the bytes are in the command */
    return sim_locked_put(stream, SIM_COPY, &copy, call->src, (size_t)call->bytes);
  }
  if (call->async) return sim_locked_put(stream, SIM_COPY, &copy, NULL, 0);
  return sim_locked_fetch(stream, &copy);
}

bool sim_transfer(const struct tlk_transfer *call) {
  sim_lock();
  bool ok = sim_locked_may_go("copy");
  if (ok && call->to.type == TL_SIM && call->from.type == TL_SIM && call->from_stream) {
    if (call->from_stream != call->cx->stream)
      ok = between(call, call->from_stream);
    else
      ok = sim_locked_put(call->cx->stream, SIM_COPY,
                          &(sim_Command){.copy = {call->dst, call->src, call->bytes}}, NULL, 0);
  } else if (ok) {
    ok = with_host(call);
  }
  sim_unlock();
  return ok;
}
