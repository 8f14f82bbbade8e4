/*
** memory.c - the simulated device's memory, and copies between it and the host. The host is
** given addresses that cannot be accessed; kernels access the same memory at other addresses.
** blocks.c allocates from this address space.
*/
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/sim/sim.h"

/* ---- the arena --------------------------------------------------------------------- */

/* Returns a file whose memory can be mapped twice, or -1. */
static int memory_file(int64_t bytes) {
  int file = memfd_create("tlua_sim", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)bytes) == 0) return file;
  close(file);
  return -1;
}

/* Maps a second view of the file at a multiple of 4 GiB from the first, so that translating an
** address changes only its upper half (sim_reachable says why). Returns NULL if there is no
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

/* Maps two views of the same bytes: one for the host's addresses, which cannot be accessed, and
** one for kernels. */
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
  all->bytes = device->capacity = device->total = device->limit = capacity;
  device->shift = (int64_t)((intptr_t)inside - (intptr_t)arena);
  device->root = all;
  return true;
}

/* Translates an address of the host's view. The words of calls are translated without knowing
** their meaning: one may be a small number beside the rest of an old address. Such a number is
** in the lower half, which does not change. */
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

/* ---- copies ----------------------------------------------------------------------------- */

void *sim_pinned_alloc(int64_t bytes) { return sim_host->alloc((size_t)bytes); }
void sim_pinned_free(void *data, int64_t bytes) { sim_host->free(data, (size_t)bytes); }

/* Copies between two devices. The receiving stream waits for pending writes of the other
** stream, which in turn waits for the copy before it may free the source. */
static bool between(const struct tlk_transfer *call, tl_Stream *from) {
  tl_Stream *to = call->cx->stream;
  if (!sim_locked_not_recording(to, "a copy between devices") ||
      !sim_locked_not_recording(from, "a copy between devices"))
    return false;
  tl_Event *before = sim_event(call->from, 0), *after = sim_event(call->to, 0);
  bool ok = before && after;
  if (ok) {
    before->recorded = after->recorded = 1;
    before->stream = from;
    after->stream = to;
    sim_Command first = {.point = {.event = before, .ticket = 1}};
    sim_Command last = {.point = {.event = after, .ticket = 1}};
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

/* Copies from or to the host. Pageable memory is read immediately, as a driver stages it, and
** copies to it are waited for. Pinned memory is read and written in the stream's order. */
static bool with_host(const struct tlk_transfer *call) {
  tl_Stream *stream = call->cx->stream;
  sim_Command copy = {.copy = {call->dst, call->src, call->bytes}};
  if (!call->async &&
      !sim_locked_not_recording(stream, "a copy from or to memory that is not pinned"))
    return false;
  if (call->to.type == TL_SIM && !call->async) {
    copy.copy.src = NULL; /* the bytes are stored in the command */
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
