/*
** pacer.c - adapts Lua's collector to tensor memory, which Lua does not see. The pacer counts new
** tensors, including those that only a graph has saved. When their number or size reaches a
** threshold, a step of the collector ("young step") runs before the next tensor is made. A full
** collection follows only if the live tensors still take more and more memory.
**
** The step runs just before a tensor is made, not just after one was made: by then the previous
** value of a variable is usually garbage, and the new tensor can use its memory, which is still in
** the processor's cache.
**
** When a device's memory is exhausted, a full collection runs immediately, inside the operator that
** needs memory. A collection also runs during the capture of a graph, before a kernel writes
** tensors that may be garbage; it is a young step if Lua's heap is large.
**
** The pacer never changes the collector's mode or parameters. If the host has stopped the
** collector, it collects only when a device's memory is exhausted. Inside a finalizer lua_gc does
** nothing.
*/
#include "core/memory/device_memory.h"
#include "core/platform/platform.h"
#include "core/observe/profile.h"
#include "lua/autograd/callback.h"

/* Limits of the number of bytes of new tensors after which a young step runs. The lower limit keeps
** results in the second-level cache. A generational collector treats objects that survive two steps
** as old. Therefore steps become rarer while they find little garbage, as in the forward pass of a
** model. */
#define YOUNG_LEAST ((int64_t)512 << 10)
#define YOUNG_MOST ((int64_t)8 << 20)
#define YOUNG_COUNT 1000
/* The smallest growth of live bytes that makes a full collection worthwhile. A full collection
** costs about 0.25 ms per MB of Lua heap, as much as filling about 16 MB of tensors. */
#define FLOOR_BYTES ((int64_t)8 << 20)
#define FLOOR_PER_HEAP_BYTE 16
/* The largest heap of Lua, in KB, with which a full collection for each chain of kernels is
** affordable during the capture of a graph. Such a collection takes at most 8 ms. */
#define OFTEN_HEAP_KB (32 << 10)

static int64_t live(const tli_State *S) {
  int64_t bytes = 0;
  if (S->ledger == NULL) return 0;
  for (int i = 0; i < TL_NDEVICETYPES; i++)
    bytes += atomic_load_explicit(&S->ledger->live[i], memory_order_relaxed);
  return bytes;
}

/* Returns the growth of live bytes after which a full collection runs. This is a quarter of `left`,
** the bytes that are still live, so that the number of collections is logarithmic in the growth. It
** is at least an amount that is worth the time of a collection. */
static int64_t allowance(lua_State *L, int64_t left) {
  int64_t heap = (int64_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024;
  int64_t least = heap * FLOOR_PER_HEAP_BYTE;
  if (least < FLOOR_BYTES) least = FLOOR_BYTES;
  return left / 4 > least ? left / 4 : least;
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* Returns whether Lua has the memory to call a finalizer. Without this memory, a collection would
** free boxes without releasing their tensors. The test call also makes Lua allocate the memory that
** the next call at this depth of the stack needs, and collections do not free that memory. */
static bool can_finalize(lua_State *L) {
  if (!lua_checkstack(L, 3 * LUA_MINSTACK)) return false;
  lua_pushcfunction(L, nothing);
  bool fine = lua_pcall(L, 0, 0, 0) == LUA_OK;
  if (!fine) lua_pop(L, 1);
  return fine;
}

/* Calls `work`. A debug hook for calls or returns is turned off meanwhile: torch.compile sets a
** hook that takes each call for a call of the model, so the hook must not see the calls that `work`
** makes. */
static void run_unseen(lua_State *L, tli_State *S, void (*work)(lua_State *L, tli_State *S)) {
  lua_Hook hook = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  bool hides = mask & (LUA_MASKCALL | LUA_MASKRET);
  if (hides) lua_sethook(L, NULL, 0, 0);
  work(L, S);
  if (hides) lua_sethook(L, hook, mask, count);
}

static void full_unhooked(lua_State *L, tli_State *S) {
  if (!can_finalize(L)) return;
  S->pacer.wants_full = false;
  tli_Span span = tli_span_open(TLI_SPAN_COLLECTOR, "collector: full collection", NULL, 0);
  tli_tidy(L, S);
  tli_callbacks_loosen(L, S);
  S->pacer.collecting = true;
  lua_gc(L, LUA_GCCOLLECT, 0);
  S->pacer.collecting = false;
  tli_tidy(L, S);
  tli_callbacks_fasten(L);
  tli_span_close(span, 0);
  int64_t left = live(S);
  S->pacer.full_at = left + allowance(L, left);
}

static void young_unhooked(lua_State *L, tli_State *S) {
  if (!can_finalize(L)) return;
  S->pacer.collecting = true;
  lua_gc(L, LUA_GCSTEP, 0);
  S->pacer.collecting = false;
}

static void full(lua_State *L, tli_State *S) { run_unseen(L, S, full_unhooked); }
static void young(lua_State *L, tli_State *S) { run_unseen(L, S, young_unhooked); }

/* Adapts the number of new bytes after which a young step runs. The last step freed `dead` of
** `young` bytes. The number is doubled if more than a quarter of the bytes survived, and shrinks by
** a sixteenth if at most a sixteenth of them survived. It shrinks slowly because each young step
** may promote live objects to the old generation. */
static void adapt(tli_Pacer *p, int64_t young, int64_t dead) {
  int64_t alive = young - dead, at = p->young_at;
  if (alive > young / 4)
    at *= 2;
  else if (alive <= young / 16)
    at -= at / 16;
  p->young_at = at < YOUNG_LEAST ? YOUNG_LEAST : at > YOUNG_MOST ? YOUNG_MOST : at;
}

void tli_pacer_work(lua_State *L, tli_State *S) {
  tli_refuse_closed(L, S);
  int64_t made = S->ledger->young;
  S->pacer.due = false;
  S->ledger->young = 0;
  S->pacer.young_count = 0;
  if (S->pacer.collecting || !lua_gc(L, LUA_GCISRUNNING, 0)) return;
  if (S->pacer.full_at == 0) S->pacer.full_at = allowance(L, 0);
  int64_t before = live(S);
  tli_Span span = tli_span_open(TLI_SPAN_COLLECTOR, "collector: young step", NULL, 0);
  young(L, S);
  tli_span_close(span, 0);
  adapt(&S->pacer, made, before - live(S));
  if (S->pacer.wants_full || live(S) > S->pacer.full_at) full(L, S);
}

void tli_pacer_note(tli_State *S, const tl_Tensor *tensor) {
  tli_storage_charge(tensor->storage, S->ledger);
  S->pacer.due = ++S->pacer.young_count >= YOUNG_COUNT || S->ledger->young >= S->pacer.young_at;
}

/* Calls `work`, which may run Lua code, in the middle of an operator. Then restores the state on
** which the operator relies. */
static void run_inside_operator(lua_State *L, tli_State *S,
                                void (*work)(lua_State *L, tli_State *S)) {
  bool outer = tli_set_inside_operator(true);
  lua_State *calling = tli_calling;
  const char *op = tli_operator();
  work(L, S);
  /* restores tli_calling, which a finalizer that raised an error has left changed */
  tli_calling = calling;
  tli_set_operator(op);
  tli_set_inside_operator(outer);
}

void tli_pacer_collect(lua_State *L, tli_State *S) {
  if (S->pacer.collecting) return;
  run_inside_operator(L, S, full);
  tl_memory_trim();
}

/* Collects garbage inside an operator, and then restores the modes. Finalizers run. A tensor that a
** finalizer releases explicitly keeps its memory until the collection ends, as in every collection
** that the pacer starts. */
static bool collect_garbage(bool lacking) {
  lua_State *L = tli_calling;
  tli_State *S = L && lua_checkstack(L, LUA_MINSTACK) ? tli_state_find(L) : NULL;
  if (S == NULL || S->ledger == NULL || S->pacer.collecting) return false;
  bool grad = tli_grad_mode(), inference = tli_inference_mode();
  if (lacking)
    tli_pacer_collect(L, S);
  else if (lua_gc(L, LUA_GCISRUNNING, 0))
    run_inside_operator(L, S, lua_gc(L, LUA_GCCOUNT, 0) < OFTEN_HEAP_KB ? full : young);
  /* loads the modes again, because finalizers may have run coroutines with other modes */
  tli_enter(L, S);
  tli_set_grad_mode(grad);
  tli_set_inference_mode(inference);
  return true;
}

void tli_open_pacer(void) { atomic_store(&tli_collect_garbage, collect_garbage); }

bool tl_gc_step(lua_State *L, int microseconds) {
  if (L == NULL) return true;
  int64_t end = tli_now_ns() + (int64_t)microseconds * 1000;
  for (;;) {
    if (lua_gc(L, LUA_GCSTEP, 0)) return true;
    if (tli_now_ns() >= end) return false;
  }
}
