/*
** scarce_test.c - tests tasks that allocate in many places when memory runs out: freezing,
** exporting, files, vmap, checkpoints, LAPACK and threads with interpreters (scarce.lua). The
** functions of the C library that allocate are replaced (--wrap in the Makefile), for the engine,
** the binding and Lua. For several n, only the n-th call fails, or the n-th and all later ones
** fail. The task must succeed anyway or raise an error that names the cause. Afterwards all memory
** must be freed, and the task must work.
*/
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stdint.h>

#include "test.h"

/* ---- allocations ---- */

/* the number of calls since `fail` was called, and the range of calls that fail */
static atomic_llong calls, first_failing, last_failing;
/* whether Lua's own allocations succeed in the state that runs the tasks */
static atomic_bool spare_lua;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);
char *__wrap_strdup(const char *text);

static bool fails(void) {
  long long n = atomic_fetch_add(&calls, 1) + 1;
  bool failed = n >= atomic_load(&first_failing) && n <= atomic_load(&last_failing);
  if (failed) errno = ENOMEM;
  return failed;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *block, size_t size) {
  return fails() ? NULL : __real_realloc(block, size);
}
int __wrap_posix_memalign(void **out, size_t align, size_t size) {
  return fails() ? ENOMEM : __real_posix_memalign(out, align, size);
}
char *__wrap_strdup(const char *text) { return fails() ? NULL : __real_strdup(text); }

static void *lua_alloc(void *context, void *block, size_t old, size_t size) {
  (void)context;
  (void)old;
  if (size == 0) {
    free(block);
    return NULL;
  }
  return atomic_load(&spare_lua) ? __real_realloc(block, size) : __wrap_realloc(block, size);
}

/* Makes allocations fail from now on: those with the numbers n to `last`, where the next one is
** number 1. n = 0 turns this off. */
static void fail(long long n, long long last) {
  atomic_store(&last_failing, 0);
  atomic_store(&calls, 0);
  atomic_store(&first_failing, n);
  atomic_store(&last_failing, last);
}

/* ---- tasks ---- */

static lua_State *open_state(void) {
#if LUA_VERSION_NUM >= 505
  lua_State *L = lua_newstate(lua_alloc, NULL, 1);
#else
  lua_State *L = lua_newstate(lua_alloc, NULL);
#endif
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  if (luaL_dofile(L, "spec/lua/scarce.lua") != LUA_OK) {
    printf("# %s\n", lua_tostring(L, -1));
    FAIL("scarce.lua failed");
  }
  lua_setglobal(L, "tasks");
  return L;
}

static int call(lua_State *L, const char *task) {
  lua_settop(L, 0);
  lua_getglobal(L, "tasks");
  lua_getfield(L, -1, task);
  return lua_pcall(L, 0, 0, 0);
}

static void works(lua_State *L, const char *task, long long n) {
  if (call(L, task) == LUA_OK) return;
  printf("# %s, allocation %lld: %s\n", task, n, lua_tostring(L, -1));
  FAIL("a task after a shortage of memory");
}

static int64_t used_after_collecting(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  works(L, "settle", 0);
  lua_settop(L, 0);
  for (int i = 0; i < 2; i++) lua_gc(L, LUA_GCCOLLECT);
  tl_memory_trim();
  return tl_memory_used();
}

/* Runs a task in which the n-th allocation fails, or also all later ones. */
static void short_of_memory(lua_State *L, const char *task, long long n, bool all) {
  atomic_store(&spare_lua, all); /* without memory, Lua calls no finalizers */
  fail(n, all ? INT64_MAX : n);
  int status = call(L, task);
  fail(0, 0);
  atomic_store(&spare_lua, false);
  if (status == LUA_OK) return;
  const char *text = lua_tostring(L, -1);
  if (text && (strstr(text, "memory") || strstr(text, "starts no more threads"))) return;
  printf("# %s, allocation %lld: %s\n", task, n, text ? text : "no message");
  FAIL("an error that names the cause");
}

/* Tests a task for about `points` numbers n. */
static void scarce(const char *task, int points) {
  lua_State *L = open_state();
  for (int i = 0; i < 4; i++) works(L, task, 0);
  int64_t used = used_after_collecting(L);
  fail(0, 0);
  works(L, task, 0);
  long long count = atomic_load(&calls);
  CHECK(count > 0);
  CHECK(used_after_collecting(L) == used);
  for (int all = 0; all < 2; all++)
    for (long long n = 1; n <= count; n += 1 + count / points) {
      short_of_memory(L, task, n, all);
      works(L, task, n);
      CHECK_AT(n, used_after_collecting(L) == used);
    }
  works(L, "close", 0);
  lua_close(L);
}

TEST(freezing) { scarce("freeze", 10); }
TEST(exporting) { scarce("export", 10); }
TEST(exporting_a_training_step) { scarce("training_step", 10); }
TEST(files) { scarce("files", 10); }
TEST(vmap) { scarce("mapping", 10); }
TEST(checkpoints) { scarce("checkpoint", 10); }
TEST(decompositions) { scarce("decompositions", 10); }
TEST(threads_with_interpreters) { scarce("workers", 3); }

int main(void) { return test_all(); }
