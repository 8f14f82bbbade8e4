/*
** traffic.cc - counts the bytes that kernels move between device memory and their threads. The
** kernels are compiled with -fsanitize=thread, which calls a function before each memory access.
** This file defines these functions; the sanitizer's library is not linked.
**
** A simulated cache between memory and threads is smaller than a multiprocessor's cache and loads
** only the requested bytes. Reading something again soon costs nothing, for instance a layer's
** weights, but a second pass over a large tensor is counted.
**
** TLUA_EMULATED_TRAFFIC names a file. Each launch appends a line to it: bytes read, bytes written,
** and the kernel's name.
*/
#include "spec/cuda/inside.h"

namespace emulated {

namespace {

enum { UNIT = 16, UNITS = 64 * 1024 / UNIT };

struct Line {
  uintptr_t unit; /* address / UNIT; 0 if unused */
  uint32_t valid; /* bit mask of the cached bytes */
};

Line cache[UNITS];
uint64_t bytes_read, bytes_written;
char *begin, *end; /* the range of memory last accessed */
bool on_device;

FILE *log_file() {
  static FILE *file;
  const char *name = getenv("TLUA_EMULATED_TRAFFIC");
  if (file == nullptr && name) file = fopen(name, "a");
  return file;
}

bool is_counted(char *at) {
  if (at >= begin && at < end) return on_device;
  auto next = ranges.upper_bound(at);
  if (next == ranges.begin()) return false;
  auto found = std::prev(next);
  if (at >= found->first + found->second.bytes) return false;
  begin = found->first;
  end = begin + found->second.bytes;
  return on_device = found->second.owner == DEVICE_MEMORY;
}

/* Reads or writes bytes of one unit; returns how many of them were not in the cache. */
int pass(uintptr_t unit, uint32_t wanted) {
  Line &line = cache[unit % UNITS];
  if (line.unit != unit) line = {unit, 0};
  int missed = __builtin_popcount(wanted & ~line.valid);
  line.valid |= wanted;
  return missed;
}

void access(void *data, size_t bytes, bool writes, bool is_volatile = false) {
  char *at = static_cast<char *>(data);
  if (racing && bytes > 0) race_access(at, bytes, writes, is_volatile);
  if (bytes == 0 || !is_counted(at)) return;
  if (writes) bytes_written += bytes;
  for (size_t done = 0; done < bytes;) {
    uintptr_t address = reinterpret_cast<uintptr_t>(at + done), inside = address % UNIT;
    size_t n = std::min<size_t>(UNIT - inside, bytes - done);
    int missed = pass(address / UNIT, ((1u << n) - 1) << inside);
    if (!writes) bytes_read += (uint64_t)missed;
    done += n;
  }
}

} // namespace

void begin_traffic() {
  if (log_file() == nullptr) return;
  memset(cache, 0, sizeof cache);
  bytes_read = bytes_written = 0;
  begin = end = nullptr;
}

void end_traffic(const Launch &launch) {
  FILE *file = log_file();
  if (file == nullptr) return;
  fprintf(file, "%llu %llu %s\n", (unsigned long long)bytes_read, (unsigned long long)bytes_written,
          launch.kernel->name.c_str());
  fflush(file);
}

} // namespace emulated

/* ---- the functions that -fsanitize=thread calls ----------------------------------------- */

#define ACCESS(bytes)                                                                     \
  void __tsan_read##bytes(void *data) { emulated::access(data, bytes, false); }           \
  void __tsan_write##bytes(void *data) { emulated::access(data, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void *data) { emulated::access(data, bytes, false); } \
  void __tsan_unaligned_write##bytes(void *data) { emulated::access(data, bytes, true); } \
  void __tsan_volatile_read##bytes(void *data) { emulated::access(data, bytes, false); }  \
  void __tsan_volatile_write##bytes(void *data) { emulated::access(data, bytes, true, true); }

#pragma GCC visibility push(default) /* visible to kernels loaded at run time */
extern "C" {
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(void *data, long bytes) { emulated::access(data, (size_t)bytes, false); }
void __tsan_write_range(void *data, long bytes) { emulated::access(data, (size_t)bytes, true); }
void __tsan_vptr_update(void *, void *) {}
void __tsan_vptr_read(void *) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void *) {}
void __tsan_init(void) {}
}
#pragma GCC visibility pop
