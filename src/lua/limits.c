/*
** limits.c - limits of what the scripts of one Lua state may use (tl_set_limits). A hook checks
** instructions and seconds every TLI_LIMITS_STEP instructions. An allocator in front of the host's
** limits the memory of Lua. The state's ledger limits the memory of tensors
** (core/tensor/storage.c); under a limit it also counts nodes of graphs and long lists of views
** (core/tensor/ledger.h). The thread's deadline limits the time of operators
** (core/platform/parallel.c).
**
** Once the instructions or seconds are used up, the hook raises its error at each instruction. So a
** function that catches one error is ended by the next. A thread that waits for a coroutine notices
** after at most TLI_LIMITS_STEP instructions.
*/
#include "lua/limits.h"

#include <stdlib.h>
#include <string.h>

#include "core/platform/parallel.h"
#include "core/platform/platform.h"
#include "lua/modes/thread_modes.h"

/* The allocator reads the clock if a block grows by at least this number of bytes. Between two
** calls of the hook a script may execute many instructions that copy long strings, which takes
** long. */
#define LARGE ((size_t)32 << 10)

/* The limits of one state, and the argument of its allocator. */
typedef struct Budget {
  lua_Alloc alloc; /* the host's allocator, which this allocator calls */
  void *context;   /* the argument of the host's allocator (borrowed) */
  uintptr_t main;  /* the address of the main thread, which is freed last */
  int64_t used;    /* number of bytes that Lua has allocated */
  int64_t spent;   /* instructions */
  int64_t deadline;
  tl_Limits limits;
} Budget;

static bool late(const Budget *b) { return b->deadline != 0 && tli_now_ns() >= b->deadline; }

static bool refused(const Budget *b, size_t more) {
  int64_t most = b->limits.lua_bytes;
  if (most > 0 && (b->used > most || more > (size_t)(most - b->used))) return true;
  return more >= LARGE && late(b);
}

static void *counted(void *context, void *block, size_t before, size_t size) {
  Budget *b = context;
  /* for a new block, `before` is not a size but the type of an object */
  size_t had = block ? before : 0;
  if (size > had && refused(b, size - had)) return NULL;
  uintptr_t at = (uintptr_t)block;
  bool last = size == 0 && block && at <= b->main && b->main - at < had;
  void *moved = b->alloc(b->context, block, before, size);
  if (moved || size == 0) b->used += (int64_t)size - (int64_t)had;
  if (last) free(b);
  return moved;
}

/* Returns the budget of a state; NULL if tl_set_limits was never called. */
static Budget *budget_of(lua_State *L) {
  void *context;
  return lua_getallocf(L, &context) == counted ? context : NULL;
}

static bool used_up(const Budget *b) {
  return (b->limits.instructions > 0 && b->spent > b->limits.instructions) || late(b);
}

static int raise_used_up(lua_State *L, const Budget *b) {
  lua_Debug line;
  if (tli_user_line(L, &line))
    lua_pushfstring(L, "%s:%d: ", line.short_src, line.currentline);
  else
    lua_pushliteral(L, "");
  if (b->limits.instructions > 0 && b->spent > b->limits.instructions)
    lua_pushfstring(L, "this Lua state has used up its %I instructions (tl_set_limits)",
                    (LUAI_UACINT)b->limits.instructions);
  else
    lua_pushfstring(L, "this Lua state has used up its %f seconds (tl_set_limits)",
                    (LUAI_UACNUMBER)b->limits.seconds);
  lua_concat(L, 2);
  return lua_error(L);
}

/* Ends the function of a coroutine. Returns its results, or raises its error, which are on the
** stack. */
static int end_body(lua_State *L, int status, lua_KContext context) {
  (void)context;
  return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : lua_error(L);
}

/* Calls the coroutine's function as pcall does. Without pcall, an error of the hook would leave
** hooks disabled in the coroutine, and its to-be-closed variables would be closed without hooks. */
int tli_limits_body(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  return end_body(L, lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, 0, end_body), 0);
}

/* Returns whether a thread is a coroutine of a script, that is, whether its outermost function is
** tli_limits_body. */
static bool of_script(lua_State *L) {
  lua_Debug ar, last;
  int level = 0, step = 1;
  if (!lua_getstack(L, 0, &last)) return false;
  /* finds the outermost level by a binary search: doubles the step while the level exists, then
  ** halves it */
  while (step > 0) {
    if (lua_getstack(L, level + step, &ar)) {
      last = ar;
      level += step;
      step *= 2;
    } else {
      step /= 2;
    }
  }
  lua_getinfo(L, "f", &last);
  bool is = lua_tocfunction(L, -1) == tli_limits_body;
  lua_pop(L, 1);
  return is;
}

/* The debug hook, which counts instructions and ends the script once its limits are used up. A
** script's coroutine is ended by a yield; the thread that has resumed it then raises the error. An
** error inside the coroutine would take quadratic time if many nested calls of pcall catch it. */
static void check(lua_State *L, lua_Debug *ar) {
  (void)ar;
  Budget *b = budget_of(L);
  if (b == NULL) return;
  int count = lua_gethookcount(L);
  b->spent += count;
  bool over = used_up(b);
  if (over != (count == 1)) lua_sethook(L, check, LUA_MASKCOUNT, over ? 1 : TLI_LIMITS_STEP);
  if (over && lua_isyieldable(L) && of_script(L))
    lua_yield(L, 0);
  else if (over)
    raise_used_up(L, b);
}

void tli_limits_spend(lua_State *L, int64_t spent) {
  Budget *b = budget_of(L);
  if (b == NULL) return;
  b->spent += spent;
  if (used_up(b)) raise_used_up(L, b);
}

bool tli_limits_used_up(lua_State *L) {
  const Budget *b = budget_of(L);
  return b && used_up(b);
}

int64_t tli_limits_left(lua_State *L) {
  const Budget *b = budget_of(L);
  if (b == NULL || b->limits.instructions <= 0) return INT64_MAX;
  return b->spent < b->limits.instructions ? b->limits.instructions - b->spent : 0;
}

int tli_limits_threads(lua_State *L) {
  const Budget *b = budget_of(L);
  return b ? b->limits.threads : 0;
}

static Budget *open_budget(lua_State *L, lua_State *main) {
  Budget *b = calloc(1, sizeof *b);
  if (b == NULL) return NULL;
  b->alloc = lua_getallocf(L, &b->context);
  b->main = (uintptr_t)main;
  b->used = (int64_t)lua_gc(L, LUA_GCCOUNT) * 1024 + lua_gc(L, LUA_GCCOUNTB);
  lua_setallocf(L, counted, b);
  return b;
}

static void set_hook(lua_State *L) {
  if (lua_gethook(L) != check || lua_gethookcount(L) != TLI_LIMITS_STEP)
    lua_sethook(L, check, LUA_MASKCOUNT, TLI_LIMITS_STEP);
}

bool tl_set_limits(lua_State *L, const tl_Limits *limits) {
  static const tl_Limits none;
  if (limits == NULL) limits = &none;
  if (L == NULL) return tli_fail(TL_EARG, "set_limits: expected a Lua state, got NULL");
  if (limits->tensor_bytes < 0 || limits->lua_bytes < 0 || limits->instructions < 0 ||
      !(limits->seconds >= 0) || limits->threads < 0)
    return tli_fail(TL_EARG, "set_limits: expected limits of 0 or more");
  if (!lua_checkstack(L, 4)) return tli_fail(TL_EMEM, "set_limits: no room on the stack");
  tli_State *S = tli_state_find(L);
  if (S == NULL || S->ledger == NULL)
    return tli_fail(TL_EARG, "set_limits: the library is not open in this Lua state");
  if (limits->instructions > 0 || limits->seconds > 0) {
    lua_pushcfunction(L, tli_bound_functions);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
      tli_fail(TL_EMEM, "set_limits: %s", lua_tostring(L, -1));
      lua_pop(L, 1);
      return false;
    }
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main = lua_tothread(L, -1);
  lua_pop(L, 1);
  Budget *b = budget_of(L);
  if (b == NULL) b = open_budget(L, main);
  if (b == NULL) return tli_fail(TL_EMEM, "set_limits: not enough memory");
  b->limits = *limits;
  b->spent = 0;
  b->deadline = 0;
  if (limits->seconds > 0 && limits->seconds < 1e9)
    b->deadline = tli_now_ns() + (int64_t)(limits->seconds * 1e9);
  if (limits->instructions > 0 || b->deadline != 0) {
    set_hook(main);
    set_hook(L);
  }
  S->ledger->most = limits->tensor_bytes;
  S->deadline = b->deadline;
  tli_modes_outdated(S);
  if (tli_ledger() == S->ledger) tli_set_deadline(S->deadline);
  return true;
}

/* _within(seconds, fn, ...) calls a function within a number of seconds, under the limits of
** tl_set_limits. Returns whether the seconds were used up, and then the results of pcall. */
int tli_limits_within(lua_State *L) {
  tl_Limits limits = {.seconds = luaL_checknumber(L, 1)};
  luaL_argcheck(L, limits.seconds > 0, 1, "expected a positive number");
  /* tl_set_limits takes 1e9 seconds or more as no limit; then no hook would be set, and coroutines
  ** would inherit none */
  if (limits.seconds >= 1e9) limits.seconds = 1e9 - 1;
  luaL_checktype(L, 2, LUA_TFUNCTION);
  Budget *b = budget_of(L);
  if (b && (b->deadline != 0 || b->limits.instructions > 0 || b->limits.lua_bytes > 0 ||
            b->limits.tensor_bytes > 0 || b->limits.threads > 0))
    return tli_error(L, "_within: this Lua state has limits already (tl_set_limits)");
  if (!tl_set_limits(L, &limits)) return tli_error(L, "_within: %s", tl_error());
  bool ok = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0) == LUA_OK;
  lua_pushboolean(L, tli_limits_used_up(L));
  lua_replace(L, 1);
  bool removed = tl_set_limits(L, NULL);
  if (lua_gethook(L) == check) lua_sethook(L, NULL, 0, 0);
  if (!removed) return tli_error(L, "_within: %s", tl_error());
  lua_pushboolean(L, ok);
  lua_insert(L, 2);
  return lua_gettop(L);
}
