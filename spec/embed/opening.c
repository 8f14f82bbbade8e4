/*
** opening.c - tests opening the library while memory runs out. Each of Lua's allocations fails in
** turn; after the failure, the state is closed, or the library is opened again.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "tlua.h"

enum { PROCESSES = 4 };

/* An allocator in which the calls with the numbers `from` to `until` fail; the first call has
** the number 1. */
typedef struct Memory {
  long calls, from, until;
} Memory;

static void *allocate(void *context, void *block, size_t old_size, size_t size) {
  Memory *m = context;
  if (size == 0) {
    free(block);
    return NULL;
  }
  /* shrinking a block must not fail, because Lua relies on this */
  if (block == NULL || size > old_size) {
    m->calls++;
    if (m->calls >= m->from && m->calls < m->until) return NULL;
  }
  return realloc(block, size);
}

static lua_State *new_state(Memory *m) {
  *m = (Memory){0, 0, 0};
#if LUA_VERSION_NUM >= 505
  lua_State *L = lua_newstate(allocate, m, 1);
#else
  lua_State *L = lua_newstate(allocate, m);
#endif
  luaL_openlibs(L);
  m->calls = 0;
  return L;
}

/* Returns the number of allocations that opening the library makes. */
static long allocations(void) {
  Memory m;
  lua_State *L = new_state(&m);
  CHECK(tl_lua_open(L));
  long n = m.calls;
  lua_close(L);
  return n;
}

static void open_without_memory(long n) {
  Memory m;
  lua_State *L = new_state(&m);
  m.from = n;
  m.until = 1L << 40;
  CHECK_AT(n, !tl_lua_open(L));
  CHECK_AT(n, lua_gettop(L) == 0);
  lua_close(L);
}

/* Lua tries a failed allocation again after a garbage collection, so the allocator must fail
** twice in a row. */
static void open_again(long n) {
  Memory m;
  lua_State *L = new_state(&m);
  m.from = n;
  m.until = n + 2;
  bool opened = tl_lua_open(L); /* opening may succeed, because Lua recovers from some failures */
  m.from = m.until = 0;
  CHECK_AT(n, opened || tl_lua_open(L));
  const char *script =
      "local m = torch.nn.Linear(2, 3)\n"
      "coroutine.wrap(function() torch.no_grad(function() m(torch.ones(1, 2)) end) end)()\n"
      "m(torch.ones(1, 2)):sum():backward()\n"
      "assert(m.bias.grad:sum():item() == 3 and require 'tlua.nn' == torch.nn)";
  if (luaL_dostring(L, script) != LUA_OK) {
    printf("  at %ld: %s\n", n, lua_tostring(L, -1));
    FAIL("the library does not work after a second attempt");
  }
  lua_close(L);
}

/* Calls attempt(n) for the number n of each allocation that opening makes. Several processes share
** the work. */
static void for_each_allocation(void (*attempt)(long n), long step) {
  long total = allocations();
  pid_t children[PROCESSES];
  fflush(stdout);
  for (long p = 0; p < PROCESSES; p++) {
    children[p] = fork();
    CHECK(children[p] >= 0);
    if (children[p] != 0) continue;
    for (long n = 1 + p * step; n <= total; n += PROCESSES * step) attempt(n);
    fflush(stdout);
    _exit(test_faults > 0);
  }
  for (int p = 0; p < PROCESSES; p++) {
    int status = -1;
    CHECK(waitpid(children[p], &status, 0) == children[p]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

TEST(a_state_that_opens_without_memory_closes) { for_each_allocation(open_without_memory, 1); }

TEST(a_second_attempt_opens_it) { for_each_allocation(open_again, 5); }

int main(void) { return test_all(); }
