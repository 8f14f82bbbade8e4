/*
** threads.c - tests several threads that run at once, each with its own Lua state, and a host that
** supplies its own worker threads.
*/
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* declares RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "tlua.h"

enum { THREADS = 4, FORKS = 40 };

/* A script that trains a regression and must find the weights 2 and -3. The script returns the
** final loss. */
static const char *training = "local nn, optim = torch.nn, torch.optim\n"
                              "local x = torch.randn(64, 2)\n"
                              "local y = x:matmul(torch.tensor {{2.0}, {-3.0}})\n"
                              "local model = nn.Linear(2, 1)\n"
                              "local adam = optim.Adam(model:parameters(), {lr = 0.1})\n"
                              "local loss\n"
                              "for _ = 1, 200 do\n"
                              "   adam:zero_grad()\n"
                              "   loss = nn.functional.mse_loss(model(x), y)\n"
                              "   loss:backward()\n"
                              "   adam:step()\n"
                              "end\n"
                              "return loss:item()\n";

static void *train(void *loss) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (tl_lua_open(L) && luaL_dostring(L, training) == LUA_OK)
    *(double *)loss = lua_tonumber(L, -1);
  else
    printf("# %s\n", lua_gettop(L) > 0 ? lua_tostring(L, -1) : tl_error());
  lua_close(L);
  return NULL;
}

static void states_on_threads_of_their_own(void) {
  pthread_t threads[THREADS];
  double losses[THREADS];
  for (int i = 0; i < THREADS; i++) {
    losses[i] = 1;
    CHECK(pthread_create(&threads[i], NULL, train, &losses[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(losses[i] < 1e-3);
  }
}

/* A script whose operators have the largest buffers on the stack: operands of different types, the
** gradient of a convolution's weight, a compiled function and a sort. */
static const char *deep =
    "local x = torch.randn(64, 100)\n"
    "local mixed = (x + x:double() + x:half():to 'complex64'):abs():t() + x:t()\n"
    "local conv = torch.nn.Conv2d(256, 256, 1)\n"
    "conv(torch.ones(2, 256, 8, 8)):sum():backward()\n"
    "assert(conv.weight.grad[1][1]:item() == 128)\n"
    "local chain = torch.compile(function(a) return (a * 2 + 1):exp():tanh() end)\n"
    "local sorted = chain(mixed):flatten():sort()\n"
    "assert(sorted:size(1) == 6400)\n";

static __attribute__((unused)) void *train_and_sort(void *loss) {
  train(loss);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (!tl_lua_open(L) || luaL_dostring(L, deep) != LUA_OK) {
    printf("# %s\n", lua_gettop(L) > 0 ? lua_tostring(L, -1) : tl_error());
    *(double *)loss = 1;
  }
  lua_close(L);
  return NULL;
}

/* 128 kilobytes is the default stack of a thread with the C library musl. */
static __attribute__((unused)) void a_thread_with_a_stack_of_128_kilobytes(void) {
  pthread_t thread;
  pthread_attr_t small;
  double loss = 1;
  CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 128 << 10) == 0);
  CHECK(pthread_create(&thread, &small, train_and_sort, &loss) == 0);
  pthread_join(thread, NULL);
  CHECK(loss < 1e-3);
  pthread_attr_destroy(&small);
}

static atomic_int jobs;

static void run_jobs(int tasks, void (*task)(void *context, int i), void *context, void *user) {
  atomic_fetch_add((atomic_int *)user, 1);
  for (int i = tasks - 1; i >= 0; i--) task(context, i);
}

static void a_hosts_own_job_system(void) {
  CHECK(tl_set_num_threads(THREADS));
  tl_set_parallel_run(run_jobs, &jobs);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  CHECK(luaL_dostring(L, "local x = torch.ones(2000, 1000)\n"
                         "assert((x + x):sum():item() == 4e6)") == LUA_OK);
  CHECK(atomic_load(&jobs) > 0);
  lua_close(L);
  tl_set_parallel_run(NULL, NULL);
}

/* ---- forks ---- */

static atomic_bool stop;
static atomic_int rounds;

/* A script that takes each lock of the library: those for small blocks, for large blocks, for
** hooks and for callbacks. */
static const char *busy = "local x = torch.randn(40, 50, {requires_grad = true})\n"
                          "local large = torch.ones(300, 400)\n"
                          "local F = torch.class('F', torch.autograd.Function)\n"
                          "function F.forward(ctx, a) return a * 2 end\n"
                          "function F.backward(ctx, g) return g * 2 end\n"
                          "local y = F:apply(x)\n"
                          "y:register_hook(function(g) return g + 1 end)\n"
                          "y:retain_grad()\n"
                          "local w = torch.randn(50, 30)\n"
                          "local loss = (y:matmul(w):exp() * 1e-6):sum() + large:sum()\n"
                          "loss:backward()\n"
                          "return x.grad:numel()\n";

static bool run_busy(lua_State *L) {
  bool ok = luaL_dostring(L, busy) == LUA_OK && lua_tointeger(L, -1) == 2000;
  lua_settop(L, 0);
  return ok;
}

static void *keep_busy(void *failures) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (!tl_lua_open(L)) atomic_fetch_add((atomic_int *)failures, 1);
  while (!atomic_load(&stop)) {
    if (!run_busy(L)) atomic_fetch_add((atomic_int *)failures, 1);
    atomic_fetch_add(&rounds, 1);
  }
  lua_close(L);
  return NULL;
}

/* The code of a child process. It uses its parent's state and a new state, each with several
** threads. */
static bool child_works(lua_State *L) {
#ifdef __SANITIZE_THREAD__ /* the thread sanitizer does not allow threads after a fork */
  if (!tl_set_num_threads(1)) return false;
#endif
  for (int i = 0; i < 3; i++)
    if (!run_busy(L)) return false;
  lua_State *own = luaL_newstate();
  luaL_openlibs(own);
  bool ok = tl_lua_open(own) && run_busy(own);
  lua_close(own);
  tl_memory_trim();
  return ok && tl_memory_used() > 0;
}

static __attribute__((unused)) void children_of_a_busy_process(void) {
  CHECK(tl_set_num_threads(2));
  pthread_t threads[THREADS];
  atomic_int failures = 0;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, keep_busy, &failures);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  for (int i = 0; i < FORKS; i++) {
    int before = atomic_load(&rounds);
    while (atomic_load(&rounds) == before) CHECK(run_busy(L));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      alarm(600);
      _exit(child_works(L) ? 0 : 1);
    }
    int status = -1;
    CHECK_AT(i, waitpid(child, &status, 0) == child && status == 0);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(failures == 0);
  lua_close(L);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SEES_LOCKS 1
enum { MOST_TAKEN = 64 };
static bool notes_locks;
static pthread_mutex_t *taken[MOST_TAKEN];
static int ntaken;

/* Takes the place of the C library's function, and notes which locks the main thread takes. */
int pthread_mutex_lock(pthread_mutex_t *mutex) {
  static int (*_Atomic real)(pthread_mutex_t *);
  if (real == NULL) {
    void *symbol = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    memcpy((void *)&real, &symbol, sizeof symbol);
  }
  if (notes_locks && ntaken < MOST_TAKEN) taken[ntaken++] = mutex;
  return real(mutex);
}

/* Tests the order in which a fork takes the locks of the library. Threads hold some of these locks
** while they allocate memory, so a fork that took the allocator's lock first would wait for such a
** thread, which waits for the fork. Only the lock of the live storages may come after it, since no
** thread holds both. */
static void a_fork_takes_the_allocators_lock_last(void) {
  notes_locks = true;
  (void)tl_memory_used();
  notes_locks = false;
  CHECK(ntaken == 1);
  const pthread_mutex_t *allocator = taken[0];
  ntaken = 0;
  fflush(stdout);
  notes_locks = true;
  pid_t child = fork();
  notes_locks = false;
  if (child == 0) _exit(0);
  int status = -1, at = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  while (at < ntaken && taken[at] != allocator) at++;
  CHECK(ntaken > 2 && at < ntaken && at >= ntaken - 2);
}
#endif

static const char open_loop[] =
    "local torch = require 'tlua'\n"
    "local x = torch.arange(1, 101):view(100, 1)\n"
    "local data = torch.data.TensorDataset(x)\n"
    "batches = torch.data.DataLoader(data, {num_workers = 2}):iter()\n"
    "batches()\n"
    "function count()\n"
    "  local n = 0\n"
    "  for _ in torch.data.DataLoader(data, {num_workers = 2}):iter() do n = n + 1 end\n"
    "  return n\n"
    "end\n";

static const char in_child[] =
    "local ok, message = pcall(batches)\n"
    "assert(not ok and message:find 'the process that has forked this one', message)\n"
    "batches = nil\n"
    "collectgarbage()\n"
    "assert(count() == 100)\n";

/* Tests a child process that continues a loop over a data loader. The loader's workers are threads
** of the parent, which do not exist in the child. So the loop must fail instead of waiting for
** them, and a new loop must work. */
static __attribute__((unused)) void a_childs_loop_over_data(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(tl_lua_open(L));
  CHECK(luaL_dostring(L, open_loop) == LUA_OK);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(120);
    bool ok = luaL_dostring(L, in_child) == LUA_OK;
    if (!ok) printf("# %s\n", lua_tostring(L, -1));
    lua_close(L);
    fflush(stdout);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(luaL_dostring(L, "for _ in batches do end assert(count() == 100)") == LUA_OK);
  lua_close(L);
}

int main(void) {
  /* this test must run before any operator starts the library's own threads */
  RUN(a_hosts_own_job_system);
  RUN(states_on_threads_of_their_own);
#ifdef SEES_LOCKS
  RUN(a_fork_takes_the_allocators_lock_last);
#endif
#ifndef __SANITIZE_ADDRESS__
  RUN(a_thread_with_a_stack_of_128_kilobytes); /* the sanitizer makes frames larger */
  /* in a forked child, the locks of the sanitizer's allocator may stay locked */
  if (!test_emulated()) RUN(children_of_a_busy_process);
  RUN(a_childs_loop_over_data);
#endif
  return test_end();
}
