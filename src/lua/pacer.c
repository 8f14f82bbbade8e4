/*
** pacer.c - keeps Lua's collector in step with tensor memory, which Lua cannot
** see. After YOUNG_BYTES or YOUNG_COUNT of new tensors the collector makes one
** small step; when live bytes pass twice what was left by the last full
** collection (but no less than a floor that scales with the Lua heap, because
** a full collection costs time in proportion to it), a full one.
**
** Never changes the collector's mode or parameters, and leaves it alone when
** the host has stopped it. lua_gc does nothing inside a finalizer.
*/
#include <time.h>

#include "lua/state.h"

#define YOUNG_BYTES (8 << 20)
#define YOUNG_COUNT 1000
#define FLOOR_BYTES ((int64_t)64 << 20)
/* A full collection costs about 0.25 ms per MB of Lua heap, as much as filling
** some 16 MB of tensors. */
#define FLOOR_PER_HEAP_BYTE 16

static int64_t live(const tli_State *S) {
  int64_t bytes = 0;
  for (int i = 0; i < TL_NDEVICETYPES; i++)
    bytes += atomic_load_explicit(&S->ledger->live[i], memory_order_relaxed);
  return bytes;
}

static int64_t floor_bytes(lua_State *L) {
  int64_t heap = (int64_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  int64_t scaled = heap * FLOOR_PER_HEAP_BYTE;
  return scaled > FLOOR_BYTES ? scaled : FLOOR_BYTES;
}

static void full(lua_State *L, tli_State *S) {
  S->pacer.collecting = true;
  lua_gc(L, LUA_GCCOLLECT, 0);
  S->pacer.collecting = false;
  int64_t left = 2 * live(S), least = floor_bytes(L);
  S->pacer.full_at = left > least ? left : least;
}

static void work(lua_State *L, tli_State *S) {
  S->pacer.young_bytes = 0;
  S->pacer.young_count = 0;
  if (!lua_gc(L, LUA_GCISRUNNING, 0)) return;
  if (S->pacer.full_at == 0) S->pacer.full_at = floor_bytes(L);
  if (live(S) > S->pacer.full_at) {
    full(L, S);
  } else {
    S->pacer.collecting = true;
    lua_gc(L, LUA_GCSTEP, 0);
    S->pacer.collecting = false;
  }
}

void tli_pacer_note(lua_State *L, tli_State *S, const tl_Tensor *tensor) {
  if (tli_storage_charge(tensor->storage, S->ledger))
    S->pacer.young_bytes += tensor->storage->bytes;
  if ((++S->pacer.young_count >= YOUNG_COUNT || S->pacer.young_bytes >= YOUNG_BYTES) &&
      !S->pacer.collecting)
    work(L, S);
}

void tli_pacer_collect(lua_State *L, tli_State *S) {
  if (S->pacer.collecting) return;
  full(L, S);
  tl_memory_trim();
}

bool tl_gc_step(lua_State *L, int microseconds) {
  struct timespec start, now;
  timespec_get(&start, TIME_UTC);
  for (;;) {
    if (lua_gc(L, LUA_GCSTEP, 0)) return true;
    timespec_get(&now, TIME_UTC);
    int64_t spent =
        (int64_t)(now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000;
    if (spent >= microseconds) return false;
  }
}
