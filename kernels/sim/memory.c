/*
** memory.c - the simulated device's memory. The host gets addresses that it cannot access. Kernels
** access the same memory at other addresses. The allocator of kernels/device divides the address
** space, which is larger than the memory, so fragmentation does not matter.
**
** A block that becomes free is overwritten by a command in the queue of its stream.
*/
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/sim/sim.h"

#define GRANULE (2 << 20) /* size of a page of a GPU */
/* size in bytes of an arena's address space, and of each mapping from which blocks of 1 to 10 MiB
** are taken */
#define ARENA (20 << 20)
#define REACH 8 /* the address space is REACH times as large as the memory, if possible */

/* ---- the address space -------------------------------------------------------------- */

/* Returns a file in memory that can be mapped twice; -1 on failure. Its pages take no memory before
** they are written. */
static int memory_file(int64_t bytes) {
  int file = memfd_create("tlua_sim", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)bytes) == 0) return file;
  close(file);
  return -1;
}

/* Maps a second view of the file at a distance from the first view that is a multiple of 4 GiB. So
** translating an address changes only its upper half (sim_reachable tells why this is needed).
** Returns NULL if no such address is free. */
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

/* Maps two views of the same bytes. One has the host's addresses, which cannot be accessed; the
** other has the kernels' addresses. Returns false if the process has no room for them. */
static bool map_views(sim_Device *device, int64_t size) {
  size_t bytes = (size_t)size;
  int file = memory_file(size);
  void *base = MAP_FAILED, *inside = NULL;
  if (file >= 0) base = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (base != MAP_FAILED) inside = second_view(base, bytes, file);
  if (file >= 0) close(file);
  if (inside == NULL) {
    if (base != MAP_FAILED) munmap(base, bytes);
    return false;
  }
  device->base = base;
  device->bytes = size;
  device->shift = (int64_t)((intptr_t)inside - (intptr_t)base);
  return true;
}

/* Translates an address of the host's view. Every word in a call's arguments is translated, because
** its meaning is not known. A word may consist of a small number and padding, and the padding may
** still hold the upper half of an old address. Such a word looks like an address, but the
** translation does not change its lower half, which is the number. */
uintptr_t sim_reachable(uintptr_t address) {
  for (int i = 0; i < sim_device_count(); i++) {
    const sim_Device *d = sim_device(i);
    if (address - (uintptr_t)d->base < (uintptr_t)d->bytes) return address + (uintptr_t)d->shift;
  }
  return address;
}

const sim_Device *sim_owner(const void *address) {
  for (int i = 0; i < sim_device_count(); i++) {
    const sim_Device *d = sim_device(i);
    if ((const char *)address >= d->base && (const char *)address < d->base + d->bytes) return d;
  }
  return NULL;
}

/* ---- what the allocator calls ------------------------------------------------------- */

/* Reserves `bytes` of the device's address space, in the first gap between reserved ranges that is
** large enough. */
static char *reserve(void *self, int64_t bytes) {
  sim_Device *d = self;
  sim_Range **at = &d->ranges, *range = malloc(sizeof *range);
  char *from = d->base;
  for (; *at && (*at)->at - from < bytes; at = &(*at)->next) from = (*at)->at + (*at)->bytes;
  if (range == NULL || d->base + d->bytes - from < bytes) {
    free(range);
    sim_host->fail(TL_EMEM, "sim: out of memory");
    return NULL;
  }
  *range = (sim_Range){*at, from, bytes};
  *at = range;
  return from;
}

static void unreserve(void *self, char *data, int64_t bytes) {
  sim_Range **at = &((sim_Device *)self)->ranges;
  (void)bytes;
  while ((*at)->at != data) at = &(*at)->next;
  sim_Range *range = *at;
  *at = range->next;
  free(range);
}

/* Maps nothing, because all bytes are always accessible. The allocator enforces the limit of
** memory. */
static bool map(void *self, char *at, int64_t bytes, int64_t granule) {
  (void)self, (void)at, (void)bytes, (void)granule;
  return true;
}

/* Leaves the memory mapped, but overwrites its freed blocks at once, because another stream may get
** the addresses. The allocator has waited for all streams, so the queues have no other commands for
** this memory than those that overwrite it. */
static void unmap(void *self, char *at, int64_t bytes, int64_t granule) {
  (void)at, (void)bytes, (void)granule;
  sim_locked_poison_now(self);
}

static void *mark(void *self, int stream) {
  sim_Device *d = self;
  tl_Event *event = sim_event((tl_Device){TL_SIM, (int8_t)d->index}, 0);
  if (event == NULL) return NULL;
  event->recorded = 1;
  event->stream = &d->streams[stream];
  sim_Command what = {.point = {.event = event, .ticket = 1}};
  if (sim_locked_put_free(event->stream, SIM_RECORD, &what, NULL, 0)) return event;
  sim_locked_event_drop(event);
  return NULL;
}

static bool passed(void *self, void *point) {
  const tl_Event *event = point;
  (void)self;
  return event->reached >= event->recorded;
}

static void drop(void *self, void *point) {
  (void)self;
  sim_locked_event_drop(point);
}

static bool is_busy(const sim_Device *d) {
  for (int s = 0; s < SIM_STREAMS; s++)
    if (d->streams[s].done < d->streams[s].put) return true;
  return false;
}

/* Waits until all streams are idle at the same time. Other threads may queue commands during the
** wait, so it may have to be repeated. */
static bool wait_for_all(void *self) {
  do {
    if (!sim_locked_finish_device(self)) return false;
  } while (is_busy(self));
  return true;
}

/* Queues a command that overwrites a freed block. Within a capture, the command is recorded, so
** that it runs at each replay. Memory that a graph may write again later is not overwritten.
** Nothing is overwritten if host memory is lacking. */
static void spoil(void *self, char *data, int64_t bytes, int stream_id, uint64_t pool) {
  tl_Stream *stream = &((sim_Device *)self)->streams[stream_id];
  sim_Command what = {.copy = {.dst = data, .bytes = bytes}};
  bool put = true;
  if (pool == 0)
    put = sim_locked_put_free(stream, SIM_POISON, &what, NULL, 0);
  else if (stream->recording && stream->recording->pool == pool)
    put = sim_locked_record(stream, SIM_POISON, &what, NULL, 0);
  (void)put;
}

/* ---- opening ------------------------------------------------------------------------ */

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

static void set_limit(sim_Device *d) {
  d->blocks.limit = d->limit < d->total ? d->limit : d->total;
}

void sim_locked_set_memory(sim_Device *device, int64_t total) {
  device->total = total;
  set_limit(device);
}

bool sim_memory_open(sim_Device *device, int64_t total) {
  bool room = false;
  total = round_up(total, 65536);
  for (int times = REACH; times > 0 && !room; times /= 2)
    room = total <= INT64_MAX / 2 / times && map_views(device, round_up(times * total, ARENA));
  if (!room)
    return sim_host->fail(TL_EMEM, "device sim: no address space for %" PRId64 " bytes", total);
  tlk_BlockSource source = {.self = device,
                            .host = sim_host,
                            .name = "sim",
                            .device = {TL_SIM, (int8_t)device->index},
                            .granule = {GRANULE, GRANULE},
                            .least = ARENA,
                            .reach = ARENA,
                            .most = ARENA,
                            .reserve = reserve,
                            .unreserve = unreserve,
                            .map = map,
                            .unmap = unmap,
                            .mark = mark,
                            .passed = passed,
                            .drop = drop,
                            .wait = wait_for_all,
                            .freed = spoil};
  device->total = device->limit = total;
  tlk_blocks_open(&device->blocks, &source, total);
  return true;
}

/* ---- the table ---------------------------------------------------------------------- */

static tlk_Blocks *blocks_of(tl_Device device) { return &sim_device(device.index)->blocks; }

void *sim_alloc(const tlk_Context *cx, int64_t bytes) {
  const tl_Stream *stream = cx->stream;
  sim_lock();
  void *data = NULL;
  if (sim_locked_may_go("memory"))
    data = tlk_blocks_alloc(&stream->device->blocks, bytes, stream->id,
                            stream->recording ? stream->recording->pool : 0);
  sim_unlock();
  return data;
}

void sim_free(tl_Device device, void *data, int64_t bytes) {
  (void)bytes;
  sim_lock();
  tlk_blocks_free(blocks_of(device), data);
  sim_unlock();
}

bool sim_record_stream(tl_Device device, void *data, tl_Stream *stream) {
  sim_lock();
  tlk_blocks_used_by(blocks_of(device), data, stream->id);
  sim_unlock();
  return true;
}

bool sim_trim(tl_Device device) {
  sim_lock();
  bool ok = sim_locked_may_go("empty_cache") && tlk_blocks_trim(blocks_of(device));
  sim_unlock();
  return ok;
}

bool sim_memory_stats(tl_Device device, tl_MemoryStats *out) {
  sim_lock();
  tlk_blocks_stats(blocks_of(device), out);
  sim_unlock();
  return true;
}

bool sim_reset_peaks(tl_Device device) {
  sim_lock();
  tl_stats_reset_peaks(&blocks_of(device)->stats);
  sim_unlock();
  return true;
}

bool sim_reset_sums(tl_Device device) {
  sim_lock();
  tl_stats_reset_sums(&blocks_of(device)->stats);
  sim_unlock();
  return true;
}

bool sim_memory_info(tl_Device device, int64_t *free, int64_t *total) {
  sim_lock();
  const sim_Device *d = sim_device(device.index);
  int64_t reserved = d->blocks.stats.reserved_bytes[TL_POOL_ALL].current;
  *total = d->total;
  *free = d->total > reserved ? d->total - reserved : 0;
  sim_unlock();
  return true;
}

bool sim_set_memory_limit(tl_Device device, int64_t bytes) {
  sim_lock();
  sim_Device *d = sim_device(device.index);
  d->limit = bytes;
  set_limit(d);
  sim_unlock();
  return true;
}

bool sim_memory_blocks(tl_Device device, void (*visit)(void *to, const tl_BlockInfo *block),
                       void *to) {
  sim_lock();
  tlk_blocks_visit(blocks_of(device), visit, to);
  sim_unlock();
  return true;
}

/* ---- pinned memory ---------------------------------------------------------------------- */

void *sim_pinned_alloc(int64_t bytes) { return sim_host->alloc((size_t)bytes); }
void sim_pinned_free(void *data, int64_t bytes) { sim_host->free(data, (size_t)bytes); }
