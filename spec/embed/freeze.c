/*
** freeze.c - tests that calls of torch.freeze's functions allocate nothing, take no lock and start
** no thread. This file replaces the C library's functions for these tasks by functions that count
** their calls.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test.h"
#include "tlua.h"

/* ---- counts ---- */

static atomic_long mallocs, locks, threads;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTED 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
void *malloc(size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_calloc(n, bytes);
}
void *realloc(void *block, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_realloc(block, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  return __libc_memalign(align, bytes);
}
int posix_memalign(void **out, size_t align, size_t bytes) {
  atomic_fetch_add(&mallocs, 1);
  *out = __libc_memalign(align, bytes);
  return *out ? 0 : ENOMEM;
}

/* The C library's own functions, which the replacements call. They are looked up before the first
** test. */
static int (*real_lock)(pthread_mutex_t *);
static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_mutex_lock(pthread_mutex_t *mutex) {
  atomic_fetch_add(&locks, 1);
  if (real_lock == NULL) *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
  return real_lock(mutex);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
  atomic_fetch_add(&threads, 1);
  if (real_create == NULL) *(void **)&real_create = dlsym(RTLD_NEXT, "pthread_create");
  return real_create(thread, attributes, run, argument);
}
#else
#define COUNTED 0
#endif

typedef struct Counts {
  long mallocs, locks, threads;
} Counts;

static Counts counts(void) {
  return (Counts){atomic_load(&mallocs), atomic_load(&locks), atomic_load(&threads)};
}

/* ---- calls ---- */

/* Opens a state in which the globals `call` and `check` belong to one of the models of
** freeze.lua. */
static lua_State *opened(int model) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L) && tl_set_num_threads(1));
  lua_pushinteger(L, model);
  lua_setglobal(L, "model");
  int status = luaL_dostring(L, "torch.manual_seed(1)\n"
                                "call, check = dofile('spec/embed/freeze.lua')[model][2]()");
  if (status != LUA_OK) printf("# %s\n", lua_tostring(L, -1));
  CHECK(status == LUA_OK);
  return L;
}

static void call(lua_State *L) {
  lua_getglobal(L, "call");
  CHECK(lua_pcall(L, 0, 0, 0) == LUA_OK);
}

/* Makes 3 calls of a model, then 50 calls that must allocate nothing and start no thread. Each
** of the 50 calls must take `locks_each` locks. */
static void check_calls(int model, long locks_each) {
  lua_State *L = opened(model);
  call(L);
  /* frees all objects that no frozen model owns, so that a missing reference shows */
  lua_gc(L, LUA_GCCOLLECT);
  for (int i = 0; i < 2; i++) call(L);
  int64_t used = tl_memory_used();
  Counts before = counts();
  for (int i = 0; i < 50; i++) call(L);
  Counts after = counts();
  CHECK(after.mallocs == before.mallocs && after.threads == before.threads);
  CHECK(after.locks - before.locks == (COUNTED ? 50 * locks_each : 0));
  CHECK(tl_memory_used() == used);
  CHECK(luaL_dostring(L, "assert(check())") == LUA_OK);
  lua_close(L);
}

TEST(calls_of_a_convnet_allocate_nothing) { check_calls(1, 0); }
TEST(steps_of_an_lstm_allocate_nothing) { check_calls(2, 0); }
TEST(tokens_of_a_gpt_allocate_nothing) { check_calls(3, 0); }
/* This step changes parameters, so it takes one lock to keep steps of other threads out. */
TEST(training_steps_allocate_nothing) { check_calls(4, 1); }

static void *no_work(void *context) { return context; }

TEST(allocations_locks_and_threads_are_counted_at_all) {
  Counts before = counts();
  void *volatile block = malloc(100);
  free(block);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, no_work, NULL) == 0 && pthread_join(thread, NULL) == 0);
  Counts after = counts();
  CHECK(!COUNTED || (after.mallocs > before.mallocs && after.locks > before.locks &&
                     after.threads == before.threads + 1));
}

int main(void) { return test_all(); }
