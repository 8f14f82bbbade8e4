/*
** fault_test.c - tests training steps in which allocations fail. For every n, either only the n-th
** allocation fails, or the n-th and all later ones fail. The step must succeed anyway, or raise a
** Lua error that names the request. Afterwards all memory must be freed, and the next step must
** work.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/memory/alloc.h"
#include "test.h"

static const char *const setup =
    "local nn, optim = torch.nn, torch.optim\n"
    "torch.manual_seed(1)\n"
    "local net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))\n"
    "local optimizer = optim.Adam(net:parameters(), {lr = 1e-3})\n"
    "local x, labels = torch.randn(40, 8), torch.randint(1, 4, {40})\n"
    "function step()\n"
    "  local rows = x[{{1, 5}}]\n"
    "  local loss = nn.functional.cross_entropy(net(rows), labels[{{1, 5}}])\n"
    "  optimizer:zero_grad()\n"
    "  loss:backward()\n"
    "  optimizer:step()\n"
    "  local mask = rows:gt(0)\n"
    "  local parts = rows:split(2)\n"
    "  local again = torch.cat(parts):sort(2)\n"
    "  rows = torch.where(mask, again, rows * 2):sum(1)\n"
    "  return rows[mask[1]]:mean():item(), torch.tensor({{1, 2}, {3, 4}}):tolist()\n"
    "end\n"
    "step()\n";

static lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  if (luaL_dostring(L, setup) != LUA_OK) {
    printf("# %s\n", lua_tostring(L, -1));
    FAIL("the first step failed");
  }
  return L;
}

/* Runs one step. Returns LUA_OK, or leaves an error on the stack and returns its status. */
static int step(lua_State *L) {
  lua_settop(L, 0);
  lua_getglobal(L, "step");
  return lua_pcall(L, 0, 0, 0);
}

static int64_t used_after_collecting(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT);
  return tl_memory_used();
}

/* Tests a step for each n. If only one allocation fails, Lua may collect garbage and try again,
** so the step may succeed. If all allocations from the n-th one on fail, the step must fail. */
static void every_allocation_fails(void (*fail)(int64_t n)) {
  lua_State *L = new_state();
  CHECK(step(L) == LUA_OK);
  int64_t used = used_after_collecting(L);
  int64_t before = tli_alloc_count();
  CHECK(step(L) == LUA_OK);
  int64_t count = tli_alloc_count() - before;
  CHECK(count > 100);
  CHECK(used_after_collecting(L) == used);

  int64_t failed = 0;
  for (int64_t n = 1; n <= count; n++) {
    fail(n);
    int status = step(L);
    fail(0);
    if (status != LUA_OK) {
      failed++;
      const char *message = lua_tostring(L, -1);
      bool said = message != NULL && strstr(message, "out of memory: asked for") != NULL;
      if (!said) printf("# %s\n", message ? message : "no message");
      CHECK_AT(n, said);
    }
    lua_settop(L, 0);
    CHECK_AT(n, step(L) == LUA_OK);
    CHECK_AT(n, used_after_collecting(L) == used);
  }
  CHECK(failed > 0);
  lua_close(L);
}

TEST(one_allocation_may_fail) { every_allocation_fails(tli_alloc_fail_at); }
TEST(memory_may_end) { every_allocation_fails(tli_alloc_fail_from); }

/* The limits on Lua's own memory, which may run out in any function of the library. */
typedef struct Limits {
  int64_t calls, fail_at;
} Limits;

static void *lua_alloc(void *context, void *block, size_t old, size_t size) {
  Limits *limits = (Limits *)context;
  (void)old;
  if (size == 0) {
    free(block);
    return NULL;
  }
  if (++limits->calls == limits->fail_at) return NULL;
  return realloc(block, size);
}

TEST(lua_may_have_no_memory) {
  int64_t start = tl_memory_used();
  Limits limits = {0, 0};
#if LUA_VERSION_NUM >= 505
  lua_State *L = lua_newstate(lua_alloc, &limits, 1);
#else
  lua_State *L = lua_newstate(lua_alloc, &limits);
#endif
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  CHECK(luaL_dostring(L, setup) == LUA_OK);
  CHECK(step(L) == LUA_OK);
  int64_t used = used_after_collecting(L);
  limits.calls = 0;
  CHECK(step(L) == LUA_OK);
  int64_t count = limits.calls;
  for (int64_t n = 1; n <= count; n += 1 + n / 50) {
    limits.calls = 0;
    limits.fail_at = n;
    step(L); /* this step may succeed, if an emergency collection has freed memory */
    limits.fail_at = 0;
    lua_settop(L, 0);
    CHECK_AT(n, step(L) == LUA_OK);
    CHECK_AT(n, used_after_collecting(L) == used);
  }
  lua_close(L);
  CHECK(tl_memory_used() == start);
}

int main(void) { return test_all(); }
