/*
** races.cc - detects races between a kernel's threads in shared and global memory.
**
** The kernels to check are compiled with -fsanitize=thread, which calls a function before each
** memory access (traffic.cc). For each byte, the last write and the last read are recorded. If two
** threads access a byte, and at least one access writes and at least one is not atomic, a barrier
** must order the accesses: __syncthreads or, within a warp, __syncwarp. Shuffles and votes do not
** order memory (CUDA's programming guide, "Warp shuffle functions"), and nothing orders threads of
** different blocks. When a thread writes data for the host, and then a word that tells that the
** data is complete, there must be a fence before that word.
**
** TLUA_EMULATED_RACES=1 turns the checks on, and switches threads at random accesses.
** TLUA_EMULATED_REMOVE=radix.cuh:59 disables the barrier, fence or atomic at that line, to prove
** that the race is then detected.
*/
#include "spec/cuda/inside.h"

#include <unordered_map>

namespace emulated {

bool racing;

namespace {

/* One access, or several of the same kind. WARP_OF and BLOCK_OF stand for several threads. */
enum { NOBODY = -1, WARP_OF = -2, BLOCK_OF = -3 };
struct Access {
  int thread = NOBODY;
  bool atomic = false;
  unsigned warp = 0;
  uint64_t block = 0, epoch = 0, warp_epoch = 0;
};

struct Byte {
  Access write, read;
};

enum { SWITCH_EACH = 61 }; /* average number of accesses between two switches of threads */

std::unordered_map<uintptr_t, Byte> &global_bytes = *new std::unordered_map<uintptr_t, Byte>();
std::unordered_map<uintptr_t, Byte> &shared_bytes = *new std::unordered_map<uintptr_t, Byte>();
const Launch *launch;
uint64_t block_number, block_epoch;
std::vector<uint64_t> &warp_epochs = *new std::vector<uint64_t>();
/* for each thread, number of bytes written for the host since its last fence */
std::map<unsigned, size_t> &unfenced = *new std::map<unsigned, size_t>();

unsigned thread_number() {
  return (place.thread.z * place.threads.y + place.thread.y) * place.threads.x + place.thread.x;
}

Access present() {
  Access a;
  a.thread = (int)thread_number();
  a.atomic = place.atomic;
  a.warp = (unsigned)a.thread / WARP_LANES;
  a.block = block_number;
  a.epoch = block_epoch;
  a.warp_epoch = warp_epochs[a.warp];
  return a;
}

bool ordered(const Access &before, const Access &now) {
  if (before.thread == NOBODY) return true;
  if (before.block != now.block) return false;
  if (before.thread == now.thread || before.epoch < now.epoch) return true;
  return before.thread != BLOCK_OF && before.warp == now.warp && before.warp_epoch < now.warp_epoch;
}

bool conflict(const Access &before, const Access &now) {
  return !ordered(before, now) && !(before.atomic && now.atomic);
}

/* Merges a read with earlier reads that are not ordered before it. */
void add_read(Access &all, const Access &now) {
  if (ordered(all, now)) {
    all = now;
    return;
  }
  all.thread = all.warp == now.warp && all.thread != BLOCK_OF ? (int)WARP_OF : (int)BLOCK_OF;
  all.atomic = all.atomic && now.atomic;
  all.warp_epoch = std::max(all.warp_epoch, now.warp_epoch);
}

[[noreturn]] void tell(const char *memory, const char *what, const char *before, const Access &a) {
  if (a.block != block_number)
    stop("race in %s memory: it %s a word that another block has %s", memory, what, before);
  if (a.thread < 0)
    stop("race in %s memory: it %s a word that several threads have %s", memory, what, before);
  stop("race in %s memory: it %s a word that thread %d has %s", memory, what, a.thread, before);
}

void check_byte(Byte &byte, const Access &now, bool writes, const char *memory) {
  const char *what = writes ? "writes" : "reads";
  if (conflict(byte.write, now)) tell(memory, what, "written", byte.write);
  if (writes && conflict(byte.read, now)) tell(memory, what, "read", byte.read);
  if (writes)
    byte.write = now;
  else
    add_read(byte.read, now);
}

bool is_shared(const char *at) {
  const char *dynamic = static_cast<const char *>(place.shared);
  if (at >= dynamic && at < dynamic + launch->shared) return true;
  const char *variables = thread_variables();
  for (const Kernel::Shared &s : launch->kernel->shared)
    if (at >= variables + s.offset && at < variables + s.offset + s.bytes) return true;
  return false;
}

/* Checks a write for the host: a volatile word tells the host that earlier bytes are complete. */
void check_host(size_t bytes, bool is_volatile) {
  size_t &pending = unfenced[thread_number()];
  if (is_volatile && pending > 0)
    stop("race with the host: no fence is between %zu bytes and the word after them", pending);
  pending += bytes;
}

} // namespace

void begin_races(const Launch &l) {
  static const bool wanted = getenv("TLUA_EMULATED_RACES") != nullptr;
  racing = wanted;
  launch = &l;
  block_number = 0;
  global_bytes.clear();
  unfenced.clear();
}

void end_races() { racing = false; }

void begin_block_races(size_t warps) {
  block_number++;
  block_epoch = 0;
  warp_epochs.assign(warps, 0);
  shared_bytes.clear();
}

void order_block() { block_epoch++; }
void order_warp(unsigned warp) { warp_epochs[warp]++; }

void race_access(char *at, size_t bytes, bool writes, bool is_volatile) {
  bool shared = is_shared(at);
  Owner owner = shared ? HOST_MEMORY : owner_of(at, bytes).owner;
  if (!shared && owner == HOST_MEMORY) return;
  if (!place.atomic && draw() % SWITCH_EACH == 0) pause();
  if (owner == PINNED_MEMORY) {
    if (writes) check_host(bytes, is_volatile);
    return;
  }
  Access now = present();
  auto &all = shared ? shared_bytes : global_bytes;
  for (size_t i = 0; i < bytes; i++)
    check_byte(all[reinterpret_cast<uintptr_t>(at) + i], now, writes, shared ? "shared" : "global");
}

/* ---- disabling barriers ---------------------------------------------------------------------- */

bool is_removed(Line at) {
  static const char *const wanted = getenv("TLUA_EMULATED_REMOVE");
  static bool told;
  if (wanted == nullptr) return false;
  const char *slash = strrchr(at.file, '/'), *name = slash ? slash + 1 : at.file;
  size_t length = strlen(name);
  if (strncmp(wanted, name, length) != 0 || wanted[length] != ':' ||
      atoi(wanted + length + 1) != at.line)
    return false;
  if (!told) fprintf(stderr, "emulated CUDA: removed %s\n", wanted);
  told = true;
  return true;
}

void fence(Line at) {
  if (!is_removed(at)) unfenced[thread_number()] = 0;
}

} // namespace emulated
