/*
** grid.cc - runs a launch: its blocks one after the other, and a block's threads as fibers that
** take turns. A thread runs until it must wait for other threads. A thread that never waits costs
** no switch, because the next thread starts on the same fiber.
*/
#include "spec/cuda/inside.h"

#include <numeric>
#include <stdarg.h>
#include <sys/mman.h>

namespace emulated {

Place place;

namespace {

enum State { RUNNING, IN_BLOCK, IN_WARP, ENDED, UNSTARTED };

struct Thread {
  State state;
  unsigned number; /* index in the block */
  Fiber *fiber;
  uint64_t result; /* the result of the call in which it waited */
  const char *what;
  Line at;
};

/* A barrier, shuffle or vote for which lanes of a warp meet. */
struct Slot {
  Meeting meeting;
  unsigned mask, arrived;
  uint64_t x[WARP_LANES];
  int source[WARP_LANES];
};

struct Warp {
  unsigned alive; /* bit mask of lanes */
  std::vector<Slot> slots;
};

/* The block that is running. */
struct Block {
  const Launch *launch;
  unsigned size;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned> order;  /* the order in which threads start */
  std::vector<Thread *> ready;  /* threads that no longer have to wait */
  unsigned started, ended, met; /* met: threads at the block's barrier */
  int sum;                      /* sum of the counts that they passed */
  const Thread *first;          /* the thread that arrived there first */
  bool old_first;               /* whether ready threads run before new ones start */
};

Block &block = *new Block();
Thread *self;
Fiber *host, *running;
std::vector<Fiber *> &idle = *new std::vector<Fiber *>();

/* ---- messages ---------------------------------------------------------------------- */

void say_index(uint3 i) { fprintf(stderr, "(%u, %u, %u)", i.x, i.y, i.z); }

uint3 index_of(const Thread &t) {
  const dim3 &n = block.launch->threads;
  return uint3{t.number % n.x, t.number / n.x % n.y, t.number / (n.x * n.y)};
}

void say_where() {
  fprintf(stderr, "emulated CUDA: kernel %s, block ", block.launch->kernel->name.c_str());
  say_index(place.block);
}

/* Prints one line about all threads that are in the same state at the same source line. */
void say_alike(unsigned first, std::vector<bool> &told) {
  const Thread &t = block.threads[first];
  unsigned count = 0;
  for (unsigned i = first; i < block.size; i++) {
    const Thread &u = block.threads[i];
    bool alike =
        u.state == t.state && (t.state == ENDED || (u.what == t.what && u.at.line == t.at.line));
    if (alike) told[i] = true, count++;
  }
  fprintf(stderr, "  thread ");
  say_index(index_of(t));
  if (count > 1) fprintf(stderr, " and %u more", count - 1);
  if (t.state == ENDED)
    fprintf(stderr, " ended\n");
  else
    fprintf(stderr, " wait%s in %s, %s:%d\n", count > 1 ? "" : "s", t.what, t.at.file, t.at.line);
}

/* Ends the process with a message, because no thread can continue. */
[[noreturn]] void stop_stuck() {
  std::vector<bool> told(block.size);
  say_where();
  fprintf(stderr, ": a barrier is not reached by all who must\n");
  for (unsigned i = 0; i < block.size; i++)
    if (!told[i]) say_alike(i, told);
  abort();
}

/* ---- switching threads -------------------------------------------------------------- */

void enter(Thread *thread) {
  self = thread;
  place.thread = index_of(*thread);
  place.lane = thread->number % WARP_LANES;
}

void switch_to(Fiber *fiber) {
  Fiber *from = running;
  if (fiber == from) return;
  running = fiber;
  fiber_switch(from, fiber);
}

/* Removes a random thread from the ready ones, and makes it the current thread. */
Fiber *take_ready() {
  size_t i = draw() % block.ready.size();
  Thread *thread = block.ready[i];
  block.ready[i] = block.ready.back();
  block.ready.pop_back();
  thread->state = RUNNING;
  enter(thread);
  return thread->fiber;
}

void body();

/* Returns a fiber that is free to start the next thread. */
Fiber *take_idle() {
  if (idle.empty()) idle.push_back(fiber_new(body));
  Fiber *fiber = idle.back();
  idle.pop_back();
  return fiber;
}

/* Lets the current thread wait until another thread makes it ready. */
void wait_as(State state, const char *what, Line at) {
  Thread *thread = self;
  bool can_start = block.started < block.size;
  thread->state = state;
  thread->fiber = running;
  thread->what = what;
  thread->at = at;
  if (!block.ready.empty() && (block.old_first || !can_start))
    switch_to(take_ready());
  else if (can_start)
    switch_to(take_idle());
  else
    stop_stuck();
}

void settle(Warp &warp);

void run_next_thread() {
  Thread *thread = &block.threads[block.order[block.started++]];
  thread->state = RUNNING;
  enter(thread);
  block.launch->thread();
  self->state = ENDED;
  block.ended++;
  Warp &warp = block.warps[self->number / WARP_LANES];
  warp.alive &= ~(1u << place.lane);
  settle(warp);
}

/* The body of each fiber: starts threads, and then yields to other fibers. */
void body() {
  for (;;) {
    bool can_start = block.started < block.size;
    if (can_start && (block.ready.empty() || !block.old_first)) {
      run_next_thread();
      continue;
    }
    if (block.ready.empty() && block.ended < block.size) stop_stuck();
    idle.push_back(running);
    switch_to(block.ready.empty() ? host : take_ready());
  }
}

/* ---- warps ---------------------------------------------------------------------------- */

bool complete(const Warp &warp, const Slot &slot) {
  return slot.arrived != 0 && (slot.mask & warp.alive & ~slot.arrived) == 0;
}

uint64_t fold(const Slot &s, uint64_t (*join)(uint64_t, uint64_t)) {
  uint64_t all = s.x[__builtin_ctz(s.arrived)];
  for (unsigned rest = s.arrived & (s.arrived - 1); rest; rest &= rest - 1)
    all = join(all, s.x[__builtin_ctz(rest)]);
  return all;
}

unsigned lanes_with(const Slot &s, uint64_t x) {
  unsigned lanes = 0;
  for (unsigned rest = s.arrived; rest; rest &= rest - 1)
    if (s.x[__builtin_ctz(rest)] == x) lanes |= rest & -rest;
  return lanes;
}

uint64_t outcome(const Slot &s, unsigned lane) {
  typedef uint64_t W;
  switch (s.meeting) {
  case SYNC: return 0;
  case SHUFFLE:
    /* the value of a lane that does not take part is undefined */
    if (!(s.arrived >> (s.source[lane] & 31) & 1)) return GARBAGE * 0x0101010101010101u;
    return s.x[s.source[lane] & 31];
  case BALLOT: return lanes_with(s, 1);
  case MATCH: return lanes_with(s, s.x[lane]);
  case ADD: return fold(s, [](W a, W b) { return a + b; });
  case MIN: return fold(s, [](W a, W b) { return (int64_t)a < (int64_t)b ? a : b; });
  case MAX: return fold(s, [](W a, W b) { return (int64_t)a > (int64_t)b ? a : b; });
  case UMIN: return fold(s, [](W a, W b) { return a < b ? a : b; });
  case UMAX: return fold(s, [](W a, W b) { return a > b ? a : b; });
  case AND: return fold(s, [](W a, W b) { return a & b; });
  case OR: return fold(s, [](W a, W b) { return a | b; });
  case XOR: return fold(s, [](W a, W b) { return a ^ b; });
  }
  return 0;
}

/* Gives the lanes in a slot their results, and makes them ready. */
void release(Warp &warp, Slot &slot) {
  unsigned first = (unsigned)(&warp - block.warps.data()) * WARP_LANES;
  bool folded = slot.meeting >= ADD || slot.meeting == BALLOT;
  uint64_t all = folded ? outcome(slot, 0) : 0;
  for (unsigned rest = slot.arrived; rest; rest &= rest - 1) {
    unsigned lane = (unsigned)__builtin_ctz(rest);
    Thread *thread = &block.threads[first + lane];
    thread->result = folded ? all : outcome(slot, lane);
    if (thread->state == IN_WARP) block.ready.push_back(thread);
  }
  slot.arrived = 0;
  if (slot.meeting == SYNC) order_warp(first / WARP_LANES);
}

/* Releases the lanes that were waiting for a lane that has now ended. */
void settle(Warp &warp) {
  for (Slot &slot : warp.slots)
    if (complete(warp, slot)) release(warp, slot);
}

Slot &slot_of(Warp &warp, Meeting meeting, unsigned mask) {
  Slot *unused = nullptr;
  for (Slot &slot : warp.slots) {
    if (slot.arrived && slot.meeting == meeting && slot.mask == mask) return slot;
    if (!slot.arrived) unused = &slot;
  }
  if (unused == nullptr) {
    warp.slots.push_back(Slot());
    unused = &warp.slots.back();
  }
  unused->meeting = meeting;
  unused->mask = mask;
  return *unused;
}

/* ---- blocks ---------------------------------------------------------------------------- */

/* Chooses the order in which threads start: ascending, descending, or random warps and lanes. */
void draw_order() {
  std::vector<unsigned> &order = block.order;
  uint64_t chance = draw();
  order.resize(block.size);
  for (unsigned i = 0; i < block.size; i++) order[i] = i;
  block.old_first = chance >> 8 & 3;
  if (chance % 4 == 0) return;
  if (chance % 4 == 1) return std::reverse(order.begin(), order.end());
  for (unsigned first = 0; first < block.size; first += WARP_LANES) {
    unsigned lanes = std::min<unsigned>(WARP_LANES, block.size - first);
    for (unsigned i = lanes; i > 1; i--) std::swap(order[first + i - 1], order[first + draw() % i]);
  }
  for (unsigned warp = block.size / WARP_LANES; warp > 1; warp--)
    std::swap_ranges(&order[(warp - 1) * WARP_LANES], &order[(warp - 1) * WARP_LANES] + WARP_LANES,
                     &order[draw() % warp * WARP_LANES]);
}

void prepare_threads() {
  for (unsigned i = 0; i < block.size; i++)
    block.threads[i] = Thread{UNSTARTED, i, nullptr, 0, nullptr, {nullptr, 0}};
  for (size_t w = 0; w < block.warps.size(); w++) {
    unsigned lanes = std::min<unsigned>(WARP_LANES, block.size - (unsigned)w * WARP_LANES);
    block.warps[w].alive = lanes == WARP_LANES ? ~0u : (1u << lanes) - 1;
  }
  block.started = block.ended = block.met = 0;
  block.sum = 0;
}

/* Fills shared memory with garbage before a block begins. */
void spoil_shared(const Launch &launch) {
  char *variables = thread_variables();
  memset(place.shared, GARBAGE, launch.shared);
  for (const Kernel::Shared &s : launch.kernel->shared)
    memset(variables + s.offset, GARBAGE, s.bytes);
}

void run_block(const Launch &launch, uint3 index) {
  place.block = index;
  prepare_threads();
  draw_order();
  spoil_shared(launch);
  begin_block_races(block.warps.size());
  switch_to(take_idle());
}

/* ---- dynamic shared memory --------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
void *shared_alloc(size_t bytes) { return malloc(bytes ? bytes : 1); }
void shared_free(void *data) { free(data); }
#else
/* Returns memory that ends, except for alignment, where an inaccessible page begins. */
void *shared_alloc(size_t bytes) {
  const size_t most = 256 * 1024, guard = 64 * 1024;
  static char *memory;
  if (memory == nullptr) {
    void *pages = mmap(nullptr, most + guard, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory = static_cast<char *>(pages);
    if (pages == MAP_FAILED || mprotect(memory + most, guard, PROT_NONE) != 0)
      stop("no memory for shared memory");
  }
  return memory + most - (bytes + 15) / 16 * 16;
}
void shared_free(void *) {}
#endif

void prepare(const Launch &launch) {
  const dim3 &n = launch.threads;
  char *variables = thread_variables();
  block.launch = &launch;
  block.size = n.x * n.y * n.z;
  block.threads.resize(block.size);
  block.warps.resize((block.size + WARP_LANES - 1) / WARP_LANES);
  for (Warp &warp : block.warps) warp.slots.clear();
  place.threads = n;
  place.blocks = launch.blocks;
  place.shared = shared_alloc(launch.shared);
  for (const Kernel::Shared &s : launch.kernel->others)
    memset(variables + s.offset, GARBAGE, s.bytes);
}

} // namespace

/* Runs all blocks. The step from block to block is coprime to the number of blocks. */
void run_grid(const Launch &launch) {
  const dim3 &n = launch.blocks;
  uint64_t count = (uint64_t)n.x * n.y * n.z, at = draw() % count, step = draw() % count + 1;
  while (std::gcd(step, count) != 1) step++;
  if (host == nullptr) host = fiber_of_host();
  running = host;
  prepare(launch);
  begin_traffic();
  begin_races(launch);
  for (uint64_t i = 0; i < count; i++, at = (at + step) % count)
    run_block(launch, uint3{(unsigned)(at % n.x), (unsigned)(at / n.x % n.y),
                            (unsigned)(at / ((uint64_t)n.x * n.y))});
  end_traffic(launch);
  end_races();
  shared_free(place.shared);
  self = nullptr;
}

/* ---- functions that threads call --------------------------------------------------------- */

[[noreturn]] void stop(const char *format, ...) {
  va_list args;
  if (self) {
    say_where();
    fprintf(stderr, ", thread ");
    say_index(place.thread);
    fprintf(stderr, ": ");
  } else {
    fprintf(stderr, "emulated CUDA: ");
  }
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\n");
  abort();
}

int meet_block(int count, const char *what, Line at) {
  if (is_removed(at)) return 0;
  const Thread *first = block.first;
  if (block.met == 0)
    block.first = self;
  else if (first->at.line != at.line || strcmp(first->at.file, at.file) != 0)
    stop("%s at %s:%d, while others of the block wait at %s:%d", what, at.file, at.line,
         first->at.file, first->at.line);
  block.sum += count;
  if (++block.met < block.size) {
    wait_as(IN_BLOCK, what, at);
    return (int)self->result;
  }
  count = block.sum;
  order_block();
  block.met = 0;
  block.sum = 0;
  for (Thread &thread : block.threads) {
    thread.result = (uint64_t)(int64_t)count;
    if (&thread != self) block.ready.push_back(&thread);
  }
  return count;
}

uint64_t meet_warp(Meeting meeting, unsigned mask, uint64_t x, int source, const char *what,
                   Line at) {
  Warp &warp = block.warps[self->number / WARP_LANES];
  unsigned lane = place.lane;
  if (meeting == SYNC && is_removed(at)) return 0;
  if (!(mask >> lane & 1))
    stop("%s at %s:%d: the mask 0x%08x does not name the calling lane, %u", what, at.file, at.line,
         mask, lane);
  Slot &slot = slot_of(warp, meeting, mask);
  slot.x[lane] = x;
  slot.source[lane] = source;
  slot.arrived |= 1u << lane;
  if (complete(warp, slot))
    release(warp, slot);
  else
    wait_as(IN_WARP, what, at);
  return self->result;
}

void pause() {
  block.ready.push_back(self);
  wait_as(RUNNING, "__nanosleep", {"", 0});
}

} // namespace emulated
