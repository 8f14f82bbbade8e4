/*
** memory_plan.c - implements memory_plan.h. The plan assigns addresses in its arena to blocks one
** by one, the largest first. Each block gets the smallest gap that fits between blocks that were
** placed earlier and are in use at the same time.
**
** A later run may request blocks of the recorded sizes and yet return them at other times, for
** example because only one of the runs copies an input. So the plan serves a block only while
** exactly the blocks of the recorded run are in use.
**
** A branch has a plan of its own, since only one of two branches runs. A block may be returned
** while another plan of the same run is active. The block's address tells which plan has served it.
*/
#include "graph/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/device_memory.h"

typedef enum State { RECORDING, SERVING } State;

/* A memory block that a run requests from the allocator. */
typedef struct Block {
  size_t bytes;  /* the requested size */
  int64_t size;  /* rounded */
  int64_t place; /* offset in the arena; -1 if the allocator serves the block */
  /* lifetime: the values of the plan's `time` when the block was requested and returned; `end` is
  ** -1 while the block is in use */
  int64_t begin, end;
  void *address; /* during recording: address of the block while it is in use */
  /* the value of the plan's `held` (a hash of the blocks in use) when the block was requested in
  ** the recorded run */
  uint64_t held;
} Block;

struct tli_RunPlan {
  tli_AllocHook hook;
  tl_Device device; /* the device whose memory is planned */
  /* the plan of a device's memory in the same run or branch (owned); NULL if only the CPU's memory
  ** is planned */
  tli_RunPlan *twin;
  /* in the twin of a run's plan: whether the device's allocator, not the plan, serves all blocks */
  bool muted;
  State state;
  bool failed; /* whether recording the run failed */
  Block *blocks;
  int64_t n, room;
  int64_t time; /* number of requests and returns in the recorded run so far */
  char *arena;
  int64_t arena_bytes, live;
  /* in the current run: `next` is the index of the next request, `out` the number of blocks in
  ** use */
  int64_t next, out;
  uint64_t held; /* a hash of the set of blocks in use: the sum of mark(place) over these blocks */
  /* whether the run has requested another block than the recorded run at this point; the allocator
  ** then serves the rest of the run */
  bool diverged;
  bool open;        /* whether the run, or the branch, has begun and not ended */
  tli_RunPlan *run; /* the plan of the whole run */
  /* a list of all plans of a run: the run's plan links to the plan added last, every other plan to
  ** the one added before it */
  tli_RunPlan *added;
  /* for a branch: the plan that surrounds it (borrowed); NULL in the run's plan */
  tli_RunPlan *outer;
  int64_t inner; /* set by tli_run_plan_live: the most bytes that one inner branch needs */
};

/* The alignment of a device's blocks. */
#define DEVICE_ALIGN 512

static int64_t alignment(const tli_RunPlan *p, int64_t bytes) {
  return p->device.type != TL_CPU ? DEVICE_ALIGN : bytes < TLI_ALIGN ? 16 : TLI_ALIGN;
}

/* Rounds a size up as the allocator does. On the CPU, sizes below 64 become a multiple of 16, and
** all others a multiple of 64. */
static int64_t rounded(const tli_RunPlan *p, size_t bytes) {
  int64_t align = alignment(p, (int64_t)bytes);
  int64_t size = ((int64_t)bytes + align - 1) / align * align;
  return size > 0 ? size : align;
}

/* Sets the hook that serves requests for the plan's memory; NULL for the allocator itself. */
static void divert(tli_RunPlan *p, tli_AllocHook *to) {
#ifndef TLI_RUNTIME
  if (p->device.type != TL_CPU) {
    tli_device_divert(p->device, to);
    return;
  }
#endif
  (void)p;
  tli_alloc_divert(to);
}

static void *arena_new(const tli_RunPlan *p) {
#ifndef TLI_RUNTIME
  if (p->device.type != TL_CPU)
    return p->arena_bytes > 0 ? tli_device_alloc(p->device, p->arena_bytes) : NULL;
#endif
  return tli_alloc((size_t)p->arena_bytes);
}

static void arena_free(const tli_RunPlan *p) {
#ifndef TLI_RUNTIME
  if (p->device.type != TL_CPU) {
    if (p->arena) tli_device_free(p->device, p->arena, p->arena_bytes);
    return;
  }
#endif
  tli_free(p->arena, (size_t)p->arena_bytes);
}

/* ---- the recorded run ---- */

static void record(tli_RunPlan *p, void *block, size_t bytes) {
  if (p->failed) return;
  if (p->n == p->room) {
    int64_t room = p->room > 0 ? 2 * p->room : 64;
    tli_AllocHook *host = tli_alloc_divert(NULL);
    Block *more = tli_alloc((size_t)room * sizeof *more);
    if (more && p->n > 0) memcpy(more, p->blocks, (size_t)p->n * sizeof *more);
    if (more) tli_free(p->blocks, (size_t)p->room * sizeof *more);
    tli_alloc_divert(host);
    if (more == NULL) {
      p->failed = true;
      return;
    }
    p->blocks = more;
    p->room = room;
  }
  p->blocks[p->n++] = (Block){bytes, rounded(p, bytes), -1, p->time++, -1, block, 0};
}

static bool record_return(tli_RunPlan *p, const void *block) {
  for (int64_t i = p->n - 1; i >= 0; i--) {
    Block *b = &p->blocks[i];
    if (b->address != block) continue;
    b->end = p->time++;
    b->address = NULL;
    return true;
  }
  return false;
}

/* ---- places ---- */

static int larger_first(const void *a, const void *b) {
  const Block *s = *(Block *const *)a, *t = *(Block *const *)b;
  if (s->size != t->size) return s->size > t->size ? -1 : 1;
  return s->begin < t->begin ? -1 : s->begin > t->begin;
}

static int lower_first(const void *a, const void *b) {
  const Block *s = *(Block *const *)a, *t = *(Block *const *)b;
  return s->place < t->place ? -1 : s->place > t->place;
}

static int64_t aligned(int64_t place, int64_t align) { return (place + align - 1) / align * align; }

/* Finds an offset for a block: the smallest gap that fits between the placed blocks that are in use
** at the same time. `near` is scratch space for a list of these blocks. */
static void find_place(Block *b, int64_t align, Block *const *placed, int64_t n, Block **near) {
  int64_t count = 0, best = -1, best_gap = INT64_MAX, top = 0;
  for (int64_t i = 0; i < n; i++)
    if (placed[i]->place >= 0 && placed[i]->begin < b->end && b->begin < placed[i]->end)
      near[count++] = placed[i];
  qsort(near, (size_t)count, sizeof *near, lower_first);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = aligned(top, align), gap = near[i]->place - top;
    if (at + b->size <= near[i]->place && gap < best_gap) {
      best = at;
      best_gap = gap;
    }
    int64_t end = near[i]->place + near[i]->size;
    if (end > top) top = end;
  }
  b->place = best >= 0 ? best : aligned(top, align);
}

/* Returns the number that a block at this offset of the arena contributes to the hash `held`. */
static uint64_t mark(int64_t place) {
  uint64_t h = ((uint64_t)place + 1) * 0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93u;
  return h ^ (h >> 32);
}

/* Replays the recorded run's requests and returns. Stores in each block which blocks were in use
** when it was requested, and finds the largest sum of the sizes in use. */
static bool replay(tli_RunPlan *p) {
  size_t bytes = (size_t)(p->time + 1) * sizeof(Block *);
  Block **events = tli_alloc(bytes); /* for each time, the block that was requested or returned */
  if (events == NULL) return false;
  memset(events, 0, bytes);
  for (int64_t i = 0; i < p->n; i++) {
    events[p->blocks[i].begin] = &p->blocks[i];
    if (p->blocks[i].end >= 0) events[p->blocks[i].end] = &p->blocks[i];
  }
  uint64_t held = 0;
  int64_t live = 0;
  p->live = 0;
  for (int64_t t = 0; t < p->time; t++) {
    Block *b = events[t];
    if (b->begin == t) b->held = held;
    if (b->end < 0) continue;
    held += b->begin == t ? mark(b->place) : -mark(b->place);
    live += b->begin == t ? b->size : -b->size;
    if (live > p->live) p->live = live;
  }
  tli_free(events, bytes);
  return true;
}

/* Gives all blocks an offset in the arena. If an operator keeps a block in a cache, so that the
** block was not returned before the end of the run, the allocator serves that block. */
static bool place_all(tli_RunPlan *p) {
  size_t bytes = (size_t)(2 * p->n + 1) * sizeof(Block *);
  Block **order = tli_alloc(bytes);
  if (order == NULL) return false;
  for (int64_t i = 0; i < p->n; i++) order[i] = &p->blocks[i];
  qsort(order, (size_t)p->n, sizeof *order, larger_first);
  p->arena_bytes = 0;
  for (int64_t i = 0; i < p->n; i++) {
    Block *b = order[i];
    if (b->end < 0) continue;
    find_place(b, alignment(p, b->size), order, i, order + p->n);
    if (b->place + b->size > p->arena_bytes) p->arena_bytes = b->place + b->size;
  }
  tli_free(order, bytes);
  if (!replay(p)) return false;
  p->arena = arena_new(p);
  return p->arena != NULL;
}

/* ---- the hook ---- */

static void *hook_get(tli_AllocHook *hook, size_t bytes) {
  tli_RunPlan *p = (tli_RunPlan *)hook;
  if (p->state != SERVING || p->diverged) return NULL;
  const Block *b = p->next < p->n ? &p->blocks[p->next] : NULL;
  if (b == NULL || b->bytes != bytes || b->held != p->held) {
    p->diverged = true;
    return NULL;
  }
  p->next++;
  if (b->place < 0) return NULL;
  p->out++;
  p->held += mark(b->place);
  return p->arena + b->place;
}

static void hook_got(tli_AllocHook *hook, void *block, size_t bytes) {
  tli_RunPlan *p = (tli_RunPlan *)hook;
  if (p->state == RECORDING) record(p, block, bytes);
}

typedef enum Owner { OTHER, RECORDED, SERVED } Owner;

/* Takes a block back if the plan has recorded or served it. */
static Owner take_back(tli_RunPlan *p, void *block) {
  char *at = block;
  if (p->state == RECORDING) return p->open && record_return(p, block) ? RECORDED : OTHER;
  if (at < p->arena || at >= p->arena + p->arena_bytes) return OTHER;
  p->out--;
  p->held -= mark(at - p->arena);
  return SERVED;
}

static bool hook_put(tli_AllocHook *hook, void *block) {
  tli_RunPlan *p = (tli_RunPlan *)hook;
  Owner owner = take_back(p, block);
  for (tli_RunPlan *q = p->run; owner == OTHER && q; q = q->added)
    if (q != p) owner = take_back(q, block);
  return owner == SERVED;
}

/* ---- the interface ---- */

tli_RunPlan *tli_run_plan_new(void) {
  tli_RunPlan *p = tli_alloc(sizeof *p);
  if (p) *p = (tli_RunPlan){.hook = {hook_get, hook_got, hook_put}, .run = p};
  return p;
}

bool tli_run_plan_on(tli_RunPlan *p, tl_Device device) {
  p->twin = tli_run_plan_new();
  if (p->twin) p->twin->device = device;
  return p->twin != NULL;
}

static tli_RunPlan *add_one(tli_RunPlan *run) {
  tli_RunPlan *p = tli_run_plan_new();
  if (p == NULL) return NULL;
  p->run = run;
  p->device = run->device;
  p->added = run->added;
  run->added = p;
  return p;
}

tli_RunPlan *tli_run_plan_add(tli_RunPlan *run) {
  tli_RunPlan *p = add_one(run);
  if (p && run->twin) p->twin = add_one(run->twin);
  return p && run->twin && p->twin == NULL ? NULL : p;
}

static void forget(tli_RunPlan *p) {
  arena_free(p);
  p->arena = NULL;
  p->arena_bytes = p->live = p->n = p->time = p->out = 0;
  p->held = 0;
  p->state = RECORDING;
  p->failed = false;
}

void tli_run_plan_forget(tli_RunPlan *p) {
  if (p->twin) tli_run_plan_forget(p->twin);
  for (; p; p = p->added) forget(p);
}

bool tli_run_plan_owns(const tli_RunPlan *p, const void *address) {
  const char *at = address;
  for (; p; p = p->added)
    if (at >= p->arena && at < p->arena + p->arena_bytes) return true;
  return false;
}

void tli_run_plan_free(tli_RunPlan *p) {
  if (p && p->twin) tli_run_plan_free(p->twin);
  while (p) {
    tli_RunPlan *next = p->added;
    forget(p);
    tli_free(p->blocks, (size_t)p->room * sizeof *p->blocks);
    tli_free(p, sizeof *p);
    p = next;
  }
}

/* Prepares a plan for a run or a branch. The caller sets the plan's hook afterwards. */
static void begin(tli_RunPlan *p) {
  divert(p, NULL);
  if (p->state == RECORDING) forget(p);
  p->next = 0;
  p->diverged = p->out != 0;
  p->open = true;
}

/* Ends the recording or the run of a plan. If recording failed, or a run differed and has returned
** all blocks, the plan is forgotten. */
static void end(tli_RunPlan *p) {
  divert(p, NULL);
  if (!p->open) return;
  p->open = false;
  if (p->state == RECORDING && !p->failed && place_all(p))
    p->state = SERVING;
  else if (p->state == RECORDING || (p->out == 0 && (p->diverged || p->next != p->n)))
    forget(p);
}

/* Returns the plan of the device's memory, or NULL if there is none or it is muted. */
static tli_RunPlan *twin_of(const tli_RunPlan *p) {
  return p->twin && !p->twin->run->muted ? p->twin : NULL;
}

void tli_run_plan_mute(tli_RunPlan *p, bool mute) {
  if (p->twin) p->twin->muted = mute;
}

void tli_run_plan_begin(tli_RunPlan *p) {
  tli_alloc_divert(NULL);
  if (twin_of(p)) begin(p->twin);
  begin(p);
  tli_run_plan_resume(p);
}

void tli_run_plan_enter(tli_RunPlan *branch, tli_RunPlan *outer) {
  branch->outer = outer;
  if (branch->twin) branch->twin->outer = outer->twin;
  tli_run_plan_begin(branch);
}

tli_RunPlan *tli_run_plan_leave(tli_RunPlan *branch) {
  end(branch);
  if (twin_of(branch)) end(branch->twin);
  tli_run_plan_resume(branch->outer);
  return branch->outer;
}

tli_RunPlan *tli_run_plan_outer(const tli_RunPlan *branch) { return branch->outer; }

void tli_run_plan_pause(tli_RunPlan *p) {
  divert(p, NULL);
  if (p->twin) divert(p->twin, NULL);
}

void tli_run_plan_resume(tli_RunPlan *p) {
  if (twin_of(p)) divert(p->twin, &p->twin->hook);
  divert(p, &p->hook);
}

static void end_all(tli_RunPlan *p) {
  end(p);
  for (; p; p = p->added) {
    bool left = p->open; /* a plan is still open if the run has failed within its branch */
    p->open = false;
    if (p->out != 0) {
      /* the arena must not be freed, since other code still uses one of its blocks */
      p->arena = NULL;
      p->arena_bytes = 0;
    }
    if (left || p->out != 0) forget(p);
  }
}

void tli_run_plan_end(tli_RunPlan *p) {
  tli_run_plan_pause(p);
  end_all(p);
  if (p->twin) end_all(p->twin);
}

/* Returns the bytes of the arenas of a plan and of the plans that were added to it. */
static int64_t arenas(const tli_RunPlan *p) {
  int64_t bytes = 0;
  for (; p; p = p->added) bytes += p->state == SERVING ? p->arena_bytes : 0;
  return bytes;
}

int64_t tli_run_plan_arena(const tli_RunPlan *p) {
  return arenas(p) + (p->twin ? arenas(p->twin) : 0);
}

int64_t tli_run_plan_live(tli_RunPlan *run) {
  for (tli_RunPlan *p = run; p; p = p->added) p->inner = 0;
  for (tli_RunPlan *p = run->added; p; p = p->added) {
    if (p->state != SERVING || p->outer == NULL) continue;
    int64_t live = p->live + p->inner;
    if (live > p->outer->inner) p->outer->inner = live;
  }
  int64_t live = run->state == SERVING ? run->live + run->inner : 0;
  return live + (run->twin ? tli_run_plan_live(run->twin) : 0);
}
