/*
** blocks_test.c - compares the device allocator with a plain model, on simulated memory and
** streams: in a million random calls, when the n-th call fails, and with graph pools.
**
** A simulated stream is two counters: how much work is queued and how much is done. The memory is
** never accessed; the model knows which streams may still write to which addresses.
*/
#include <stdlib.h>
#include <string.h>

#include "kernels/device/blocks.h"
#include "test.h"

#include "kernels/device/blocks.c"

enum { STREAMS = 4, MIB = 1 << 20, GRANULE = 2 * MIB, MEMORY = 256 * MIB };
#define REACH ((int64_t)4 * MEMORY)

/* ---- simulated memory and streams ---------------------------------------------------------- */

typedef struct World {
  uint64_t given[STREAMS], done[STREAMS];
  int64_t granted; /* the most bytes of address space that the simulated driver grants */
  int64_t mapped, reserved, marks, waits;
  /* bytes in freed blocks: freed[0] counts blocks of the general pool, and freed[1] blocks of graph
  ** pools */
  int64_t freed[2];
  int64_t fail_at; /* the number of calls until one fails; 0 means that no call fails */
  uintptr_t next;  /* the next unused address */
} World;

typedef struct Point {
  int stream;
  uint64_t at;
} Point;

static bool may_go(World *w) { return w->fail_at == 0 || --w->fail_at > 0; }

static char *reserve(void *self, int64_t bytes) {
  World *w = self;
  CHECK(bytes > 0 && bytes % GRANULE == 0);
  if (!may_go(w) || w->reserved + bytes > w->granted) return NULL;
  w->reserved += bytes;
  w->next += (uintptr_t)bytes;
  return (char *)w->next - bytes;
}

static void unreserve(void *self, char *at, int64_t bytes) {
  CHECK(at != NULL);
  ((World *)self)->reserved -= bytes;
}

static bool map(void *self, char *at, int64_t bytes, int64_t granule) {
  World *w = self;
  CHECK(bytes > 0 && bytes % granule == 0 && (uintptr_t)at % (uintptr_t)granule == 0);
  if (!may_go(w) || w->mapped + bytes > MEMORY) return false;
  w->mapped += bytes;
  return true;
}

static void unmap(void *self, char *at, int64_t bytes, int64_t granule) {
  CHECK(bytes > 0 && bytes % granule == 0 && (uintptr_t)at % (uintptr_t)granule == 0);
  ((World *)self)->mapped -= bytes;
}

static void *mark(void *self, int stream) {
  World *w = self;
  Point *p = may_go(w) ? malloc(sizeof *p) : NULL;
  if (p == NULL) return NULL;
  w->marks++;
  *p = (Point){stream, w->given[stream]};
  return p;
}

static bool has_passed(void *self, void *point) {
  const Point *p = point;
  return ((World *)self)->done[p->stream] >= p->at;
}

static void drop(void *self, void *point) {
  ((World *)self)->marks--;
  free(point);
}

static bool wait_for_all(void *self) {
  World *w = self;
  w->waits++;
  memcpy(w->done, w->given, sizeof w->done);
  return true;
}

static void no_note(tl_Device device, tl_MemoryAction action, const void *data, int64_t bytes,
                    int64_t stream) {
  (void)device, (void)action, (void)data;
  CHECK(bytes >= 0 && stream >= 0 && stream < STREAMS);
}

static bool failed(tl_ErrorKind kind, const char *format, ...) {
  CHECK(kind == TL_EMEM && strcmp(format, "%s: out of memory") == 0);
  return false;
}

static void freed(void *self, char *data, int64_t bytes, int stream, uint64_t pool) {
  World *w = self;
  CHECK(data && bytes > 0 && stream < STREAMS);
  w->freed[pool > 0] += bytes;
}

/* Opens an allocator whose first arenas reserve `reach` bytes of address space. */
static void open_with(tlk_Blocks *b, World *w, int64_t reach) {
  static const tl_Host host = {.fail = failed, .memory_event = no_note};
  tlk_BlockSource source = {.self = w,
                            .host = &host,
                            .name = "test",
                            .granule = {GRANULE, GRANULE},
                            .reach = reach,
                            .most = REACH,
                            .reserve = reserve,
                            .unreserve = unreserve,
                            .map = map,
                            .unmap = unmap,
                            .mark = mark,
                            .passed = has_passed,
                            .drop = drop,
                            .wait = wait_for_all,
                            .freed = freed};
  *w = (World){.next = (uintptr_t)1 << 40, .granted = (int64_t)1 << 47};
  tlk_blocks_open(b, &source, MEMORY);
}

static void open_blocks(tlk_Blocks *b, World *w) { open_with(b, w, REACH); }

static void close_blocks(tlk_Blocks *b, const World *w) {
  CHECK(b->stats.allocated_bytes[TL_POOL_ALL].current == 0);
  tlk_blocks_close(b);
  CHECK(w->mapped == 0 && w->reserved == 0 && w->marks == 0);
  CHECK(b->stats.active[TL_POOL_ALL].current == 0);
  CHECK(b->stats.reserved_bytes[TL_POOL_ALL].current == 0);
  CHECK(b->stats.inactive_split_bytes[TL_POOL_ALL].current == 0);
  CHECK(b->stats.segment[TL_POOL_ALL].current == 0);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* A range of bytes that may still be written: the range is in use, or it was freed while streams
** still used it. */
typedef struct Held {
  char *data;
  int64_t bytes;
  int stream;
  bool used;
  /* for a freed range: the streams that used it, and how much work each must have done before
  ** reuse */
  uint64_t others, until[STREAMS];
} Held;

typedef struct Model {
  World world;
  tlk_Blocks blocks;
  Held *held;
  int n, room;
  int64_t live;
  uint64_t random;
} Model;

static uint64_t draw(Model *m) {
  uint64_t z = m->random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static bool still_busy(const Model *m, const Held *h) {
  for (int s = 0; s < STREAMS; s++)
    if ((h->others >> s & 1) && m->world.done[s] < h->until[s]) return true;
  return false;
}

/* Checks that no stream may write to these bytes: no block in use contains them, and no stream
** still uses them. */
static void check_free(const Model *m, const char *data, int64_t bytes) {
  for (int i = 0; i < m->n; i++) {
    const Held *h = &m->held[i];
    bool apart = data + bytes <= h->data || h->data + h->bytes <= data;
    CHECK(apart || (!h->used && !still_busy(m, h)));
  }
}

static void forget(Model *m) {
  for (int i = 0; i < m->n; i++)
    if (!m->held[i].used && !still_busy(m, &m->held[i])) m->held[i--] = m->held[--m->n];
}

static int64_t size(Model *m) {
  uint64_t r = draw(m);
  if (r % 16 == 0) return (int64_t)(r >> 8) % (24 * MIB);
  if (r % 4 == 0) return (int64_t)(r >> 8) % (2 * MIB);
  return (int64_t)(r >> 8) % 4096;
}

static void model_alloc(Model *m) {
  int stream = (int)(draw(m) % STREAMS);
  int64_t bytes = size(m);
  char *data = tlk_blocks_alloc(&m->blocks, bytes, stream, 0);
  if (data == NULL) return;
  CHECK((uintptr_t)data % TLK_BLOCK_UNIT == 0);
  check_free(m, data, bytes);
  m->held[m->n++] = (Held){.data = data, .bytes = bytes, .stream = stream, .used = true};
  m->live += bytes;
  CHECK(m->live == m->blocks.stats.requested_bytes[TL_POOL_ALL].current);
}

static void model_free(Model *m, int i) {
  Held *h = &m->held[i];
  tlk_blocks_free(&m->blocks, h->data);
  h->used = false;
  m->live -= h->bytes;
  memcpy(h->until, m->world.given, sizeof h->until);
}

/* Searches the model's list for an entry in use, from a random index on. Returns its index, or -1
** if no entry is in use. */
static int any_used(Model *m) {
  for (int tries = 0; m->n > 0 && tries < 4; tries++) {
    int i = (int)(draw(m) % (uint64_t)m->n);
    if (m->held[i].used) return i;
  }
  return -1;
}

static void step(Model *m) {
  uint64_t what = draw(m) % 100;
  int i = any_used(m), stream = (int)(draw(m) % STREAMS);
  m->world.given[stream]++;
  if (what < 30) m->world.done[stream] = m->world.given[stream];
  if ((what < 45 && m->n < m->room / 2) || i < 0) {
    if (m->n < m->room) model_alloc(m);
  } else if (what < 90) {
    model_free(m, i);
  } else if (what < 99) {
    tlk_blocks_used_by(&m->blocks, m->held[i].data, stream);
    if (stream != m->held[i].stream) m->held[i].others |= (uint64_t)1 << stream;
  } else if (draw(m) % 50 == 0) {
    CHECK(tlk_blocks_trim(&m->blocks));
  }
  forget(m);
}

static void run_model(Model *m, int steps, int64_t fail_each) {
  for (int i = 0; i < steps; i++) {
    if (fail_each && i % fail_each == 0) m->world.fail_at = 1 + (int64_t)(draw(m) % 8);
    step(m);
  }
  m->world.fail_at = 0;
  for (int i = 0; i < m->n; i++)
    if (m->held[i].used) model_free(m, i);
  close_blocks(&m->blocks, &m->world);
}

static void random_calls(uint64_t seed, int steps, int64_t fail_each, int64_t reach) {
  Model m = {.room = 200, .random = seed};
  m.held = malloc((size_t)m.room * sizeof *m.held);
  open_with(&m.blocks, &m.world, reach);
  run_model(&m, steps, fail_each);
  free(m.held);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(a_freed_block_is_handed_out_at_once) {
  World w;
  tlk_Blocks b;
  open_blocks(&b, &w);
  void *first = tlk_blocks_alloc(&b, 5000, 1, 0);
  w.given[1]++;
  tlk_blocks_free(&b, first);
  CHECK(tlk_blocks_alloc(&b, 5000, 1, 0) == first);
  /* the first stream may still use the freed block, so another stream must get another block */
  CHECK(tlk_blocks_alloc(&b, 5000, 2, 0) != first);
  CHECK(b.stats.num_device_alloc == 2 && w.mapped == 2 * GRANULE && w.waits == 0);
  tlk_blocks_free(&b, first);
  tlk_blocks_free(&b, b.arenas->first->data);
  close_blocks(&b, &w);
}

TEST(other_users_are_waited_for) {
  World w;
  tlk_Blocks b;
  open_blocks(&b, &w);
  void *data = tlk_blocks_alloc(&b, 100, 0, 0);
  tlk_blocks_used_by(&b, data, 2);
  w.given[2] = 5;
  tlk_blocks_free(&b, data);
  void *next = tlk_blocks_alloc(&b, 100, 0, 0);
  CHECK(next != data && b.stats.active[TL_POOL_ALL].current == 2);
  tlk_blocks_free(&b, next);
  w.done[2] = 5;
  CHECK(tlk_blocks_alloc(&b, 100, 0, 0) == data);
  CHECK(b.stats.active[TL_POOL_ALL].current == 1);
  tlk_blocks_free(&b, data);
  close_blocks(&b, &w);
}

/* Tests that holes between blocks are unmapped. After every second block is freed, segments of a
** fixed size would have no room for a large block, but large arenas grow at the end. */
TEST(holes_are_given_back) {
  enum { N = 32 };
  World w;
  tlk_Blocks b;
  void *data[N];
  open_blocks(&b, &w);
  for (int i = 0; i < N; i++) data[i] = tlk_blocks_alloc(&b, 4 * MIB, 0, 0);
  for (int i = 0; i < N; i += 2) tlk_blocks_free(&b, data[i]);
  CHECK(w.mapped == N * 4 * MIB);
  /* this block is larger than the free space between the blocks */
  void *large = tlk_blocks_alloc(&b, 180 * MIB, 0, 0);
  CHECK(large != NULL && b.stats.num_alloc_retries == 1);
  CHECK(w.mapped == 180 * MIB + N / 2 * 4 * MIB);
  CHECK(tlk_blocks_alloc(&b, 80 * MIB, 0, 0) == NULL);
  tlk_blocks_free(&b, large);
  for (int i = 1; i < N; i += 2) tlk_blocks_free(&b, data[i]);
  close_blocks(&b, &w);
}

/* Tests that arenas of one kind grow: the second arena has the size of the first, and the third
** has twice that size. */
TEST(arenas_grow) {
  World w;
  tlk_Blocks b;
  void *data[4];
  open_with(&b, &w, 8 * MIB);
  for (int i = 0; i < 4; i++) data[i] = tlk_blocks_alloc(&b, 6 * MIB, 0, 0);
  CHECK(w.reserved == (8 + 8 + 16) * MIB);
  tl_MemoryStats stats;
  tlk_blocks_stats(&b, &stats);
  CHECK(stats.reserved_addresses == w.reserved && stats.num_address_retries == 0);
  for (int i = 0; i < 4; i++) tlk_blocks_free(&b, data[i]);
  close_blocks(&b, &w);
}

TEST(refused_addresses_are_asked_for_in_small_ranges) {
  World w;
  tlk_Blocks b;
  open_blocks(&b, &w);
  w.granted = 100 * MIB;
  void *data = tlk_blocks_alloc(&b, 6 * MIB, 0, 0);
  CHECK(data != NULL && w.reserved == 6 * MIB && b.stats.num_address_retries == 1);
  void *rest = tlk_blocks_alloc(&b, 90 * MIB, 1, 0);
  CHECK(rest != NULL && w.reserved == 96 * MIB && b.stats.num_address_retries == 1);
  CHECK(tlk_blocks_alloc(&b, 10 * MIB, 2, 0) == NULL);
  tlk_blocks_free(&b, rest); /* unused address space is released when another arena needs it */
  void *other = tlk_blocks_alloc(&b, 10 * MIB, 2, 0);
  CHECK(other != NULL);
  tlk_blocks_free(&b, data);
  tlk_blocks_free(&b, other);
  close_blocks(&b, &w);
}

TEST(pools_live_as_long_as_their_holders) {
  World w;
  tlk_Blocks b;
  open_blocks(&b, &w);
  CHECK(tlk_blocks_hold(&b, 7) && tlk_blocks_hold(&b, 7));
  tlk_blocks_capture(&b, 1);
  void *data = tlk_blocks_alloc(&b, 3 * MIB, 0, 7);
  tlk_blocks_free(&b, data);
  CHECK(tlk_blocks_alloc(&b, 3 * MIB, 0, 7) == data);
  void *general = tlk_blocks_alloc(&b, 3 * MIB, 0, 0);
  CHECK(general != data);
  tlk_blocks_free(&b, data);
  tlk_blocks_capture(&b, -1);
  tlk_blocks_free(&b, general);
  tlk_blocks_let_go(&b, 7, 0);
  /* the pool's memory stays mapped for a replay */
  CHECK(tlk_blocks_trim(&b) && w.mapped == 4 * MIB);
  w.given[3] = 9;
  /* a launch of the graph on stream 3 has not ended, so the pool's memory must not be used again */
  tlk_blocks_let_go(&b, 7, 1 << 3);
  void *other = tlk_blocks_alloc(&b, 3 * MIB, 0, 0);
  CHECK(other != data);
  w.done[3] = 9;
  CHECK(tlk_blocks_alloc(&b, 3 * MIB, 0, 0) == data);
  tlk_blocks_free(&b, other);
  tlk_blocks_free(&b, data);
  close_blocks(&b, &w);
}

TEST(nothing_is_asked_of_streams_during_a_capture) {
  World w;
  tlk_Blocks b;
  open_blocks(&b, &w);
  void *data = tlk_blocks_alloc(&b, 100, 0, 0);
  tlk_blocks_used_by(&b, data, 1);
  tlk_blocks_capture(&b, 1);
  tlk_blocks_free(&b, data);
  CHECK(w.marks == 0 && tlk_blocks_alloc(&b, 1000 * (int64_t)MIB, 0, 0) == NULL && w.waits == 0);
  w.given[1] = 1;
  tlk_blocks_capture(&b, -1);
  CHECK(w.marks == 1);
  w.done[1] = 1;
  close_blocks(&b, &w);
}

TEST(the_limit_is_kept) {
  World w;
  tlk_Blocks b;
  open_blocks(&b, &w);
  b.limit = 8 * MIB;
  void *data = tlk_blocks_alloc(&b, 6 * MIB, 0, 0);
  CHECK(data && tlk_blocks_alloc(&b, 4 * MIB, 0, 0) == NULL);
  CHECK(tlk_blocks_alloc(&b, INT64_MAX, 0, 0) == NULL);
  void *empty = tlk_blocks_alloc(&b, 0, 0, 0);
  CHECK(empty != NULL && empty != data);
  tlk_blocks_free(&b, data);
  tlk_blocks_free(&b, empty);
  close_blocks(&b, &w);
}

TEST(short_address_space_is_prolonged_by_arenas) {
  World w;
  tlk_Blocks b;
  open_with(&b, &w, 2 * GRANULE);
  /* this block is larger than one granule, so it takes both granules of the first arena */
  void *first = tlk_blocks_alloc(&b, 3 * MIB, 0, 0);
  void *second = tlk_blocks_alloc(&b, 3 * MIB, 0, 0);
  void *large = tlk_blocks_alloc(&b, 25 * MIB, 0, 0);
  CHECK(w.reserved == (4 + 4 + 26) * MIB && w.mapped == w.reserved);
  CHECK(b.stats.segment[TL_POOL_ALL].current == 3);
  /* memory is exhausted, but address space is left */
  CHECK(tlk_blocks_alloc(&b, MEMORY - 20 * MIB, 0, 0) == NULL);
  tlk_blocks_free(&b, second);
  CHECK(w.freed[0] == 4 * MIB && w.freed[1] == 0);
  CHECK(tlk_blocks_alloc(&b, 3 * MIB, 0, 0) == second);
  tlk_blocks_free(&b, first);
  tlk_blocks_free(&b, second);
  tlk_blocks_free(&b, large);
  close_blocks(&b, &w);
}

TEST(blocks_below_half_of_the_least_share_it) {
  World w;
  tlk_Blocks b;
  open_with(&b, &w, 10 * GRANULE);
  b.source.least = 10 * GRANULE;
  void *first = tlk_blocks_alloc(&b, 4 * MIB, 0, 0);
  CHECK(w.mapped == 20 * MIB && b.stats.active_bytes[TL_POOL_ALL].current == 4 * MIB);
  void *second = tlk_blocks_alloc(&b, 9 * MIB, 0, 0);
  CHECK(w.mapped == 20 * MIB && second == (char *)first + 4 * MIB);
  /* this block takes more than half of an arena */
  void *large = tlk_blocks_alloc(&b, 11 * MIB, 0, 0);
  CHECK(w.mapped == 32 * MIB);
  tlk_blocks_free(&b, first);
  /* unmaps all granules except those of `second` */
  CHECK(tlk_blocks_trim(&b) && w.mapped == 22 * MIB);
  void *third = tlk_blocks_alloc(&b, 3 * MIB, 0, 0);
  CHECK(third && w.mapped == 30 * MIB); /* the arena of `large` has 8 MiB free */
  tlk_blocks_free(&b, third);
  tlk_blocks_free(&b, second);
  tlk_blocks_free(&b, large);
  close_blocks(&b, &w);
}

TEST(a_million_random_calls) { random_calls(1, 1000000, 0, REACH); }

TEST(random_calls_with_short_arenas) { random_calls(7, 200000, 500, 3 * GRANULE); }

TEST(calls_that_fail_leave_everything_in_order) {
  for (uint64_t seed = 2; seed < 6; seed++) random_calls(seed, 50000, 100, REACH);
}

int main(void) { return test_all(); }
